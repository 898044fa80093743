//! The standby: a node that reads the log and claims the leadership when necessary.

use alloc::vec::Vec;
use core::time::Duration;

use crate::Append;
use crate::entry::{Chain, Claim, EntryKind, LogStart, NodeId, Times};
use crate::fold::{DraftEntry, EntryVerdict, LogFold};
use crate::leader::Leader;

/// Timeouts and clock limits that decide when a standby claims the leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyTimeouts {
    /// Time without an accepted entry before it claims. Nodes have different values, so that they do not claim
    /// simultaneously.
    pub silence: Duration,
    /// Delay of a claim after a hand-over to any node.
    pub turn: Duration,
    /// A node whose clock is behind the last record by more than this leaves the claim to others. Otherwise all its
    /// records would have almost the same time.
    pub behind_max: Duration,
    /// Even such a node claims after this time without an accepted entry, because then all clocks are behind.
    pub behind_silence: Duration,
    /// A node whose clock is ahead of the log's clock by more than this does not lead, because deadlines would pass
    /// early.
    pub ahead_max: Duration,
}

impl StandbyTimeouts {
    const SILENCE: Duration = Duration::from_secs(2);
    const PER_RANK: Duration = Duration::from_millis(300);
    const TURN: Duration = Duration::from_millis(25);
    const BEHIND_MAX: Duration = Duration::from_secs(2);
    const BEHIND_SILENCE: Duration = Duration::from_secs(30);
    const AHEAD_MAX: Duration = Duration::from_secs(2);

    /// The values for the node with this rank. The node with rank 0 is the first candidate for leadership.
    pub const fn of_rank(rank: u32) -> Self {
        Self {
            silence: Self::SILENCE.saturating_add(Self::PER_RANK.saturating_mul(rank)),
            turn: Self::TURN.saturating_mul(rank),
            behind_max: Self::BEHIND_MAX,
            behind_silence: Self::BEHIND_SILENCE.saturating_add(Self::PER_RANK.saturating_mul(rank)),
            ahead_max: Self::AHEAD_MAX,
        }
    }
}

/// The role of a node after it read an entry.
#[derive(Debug)]
pub enum NodeRole {
    /// The node continues as a standby.
    Standby(Standby),
    /// The node's claim was accepted after everything before it was read. The node is now the leader.
    Leader(Leader),
    /// A newer hub wrote the entry at that offset. This node must stop before it.
    Newer(Standby),
}

/// The outcome of an accepted claim after which this node does not lead: its clock is ahead of the log's clock, or it
/// was withdrawn. The node leaves the leadership to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockAhead {
    /// The hand-over to any other node, which must be appended.
    pub hand_over: Append,
    /// How far this node's clock is ahead; zero if the node was withdrawn.
    pub by: Duration,
}

/// The log ends before entries that this node has read. Either it lost its end, or the responding broker is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log ends at offset {end}, but everything before offset {read} was read: its end was lost")]
pub struct EndLost {
    /// The offset after the last entry, according to the broker.
    pub end: u64,
    /// The offset that this node would read next.
    pub read: u64,
}

/// Reads the log. Claims the leadership if no entry is accepted for some time while the log is reachable.
///
/// A claim is void if anything was appended after this node last read the log. An impatient standby therefore never
/// deposes a working leader.
#[derive(Debug)]
pub struct Standby {
    fold: LogFold,
    me: NodeId,
    claim: Claim,
    patience: StandbyTimeouts,
    next_tag: u64,
    /// Start of the current silence, by this node's monotonic clock.
    quiet_since: Duration,
    /// Time of the last accepted entry, or of the last failure to reach the log.
    unled_since: Duration,
    /// Whether this node has requested the end of the log.
    asks_end: bool,
    /// The hand-over after which this node already claimed. It claims once per hand-over; later claims require silence.
    followed: Option<Chain>,
    /// Whether this node may claim; see [`Standby::permit_claims`].
    may_claim: bool,
    /// Set by [`Standby::withdraw`].
    is_withdrawn: bool,
    /// Time when this node found its clock ahead. `None` after another node has led since.
    ahead_at: Option<Duration>,
    /// The hand-over that this requires, until [`Standby::take_ahead`] takes it.
    ahead: Option<ClockAhead>,
    /// Claims of this run that were appended but not yet read, oldest first.
    claims: Vec<Chain>,
}

/// Number of claims that are remembered for recognition. Each further claim needs another silence, so an older claim
/// has long been read.
const CLAIMS_MAX: usize = 16;

impl Standby {
    /// Creates a standby that has just started with its accepted entries and may not claim yet.
    pub const fn new(
        fold: LogFold,
        me: NodeId,
        claim: Claim,
        patience: StandbyTimeouts,
        now: Duration,
    ) -> Self {
        Self {
            fold,
            me,
            claim,
            patience,
            next_tag: 1,
            quiet_since: now,
            unled_since: now,
            asks_end: false,
            followed: None,
            may_claim: false,
            is_withdrawn: false,
            ahead_at: None,
            ahead: None,
            claims: Vec::new(),
        }
    }

    /// Creates a standby from a leader that was superseded or handed over. It has read the log without interruption.
    pub fn after(leader: Leader, claim: Claim, patience: StandbyTimeouts, now: Duration) -> Self {
        let me = leader.me();
        let (fold, next_tag) = leader.into_parts();
        let mut standby = Self::new(fold, me, claim, patience, now);
        standby.next_tag = next_tag;
        standby.may_claim = true;
        standby
    }

    /// The fold of all accepted entries.
    pub const fn fold(&self) -> &LogFold {
        &self.fold
    }

    /// Permits claims. A node that has just started does not know whether the log lost entries at its end, because its
    /// own copy may be equally short. It may therefore claim only after the copies of all nodes were found in the log,
    /// or an operator decided so.
    pub const fn permit_claims(&mut self) {
        self.may_claim = true;
    }

    /// Ends all claims of this run: this node cannot lead. If an earlier claim is accepted afterwards, the node hands
    /// over the leadership.
    pub const fn withdraw(&mut self) {
        self.is_withdrawn = true;
    }

    /// Whether the caller must query the end of the log and pass it to [`Standby::end`]. Returns true once per silence.
    pub fn asks_for_end(&mut self, now: Duration) -> bool {
        let quiet = now.saturating_sub(self.quiet_since);
        let is_silent = quiet >= self.patience.silence || (quiet >= self.patience.turn && self.is_called());
        let asks = self.may_claim && !self.is_withdrawn && is_silent && !self.asks_end;
        self.asks_end |= asks;
        asks
    }

    /// Whether the leader handed over to this node, and this node has not claimed since.
    fn is_called(&self) -> bool {
        self.fold.is_left_to(self.me) && self.followed != Some(self.fold.position().chain)
    }

    /// Handles the offset after the last entry of the log, or `None` if the log is unreachable. Returns a claim if the
    /// leader is silent and this node has read everything.
    ///
    /// # Errors
    /// The log ends before the position of this node. A claim would continue entries that the log does not contain.
    pub fn end(&mut self, end: Option<u64>, now: Duration, clock_ns: i64) -> Result<Option<Append>, EndLost> {
        if !core::mem::take(&mut self.asks_end) {
            return Ok(None);
        }
        let next_offset = self.fold.position().next_offset;
        let behind_ns = self.fold.position().time_ns.saturating_sub(clock_ns);
        let is_behind = behind_ns > as_ns(self.patience.behind_max)
            && now.saturating_sub(self.unled_since) < self.patience.behind_silence;
        // Other nodes get their chance first. This node claims again if none of them leads.
        let is_ahead =
            self.ahead_at.is_some_and(|ahead| now.saturating_sub(ahead) < self.patience.behind_silence);
        match end {
            // An unreachable log does not prove that the leader is gone, and unread entries may be the leader's.
            None => (self.quiet_since, self.unled_since) = (now, now),
            Some(end) if end > next_offset => {}
            Some(end) if end < next_offset => {
                self.quiet_since = now;
                return Err(EndLost { end, read: next_offset });
            }
            Some(_) if is_behind || is_ahead => self.quiet_since = now,
            Some(_) => {
                self.quiet_since = now;
                return Ok(Some(self.claim(clock_ns)));
            }
        }
        Ok(None)
    }

    /// Claims without waiting for silence, at an operator's command.
    pub fn claim(&mut self, clock_ns: i64) -> Append {
        let drafted =
            self.fold.draft(EntryKind::Claim, self.me, 0, Times::at(clock_ns), &self.claim.encode());
        self.followed = Some(self.fold.position().chain);
        if self.claims.len() == CLAIMS_MAX {
            self.claims.remove(0);
        }
        self.claims.push(drafted.chain);
        self.append(drafted)
    }

    /// Begins an empty log after records that its readers already have, at an operator's command.
    pub fn begin_log(&mut self, beginning: &LogStart) -> Append {
        let drafted = self.fold.draft_beginning(self.me, beginning);
        self.append(drafted)
    }

    fn append(&mut self, drafted: DraftEntry) -> Append {
        let tag = self.next_tag;
        self.next_tag += 1;
        Append { tag, bytes: drafted.bytes }
    }

    /// Reads the next entry. `appended_ns` is the time when the log received it by the log's own clock, if known.
    pub fn read(
        mut self,
        offset: u64,
        bytes: &[u8],
        appended_ns: Option<i64>,
        now: Duration,
    ) -> (NodeRole, EntryVerdict<'_>) {
        let verdict = self.fold.read(offset, bytes);
        match verdict {
            EntryVerdict::Void(_) => (NodeRole::Standby(self), verdict),
            EntryVerdict::Newer(_) => (NodeRole::Newer(self), verdict),
            EntryVerdict::Accepted(entry) => {
                (self.quiet_since, self.unled_since) = (now, now);
                if self.claims.contains(&entry.chain) {
                    let ahead_ns = appended_ns.map_or(0, |at| entry.times.last_ns.saturating_sub(at));
                    return (self.lead(ahead_ns, now), verdict);
                }
                if matches!(entry.kind, EntryKind::Batch | EntryKind::Store | EntryKind::Beat) {
                    self.ahead_at = None;
                }
                (NodeRole::Standby(self), verdict)
            }
        }
    }

    /// Takes the hand-over that this node must append because its claim was accepted but it does not lead.
    pub const fn take_ahead(&mut self) -> Option<ClockAhead> {
        self.ahead.take()
    }

    /// Handles the acceptance of this node's claim. A node whose clock is ahead hands over once. If no other node then
    /// leads, the log's clock is behind, and the node leads after its next claim.
    fn lead(self, ahead_ns: i64, now: Duration) -> NodeRole {
        let Self { fold, me, claim, patience, next_tag, ahead_at, is_withdrawn, .. } = self;
        let mut leader = Leader::new(fold, me, next_tag, now);
        let is_ahead = ahead_ns > as_ns(patience.ahead_max) && ahead_at.is_none();
        if !is_ahead && !is_withdrawn {
            return NodeRole::Leader(leader);
        }
        let hand_over = leader.hand_over(NodeId::ANY, 0);
        let mut standby = Self::after(leader, claim, patience, now);
        let by = if is_ahead { Duration::from_nanos(ahead_ns.unsigned_abs()) } else { Duration::ZERO };
        standby.ahead_at = is_ahead.then_some(now);
        standby.is_withdrawn = is_withdrawn;
        standby.ahead = Some(ClockAhead { hand_over, by });
        NodeRole::Standby(standby)
    }
}

fn as_ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
