//! The position of a node in the log, stored in a file of its data directory.

use std::io;
use std::time::Duration;

use upesi_cluster::{Chain, ClusterId, Entry, Incarnation, NodeId, Position, StorePosition};
use upesi_journal::{Access, Disk, JournalError};

use crate::error::ReplicationError;
use crate::partition::{Event, Partition, next};

/// File of a data directory with its node's position in the log. A standalone hub has none.
pub const PLACE_FILE: &str = "place";
const MAGIC: [u8; 8] = *b"UPESIPL2";
pub(crate) const BYTES: usize = 112;

/// The position after the last accepted entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub cluster: ClusterId,
    pub position: Position,
    /// Offset of the last accepted entry; `None` before the first.
    pub accepted_at: Option<u64>,
}

impl Place {
    pub const fn start(cluster: ClusterId) -> Self {
        Self { cluster, position: Position::START, accepted_at: None }
    }

    pub fn encode(&self) -> [u8; BYTES] {
        let at = &self.position;
        let (node, life) = at.leader.map_or((u32::MAX, 0), |(node, life)| (node.0, life.0));
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&at.epoch.to_le_bytes());
        bytes.extend_from_slice(&at.seq.to_le_bytes());
        bytes.extend_from_slice(&at.chain.0.to_le_bytes());
        bytes.extend_from_slice(&at.time_ns.to_le_bytes());
        bytes.extend_from_slice(&at.store.seq.to_le_bytes());
        bytes.extend_from_slice(&at.store.time_ns.to_le_bytes());
        bytes.extend_from_slice(&self.accepted_at.map_or(0, |offset| offset + 1).to_le_bytes());
        bytes.extend_from_slice(&life.to_le_bytes());
        bytes.extend_from_slice(&node.to_le_bytes());
        bytes.extend_from_slice(&u32::from(at.leader.is_some()).to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let mut file = [0; BYTES];
        file[..bytes.len()].copy_from_slice(&bytes);
        file
    }

    pub fn decode(file: &[u8; BYTES]) -> Option<Self> {
        let mut rest = &file[..];
        let mut take = |length: usize| {
            let (field, behind) = rest.split_at(length);
            rest = behind;
            field
        };
        let number =
            |field: &[u8]| field.iter().rev().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        let mut u64_field = |length: usize| number(take(length));
        let magic = u64_field(8);
        let cluster = ClusterId(u64_field(16));
        let [epoch, seq] = [u64_field(8) as u64, u64_field(8) as u64];
        let chain = Chain(u64_field(16));
        let time_ns = u64_field(8) as u64;
        let [store_seq, store_time_ns] = [u64_field(8) as u64, u64_field(8) as u64];
        let [accepted, life] = [u64_field(8) as u64, u64_field(8) as u64];
        let [node, has_leader, crc] = [u64_field(4) as u32, u64_field(4) as u32, u64_field(4) as u32];
        let summed = 8 + 16 + 8 + 8 + 16 + 8 + 8 + 8 + 8 + 8 + 4 + 4;
        let is_intact = magic == number(&MAGIC) && crc == crc32c::crc32c(&file[..summed]);
        let leader = (has_leader == 1).then_some((NodeId(node), Incarnation(life)));
        let store = StorePosition { seq: store_seq, time_ns: store_time_ns.cast_signed() };
        let time_ns = time_ns.cast_signed();
        let position = Position { epoch, leader, seq, chain, time_ns, store, next_offset: accepted };
        is_intact.then(|| Self { cluster, position, accepted_at: accepted.checked_sub(1) })
    }

    /// The position of a data directory; `None` if it has none.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>, ReplicationError> {
        let file = match disk.open(PLACE_FILE, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open", source)),
        };
        let mut bytes = [0; BYTES];
        match file.read_at(0, &mut bytes) {
            Ok(BYTES) => Self::decode(&bytes).map(Some).ok_or(ReplicationError::Place),
            Ok(_) => Err(ReplicationError::Place),
            Err(source) => Err(failed("read", source)),
        }
    }

    /// Replaces the stored position, atomically and durably.
    pub fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        replace(disk, PLACE_FILE, &self.encode())
    }
}

/// An error of the disk, which says nothing about its contents.
fn failed(operation: &'static str, source: io::Error) -> ReplicationError {
    ReplicationError::Copy(JournalError::Io { operation, file: PLACE_FILE.to_owned(), source })
}

/// Replaces a file atomically and durably.
pub(crate) fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    match disk.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&temporary)?;
    file.write_at(0, bytes)?;
    // A failed sync must never be treated as a full disk.
    file.sync().map_err(io::Error::other)?;
    disk.rename(&temporary, name)?;
    disk.sync_directory("").map_err(io::Error::other)
}

// Earlier positions: a node returns to one of them if the log lost its end.

const HISTORY_FILE: &str = "places";
/// One for each power of two of the distance, and some more.
const PLACES_MAX: usize = 80;

/// Older positions, the oldest first. Their number decreases with the distance: one for each power of two of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History(Vec<Place>);

impl History {
    /// The older positions of a data directory. They only help to avoid a backup, so unreadable ones are ignored.
    pub fn load(disk: &dyn Disk, cluster: ClusterId) -> Self {
        let Ok(file) = disk.open(HISTORY_FILE, Access::Read) else { return Self::default() };
        let mut bytes = vec![0; PLACES_MAX * BYTES];
        let length = file.read_at(0, &mut bytes).unwrap_or_default();
        let places = bytes[..length].as_chunks::<BYTES>().0.iter().map_while(Place::decode);
        Self(places.filter(|place| place.cluster == cluster).collect())
    }

    pub fn save(&self, disk: &dyn Disk) -> std::io::Result<()> {
        let bytes: Vec<u8> = self.0.iter().flat_map(Place::encode).collect();
        replace(disk, HISTORY_FILE, &bytes)
    }

    /// Adds a position. Later ones are removed, because they belong to entries that the log lost.
    pub fn note(&mut self, place: &Place) {
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

    /// Positions from which a node may continue, the newest first: its current one, older ones, and the beginning.
    pub fn candidates(&self, place: &Place) -> Vec<Place> {
        let older = self.0.iter().rev().filter(|older| *older != place).cloned();
        let mut all: Vec<Place> = std::iter::once(place.clone()).chain(older).collect();
        all.push(Place::start(place.cluster));
        all
    }
}

/// The first of these positions whose last entry the log has, if the entry is between its `begin` and its `end`.
pub(crate) fn first_in(
    partition: &mut dyn Partition,
    places: &[Place],
    (begin, end): (u64, u64),
) -> Result<Option<Place>, ReplicationError> {
    for place in places {
        let is_there = match place.accepted_at {
            None => begin == 0,
            Some(at) => {
                (begin..end).contains(&at) && chain_at(partition, at, end)? == Some(place.position.chain)
            }
        };
        if is_there {
            return Ok(Some(place.clone()));
        }
    }
    Ok(None)
}

/// How long a read of the log waits for an entry.
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
                let entry = Entry::decode(&bytes).ok().filter(|_| offset == at);
                return Ok(entry.map(|entry| entry.chain));
            }
            _ => {}
        }
    }
    Err(ReplicationError::Silent { log: partition.name().to_owned(), offset: at, end })
}

#[cfg(test)]
mod tests {
    use upesi_cluster::Position;
    use upesi_journal::sim_disk::SimDisk;

    use super::*;

    fn place() -> Place {
        let position = Position {
            epoch: 3,
            leader: Some((NodeId(2), Incarnation(77))),
            seq: 1 << 40,
            chain: Chain(u128::MAX - 5),
            time_ns: -4,
            store: StorePosition { seq: 1 << 41, time_ns: 7 },
            next_offset: 12,
        };
        Place { cluster: ClusterId(9), position, accepted_at: Some(11) }
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let disk = SimDisk::new(1);
        assert_eq!(Place::load(&disk).expect("a disk"), None);
        let nowhere = Place::start(ClusterId(9));
        for place in [nowhere, place()] {
            place.save(&disk).expect("room");
            assert_eq!(Place::load(&disk).expect("a place"), Some(place));
        }
    }

    #[test]
    fn a_changed_bit_is_found() {
        let intact = place().encode();
        for bit in 0..8 * 108 {
            let mut changed = intact;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Place::decode(&changed), None, "bit {bit}");
        }
    }

    fn place_at(at: u64) -> Place {
        let position = Position { seq: at * 2, next_offset: at + 1, ..Position::START };
        Place { cluster: ClusterId(9), position, accepted_at: Some(at) }
    }

    #[test]
    fn old_places_are_few_and_never_much_further_back_than_needed() {
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
    fn places_of_what_the_log_lost_are_forgotten_and_the_rest_is_kept_on_disk() {
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
        assert_eq!(history.candidates(&place_at(22)).last(), Some(&Place::start(ClusterId(9))));
    }
}
