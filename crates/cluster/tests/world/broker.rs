//! Brokers of one partition, as their clients see them: a log whose last entries are not committed yet; requests and
//! acknowledgements that are late, lost, repeated and reordered; and changing leaders of the partition.

use std::sync::Arc;

use upesi_cluster::Append;

use crate::random::Random;

/// A produce request in flight.
#[derive(Clone, Debug)]
struct Request {
    /// The node that waits for the answer.
    node: Option<usize>,
    append: Append,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub node: usize,
    pub tag: u64,
    /// `None` if the client gave up the request.
    pub offset: Option<u64>,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub truncated: u64,
    pub lost_requests: u64,
    pub repeated_requests: u64,
    pub lost_answers: u64,
    pub lost_committed: u64,
}

/// The partition.
#[derive(Debug, Default)]
pub struct Broker {
    log: Vec<Arc<[u8]>>,
    /// Entries before it are on all in-sync replicas, and visible to readers.
    committed: usize,
    requests: Vec<Request>,
    /// Appended, and not committed yet.
    waiting: Vec<(Request, usize)>,
    answers: Vec<Answer>,
    /// While it is paused, nothing happens.
    pub is_frozen: bool,
    pub counts: Counts,
}

impl Broker {
    pub fn produce(&mut self, node: usize, append: Append) {
        self.requests.push(Request { node: Some(node), append });
    }

    /// Committed entries from `offset` on.
    pub fn read(&self, offset: u64) -> Option<Arc<[u8]>> {
        self.log[..self.committed].get(offset as usize).cloned()
    }

    /// End of the committed entries.
    pub fn end(&self) -> u64 {
        self.committed as u64
    }

    pub fn committed(&self) -> &[Arc<[u8]>] {
        &self.log[..self.committed]
    }

    /// Executes one event.
    pub fn step(&mut self, random: &mut Random, loses_tail: bool) {
        if self.is_frozen {
            return;
        }
        match random.below(100) {
            0..50 => self.arrive(random),
            50..85 => self.replicate(random),
            85..90 => self.lose_request(random),
            90..93 => self.fail_over(random),
            93..94 if loses_tail && random.once_in(4) => self.lose_committed(random),
            _ => {}
        }
    }

    /// A request arrives, in any order, and may arrive again.
    fn arrive(&mut self, random: &mut Random) {
        if self.requests.is_empty() {
            return;
        }
        let index = random.below(self.requests.len());
        let request = if random.once_in(12) {
            self.counts.repeated_requests += 1;
            self.requests[index].clone()
        } else {
            self.requests.swap_remove(index)
        };
        self.log.push(Arc::clone(&request.append.bytes));
        self.waiting.push((request, self.log.len() - 1));
    }

    fn replicate(&mut self, random: &mut Random) {
        self.committed += random.below(self.log.len() - self.committed + 1);
        let (committed, is_lossless) = (self.committed, !random.once_in(8));
        let (done, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(_, at)| *at < committed);
        self.waiting = waiting;
        for (request, at) in done {
            let offset = is_lossless.then_some(at as u64);
            self.counts.lost_answers += u64::from(!is_lossless);
            self.tell(&request, offset);
        }
    }

    fn lose_request(&mut self, random: &mut Random) {
        if self.requests.is_empty() {
            return;
        }
        let index = random.below(self.requests.len());
        let lost = self.requests.swap_remove(index);
        self.counts.lost_requests += 1;
        self.tell(&lost, None);
    }

    /// Another replica becomes leader: uncommitted entries may vanish, and their offsets are used again.
    fn fail_over(&mut self, random: &mut Random) {
        let kept = self.committed + random.below(self.log.len() - self.committed + 1);
        self.truncate(kept);
    }

    fn truncate(&mut self, kept: usize) {
        self.counts.truncated += (self.log.len() - kept) as u64;
        self.log.truncate(kept);
        let (waiting, lost): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(_, at)| *at < kept);
        self.waiting = waiting;
        for (request, _) in lost {
            self.tell(&request, None);
        }
    }

    /// All replicas lose power before they wrote, which no broker may do.
    fn lose_committed(&mut self, random: &mut Random) {
        let lost = (1 + random.below(3)).min(self.committed);
        self.committed -= lost;
        self.counts.lost_committed += lost as u64;
        self.truncate(self.committed);
    }

    /// An answer arrives, in any order.
    pub fn answer(&mut self, random: &mut Random) -> Option<Answer> {
        (!self.answers.is_empty() && !self.is_frozen).then(|| {
            let index = random.below(self.answers.len());
            self.answers.swap_remove(index)
        })
    }

    /// The node's process ended: its requests continue, and their answers are dropped.
    pub fn forget(&mut self, node: usize) {
        let waiting = self.waiting.iter_mut().map(|(request, _)| request);
        for request in self.requests.iter_mut().chain(waiting).filter(|request| request.node == Some(node)) {
            request.node = None;
        }
        self.answers.retain(|answer| answer.node != node);
    }

    fn tell(&mut self, request: &Request, offset: Option<u64>) {
        if let Some(node) = request.node {
            self.answers.push(Answer { node, tag: request.append.tag, offset });
        }
    }

    /// The answer's node is not running.
    pub fn answer_later(&mut self, answer: Answer) {
        self.answers.push(answer);
    }
}
