//! The log of a cluster: one partition in memory, with the faults of brokers and networks on append attempts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use upesi_cluster::Append;
use upesi_engine::Clock as _;
use upesi_journal::sim_disk::Random;
use upesi_replication::{Clock, CopyPosition, Event, Partition};

use crate::clock::HubClock;

/// Outcomes of append attempts, except for a single arrival with an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppendOutcomes {
    /// Attempts that never arrived.
    pub(crate) lost: u64,
    /// Attempts that arrived, but the acknowledgement was lost.
    pub(crate) unacknowledged: u64,
    pub(crate) twice: u64,
    /// Attempts that arrived when no node waited for them any longer, but before a later attempt, perhaps of another
    /// node.
    pub(crate) late: u64,
}

struct State {
    entries: Vec<Arc<[u8]>>,
    /// Index of the first entry that was not deleted.
    begin: usize,
    /// For each node: the first log entry that it needs, and its copied position.
    needs: BTreeMap<u32, (u64, CopyPosition)>,
    /// Attempts that are still in transit.
    late: Vec<Arc<[u8]>>,
    random: Random,
    is_troubled: bool,
    fates: AppendOutcomes,
}

/// The log of the cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedLog(Arc<Mutex<State>>);

impl SharedLog {
    /// Creates the log for this number of nodes, which are known to it.
    pub(crate) fn new(random: Random, nodes: u32) -> Self {
        let needs = (0..nodes).map(|node| (node, (0, CopyPosition::default()))).collect();
        let (entries, begin, late) = (Vec::new(), 0, Vec::new());
        let fates = AppendOutcomes::default();
        Self(Arc::new(Mutex::new(State { entries, begin, needs, late, random, is_troubled: true, fates })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client of a node. When the node's own clock has reached `limit`, `stops` is set.
    pub(crate) fn client(
        &self,
        node: u32,
        clock: &NodeClock,
        stops: &Arc<AtomicBool>,
        limit: Duration,
    ) -> Box<dyn Partition> {
        let (clock, stops) = (clock.clone(), Arc::clone(stops));
        Box::new(Client {
            log: self.clone(),
            node,
            clock,
            stops,
            limit,
            events: VecDeque::new(),
            reads: None,
        })
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.lock().is_troubled = false;
    }

    /// Deletes the entries that no node needs.
    pub(crate) fn delete_before_need(&self) {
        let mut state = self.lock();
        let needed = state.needs.values().map(|(offset, _)| *offset as usize).min().unwrap_or(0);
        state.begin = state.begin.max(needed);
    }

    /// Number of deleted entries.
    pub(crate) fn deleted(&self) -> u64 {
        self.lock().begin as u64
    }

    pub(crate) fn fates(&self) -> AppendOutcomes {
        self.lock().fates
    }
}

/// A node's clocks: the machine's, and the time that the node has waited beyond the world's time. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct NodeClock {
    machine: Arc<HubClock>,
    waited_ns: Arc<AtomicU64>,
}

impl NodeClock {
    pub(crate) fn of(machine: Arc<HubClock>) -> Self {
        Self { machine, waited_ns: Arc::default() }
    }

    fn wait(&self, time: Duration) {
        self.waited_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Duration {
        self.machine.monotonic() + Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    fn wall_ns(&self) -> i64 {
        self.machine.now().as_ns()
    }
}

struct Client {
    log: SharedLog,
    node: u32,
    clock: NodeClock,
    stops: Arc<AtomicBool>,
    limit: Duration,
    events: VecDeque<Event>,
    reads: Option<u64>,
}

impl Partition for Client {
    fn append(&mut self, append: Append) {
        let mut state = self.log.lock();
        let state = &mut *state;
        if !state.late.is_empty() && state.random.one_in(2) {
            state.entries.append(&mut state.late);
        }
        let fate = if state.is_troubled { state.random.below(16) } else { u64::MAX };
        let unknown = Event::Unknown { tag: append.tag };
        match fate {
            0 => {
                state.fates.lost += 1;
                self.events.push_back(unknown);
            }
            1 => {
                state.fates.late += 1;
                state.late.push(append.bytes);
                self.events.push_back(unknown);
            }
            2 => {
                state.fates.unacknowledged += 1;
                state.entries.push(append.bytes);
                self.events.push_back(unknown);
            }
            fate => {
                if fate == 3 {
                    state.fates.twice += 1;
                    state.entries.push(Arc::clone(&append.bytes));
                }
                let offset = state.entries.len() as u64;
                state.entries.push(append.bytes);
                self.events.push_back(Event::Acknowledged { tag: append.tag, offset });
            }
        }
    }

    fn read_from(&mut self, offset: u64) {
        self.reads = Some(offset);
    }

    fn stop_reading(&mut self) {
        self.reads = None;
    }

    fn next(&mut self, patience: Duration) -> Result<Option<Event>, String> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        let state = self.log.lock();
        if let Some(at) = self.reads.filter(|at| *at < state.begin as u64) {
            return Err(format!("offset {at} was deleted"));
        }
        let found = self.reads.and_then(|at| Some((at, Arc::clone(state.entries.get(at as usize)?))));
        drop(state);
        let Some((offset, bytes)) = found else {
            // The simulation does not wait in real time.
            self.clock.wait(patience);
            if self.clock.now() >= self.limit {
                self.stops.store(true, Ordering::Release);
            }
            return Ok(None);
        };
        self.reads = Some(offset + 1);
        Ok(Some(Event::Entry { offset, bytes, appended_ns: None }))
    }

    fn end(&mut self) -> Option<u64> {
        Some(self.log.lock().entries.len() as u64)
    }

    fn begin(&mut self) -> Option<u64> {
        Some(self.log.lock().begin as u64)
    }

    fn needs(&mut self, offset: u64, has: CopyPosition) {
        self.log.lock().needs.insert(self.node, (offset, has));
    }

    fn furthest_of_others(&mut self) -> Option<CopyPosition> {
        let state = self.log.lock();
        let others = state.needs.iter().filter(|(node, _)| **node != self.node);
        Some(others.fold(CopyPosition::default(), |furthest, (_, (_, has))| furthest.furthest(*has)))
    }

    fn name(&self) -> &str {
        "the simulated log"
    }
}
