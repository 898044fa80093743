//! The durable ordered log, and the snapshot files beside it.
//!
//! One thread appends batches through a [`Writer`]; any number of [`Reader`]s follow up to the sequence number that is
//! known to be durable. A batch is on disk when [`Writer::append`] returns, or it is not acknowledged. The README of
//! this crate states what is assumed of disks, what is survived and what is only detected.

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
pub use log::{Appender, Claimed, EmbeddedLog, Log, LogReader};
pub use reader::{END, Reader, Record};
pub use real_disk::RealDisk;
pub use recovery::{Extent, Opened, Recovered, extent, header_without_free_room, open, verify};
pub use retention::{SegmentInfo, delete_segments_below, segments};
pub use scratch_disk::ScratchDisk;
pub use snapshot::{Latest, Snapshot, SnapshotInfo, SnapshotSink, SnapshotStore};
pub use tail::TornTail;
pub use writer::{Appended, Durability, Maintenance, Options, Writer};
