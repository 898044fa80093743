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
use tokio::time::{Instant, timeout};
use tracing::Level;
use upesi_engine::{Clock as _, StartError, StopReason, SystemClock};
use upesi_journal::DataDirectory;
use upesi_process::exit::Exit;
use upesi_process::signals::{at_hang_up, stop_signal};
use upesi_process::terminal::note;
use upesi_settings::{Choice as _, Settings, missing_for_production};

use super::cluster::config::number_of;
use super::edge::Edge;
use super::error::HubError;
use super::following::FollowerParts;
use super::hub::{Hub, shut_down};
use super::leading::LeaderParts;
use super::node::Node;
use super::ports::{BoundPorts, Servers};
use super::standby::{ElectedLeader, stand_by};
use crate::logging::LogControl;

/// Runs a hub until it is stopped or its disk fails. A node of a cluster follows the log until it becomes leader,
/// processes requests while it is the leader, and then follows again.
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
    let ended = match number_of(settings) {
        None => serve_alone(&runtime, settings, log),
        Some(number) => serve_node(&runtime, settings, log, number),
    };
    ended.unwrap_or_else(|error| {
        report(&error, "the hub does not start");
        error.exit()
    })
}

fn serve_alone(runtime: &Runtime, settings: &Settings, log: LogControl) -> Result<Exit, HubError> {
    expect_ledger(settings)?;
    let Hub { edge, leading } = Hub::start(settings, log, Arc::new(SystemClock))?;
    let mut stop = caught(runtime);
    runtime.block_on(async {
        let end = run(&edge, &leading, &mut stop).await;
        shut_down(edge, Some(leading), patience(settings)).await;
        tracing::info!("stopped");
        Ok(end.exit())
    })
}

fn serve_node(
    runtime: &Runtime,
    settings: &Settings,
    log: LogControl,
    number: u32,
) -> Result<Exit, HubError> {
    // One for the whole life of a node: a signal between two roles must not be lost.
    let mut stop = caught(runtime);
    expect_ledger(settings)?;
    let node = Node::new(number);
    let (edge, ports) = Edge::open(settings, log, Arc::new(SystemClock), Some(node.clone()))?;
    runtime.block_on(async {
        let mut ports = Some(ports);
        loop {
            let Some(elected) = stand_by_until(&mut stop, &edge, &node, &mut ports).await? else {
                return Ok(Exit::Success);
            };
            let Some(leading) = start_until(&mut stop, &edge, &node, elected).await? else {
                return Ok(Exit::Success);
            };
            if let ServeEnd::Exit(exit) = run(&edge, &leading, &mut stop).await {
                shut_down(edge, Some(leading), patience(settings)).await;
                tracing::info!("stopped");
                return Ok(exit);
            }
            leave_leadership(&edge, leading).await;
        }
    })
}

fn patience(settings: &Settings) -> Duration {
    settings.shutdown.drain_deadline_ms
}

/// The name of the signal that stops the process.
type Stop = Pin<Box<dyn Future<Output = &'static str>>>;

fn caught(runtime: &Runtime) -> Stop {
    let _entered = runtime.enter();
    Box::pin(stop_signal())
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

/// Lets the node process requests, now that it is the leader. `None` if a stop signal comes first, because the start
/// may wait for brokers.
async fn start_until(
    stop: &mut Stop,
    edge: &Arc<Edge>,
    node: &Node,
    elected: ElectedLeader,
) -> Result<Option<LeaderParts>, HubError> {
    let own = Arc::clone(edge);
    let start = move || LeaderParts::start(&own, Some(elected));
    let leading = match finish_unless(stop, &node.stops, start).await? {
        BrokerOutcome::Finished(started) => return started.map(Some),
        BrokerOutcome::Stopped(Some(Ok(leading))) => {
            hand_over(edge, &leading, node).await;
            Some(leading)
        }
        BrokerOutcome::Stopped(Some(Err(error))) => {
            tracing::warn!(%error, "the node stopped before it served");
            None
        }
        BrokerOutcome::Stopped(None) => {
            tracing::warn!("the node stopped before it served: the start was waiting for brokers");
            return Ok(None);
        }
    };
    shut_down(Arc::clone(edge), leading, patience(&edge.settings)).await;
    Ok(None)
}

/// The end of work that waits for brokers.
enum BrokerOutcome<T> {
    /// The work finished before a stop signal.
    Finished(T),
    /// A stop signal came first. `None`: the work did not end even after it was stopped from waiting for brokers.
    Stopped(Option<T>),
}

/// Runs work until it finishes, or until a stop signal and the patience after it. `stops` makes the work stop waiting
/// for brokers.
async fn finish_unless<T: Send + 'static>(
    stop: &mut Stop,
    stops: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<BrokerOutcome<T>, HubError> {
    let mut working = beside("upesi-start", work)?;
    let name = tokio::select! {
        finished = &mut working => return Ok(BrokerOutcome::Finished(result_of(finished))),
        name = stop => name,
    };
    tracing::info!(signal = name, "shutting down");
    let mut finished = within(BROKERS_PATIENCE, &mut working).await;
    if finished.is_none() {
        stops.store(true, Ordering::Release);
        finished = within(BROKERS_PATIENCE, &mut working).await;
    }
    Ok(BrokerOutcome::Stopped(finished))
}

/// Follows the log until this node becomes leader; `None` if a stop signal comes first. Serves the ports that are bound
/// and not served yet.
async fn stand_by_until(
    stop: &mut Stop,
    edge: &Arc<Edge>,
    node: &Node,
    ports: &mut Option<BoundPorts>,
) -> Result<Option<ElectedLeader>, HubError> {
    let patience = patience(&edge.settings);
    let following = FollowerParts::start(edge, node)?;
    if let Some(ports) = ports.take() {
        edge.serve(ports);
    }
    let (settings, read) = (edge.settings.clone(), following.read.clone());
    let mut standing = beside("upesi-standby", move || stand_by(&settings, &read))?;
    let stood = tokio::select! {
        stood = &mut standing => result_of(stood),
        never = at_hang_up(|| edge.reload_keys()) => match never {},
        name = stop => {
            tracing::info!(signal = name, "shutting down");
            node.stops.store(true, Ordering::Release);
            // If the node has become leader by now, it must not begin to process requests.
            match within(BROKERS_PATIENCE, &mut standing).await {
                Some(stood) => stood.map(|_| None),
                None => {
                    tracing::warn!("the brokers do not respond; the node stops without them");
                    Ok(None)
                }
            }
        }
    };
    if matches!(stood, Ok(Some(_))) {
        following.leave(patience);
    } else {
        let connections = edge.close_requests(Instant::now() + patience).await;
        if connections > 0 {
            tracing::warn!(connections, "connections closed at the drain deadline");
        }
        following.close(patience).await;
        shut_down(Arc::clone(edge), None, patience).await;
    }
    Ok(stood?)
}

/// From this log line on, the process handles signals.
fn tell_that_it_serves(edge: &Edge, leading: &LeaderParts) {
    let Edge { settings, ports, .. } = edge;
    let Servers { fspiop: Some(fspiop), admin: Some(admin), .. } = ports.get() else {
        unreachable!("a hub that processes requests has both ports")
    };
    let scheme = if edge.tls.admin().is_some() { "https" } else { "http" };
    tracing::info!(
        fspiop = %fspiop.local_addr(),
        admin = %admin.local_addr(),
        console = format_args!("{scheme}://{}/console", admin.local_addr()),
        data = %settings.data.dir.display(),
        durable = settings.engine.durable,
        version = upesi_process::version::VERSION,
        "the hub is serving"
    );
    tell_what_is_missing(settings);
    if leading.handle.status().is_new {
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

/// The reason why a hub no longer processes requests.
enum ServeEnd {
    /// The process exits.
    Exit(Exit),
    /// Another node of the cluster is, or will be, the leader.
    Follows,
}

impl ServeEnd {
    /// The exit of a standalone hub, which never follows.
    const fn exit(self) -> Exit {
        match self {
            Self::Exit(exit) => exit,
            Self::Follows => Exit::Temporary,
        }
    }
}

/// Processes requests until the process ends, or another node of the cluster becomes leader.
async fn run(edge: &Edge, leading: &LeaderParts, stop: &mut Stop) -> ServeEnd {
    let hang_up = at_hang_up(|| edge.reload_keys());
    tell_that_it_serves(edge, leading);
    let reason = tokio::select! {
        name = stop => {
            tracing::info!(signal = name, "shutting down");
            if let Some(node) = &edge.node {
                hand_over(edge, leading, node).await;
            }
            return ServeEnd::Exit(Exit::Success);
        }
        never = hang_up => match never {},
        reason = leading.handle.stopped() => reason,
    };
    match (&edge.node, &reason) {
        (Some(node), StopReason::Superseded(by)) => {
            node.metrics.superseded();
            tracing::warn!(by, "this node no longer serves: another node is the leader");
            begin_to_follow(edge, leading, node, 0);
            ServeEnd::Follows
        }
        (Some(node), StopReason::HandedOver) => {
            node.metrics.handed_over(edge.clock.now());
            begin_to_follow(edge, leading, node, leading.handle.status().durable_seq);
            tracing::info!("leadership handed over: this node no longer serves");
            ServeEnd::Follows
        }
        _ => {
            report(&reason, "the hub stops; acknowledged requests are on disk");
            ServeEnd::Exit(exit_of_stop(&reason))
        }
    }
}

/// From now on, requests are forwarded, although this node has not read yet which node is the leader.
fn begin_to_follow(edge: &Edge, leading: &LeaderParts, node: &Node, led_to: u64) {
    node.seeks(leading.handle.successor(), led_to);
    edge.follow();
}

/// Maximum time for callbacks and relays in flight of a former leader. Until then it cannot read the log again.
const LEAVE_TAKES_MAX: Duration = Duration::from_secs(2);

/// Stops the parts of a leader, so that the node can follow.
async fn leave_leadership(edge: &Edge, leading: LeaderParts) {
    let deadline = Instant::now() + patience(&edge.settings).min(LEAVE_TAKES_MAX);
    if edge.has_leaders_ports() {
        edge.close_leaders(deadline).await;
    }
    let (relays, callbacks) = leading.drain(deadline).await;
    if relays + callbacks > 0 {
        tracing::warn!(
            relays,
            callbacks,
            "requests and callbacks aborted, because this node is no longer the leader"
        );
    }
    if tokio::task::spawn_blocking(move || leading.release()).await.is_err() {
        tracing::error!("the threads of the leader did not shut down cleanly");
    }
    tracing::info!("stopped");
}

/// Hands over before the process exits. If the handover times out, another node takes over after the election timeout.
async fn hand_over(edge: &Edge, leading: &LeaderParts, node: &Node) {
    node.metrics.handed_over(edge.clock.now());
    let patience = patience(&edge.settings).min(BROKERS_PATIENCE);
    match timeout(patience, leading.handle.hand_over(None)).await {
        Ok(StopReason::HandedOver) => {
            begin_to_follow(edge, leading, node, leading.handle.status().durable_seq);
            tracing::info!("leadership handed over: this node no longer serves");
        }
        Ok(reason) => tracing::warn!(%reason, "leadership was not handed over"),
        Err(_) => {
            tracing::warn!("leadership was not handed over: the brokers do not respond");
            node.stops.store(true, Ordering::Release);
        }
    }
    edge.begin_close();
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
    use std::io::{Error, Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Instant;

    use upesi_http::Server;
    use upesi_journal::{Damage, JournalError};
    use upesi_settings::{Sources, load};

    use super::*;

    /// The node's first query to the brokers may take ten seconds or more.
    #[test]
    fn node_that_waits_for_brokers_can_be_stopped() {
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
        let (node, log) = (Node::new(0), LogControl::detached());
        let opened = Edge::open(&loaded.settings, log, Arc::new(SystemClock), Some(node.clone()));
        let (edge, ports) = opened.unwrap();
        let begun = Instant::now();
        let stood = runtime.block_on(stand_by_until(&mut stop, &edge, &node, &mut Some(ports)));
        let took = begun.elapsed();
        let stood = stood.map(|elected| elected.is_some());
        assert!(matches!(stood, Ok(false)) && took < Duration::from_secs(8), "{stood:?} after {took:?}");
    }

    /// Sends a request on a connection that stays open. Returns the status of the answer.
    fn status(stream: &mut TcpStream, path: &str) -> u16 {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the connection is closed after {text:?}");
            text.push_str(str::from_utf8(&bytes[..count]).unwrap());
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if length.is_none_or(|length: usize| body.len() >= length) {
                return head.split(' ').nth(1).unwrap().parse().unwrap();
            }
        }
    }

    /// The files of a leader are free for the next role, although the ports and their connections stay.
    #[test]
    fn connections_stay_open_while_the_role_changes() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("data");
        let given = [
            ("data.dir", directory.to_str().unwrap()),
            ("data.reserve_bytes", "65536"),
            ("fspiop.listen", "127.0.0.1:0"),
            ("admin.listen", "127.0.0.1:0"),
        ];
        let flags = given.map(|(key, value)| ("test".to_owned(), key.to_owned(), value.to_owned()));
        let loaded = load(&Sources { flags: flags.into(), ..Sources::default() }).unwrap();
        let opened = Edge::open(&loaded.settings, LogControl::detached(), Arc::new(SystemClock), None);
        let (edge, ports) = opened.unwrap();
        let mut leading = LeaderParts::start(&edge, None).unwrap();
        edge.serve(ports);
        let Servers { fspiop, admin, .. } = edge.ports.get();
        let connect = |server: Option<Arc<Server>>| TcpStream::connect(server.unwrap().local_addr()).unwrap();
        let mut connections = [fspiop, admin].map(connect);
        let mut statuses = || connections.each_mut().map(|stream| status(stream, "/health"));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..2 {
            assert_eq!(statuses(), [200, 200]);
            edge.follow();
            runtime.block_on(leave_leadership(&edge, leading));
            assert_eq!(statuses(), [502, 503]);
            leading = LeaderParts::start(&edge, None).unwrap();
        }
        assert_eq!(statuses(), [200, 200]);
        runtime.block_on(shut_down(edge, Some(leading), Duration::from_secs(5)));
    }

    #[test]
    fn start_that_waits_for_brokers_is_abandoned_after_a_stop_signal() {
        let stops = AtomicBool::new(false);
        // The time of this runtime is simulated: the patience ends as soon as the runtime has nothing else to do.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut stop: Stop = Box::pin(async { "SIGTERM" });
        let (end, ended) = std::sync::mpsc::channel::<()>();
        // The channel closes only after the process no longer waits for the work.
        let work = move || ended.recv().is_ok();
        let ended = runtime.block_on(finish_unless(&mut stop, &stops, work)).unwrap();
        assert!(matches!(ended, BrokerOutcome::Stopped(None)));
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
        assert!(matches!(ended, BrokerOutcome::Stopped(Some(true))));
        assert!(!stops.load(Ordering::Acquire));
    }

    #[test]
    fn open_data_directory_differs_from_a_private_one() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, is_open) in [(0o700, false), (0o750, false), (0o755, true), (0o701, true)] {
            std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(directory.path()), is_open, "{mode:o}");
        }
        assert!(!is_open_to_others(&directory.path().join("none")));
    }

    #[test]
    fn failed_disk_ends_the_process_with_exit_code_74() {
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
    fn start_distinguishes_a_failed_disk_from_damage() {
        let io = JournalError::Io { operation: "sync", file: "journal".into(), source: Error::other("EIO") };
        let reason = Damage::FileHeader;
        let damaged = JournalError::Damaged { file: "00.seg".into(), offset: 0, reason };
        for (error, code) in [(io, 74), (JournalError::Poisoned, 74), (damaged, 65)] {
            let error = HubError::Engine(error.into());
            assert_eq!(error.exit().code(), code, "{error}");
        }
    }
}
