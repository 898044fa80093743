//! Repair of a log that lost its end: appends the lost records again from the copy of a node.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use upesi_cluster::{Beginning, ClusterId, Entry, Fold, Kind, Leader, Position, Role, Standby, Verdict};
use upesi_journal::Disk;

use crate::clock::{Clock, SystemClock};
use crate::copy::{Copies, Copy};
use crate::error::ReplicationError;
use crate::leading::Leading;
use crate::partition::{Copied, Event, Partition, next};
use crate::place::{LOOKS_MAX, PATIENCE, Place};
use crate::standby::NodeSettings;

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
    copy: Copy,
    fold: Fold,
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
        let (mut copy, is_new) = Copy::of_any(copies, settings.cluster, settings.tell_every)?;
        let is_alone = is_new && copy.has_records();
        let bounds = partition.begin().zip(partition.end());
        let log = partition.name().to_owned();
        let Some((begin, end)) = bounds else {
            return Err(ReplicationError::Silent { log, offset: copy.needs(), end: 0 });
        };
        copy.settle_on(&mut *partition, (begin, end))?;
        let mut fold = Fold::new(settings.cluster, copy.place().position.clone());
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
    pub const fn log(&self) -> Copied {
        Copied::up_to(self.fold.position())
    }

    /// The last records of the copy.
    pub fn copy(&self) -> Copied {
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
        let mut leading = Leading::new(leader, partition, copy, clock, Arc::new(AtomicBool::new(false)));
        for kind in [Kind::Batch, Kind::Store] {
            while leading.append_again(kind)? {}
        }
        leading.hand_over(None)?;
        Ok(())
    }
}

/// Claims leadership, and waits until the claim is valid. An empty log first gets its beginning.
fn claim(
    partition: &mut dyn Partition,
    fold: Fold,
    beginning: Option<Beginning>,
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
                    Role::Leader(leader) => {
                        partition.stop_reading();
                        return Ok(leader);
                    }
                    Role::Newer(_) => return Err(ReplicationError::Newer { log: log(), offset }),
                    Role::Standby(mut standby) => {
                        match verdict {
                            Verdict::Accepted(entry)
                                if beginning.is_some() && entry.beginning() == beginning =>
                            {
                                partition.append(first(&mut standby));
                            }
                            Verdict::Accepted(_) => {
                                return Err(ReplicationError::Contended { log: log() });
                            }
                            Verdict::Void(_) | Verdict::Newer(_) => {}
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

// Reads the log for operators.

/// Reads the log up to `end`, from the position of a node's directory, or without one from its beginning. Returns the
/// position of the directory, and the fold at the end. Writes nothing.
///
/// # Errors
/// The directory belongs to another cluster, the log no longer has these entries, a newer hub wrote one of them, or no
/// entry arrived for ten seconds.
pub fn survey(
    partition: &mut dyn Partition,
    disk: Option<&dyn Disk>,
    cluster: ClusterId,
    end: u64,
) -> Result<(Option<Position>, Fold), ReplicationError> {
    let place = disk.map(Place::load).transpose()?.flatten();
    if let Some(place) = place.as_ref().filter(|place| place.cluster != cluster) {
        return Err(ReplicationError::OtherCluster { found: place.cluster.0, expected: cluster.0 });
    }
    let needed = place.as_ref().map_or(0, |place| place.position.next_offset);
    if let Some(begin) = partition.begin().filter(|begin| *begin > needed) {
        return Err(ReplicationError::Deleted { log: partition.name().to_owned(), begin, needed });
    }
    let copied = place.as_ref().map(|place| place.position.clone());
    let mut fold = Fold::new(cluster, place.unwrap_or(Place::start(cluster)).position);
    read_to(partition, &mut fold, end, &mut |_, _, _| Ok(()))?;
    Ok((copied, fold))
}

/// Reads the log from the position of the fold up to `end`; calls `accept` for each valid entry after it is folded.
///
/// # Errors
/// An error of `accept`; a newer hub wrote an entry, or no entry arrived for ten seconds.
fn read_to(
    partition: &mut dyn Partition,
    fold: &mut Fold,
    end: u64,
    accept: &mut dyn FnMut(&Fold, u64, &Entry<'_>) -> Result<(), ReplicationError>,
) -> Result<(), ReplicationError> {
    partition.read_from(fold.position().next_offset);
    let mut looks = 0;
    while fold.position().next_offset < end {
        let event = next(partition, PATIENCE)?;
        let log = || partition.name().to_owned();
        match event {
            Some(Event::Entry { offset, bytes, .. }) => {
                match fold.read(offset, &bytes) {
                    Verdict::Accepted(entry) => accept(fold, offset, &entry)?,
                    Verdict::Void(_) => {}
                    Verdict::Newer(_) => return Err(ReplicationError::Newer { log: log(), offset }),
                }
                looks = 0;
            }
            _ if looks == LOOKS_MAX => {
                return Err(ReplicationError::Silent {
                    log: log(),
                    offset: fold.position().next_offset,
                    end,
                });
            }
            _ => looks += 1,
        }
    }
    partition.stop_reading();
    Ok(())
}
