//! `upesi serve`: a hub as a process, from start to orderly end.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tracing::Level;
use upesi_engine::{StopReason, SystemClock};

use super::Hub;
use crate::config::{Settings, missing_for_production};
use crate::exit::Exit;
use crate::logging::LogControl;
use crate::signals::{at_hang_up, stop_signal};

/// Runs a hub until it is told to stop or its disk fails.
///
/// Why it ends otherwise than in order is said on stderr, whatever the log's level.
pub fn serve(settings: &Settings, log: LogControl) -> Exit {
    let hub = match Hub::start(settings, log, Arc::new(SystemClock)) {
        Ok(hub) => hub,
        Err(error) => {
            report(&error, "the hub does not start");
            return error.exit();
        }
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report(&error, "the hub does not start");
            return Exit::Temporary;
        }
    };
    runtime.block_on(run(hub, settings))
}

/// Who waits for this line may send signals from then on.
fn tell_that_it_serves(hub: &Hub, settings: &Settings) {
    tracing::info!(
        fspiop = %hub.fspiop_address(),
        admin = %hub.admin_address(),
        data = %settings.data.dir.display(),
        durable = settings.engine.durable,
        version = crate::version::VERSION,
        "the hub is serving"
    );
    tell_what_is_missing(settings);
}

/// A line about what the profile lets the hub go without.
fn tell_what_is_missing(settings: &Settings) {
    let missing = missing_for_production(settings);
    if !missing.is_empty() {
        let (profile, missing) = (settings.security.profile, missing.join(", "));
        tracing::warn!(profile, missing, "this hub lacks what payments over a network need");
    }
}

async fn run(hub: Hub, settings: &Settings) -> Exit {
    let exit = {
        let (stop, hang_up) = (stop_signal(), at_hang_up(|| hub.reload_keys()));
        tell_that_it_serves(&hub, settings);
        tokio::select! {
            name = stop => {
                tracing::info!(signal = name, "stopping in order");
                Exit::Success
            }
            never = hang_up => match never {},
            reason = hub.failed() => {
                report(&reason, "the hub stops; acknowledged requests are on disk");
                exit_of_stop(&reason)
            }
        }
    };
    hub.shutdown(Duration::from_millis(settings.shutdown.drain_deadline_ms)).await;
    tracing::info!("stopped");
    exit
}

fn exit_of_stop(reason: &StopReason) -> Exit {
    match reason {
        StopReason::Shutdown => Exit::Success,
        StopReason::Panicked(_) => Exit::Software,
        StopReason::Journal(_) | StopReason::Archive(_) => Exit::InputOutput,
    }
}

fn report(reason: &dyn Display, what: &str) {
    if tracing::enabled!(Level::ERROR) {
        tracing::error!(error = %reason, "{what}");
    } else {
        eprintln!("upesi: {what}: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use upesi_journal::{Damage, JournalError};

    use super::super::HubError;
    use super::*;

    #[test]
    fn a_failed_disk_ends_the_process_with_74() {
        for (reason, code) in [
            (StopReason::Shutdown, 0),
            (StopReason::Panicked("upesi-archivist"), 70),
            (StopReason::Journal("cannot sync".into()), 74),
            (StopReason::Archive("cannot write".into()), 74),
        ] {
            assert_eq!(exit_of_stop(&reason).code(), code, "{reason}");
        }
    }

    #[test]
    fn a_start_tells_a_failed_disk_from_damage() {
        let io = JournalError::Io { operation: "sync", file: "journal".into(), source: Error::other("EIO") };
        let reason = Damage::FileHeader;
        let damaged = JournalError::Damaged { file: "00.seg".into(), offset: 0, reason };
        for (error, code) in [(io, 74), (JournalError::Poisoned, 74), (damaged, 65)] {
            let error = HubError::Engine(error.into());
            assert_eq!(error.exit().code(), code, "{error}");
        }
    }
}
