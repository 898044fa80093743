//! Values that follow from several settings.

use std::collections::HashMap;
use std::time::Duration;

use super::catalogue::{Dfsp, Settings};
use super::choices::{OutboundAddresses, Profile, SignatureMode};

/// Default of `hub.transfer_validity_max_s` with the production profile.
const PRODUCTION_VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);

impl Settings {
    /// The longest time until a transfer's expiration; `None` for no limit.
    pub fn transfer_validity_max(&self) -> Option<Duration> {
        match (self.hub.transfer_validity_max_s, self.security.profile) {
            (Duration::ZERO, Profile::Production) => Some(PRODUCTION_VALIDITY),
            (Duration::ZERO, Profile::Development) => None,
            (limit, _) => Some(limit),
        }
    }

    /// Whether callbacks and lookups may connect to public addresses only.
    pub fn is_outbound_guarded(&self) -> bool {
        match self.outbound.addresses {
            OutboundAddresses::Public => true,
            OutboundAddresses::Any => false,
            OutboundAddresses::Profile => self.security.profile != Profile::Development,
        }
    }

    /// The signature mode of each participant.
    pub fn signature_modes(&self) -> SignatureModes {
        SignatureModes::new(self.jws.mode, &self.dfsps)
    }
}

/// The signature mode of each participant.
#[derive(Clone, Debug)]
pub struct SignatureModes {
    mode: SignatureMode,
    /// By the participant's name in lower case.
    exceptions: HashMap<String, SignatureMode>,
}

impl SignatureModes {
    fn new(mode: SignatureMode, dfsps: &[Dfsp]) -> Self {
        let exception =
            |dfsp: &Dfsp| Some((dfsp.name.as_str().to_ascii_lowercase(), dfsp.settings.signatures?));
        Self { mode, exceptions: dfsps.iter().filter_map(exception).collect() }
    }

    /// The mode of a participant.
    pub fn of(&self, name: &str) -> SignatureMode {
        if self.exceptions.is_empty() {
            return self.mode;
        }
        self.exceptions.get(&name.to_ascii_lowercase()).copied().unwrap_or(self.mode)
    }

    /// Whether the signatures of any participant are verified.
    pub fn verifies_any(&self) -> bool {
        self.mode != SignatureMode::Off || self.exceptions.values().any(|mode| *mode != SignatureMode::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sources, load};

    fn modes(mode: &str, exceptions: &[(&str, &str)]) -> SignatureModes {
        let flag = |key: String, value: &str| ("--set".to_owned(), key, value.to_owned());
        let exceptions = exceptions.iter().map(|(name, mode)| flag(format!("dfsp.{name}.signatures"), mode));
        let flags = [flag("jws.mode".to_owned(), mode)].into_iter().chain(exceptions).collect();
        load(&Sources { flags, ..Sources::default() }).unwrap().settings.signature_modes()
    }

    #[test]
    fn exceptions_apply_to_names_in_any_case() {
        let read = modes("enforce", &[("greenbank", "warn"), ("BlueBank", "off")]);
        let found = ["GREENBANK", "bluebank", "redbank"].map(|name| read.of(name));
        assert_eq!(found, [SignatureMode::Warn, SignatureMode::Off, SignatureMode::Enforce]);
        assert!(read.verifies_any());
        assert!(modes("off", &[("greenbank", "warn")]).verifies_any());
        assert!(!modes("off", &[("greenbank", "off")]).verifies_any());
        assert!(!modes("off", &[]).verifies_any());
    }
}
