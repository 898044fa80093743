//! Shared delivery of callbacks by the nodes of a cluster. The leader records which nodes deliver; followers report
//! their deliveries to the leader.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use upesi_delivery::Signer;
use upesi_delivery::lanes::{Courier, CourierConfig};
use upesi_delivery::owed::{CallbackRenderer, FollowedCallbacks, OutboxBacklog, Reports, Share};
use upesi_engine::{Clock as _, EngineHandle, Payload, SharedParticipants};
use upesi_gateway::nodes::{Couriers, KnownLeader, Peers, REPORT_EVERY, ReportWay};
use upesi_http::{ClientTls, Outbound, WorkerHandle, Workers};
use upesi_ledger::Command;
use upesi_settings::Settings;

use super::clock::HubClock;
use super::cluster::config::number_of;
use super::error::HubError;
use super::node::NodeMetrics;
use super::options;

/// Interval between the leader's checks of the delivering nodes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Delay before a report that no node accepted is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Maximum delay of a node that begins to deliver. Later the higher limit for accepting requests applies, so that its
/// state does not flap.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// Time limit of a stopping node for its last report.
const LAST_REPORT_TAKES_MAX: Duration = Duration::from_secs(1);
/// Interval between a follower's checks of whether its reports have been recorded.
const LOOK_BACK_EVERY: Duration = Duration::from_secs(1);

pub(super) fn start_courier(
    settings: &Settings,
    (outbound, tls, signer): (&Outbound, Option<ClientTls>, Option<Signer>),
    workers: &Workers,
    (participants, clock): (&SharedParticipants, &Arc<HubClock>),
    backlog: OutboxBacklog,
) -> Result<Courier, HubError> {
    let renderer = CallbackRenderer {
        participants: participants.clone(),
        clock: Arc::clone(clock) as _,
        version: options::versions(settings).hub_made,
    };
    let config = CourierConfig { signer, ..options::courier(settings, outbound, tls) };
    Courier::start(workers, config, Arc::new(backlog), Arc::new(renderer)).map_err(|mistakes| {
        let texts: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        HubError::Settings(texts.join("; "))
    })
}

/// Lets the courier of a leader deliver to its share of the DFSPs, from the first callback on.
pub(super) fn share(node: u32, courier: &Courier, participants: &SharedParticipants, worker: &WorkerHandle) {
    let mut share = Share::new(node, true);
    courier.deliver_to(share.look(&participants.get(), Instant::now()).unwrap_or_default());
    worker.spawn(share.keep(courier.clone(), participants.clone()));
}

/// Records which nodes deliver, as long as it is polled. `own` is this node, which also delivers.
pub(super) async fn keep_nodes(
    couriers: Arc<Couriers>,
    own: Option<u32>,
    engine: EngineHandle,
    participants: SharedParticipants,
) {
    let began = Instant::now();
    let mut due = interval(LOOK_EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let known = participants.get();
        let nodes = couriers.wanted(own, known.couriers(), began.elapsed(), Instant::now());
        if nodes == known.couriers() {
            continue;
        }
        match engine.submit(Command::SetCouriers(nodes.clone()), Payload::default()).await {
            Ok(_) => {
                let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
                tracing::info!(nodes = nodes.join(", "), "these nodes deliver callbacks");
            }
            Err(error) => tracing::debug!(%error, "cannot record which nodes deliver callbacks"),
        }
    }
}

/// The state of a follower that the delivery of its callbacks needs.
pub(super) struct CallbackState {
    pub(super) participants: SharedParticipants,
    pub(super) clock: Arc<HubClock>,
    pub(super) metrics: Arc<NodeMetrics>,
    /// The present leader.
    pub(super) leads: watch::Receiver<KnownLeader>,
}

/// The callbacks that a follower delivers.
pub(super) struct FollowerCallbacks {
    node: u32,
    pub(super) courier: Courier,
    engine: Arc<OnceLock<EngineHandle>>,
    clock: Arc<HubClock>,
    participants: SharedParticipants,
    metrics: Arc<NodeMetrics>,
    worker: WorkerHandle,
    pub(super) reports: Arc<Reports>,
    way: ReportWay,
    /// Whether it delivers, according to its last report.
    delivers: AtomicBool,
    /// Set when its records cannot be read.
    has_failed: AtomicBool,
    /// Set when the node stops.
    stops: AtomicBool,
    /// Notified when the last report has been sent.
    all_told: Notify,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl FollowerCallbacks {
    /// Starts without delivering anything.
    pub(super) fn start(
        settings: &Settings,
        node: u32,
        state: CallbackState,
        (outbound, tls, signer): (&Outbound, Option<ClientTls>, Option<Signer>),
        peers: Peers,
        (workers, worker): (&Workers, &WorkerHandle),
    ) -> Result<Arc<Self>, HubError> {
        let (engine, reports) = (Arc::<OnceLock<EngineHandle>>::default(), Arc::<Reports>::default());
        let backlog = OutboxBacklog { engine: Arc::clone(&engine), reports: Some(Arc::clone(&reports)) };
        let CallbackState { participants, clock, metrics, leads } = state;
        let served = (&participants, &clock);
        let courier = start_courier(settings, (outbound, tls, signer), workers, served, backlog)?;
        courier.deliver_to(BTreeSet::new());
        let callbacks = Arc::new(Self {
            node,
            courier: courier.clone(),
            engine,
            clock,
            participants: participants.clone(),
            metrics,
            worker: worker.clone(),
            reports,
            way: ReportWay::new(leads, peers),
            delivers: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            all_told: Notify::new(),
            thread: Mutex::default(),
        });
        worker.spawn(Share::new(node, false).keep(courier, participants));
        worker.spawn(Arc::clone(&callbacks).tell());
        Ok(callbacks)
    }

    /// Begins to deliver, once the state follows the log. Later callbacks are offered to the lanes; earlier
    /// ones are read from the outbox.
    pub(super) fn begin(self: &Arc<Self>, engine: &EngineHandle) {
        let records = engine.follow(engine.status().durable_seq + 1);
        let _ = self.engine.set(engine.clone());
        let to_lanes =
            FollowedCallbacks::new(self.courier.clone(), self.participants.clone(), self.worker.clone());
        let callbacks = Arc::clone(self);
        let run = move || {
            if let Err(error) = to_lanes.run(records) {
                tracing::error!(%error, "this node no longer delivers callbacks");
                callbacks.has_failed.store(true, Ordering::Release);
            }
        };
        match thread::Builder::new().name("upesi-callbacks".to_owned()).spawn(run) {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(error) => {
                tracing::error!(%error, "this node does not deliver callbacks: cannot start a thread for them");
                self.has_failed.store(true, Ordering::Release);
            }
        }
    }

    fn is_to_deliver(&self) -> bool {
        let has_ended = self.has_failed.load(Ordering::Acquire) || self.stops.load(Ordering::Acquire);
        let now = self.clock.now();
        let is_close =
            || self.metrics.behind_ms(now).is_some_and(|ms| u128::from(ms) <= BEHIND_MAX.as_millis());
        let is_current =
            if self.delivers.load(Ordering::Relaxed) { self.metrics.is_current(now) } else { is_close() };
        self.engine.get().is_some() && is_current && !has_ended
    }

    /// Sends reports to the leader, as long as it is polled.
    async fn tell(self: Arc<Self>) {
        let mut looked_back = Instant::now();
        loop {
            let _ = timeout(REPORT_EVERY, self.reports.noted()).await;
            let stops = self.stops.load(Ordering::Acquire);
            let delivers = self.is_to_deliver();
            self.delivers.store(delivers, Ordering::Relaxed);
            let report = self.reports.next(self.node, delivers);
            let was_last = stops && !self.reports.has_more();
            if self.way.send(&report).await {
                self.reports.told(report, Instant::now());
                if was_last {
                    self.all_told.notify_one();
                }
            } else {
                self.reports.keep(report);
                sleep(RETRY_AFTER).await;
            }
            if looked_back.elapsed() >= LOOK_BACK_EVERY {
                looked_back = Instant::now();
                self.look_back().await;
            }
        }
    }

    /// Repeats the reports that the leader has not recorded.
    async fn look_back(&self) {
        let told = self.reports.take_old(Instant::now());
        let Some(engine) = self.engine.get().filter(|_| !told.is_empty()) else {
            return self.reports.report_again(told);
        };
        let kept = told.clone();
        let missing = engine.read(move |ledger| told.missing(ledger)).await;
        self.reports.report_again(missing.unwrap_or(kept));
    }

    /// Stops starting callbacks, waits for the callbacks in flight, and reports them. Returns the number of aborted
    /// ones.
    pub(super) async fn finish(&self, deadline: Instant) -> usize {
        let cut_off = self.courier.drain(deadline).await;
        self.stops.store(true, Ordering::Release);
        self.reports.wake();
        // Without a leader there is no answer. The next leader soon notices that this node is missing, and unrecorded
        // callbacks are delivered again.
        let deadline = deadline.min(Instant::now() + LAST_REPORT_TAKES_MAX);
        let _ = timeout_at(deadline, self.all_told.notified()).await;
        cut_off
    }

    /// Waits for the thread, which ends with the engine.
    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(panic)) = thread.map(JoinHandle::join) {
            resume_unwind(panic);
        }
    }
}

/// The number of this node, if it may deliver.
pub(super) fn own(settings: &Settings) -> Option<u32> {
    number_of(settings).filter(|_| settings.cluster.may_deliver)
}

/// Addresses of the other nodes.
pub(super) fn peers(settings: &Settings, tls: Option<&ClientTls>) -> Peers {
    Peers::new(options::peers(settings), tls)
}
