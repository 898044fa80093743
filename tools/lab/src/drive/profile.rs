//! A CPU profile of the hub under the measured load. It is taken right after the measurement, so that the figures are
//! not affected by profiling.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::admin_client::{AdminClient, AdminError};
use crate::drive::parallel::Loads;
use crate::drive::session::{RAMP, Run};
use crate::drive::subject::Subject;
use crate::observe::profile::keep;
use crate::observe::window::Window;

/// Duration of load after the profile, so that all of it is under load.
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Run<'_> {
    /// Continues the load and profiles the hub. The audit includes these operations, but no figure does. If the hub
    /// returns no profile, only the profile is missing.
    pub(crate) async fn look(&self, hub: &mut Subject, admin: &AdminClient, length: Duration) {
        let Some(out) = self.options.out.as_deref() else { return };
        self.progress.set_message("looking where the CPU time goes");
        let from = Instant::now();
        let until = from + RAMP + length + MARGIN;
        // No operation starts or ends at the single measured moment.
        let window = Window { from, measure_from: until, measure_until: until, until };
        let seed = self.options.seed ^ hub.slices.len() as u64;
        let running = Loads::start(&self.workers, &hub.generators, &self.options.load, seed, window);
        tokio::time::sleep(RAMP).await;
        if let Err(error) = see(admin, out, length).await {
            tracing::warn!(%error, "cannot profile the hub: this needs an Upesi hub with admin.profiling = true");
        }
        hub.add(&running.finish().await);
    }
}

async fn see(admin: &AdminClient, out: &Path, length: Duration) -> Result<(), LookError> {
    let path = format!("/debug/profile?seconds={}&format=folded", length.as_secs());
    let folded = admin.get(&path).await?;
    Ok(keep(out, &String::from_utf8_lossy(&folded), length)?)
}
