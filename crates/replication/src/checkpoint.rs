//! The position of a node in the log, stored in a file of its data directory.

use std::io;

use upesi_cluster::{Chain, ClusterId, Incarnation, NodeId, Position, StorePosition};
use upesi_journal::{Access, Disk, JournalError};

use crate::error::ReplicationError;

/// File of a data directory with its node's position in the log. A standalone hub has none.
pub const CHECKPOINT_FILE: &str = "place";
const MAGIC: [u8; 8] = *b"UPESIPL2";
pub(crate) const BYTES: usize = 112;

/// The position after the last accepted entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub cluster: ClusterId,
    pub position: Position,
    /// Offset of the last accepted entry; `None` before the first.
    pub accepted_at: Option<u64>,
}

impl Checkpoint {
    pub const fn start(cluster: ClusterId) -> Self {
        Self { cluster, position: Position::START, accepted_at: None }
    }

    /// The content of the file.
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

    /// Reads the content of the file; `None` if it is damaged or has another format.
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
        let file = match disk.open(CHECKPOINT_FILE, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open", source)),
        };
        let mut bytes = [0; BYTES];
        match file.read_at(0, &mut bytes) {
            Ok(BYTES) => Self::decode(&bytes).map(Some).ok_or(ReplicationError::Checkpoint),
            Ok(_) => Err(ReplicationError::Checkpoint),
            Err(source) => Err(failed("read", source)),
        }
    }

    /// Replaces the stored position, atomically and durably.
    pub fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        replace(disk, CHECKPOINT_FILE, &self.encode())
    }
}

/// An error of the disk, which says nothing about its contents.
fn failed(operation: &'static str, source: io::Error) -> ReplicationError {
    ReplicationError::Copy(JournalError::Io { operation, file: CHECKPOINT_FILE.to_owned(), source })
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

#[cfg(test)]
mod tests {
    use upesi_cluster::Position;
    use upesi_journal::sim_disk::SimDisk;

    use super::*;

    fn place() -> Checkpoint {
        let position = Position {
            epoch: 3,
            leader: Some((NodeId(2), Incarnation(77))),
            seq: 1 << 40,
            chain: Chain(u128::MAX - 5),
            time_ns: -4,
            store: StorePosition { seq: 1 << 41, time_ns: 7 },
            next_offset: 12,
        };
        Checkpoint { cluster: ClusterId(9), position, accepted_at: Some(11) }
    }

    #[test]
    fn position_round_trips() {
        let disk = SimDisk::new(1);
        assert_eq!(Checkpoint::load(&disk).expect("a disk"), None);
        let nowhere = Checkpoint::start(ClusterId(9));
        for place in [nowhere, place()] {
            place.save(&disk).expect("room");
            assert_eq!(Checkpoint::load(&disk).expect("a place"), Some(place));
        }
    }

    #[test]
    fn corrupt_position_is_detected() {
        let intact = place().encode();
        for bit in 0..8 * 108 {
            let mut changed = intact;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Checkpoint::decode(&changed), None, "bit {bit}");
        }
    }
}
