//! A standby: a follower that reads the log until it becomes leader.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use upesi_cluster::{
    Append, ClockAhead, EndLost, EntryVerdict, LogEntry, LogFold, NodeId, NodeRole, Position, Standby,
    VoidReason,
};

use crate::clock::Clock;
use crate::copy::{Copies, LocalCopy};
use crate::error::ReplicationError;
use crate::leading::LeaderLog;
use crate::partition::{CopyPosition, Event, Partition, next};
use crate::replicated_log::ReplicatedLog;
use crate::settings::NodeSettings;

/// Time that a standby waits for an entry before it checks the clock.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time that the log may lack records of the copy. After a leader change, brokers may briefly report an older end.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// Interval between queries of other nodes' copies while they are unknown.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Progress of a standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyProgress {
    /// Position after the accepted entries.
    pub position: Position,
    /// Address of the leader; `None` if there is none.
    pub leader: Option<String>,
    /// Time of the last accepted entry by the leader's clock, in nanoseconds since 1970; 0 before the first.
    pub entry_at_ns: i64,
    /// The last entry was rejected for a reason that operators must know.
    pub is_alarming: bool,
    /// Lead of this node's clock over the log's clock. If it is not zero, the node does not lead although its claim was
    /// accepted.
    pub ahead: Duration,
}

/// Reason why a node no longer stands by.
pub enum StandbyOutcome {
    /// The node is the leader. From now on the log is the engine's journal.
    Elected(ReplicatedLog),
    /// The node was stopped.
    Stopped,
}

/// Follows the log into the copies until this node becomes leader or `stops` is set. If `stops` is set on a leader, it
/// no longer waits for brokers that do not answer.
///
/// # Errors
/// The copy or the log is inconsistent: this node must not continue.
pub fn stand_by(
    mut partition: Box<dyn Partition>,
    copies: Copies,
    settings: &NodeSettings,
    clock: &Arc<dyn Clock>,
    stops: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&StandbyProgress),
) -> Result<StandbyOutcome, ReplicationError> {
    let copy = LocalCopy::open(copies, settings.cluster, settings.report_every)?;
    let mut following = FollowedLog::begin(&mut *partition, copy, stops)?;
    let mut standby =
        Standby::new(following.fold(), settings.node, settings.claim.clone(), settings.patience, clock.now());
    let mut start = Start::new(following.copy.ends(), settings.may_claim, clock.now());
    let mut lost_end = LostEnd::default();
    while !stops.load(Ordering::Acquire) {
        let now = clock.now();
        // Entries that have already arrived are written together.
        let patience = if following.unreported.is_none() { PATIENCE } else { Duration::ZERO };
        match next(&mut *partition, patience)? {
            Some(Event::Entry { offset, bytes, appended_ns }) => {
                lost_end = LostEnd::default();
                let was_called = standby.fold().is_left_to(settings.node);
                let entry = ArrivedEntry { offset, bytes: &bytes, appended_ns };
                standby = match following.read(standby, partition.name(), entry, now, tell)? {
                    NodeRole::Standby(standby) => standby,
                    NodeRole::Leader(mut leader) => {
                        following.write(tell)?;
                        if settings.is_unfit.load(Ordering::Acquire) {
                            partition.append(leader.hand_over(NodeId::ANY, clock.wall_ns()));
                            standby = Standby::after(leader, settings.claim.clone(), settings.patience, now);
                            continue;
                        }
                        partition.stop_reading();
                        let (clock, stops) = (Arc::clone(clock), Arc::clone(stops));
                        let leading = LeaderLog::new(leader, partition, following.copy, clock, stops);
                        return Ok(StandbyOutcome::Elected(ReplicatedLog::new(leading, was_called)));
                    }
                    NodeRole::Newer(_) => {
                        following.write(tell)?;
                        return Err(ReplicationError::Newer { log: partition.name().to_owned(), offset });
                    }
                };
                if following.unreported.is_some() {
                    continue;
                }
            }
            // Results of claims: their outcome is read from the log.
            Some(Event::Acknowledged { .. } | Event::Unknown { .. }) => {}
            None => following.write(tell)?,
        }
        if let Some(ClockAhead { hand_over, by: ahead }) = standby.take_ahead() {
            partition.append(hand_over);
            tell(&StandbyProgress { ahead, ..following.progress(standby.fold()) });
        }
        let moment = ClockReading { now, wall_ns: clock.wall_ns() };
        start.permit_claims(&mut standby, &mut *partition, settings, moment)?;
        if standby.asks_for_end(now) {
            let end = partition.end();
            match lost_end.judge(standby.end(end, now, clock.wall_ns()), now) {
                Ok(claim) => claim.into_iter().for_each(|claim| partition.append(claim)),
                Err(lost) => {
                    following.write(tell)?;
                    return Err(ReplicationError::EndLost { log: partition.name().to_owned(), lost });
                }
            }
        }
        following.copy.save_if_due(now)?;
        if following.copy.is_due_to_tell(now) {
            partition.needs(following.copy.needs(), following.copy.ends());
        }
    }
    following.write(tell)?;
    following.copy.save_last()?;
    partition.needs(following.copy.needs(), following.copy.ends());
    Ok(StandbyOutcome::Stopped)
}

/// The time since which the log ends before the position of this node.
#[derive(Default)]
struct LostEnd(Option<Duration>);

impl LostEnd {
    /// The claim of a standby that knows the end of the log. An end before its position is not an error at first: while
    /// brokers elect a leader, their answer may be outdated.
    fn judge(
        &mut self,
        claim: Result<Option<Append>, EndLost>,
        now: Duration,
    ) -> Result<Option<Append>, EndLost> {
        match claim {
            Ok(claim) => {
                self.0 = None;
                Ok(claim)
            }
            Err(lost) if now.saturating_sub(*self.0.get_or_insert(now)) >= LOST_AFTER => Err(lost),
            Err(_) => Ok(None),
        }
    }
}

/// The current time by both clocks.
#[derive(Clone, Copy)]
struct ClockReading {
    /// By the monotonic clock.
    now: Duration,
    /// Time by the wall clock since 1970, in nanoseconds.
    wall_ns: i64,
}

/// State of a node after its start, while it does not know whether the log lost its end.
struct Start {
    /// End of its copy at the start.
    copied: CopyPosition,
    is_wanted: bool,
    /// Whether the check is complete: the log contains its copy, and no other node reported more.
    is_over: bool,
    /// Time since which the log lacks records of the copy, and shows no further entry.
    lacking_since: Duration,
    next_offset: u64,
    asked_at: Option<Duration>,
    /// Time since which other nodes have reported more than the log has.
    behind_since: Option<Duration>,
}

impl Start {
    const fn new(copied: CopyPosition, is_wanted: bool, now: Duration) -> Self {
        let (lacking_since, next_offset, is_over) = (now, 0, false);
        Self { copied, is_wanted, is_over, lacking_since, next_offset, asked_at: None, behind_since: None }
    }

    /// Permits claims once the check is complete, or claims at an operator's request. An unfit node claims nothing.
    fn permit_claims(
        &mut self,
        standby: &mut Standby,
        partition: &mut dyn Partition,
        settings: &NodeSettings,
        moment: ClockReading,
    ) -> Result<(), ReplicationError> {
        if settings.is_unfit.load(Ordering::Acquire) {
            standby.withdraw();
            settings.is_promoted.store(false, Ordering::Release);
        }
        if self.may_claim(partition, standby.fold(), moment.now)? {
            standby.permit_claims();
        }
        if self.has_all(standby.fold()) && settings.is_promoted.swap(false, Ordering::AcqRel) {
            self.is_over = true;
            standby.permit_claims();
            partition.append(standby.claim(moment.wall_ns));
        }
        Ok(())
    }

    /// Whether the log contains everything in this node's copy.
    fn has_all(&self, fold: &LogFold) -> bool {
        CopyPosition::up_to(fold.position()).has_all_of(&self.copied)
    }

    /// Whether claims are permitted from now on; becomes true at most once.
    fn may_claim(
        &mut self,
        partition: &mut dyn Partition,
        fold: &LogFold,
        now: Duration,
    ) -> Result<bool, ReplicationError> {
        if self.is_over {
            return Ok(false);
        }
        if !self.has_all(fold) {
            self.expect_more(partition, fold, now).map(|()| false)
        } else if self.is_wanted {
            self.ask(partition, fold, now)
        } else {
            self.is_over = true;
            Ok(false)
        }
    }

    /// Waits for records of the copy that the log does not show yet.
    fn expect_more(
        &mut self,
        partition: &mut dyn Partition,
        fold: &LogFold,
        now: Duration,
    ) -> Result<(), ReplicationError> {
        let position = fold.position();
        if position.next_offset > self.next_offset {
            (self.next_offset, self.lacking_since) = (position.next_offset, now);
        }
        if now.saturating_sub(self.lacking_since) < LOST_AFTER {
            return Ok(());
        }
        self.lacking_since = now;
        // The log has more entries, or cannot be reached, so nothing is lost yet.
        if partition.end().is_none_or(|end| end > position.next_offset) {
            return Ok(());
        }
        let is_of_journal = position.seq < self.copied.seq;
        let (part, log_seq, copy_seq) = if is_of_journal {
            ("journal", position.seq, self.copied.seq)
        } else {
            ("store", position.store.seq, self.copied.store_seq)
        };
        Err(ReplicationError::RecordsLost { part, log: partition.name().to_owned(), log_seq, copy_seq })
    }

    /// Queries the copies of the other nodes.
    fn ask(
        &mut self,
        partition: &mut dyn Partition,
        fold: &LogFold,
        now: Duration,
    ) -> Result<bool, ReplicationError> {
        if self.asked_at.is_some_and(|asked| now.saturating_sub(asked) < ASK_EVERY) {
            return Ok(false);
        }
        self.asked_at = Some(now);
        let position = fold.position();
        let Some(others) = partition.furthest_of_others() else { return Ok(false) };
        if CopyPosition::up_to(position).has_all_of(&others) {
            self.is_over = true;
            return Ok(true);
        }
        // The reported records may not be read yet.
        if partition.end().is_none_or(|end| end > position.next_offset) {
            self.behind_since = None;
            return Ok(false);
        }
        if now.saturating_sub(*self.behind_since.get_or_insert(now)) < LOST_AFTER {
            return Ok(false);
        }
        let (log, CopyPosition { seq, store_seq }) = (partition.name().to_owned(), others);
        Err(ReplicationError::BehindOthers { log, seq, store_seq })
    }
}

/// The begin and the end of the log; `None` if the wait was stopped.
fn bounds(partition: &mut dyn Partition, stops: &AtomicBool) -> Result<Option<Range<u64>>, ReplicationError> {
    loop {
        if stops.load(Ordering::Acquire) {
            return Ok(None);
        }
        let found = partition.begin().zip(partition.end());
        if let Some((begin, end)) = found {
            return Ok(Some(begin..end));
        }
        next(partition, PATIENCE)?;
    }
}

/// An entry that a follower has read from the log.
struct ArrivedEntry<'a> {
    offset: u64,
    bytes: &'a [u8],
    /// Time when the brokers appended it, if they report it.
    appended_ns: Option<i64>,
}

/// The copy, and the last entry that was accepted before the start, until it was seen again.
struct FollowedLog {
    copy: LocalCopy,
    /// Progress to report once the copy is written.
    unreported: Option<StandbyProgress>,
    /// The offset of the entry that was accepted last.
    expected_at: Option<u64>,
    entry_at_ns: i64,
}

impl FollowedLog {
    fn begin(
        partition: &mut dyn Partition,
        mut copy: LocalCopy,
        stops: &AtomicBool,
    ) -> Result<Self, ReplicationError> {
        if let Some(offsets) = bounds(partition, stops)? {
            copy.settle_on(partition, offsets)?;
        }
        let (expected_at, needed) = (copy.place().accepted_at, copy.needs());
        // Before reading, so that the log does not delete the entries that are read next.
        partition.needs(needed, copy.ends());
        partition.read_from(needed);
        Ok(Self { copy, unreported: None, expected_at, entry_at_ns: 0 })
    }

    fn fold(&self) -> LogFold {
        LogFold::new(self.copy.place().cluster, self.copy.place().position.clone())
    }

    /// Reads an entry; returns the role of the node after it. The next [`FollowedLog::write`] reports the progress.
    fn read(
        &mut self,
        standby: Standby,
        log: &str,
        entry: ArrivedEntry<'_>,
        now: Duration,
        tell: &mut dyn FnMut(&StandbyProgress),
    ) -> Result<NodeRole, ReplicationError> {
        let ArrivedEntry { offset, bytes, appended_ns } = entry;
        if let Some(accepted) = self.expected_at.take() {
            let is_it = offset == accepted
                && LogEntry::decode(bytes).is_ok_and(|entry| entry.chain == standby.fold().position().chain);
            return if is_it {
                Ok(NodeRole::Standby(standby))
            } else {
                Err(ReplicationError::OtherLog { log: log.to_owned(), accepted })
            };
        }
        let (role, verdict) = standby.read(offset, bytes, appended_ns, now);
        let fold = match &role {
            NodeRole::Standby(standby) | NodeRole::Newer(standby) => standby.fold(),
            NodeRole::Leader(leader) => leader.fold(),
        };
        match verdict {
            EntryVerdict::Accepted(entry) => {
                self.entry_at_ns = entry.times.last_ns;
                self.copy.accept(log, offset, &entry)?;
                self.copy.advance(fold, offset);
                self.unreported = Some(self.progress(fold));
            }
            // Two clusters on one log would obstruct each other without an error. A node that has followed its own
            // cluster reports this.
            EntryVerdict::Void(VoidReason::ForeignCluster) if !self.copy.has_any() => {
                return Err(ReplicationError::ForeignLog { log: log.to_owned() });
            }
            EntryVerdict::Void(void) if void.is_alarming() => {
                self.write(tell)?;
                tell(&StandbyProgress { is_alarming: true, ..self.progress(fold) });
            }
            EntryVerdict::Void(_) | EntryVerdict::Newer(_) => {}
        }
        if self.copy.is_write_due() {
            self.write(tell)?;
        }
        Ok(role)
    }

    /// Writes the entries that were read, and reports the progress.
    fn write(&mut self, tell: &mut dyn FnMut(&StandbyProgress)) -> Result<(), ReplicationError> {
        if let Some(progress) = self.unreported.take() {
            self.copy.write()?;
            tell(&progress);
        }
        Ok(())
    }

    fn progress(&self, fold: &LogFold) -> StandbyProgress {
        StandbyProgress {
            position: fold.position().clone(),
            leader: fold.claim().map(|claim| claim.address.clone()),
            entry_at_ns: self.entry_at_ns,
            is_alarming: false,
            ahead: Duration::ZERO,
        }
    }
}
