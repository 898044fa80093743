//! Compares the archive of finished transfers with what the journal says.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use upesi_ledger::codec::{Decoder, Encoder};
use upesi_ledger::{Stored as _, Transfer, TransferState};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive, first_seq_of};

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

    /// Opens the archive of a data directory. That it cannot be opened is a finding; that there is none is not.
    pub fn open(directory: &Path, findings: &mut Findings) -> Self {
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
        let Some(archive) = &self.archive else { return };
        // What was older has left by retention, although the journal may still have it.
        if finished_at > self.result.watermark || finished_at < self.first_seq {
            return;
        }
        self.expected += 1;
        let mut encoded = Vec::new();
        transfer.encode(&mut Encoder(&mut encoded));
        match archive.get(&transfer.id) {
            Ok(Some(stored)) if stored == encoded => self.result.compared += 1,
            Ok(Some(_)) => findings
                .add(format!("transfer {}: the archive holds something else than the journal", transfer.id)),
            Ok(None) => findings.add(format!(
                "transfer {}: finished with record {finished_at} and not in the archive",
                transfer.id
            )),
            Err(error) => findings.add(format!("transfer {}: {error}", transfer.id)),
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
