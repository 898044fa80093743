//! A leader: each batch is appended to the log, then to the copy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use upesi_cluster::{Append, EntryKind, Leader, Next, NodeId, Records};
use upesi_journal::{AppendedBatch, Batch, Damage, JournalError, Maintenance};

use crate::clock::Clock;
use crate::copy::LocalCopy;
use crate::partition::{Event, Partition};
use crate::records::encode;

/// Time of one wait of the leader for its client.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time without an acknowledgement after which the leader reads the log, because another node may be the leader and
/// this one may never be able to write again.
const READ_AFTER: Duration = Duration::from_secs(2);
/// Time without an acknowledgement after which the leader reports that it is held up.
const HELD_UP_AFTER: Duration = Duration::from_secs(2);
/// Maximum size of the records in an entry of a repair.
const ENTRY_BYTES: usize = 900_000;
/// Maximum duration of a handover. After it, the other nodes take over because of the silence.
const HAND_OVER_MAX: Duration = Duration::from_secs(3);

/// The right to append to the log, and the copy.
pub(crate) struct LeaderLog {
    leader: Leader,
    partition: Box<dyn Partition>,
    pub(crate) copy: LocalCopy,
    clock: Arc<dyn Clock>,
    /// Set when the process stops; then a missing answer is not awaited any longer.
    stops: Arc<AtomicBool>,
    body: Vec<u8>,
    /// Whether the client reads entries back.
    reads: bool,
    /// The end of the leadership, after which nothing may be appended.
    ended: Option<LeadershipEnd>,
    pub(crate) is_held_up: Arc<AtomicBool>,
}

/// Reason for the end of a leadership.
#[derive(Clone, Debug)]
enum LeadershipEnd {
    Superseded { by: String },
    HandedOver,
    Failed(String),
}

impl LeaderLog {
    pub fn new(
        leader: Leader,
        partition: Box<dyn Partition>,
        copy: LocalCopy,
        clock: Arc<dyn Clock>,
        stops: Arc<AtomicBool>,
    ) -> Self {
        let (body, reads, ended, is_held_up) = (Vec::new(), false, None, Arc::default());
        Self { leader, partition, copy, clock, stops, body, reads, ended, is_held_up }
    }

    pub const fn copy(&self) -> &LocalCopy {
        &self.copy
    }

    /// Returns the last record of the copy, and so of the log. It must be at least `seq`.
    pub fn expect_record(&self, seq: u64) -> Result<u64, JournalError> {
        let last_seq = self.copy.last_seq();
        if last_seq >= seq {
            return Ok(last_seq);
        }
        let file = self.partition.name().to_owned();
        Err(JournalError::Damaged { file, offset: 0, reason: Damage::Missing(last_seq + 1) })
    }

    /// Appends a heartbeat if it is due.
    pub fn beat_if_due(&mut self) -> Result<(), JournalError> {
        if self.leader.is_beat_due(self.clock.now()) { self.beat() } else { Ok(()) }
    }

    /// Appends a heartbeat, which proves that this node is still the leader.
    pub fn beat(&mut self) -> Result<(), JournalError> {
        self.expect_sound()?;
        let append = self.leader.beat(self.clock.wall_ns());
        let offset = self.settle(append)?;
        self.copy.advance(self.leader.fold(), offset);
        Ok(())
    }

    fn expect_sound(&self) -> Result<(), JournalError> {
        match &self.ended {
            None => Ok(()),
            Some(LeadershipEnd::Superseded { by }) => Err(JournalError::Superseded { by: by.clone() }),
            Some(LeadershipEnd::HandedOver) => Err(JournalError::Superseded { by: String::new() }),
            Some(LeadershipEnd::Failed(reason)) => Err(self.failure(reason)),
        }
    }

    fn failure(&self, reason: &str) -> JournalError {
        let file = self.partition.name().to_owned();
        JournalError::Io { operation: "append to", file, source: io::Error::other(reason.to_owned()) }
    }

    fn fail(&mut self, reason: String) -> JournalError {
        let error = self.failure(&reason);
        self.ended = Some(LeadershipEnd::Failed(reason));
        error
    }

    /// Appends an entry, and waits until it is known whether it was accepted. Returns its offset.
    fn settle(&mut self, append: Append) -> Result<u64, JournalError> {
        self.settle_until(append, None)
    }

    /// Like [`Self::settle`], until a time of this node's clock at most.
    fn settle_until(&mut self, append: Append, limit: Option<Duration>) -> Result<u64, JournalError> {
        let settled = self.wait_for(append, limit);
        self.is_held_up.store(false, Ordering::Release);
        settled
    }

    fn wait_for(&mut self, append: Append, limit: Option<Duration>) -> Result<u64, JournalError> {
        let since = self.clock.now();
        self.partition.append(append);
        loop {
            let waited = self.clock.now().saturating_sub(since);
            if waited >= HELD_UP_AFTER {
                self.is_held_up.store(true, Ordering::Release);
            }
            if !self.reads && waited >= READ_AFTER {
                self.read_from(self.leader.fold().position().next_offset);
            }
            if limit.is_some_and(|limit| self.clock.now() >= limit) || self.stops.load(Ordering::Acquire) {
                return Err(self.fail("the entry was not acknowledged".to_owned()));
            }
            let event = match self.partition.next(PATIENCE) {
                Ok(event) => event,
                Err(reason) => return Err(self.fail(reason)),
            };
            let now = self.clock.now();
            let (next, at) = match event {
                Some(Event::Acknowledged { tag, offset }) => {
                    (self.leader.acknowledged(tag, offset, now), offset)
                }
                Some(Event::Unknown { tag }) => (self.leader.unknown(tag), 0),
                // An entry that is read again after a change of the position was seen before.
                Some(Event::Entry { offset, bytes, .. })
                    if self.reads && offset >= self.leader.fold().position().next_offset =>
                {
                    (self.leader.read(offset, &bytes, now), offset)
                }
                Some(Event::Entry { .. }) | None => (Next::Wait, 0),
            };
            match next {
                Next::Wait => {}
                Next::Append(append) => self.partition.append(append),
                Next::Read { from, .. } => self.read_from(from),
                Next::Accepted | Next::HandedOver => {
                    self.stop_reading();
                    return Ok(at);
                }
                Next::Superseded => {
                    self.stop_reading();
                    let by =
                        self.leader.fold().claim().map_or_else(String::new, |claim| claim.address.clone());
                    self.ended = Some(LeadershipEnd::Superseded { by: by.clone() });
                    return Err(JournalError::Superseded { by });
                }
                Next::Stop(stop) => return Err(self.fail(stop.to_string())),
            }
        }
    }

    pub(crate) fn read_from(&mut self, offset: u64) {
        if !self.reads {
            self.partition.read_from(offset);
        }
        self.reads = true;
    }

    fn stop_reading(&mut self) {
        if self.reads {
            self.partition.stop_reading();
        }
        self.reads = false;
    }
}

/// Interface for the engine.
impl LeaderLog {
    /// When this returns `Ok`, the batch is accepted, and synced on this node's disk.
    pub fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        self.append_as(EntryKind::Batch, batch)
    }

    fn append_as(&mut self, kind: EntryKind, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        let begun = self.clock.now();
        let offset = self.append_to_log(kind, batch)?;
        let accepted = self.clock.now().saturating_sub(begun);
        match self.copy.append(kind, batch) {
            Ok(appended) => {
                self.copy.advance(self.leader.fold(), offset);
                let accepted_ns = u64::try_from(accepted.as_nanos()).unwrap_or(u64::MAX);
                Ok(AppendedBatch { accepted_ns, ..appended })
            }
            // The log has the batch, so it must not be appended again. A start reads it from there.
            Err(error) => Err(self.fail(format!("its copy on this node cannot be written: {error}"))),
        }
    }

    /// Appends some of the records that the copy has and the log lost. Returns whether there were any.
    pub fn append_again(&mut self, kind: EntryKind) -> Result<bool, JournalError> {
        let position = self.leader.fold().position();
        let seq = if kind == EntryKind::Store { position.store.seq } else { position.seq };
        let batch = self.copy.records_behind(kind, seq, ENTRY_BYTES)?;
        if batch.is_empty() {
            return Ok(false);
        }
        let offset = self.append_to_log(kind, &batch)?;
        self.copy.advance(self.leader.fold(), offset);
        Ok(true)
    }

    fn append_to_log(&mut self, kind: EntryKind, batch: &Batch) -> Result<u64, JournalError> {
        self.expect_sound()?;
        let mut body = std::mem::take(&mut self.body);
        let times = encode(batch, &mut body);
        // A batch has far fewer records than 2^32.
        let records = Records { count: batch.len() as u32, times, bytes: &body };
        let append = match kind {
            EntryKind::Store => self.leader.append_store(records),
            _ => self.leader.append(records),
        };
        self.body = body;
        self.settle(append)
    }

    /// Makes sure that the local copy has space for a body. Fails if the disk is full.
    pub fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.expect_sound()?;
        self.copy.writer().reserve(body_bytes)
    }

    /// Also called when nothing was appended, to send heartbeats.
    pub fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.expect_sound()?;
        self.beat_if_due()?;
        let now = self.clock.now();
        self.copy.save_if_due(now)?;
        if self.copy.is_due_to_tell(now) {
            self.partition.needs(self.copy.needs(), self.copy.ends());
        }
        self.copy.writer().maintain()
    }

    /// Hands leadership over to a node, or to any node. This node can append nothing afterwards.
    pub fn hand_over(&mut self, successor: Option<u32>) -> Result<(), JournalError> {
        self.expect_sound()?;
        let limit = self.clock.now() + HAND_OVER_MAX;
        let append = self.leader.hand_over(successor.map_or(NodeId::ANY, NodeId), self.clock.wall_ns());
        let offset = self.settle_until(append, Some(limit))?;
        self.ended = Some(LeadershipEnd::HandedOver);
        self.copy.advance(self.leader.fold(), offset);
        self.copy.save_last()
    }
}

/// Interface for the store.
impl LeaderLog {
    /// Like the engine's append. If the disk is full, nothing is appended, and the batch may be repeated.
    pub fn append_store(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        self.reserve_store(batch.bytes() as u64)?;
        self.append_as(EntryKind::Store, batch)
    }

    /// Makes sure that the local copy of the store has space for a body. Fails if the disk is full.
    pub fn reserve_store(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.expect_sound()?;
        self.copy.store_writer().reserve(body_bytes)
    }

    /// Maintains the local copy of the store.
    pub fn maintain_store(&mut self) -> Result<Maintenance, JournalError> {
        self.expect_sound()?;
        self.copy.store_writer().maintain()
    }
}
