//! One life of the hub's process: the engine, the lanes, and the messages between them.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;
use upesi_delivery::Accepted;
use upesi_delivery::lanes::{
    Backlog as _, BacklogError, CourierConfig, DeliveryAttempt, Done, OwedCallback, Page, SteppedLane,
};
use upesi_delivery::lanes::{CallbackKey, Renderer as _};
use upesi_delivery::owed::{CallbackRenderer, OutboxBacklog, to_asker};
use upesi_engine::{
    AnswerListener, Clock, ClockState, DurableRecord, Effects, EngineHandle, EngineMetrics, EngineOptions,
    Participants, SharedParticipants, StandbyEngine, StartError, SteppedEngine, StopReason, SubmitError,
};
use upesi_fspiop::{SyncError, Unroutable, Version};
use upesi_gateway::{GatewayConfig, TrustEveryone, read_request};
use upesi_ledger::{Command, Ledger, Reply};
use upesi_transfers::{into_command, outcome};

use crate::message::Request;
use crate::plan::Bug;

mod bugs;
mod couriers;

use bugs::Bugs;
pub(crate) use bugs::LyingDisk;
pub(crate) use couriers::CourierTrouble;
use couriers::{Couriers, LaneId};

/// Maximum number of callbacks that are loaded together by their keys.
const LOADED_ITEMS_MAX: usize = 16;

type Pending<T> = Pin<Box<dyn Future<Output = T>>>;
type Fetched = Result<Page, BacklogError>;
type Scanned = Result<Vec<CallbackKey>, BacklogError>;
type Loaded = Result<Vec<OwedCallback>, BacklogError>;

#[derive(Debug)]
pub(crate) enum Output {
    /// An answer to a DFSP's request.
    Answer {
        number: u64,
        outcome: Result<(), SyncError>,
    },
    /// An answer to an operator.
    Told(Result<Reply, SubmitError>),
    /// The result of a removal of everything that finished up to a record.
    Removed {
        to_seq: u64,
        outcome: Result<u64, SubmitError>,
    },
    Callback {
        number: u64,
        key: CallbackKey,
        request: Request,
    },
}

/// Results that the engine released, before they reach the lanes.
#[derive(Default)]
struct LetGo {
    records: Vec<Arc<DurableRecord>>,
    recalled: Vec<CallbackKey>,
    /// Callbacks whose targets have received the answers that they wait for.
    answered: Vec<CallbackKey>,
}

struct HubEffects {
    let_go: Arc<Mutex<LetGo>>,
    participants: SharedParticipants,
}

impl HubEffects {
    fn let_go(&self) -> std::sync::MutexGuard<'_, LetGo> {
        self.let_go.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Effects for HubEffects {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.let_go().records.push(Arc::clone(record));
    }

    fn redeliver(&mut self, keys: &[CallbackKey]) {
        self.let_go().recalled.extend_from_slice(keys);
    }

    fn flush(&mut self) {}

    fn participants(&mut self, participants: Arc<Participants>) {
        self.participants.set(participants);
    }

    fn answers(&self) -> Option<Arc<dyn AnswerListener>> {
        Some(Arc::new(Answers(Arc::clone(&self.let_go))))
    }
}

/// Releases callbacks that wait for answers.
struct Answers(Arc<Mutex<LetGo>>);

impl AnswerListener for Answers {
    fn answered(&self, records: &[Arc<DurableRecord>]) {
        let mut let_go = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let_go.answered.extend(records.iter().flat_map(|record| to_asker(record)));
    }
}

/// Everything that a hub is started with.
pub(crate) struct Setup {
    pub(crate) options: EngineOptions,
    pub(crate) courier: CourierConfig,
    pub(crate) bug: Option<Bug>,
    /// Number of earlier lives of the hub.
    pub(crate) lives: u64,
    /// The instant of the world's start.
    pub(crate) epoch: Instant,
    /// Number of further nodes that may deliver callbacks.
    pub(crate) nodes: u32,
}

pub(crate) struct Hub {
    engine: SteppedEngine,
    handle: EngineHandle,
    renderer: CallbackRenderer,
    couriers: Couriers,
    courier: CourierConfig,
    lanes: BTreeMap<LaneId, SteppedLane>,
    let_go: Arc<Mutex<LetGo>>,
    requests: BTreeMap<u64, Pending<Result<Reply, SubmitError>>>,
    operator: Option<Pending<Result<Reply, SubmitError>>>,
    division: Option<Pending<Result<(), SubmitError>>>,
    removal: Option<(u64, Pending<Result<u64, SubmitError>>)>,
    pages: Vec<(LaneId, Pending<Fetched>)>,
    scans: Vec<(LaneId, Pending<Scanned>)>,
    loads: Vec<(LaneId, Vec<CallbackKey>, Pending<Loaded>)>,
    sendings: BTreeMap<u64, (LaneId, DeliveryAttempt)>,
    /// Lanes whose backlog could not be read, each with the time of the next attempt.
    resting: BTreeMap<LaneId, Instant>,
    next_sending: u64,
    gateway: GatewayConfig,
    epoch: Instant,
    bugs: Bugs,
}

fn poll<T>(future: &mut Pending<T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Hub {
    /// Starts a hub and recovers the data on its disk. `first_sending` numbers the callbacks, across all lives.
    pub(crate) fn start(setup: Setup, first_sending: u64) -> Result<Self, StartError> {
        Self::begin(setup, first_sending, |options, effects| {
            SteppedEngine::start(options, EngineMetrics::default(), effects)
        })
    }

    /// Continues from the state of a node that has followed the log and is now the leader.
    pub(crate) fn take_over(
        setup: Setup,
        standby: StandbyEngine,
        first_sending: u64,
    ) -> Result<Self, StartError> {
        Self::begin(setup, first_sending, |options, effects| {
            SteppedEngine::take_over(standby, options, effects)
        })
    }

    fn begin(
        setup: Setup,
        first_sending: u64,
        start: impl FnOnce(EngineOptions, Box<dyn Effects>) -> Result<(SteppedEngine, EngineHandle), StartError>,
    ) -> Result<Self, StartError> {
        let Setup { options, courier, bug, lives, epoch, nodes } = setup;
        let let_go = Arc::<Mutex<LetGo>>::default();
        let participants = SharedParticipants::default();
        let outlet = HubEffects { let_go: Arc::clone(&let_go), participants: participants.clone() };
        let (mut engine, handle) = start(options, Box::new(outlet))?;
        let backlog = OutboxBacklog { engine: Arc::new(OnceLock::from(handle.clone())), reports: None };
        let bugs = Bugs::new(bug, lives);
        if let Some(mistake) = bugs.in_decisions() {
            engine.plant(mistake);
        }
        let mut hub = Self {
            engine,
            renderer: CallbackRenderer {
                participants: participants.clone(),
                clock: handle.clock(),
                version: Version::V1_1,
            },
            handle,
            couriers: Couriers::new(backlog, nodes, lives),
            courier,
            lanes: BTreeMap::new(),
            let_go,
            requests: BTreeMap::new(),
            operator: None,
            division: None,
            removal: None,
            pages: Vec::new(),
            scans: Vec::new(),
            loads: Vec::new(),
            sendings: BTreeMap::new(),
            resting: BTreeMap::new(),
            next_sending: first_sending,
            gateway: GatewayConfig::default(),
            epoch,
            bugs,
        };
        for target in participants.get().ids() {
            hub.open(target);
        }
        Ok(hub)
    }

    fn instant(&self, now_us: u64) -> Instant {
        self.epoch + Duration::from_micros(now_us)
    }

    // ---- input ----

    /// Reads a DFSP's request and submits its command. An error is the immediate answer.
    pub(crate) fn receive(&mut self, number: u64, request: &Request) -> Result<(), SyncError> {
        let mut head = http::Request::new(());
        *head.method_mut() = request.method.clone();
        *head.headers_mut() = request.headers.clone();
        *head.uri_mut() = request.path.parse().map_err(|_| Unroutable::UnknownPath.to_error())?;
        let (parts, ()) = head.into_parts();
        let present = self.handle.clock().present();
        let read = read_request(&parts, request.body.clone(), &self.gateway, &TrustEveryone, || present)?;
        let (mut command, payload) = into_command(read)?;
        self.bugs.distort(&mut command, &self.handle);
        let handle = self.handle.clone();
        let submitted = Box::pin(async move { handle.submit(command, payload).await });
        self.requests.insert(number, submitted);
        Ok(())
    }

    /// Whether the hub answers this request before it is decided, which is a planted bug.
    pub(crate) fn answers_early(&self) -> bool {
        self.bugs.is(Bug::AcknowledgesEarly)
    }

    /// Submits an operator's command. There is only one at a time.
    pub(crate) fn operate(&mut self, mut command: Command) {
        self.bugs.distort(&mut command, &self.handle);
        let handle = self.handle.clone();
        self.operator = Some(Box::pin(async move { handle.submit(command, Default::default()).await }));
    }

    /// Starts a new division of the archive, as retention does.
    pub(crate) fn divide_archive(&mut self) {
        let handle = self.handle.clone();
        self.division = Some(Box::pin(async move { handle.divide_archive().await }));
    }

    /// Starts the removal of everything that finished up to a record. There is only one at a time.
    pub(crate) fn remove_finished(&mut self, to_seq: u64) {
        let handle = self.handle.clone();
        self.removal = Some((to_seq, Box::pin(async move { handle.remove_finished(to_seq).await })));
    }

    pub(crate) const fn is_removing(&self) -> bool {
        self.removal.is_some()
    }

    // ---- work ----

    /// Runs one turn of the engine. Returns false once it has stopped.
    pub(crate) fn turn(&mut self, ticks: bool) -> bool {
        self.engine.turn(ticks && !self.bugs.is(Bug::NeverExpires))
    }

    /// Runs one turn of the thread that writes large batches.
    pub(crate) fn turn_journal(&mut self) -> bool {
        self.engine.turn_journal()
    }

    /// Runs one turn of the archivist. Returns false once it has failed.
    pub(crate) fn turn_archivist(&mut self) -> bool {
        self.engine.turn_archivist()
    }

    /// Collects the finished results for the waiters outside the hub.
    pub(crate) fn collect(&mut self, out: &mut Vec<Output>) {
        self.requests.retain(|number, pending| match poll(pending) {
            None => true,
            Some(reply) => {
                out.push(Output::Answer { number: *number, outcome: outcome(reply).map(|Accepted| ()) });
                false
            }
        });
        if let Some(reply) = self.operator.as_mut().and_then(poll) {
            self.operator = None;
            out.push(Output::Told(reply));
        }
        if self.division.as_mut().and_then(poll).is_some() {
            self.division = None;
        }
        if let Some((to_seq, outcome)) =
            self.removal.as_mut().and_then(|(to_seq, removal)| Some((*to_seq, poll(removal)?)))
        {
            self.removal = None;
            out.push(Output::Removed { to_seq, outcome });
        }
    }

    /// Hands the lanes everything that the engine has released since the last call.
    pub(crate) fn flush(&mut self, now_us: u64) {
        let now = self.instant(now_us);
        let let_go = mem::take(&mut *self.let_go.lock().unwrap_or_else(PoisonError::into_inner));
        for record in let_go.records {
            for key in record.keys() {
                self.open(key.target);
                self.lanes_to(key.target).for_each(|lane| lane.offer(OwedCallback::new(key, &record), now));
            }
        }
        for key in let_go.answered {
            self.lanes_to(key.target).for_each(|lane| lane.answered(key));
        }
        for key in let_go.recalled {
            self.open(key.target);
            self.lanes_to(key.target).for_each(|lane| lane.recall([key]));
        }
    }

    /// Lets every lane do all that it can now. Returns the time of the next call, in microseconds.
    pub(crate) fn pump(&mut self, now_us: u64, out: &mut Vec<Output>) -> Option<u64> {
        let now = self.instant(now_us);
        self.take_pages(now);
        let mut next = self.share(now);
        let lanes: Vec<_> = self.lanes.keys().copied().collect();
        for id in lanes {
            self.fetch(id, now);
            self.send(id, now, out);
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            let due = lane.at(now);
            let rests = self.resting.get(&id).copied();
            next = [next, due, rests].into_iter().flatten().min();
            let (settled, backlog) = (lane.settled(), self.couriers.backlog(id.0));
            if !settled.delivered.is_empty() {
                backlog.delivered(settled.delivered);
            }
            for parked in settled.parked {
                backlog.parked(parked.key, parked.reason, parked.attempts);
            }
        }
        next.map(|next| now_us + (next - now).as_micros() as u64)
    }

    /// Starts to read the callbacks that a lane requests from the outbox.
    fn fetch(&mut self, id: LaneId, now: Instant) {
        let (_, target) = id;
        if self.resting.get(&id).is_some_and(|until| *until > now) {
            return;
        }
        self.resting.remove(&id);
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some((after, room)) = lane.ask() {
            if self.bugs.forgets_outbox() {
                lane.page(Some(Page { items: Vec::new(), more_after: None }), now);
                return;
            }
            let backlog = self.couriers.backlog(id.0).clone();
            let page = Box::pin(async move { backlog.pending(target, after, room).await });
            self.pages.push((id, page));
        }
        if let Some((after, limit)) = lane.scan() {
            let backlog = self.couriers.backlog(id.0).clone();
            self.scans.push((id, Box::pin(async move { backlog.keys(target, after, limit).await })));
        }
        let keys = lane.take_loads(LOADED_ITEMS_MAX, now);
        if !keys.is_empty() {
            let (backlog, wanted) = (self.couriers.backlog(id.0).clone(), keys.clone());
            self.loads.push((id, keys, Box::pin(async move { backlog.load(wanted).await })));
        }
    }

    /// Hands the lanes the pages that were read for them.
    fn take_pages(&mut self, now: Instant) {
        for (id, mut page) in mem::take(&mut self.pages) {
            match poll(&mut page) {
                None => self.pages.push((id, page)),
                Some(read) => {
                    if read.is_err() {
                        self.resting.insert(id, now + self.courier.backlog_retry_wait);
                    }
                    if let Some(lane) = self.lanes.get_mut(&id) {
                        lane.page(read.ok(), now);
                    }
                }
            }
        }
        for (id, mut scan) in mem::take(&mut self.scans) {
            match poll(&mut scan) {
                None => self.scans.push((id, scan)),
                Some(read) => {
                    if read.is_err() {
                        self.resting.insert(id, now + self.courier.backlog_retry_wait);
                    }
                    if let Some(lane) = self.lanes.get_mut(&id) {
                        lane.scanned(read.ok().as_deref());
                    }
                }
            }
        }
        for (id, keys, mut load) in mem::take(&mut self.loads) {
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            match poll(&mut load) {
                None => self.loads.push((id, keys, load)),
                Some(read) => {
                    if read.is_err() {
                        self.resting.insert(id, now + self.courier.backlog_retry_wait);
                    }
                    lane.loaded(&keys, read.ok(), now);
                }
            }
        }
    }

    fn send(&mut self, id: LaneId, now: Instant, out: &mut Vec<Output>) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        while let Some(sending) = lane.take(now) {
            let OwedCallback { key, record, .. } = sending.callback();
            let key = *key;
            if self.bugs.drops_this() {
                lane.finish(sending, Done::Delivered, now);
                continue;
            }
            match self.renderer.render(key, record) {
                Err(unroutable) => lane.finish(sending, Done::Unroutable(unroutable.to_string()), now),
                Ok(outgoing) => {
                    let host = outgoing.target.origin.host().to_owned();
                    let request = Request {
                        method: outgoing.method,
                        path: format!("{host}{}", outgoing.target.path),
                        headers: outgoing.headers,
                        body: self.bugs.body(outgoing.body),
                    };
                    let number = self.next_sending;
                    self.next_sending += 1;
                    self.sendings.insert(number, (id, sending));
                    out.push(Output::Callback { number, key, request });
                }
            }
        }
    }

    /// Notes that a callback was answered or timed out. Late answers are ignored.
    pub(crate) fn answered(&mut self, number: u64, done: Done, now_us: u64) -> bool {
        let Some((id, sending)) = self.sendings.remove(&number) else { return false };
        let done = if self.bugs.is(Bug::BelievesEveryAnswer) { Done::Delivered } else { done };
        let now = self.instant(now_us);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.finish(sending, done, now);
        }
        true
    }

    // ---- observation ----

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        match self.handle.status().serving {
            upesi_engine::Availability::Stopped(reason) => Some(reason),
            _ => None,
        }
    }

    /// State of the hub's time, compared with the clocks.
    pub(crate) fn clock(&self) -> ClockState {
        self.handle.status().clock
    }

    pub(crate) fn durable_seq(&self) -> u64 {
        self.handle.status().durable_seq
    }

    pub(crate) const fn next_sending(&self) -> u64 {
        self.next_sending
    }

    pub(crate) const fn ledger(&self) -> &Ledger {
        self.engine.ledger()
    }

    /// Whether a request waits for the engine's next turn.
    pub(crate) fn waits(&self) -> bool {
        !(self.requests.is_empty() && self.pages.is_empty() && self.scans.is_empty() && self.loads.is_empty())
            || self.operator.is_some()
            || self.division.is_some()
            || self.removal.is_some()
    }

    pub(crate) fn describe_lanes(&self) -> Vec<String> {
        let describe = |((node, target), lane): (&LaneId, &SteppedLane)| {
            let (items, breaker, target) = (lane.items(), lane.breaker(), target.number());
            let (is_behind, elsewhere) = (lane.is_behind(), lane.is_elsewhere());
            format!(
                "lane {target} of node {node}: {items} in memory, behind {is_behind}, elsewhere {elsewhere}, {breaker:?}"
            )
        };
        self.lanes.iter().map(describe).collect()
    }

    pub(crate) fn shutdown(self) {
        self.engine.shutdown();
    }

    /// Requests the last record. The future is polled after each turn.
    pub(crate) fn last_record(&self) -> impl FnMut() -> Option<Result<u64, SubmitError>> + use<> {
        let handle = self.handle.clone();
        let mut asked: Pending<Result<u64, SubmitError>> =
            Box::pin(async move { handle.read(|ledger| ledger.last_seq()).await });
        move || poll(&mut asked)
    }

    /// Sets the number of the next callback, so that it differs from another hub's numbers.
    pub(crate) const fn number_from(&mut self, first_sending: u64) {
        self.next_sending = first_sending;
    }

    /// Decides all queued commands, and gives up leadership so that any other node may become leader. Collects the
    /// answers that are due by then.
    pub(crate) fn hand_over(&mut self) -> StopReason {
        let handle = self.handle.clone();
        let mut handing: Pending<StopReason> = Box::pin(async move { handle.hand_over(None).await });
        loop {
            let is_running = self.engine.turn(false);
            self.engine.turn_journal();
            if let Some(reason) = poll(&mut handing) {
                return reason;
            }
            assert!(is_running, "the engine has stopped without a reason");
        }
    }
}
