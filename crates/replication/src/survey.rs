//! Reads the log for operators.

use upesi_cluster::{ClusterId, EntryVerdict, LogEntry, LogFold, Position};
use upesi_journal::Disk;

use crate::checkpoint::Checkpoint;
use crate::error::ReplicationError;
use crate::history::{LOOKS_MAX, PATIENCE};
use crate::partition::{Event, Partition, next};

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
) -> Result<(Option<Position>, LogFold), ReplicationError> {
    let place = disk.map(Checkpoint::load).transpose()?.flatten();
    if let Some(place) = place.as_ref().filter(|place| place.cluster != cluster) {
        return Err(ReplicationError::OtherCluster { found: place.cluster.0, expected: cluster.0 });
    }
    let needed = place.as_ref().map_or(0, |place| place.position.next_offset);
    if let Some(begin) = partition.begin().filter(|begin| *begin > needed) {
        return Err(ReplicationError::Deleted { log: partition.name().to_owned(), begin, needed });
    }
    let copied = place.as_ref().map(|place| place.position.clone());
    let mut fold = LogFold::new(cluster, place.unwrap_or(Checkpoint::start(cluster)).position);
    read_to(partition, &mut fold, end, &mut |_, _, _| Ok(()))?;
    Ok((copied, fold))
}

/// Reads the log from the position of the fold up to `end`; calls `accept` for each valid entry after it is folded.
///
/// # Errors
/// An error of `accept`; a newer hub wrote an entry, or no entry arrived for ten seconds.
pub(crate) fn read_to(
    partition: &mut dyn Partition,
    fold: &mut LogFold,
    end: u64,
    accept: &mut dyn FnMut(&LogFold, u64, &LogEntry<'_>) -> Result<(), ReplicationError>,
) -> Result<(), ReplicationError> {
    partition.read_from(fold.position().next_offset);
    let mut looks = 0;
    while fold.position().next_offset < end {
        let event = next(partition, PATIENCE)?;
        let log = || partition.name().to_owned();
        match event {
            Some(Event::Entry { offset, bytes, .. }) => {
                match fold.read(offset, &bytes) {
                    EntryVerdict::Accepted(entry) => accept(fold, offset, &entry)?,
                    EntryVerdict::Void(_) => {}
                    EntryVerdict::Newer(_) => return Err(ReplicationError::Newer { log: log(), offset }),
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
