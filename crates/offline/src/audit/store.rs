//! The store beside the journal: a digest of its content, which is the same on all nodes of a cluster.

use std::path::Path;

use upesi_tables::store::{StoreDigest, digest};

use super::findings::Findings;

/// Directory of the store.
const STORE: &str = "store";

/// The digest of the store, or the reason why it was not read.
pub type StoreResult = Result<StoreDigest, String>;

/// Reads the store of a data directory, unless it is left out. An unreadable store is a finding; a missing one is not.
pub(super) fn read_store_unless(
    left_out: Option<&str>,
    directory: &Path,
    findings: &mut Findings,
) -> StoreResult {
    if let Some(why) = left_out {
        return Err(why.to_owned());
    }
    let path = directory.join(STORE);
    if !path.is_dir() {
        return Err("it does not exist".to_owned());
    }
    digest(&path).map_err(|error| {
        findings.add(error.to_string());
        "it cannot be read".to_owned()
    })
}
