//! `upesi serve`: a hub as a process, from start to shutdown.

use std::fmt::Display;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Level;
use upesi_engine::{StartError, StopReason, SystemClock};
use upesi_journal::DataDirectory;
use upesi_process::exit::Exit;
use upesi_process::signals::{at_hang_up, stop_signal};
use upesi_process::terminal::note;
use upesi_settings::{Choice as _, Settings, missing_for_production};

use super::cluster::config::number_of;
use super::error::HubError;
use super::follower_state::Read;
use super::following::Following;
use super::hub::Hub;
use super::node::NodeMetrics;
use super::standby::{Elected, stand_by};
use crate::logging::LogControl;

/// Runs a hub until it is stopped or its disk fails. A node of a cluster follows the log until it becomes leader,
/// serves while it is the leader, and then follows again.
///
/// Abnormal exits are reported on stderr regardless of the log level.
pub fn serve(settings: &Settings, log: LogControl) -> Exit {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report(&error, "the hub does not start");
            return Exit::Temporary;
        }
    };
    // One for the whole life of a node: a signal between following and serving must not be lost.
    let mut stop = None;
    let metrics = Arc::<NodeMetrics>::default();
    loop {
        let hub = match lead(&runtime, settings, log.clone(), &mut stop, &metrics) {
            Ok(Some(hub)) => hub,
            Ok(None) => return Exit::Success,
            Err(error) => {
                report(&error, "the hub does not start");
                return error.exit();
            }
        };
        let stop = stop.get_or_insert_with(|| caught(&runtime));
        if let Some(exit) = runtime.block_on(run(hub, settings, stop, &metrics)) {
            return exit;
        }
    }
}

/// The name of the signal that stops the process.
type Stop = Pin<Box<dyn Future<Output = &'static str>>>;

fn caught(runtime: &Runtime) -> Stop {
    let _entered = runtime.enter();
    Box::pin(stop_signal())
}

/// Starts the hub once it may serve; `None` if the process was stopped before.
fn lead(
    runtime: &Runtime,
    settings: &Settings,
    log: LogControl,
    stop: &mut Option<Stop>,
    metrics: &Arc<NodeMetrics>,
) -> Result<Option<Hub>, HubError> {
    expect_ledger(settings)?;
    if number_of(settings).is_none() {
        return Hub::start(settings, log, Arc::new(SystemClock)).map(Some);
    }
    let stop = stop.get_or_insert_with(|| caught(runtime));
    let Some(elected) = runtime.block_on(stand_by_until(stop, settings, metrics, log.clone()))? else {
        return Ok(None);
    };
    runtime.block_on(start_until(stop, settings, metrics, log, elected))
}

/// With `data.must_exist`, rejects a directory without a ledger, because its volume may not be mounted.
fn expect_ledger(settings: &Settings) -> Result<(), HubError> {
    let data = &settings.data;
    // The start reports every other problem of the directory.
    match DataDirectory::is_absent_or_empty(&data.dir) {
        Ok(true) if data.must_exist => Err(HubError::NoLedger(data.dir.clone())),
        _ => Ok(()),
    }
}

/// Time for the brokers to respond after a stop signal. Then the process exits without them: requests that no broker
/// has acknowledged are not answered, and the data on disk stays.
const BROKERS_PATIENCE: Duration = Duration::from_secs(4);

/// Runs work on a separate thread. The process may exit without waiting for it.
fn beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<thread::Result<T>>, HubError> {
    let (tell, told) = oneshot::channel();
    let work = move || {
        let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
    };
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(StartError::Thread)?;
    Ok(told)
}

/// The result of the work; `None` if it took longer.
async fn within<T>(patience: Duration, told: &mut oneshot::Receiver<thread::Result<T>>) -> Option<T> {
    timeout(patience, told).await.ok().map(result_of)
}

/// Resumes a panic of the work.
fn result_of<T>(told: Result<thread::Result<T>, oneshot::error::RecvError>) -> T {
    match told {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("the work sends its result, or its panic"),
    }
}

/// Starts the hub on the log of which this node is the leader. `None` if a stop signal comes first, because the start
/// may wait for brokers.
async fn start_until(
    stop: &mut Stop,
    settings: &Settings,
    metrics: &NodeMetrics,
    log: LogControl,
    elected: Elected,
) -> Result<Option<Hub>, HubError> {
    let stops = Arc::clone(&elected.node.stops);
    let own = settings.clone();
    let start = move || Hub::start_on(&own, log, Arc::new(SystemClock), Some(elected));
    match finish_unless(stop, &stops, start).await? {
        Ended::Finished(started) => return started.map(Some),
        Ended::Stopped(Some(Ok(hub))) => {
            hand_over(&hub, settings, metrics).await;
            hub.shutdown(settings.shutdown.drain_deadline_ms).await;
        }
        Ended::Stopped(Some(Err(error))) => tracing::warn!(%error, "stopped before it served"),
        Ended::Stopped(None) => tracing::warn!("stopped before it served: the start was waiting for brokers"),
    }
    Ok(None)
}

/// The end of work that waits for brokers.
enum Ended<T> {
    /// It finished before a stop signal.
    Finished(T),
    /// A stop signal came first. `None`: the work did not end even after it was told not to wait for brokers.
    Stopped(Option<T>),
}

/// Runs work until it finishes, or until a stop signal and the patience after it. `stops` tells the work to wait for
/// brokers no longer.
async fn finish_unless<T: Send + 'static>(
    stop: &mut Stop,
    stops: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Ended<T>, HubError> {
    let mut working = beside("upesi-start", work)?;
    let name = tokio::select! {
        finished = &mut working => return Ok(Ended::Finished(result_of(finished))),
        name = stop => name,
    };
    tracing::info!(signal = name, "shutting down");
    let mut finished = within(BROKERS_PATIENCE, &mut working).await;
    if finished.is_none() {
        stops.store(true, Ordering::Release);
        finished = within(BROKERS_PATIENCE, &mut working).await;
    }
    Ok(Ended::Stopped(finished))
}

async fn stand_by_until(
    stop: &mut Stop,
    settings: &Settings,
    metrics: &Arc<NodeMetrics>,
    log: LogControl,
) -> Result<Option<Elected>, HubError> {
    let patience = settings.shutdown.drain_deadline_ms;
    let read = Read::new(Arc::clone(metrics));
    let following = Following::open(settings, &read, log)?;
    let stops = Arc::new(AtomicBool::new(false));
    let (settings, standing_by) = (settings.clone(), Arc::clone(&stops));
    let follow = move || stand_by(&settings, &standing_by, &read);
    let mut standing = beside("upesi-standby", follow)?;
    let reload = || following.iter().for_each(Following::reload_keys);
    let stood = tokio::select! {
        stood = &mut standing => result_of(stood),
        never = at_hang_up(reload) => match never {},
        name = stop => {
            tracing::info!(signal = name, "shutting down");
            stops.store(true, Ordering::Release);
            // Should it lead by now, it is not to begin.
            match within(BROKERS_PATIENCE, &mut standing).await {
                Some(stood) => stood.map(|_| None),
                None => {
                    tracing::warn!("the brokers do not respond; the node stops without them");
                    Ok(None)
                }
            }
        }
    };
    match following {
        Some(following) if matches!(stood, Ok(Some(_))) => following.leave(patience).await,
        Some(following) => following.close(patience).await,
        None => {}
    }
    Ok(stood?)
}

/// From this log line on, the process handles signals.
fn tell_that_it_serves(hub: &Hub, settings: &Settings) {
    tracing::info!(
        fspiop = %hub.fspiop_address(),
        admin = %hub.admin_address(),
        data = %settings.data.dir.display(),
        durable = settings.engine.durable,
        version = upesi_process::version::VERSION,
        "the hub is serving"
    );
    tell_what_is_missing(settings);
    if hub.handle.status().is_new {
        let data = settings.data.dir.display();
        tracing::warn!(
            %data,
            "the ledger is empty: it has no DFSP; if this hub has had DFSPs, stop it and check that the volume of \
             its data is mounted"
        );
    }
    warn_of_open_data(&settings.data.dir);
}

/// Warns if other users of the machine can enter the data directory, which the hub may not have created itself.
fn warn_of_open_data(data: &Path) {
    if is_open_to_others(data) {
        let data = data.display();
        tracing::warn!(%data, "every user of this machine can enter the data directory; run chmod 700");
    }
}

fn is_open_to_others(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o007 != 0)
}

/// Logs the requirements of the production profile that are not met.
fn tell_what_is_missing(settings: &Settings) {
    let missing = missing_for_production(settings);
    if !missing.is_empty() {
        let (profile, missing) = (settings.security.profile.word(), missing.join(", "));
        tracing::warn!(profile, missing, "security requirements for production are not met");
    }
}

/// Serves until the process ends; `None` if another node of the cluster has become leader.
async fn run(hub: Hub, settings: &Settings, stop: &mut Stop, metrics: &NodeMetrics) -> Option<Exit> {
    let exit = {
        let hang_up = at_hang_up(|| hub.reload_keys());
        tell_that_it_serves(&hub, settings);
        tokio::select! {
            name = stop => {
                tracing::info!(signal = name, "shutting down");
                if hub.node.is_some() {
                    hand_over(&hub, settings, metrics).await;
                }
                Some(Exit::Success)
            }
            never = hang_up => match never {},
            reason = hub.failed() => match reason {
                StopReason::Superseded(by) => {
                    metrics.superseded();
                    tracing::warn!(by, "this node no longer serves: another node is the leader");
                    hub.leave_ports();
                    None
                }
                StopReason::HandedOver => {
                    metrics.handed_over();
                    tracing::info!("leadership handed over: this node no longer serves");
                    hub.leave_ports();
                    None
                }
                reason => {
                    report(&reason, "the hub stops; acknowledged requests are on disk");
                    Some(exit_of_stop(&reason))
                }
            }
        }
    };
    hub.shutdown(settings.shutdown.drain_deadline_ms).await;
    tracing::info!("stopped");
    exit
}

/// If the handover times out, another node takes over after the election timeout.
async fn hand_over(hub: &Hub, settings: &Settings, metrics: &NodeMetrics) {
    metrics.handed_over();
    let patience = settings.shutdown.drain_deadline_ms.min(BROKERS_PATIENCE);
    match timeout(patience, hub.hand_over()).await {
        Ok(StopReason::HandedOver) => tracing::info!("leadership handed over: this node no longer serves"),
        Ok(reason) => tracing::warn!(%reason, "leadership was not handed over"),
        Err(_) => {
            tracing::warn!("leadership was not handed over: the brokers do not respond");
            hub.leave_brokers();
        }
    }
}

fn exit_of_stop(reason: &StopReason) -> Exit {
    match reason {
        StopReason::Shutdown | StopReason::HandedOver => Exit::Success,
        StopReason::Panicked(_) => Exit::Software,
        StopReason::Superseded(_) => Exit::Temporary,
        StopReason::Journal(_) | StopReason::Archive(_) => Exit::InputOutput,
    }
}

fn report(reason: &dyn Display, what: &str) {
    if tracing::enabled!(Level::ERROR) {
        tracing::error!(error = %reason, "{what}");
    } else {
        note(format_args!("{what}: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::time::Instant;

    use upesi_journal::{Damage, JournalError};
    use upesi_settings::{Sources, load};

    use super::*;

    /// Its first query to the brokers may take ten seconds or more.
    #[test]
    fn a_node_that_waits_for_brokers_stops_without_them() {
        // A broker that accepts connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("upesi.toml");
        let text = format!(
            "[data]\ndir = {:?}\n[metrics]\nlisten = \"\"\n[cluster]\nlog = \"kafka\"\nbrokers = \"{}\"\n\
             id = \"0123456789abcdef0123456789abcdef\"\n",
            data.path().join("data"),
            silent.local_addr().unwrap()
        );
        std::fs::write(&file, text).unwrap();
        let loaded = load(&Sources { file: Some(file), ..Sources::default() }).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let mut stop: Stop = Box::pin(async { "SIGTERM" });
        let metrics = Arc::<NodeMetrics>::default();
        let (settings, log) = (&loaded.settings, LogControl::detached());
        let begun = Instant::now();
        let stood = runtime.block_on(stand_by_until(&mut stop, settings, &metrics, log));
        let took = begun.elapsed();
        let stood = stood.map(|elected| elected.is_some());
        assert!(matches!(stood, Ok(false)) && took < Duration::from_secs(8), "{stood:?} after {took:?}");
    }

    #[test]
    fn start_that_waits_for_brokers_is_told_to_stop_and_then_left() {
        let stops = AtomicBool::new(false);
        // Without real time: the patience ends as soon as the runtime has nothing else to do.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut stop: Stop = Box::pin(async { "SIGTERM" });
        let (end, ended) = std::sync::mpsc::channel::<()>();
        // The channel closes only after the process no longer waits for the work.
        let work = move || ended.recv().is_ok();
        let ended = runtime.block_on(finish_unless(&mut stop, &stops, work)).unwrap();
        assert!(matches!(ended, Ended::Stopped(None)));
        assert!(stops.load(Ordering::Acquire));
        drop(end);
    }

    #[test]
    fn start_that_finishes_after_the_stop_signal_is_not_cut_off() {
        let stops = AtomicBool::new(false);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        // The signal comes while the work waits.
        let mut stop: Stop = Box::pin(async move {
            drop(begin);
            "SIGTERM"
        });
        let work = move || begun.recv().is_err();
        let ended = runtime.block_on(finish_unless(&mut stop, &stops, work)).unwrap();
        assert!(matches!(ended, Ended::Stopped(Some(true))));
        assert!(!stops.load(Ordering::Acquire));
    }

    #[test]
    fn a_data_directory_that_others_may_enter_is_told_from_one_of_the_owner() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, is_open) in [(0o700, false), (0o750, false), (0o755, true), (0o701, true)] {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(directory.path()), is_open, "{mode:o}");
        }
        assert!(!is_open_to_others(&directory.path().join("none")));
    }

    #[test]
    fn a_failed_disk_ends_the_process_with_74() {
        for (reason, code) in [
            (StopReason::Shutdown, 0),
            (StopReason::Panicked("upesi-archivist"), 70),
            (StopReason::Superseded("hub-2".into()), 75),
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
