//! Repair of a log that lost its end: appends the lost records again from the copy of a node.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use upesi_cluster::{EntryKind, EntryVerdict, Leader, LogFold, LogStart, NodeRole, Standby};

use crate::clock::{Clock, SystemClock};
use crate::copy::{Copies, LocalCopy};
use crate::error::ReplicationError;
use crate::history::PATIENCE;
use crate::leading::LeaderLog;
use crate::partition::{CopyPosition, Event, Partition, next};
use crate::settings::NodeSettings;
use crate::survey::read_to;

/// Maximum duration of the claim.
const CLAIM_MAX: Duration = Duration::from_secs(30);

/// A node's copy and the log, with every record compared from the newest common entry on.
///
/// The records are guaranteed to persist, but the entries that carried them are not stored. So a repair claims
/// leadership, like any node, and appends the records in entries of its own. Nodes compare records, and find theirs.
///
/// An empty log begins with the oldest record in the copy's files, even if they belong to a standalone hub.
pub struct Repair {
    partition: Box<dyn Partition>,
    copy: LocalCopy,
    fold: LogFold,
    begun_at: u64,
    /// The directory belongs to no cluster, and is unchanged so far.
    is_alone: bool,
}

impl Repair {
    /// Reads the log to its end. The copy receives the records that it lacks, as a follower would.
    ///
    /// # Errors
    /// The log has other records than the copy, or no entry that the copy knows, or any entry although the copy is that
    /// of a standalone hub; or the brokers do not deliver it.
    pub fn examine(
        mut partition: Box<dyn Partition>,
        copies: Copies,
        settings: &NodeSettings,
    ) -> Result<Self, ReplicationError> {
        let (mut copy, is_new) = LocalCopy::of_any(copies, settings.cluster, settings.report_every)?;
        let is_alone = is_new && copy.has_records();
        let bounds = partition.begin().zip(partition.end());
        let log = partition.name().to_owned();
        let Some((begin, end)) = bounds else {
            return Err(ReplicationError::Silent { log, offset: copy.needs(), end: 0 });
        };
        copy.settle_on(&mut *partition, begin..end)?;
        let mut fold = LogFold::new(settings.cluster, copy.place().position.clone());
        let begun_at = fold.position().next_offset;
        read_to(&mut *partition, &mut fold, end, &mut |fold, offset, entry| {
            if is_alone {
                return Err(ReplicationError::NotReplicated);
            }
            copy.accept(&log, offset, entry)?;
            copy.advance(fold, offset);
            if copy.is_write_due() {
                copy.write()?;
            }
            Ok(())
        })?;
        if !is_alone {
            copy.save()?;
        }
        Ok(Self { partition, copy, fold, begun_at, is_alone })
    }

    /// The last records of the log.
    pub const fn log(&self) -> CopyPosition {
        CopyPosition::up_to(self.fold.position())
    }

    /// The last records of the copy.
    pub fn copy(&self) -> CopyPosition {
        self.copy.ends()
    }

    /// The first compared offset, and the end of the log.
    pub const fn compared(&self) -> (u64, u64) {
        (self.begun_at, self.fold.position().next_offset)
    }

    /// Appends the records that the log lacks, and then leaves leadership to any node. Does nothing if none are
    /// lacking.
    ///
    /// # Errors
    /// The copy has deleted a record that the log lacks; there is another leader; the brokers do not acknowledge.
    /// Records that were already appended are valid, and another repair can append the rest.
    pub fn run(self, settings: &NodeSettings) -> Result<(), ReplicationError> {
        let log = self.log();
        let Self { mut partition, mut copy, fold, is_alone, .. } = self;
        let beginning = if fold.position().is_start() { copy.begins_behind()? } else { None };
        if beginning.is_none() {
            copy.expect_kept(log)?;
        }
        if log == copy.ends() {
            return Ok(());
        }
        if is_alone {
            // From now on the directory belongs to a node.
            copy.save()?;
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let leader = claim(&mut *partition, fold, beginning, settings, &*clock)?;
        let mut leading = LeaderLog::new(leader, partition, copy, clock, Arc::new(AtomicBool::new(false)));
        for kind in [EntryKind::Batch, EntryKind::Store] {
            while leading.append_again(kind)? {}
        }
        leading.hand_over(None)?;
        Ok(())
    }
}

/// Claims leadership, and waits until the claim is valid. An empty log first gets its beginning.
fn claim(
    partition: &mut dyn Partition,
    fold: LogFold,
    beginning: Option<LogStart>,
    settings: &NodeSettings,
    clock: &dyn Clock,
) -> Result<Leader, ReplicationError> {
    let limit = clock.now() + CLAIM_MAX;
    let offset = fold.position().next_offset;
    let mut standby =
        Standby::new(fold, settings.node, settings.claim.clone(), settings.patience, clock.now());
    partition.read_from(offset);
    let first = |standby: &mut Standby| match &beginning {
        Some(beginning) if standby.fold().position().is_start() => standby.begin_log(beginning),
        _ => standby.claim(clock.wall_ns()),
    };
    partition.append(first(&mut standby));
    while clock.now() < limit {
        match next(partition, PATIENCE)? {
            Some(Event::Entry { offset, bytes, .. }) => {
                let (role, verdict) = standby.read(offset, &bytes, None, clock.now());
                let log = || partition.name().to_owned();
                standby = match role {
                    NodeRole::Leader(leader) => {
                        partition.stop_reading();
                        return Ok(leader);
                    }
                    NodeRole::Newer(_) => return Err(ReplicationError::Newer { log: log(), offset }),
                    NodeRole::Standby(mut standby) => {
                        match verdict {
                            EntryVerdict::Accepted(entry)
                                if beginning.is_some() && entry.beginning() == beginning =>
                            {
                                partition.append(first(&mut standby));
                            }
                            EntryVerdict::Accepted(_) => {
                                return Err(ReplicationError::Contended { log: log() });
                            }
                            EntryVerdict::Void(_) | EntryVerdict::Newer(_) => {}
                        }
                        standby
                    }
                };
            }
            Some(Event::Unknown { .. }) => partition.append(first(&mut standby)),
            Some(Event::Acknowledged { .. }) | None => {}
        }
    }
    let log = partition.name().to_owned();
    Err(ReplicationError::Client { log, reason: "the claim was not acknowledged".to_owned() })
}
