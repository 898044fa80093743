//! Compares the archive of finished transfers with what the journal says.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use upesi_ledger::codec::{DecodeError, Decoder, Encoder};
use upesi_ledger::{Bulk, Conversion, Stored, Transfer, TransferState};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive, first_seq_of};
use upesi_types::{BulkId, ConversionId, TransferId};

use super::Findings;

/// The archive's place in a data directory.
const DIRECTORY: &str = "archive";

/// What came of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveResult {
    /// Transfers of the journal that were compared with the archive.
    pub compared: u64,
    /// Transfers in the archive.
    pub stored: u64,
    /// The record up to which it is complete.
    pub watermark: u64,
    /// Why it was not compared.
    pub left_out: Option<String>,
}

pub(super) struct Comparison {
    archive: Option<Arc<FjallArchive>>,
    /// Whether a start would find none.
    is_absent: bool,
    result: ArchiveResult,
    /// Finished transfers of the journal that the archive must hold.
    expected: u64,
    /// The record from which on the archive has what finished; what was before has left by retention.
    first_seq: u64,
}

impl Comparison {
    pub fn left_out(directory: &Path, why: &str) -> Self {
        let result = ArchiveResult { left_out: Some(why.to_owned()), ..ArchiveResult::default() };
        let first_seq = first_seq_of(&directory.join(DIRECTORY)).unwrap_or(0);
        Self { archive: None, is_absent: false, result, expected: 0, first_seq }
    }

    /// What a start would find; `None` where that is not known.
    pub fn of_start(&self) -> Option<Option<Arc<FjallArchive>>> {
        (self.is_absent || self.archive.is_some()).then(|| self.archive.clone())
    }

    /// The record from which on the archive has what finished.
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Opens the archive, unless it is to be left out.
    pub fn open_unless(left_out: Option<&str>, directory: &Path, findings: &mut Findings) -> Self {
        match left_out {
            Some(why) => Self::left_out(directory, why),
            None => Self::open(directory, findings),
        }
    }

    /// Opens the archive of a data directory. That it cannot be opened is a finding; that there is none is not.
    fn open(directory: &Path, findings: &mut Findings) -> Self {
        let path = directory.join(DIRECTORY);
        if !path.is_dir() {
            return Self { is_absent: true, ..Self::left_out(directory, "there is none") };
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
        self.compare_entry(finished_at, transfer.id, transfer, name, findings);
    }

    /// Compares a conversion that a record ended.
    pub fn compare_conversion(&mut self, finished_at: u64, conversion: &Conversion, findings: &mut Findings) {
        let name = format_args!("conversion {}", conversion.id);
        self.compare_entry(finished_at, conversion.id.archive_key(), conversion, name, findings);
    }

    /// Compares a bulk that a record ended.
    pub fn compare_bulk(&mut self, finished_at: u64, bulk: &Bulk, findings: &mut Findings) {
        let name = format_args!("bulk {}", bulk.id);
        self.compare_entry(finished_at, bulk.id.archive_key(), bulk, name, findings);
    }

    fn compare_entry(
        &mut self,
        finished_at: u64,
        key: TransferId,
        entry: &impl Stored,
        name: std::fmt::Arguments<'_>,
        findings: &mut Findings,
    ) {
        let Some(archive) = &self.archive else { return };
        // What was older has left by retention, although the journal may still have it.
        if finished_at > self.result.watermark || finished_at < self.first_seq {
            return;
        }
        self.expected += 1;
        let mut encoded = Vec::new();
        entry.encode(&mut Encoder(&mut encoded));
        match archive.get(&key) {
            Ok(Some(stored)) if stored == encoded => self.result.compared += 1,
            Ok(Some(_)) => {
                findings.add(format!("{name}: the archive holds something else than the journal"));
            }
            Ok(None) => {
                findings.add(format!("{name}: finished with record {finished_at} and not in the archive"))
            }
            Err(error) => findings.add(format!("{name}: {error}")),
        }
    }

    /// Looks at everything that the archive holds.
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
            if let Some(conversion) = id.as_conversion() {
                check_conversion(conversion, Conversion::decode(&mut decoder), findings);
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
        // Beyond its watermark an archive may hold more: what was applied before a crash is applied again.
        if from_the_beginning && stored < self.expected {
            let expected = self.expected;
            findings.add(format!(
                "the archive holds {stored} transfers of the {expected} that finished by its watermark"
            ));
        }
        self.result.stored = stored;
        self.result.clone()
    }
}

fn check_conversion(id: ConversionId, found: Result<Conversion, DecodeError>, findings: &mut Findings) {
    match found {
        Err(error) => findings.add(format!("conversion {id} in the archive: {error}")),
        Ok(conversion) if conversion.id != id || conversion.is_live() => {
            findings.add(format!("conversion {id} in the archive is not an ended conversion of that id"));
        }
        Ok(_) => {}
    }
}

fn check_bulk(id: BulkId, found: Result<Bulk, DecodeError>, findings: &mut Findings) {
    match found {
        Err(error) => findings.add(format!("bulk {id} in the archive: {error}")),
        Ok(bulk) if bulk.id != id || bulk.is_live() => {
            findings.add(format!("bulk {id} in the archive is not an ended bulk of that id"));
        }
        Ok(_) => {}
    }
}
