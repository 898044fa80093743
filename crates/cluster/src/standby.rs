//! A node that reads, and claims the leadership when it must.

use alloc::vec::Vec;
use core::time::Duration;

use crate::Append;
use crate::entry::{Beginning, Chain, Claim, Kind, NodeId, Times};
use crate::fold::{Drafted, Fold, Verdict};
use crate::leader::Leader;

/// When a standby takes silence for the leader's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Without an accepted entry for so long. Nodes have different ones, so that they do not claim at once.
    pub silence: Duration,
    /// After a hand-over to any node, for so long.
    pub turn: Duration,
    /// A node whose clock is behind the last record by more leaves the claim to others: its records would all have one
    /// time.
    pub behind_max: Duration,
    /// It claims after so long without an accepted entry: then the clocks of all are behind.
    pub behind_silence: Duration,
    /// A node whose clock is ahead of the log's by more does not lead: deadlines would pass before their time.
    pub ahead_max: Duration,
}

impl Patience {
    const SILENCE: Duration = Duration::from_secs(2);
    const PER_RANK: Duration = Duration::from_millis(300);
    const TURN: Duration = Duration::from_millis(25);
    const BEHIND_MAX: Duration = Duration::from_secs(2);
    const BEHIND_SILENCE: Duration = Duration::from_secs(30);
    const AHEAD_MAX: Duration = Duration::from_secs(2);

    /// That of the node which is to lead in the `rank`-th place, beginning with 0.
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

/// What became of a standby by an entry that it read.
#[derive(Debug)]
pub enum Role {
    /// It reads on.
    Standby(Standby),
    /// Its claim was accepted, and everything before it was read: it leads.
    Leader(Leader),
    /// A newer hub wrote the entry at that offset: this node must stop before it.
    Newer(Standby),
}

/// A node's claim was accepted, and showed that its clock is ahead of the log's, or the node was withdrawn before: it
/// leaves the leadership to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// To be appended: any other node may lead.
    pub hand_over: Append,
    /// By how much its clock is ahead; zero if it was withdrawn.
    pub by: Duration,
}

/// The log ends below entries that this node has read: it lost its end, or the broker that answered is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log ends at offset {end}, but everything before offset {read} was read: its end was lost")]
pub struct EndLost {
    /// The offset behind the last entry, by the broker.
    pub end: u64,
    /// The offset that this node reads next.
    pub read: u64,
}

/// Reads the log, and claims the leadership if no entry is accepted for some time while the log can be reached.
///
/// A claim is void if anything was appended since this node looked. So an impatient standby deposes nobody who works.
#[derive(Debug)]
pub struct Standby {
    fold: Fold,
    me: NodeId,
    claim: Claim,
    patience: Patience,
    next_tag: u64,
    /// Since when there is silence, by this node's clock without jumps.
    quiet_since: Duration,
    /// Since when no entry was accepted, though the log could be reached.
    unled_since: Duration,
    /// Whether the end of the log was asked for.
    asks_end: bool,
    /// The hand-over that this node has claimed after: once, then it is silence that counts.
    followed: Option<Chain>,
    /// Whether this node may claim: see [`Standby::permit_claims`].
    may_claim: bool,
    /// Set by [`Standby::withdraw`].
    is_withdrawn: bool,
    /// When this node found its clock ahead; `None` once another one has led since.
    ahead_at: Option<Duration>,
    /// What is to be done about it, until that is taken.
    ahead: Option<Ahead>,
    /// Claims of this life that were appended and not read yet. The newest is the last.
    claims: Vec<Chain>,
}

/// Claims that are kept to be recognised. One more silence passes for each, so an older one is long read.
const CLAIMS_MAX: usize = 16;

impl Standby {
    /// A node that has just started on what it had accepted, and may not claim yet.
    pub const fn new(fold: Fold, me: NodeId, claim: Claim, patience: Patience, now: Duration) -> Self {
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

    /// A leader that was superseded or handed over, and has read the log all the while.
    pub fn after(leader: Leader, claim: Claim, patience: Patience, now: Duration) -> Self {
        let me = leader.me();
        let (fold, next_tag) = leader.into_parts();
        let mut standby = Self::new(fold, me, claim, patience, now);
        standby.next_tag = next_tag;
        standby.may_claim = true;
        standby
    }

    /// What was accepted so far.
    pub const fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Permits claims. After a start a node does not know whether the log lost entries of its end: its own copy may be
    /// as short. So it claims only once the copies of all nodes were found in the log, or an operator decided.
    pub const fn permit_claims(&mut self) {
        self.may_claim = true;
    }

    /// Ends all claims of this life: this node cannot lead. If an earlier claim is accepted after this, the node hands
    /// the leadership over.
    pub const fn withdraw(&mut self) {
        self.is_withdrawn = true;
    }

    /// Whether the end of the log is to be asked for, and told to [`Standby::end`]. It says so once per silence.
    pub fn asks_for_end(&mut self, now: Duration) -> bool {
        let quiet = now.saturating_sub(self.quiet_since);
        let is_silent = quiet >= self.patience.silence || (quiet >= self.patience.turn && self.is_called());
        let asks = self.may_claim && !self.is_withdrawn && is_silent && !self.asks_end;
        self.asks_end |= asks;
        asks
    }

    /// Whether the leader left the leadership to this node, which has not claimed since.
    fn is_called(&self) -> bool {
        self.fold.is_left_to(self.me) && self.followed != Some(self.fold.position().chain)
    }

    /// The offset behind the last entry of the log, or `None` if the log cannot be reached. Returns a claim if the
    /// leader is silent, and this node has read everything.
    ///
    /// # Errors
    /// The log ends below the position of this node. A claim there would continue entries that the log does not have.
    pub fn end(&mut self, end: Option<u64>, now: Duration, clock_ns: i64) -> Result<Option<Append>, EndLost> {
        if !core::mem::take(&mut self.asks_end) {
            return Ok(None);
        }
        let next_offset = self.fold.position().next_offset;
        let behind_ns = self.fold.position().time_ns.saturating_sub(clock_ns);
        let is_behind = behind_ns > as_ns(self.patience.behind_max)
            && now.saturating_sub(self.unled_since) < self.patience.behind_silence;
        // Others have their turn: it claims once more if they do not lead.
        let is_ahead =
            self.ahead_at.is_some_and(|ahead| now.saturating_sub(ahead) < self.patience.behind_silence);
        match end {
            // Silence of a log that cannot be reached is nobody's end; what was not read yet may be the leader's word.
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

    /// Claims without waiting for silence: an operator's word.
    pub fn claim(&mut self, clock_ns: i64) -> Append {
        let drafted = self.fold.draft(Kind::Claim, self.me, 0, Times::at(clock_ns), &self.claim.encode());
        self.followed = Some(self.fold.position().chain);
        if self.claims.len() == CLAIMS_MAX {
            self.claims.remove(0);
        }
        self.claims.push(drafted.chain);
        self.append(drafted)
    }

    /// Begins a log, which has nothing yet, behind records that its readers have already: an operator's word.
    pub fn begin_log(&mut self, beginning: &Beginning) -> Append {
        let drafted = self.fold.draft_beginning(self.me, beginning);
        self.append(drafted)
    }

    fn append(&mut self, drafted: Drafted) -> Append {
        let tag = self.next_tag;
        self.next_tag += 1;
        Append { tag, bytes: drafted.bytes }
    }

    /// Reads the next entry, which the log had at `appended_ns` by its own clock, if it says that.
    pub fn read(
        mut self,
        offset: u64,
        bytes: &[u8],
        appended_ns: Option<i64>,
        now: Duration,
    ) -> (Role, Verdict<'_>) {
        let verdict = self.fold.read(offset, bytes);
        match verdict {
            Verdict::Void(_) => (Role::Standby(self), verdict),
            Verdict::Newer(_) => (Role::Newer(self), verdict),
            Verdict::Accepted(entry) => {
                (self.quiet_since, self.unled_since) = (now, now);
                if self.claims.contains(&entry.chain) {
                    let ahead_ns = appended_ns.map_or(0, |at| entry.times.last_ns.saturating_sub(at));
                    return (self.lead(ahead_ns, now), verdict);
                }
                if matches!(entry.kind, Kind::Batch | Kind::Store | Kind::Beat) {
                    self.ahead_at = None;
                }
                (Role::Standby(self), verdict)
            }
        }
    }

    /// What this node must append, if the entry that was read last was its claim and it does not lead.
    pub const fn take_ahead(&mut self) -> Option<Ahead> {
        self.ahead.take()
    }

    /// Its claim was accepted. It leads with a clock that is ahead only if nobody else did when it had left it to them:
    /// then it is the log's clock that is behind.
    fn lead(self, ahead_ns: i64, now: Duration) -> Role {
        let Self { fold, me, claim, patience, next_tag, ahead_at, is_withdrawn, .. } = self;
        let mut leader = Leader::new(fold, me, next_tag, now);
        let is_ahead = ahead_ns > as_ns(patience.ahead_max) && ahead_at.is_none();
        if !is_ahead && !is_withdrawn {
            return Role::Leader(leader);
        }
        let hand_over = leader.hand_over(NodeId::ANY, 0);
        let mut standby = Self::after(leader, claim, patience, now);
        let by = if is_ahead { Duration::from_nanos(ahead_ns.unsigned_abs()) } else { Duration::ZERO };
        standby.ahead_at = is_ahead.then_some(now);
        standby.is_withdrawn = is_withdrawn;
        standby.ahead = Some(Ahead { hand_over, by });
        Role::Standby(standby)
    }
}

fn as_ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
