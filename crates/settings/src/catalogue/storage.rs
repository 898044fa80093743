//! Settings of the data directory: journal, archive, store.

use crate::choices::{ExportFormat, KeepSegments};
use crate::kind::{Flag, Integer, Optional};
use crate::setting::group;
use crate::words::FilePath;

/// 2^20 bytes.
const MIB: u64 = 1 << 20;

group! {
    /// The section `data`.
    Data {
        /// Path of the data directory. The hub creates it if it is missing. Only one process at a time can use it.
        dir: FilePath = "data",
        /// Whether the hub starts only if the data directory contains a ledger. With `true`, a hub whose volume is not
        /// mounted does not start with a new ledger. `upesi init` creates an empty ledger.
        must_exist: Flag = "false",
        /// Length of a journal segment in bytes. The next segment is always reserved in advance.
        segment_bytes: Integer<MIB, { 4096 * MIB }> = "67108864" expert,
        /// Which journal segments to retain once they are archived and covered by a snapshot. `all`: every segment, so
        /// that the whole history can be audited. `needed`: only segments that a restart or an undelivered callback
        /// needs.
        keep_segments: KeepSegments = "all",
        /// Number of records between snapshots.
        snapshot_every_records: Integer<1_000, 1_000_000_000> = "262144" expert,
        /// Size in bytes of the `reserve` file, space that an operator can release when the disk is full; 0 disables
        /// it. The hub allocates it at start-up if the volume has twice this size free, and in addition
        /// `store.free_bytes_min`.
        reserve_bytes: Integer<0, { 1_048_576 * MIB }> = "268435456" expert,
    }

    /// The section `archive`.
    Archive {
        /// Days after which finished transfers are removed from the hub, followed by their journal segments; 0 retains
        /// them forever. Transfers are removed in portions, at most an eighth of this time late. A removed transfer is
        /// unknown to the hub: if its prepare is sent again, the hub processes it as a new transfer. The hub logs a
        /// warning at start-up if this is less than `hub.transfer_validity_max_s`.
        keep_days: Integer<0, 36_500> = "0",
        /// Directory for exports of transfers before their removal; empty: no export. If the export fails, the
        /// transfers are not removed. Each node of a cluster exports from its own archive.
        export_dir: Optional<FilePath> = "",
        /// Format of these exports, as in `upesi export --format`.
        export_format: ExportFormat = "csv" expert,
    }

    /// The section `store`.
    Store {
        /// Disk space that the store keeps free, in bytes. If less is free, the store rejects writes; reads continue.
        free_bytes_min: Integer<{ 64 * MIB }, { 1_048_576 * MIB }> = "536870912" expert,
    }
}
