//! A look at where the hub's CPU time goes, under the load that was measured and right after it, so that the figures
//! are those of a hub that nobody looked at.

use std::path::Path;
use std::time::{Duration, Instant};

use upesi_profile::{Profile, StageShares};

use crate::drive::admin_client::{AdminClient, AdminError};
use crate::drive::load::Window;
use crate::drive::parallel::Loads;
use crate::drive::run::{RAMP, Run};
use crate::drive::system::Subject;

/// How long a run of a suite is looked at: as long as [`upesi_profile`] takes for some two thousand samples of one
/// core.
pub const LENGTH: Duration = Duration::from_secs(10);
/// Load after the look, so that all of it is under load.
const MARGIN: Duration = Duration::from_secs(1);
pub const FLAME_GRAPH: &str = "profile.svg";
pub const STACKS: &str = "profile.folded";
pub const SHARES: &str = "shares.json";

#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Keeps a profile's stacks in a directory, and of the same samples a graph for people and the share of each stage.
/// Errors: what the system said.
pub fn keep(directory: &Path, folded: &str, length: Duration) -> std::io::Result<()> {
    let shares = StageShares::of_folded(folded).to_json();
    let shares = serde_json::to_string_pretty(&shares).unwrap_or_default() + "\n";
    let graph = Profile::from_folded(folded, length).flame_graph("Where the hub's CPU time goes");
    std::fs::write(directory.join(FLAME_GRAPH), graph)?;
    std::fs::write(directory.join(STACKS), folded)?;
    std::fs::write(directory.join(SHARES), shares)
}

/// Of several runs of one point, what was seen of the first stands for all.
pub(crate) fn carry(directory: &Path) {
    for name in [FLAME_GRAPH, SHARES] {
        let seen = directory.join("repetition-1").join(name);
        if seen.is_file() {
            // The run itself is there; a picture of it is not worth losing it for.
            let _ = std::fs::copy(seen, directory.join(name));
        }
    }
}

impl Run<'_> {
    /// Drives the hub on and looks at it. What is sent counts for the audit, and for no figure. A hub that shows
    /// nothing of itself loses nothing but the picture.
    pub(crate) async fn look(&self, hub: &mut Subject, admin: &AdminClient, length: Duration) {
        let Some(out) = self.options.out.as_deref() else { return };
        self.progress.set_message("looking where the CPU time goes");
        let from = Instant::now();
        let until = from + RAMP + length + MARGIN;
        // Nothing begins or ends at the one moment that is measured.
        let window = Window { from, measure_from: until, measure_until: until, until };
        let seed = self.options.seed ^ hub.slices.len() as u64;
        let running = Loads::start(&self.workers, &hub.generators, &self.options.load, seed, window);
        tokio::time::sleep(RAMP).await;
        if let Err(error) = see(admin, out, length).await {
            tracing::warn!(%error, "the hub cannot be looked into: only Upesi's can, where admin.profiling is not false");
        }
        hub.add(&running.finish().await);
    }
}

async fn see(admin: &AdminClient, out: &Path, length: Duration) -> Result<(), LookError> {
    let path = format!("/debug/profile?seconds={}&format=folded", length.as_secs());
    let folded = admin.get(&path).await?;
    Ok(keep(out, &String::from_utf8_lossy(&folded), length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_kept_with_their_graph_and_their_shares() {
        let directory = tempfile::tempdir().unwrap();
        let first = directory.path().join("repetition-1");
        std::fs::create_dir(&first).unwrap();
        carry(directory.path());
        assert!(!directory.path().join(SHARES).exists(), "nothing was seen yet");
        keep(&first, "edge;upesi_gateway::parse 3\nengine;upesi_journal::append 1\n", LENGTH).unwrap();
        let shares: serde_json::Value =
            serde_json::from_slice(&std::fs::read(first.join(SHARES)).unwrap()).unwrap();
        assert_eq!(shares["samples"], 4);
        carry(directory.path());
        assert!(directory.path().join(SHARES).is_file() && directory.path().join(FLAME_GRAPH).is_file());
        assert!(std::fs::read_to_string(first.join(FLAME_GRAPH)).unwrap().contains("<svg"));
    }
}
