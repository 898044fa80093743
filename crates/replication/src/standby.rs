//! A node that follows the log until it leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use upesi_cluster::{Entry, Fold, Position, Role, Standby, Verdict};

use crate::copy::{Copies, Copy};
use crate::error::ReplicationError;
use crate::leading::Leading;
use crate::log::ReplicatedLog;
use crate::node::{Clock, NodeSettings};
use crate::partition::{Event, Partition};

/// How long a standby waits for an entry before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(20);

/// How far a standby is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The accepted entries.
    pub position: Position,
    /// Where the leader is reached; `None` if there is none.
    pub leader: Option<String>,
    /// When the last accepted entry was written, by the leader's clock, in nanoseconds since 1970; 0 before the first.
    pub entry_at_ns: i64,
    /// The entry that was read is void for a reason that an operator must know.
    pub is_alarming: bool,
}

/// Why a node no longer stands by.
pub enum Stood {
    /// It leads. The log is the engine's journal from now on.
    Elected(ReplicatedLog),
    /// It was told to stop.
    Stopped,
}

/// Follows the log into the copies, until this node leads or `stops`. If it leads and `stops` then, it waits no
/// more for brokers that do not answer.
///
/// # Errors
/// The copy or the log is not what it should be: this node must not go on.
pub fn stand_by(
    mut partition: Box<dyn Partition>,
    copies: Copies,
    settings: &NodeSettings,
    clock: &Arc<dyn Clock>,
    stops: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Stood, ReplicationError> {
    let copy = Copy::open(copies, settings.cluster, settings.tell_every)?;
    let mut following = Following::begin(&mut *partition, copy)?;
    let mut standby =
        Standby::new(following.fold(), settings.node, settings.claim.clone(), settings.patience, clock.now());
    if settings.may_claim {
        standby.permit_claims();
    }
    while !stops.load(Ordering::Acquire) {
        let now = clock.now();
        match next(&mut *partition, PATIENCE)? {
            Some(Event::Entry { offset, bytes }) => {
                let was_called = standby.fold().is_left_to(settings.node);
                let (role, progress) = following.read(standby, partition.name(), (offset, &bytes), now)?;
                if let Some(progress) = progress {
                    tell(&progress);
                }
                standby = match role {
                    Role::Standby(standby) => standby,
                    Role::Leader(leader) => {
                        partition.stop_reading();
                        let leading = Leading::new(
                            leader,
                            partition,
                            following.copy,
                            Arc::clone(clock),
                            Arc::clone(stops),
                        );
                        return Ok(Stood::Elected(ReplicatedLog::new(leading, was_called)));
                    }
                    Role::Newer(_) => {
                        return Err(ReplicationError::Newer { log: partition.name().to_owned(), offset });
                    }
                };
            }
            // Of claims: their outcome is read.
            Some(Event::Acknowledged { .. } | Event::Unknown { .. }) | None => {}
        }
        if standby.asks_for_end(now) {
            let end = partition.end();
            if let Some(claim) = standby.end(end, now, clock.wall_ns()) {
                partition.append(claim);
            }
        }
        following.copy.save_if_due(now)?;
        if following.copy.is_due_to_tell(now) {
            partition.needs(following.copy.needs());
        }
    }
    following.copy.save()?;
    partition.needs(following.copy.needs());
    Ok(Stood::Stopped)
}

/// The next event of a log.
pub(crate) fn next(
    partition: &mut dyn Partition,
    patience: Duration,
) -> Result<Option<Event>, ReplicationError> {
    partition
        .next(patience)
        .map_err(|reason| ReplicationError::Client { log: partition.name().to_owned(), reason })
}

/// The copy, and the last entry that was accepted before the start until it was seen again.
struct Following {
    copy: Copy,
    /// The entry at that offset must be the one that was accepted last.
    expected_at: Option<u64>,
    entry_at_ns: i64,
}

impl Following {
    fn begin(partition: &mut dyn Partition, copy: Copy) -> Result<Self, ReplicationError> {
        let expected_at = copy.place().accepted_at;
        if let (Some(accepted), Some(end)) = (expected_at, partition.end())
            && end <= accepted
        {
            return Err(ReplicationError::TailLost { log: partition.name().to_owned(), end, accepted });
        }
        let needed = copy.needs();
        if let Some(begin) = partition.begin().filter(|begin| *begin > needed) {
            return Err(ReplicationError::Deleted { log: partition.name().to_owned(), begin, needed });
        }
        // Before it reads, lest the log deletes what it is about to read.
        partition.needs(needed);
        partition.read_from(needed);
        Ok(Self { copy, expected_at, entry_at_ns: 0 })
    }

    fn fold(&self) -> Fold {
        Fold::new(self.copy.place().cluster, self.copy.place().position.clone())
    }

    /// Reads an entry. Returns what the node is now and, if something changed, how far it is.
    fn read(
        &mut self,
        standby: Standby,
        log: &str,
        (offset, bytes): (u64, &[u8]),
        now: Duration,
    ) -> Result<(Role, Option<Progress>), ReplicationError> {
        if let Some(accepted) = self.expected_at.take() {
            let is_it = offset == accepted
                && Entry::decode(bytes).is_ok_and(|entry| entry.chain == standby.fold().position().chain);
            return if is_it {
                Ok((Role::Standby(standby), None))
            } else {
                Err(ReplicationError::OtherLog { log: log.to_owned(), accepted })
            };
        }
        let (role, verdict) = standby.read(offset, bytes, now);
        let fold = match &role {
            Role::Standby(standby) | Role::Newer(standby) => standby.fold(),
            Role::Leader(leader) => leader.fold(),
        };
        let mut is_alarming = false;
        match verdict {
            Verdict::Accepted(entry) => {
                self.entry_at_ns = entry.times.last_ns;
                self.copy.accept(log, offset, &entry)?;
                self.copy.advance(fold, offset);
            }
            Verdict::Void(void) if void.is_alarming() => is_alarming = true,
            Verdict::Void(_) | Verdict::Newer(_) => return Ok((role, None)),
        }
        let leader = fold.claim().map(|claim| claim.address.clone());
        let (position, entry_at_ns) = (fold.position().clone(), self.entry_at_ns);
        let progress = Progress { position, leader, entry_at_ns, is_alarming };
        Ok((role, Some(progress)))
    }
}
