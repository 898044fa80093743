//! All lanes together, and the entry for callbacks.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use upesi_http::{Answer, WorkerHandle, Workers};
use upesi_ledger::{CallbackKey, ParticipantId};

use crate::OutgoingRequest;
use crate::lanes::backlog::Backlog;
use crate::lanes::callback::OwedCallback;
use crate::lanes::config::ConfigError;
use crate::lanes::lane::direct::TransportError;
use crate::lanes::lane::{Lane, Term};
use crate::lanes::renderer::Renderer;
use crate::lanes::{CourierConfig, Failure, LaneMetrics, LaneStatus};

/// Delivers callbacks, and messages that are sent immediately. Cheap to clone.
#[derive(Clone)]
pub struct Courier {
    registry: Arc<LaneRegistry>,
}

/// The lanes, which are opened when they are needed.
struct LaneRegistry {
    config: CourierConfig,
    workers: Vec<WorkerHandle>,
    backlog: Arc<dyn Backlog>,
    renderer: Arc<dyn Renderer>,
    lanes: Mutex<OpenLanes>,
}

struct OpenLanes {
    by_target: BTreeMap<ParticipantId, Arc<Lane>>,
    /// The participants that this node serves; `None` for all.
    ours: Option<BTreeSet<ParticipantId>>,
    draining: bool,
}

impl Courier {
    /// Creates a courier without lanes. Callbacks open lanes, and so does [`Self::open`].
    ///
    /// # Errors
    /// Every mistake in the configuration.
    pub fn start(
        workers: &Workers,
        config: CourierConfig,
        backlog: Arc<dyn Backlog>,
        renderer: Arc<dyn Renderer>,
    ) -> Result<Self, Vec<ConfigError>> {
        config.check()?;
        let lanes = Mutex::new(OpenLanes { by_target: BTreeMap::new(), ours: None, draining: false });
        let workers = workers.iter().cloned().collect();
        Ok(Self { registry: Arc::new(LaneRegistry { config, workers, backlog, renderer, lanes }) })
    }

    /// Opens the lane of a participant, which then delivers its callbacks in the outbox. Call it at the start for each
    /// participant with undelivered callbacks; otherwise those wait for the participant's next callback.
    pub fn open(&self, target: ParticipantId) {
        self.registry.lane(target);
    }

    /// From now on, delivers callbacks only to these participants; other nodes of the cluster deliver to the others.
    /// Each lane begins with the oldest callback in the outbox.
    pub fn deliver_to(&self, ours: BTreeSet<ParticipantId>) {
        let mut lanes = self.registry.lanes();
        for (target, lane) in &lanes.by_target {
            match (lane.term(), ours.contains(target)) {
                (None, true) => lane.begin(),
                (Some(_), false) => lane.leave(),
                _ => {}
            }
        }
        lanes.ours = Some(ours.clone());
        drop(lanes);
        ours.into_iter().for_each(|target| self.open(target));
    }

    /// The entry for callbacks from the journal's thread.
    pub fn outlet(&self) -> LaneDispatcher {
        LaneDispatcher {
            registry: self.registry.clone(),
            lanes: Vec::new(),
            touched: Vec::new(),
            posts: Vec::new(),
        }
    }

    /// Sends any number of parked callbacks again, once the outbox lists them as undelivered and no longer parked.
    pub fn redeliver(&self, keys: &[CallbackKey]) {
        let mut by_target = BTreeMap::<_, Vec<_>>::new();
        for key in keys {
            by_target.entry(key.target).or_default().push(*key);
        }
        by_target.into_iter().for_each(|(target, keys)| self.registry.lane(target).recall(keys));
    }

    /// Releases callbacks that wait for an answer ([`OwedCallback::awaits_answer`]): their target has it, or no longer
    /// waits. Call it once for each of them. Each worker gets all of its lanes' callbacks at once.
    pub fn answered(&self, keys: impl IntoIterator<Item = CallbackKey>) {
        let mut by_target = BTreeMap::<_, Vec<_>>::new();
        for key in keys {
            by_target.entry(key.target).or_default().push(key);
        }
        let mut by_worker = BTreeMap::<_, Vec<_>>::new();
        for (target, keys) in by_target {
            let lane = self.registry.lane(target);
            by_worker.entry(lane.worker().index()).or_default().push((lane, keys));
        }
        for posts in by_worker.into_values() {
            let worker = posts[0].0.worker().clone();
            worker.spawn(async move { posts.iter().for_each(|(lane, keys)| lane.answered(keys)) });
        }
    }

    /// Failures of the given callbacks that are still being repeated.
    pub fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure> {
        let targets: BTreeSet<_> = keys.iter().map(|key| key.target).collect();
        let keys = keys.iter().copied().collect();
        let lanes = targets.into_iter().filter_map(|target| self.registry.find(target));
        lanes.flat_map(|lane| lane.failures(&keys)).collect()
    }

    /// Sends a request that is not a callback of the outbox to a participant, immediately and from the calling worker.
    /// Returns its answer, whatever the status.
    ///
    /// Errors: the request is not sent while the lane pauses or has too many messages, and there may be no answer.
    /// Repeat it immediately only after [`TransportError::Stale`].
    pub async fn send(
        &self,
        target: ParticipantId,
        request: OutgoingRequest,
    ) -> Result<Answer, TransportError> {
        self.registry.lane(target).send_directly(request).await
    }

    /// The state of every lane, ordered by participant.
    pub fn lanes(&self) -> Vec<LaneStatus> {
        self.registry.all().iter().map(|lane| lane.status()).collect()
    }

    /// The state of one participant's lane, if it is open.
    pub fn lane(&self, target: ParticipantId) -> Option<LaneStatus> {
        self.registry.find(target).map(|lane| lane.status())
    }

    /// The counters of one participant's lane, if it is open.
    pub fn metrics(&self, target: ParticipantId) -> Option<Arc<LaneMetrics>> {
        self.registry.find(target).map(|lane| lane.metrics().clone())
    }

    /// Begins no further request, waits for those in flight until the deadline, and reports all deliveries. Returns the
    /// number of requests that were still in flight. Undelivered callbacks remain in the outbox.
    pub async fn drain(&self, deadline: Instant) -> usize {
        self.registry.lanes().draining = true;
        let lanes = self.registry.all();
        for lane in &lanes {
            lane.stop_taking();
        }
        let mut in_flight = 0;
        for lane in &lanes {
            in_flight += lane.drain(deadline).await;
        }
        in_flight
    }
}

impl LaneRegistry {
    fn lane(&self, target: ParticipantId) -> Arc<Lane> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.by_target.get(&target) {
            return lane.clone();
        }
        let worker = self.workers[lanes.by_target.len() % self.workers.len()].clone();
        let elsewhere = lanes.ours.as_ref().is_some_and(|ours| !ours.contains(&target));
        let (backlog, renderer) = (self.backlog.clone(), self.renderer.clone());
        let lane = Lane::start(target, &self.config, elsewhere, worker, backlog, renderer);
        if lanes.draining {
            lane.stop_taking();
        }
        lanes.by_target.insert(target, lane.clone());
        lane
    }

    fn find(&self, target: ParticipantId) -> Option<Arc<Lane>> {
        self.lanes().by_target.get(&target).cloned()
    }

    fn all(&self) -> Vec<Arc<Lane>> {
        self.lanes().by_target.values().cloned().collect()
    }
}

impl LaneRegistry {
    fn lanes(&self) -> MutexGuard<'_, OpenLanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes callbacks to their lanes, batch by batch: it collects them per lane and wakes each lane once per batch. One
/// thread owns the outlet. The callbacks of one target must arrive in ascending order of key.
pub struct LaneDispatcher {
    registry: Arc<LaneRegistry>,
    /// By number of participant.
    lanes: Vec<Option<Box<Collected>>>,
    /// Indices of the lanes with collected callbacks.
    touched: Vec<usize>,
    /// The callbacks for each worker in the next flush, by the worker's index.
    posts: Vec<Vec<Post>>,
}

/// Callbacks on their way to a lane.
type Post = (Arc<Lane>, Term, Vec<OwedCallback>);

struct Collected {
    lane: Arc<Lane>,
    term: Option<Term>,
    callbacks: Vec<OwedCallback>,
}

impl LaneDispatcher {
    /// Whether this node delivers to a participant. If not, its callbacks need not be offered.
    pub fn is_ours(&mut self, target: ParticipantId) -> bool {
        self.collected(target).lane.term().is_some()
    }

    fn collected(&mut self, target: ParticipantId) -> &mut Collected {
        let index = target.number() as usize;
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, || None);
        }
        let registry = &self.registry;
        self.lanes[index].get_or_insert_with(|| {
            Box::new(Collected { lane: registry.lane(target), term: None, callbacks: Vec::new() })
        })
    }

    /// Collects a durable callback.
    pub fn offer(&mut self, callback: OwedCallback) {
        let target = callback.key.target;
        let collected = self.collected(target);
        let term = collected.lane.term();
        if term != collected.term {
            // Callbacks of an earlier term come from the outbox, if this node delivers again.
            collected.callbacks.clear();
            collected.term = term;
        }
        if term.is_none() {
            return;
        }
        collected.callbacks.push(callback);
        if collected.callbacks.len() == 1 {
            self.touched.push(target.number() as usize);
        }
    }

    /// Passes the collected callbacks to the lanes. Call it after each batch.
    ///
    /// Each worker gets all of its lanes' callbacks at once and is woken once, because waking another thread is a
    /// system call. A worker runs tasks in order, so the callbacks arrive in the order of the flushes.
    pub fn flush(&mut self) {
        for index in self.touched.drain(..) {
            let Some(collected) = &mut self.lanes[index] else { continue };
            let Some(term) = collected.term else { continue };
            let worker = collected.lane.worker().index();
            if self.posts.len() <= worker {
                self.posts.resize_with(worker + 1, Vec::new);
            }
            self.posts[worker].push((collected.lane.clone(), term, mem::take(&mut collected.callbacks)));
        }
        for post in self.posts.iter_mut().filter(|post| !post.is_empty()) {
            let post = mem::take(post);
            let worker = post[0].0.worker().clone();
            worker.spawn(async move {
                for (lane, term, callbacks) in post {
                    lane.offer(term, callbacks.into_iter());
                }
            });
        }
    }
}
