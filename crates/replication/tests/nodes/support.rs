//! A partition in memory that several nodes share, and nodes on simulated disks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use upesi_cluster::{Append, Claim, ClusterId, Incarnation, NodeId, Position, StandbyTimeouts};
use upesi_journal::sim_disk::SimDisk;
use upesi_journal::{Batch, ClaimedLog, Disk, END, EmbeddedLog, Log, Options};
use upesi_replication::{
    Clock, Copies, CopyOf, CopyPosition, Event, NodeSettings, Partition, ReplicatedLog, ReplicationError,
    StandbyOutcome, StandbyProgress, stand_by,
};

/// Time of the first record. A node whose clock is far behind does not claim leadership.
pub const RECORDS_TIME: Duration = Duration::from_secs(10_000);

/// Pause between two denied attempts.
const DENIED_PAUSE: Duration = Duration::from_millis(100);

pub const CLUSTER: ClusterId = ClusterId(0xc1);

/// The fate of an attempt in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The attempt arrives, and is acknowledged.
    Sound,
    /// The attempt never arrives, and the client times out.
    Lost,
    /// The attempt arrives, but its acknowledgement does not.
    Unacknowledged,
    /// The attempt arrives twice; the second copy is acknowledged first.
    Twice,
    /// The attempt never arrives, and the client does not time out.
    Silence,
    /// The brokers deny the write. The client waits before it reports this.
    Denied,
}

#[derive(Default)]
struct State {
    entries: Vec<Arc<[u8]>>,
    fates: VecDeque<Fate>,
    /// Earlier entries were deleted.
    begin: usize,
    /// The reported needs of each node.
    needs: BTreeMap<u32, (u64, CopyPosition)>,
    /// Entries that arrive before the next attempt, as if another node were faster.
    ahead: VecDeque<Arc<[u8]>>,
    /// Lag of its clock behind the nodes' clocks.
    behind_ns: i64,
}

/// The log. Cloning shares it.
#[derive(Clone, Default)]
pub struct MemoryLog(Arc<Mutex<State>>);

impl MemoryLog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn node(&self, clock: &VirtualClock) -> Box<dyn Partition> {
        self.client(clock, None)
    }

    fn client(&self, clock: &VirtualClock, number: Option<u32>) -> Box<dyn Partition> {
        let (log, clock) = (self.clone(), clock.clone());
        Box::new(Client { log, number, clock, events: VecDeque::new(), denied: None, reads: None })
    }

    /// A log with these entries.
    pub fn of(entries: &[Arc<[u8]>]) -> Self {
        let log = Self::default();
        log.lock().entries.extend_from_slice(entries);
        log
    }

    /// Sets the fates of the next attempts.
    pub fn fate(&self, fates: &[Fate]) {
        self.lock().fates.extend(fates);
    }

    /// Makes the entry arrive before the next attempt.
    pub fn put_ahead(&self, bytes: Arc<[u8]>) {
        self.lock().ahead.push_back(bytes);
    }

    pub fn entries(&self) -> Vec<Arc<[u8]>> {
        self.lock().entries.clone()
    }

    pub fn push(&self, bytes: Arc<[u8]>) {
        self.lock().entries.push(bytes);
    }

    /// Deletes the entries that no node needs. Returns the number of deleted entries so far.
    pub fn delete_before_need(&self) -> usize {
        let mut state = self.lock();
        state.begin = state.needs.values().map(|needed| needed.0 as usize).min().unwrap_or(0);
        state.begin
    }

    /// Deletes the entries before an offset.
    pub fn delete_before(&self, offset: usize) {
        self.lock().begin = offset;
    }

    /// Removes the needs of a node.
    pub fn remove(&self, node: u32) {
        self.lock().needs.remove(&node);
    }

    /// Sets the lag of its clock behind the nodes' clocks.
    pub fn fall_behind(&self, by: Duration) {
        self.lock().behind_ns = i64::try_from(by.as_nanos()).expect("a short time");
    }

    pub fn truncate(&self, length: usize) {
        self.lock().entries.truncate(length);
    }
}

struct Client {
    log: MemoryLog,
    number: Option<u32>,
    clock: VirtualClock,
    events: VecDeque<Event>,
    /// A denied attempt that is not reported yet.
    denied: Option<u64>,
    reads: Option<u64>,
}

impl Partition for Client {
    fn append(&mut self, append: Append) {
        let mut state = self.log.lock();
        let ahead: Vec<_> = state.ahead.drain(..).collect();
        state.entries.extend(ahead);
        let fate = state.fates.pop_front().unwrap_or(Fate::Sound);
        let copies = match fate {
            Fate::Lost | Fate::Silence | Fate::Denied => 0,
            Fate::Sound | Fate::Unacknowledged => 1,
            Fate::Twice => 2,
        };
        for _ in 0..copies {
            state.entries.push(Arc::clone(&append.bytes));
        }
        let offset = state.entries.len() as u64;
        let tag = append.tag;
        match fate {
            Fate::Silence => {}
            Fate::Lost | Fate::Unacknowledged => self.events.push_back(Event::Unknown { tag }),
            Fate::Denied => self.denied = Some(tag),
            Fate::Sound | Fate::Twice => {
                self.events.push_back(Event::Acknowledged { tag, offset: offset - 1 });
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
            return Err(format!("offset {at} is gone"));
        }
        let found = self.reads.and_then(|at| Some((at, state.entries.get(at as usize)?.clone())));
        drop(state);
        let Some((offset, bytes)) = found else {
            if let Some(tag) = self.denied.take() {
                self.clock.advance(DENIED_PAUSE);
                return Ok(Some(Event::Unknown { tag }));
            }
            // Waiting takes no real time.
            self.clock.advance(patience);
            return Ok(None);
        };
        self.reads = Some(offset + 1);
        let appended_ns = Some(self.clock.wall_ns() - self.log.lock().behind_ns);
        Ok(Some(Event::Entry { offset, bytes, appended_ns }))
    }

    fn begin(&mut self) -> Option<u64> {
        Some(self.log.lock().begin as u64)
    }

    fn needs(&mut self, offset: u64, has: CopyPosition) {
        if let Some(number) = self.number {
            self.log.lock().needs.insert(number, (offset, has));
        }
    }

    fn furthest_of_others(&mut self) -> Option<CopyPosition> {
        let state = self.log.lock();
        let others = state.needs.iter().filter(|(node, _)| Some(**node) != self.number);
        Some(others.fold(CopyPosition::default(), |furthest, (_, (_, has))| furthest.furthest(*has)))
    }

    fn end(&mut self) -> Option<u64> {
        Some(self.log.lock().entries.len() as u64)
    }

    fn name(&self) -> &str {
        "the log in memory"
    }
}

/// A clock that advances when a thread waits. Cloning shares it.
#[derive(Clone, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_nanos()).expect("a short time"), Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn wall_ns(&self) -> i64 {
        1_000 + i64::try_from(self.0.load(Ordering::SeqCst)).expect("a short time")
    }
}

/// A node, and its disk.
#[derive(Clone)]
pub struct Node {
    pub number: u32,
    pub life: u64,
    pub disk: SimDisk,
    pub store: SimDisk,
    pub clock: VirtualClock,
    /// Stops it, or lets it not wait for brokers.
    pub stops: Arc<AtomicBool>,
}

impl Node {
    pub fn new(number: u32) -> Self {
        Self {
            number,
            life: 1,
            disk: SimDisk::new(u64::from(number)),
            store: SimDisk::new(u64::from(number) + 100),
            clock: VirtualClock::default(),
            stops: Arc::default(),
        }
    }

    pub fn settings(&self) -> NodeSettings {
        NodeSettings {
            cluster: CLUSTER,
            node: NodeId(self.number),
            claim: Claim {
                incarnation: Incarnation(self.life),
                level: 1,
                address: format!("node-{}", self.number),
            },
            patience: StandbyTimeouts::of_rank(self.number),
            may_claim: true,
            is_promoted: Arc::default(),
            is_unfit: Arc::default(),
            report_every: Duration::from_secs(30),
        }
    }

    /// Where its copies are.
    pub fn copies(&self) -> Copies {
        let copy = |disk: &SimDisk| {
            let options = Options { segment_bytes: 64 * 1024, identity: 9, ..Options::default() };
            CopyOf { disk: Arc::new(disk.clone()), options }
        };
        Copies { journal: copy(&self.disk), store: copy(&self.store) }
    }

    /// Follows until it becomes leader, or until `enough` returns true.
    pub fn stand_by(
        &self,
        log: &MemoryLog,
        mut enough: impl FnMut(&Position) -> bool,
    ) -> Result<StandbyOutcome, ReplicationError> {
        let stops = Arc::clone(&self.stops);
        stops.store(false, Ordering::Release);
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let mut tell = |progress: &StandbyProgress| {
            if enough(&progress.position) {
                stops.store(true, Ordering::Release);
            }
        };
        let partition = log.client(&self.clock, Some(self.number));
        stand_by(partition, self.copies(), &self.settings(), &clock, &stops, &mut tell)
    }

    /// Follows until it becomes leader.
    pub fn elected(&self, log: &MemoryLog) -> ReplicatedLog {
        match self.stand_by(log, |_| false).expect("a sound log") {
            StandbyOutcome::Elected(log) => log,
            StandbyOutcome::Stopped => panic!("it stopped without a request"),
        }
    }

    /// Follows until it has read this many records, and stops.
    pub fn follows_to(&self, log: &MemoryLog, seq: u64) {
        match self.stand_by(log, |position| position.seq >= seq).expect("a sound log") {
            StandbyOutcome::Elected(_) => panic!("it led before it had read {seq} records"),
            StandbyOutcome::Stopped => {}
        }
    }

    /// The records of its copy: times and bytes.
    pub fn records(&self) -> Vec<(i64, Vec<u8>)> {
        Self::records_on(&self.disk)
    }

    /// The records of its store's copy.
    pub fn store_records(&self) -> Vec<(i64, Vec<u8>)> {
        Self::records_on(&self.store)
    }

    fn records_on(disk: &SimDisk) -> Vec<(i64, Vec<u8>)> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut reader = EmbeddedLog::for_reading(&disk).read_from(1);
        let mut records = Vec::new();
        while let Some(record) = reader.next_record(END).expect("a sound copy") {
            records.push((record.time_ns, record.bytes.to_vec()));
        }
        records
    }
}

/// The right to append to a log that was not claimed before.
pub fn claim(log: &ReplicatedLog) -> Box<dyn upesi_journal::Appender> {
    let ClaimedLog { appender, torn, .. } = log.claim(0).expect("the leadership");
    assert!(torn.is_none());
    appender
}

/// A batch of `count` records that begins with `first_seq`. All records differ.
pub fn batch(first_seq: u64, count: u64) -> Batch {
    let mut batch = Batch::new(first_seq);
    for seq in first_seq..first_seq + count {
        let time_ns = i64::try_from(RECORDS_TIME.as_nanos() as u64 + seq).expect("a short time");
        batch.push(time_ns, |buffer| buffer.extend_from_slice(format!("record {seq}").as_bytes()));
    }
    batch
}
