//! The store beside the journal: what it holds, in a number that is the same on all nodes of a cluster.

use std::path::Path;

use upesi_tables::store::{StoreDigest, digest};

use super::Findings;

/// The store's place in a data directory.
const DIRECTORY: &str = "store";

/// What the store holds, or why it was not read.
pub type StoreResult = Result<StoreDigest, String>;

/// Reads the store of a data directory, unless it is to be left out. That it cannot be read is a finding; that there is
/// none is not.
pub(super) fn read_unless(left_out: Option<&str>, directory: &Path, findings: &mut Findings) -> StoreResult {
    if let Some(why) = left_out {
        return Err(why.to_owned());
    }
    let path = directory.join(DIRECTORY);
    if !path.is_dir() {
        return Err("there is none".to_owned());
    }
    digest(&path).map_err(|error| {
        findings.add(error.to_string());
        "it cannot be read".to_owned()
    })
}
