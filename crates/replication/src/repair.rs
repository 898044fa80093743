//! What a log lost of its end, appended again from the copy of a node.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use upesi_cluster::{Fold, Kind, Leader, Role, Standby, Verdict};

use crate::copy::{Copies, Copy};
use crate::error::ReplicationError;
use crate::leading::Leading;
use crate::node::{Clock, NodeSettings, SystemClock};
use crate::partition::{Copied, Event, Partition};
use crate::standby::next;
use crate::survey::{PATIENCE, read_to};

/// How long the claim may take.
const CLAIM_MAX: Duration = Duration::from_secs(30);

/// A node's copy beside the log, of which every record was compared, from the newest entry on that both have.
///
/// The records are what was promised; the entries that carried them are not kept. So a repair claims to lead, like any
/// node, and appends the records in entries of its own. Nodes compare records, and find theirs.
pub struct Repair {
    partition: Box<dyn Partition>,
    copy: Copy,
    fold: Fold,
    begun_at: u64,
}

impl Repair {
    /// Reads the log to its end. The copy takes what it lacks, as it would by following.
    ///
    /// # Errors
    /// The log has other records than the copy, or nothing that the copy knows; the brokers do not deliver it.
    pub fn examine(
        mut partition: Box<dyn Partition>,
        copies: Copies,
        settings: &NodeSettings,
    ) -> Result<Self, ReplicationError> {
        let mut copy = Copy::open(copies, settings.cluster, settings.tell_every)?;
        let bounds = partition.begin().zip(partition.end());
        let log = partition.name().to_owned();
        let Some((begin, end)) = bounds else {
            return Err(ReplicationError::Silent { log, offset: copy.needs(), end: 0 });
        };
        copy.settle_on(&mut *partition, (begin, end))?;
        let mut fold = Fold::new(settings.cluster, copy.place().position.clone());
        let begun_at = fold.position().next_offset;
        read_to(&mut *partition, &mut fold, end, &mut |fold, offset, entry| {
            copy.accept(&log, offset, entry)?;
            copy.advance(fold, offset);
            Ok(())
        })?;
        copy.save()?;
        Ok(Self { partition, copy, fold, begun_at })
    }

    /// The last records of the log.
    pub const fn log(&self) -> Copied {
        Copied::up_to(self.fold.position())
    }

    /// The last records of the copy.
    pub fn copy(&self) -> Copied {
        self.copy.ends()
    }

    /// The offset from which on both were compared, and where the log ends.
    pub const fn compared(&self) -> (u64, u64) {
        (self.begun_at, self.fold.position().next_offset)
    }

    /// Appends what the log lacks, and leaves the lead to any node. Nothing happens if it lacks nothing.
    ///
    /// # Errors
    /// The copy has deleted a record that the log lacks; another node leads; the brokers do not acknowledge. What was
    /// appended until then counts, and the rest can be appended by another repair.
    pub fn run(self, settings: &NodeSettings) -> Result<(), ReplicationError> {
        let log = self.log();
        self.copy.expect_kept(log)?;
        if log == self.copy.ends() {
            return Ok(());
        }
        let Self { mut partition, copy, fold, .. } = self;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let leader = claim(&mut *partition, fold, settings, &*clock)?;
        let mut leading = Leading::new(leader, partition, copy, clock, Arc::new(AtomicBool::new(false)));
        for kind in [Kind::Batch, Kind::Store] {
            while leading.append_again(kind)? {}
        }
        leading.hand_over(None)?;
        Ok(())
    }
}

/// Claims, and waits until the claim counts.
fn claim(
    partition: &mut dyn Partition,
    fold: Fold,
    settings: &NodeSettings,
    clock: &dyn Clock,
) -> Result<Leader, ReplicationError> {
    let limit = clock.now() + CLAIM_MAX;
    let offset = fold.position().next_offset;
    let mut standby =
        Standby::new(fold, settings.node, settings.claim.clone(), settings.patience, clock.now());
    partition.read_from(offset);
    partition.append(standby.claim(clock.wall_ns()));
    while clock.now() < limit {
        match next(partition, PATIENCE)? {
            Some(Event::Entry { offset, bytes }) => {
                let (role, verdict) = standby.read(offset, &bytes, clock.now());
                let log = || partition.name().to_owned();
                standby = match role {
                    Role::Leader(leader) => {
                        partition.stop_reading();
                        return Ok(leader);
                    }
                    Role::Newer(_) => return Err(ReplicationError::Newer { log: log(), offset }),
                    Role::Standby(_) if matches!(verdict, Verdict::Accepted(_)) => {
                        return Err(ReplicationError::Contended { log: log() });
                    }
                    Role::Standby(standby) => standby,
                };
            }
            Some(Event::Unknown { .. }) => partition.append(standby.claim(clock.wall_ns())),
            Some(Event::Acknowledged { .. }) | None => {}
        }
    }
    let log = partition.name().to_owned();
    Err(ReplicationError::Client { log, reason: "the claim was not acknowledged".to_owned() })
}
