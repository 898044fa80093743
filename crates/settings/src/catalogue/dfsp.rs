//! Settings of a single DFSP: a table `[[dfsp]]` of the file.

use upesi_types::FspId;

use crate::choices::SignatureMode;
use crate::kind::{Integer, List, Optional};
use crate::mistake::ValueOrigin;
use crate::setting::{DFSP, Group, Reader, Section, SettingGroup, group};
use crate::words::DfspNetwork;

group! {
    /// Settings of a single DFSP. For an absent setting, the setting of all DFSPs applies.
    DfspSettings {
        /// Networks that the DFSP's requests may come from, such as `["192.0.2.0/24", "2001:db8:7::/48"]`. A request of
        /// the DFSP from any other address is rejected with 403 and code 3000, and its connection is closed. Without
        /// it, the DFSP may call from anywhere. An IPv6 network has a prefix of at most 64 bits.
        networks: Optional<List<DfspNetwork, 1>> = "",
        /// Handling of messages without a valid signature of this DFSP, instead of `jws.mode`: `off`, `warn` or
        /// `enforce`.
        signatures: Optional<SignatureMode> = "",
        /// Rate limit on its lookups, per second, instead of `admission.lookups_per_dfsp`; 0 for no limit.
        lookups_per_s: Optional<Integer<0, 10_000_000>> = "",
        /// Rate limit on its lookups of unknown parties, per second, instead of `admission.lookup_misses_per_dfsp`; 0
        /// for no limit.
        lookup_misses_per_s: Optional<Integer<0, 10_000_000>> = "",
        /// Rate limit on its changes of the directory, per second, instead of `admission.registrations_per_dfsp`; 0 for
        /// no limit.
        registrations_per_s: Optional<Integer<0, 10_000_000>> = "",
        /// Rate limit on its messages with a wrong signature, per second, instead of
        /// `admission.signature_faults_per_dfsp`; 0 for no limit.
        signature_faults_per_s: Optional<Integer<0, 10_000_000>> = "",
    }
}

/// A DFSP with its own settings.
#[derive(Clone, Debug)]
pub struct Dfsp {
    /// Its name. The case of letters does not matter.
    pub name: FspId,
    pub settings: DfspSettings,
}

/// The tables, as a section of the documentation.
pub static DFSP_SECTION: Section = Section {
    name: DFSP,
    help: &[
        " Settings of a single DFSP, which replace the settings of all DFSPs. The file has one table for each DFSP, which",
        " begins with its `name`. A variable contains the name, too: `UPESI__DFSP__GREENBANK__SIGNATURES=warn`. So does",
        " a flag: `--set dfsp.greenbank.signatures=warn`. The case of letters in names does not matter.",
    ],
    fixed: &[],
    is_expert: true,
};

impl Dfsp {
    pub(crate) fn read(name: FspId, reader: &mut Reader) -> Self {
        let (prefix, before) = (key_prefix(&name), reader.entries.len());
        let settings = DfspSettings::read(SettingGroup { prefix: &prefix, section: &DFSP_SECTION }, reader);
        // Only settings that a source contains are values in effect.
        let entries = reader.entries.split_off(before);
        reader.entries.extend(entries.into_iter().filter(|entry| entry.origin != ValueOrigin::Default));
        Self { name, settings }
    }
}

/// Beginning of the keys of a DFSP's settings.
pub(crate) fn key_prefix(name: &FspId) -> String {
    format!("{DFSP}.{}", name.as_str().to_ascii_lowercase())
}
