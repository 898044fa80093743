//! The auditor: it observes the hub from outside. It remembers all messages to and from the hub, keeps its own books,
//! and reports where the hub's books differ. It shares no rule with the ledger.

mod account;
mod books;
mod outside;
mod settling;
mod treasurer;

use std::sync::Arc;

use upesi_engine::{DecodedRecord, Follow, FollowError, LedgerFold, follow};
use upesi_journal::{Disk, END, EmbeddedLog, SnapshotStore};
use upesi_ledger::{CallbackKey, Ledger, LedgerConfig, Record};
use upesi_offline::audit::StepAudit;
use upesi_tables::archive::Archive;
use upesi_types::{BulkId, FxTransferId, Timestamp, TransferId};

pub(crate) use self::account::currency_number;
use self::books::Books;
pub(crate) use self::books::{BulkCounts, Finished, FxTransferCounts};
pub(crate) use self::outside::{
    ObservedMessages, ObservedRequest, PartyKnowledge, SentAnswer, SentBulk, SentFxTransfer, SimFee,
};
pub(crate) use self::settling::SettlementCounts;
use crate::message::Request;

/// Maximum number of findings that are kept. The first one is the most useful.
const FINDINGS_MAX: usize = 20;

/// Maximum offset of a recorded time: the clock's offset at a start, and small steps that the hub follows.
const TIME_OFF_MS: i64 = 60_000;

/// Findings, in sentences.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<String>);

impl Findings {
    pub(crate) fn add(&mut self, finding: String) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(finding);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Auditor {
    pub(crate) findings: Findings,
    pub(crate) outside: ObservedMessages,
    /// True time; set if the hub's time began with a clock that was about right.
    pub(crate) true_now: Option<Timestamp>,
    books: Books,
    /// The auditor of `upesi audit`. It must have no findings either.
    offline: StepAudit,
    records: Option<Follow>,
    /// Whether a durable record could not be read, which is a finding. The books lack it and all later records.
    is_stuck: bool,
    /// A copy of every record, made when it became durable; kept if the disk may lose data.
    truth: Option<Vec<(Timestamp, Vec<u8>)>>,
}

impl Auditor {
    /// Creates an auditor, with or without copies of all records.
    pub(crate) fn new(keeps_record: bool) -> Self {
        Self { truth: keeps_record.then(Vec::new), ..Self::default() }
    }

    /// Enters every newly durable record in the auditor's books. The disk must be an observer's.
    pub(crate) fn read_journal(&mut self, disk: &Arc<dyn Disk>, durable_seq: u64) {
        if self.books.last_seq() >= durable_seq {
            return;
        }
        let first = self.books.last_seq() + 1;
        let records = self.records.get_or_insert_with(|| follow(&EmbeddedLog::for_reading(disk), first));
        while self.books.last_seq() < durable_seq {
            let next = self.books.last_seq() + 1;
            let DecodedRecord { time, record, bytes, .. } = match records.read(next) {
                Ok(found) => found,
                Err(FollowError::Record { seq, source }) => {
                    return self.findings.add(format!("record {seq} is malformed: {source}"));
                }
                Err(error) => {
                    self.is_stuck = true;
                    return self.findings.add(format!("I2: durable record {next} cannot be read: {error}"));
                }
            };
            self.truth.iter_mut().for_each(|truth| truth.push((time, bytes.to_vec())));
            check_time(self.true_now, next, record.decided_at(time), &mut self.findings);
            self.books.fold(next, time, &record, &self.outside, &mut self.findings);
            for finding in self.offline.step(next, time, record) {
                self.findings.add(format!("upesi audit: {finding}"));
            }
        }
    }

    /// Notes that the process has ended: the next process writes other files.
    pub(crate) fn process_ended(&mut self) {
        self.is_stuck = false;
        self.true_now = None;
        self.records = None;
    }

    /// Last record in the books.
    pub(crate) const fn last_seq(&self) -> u64 {
        self.books.last_seq()
    }

    /// The finding that an acknowledgement of this request would cause now, because the journal still waits for such a
    /// request.
    pub(crate) fn awaits(&self, seen: &ObservedRequest) -> Option<String> {
        match seen {
            ObservedRequest::Put { id, by, good: true, .. } if self.books.is_waiting_for(*id, *by) => Some(
                format!("I2: the payee's PUT for {id} is acknowledged, but the transfer is still reserved"),
            ),
            ObservedRequest::PutFxTransfer { id, by, good: true, .. }
                if self.books.is_waiting_for_fxp(*id, *by) =>
            {
                Some(format!(
                    "I2: the FXP's PUT for FX transfer {id} is acknowledged, but the FX transfer still \
                     waits for it"
                ))
            }
            ObservedRequest::PutBulk(sent)
                if sent.is_right && self.books.is_waiting_for_answer(sent.bulk, sent.by) =>
            {
                let id = sent.bulk;
                Some(format!(
                    "I2: an answer to bulk transfer {id} is acknowledged, but the bulk transfer still waits"
                ))
            }
            _ => None,
        }
    }

    /// Handles a successful answer that leaves the hub. `was_awaited` says whether the journal waited for the request
    /// when it arrived.
    pub(crate) fn acknowledged(&mut self, seen: &ObservedRequest, was_awaited: bool) {
        // The auditor could not read all records, so its books do not show all records of the journal.
        if self.is_stuck {
            return;
        }
        if let Some(finding) = self.awaits(seen).filter(|_| was_awaited) {
            self.findings.add(finding);
        }
        match seen {
            ObservedRequest::Prepare { id, .. } => {
                self.outside.acknowledged.insert(id.to_bytes(), *id);
                // A transfer that was removed in the meantime existed when its request came again.
                if !(self.books.knows(*id) || self.books.has_left(*id) || self.books.is_claimed(*id)) {
                    self.findings.add(format!("I2: transfer {id} is acknowledged, but not in the journal"));
                }
            }
            ObservedRequest::Convert { id, .. } if !self.books.knows_fx_transfer(*id) => {
                self.findings.add(format!("I2: FX transfer {id} is acknowledged, but not in the journal"));
            }
            ObservedRequest::Convert { id, .. } => {
                self.outside.acknowledged_fx_transfers.insert(id.to_bytes(), *id);
            }
            ObservedRequest::Bulk(bulk) if !self.books.knows_bulk(bulk.spec.id) => {
                self.findings.add(format!(
                    "I2: bulk transfer {} is acknowledged, but not in the journal",
                    bulk.spec.id
                ));
            }
            ObservedRequest::Bulk(bulk) => {
                self.outside.acknowledged_bulks.insert(bulk.spec.id.to_bytes(), bulk.spec.id);
            }
            ObservedRequest::Invalid => {
                self.findings.add("a request that no hub may accept is acknowledged".to_owned())
            }
            ObservedRequest::Put { .. }
            | ObservedRequest::PutFxTransfer { .. }
            | ObservedRequest::PutBulk(_)
            | ObservedRequest::Get
            | ObservedRequest::Other => {}
        }
    }

    /// Checks a callback that leaves the hub: its bytes equal the bytes that the named DFSP sent, and they are the same
    /// each time. If several nodes deliver callbacks, another node may still hold a callback that was delivered.
    pub(crate) fn callback_left(&mut self, key: CallbackKey, to: usize, request: &Request, nodes: u32) {
        if self.is_stuck {
            return;
        }
        if !(self.books.owes(key) || nodes > 1 && self.outside.was_sent(key)) {
            self.findings.add(format!("callback {key:?} is sent, but the journal does not owe it"));
        }
        if let Some(expected) = self.books.recipient(key)
            && expected != crate::message::name(to)
        {
            self.findings.add(format!("callback {key:?} for {expected} goes to dfsp{to}"));
        }
        self.outside.callback_left(key, request, &mut self.findings);
    }

    /// Checks a callback that a former leader sends: it is owed or was sent before, and has the same bytes.
    pub(crate) fn former_calls(&mut self, key: CallbackKey, request: &Request) {
        if !self.books.owes(key) && !self.outside.was_sent(key) {
            self.findings
                .add(format!("a former leader sends callback {key:?}, which the journal does not owe"));
        }
        self.outside.callback_left(key, request, &mut self.findings);
    }

    /// Compares the ledger with the books if both are at the same record.
    pub(crate) fn compare(&mut self, ledger: &Ledger) {
        if ledger.last_seq() != self.books.last_seq() {
            return;
        }
        self.books.compare(ledger, &mut self.findings);
        for finding in upesi_ledger::audit::check(ledger) {
            self.findings.add(format!("I1: {finding}"));
        }
    }

    /// Checks after a start that everything is present that was acknowledged in any life of the hub.
    pub(crate) fn compare_acknowledged(&mut self, ledger: &Ledger, archive: &dyn Archive) {
        for id in self.outside.acknowledged.values() {
            let is_archived = || archive.get(id).ok().flatten().is_some();
            let is_claimed = || ledger.bulk_of(*id).is_some();
            if ledger.transfer(*id).is_none() && !is_archived() && !self.books.has_left(*id) && !is_claimed()
            {
                self.findings.add(format!("I2: transfer {id} was acknowledged, but is lost"));
            }
        }
        for id in self.outside.acknowledged_fx_transfers.values().map(|id| FxTransferId::new(*id)) {
            let is_archived = || archive.get(&id.archive_key()).ok().flatten().is_some();
            let has_left = self.books.has_left_fx_transfer(id.id());
            if ledger.fx_transfer(id).is_none() && !is_archived() && !has_left {
                self.findings.add(format!("I2: FX transfer {id} was acknowledged, but is lost"));
            }
        }
        for id in self.outside.acknowledged_bulks.values().map(|id| BulkId::new(*id)) {
            let is_archived = || archive.get(&id.archive_key()).ok().flatten().is_some();
            if ledger.bulk(id).is_none() && !is_archived() && !self.books.has_left_bulk(id.id()) {
                self.findings.add(format!("I2: bulk transfer {id} was acknowledged, but is lost"));
            }
        }
    }

    /// Checks that the archive does not contain transfers that were reported as removed, unless their id was used
    /// again.
    pub(crate) fn compare_removed(&mut self, archive: &dyn Archive, removed_to: u64) {
        for id in self.books.removed(removed_to) {
            if archive.get(&id).ok().flatten().is_some() {
                self.findings.add(format!("transfer {id} was removed, but is back"));
            }
        }
    }

    /// Transfers that finished within a range of records: an export of this range must contain exactly these.
    pub(crate) fn finished_within(&self, first_seq: u64, last_seq: u64) -> Vec<Finished> {
        self.books.finished_within(first_seq, last_seq)
    }

    /// Whether the removal of the transfers that finished up to a record is in the journal.
    pub(crate) const fn is_removed(&self, to_seq: u64) -> bool {
        to_seq <= self.books.removed_to()
    }

    /// Whether every transfer that finished up to a record has expired, so that a repeated prepare is rejected.
    pub(crate) fn has_expired(&self, to_seq: u64) -> bool {
        self.books.has_expired(to_seq)
    }

    /// Replays the journal and compares the result with the state and with the snapshots.
    pub(crate) fn compare_replay(&mut self, disk: &Arc<dyn Disk>, ledger: &Ledger, is_rotten: bool) {
        match compare(disk, ledger) {
            // The damage was detected, so no wrong data were used.
            Err(finding) if is_rotten && finding.contains("is damaged") => {}
            Err(finding) => self.findings.add(format!("I7: {finding}")),
            Ok(()) => {}
        }
    }

    /// Checks that a hub's state was once correct, and that its money adds up, whatever the disk has done.
    pub(crate) fn compare_truth(&mut self, ledger: &Ledger) {
        for finding in upesi_ledger::audit::check(ledger) {
            self.findings.add(format!("I1: {finding}"));
        }
        let records = self.truth.as_deref().and_then(|truth| truth.get(..ledger.last_seq() as usize));
        if let Some(Err(finding)) = records.map(|records| compare_with(records, ledger)) {
            self.findings.add(format!("I7: {finding}"));
        }
    }

    /// Compares positions and cover at the end with the values that an outside observer computes from the messages.
    pub(crate) fn compare_outcome(
        &mut self,
        ledger: &Ledger,
        specs: &[crate::message::Spec],
        fx_transfers: &[crate::message::FxSpec],
        dfsps: usize,
    ) {
        self.outside.removed.extend(self.books.left_fx_transfers());
        // This includes a removal that was not reported because the process ended with it.
        self.outside.removed.extend(self.books.left_transfers());
        self.outside.check_tellings(specs, fx_transfers, &mut self.findings);
        self.outside.compare_caps(ledger, &mut self.findings);
        // If an id was committed twice, or used again with another amount, messages do not show which transfer they
        // mean. An FXP whose callback is withheld, because its record is damaged, sends no query.
        if !self.books.is_twice_committed && self.outside.tells_items_apart() && self.owed() == 0 {
            self.outside.compare_outcome(ledger, specs, fx_transfers, dfsps, &mut self.findings);
        }
    }

    /// Transfers that are still reserved, by the books.
    pub(crate) fn reserved(&self) -> usize {
        self.books.reserved()
    }

    /// FX transfers that wait for their FXP or their transfer, by the books.
    pub(crate) fn live_fx_transfers(&self) -> usize {
        self.books.live_fx_transfers()
    }

    /// Bulk transfers that have not ended, by the books.
    pub(crate) fn live_bulks(&self) -> usize {
        self.books.live_bulks()
    }

    /// Outcomes of bulk transfers, by the books.
    pub(crate) const fn bulks(&self) -> BulkCounts {
        self.books.bulks()
    }

    pub(crate) const fn converted(&self) -> FxTransferCounts {
        self.books.converted()
    }

    /// Ended transfers by the books: committed, aborted, and expired among the aborted.
    pub(crate) const fn totals(&self) -> (u64, u64, u64) {
        self.books.totals()
    }

    /// Committed transfers with a party behind a proxy, by the books.
    pub(crate) const fn committed_through_proxy(&self) -> u64 {
        self.books.committed_through_proxy()
    }

    pub(crate) const fn settled(&self) -> SettlementCounts {
        self.books.settled()
    }

    /// Callbacks that are still owed by the books, including parked ones.
    pub(crate) fn owed(&self) -> usize {
        self.books.owed()
    }

    pub(crate) fn owed_keys(&self) -> impl Iterator<Item = CallbackKey> {
        self.books.owed_keys()
    }

    pub(crate) fn is_reserved(&self, id: TransferId) -> bool {
        self.books.is_reserved(id)
    }

    pub(crate) fn parked(&self) -> Vec<CallbackKey> {
        self.books.parked()
    }

    pub(crate) fn knows(&self, id: TransferId) -> bool {
        self.books.knows(id)
    }
}

/// Checks that the hub does not follow a clock that jumps: the recorded time of decisions, including expiries, is about
/// the true time.
fn check_time(true_now: Option<Timestamp>, seq: u64, decided_at: Timestamp, findings: &mut Findings) {
    let Some(true_now) = true_now else { return };
    if decided_at.ms_since(true_now).abs() > TIME_OFF_MS {
        findings.add(format!(
            "record {seq} was decided at {decided_at}, but it is {true_now}: the hub followed a jump"
        ));
    }
}

/// Compares the journal with the live ledger. The disk must be readable, and no process may write to it meanwhile.
fn compare(disk: &Arc<dyn Disk>, live: &Ledger) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let store = SnapshotStore::open_for_reading(Arc::clone(disk));
    let mut snapshots = Vec::new();
    for info in store.list().map_err(|error| said(&error))? {
        snapshots.push(store.read(info.seq).map_err(|error| said(&error))?);
    }
    let log = EmbeddedLog::for_reading(disk);
    let fold = LedgerFold::earliest(&log, &snapshots, LedgerConfig::default());
    let mut fold = fold.map_err(|error| said(&error))?;
    while fold.next(END).map_err(|error| said(&error))? {
        let (seq, ledger) = (fold.ledger.last_seq(), &fold.ledger);
        if snapshots
            .iter()
            .any(|snapshot| snapshot.seq == seq && snapshot.bytes != ledger.encode_unfinished())
        {
            return Err(format!("snapshot {seq} differs from the replay of the journal"));
        }
    }
    let ledger = fold.ledger;
    if ledger.last_seq() != live.last_seq() {
        return Err(format!("the journal ends at {}, the state at {}", ledger.last_seq(), live.last_seq()));
    }
    if ledger.encode_unfinished() != live.encode_unfinished() {
        return Err("the live state differs from the replay of the journal".to_owned());
    }
    Ok(())
}

/// Compares the live ledger with the fold of records that were copied when they became durable.
fn compare_with(records: &[(Timestamp, Vec<u8>)], live: &Ledger) -> Result<(), String> {
    let mut ledger = Ledger::new(LedgerConfig::default());
    for (seq, (time, bytes)) in (1..).zip(records) {
        let record = Record::decode(bytes).map_err(|error| error.to_string())?;
        ledger.evolve(seq, *time, record.events, &record.callbacks);
    }
    if ledger.encode_unfinished() != live.encode_unfinished() {
        return Err(format!("the state at {} was never a correct state", live.last_seq()));
    }
    Ok(())
}
