//! Three nodes on one log, clients that repeat unanswered requests, and all faults, by seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{Append, Chain, EntryKind, LogEntry, Next, NodeId, NodeRole};

use crate::broker::{Answer, Broker};
use crate::checks::world;
use crate::node::{Node, Question, Told};
use crate::random::Random;

const NODES: usize = 3;
/// Steps without faults after which there must be one leader, and an answer to every request.
const CALM_STEPS: usize = 20_000;
const UNANSWERED_MAX: usize = 12;

/// An intentional fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// Answers are released at any acknowledgement, wherever the entry is.
    TrustsAcknowledgements,
    /// A leader answers reads from its memory, without an entry.
    ReadsWithoutBarrier,
    /// A claimant answers reads when its claim is acknowledged, before it has read up to it.
    ServesBeforeItsClaim,
    /// Entries are accepted if their epoch and node are correct.
    FoldsByEpochAlone,
    /// Brokers lose acknowledged entries.
    BrokersLoseTheirTail,
}

/// A released answer.
#[derive(Clone, Debug)]
pub struct Left {
    pub told: Told,
    /// The entry whose acceptance released it; `None` for a flawed answer without an entry.
    pub chain: Option<Chain>,
}

#[derive(Debug)]
pub struct World {
    pub flaw: Flaw,
    random: Random,
    now: Duration,
    pub broker: Broker,
    pub nodes: Vec<Node>,
    paused: [bool; NODES],
    /// The entry in flight of each node.
    in_flight: [Option<Arc<[u8]>>; NODES],
    /// Last offset that a leader reads back.
    reads_to: [Option<u64>; NODES],
    next_id: u64,
    unanswered: BTreeSet<u64>,
    /// Commands in the order of their answers.
    pub answered: Vec<u64>,
    pub left: Vec<Left>,
    is_calm: bool,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl World {
    pub fn new(seed: u64, flaw: Flaw) -> Self {
        let mut random = Random::new(seed);
        // Clocks differ by up to a second.
        let nodes =
            (0..NODES as u32).map(|number| Node::new(number, random.below(1_000_000_000) as i64)).collect();
        Self {
            flaw,
            random,
            now: Duration::from_secs(10),
            broker: Broker::default(),
            nodes,
            paused: [false; NODES],
            in_flight: [const { None }; NODES],
            reads_to: [None; NODES],
            next_id: 1,
            unanswered: BTreeSet::new(),
            answered: Vec::new(),
            left: Vec::new(),
            is_calm: false,
            counts: BTreeMap::new(),
        }
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts.clone();
        let broker = self.broker.counts;
        counts.insert("truncated", broker.truncated);
        counts.insert("requests lost", broker.lost_requests);
        counts.insert("requests repeated", broker.repeated_requests);
        counts.insert("acknowledgements lost", broker.lost_answers);
        counts.insert("committed entries lost", broker.lost_committed);
        counts
    }

    pub fn log_bytes(&self) -> Vec<u8> {
        self.broker.committed().concat()
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Ends the faults, waits for an answer to every request, and checks everything.
    pub fn finish(&mut self) -> Result<(), String> {
        self.is_calm = true;
        self.broker.is_frozen = false;
        self.paused = [false; NODES];
        let mut steps = 0;
        while !self.is_settled() {
            self.step();
            steps += 1;
            if steps > CALM_STEPS {
                let nodes: Vec<_> = self.nodes.iter().map(Node::describe).collect();
                return Err(format!(
                    "C8: {} commands without answer after {CALM_STEPS} steps without faults; the log ends at {}; {}",
                    self.unanswered.len(),
                    self.broker.end(),
                    nodes.join("; "),
                ));
            }
        }
        world(self, &mut BTreeMap::new()).inspect(|counts| {
            for (name, count) in counts {
                *self.counts.entry(name).or_default() += count;
            }
        })?;
        Ok(())
    }

    /// One leader, and no unanswered request.
    fn is_settled(&self) -> bool {
        self.unanswered.is_empty() && self.nodes.iter().filter(|node| node.is_leader()).count() == 1
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(if self.is_calm { 100 } else { 40 }) as u64);
        let n = self.random.below(NODES);
        let is_here = !self.paused[n] && self.nodes[n].stopped.is_none();
        match self.random.below(100) {
            0..35 => {
                self.broker.step(&mut self.random, self.flaw == Flaw::BrokersLoseTheirTail && !self.is_calm)
            }
            35..55 => {
                if let Some(answer) = self.broker.answer(&mut self.random) {
                    self.tell(answer);
                }
            }
            55..70 if is_here => self.follow(n),
            70..76 if is_here => self.look_for_silence(n),
            76..88 if is_here => self.decide(n),
            88..94 => self.ask(),
            _ if !self.is_calm => self.fault(n, is_here),
            _ => {}
        }
    }

    fn fault(&mut self, n: usize, is_here: bool) {
        match self.random.below(40) {
            0..4 => self.broker.is_frozen ^= true,
            4..9 => self.paused[n] ^= true,
            9 => self.restart(n),
            10..14 if is_here => {
                // A node claims without a reason.
                let clock_ns = self.nodes[n].clock_ns(self.now);
                if let Some(claim) = self.nodes[n].standby().map(|standby| standby.claim(clock_ns)) {
                    self.broker.produce(n, claim);
                }
            }
            14..20 if is_here => self.hand_over(n),
            _ => {}
        }
    }

    fn restart(&mut self, n: usize) {
        self.count("restarts");
        self.broker.forget(n);
        self.nodes[n].start(self.now);
        self.in_flight[n] = None;
        self.reads_to[n] = None;
    }

    fn hand_over(&mut self, n: usize) {
        let clock_ns = self.nodes[n].clock_ns(self.now);
        // The named node may be stopped, or may not exist.
        let successor = match self.random.below(4) {
            0 => NodeId::ANY,
            1 => NodeId(NODES as u32),
            _ => NodeId(((n + 1) % NODES) as u32),
        };
        let Some(leader) = self.nodes[n].leader().filter(|leader| !leader.is_busy()) else { return };
        let append = leader.hand_over(successor, clock_ns);
        if successor == NodeId::ANY {
            self.count("handed to any");
        }
        self.send(n, append);
    }

    fn send(&mut self, n: usize, append: Append) {
        self.in_flight[n] = Some(Arc::clone(&append.bytes));
        self.broker.produce(n, append);
    }

    /// A client sends a request to the node that it considers the leader.
    fn ask(&mut self) {
        let leaders: Vec<usize> = (0..NODES).filter(|n| self.nodes[*n].is_leader()).collect();
        let n = if leaders.is_empty() {
            self.random.below(NODES)
        } else {
            leaders[self.random.below(leaders.len())]
        };
        if self.paused[n] || !self.nodes[n].is_leader() || self.nodes[n].queue.len() > 4 {
            return;
        }
        let question = if self.random.once_in(4) {
            self.next_id += 1;
            Question::Read { id: self.next_id, answered_before: self.answered.len() }
        } else if self.is_calm || self.random.once_in(2) || self.unanswered.len() >= UNANSWERED_MAX {
            // Unanswered requests are repeated.
            let Some(command) = self.unanswered.iter().nth(self.random.below(self.unanswered.len().max(1)))
            else {
                return;
            };
            Question::Write(*command)
        } else {
            self.next_id += 1;
            self.unanswered.insert(self.next_id);
            Question::Write(self.next_id)
        };
        if let (Flaw::ReadsWithoutBarrier, Question::Read { .. }) = (self.flaw, question) {
            return self.answer_from_memory(n, question);
        }
        self.nodes[n].queue.push(question);
    }

    fn answer_from_memory(&mut self, n: usize, question: Question) {
        if let Question::Read { id, answered_before } = question {
            let applied = self.nodes[n].book.applied.keys().copied().collect();
            self.left.push(Left { told: Told::Read { id, answered_before, applied }, chain: None });
        }
    }

    fn decide(&mut self, n: usize) {
        let now = self.now;
        if let Some(append) = self.nodes[n].decide(now) {
            self.send(n, append);
        }
    }

    fn look_for_silence(&mut self, n: usize) {
        let (now, clock_ns) = (self.now, self.nodes[n].clock_ns(self.now));
        // A client may learn an outdated end.
        let end = (!self.broker.is_frozen).then(|| {
            let lag = if self.is_calm { 0 } else { self.random.below(3) as u64 };
            self.broker.end().saturating_sub(lag)
        });
        let standby_id = self.nodes[n].id;
        let Some(standby) = self.nodes[n].standby() else { return };
        if standby.asks_for_end(now)
            && let Ok(Some(claim)) = standby.end(end, now, clock_ns)
        {
            let is_called = standby.fold().is_left_to(standby_id);
            self.count(if is_called { "claims after a hand-over" } else { "claims after silence" });
            self.broker.produce(n, claim);
        }
    }

    /// A node reads committed entries: a follower, or a leader that reads back.
    fn follow(&mut self, n: usize) {
        for _ in 0..=self.random.below(4) {
            let Some(offset) = self.nodes[n].fold().map(|fold| fold.position().next_offset) else { return };
            let Some(bytes) = self.broker.read(offset) else { return };
            if self.nodes[n].is_leader() {
                if self.reads_to[n].is_none_or(|to| offset > to) {
                    return;
                }
                self.count("read back");
                self.read_as_leader(n, offset, &bytes);
            } else if matches!(self.nodes[n].role, Some(NodeRole::Standby(_))) {
                self.nodes[n].follow(offset, &bytes, self.now);
                if self.nodes[n].is_leader() {
                    self.count("leaders");
                }
            }
        }
    }

    fn read_as_leader(&mut self, n: usize, offset: u64, bytes: &[u8]) {
        let now = self.now;
        let Some(leader) = self.nodes[n].leader() else { return };
        let next = leader.read(offset, bytes, now);
        let counts = LogEntry::decode(bytes).is_ok_and(|entry| entry.chain == leader.fold().position().chain);
        if counts && next == Next::Superseded {
            // The other node's claim is part of the book, too.
            if let Ok(entry) = LogEntry::decode(bytes) {
                self.nodes[n].book.accept(bytes, &entry);
            }
        }
        self.go_on(n, next);
    }

    fn tell(&mut self, answer: Answer) {
        let Answer { node: n, tag, offset } = answer;
        if self.paused[n] {
            // The answer to its client is ready.
            return self.broker.answer_later(answer);
        }
        let now = self.now;
        if self.flaw == Flaw::ServesBeforeItsClaim && offset.is_some() && self.nodes[n].standby().is_some() {
            let question = Question::Read { id: 0, answered_before: self.answered.len() };
            return self.answer_from_memory(n, question);
        }
        if self.flaw == Flaw::TrustsAcknowledgements && offset.is_some() {
            let chain = self.nodes[n].in_flight;
            let waiting = std::mem::take(&mut self.nodes[n].waiting);
            self.release(waiting, chain);
        }
        let Some(leader) = self.nodes[n].leader() else { return };
        let next = match offset {
            Some(offset) => leader.acknowledged(tag, offset, now),
            None => leader.unknown(tag),
        };
        self.go_on(n, next);
    }

    fn go_on(&mut self, n: usize, next: Next) {
        match next {
            Next::Wait => {}
            Next::Append(append) => self.send(n, append),
            Next::Read { to, .. } => self.reads_to[n] = Some(to),
            Next::Accepted => {
                let bytes = self.in_flight[n].take().expect("an entry is in flight");
                let chain = self.nodes[n].in_flight;
                let told = self.nodes[n].accepted(&bytes);
                self.release(told, chain);
                self.reads_to[n] = None;
            }
            Next::Superseded => {
                self.count("superseded");
                self.in_flight[n] = None;
                self.reads_to[n] = None;
                self.nodes[n].step_down(self.now);
            }
            Next::HandedOver => {
                self.count("handed over");
                let bytes = self.in_flight[n].take().expect("an entry is in flight");
                self.nodes[n].accepted(&bytes);
                self.reads_to[n] = None;
                self.nodes[n].step_down(self.now);
            }
            Next::Stop(stop) => {
                self.nodes[n].stopped = Some(stop.to_string());
                self.nodes[n].role = None;
            }
        }
    }

    /// Releases answers.
    fn release(&mut self, answers: Vec<Told>, chain: Option<Chain>) {
        for told in answers {
            match &told {
                Told::Written { command } => {
                    self.count("answered");
                    if self.unanswered.remove(command) {
                        self.answered.push(*command);
                    }
                }
                Told::Read { .. } => self.count("reads"),
            }
            self.left.push(Left { told, chain });
        }
    }
}

/// Whether an entry is a claim.
pub fn is_claim(entry: &LogEntry<'_>) -> bool {
    entry.kind == EntryKind::Claim
}
