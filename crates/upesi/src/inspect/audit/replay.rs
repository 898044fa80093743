//! The replay: the ledger and the auditor's books, record by record, with everything that is compared on the way.

use std::collections::VecDeque;

use upesi_ledger::{Event, Ledger, Record, TransferState};
use upesi_types::{Timestamp, TransferId};

use super::Findings;
use super::archived::{ArchiveResult, Comparison};
use super::books::Books;
use super::snapshots::{self, Snapshots};

/// Finished transfers leave memory in groups of this many.
const FINISHED_GROUP: usize = 4_096;

pub(super) struct Replay {
    pub ledger: Ledger,
    pub books: Books,
    /// The snapshots that were compared.
    pub compared: Vec<u64>,
    snapshots: Snapshots,
    archive: Comparison,
    /// The records that finished the transfers in memory, oldest first.
    finish_seqs: VecDeque<u64>,
    finished_kept: usize,
    /// A record contradicted the books, which hold a part of it now.
    is_broken: bool,
}

impl Replay {
    pub fn new(ledger: Ledger, snapshots: Snapshots, archive: Comparison) -> Self {
        Self {
            books: Books::of(&ledger),
            finished_kept: snapshots.finished_len_max(),
            ledger,
            compared: Vec::new(),
            snapshots,
            archive,
            finish_seqs: VecDeque::new(),
            is_broken: false,
        }
    }

    /// Replays a record. The error says why it and what follows cannot be.
    pub fn step(
        &mut self,
        seq: u64,
        time: Timestamp,
        record: Record<'_>,
        findings: &mut Findings,
    ) -> Result<(), String> {
        self.is_broken = true;
        let mut noticed = Vec::new();
        let entered = self.books.enter(seq, time, &record, &mut noticed);
        findings.extend(noticed);
        entered?;
        for event in &record.events {
            if let Some(id) = prepared_twice(&self.ledger, event)
                && !self.let_go_of_one_that_left(*id, findings)
            {
                return Err(format!("transfer {id} is prepared again"));
            }
            if finishes(event) {
                self.finish_seqs.push_back(seq);
            }
        }
        self.ledger.evolve(seq, time, record.events, &record.notices);
        self.is_broken = false;
        if let Some(snapshot) = self.snapshots.take(seq) {
            if let Some(difference) = snapshots::difference(&self.ledger, snapshot) {
                findings.add(format!("snapshot of record {seq}: {difference}"));
            }
            self.compared.push(seq);
        }
        if self.finish_seqs.len() > self.finished_kept + FINISHED_GROUP {
            // Wholly older records only, so that as many as needed surely stay.
            let boundary = self.finish_seqs[self.finish_seqs.len() - self.finished_kept - 1];
            self.let_go(boundary.saturating_sub(1), findings);
        }
        Ok(())
    }

    /// Checks every invariant of the present state.
    pub fn check(&self, findings: &mut Findings) {
        let seq = self.ledger.last_seq();
        let mut noticed = upesi_ledger::audit::check(&self.ledger);
        if !self.is_broken {
            self.books.compare(&self.ledger, &mut noticed);
        }
        findings.extend(noticed.into_iter().map(|finding| format!("after record {seq}: {finding}")));
    }

    /// Checks the end: the invariants, what the snapshots claim beyond it, and the archive as a whole.
    pub fn finish(&mut self, from_the_beginning: bool, findings: &mut Findings) -> ArchiveResult {
        self.check(findings);
        let last_seq = self.ledger.last_seq();
        for seq in self.snapshots.left().filter(|seq| *seq > last_seq) {
            findings.add(format!(
                "there is a snapshot of record {seq}, but the journal ends with record {last_seq}"
            ));
        }
        self.let_go(u64::MAX, findings);
        self.archive.finish(last_seq, from_the_beginning, findings)
    }

    /// A transfer that retention has let go since may be followed by another of its id. Tells whether this was one.
    fn let_go_of_one_that_left(&mut self, id: TransferId, findings: &mut Findings) -> bool {
        let index = self.ledger.finished_transfers().position(|transfer| transfer.id == id);
        let Some(&finished_at) = index.and_then(|index| self.finish_seqs.get(index)) else { return false };
        let has_left = finished_at < self.archive.first_seq();
        if has_left {
            self.let_go(finished_at, findings);
        }
        has_left
    }

    /// Takes the transfers that finished at or before a record out of memory, comparing each with the archive.
    fn let_go(&mut self, seq: u64, findings: &mut Findings) {
        for transfer in self.ledger.drain_finished(seq) {
            let finished_at = self.finish_seqs.pop_front().unwrap_or(0);
            self.archive.compare(finished_at, &transfer, findings);
        }
    }
}

fn finishes(event: &Event) -> bool {
    match event {
        Event::TransferPrepared(transfer) => transfer.state != TransferState::Reserved,
        Event::TransferCommitted { .. } | Event::TransferAborted { .. } => true,
        _ => false,
    }
}

/// Of those in memory; older ones show as differences from the archive.
fn prepared_twice<'a>(ledger: &Ledger, event: &'a Event) -> Option<&'a TransferId> {
    match event {
        Event::TransferPrepared(transfer) if ledger.transfer(transfer.id).is_some() => Some(&transfer.id),
        _ => None,
    }
}
