//! A node with a ledger of the simplest kind: the set of applied commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{
    Chain, Claim, ClusterId, EntryVerdict, Incarnation, Leader, LogEntry, LogFold, NodeId, NodeRole,
    Position, Records, Standby, StandbyTimeouts, Times,
};

pub const CLUSTER: ClusterId = ClusterId(0x5570_6573_6921);

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Apply the command once.
    Write(u64),
    /// Return the applied commands. `answered_before` is the number of answers before the request.
    Read { id: u64, answered_before: usize },
}

/// An answer that is released when the entry in flight is accepted.
#[derive(Clone, Debug)]
pub enum Told {
    /// The command is applied.
    Written { command: u64 },
    /// The applied commands among the commands that were answered before the request.
    Read { id: u64, answered_before: usize, applied: BTreeSet<u64> },
}

/// The accepted data of a node.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Number of applications of each command.
    pub applied: BTreeMap<u64, u32>,
    /// The entries byte for byte: the node's copy of the log.
    pub copy: Vec<Arc<[u8]>>,
}

impl Book {
    pub fn accept(&mut self, bytes: &[u8], entry: &LogEntry<'_>) {
        self.copy.push(bytes.into());
        if entry.kind.has_records() {
            for command in commands(entry.body) {
                *self.applied.entry(command).or_default() += 1;
            }
        }
    }
}

/// The commands of a batch.
pub fn commands(body: &[u8]) -> impl Iterator<Item = u64> {
    body.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// A node of the world.
#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub role: Option<NodeRole>,
    pub book: Book,
    /// Requests that the node has not read yet.
    pub queue: Vec<Question>,
    /// Answers that wait for the entry in flight.
    pub waiting: Vec<Told>,
    /// The chain of the entry in flight, for flawed nodes.
    pub in_flight: Option<Chain>,
    /// Lead of its clock, in nanoseconds.
    pub skew_ns: i64,
    /// The reason why it must not continue.
    pub stopped: Option<String>,
    lives: u64,
}

impl Node {
    pub fn new(number: u32, skew_ns: i64) -> Self {
        let mut node = Self {
            id: NodeId(number),
            role: None,
            book: Book::default(),
            queue: Vec::new(),
            waiting: Vec::new(),
            in_flight: None,
            skew_ns,
            stopped: None,
            lives: 0,
        };
        node.start(Duration::ZERO);
        node
    }

    fn claim(&self) -> Claim {
        let incarnation = Incarnation(u64::from(self.id.0) << 32 | self.lives);
        Claim { incarnation, level: 1, address: format!("node-{}:4002", self.id.0) }
    }

    pub fn clock_ns(&self, now: Duration) -> i64 {
        i64::try_from(now.as_nanos()).expect("a short run") + self.skew_ns
    }

    /// Starts, and reads the log from its beginning.
    pub fn start(&mut self, now: Duration) {
        self.lives += 1;
        self.queue.clear();
        self.waiting.clear();
        self.in_flight = None;
        self.book = Book::default();
        let fold = LogFold::new(CLUSTER, Position::START);
        let mut standby = Standby::new(fold, self.id, self.claim(), StandbyTimeouts::of_rank(self.id.0), now);
        standby.permit_claims();
        self.role = Some(NodeRole::Standby(standby));
    }

    /// A description for the message of a failure.
    pub fn describe(&self) -> String {
        let role = match &self.role {
            Some(NodeRole::Standby(_)) => "standby",
            Some(NodeRole::Leader(leader)) if leader.is_busy() => "leader, an entry in flight",
            Some(NodeRole::Leader(_)) => "leader",
            Some(NodeRole::Newer(_)) | None => "stopped",
        };
        format!("{:?} {role} at {:?}, {:?}", self.id, self.fold().map(LogFold::position), self.stopped)
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.role, Some(NodeRole::Leader(_)))
    }

    pub fn fold(&self) -> Option<&LogFold> {
        match self.role.as_ref()? {
            NodeRole::Standby(standby) | NodeRole::Newer(standby) => Some(standby.fold()),
            NodeRole::Leader(leader) => Some(leader.fold()),
        }
    }

    /// Reads one entry as a follower. Returns whether it is accepted.
    pub fn follow(&mut self, offset: u64, bytes: &[u8], now: Duration) -> bool {
        let Some(NodeRole::Standby(standby)) = self.role.take() else { unreachable!("only standbys follow") };
        let (role, verdict) = standby.read(offset, bytes, None, now);
        self.role = Some(role);
        match verdict {
            EntryVerdict::Accepted(entry) => {
                self.book.accept(bytes, &entry);
                true
            }
            EntryVerdict::Void(_) => false,
            EntryVerdict::Newer(error) => {
                self.stopped = Some(error.to_string());
                false
            }
        }
    }

    /// Becomes a follower again: pending requests are dropped, and their clients ask another node.
    pub fn step_down(&mut self, now: Duration) {
        self.queue.clear();
        self.waiting.clear();
        self.in_flight = None;
        if let Some(NodeRole::Leader(leader)) = self.role.take() {
            let standby = Standby::after(leader, self.claim(), StandbyTimeouts::of_rank(self.id.0), now);
            self.role = Some(NodeRole::Standby(standby));
        }
    }

    /// Decides the queued requests on top of the accepted ones. Returns the entry to append.
    pub fn decide(&mut self, now: Duration) -> Option<upesi_cluster::Append> {
        let clock_ns = self.clock_ns(now);
        let Some(NodeRole::Leader(leader)) = self.role.as_mut() else { return None };
        if leader.is_busy() {
            return None;
        }
        let mut applied: BTreeSet<u64> = self.book.applied.keys().copied().collect();
        let mut fresh = Vec::new();
        for question in self.queue.drain(..) {
            match question {
                Question::Write(command) => {
                    if applied.insert(command) {
                        fresh.extend_from_slice(&command.to_le_bytes());
                    }
                    self.waiting.push(Told::Written { command });
                }
                Question::Read { id, answered_before } => {
                    self.waiting.push(Told::Read { id, answered_before, applied: applied.clone() });
                }
            }
        }
        let append = if !fresh.is_empty() {
            let at = leader.fold().position();
            // If the first command is odd, all are changes of the store.
            let is_of_store = fresh[0] % 2 == 1;
            let ns = clock_ns.max(if is_of_store { at.store.time_ns } else { at.time_ns } + 1);
            let count = u32::try_from(fresh.len() / 8).expect("few");
            let times = Times { first_ns: ns, last_ns: ns + i64::from(count) - 1 };
            let records = Records { count, times, bytes: &fresh };
            if is_of_store { leader.append_store(records) } else { leader.append(records) }
        } else if !self.waiting.is_empty() || leader.is_beat_due(now) {
            leader.beat(clock_ns)
        } else {
            return None;
        };
        self.in_flight = LogEntry::decode(&append.bytes).ok().map(|entry| entry.chain);
        Some(append)
    }

    /// The entry in flight was accepted: adds it to the book. Returns the answers to release.
    pub fn accepted(&mut self, bytes: &[u8]) -> Vec<Told> {
        if let Ok(entry) = LogEntry::decode(bytes) {
            self.book.accept(bytes, &entry);
        }
        self.in_flight = None;
        std::mem::take(&mut self.waiting)
    }

    pub fn leader(&mut self) -> Option<&mut Leader> {
        match self.role.as_mut() {
            Some(NodeRole::Leader(leader)) => Some(leader),
            _ => None,
        }
    }

    pub fn standby(&mut self) -> Option<&mut Standby> {
        match self.role.as_mut() {
            Some(NodeRole::Standby(standby)) => Some(standby),
            _ => None,
        }
    }
}
