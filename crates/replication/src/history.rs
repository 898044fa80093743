//! Earlier positions: a node returns to one of them if the log lost its end.

use std::ops::Range;
use std::time::Duration;

use upesi_cluster::{Chain, ClusterId, LogEntry};
use upesi_journal::{Access, Disk};

use crate::checkpoint::{BYTES, Checkpoint, replace};
use crate::error::ReplicationError;
use crate::partition::{Event, Partition, next};

const HISTORY_FILE: &str = "places";
/// One for each power of two of the distance, and some more.
const PLACES_MAX: usize = 80;

/// Older positions, the oldest first. Their number decreases with the distance: one for each power of two of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History(Vec<Checkpoint>);

impl History {
    /// The older positions of a data directory. They only help to avoid a backup, so unreadable ones are ignored.
    pub fn load(disk: &dyn Disk, cluster: ClusterId) -> Self {
        let Ok(file) = disk.open(HISTORY_FILE, Access::Read) else { return Self::default() };
        let mut bytes = vec![0; PLACES_MAX * BYTES];
        let length = file.read_at(0, &mut bytes).unwrap_or_default();
        let places = bytes[..length].as_chunks::<BYTES>().0.iter().map_while(Checkpoint::decode);
        Self(places.filter(|place| place.cluster == cluster).collect())
    }

    /// Writes the positions to the data directory.
    pub fn save(&self, disk: &dyn Disk) -> std::io::Result<()> {
        let bytes: Vec<u8> = self.0.iter().flat_map(Checkpoint::encode).collect();
        replace(disk, HISTORY_FILE, &bytes)
    }

    /// Adds a position. Later ones are removed, because they belong to entries that the log lost.
    pub fn note(&mut self, place: &Checkpoint) {
        let Some(newest) = place.accepted_at else { return };
        self.0.retain(|older| older.accepted_at < Some(newest));
        self.0.push(place.clone());
        let mut taken = None;
        self.0.retain(|older| {
            let distance = newest - older.accepted_at.unwrap_or_default();
            let power = distance.checked_ilog2();
            // Keeps the oldest of each power.
            taken.replace(power) != Some(power)
        });
    }

    /// Positions where a node may continue, the newest first: its current one, older ones, and the beginning.
    pub fn candidates(&self, place: &Checkpoint) -> Vec<Checkpoint> {
        let older = self.0.iter().rev().filter(|older| *older != place).cloned();
        let mut all: Vec<Checkpoint> = std::iter::once(place.clone()).chain(older).collect();
        all.push(Checkpoint::start(place.cluster));
        all
    }
}

/// The first of these positions whose last entry the log has, if the log still has that offset.
pub(crate) fn first_in(
    partition: &mut dyn Partition,
    places: &[Checkpoint],
    offsets: &Range<u64>,
) -> Result<Option<Checkpoint>, ReplicationError> {
    for place in places {
        let is_there = match place.accepted_at {
            None => offsets.start == 0,
            Some(at) => {
                offsets.contains(&at) && chain_at(partition, at, offsets.end)? == Some(place.position.chain)
            }
        };
        if is_there {
            return Ok(Some(place.clone()));
        }
    }
    Ok(None)
}

/// Time that a read of the log waits for an entry.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of consecutive reads without an entry although the log has more.
pub(crate) const LOOKS_MAX: u32 = 100;

/// The chain of the entry at an offset, if it is valid.
fn chain_at(partition: &mut dyn Partition, at: u64, end: u64) -> Result<Option<Chain>, ReplicationError> {
    partition.read_from(at);
    for _ in 0..LOOKS_MAX {
        match next(partition, PATIENCE)? {
            Some(Event::Entry { offset, bytes, .. }) if offset >= at => {
                partition.stop_reading();
                let entry = LogEntry::decode(&bytes).ok().filter(|_| offset == at);
                return Ok(entry.map(|entry| entry.chain));
            }
            _ => {}
        }
    }
    Err(ReplicationError::Silent { log: partition.name().to_owned(), offset: at, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_cluster::Position;
    use upesi_journal::sim_disk::SimDisk;

    fn place_at(at: u64) -> Checkpoint {
        let position = Position { seq: at * 2, next_offset: at + 1, ..Position::START };
        Checkpoint { cluster: ClusterId(9), position, accepted_at: Some(at) }
    }

    #[test]
    fn old_positions_are_few_and_close_to_the_needed_one() {
        let mut history = History::default();
        for at in (0..200_000).step_by(7) {
            history.note(&place_at(at));
            assert!(history.0.len() <= 20 && history.0[0] == place_at(0), "{at}: {history:?}");
        }
        let newest = history.0.last().and_then(|place| place.accepted_at).expect("a place");
        for lost in [1, 10, 100, 1_000, 10_000, 100_000] {
            let found = history.candidates(&place_at(newest));
            let at = found.iter().find_map(|place| place.accepted_at.filter(|at| *at + lost <= newest));
            assert!(newest - at.expect("the first") <= lost * 8 + 16, "{lost} lost: {at:?} of {newest}");
        }
    }

    #[test]
    fn positions_of_lost_entries_are_dropped_and_others_stored() {
        let mut history = History::default();
        for at in [3, 20, 24, 30] {
            history.note(&place_at(at));
        }
        history.note(&place_at(22));
        let kept: Vec<_> = history.0.iter().map(|place| place.accepted_at.expect("some")).collect();
        assert_eq!(kept, [3, 20, 22]);
        let disk = SimDisk::new(1);
        assert_eq!(History::load(&disk, ClusterId(9)), History::default());
        history.save(&disk).expect("room");
        assert_eq!(History::load(&disk, ClusterId(9)), history);
        assert_eq!(History::load(&disk, ClusterId(8)), History::default());
        assert_eq!(history.candidates(&place_at(22)).last(), Some(&Checkpoint::start(ClusterId(9))));
    }
}
