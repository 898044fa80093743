//! Compares the archive of finished transfers with the journal.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use upesi_ledger::codec::{DecodeError, Decoder, Encoder};
use upesi_ledger::{Bulk, Committed, FxTransfer, FxTransferState, Stored, Transfer, TransferState};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive, first_seq_of};
use upesi_types::{BulkId, FxTransferId, TransferId};

use super::findings::Findings;

/// Directory of the archive.
const ARCHIVE: &str = "archive";

/// Result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveResult {
    /// Transfers of the journal that were compared with the archive.
    pub compared: u64,
    /// Transfers in the archive.
    pub stored: u64,
    /// The archive is complete up to this record.
    pub watermark: u64,
    /// Reason why the archive was not compared.
    pub left_out: Option<String>,
}

pub(super) struct ArchiveComparison {
    archive: Option<Arc<FjallArchive>>,
    /// Whether the data directory has no archive.
    is_absent: bool,
    result: ArchiveResult,
    /// Number of finished transfers of the journal that the archive must contain.
    expected: u64,
    /// The first record whose finished transfers are in the archive; retention has removed earlier ones.
    first_seq: u64,
}

impl ArchiveComparison {
    /// A comparison that is left out, with the reason.
    pub fn left_out(directory: &Path, why: &str) -> Self {
        let result = ArchiveResult { left_out: Some(why.to_owned()), ..ArchiveResult::default() };
        let first_seq = first_seq_of(&directory.join(ARCHIVE)).unwrap_or(0);
        Self { archive: None, is_absent: false, result, expected: 0, first_seq }
    }

    /// The archive that a start would find; `None` if that is not known.
    pub fn of_start(&self) -> Option<Option<Arc<FjallArchive>>> {
        (self.is_absent || self.archive.is_some()).then(|| self.archive.clone())
    }

    /// The first record whose finished transfers are in the archive.
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Opens the archive, unless it is left out.
    pub fn open_unless(left_out: Option<&str>, directory: &Path, findings: &mut Findings) -> Self {
        match left_out {
            Some(why) => Self::left_out(directory, why),
            None => Self::open(directory, findings),
        }
    }

    /// Opens the archive of a data directory. An unreadable archive is a finding; a missing one is not.
    fn open(directory: &Path, findings: &mut Findings) -> Self {
        let path = directory.join(ARCHIVE);
        if !path.is_dir() {
            return Self { is_absent: true, ..Self::left_out(directory, "it does not exist") };
        }
        match FjallArchive::open(&path, &ArchiveOptions::default()) {
            Ok(archive) => {
                let watermark = archive.watermark();
                let result = ArchiveResult { watermark, ..ArchiveResult::default() };
                let first_seq = archive.first_seq();
                Self { archive: Some(Arc::new(archive)), is_absent: false, result, expected: 0, first_seq }
            }
            Err(error) => {
                findings.add(error.to_string());
                Self::left_out(directory, "it cannot be opened")
            }
        }
    }

    /// Compares a transfer that a record finished.
    pub fn compare(&mut self, finished_at: u64, transfer: &Transfer, findings: &mut Findings) {
        let name = format_args!("transfer {}", transfer.id);
        self.compare_entry(finished_at, transfer.id, transfer, as_of_before(transfer), name, findings);
    }

    /// Compares an FX transfer that a record ended.
    pub fn compare_fx_transfer(
        &mut self,
        finished_at: u64,
        fx_transfer: &FxTransfer,
        findings: &mut Findings,
    ) {
        let name = format_args!("FX transfer {}", fx_transfer.id);
        let before = fx_transfer_as_of_before(fx_transfer);
        self.compare_entry(finished_at, fx_transfer.id.archive_key(), fx_transfer, before, name, findings);
    }

    /// Compares a bulk transfer that a record ended.
    pub fn compare_bulk(&mut self, finished_at: u64, bulk: &Bulk, findings: &mut Findings) {
        let name = format_args!("bulk transfer {}", bulk.id);
        self.compare_entry(finished_at, bulk.id.archive_key(), bulk, None, name, findings);
    }

    /// `before` is the entry in the form of an earlier version, if that differs.
    fn compare_entry<T: Stored>(
        &mut self,
        finished_at: u64,
        key: TransferId,
        entry: &T,
        before: Option<T>,
        name: std::fmt::Arguments<'_>,
        findings: &mut Findings,
    ) {
        let Some(archive) = &self.archive else { return };
        // Retention has removed older ones, although the journal may still have them.
        if finished_at > self.result.watermark || finished_at < self.first_seq {
            return;
        }
        self.expected += 1;
        let encoded = |entry: &T| {
            let mut encoded = Vec::new();
            entry.encode(&mut Encoder(&mut encoded));
            encoded
        };
        match archive.get(&key) {
            Ok(Some(stored))
                if stored == encoded(entry) || before.is_some_and(|before| stored == encoded(&before)) =>
            {
                self.result.compared += 1;
            }
            Ok(Some(_)) => {
                findings.add(format!("{name}: the archive differs from the journal"));
            }
            Ok(None) => {
                findings.add(format!("{name}: finished with record {finished_at}, but is not in the archive"))
            }
            Err(error) => findings.add(format!("{name}: {error}")),
        }
    }

    /// Checks all entries of the archive.
    pub fn finish(
        &mut self,
        last_seq: u64,
        from_the_beginning: bool,
        findings: &mut Findings,
    ) -> ArchiveResult {
        let Some(archive) = self.archive.take() else { return self.result.clone() };
        let watermark = self.result.watermark;
        if watermark > last_seq {
            findings.add(format!(
                "the archive is complete to record {watermark}, but the journal ends with {last_seq}"
            ));
        }
        let mut stored = 0;
        let visited = archive.for_each(&mut |id, bytes| {
            stored += 1;
            let mut decoder = Decoder(bytes);
            if let Some(fx_transfer) = id.as_fx_transfer() {
                check_fx_transfer(fx_transfer, FxTransfer::decode(&mut decoder), findings);
                return ControlFlow::Continue(());
            }
            if let Some(bulk) = id.as_bulk() {
                check_bulk(bulk, Bulk::decode(&mut decoder), findings);
                return ControlFlow::Continue(());
            }
            match Transfer::decode(&mut decoder) {
                Err(error) => findings.add(format!("transfer {id} in the archive: {error}")),
                Ok(transfer) if transfer.id != id || transfer.state == TransferState::Reserved => {
                    findings
                        .add(format!("transfer {id} in the archive is not a finished transfer of that id"));
                }
                Ok(_) => {}
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = visited {
            findings.add(error.to_string());
        }
        // An archive may contain entries above its watermark, because entries that were applied before a crash are
        // applied again.
        if from_the_beginning && stored < self.expected {
            let expected = self.expected;
            findings.add(format!(
                "the archive has {stored} of the {expected} transfers that finished by its watermark"
            ));
        }
        self.result.stored = stored;
        self.result.clone()
    }
}

/// A transfer as stored by versions that did not record its fees; `None` if it has none.
fn as_of_before(transfer: &Transfer) -> Option<Transfer> {
    let TransferState::Committed(end) = &transfer.state else { return None };
    if end.fees.is_empty() {
        return None;
    }
    let end = Committed { fees: Vec::new(), ..(**end).clone() };
    Some(Transfer { state: end.into(), ..transfer.clone() })
}

/// An FX transfer as stored by versions that did not record its windows; `None` if it was not committed.
fn fx_transfer_as_of_before(fx_transfer: &FxTransfer) -> Option<FxTransfer> {
    let FxTransferState::Committed { at, windows: Some(_) } = fx_transfer.state else { return None };
    Some(FxTransfer { state: FxTransferState::Committed { at, windows: None }, ..fx_transfer.clone() })
}

fn check_fx_transfer(id: FxTransferId, found: Result<FxTransfer, DecodeError>, findings: &mut Findings) {
    match found {
        Err(error) => findings.add(format!("FX transfer {id} in the archive: {error}")),
        Ok(fx_transfer) if fx_transfer.id != id || fx_transfer.is_live() => {
            findings.add(format!("FX transfer {id} in the archive is not an ended FX transfer of that id"));
        }
        Ok(_) => {}
    }
}

fn check_bulk(id: BulkId, found: Result<Bulk, DecodeError>, findings: &mut Findings) {
    match found {
        Err(error) => findings.add(format!("bulk transfer {id} in the archive: {error}")),
        Ok(bulk) if bulk.id != id || bulk.is_live() => {
            findings
                .add(format!("bulk transfer {id} in the archive is not an ended bulk transfer of that id"));
        }
        Ok(_) => {}
    }
}
