//! The replay: the ledger and the auditor's books, record by record, with all comparisons.

use std::path::Path;
use std::sync::Arc;

use upesi_ledger::{Event, Ledger, LedgerConfig, Record};
use upesi_process::progress::Progress;
use upesi_tables::archive::FjallArchive;
use upesi_types::{Timestamp, TransferId};

use super::archive::{ArchiveComparison, ArchiveResult};
use super::books::{Books, RecordFaults};
use super::findings::Findings;
use super::snapshots::{self, Snapshots};

/// Finished transfers are removed from memory in groups of this number.
const FINISHED_GROUP: usize = 4_096;

pub(super) struct Replay {
    pub ledger: Ledger,
    pub books: Books,
    /// The compared snapshots.
    pub compared: Vec<u64>,
    snapshots: Snapshots,
    archive: ArchiveComparison,
    finished_kept: usize,
    /// Set when a record contradicted the books, which then contain part of it.
    is_broken: bool,
}

impl Replay {
    pub fn new(ledger: Ledger, snapshots: Snapshots, archive: ArchiveComparison) -> Self {
        Self {
            books: Books::of(&ledger),
            finished_kept: snapshots.finished_len_max(),
            ledger,
            compared: Vec::new(),
            snapshots,
            archive,
            is_broken: false,
        }
    }

    /// A replay from the first record on, without files to compare.
    pub fn without_files() -> Self {
        let archive = ArchiveComparison::left_out(Path::new(""), "without files");
        Self::new(Ledger::new(LedgerConfig::default()), Snapshots::default(), archive)
    }

    /// Replays a record. The error describes why it and later ones cannot be replayed.
    pub fn step(
        &mut self,
        seq: u64,
        time: Timestamp,
        record: Record<'_>,
        findings: &mut Findings,
    ) -> Result<(), String> {
        self.is_broken = true;
        let mut noticed = RecordFaults::default();
        let entered = self.books.enter(seq, time, &record, &mut noticed);
        findings.extend(noticed.faults);
        findings.extend_rules(noticed.rules);
        entered?;
        for event in &record.events {
            if let Event::FinishedRemoved { to_seq } = event {
                // Compare the entries before the ledger drops them.
                self.let_go(*to_seq, findings);
            }
            if let Some(id) = prepared_twice(&self.ledger, event) {
                return Err(format!("transfer {id} is prepared again"));
            }
            if let Event::FxTransferPrepared(fx_transfer) = event
                && self.ledger.fx_transfer(fx_transfer.id).is_some()
            {
                return Err(format!("FX transfer {} is prepared again", fx_transfer.id));
            }
            if let Event::BulkReceived(bulk) = event
                && self.ledger.bulk(bulk.id).is_some()
            {
                return Err(format!("bulk transfer {} is received again", bulk.id));
            }
        }
        self.ledger.evolve(seq, time, record.events, &record.callbacks);
        self.is_broken = false;
        if let Some(snapshot) = self.snapshots.take(seq) {
            if let Some(difference) = snapshots::difference(&self.ledger, snapshot) {
                findings.add(format!("snapshot of record {seq}: {difference}"));
            }
            self.compared.push(seq);
        }
        if seq < self.archive.first_seq() {
            // The archive no longer has its finished transfers.
            self.let_go(seq, findings);
        } else if self.ledger.finished_len() > self.finished_kept + FINISHED_GROUP {
            // Remove only complete older records, so that at least the necessary number remains.
            let boundary = self.ledger.finished_seq(self.ledger.finished_len() - self.finished_kept - 1);
            self.let_go(boundary.saturating_sub(1), findings);
        }
        Ok(())
    }

    /// The archive that a start would find, if it may be used; the inner `None` means that there is none.
    pub fn archive_of_start(&self) -> Option<Option<Arc<FjallArchive>>> {
        self.archive.of_start()
    }

    /// Checks every invariant of the current state.
    pub fn check(&self, findings: &mut Findings) {
        let seq = self.ledger.last_seq();
        let mut noticed = upesi_ledger::audit::check(&self.ledger);
        if !self.is_broken {
            self.books.compare(&self.ledger, &mut noticed);
        }
        findings.extend(noticed.into_iter().map(|finding| format!("after record {seq}: {finding}")));
    }

    /// Checks the end: the invariants, snapshots beyond it, and the whole archive.
    pub fn finish(&mut self, from_the_beginning: bool, findings: &mut Findings) -> ArchiveResult {
        self.check(findings);
        let last_seq = self.ledger.last_seq();
        for seq in self.snapshots.left().filter(|seq| *seq > last_seq) {
            findings.add(format!(
                "there is a snapshot of record {seq}, but the journal ends with record {last_seq}"
            ));
        }
        let _progress = Progress::unknown("comparing the archive");
        self.let_go(u64::MAX, findings);
        self.archive.finish(last_seq, from_the_beginning, findings)
    }

    /// Removes the transfers that finished at or before a record from memory, comparing each with the archive.
    fn let_go(&mut self, seq: u64, findings: &mut Findings) {
        for (finished_at, transfer) in self.ledger.take_finished(seq) {
            self.archive.compare(finished_at, &transfer, findings);
        }
        for (finished_at, fx_transfer) in self.ledger.take_finished_fx_transfers(seq) {
            self.archive.compare_fx_transfer(finished_at, &fx_transfer, findings);
        }
        for (finished_at, bulk) in self.ledger.take_finished_bulks(seq) {
            self.archive.compare_bulk(finished_at, &bulk, findings);
        }
    }
}

/// A transfer in memory that an event prepares again; older ones show as differences from the archive.
fn prepared_twice<'a>(ledger: &Ledger, event: &'a Event) -> Option<&'a TransferId> {
    match event {
        Event::TransferPrepared(transfer) if ledger.transfer(transfer.id).is_some() => Some(&transfer.id),
        _ => None,
    }
}
