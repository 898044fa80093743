//! The files of a CPU profile of the hub, in the directory of a run.

use std::path::Path;
use std::time::Duration;

use upesi_profile::{Profile, StageShares};

pub const FLAME_GRAPH: &str = "profile.svg";
pub const STACKS: &str = "profile.folded";
pub const SHARES: &str = "shares.json";

/// Keeps a profile's stacks in a directory, with a flame graph and the share of each stage from the same samples. Fails
/// with the system's error.
pub fn keep(directory: &Path, folded: &str, length: Duration) -> std::io::Result<()> {
    let shares = StageShares::of_folded(folded).to_json();
    let shares = serde_json::to_string_pretty(&shares).unwrap_or_default() + "\n";
    let graph = Profile::from_folded(folded, length).flame_graph("Where the hub's CPU time goes");
    std::fs::write(directory.join(FLAME_GRAPH), graph)?;
    std::fs::write(directory.join(STACKS), folded)?;
    std::fs::write(directory.join(SHARES), shares)
}

/// For several runs of one point, the profile of the first one stands for all.
pub(crate) fn carry(directory: &Path) {
    for name in [FLAME_GRAPH, SHARES] {
        let seen = directory.join("repetition-1").join(name);
        if seen.is_file() {
            // The run itself exists, and must not fail because a picture cannot be copied.
            let _ = std::fs::copy(seen, directory.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_kept_with_graph_and_shares() {
        let directory = tempfile::tempdir().unwrap();
        let first = directory.path().join("repetition-1");
        std::fs::create_dir(&first).unwrap();
        carry(directory.path());
        assert!(!directory.path().join(SHARES).exists(), "nothing was seen yet");
        keep(
            &first,
            "edge;upesi_gateway::parse 3\nengine;upesi_journal::append 1\n",
            Duration::from_secs(10),
        )
        .unwrap();
        let shares: serde_json::Value =
            serde_json::from_slice(&std::fs::read(first.join(SHARES)).unwrap()).unwrap();
        assert_eq!(shares["samples"], 4);
        carry(directory.path());
        assert!(directory.path().join(SHARES).is_file() && directory.path().join(FLAME_GRAPH).is_file());
        assert!(std::fs::read_to_string(first.join(FLAME_GRAPH)).unwrap().contains("<svg"));
    }
}
