//! Retention: finished transfers are exported and removed after a while, regardless of other events. The requests of
//! removed transfers are sent again, and the archive is lost between two lives.
//!
//! All random numbers of this module come from their own stream.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use upesi_engine::SubmitError;
use upesi_journal::sim_disk::Random;
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Stored as _, Transfer, TransferState};
use upesi_tables::archive::Archive as _;
use upesi_types::TransferId;

use super::World;
use super::dfsp::LASTING_MS;
use super::event::Event;
use super::phase::Phase;
use crate::auditor::{Finished, ObservedRequest};
use crate::plan::Plan;

/// Separates the random stream of retention from a seed's other streams.
const STREAM: u64 = 0x7265_7465_6e74_696f;
const PAUSE_MOST_US: u64 = 1_500_000;
/// Durations of transfers if finished ones are removed soon, in milliseconds: no transfer is removed before its expiry.
const LASTING_SHORT_MS: [u64; 4] = [400, 1_000, 2_000, 3_000];
/// One process in this many leaves no archive behind.
const LOSSES_ONE_IN: u64 = 8;

/// The actions of retention in a world.
#[derive(Debug)]
pub(super) struct Retention {
    is_on: bool,
    random: Random,
    /// The last record of the reported removals.
    pub(super) removed_to: u64,
    /// Exported transfers, by the first and the last record of the division, as in the names of files.
    exports: BTreeMap<(u64, u64), Vec<Finished>>,
}

impl Retention {
    pub(super) fn new(seed: u64, plan: &Plan) -> Self {
        let mut random = Random::new(seed ^ STREAM);
        let is_on = plan.faults.retention && random.one_in(2);
        Self { is_on, random, removed_to: 0, exports: BTreeMap::new() }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }
}

impl Retention {
    /// The archive is rebuilt or replaced, so its divisions will be different ones.
    pub(super) fn forget_divisions(&mut self) {
        let removed_to = self.removed_to;
        self.exports.retain(|(_, last), _| *last <= removed_to);
    }
}

impl World {
    pub(super) const fn lasting_ms(&self) -> &'static [u64; 4] {
        if self.retention.is_on { &LASTING_SHORT_MS } else { &LASTING_MS }
    }

    pub(super) fn plan_retention(&mut self) {
        if self.retention.is_on {
            let pause = self.retention.random.below(PAUSE_MOST_US);
            self.after(pause, Event::Retain);
        }
    }

    /// Retention closes the growing division, exports expired divisions, and requests their removal.
    pub(super) fn retain(&mut self) {
        self.plan_retention();
        if self.phase == Phase::Over || self.hub.as_ref().is_none_or(|hub| hub.is_removing()) {
            return;
        }
        if !self.is_of_nodes() && self.archive.divide().is_err() {
            return;
        }
        let mut to_seq = 0;
        for division in self.archive.divisions() {
            if !division.is_closed || !self.auditor.has_expired(division.watermark) {
                break;
            }
            self.export(division.first_seq, division.watermark);
            to_seq = division.watermark;
        }
        let is_of_nodes = self.is_of_nodes();
        let Some(hub) = &mut self.hub else { return };
        if is_of_nodes {
            hub.divide_archive();
        }
        if to_seq > 0 {
            hub.remove_finished(to_seq);
            self.say(format_args!("retention removes transfers that finished up to record {to_seq}"));
        }
        self.after_hub(true);
    }

    /// Checks the content of an export: exactly the transfers that finished within its records, and the same each time.
    fn export(&mut self, first_seq: u64, last_seq: u64) {
        let mut exported = Vec::new();
        let visited = self.archive.for_each_in(first_seq, &mut |id, bytes| {
            if id.as_fx_transfer().is_some() || id.as_bulk().is_some() {
                return ControlFlow::Continue(());
            }
            exported.extend(Transfer::decode(&mut Decoder(bytes)).ok().map(|transfer| finished(&transfer)));
            ControlFlow::Continue(())
        });
        exported.sort_unstable();
        let findings = &mut self.auditor.findings;
        if !matches!(visited, Ok(true)) {
            findings.add(format!("the division of records {first_seq} to {last_seq} cannot be exported"));
        }
        // If the archive failed at a removal that the journal has recorded, it still has the exported transfers.
        let before = self.retention.exports.get(&(first_seq, last_seq));
        let expected = match before.filter(|_| self.auditor.is_removed(last_seq)) {
            Some(before) => before.clone(),
            None => self.auditor.finished_within(first_seq, last_seq),
        };
        if exported != expected {
            let (found, wanted) = (exported.len(), expected.len());
            let odd: Vec<_> = exported.iter().filter(|one| !expected.contains(one)).take(2).collect();
            self.auditor.findings.add(format!(
                "export of records {first_seq} to {last_seq}: {found} transfers, {wanted} finished; not of them: {odd:?}"
            ));
        }
        if let Some(before) = self.retention.exports.insert((first_seq, last_seq), exported.clone())
            && before != exported
        {
            self.auditor.findings.add(format!("records {first_seq} to {last_seq} are exported differently"));
        }
    }

    /// Retention receives the result of a removal.
    pub(super) fn removed(&mut self, to_seq: u64, outcome: &Result<u64, SubmitError>) {
        self.say(format_args!("retention receives {outcome:?} for record {to_seq}"));
        if outcome.is_err() {
            return;
        }
        self.counts.removals += 1;
        let left = self.retention.exports.range(..).filter(|((_, last), _)| *last <= to_seq);
        let gone: BTreeSet<TransferId> = left
            .filter(|((first, _), _)| *first > self.retention.removed_to)
            .flat_map(|(_, finished)| finished.iter().map(|one| one.id))
            .collect();
        self.retention.removed_to = self.retention.removed_to.max(to_seq);
        self.counts.removed += gone.len() as u64;
        self.auditor.outside.removed.extend(gone.iter().map(|id| id.to_bytes()));
        self.send_removed_again(&gone);
    }

    /// Sends some of the prepares again. Their transfers are unknown by now.
    fn send_removed_again(&mut self, gone: &BTreeSet<TransferId>) {
        let is_of_them =
            |seen: &ObservedRequest| matches!(seen, ObservedRequest::Prepare { id, .. } if gone.contains(id));
        let again = self.history.iter().filter(|(.., seen)| is_of_them(seen));
        let again: Vec<_> =
            again.map(|(_, from, request, seen)| (*from, Arc::clone(request), seen.clone())).collect();
        for (from, request, seen) in again {
            if self.retention.random.one_in(3) {
                self.counts.resent_after_removal += 1;
                self.send_again(from, request, seen, 1);
            }
        }
    }

    /// Loses the archive if the journal can restore it.
    pub(super) fn lose_archive(&mut self) {
        if !(self.retention.is_on && self.is_troubled() && self.retention.random.one_in(LOSSES_ONE_IN)) {
            return;
        }
        let disk = self.disk.observer();
        let is_whole = upesi_journal::segments(&disk)
            .is_ok_and(|segments| segments.first().is_some_and(|first| first.first_seq == 1));
        if is_whole {
            self.say(format_args!("the archive is lost"));
            self.counts.lost_archives += 1;
            self.archive.lose();
            self.retention.forget_divisions();
        }
    }
}

fn finished(transfer: &Transfer) -> Finished {
    let number = |party: Option<upesi_ledger::ParticipantId>| party.map_or(0, |party| party.number());
    Finished {
        prepare_seq: transfer.prepare_seq,
        id: transfer.id,
        parties: (number(transfer.payer), number(transfer.payee)),
        amount: i128::from(transfer.amount.units()),
        is_committed: matches!(transfer.state, TransferState::Committed(_)),
    }
}
