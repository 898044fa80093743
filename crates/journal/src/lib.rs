//! The durable ordered log and its snapshot files.
//!
//! One thread appends batches through a [`Writer`]. Any number of [`Reader`]s read up to the last sequence number that
//! is known to be durable. A batch is acknowledged only after [`Writer::append`] returned, and it is then on disk. The
//! README of this crate states the assumptions about disks, and which failures the journal survives or only detects.

mod aligned;
mod batch;
mod cursor;
mod data_directory;
mod disk;
pub mod durable;
mod error;
mod frame;
mod log;
mod reader;
mod real_disk;
mod recovery;
mod retention;
mod scratch_disk;
mod segment;
#[cfg(any(test, feature = "sim"))]
pub mod sim_disk;
mod snapshot;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::Batch;
pub use data_directory::{DataDirectory, DataDirectoryError};
pub use disk::{Access, Disk, DiskFile};
pub use error::{Damage, JournalError};
pub use frame::{FRAME_BODY_BYTES_MAX, SECTOR_BYTES};
pub use log::{Appender, ClaimedLog, EmbeddedLog, Log, LogReader};
pub use reader::{END, Reader, Record};
pub use real_disk::RealDisk;
pub use recovery::{Extent, OpenedJournal, RecoveredJournal, extent, header_without_free_room, open, verify};
pub use retention::{SegmentInfo, delete_segments_below, segments};
pub use scratch_disk::ScratchDisk;
pub use snapshot::{Latest, Snapshot, SnapshotInfo, SnapshotSink, SnapshotStore};
pub use tail::TornTail;
pub use writer::{AppendedBatch, Durability, Maintenance, Options, Writer};
