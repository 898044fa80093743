//! The auditor's own books: sums of the recorded events, computed without the ledger's code.
//!
//! The books are kept beside the ledger that replays the journal. A contradiction is found before the record is folded,
//! so that an inconsistent journal causes a finding and not a crash.

mod actors;
mod fees;
mod fx_transfers;
mod prepares;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use upesi_ledger::{
    AbortKind, AccountId, CallbackContent, CallbackKey, Event, FundsDirection, FundsState, FundsTransfer,
    Granularity, Ledger, LedgerAccountTypeId, ParticipantId, Payload, Record, SettlementId, SettlementMode,
    Transfer, TransferState,
};
use upesi_types::{Amount, Timestamp, TransferId};

use super::bodies::{Compared, compare_error, compare_fulfilment};
use super::bulks::BulkBooks;
use super::entry::{CheckResult, Movement, decimal};
use super::fees::FeeDue;
use super::fx_transfers::FxTransferBooks;
use super::judge::{InFlight, RecordContext, judge_abort, judge_commit, not_due};
use super::operators::OperatorBooks;
use super::request::Request;
use super::scheme::SchemeBooks;
use super::settlements::SettlementBooks;

/// A pending withdrawal.
#[derive(Clone, Debug)]
struct Withdrawal {
    account: AccountId,
    hub_account: AccountId,
    units: i128,
}

/// Numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub records: u64,
    /// Prepares that were reserved.
    pub reserved: u64,
    /// Prepares that were rejected.
    pub refused: u64,
    /// Transfers that were committed.
    pub committed: u64,
    /// Transfers that were aborted, including expired ones.
    pub aborted: u64,
    /// Aborted transfers that expired.
    pub expired: u64,
    pub funds: u64,
    /// Callbacks owed.
    pub owed: u64,
    pub delivered: u64,
    /// Requests that were read again and compared with their records.
    pub requests: u64,
    /// Requests without comparable content, such as the requests of `upesi fill`.
    pub requests_unread: u64,
}

/// Faults of a record, in sentences.
#[derive(Debug, Default)]
pub struct RecordFaults {
    /// Decisions against the auditor's rules; data and sums are right.
    pub rules: Vec<String>,
    /// Damage and wrong sums.
    pub faults: Vec<String>,
}

/// The auditor's books.
#[derive(Debug)]
pub struct Books {
    scheme: SchemeBooks,
    in_flight: HashMap<TransferId, InFlight>,
    fx_transfers: FxTransferBooks,
    bulks: BulkBooks,
    withdrawals: BTreeMap<TransferId, Withdrawal>,
    /// Recorded movements of funds: the cover account, and its decrease, negative for a deposit. Zero for withdrawals
    /// that were rejected or ended without money.
    funds: BTreeMap<TransferId, (AccountId, i128)>,
    settlements: SettlementBooks,
    operators: OperatorBooks,
    /// Fees that the commits of the current record must charge.
    fees_due: [Vec<FeeDue>; 2],
    outbox: BTreeSet<CallbackKey>,
    /// Retention has removed entries that finished up to this record.
    removed_to: u64,
    counts: Counts,
    /// Differences between the current event's request and its record.
    differences: Vec<String>,
}

impl Books {
    /// Opens the books with a state that is trusted.
    pub fn of(ledger: &Ledger) -> Self {
        let mut books = Self {
            scheme: SchemeBooks::of(ledger),
            in_flight: HashMap::new(),
            fx_transfers: FxTransferBooks::of(ledger),
            bulks: BulkBooks::of(ledger),
            withdrawals: BTreeMap::new(),
            funds: ledger.all_funds().map(|funds| (funds.id, moved_by(funds))).collect(),
            settlements: SettlementBooks::of(ledger),
            operators: OperatorBooks::of(ledger),
            fees_due: Default::default(),
            outbox: ledger.outbox().iter().map(|(key, _)| key).collect(),
            removed_to: ledger.removed_to(),
            counts: Counts::default(),
            differences: Vec::new(),
        };
        for transfer in ledger.reserved_transfers() {
            if let Some(in_flight) = InFlight::of(transfer) {
                books.in_flight.insert(transfer.id, in_flight);
            }
        }
        for funds in ledger.all_funds().filter(|funds| funds.state == FundsState::Reserved) {
            books.withdrawals.insert(funds.id, withdrawal(funds));
        }
        books
    }

    /// Numbers of events since the books were opened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Enters a record. The error describes a contradiction to the books; later records cannot be judged.
    pub fn enter(
        &mut self,
        seq: u64,
        time: Timestamp,
        record: &Record<'_>,
        noticed: &mut RecordFaults,
    ) -> CheckResult {
        self.counts.records += 1;
        if record.decided_at(time) > time {
            return Err(format!("it was decided at {}, later than its own instant", record.decided_at(time)));
        }
        let (callbacks, events) = (&*record.callbacks, &*record.events);
        let place = RecordContext { seq, time: record.decided_at(time), callbacks, events };
        let RecordFaults { rules: findings, faults } = noticed;
        findings.extend(self.judge_actor(place.seq, record));
        self.settlements.enter(seq, record, &self.scheme, faults)?;
        self.operators.enter(seq, record, &self.scheme, faults)?;
        let ended = self.ended_in_flight(events);
        for event in events {
            let entered = self.enter_event(place, event, record.payload, findings);
            faults.append(&mut self.differences);
            entered?;
        }
        let charged: Vec<_> = record.events.iter().filter_map(FeeDue::of).collect();
        let due = std::mem::take(&mut self.fees_due);
        if !due.contains(&charged) {
            let [due, _] = due;
            findings.push(format!(
                "record {seq}: it records the fees {charged:?}, but the rules require {due:?}"
            ));
        }
        self.check_none_left_behind(seq, &ended, findings);
        for (index, callback) in record.callbacks.iter().enumerate() {
            self.scheme.check_participant(callback.target)?;
            self.counts.owed += 1;
            let index = u8::try_from(index).map_err(|_| "it owes more than 256 callbacks".to_owned())?;
            self.outbox.insert(CallbackKey { target: callback.target, seq, index });
        }
        Ok(())
    }

    fn enter_event(
        &mut self,
        place: RecordContext<'_>,
        event: &Event,
        payload: Payload<'_>,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        match event {
            Event::TransferPrepared(transfer) => self.prepared(place, transfer, payload, findings),
            Event::TransferCommitted { id, fulfilment, settled, .. } => {
                self.enter_commit(place, *id, fulfilment, *settled, payload, findings)
            }
            Event::TransferAborted { id, kind, cause, operator_reason, .. } => {
                let code = upesi_delivery::rejection::cause(cause).0;
                self.counts.aborted += 1;
                self.counts.expired += u64::from(*kind == AbortKind::Expired);
                let transfer = self.take_in_flight(*id)?;
                self.note_pending(&transfer, -transfer.units)?;
                self.scheme.post(transfer.payer_account, -transfer.units)?;
                let is_expiry = *kind == AbortKind::Expired;
                let is_item = self.note_end_of_item(place, *id, None, is_expiry, findings);
                findings.extend(judge_abort(
                    place,
                    *id,
                    &transfer,
                    *kind,
                    operator_reason.is_some(),
                    is_item,
                ));
                let compared = compare_error(payload.body, *kind, code.number());
                self.note_difference(place, *id, payload.body, compared);
                Ok(())
            }
            Event::FxTransferPrepared(_)
            | Event::FxTransferFulfilled { .. }
            | Event::FxTransferCommitted { .. }
            | Event::FxTransferAborted { .. } => self.enter_fx_transfer(place, event, findings),
            Event::BulkReceived(_)
            | Event::BulkItemDecided { .. }
            | Event::BulkAccepted { .. }
            | Event::BulkAnswered { .. }
            | Event::BulkEnded { .. } => self.bulks.enter(place, event, &self.scheme, findings),
            Event::FundsPrepared(funds) => self.funds_prepared(funds),
            Event::FundsEnded { id, state, .. } => self.funds_ended(*id, *state),
            Event::CoverMoved { id, account, funds } => self.cover_moved(*id, *account, *funds),
            Event::Posted { debit, credit, amount } => {
                self.scheme.post(*debit, i128::from(amount.units()))?;
                self.scheme.post(*credit, -i128::from(amount.units()))
            }
            Event::FeeCharged { payer, payee, amount, .. } => {
                let units = i128::from(amount.units());
                self.settlements.committed(*payer, *payee, units);
                self.scheme.post(*payer, units)?;
                self.scheme.post(*payee, -units)
            }
            Event::CallbacksDelivered(keys) => {
                for key in keys {
                    self.check_owed(*key)?;
                    self.outbox.remove(key);
                    self.counts.delivered += 1;
                }
                Ok(())
            }
            Event::CallbackParked { key, .. } => self.check_owed(*key),
            Event::FinishedRemoved { to_seq } => self.removed(place.seq, *to_seq),
            Event::CallbacksRedelivered(keys) => keys.iter().try_for_each(|key| self.check_owed(*key)),
            other => self.scheme.enter(other),
        }
    }

    fn enter_commit(
        &mut self,
        place: RecordContext<'_>,
        id: TransferId,
        fulfilment: &[u8; 32],
        settled: SettlementMode,
        payload: Payload<'_>,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        self.counts.committed += 1;
        let transfer = self.take_in_flight(id)?;
        self.note_pending(&transfer, -transfer.units)?;
        let movement = Movement {
            debtor: transfer.payer_account,
            creditor: transfer.payee_account,
            units: transfer.units,
        };
        let unfit = self.judge_settled(movement, settled);
        let unfit = unfit.filter(|_| !self.makes_room(place, id, settled));
        findings.extend(unfit.map(|text| format!("record {}: transfer {id} {text}", place.seq)));
        self.fees_due = self.fees_due(place, id, &transfer);
        self.settle_commit(movement, settled)?;
        let is_item = self.note_end_of_item(place, id, Some(fulfilment), false, findings);
        findings.extend(judge_commit(place, id, &transfer, fulfilment, is_item));
        self.note_difference(place, id, payload.body, compare_fulfilment(payload.body, fulfilment));
        Ok(())
    }

    /// Whether a commit is settled as the model that governs its currency requires; returns the fault. Without cover
    /// accounts, or without capacity on them, it is left to the open window.
    fn judge_settled(&self, movement: Movement, settled: SettlementMode) -> Option<String> {
        let Movement { debtor, creditor, units } = movement;
        let (currency, _) = self.scheme.kind(debtor)?;
        let model =
            self.scheme.position_model(currency).filter(|model| model.granularity == Granularity::Gross);
        let cover = |account, units: i128| {
            let (owner, kind) = (self.scheme.owner(account)?, model?.settlement_account_type);
            let id = self.scheme.account_id_of(owner, currency, kind)?;
            let after = self.scheme.account_of(owner, currency, kind)?.units + units;
            // Aborted withdrawals may still lower it.
            let lowest = if units < 0 { after - self.reserved_for_withdrawal(id) } else { after };
            (lowest.abs() <= i128::from(Amount::MAX.units())).then_some(id)
        };
        let accounts = cover(debtor, units).zip(cover(creditor, -units));
        let expected = accounts
            .map_or(SettlementMode::InWindow, |(payer, payee)| SettlementMode::AtOnce { payer, payee });
        (settled != expected).then(|| format!("is settled {settled:?}, but its model requires {expected:?}"))
    }

    /// Moves the money of a commit: from position to position, with the open window, or from cover to cover.
    fn settle_commit(&mut self, movement: Movement, settled: SettlementMode) -> CheckResult {
        let Movement { debtor, creditor, units } = movement;
        match settled {
            SettlementMode::InWindow => {
                self.scheme.post(creditor, -units)?;
                self.settlements.committed(debtor, creditor, units);
                Ok(())
            }
            SettlementMode::AtOnce { payer, payee } => {
                self.scheme.post(debtor, -units)?;
                self.scheme.post(payer, units)?;
                self.scheme.post(payee, -units)
            }
        }
    }

    fn removed(&mut self, seq: u64, to_seq: u64) -> CheckResult {
        let before = self.removed_to;
        if to_seq <= before || to_seq >= seq {
            return Err(format!(
                "it removes finished transfers up to record {to_seq}, after an earlier removal up to {before}"
            ));
        }
        self.removed_to = to_seq;
        self.fx_transfers.removed(to_seq);
        Ok(())
    }

    fn prepared(
        &mut self,
        place: RecordContext<'_>,
        transfer: &Transfer,
        payload: Payload<'_>,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        let id = transfer.id;
        if self.in_flight.contains_key(&id) {
            return Err(format!("transfer {id} is prepared again while it is in flight"));
        }
        if transfer.prepare_seq != place.seq {
            findings.push(format!(
                "record {}: transfer {id} claims to be of record {}",
                place.seq, transfer.prepare_seq
            ));
        }
        let request = Request::of(transfer, payload);
        if transfer.state != TransferState::Reserved {
            self.counts.refused += 1;
            findings.extend(self.judge_refusal(place, &request));
            self.note_differences(place, &request, payload);
            self.fx_transfers.transfer_used(id);
            return Ok(());
        }
        self.counts.reserved += 1;
        let entry =
            InFlight::of(transfer).ok_or_else(|| format!("transfer {id} is reserved without parties"))?;
        if entry.units < 0 {
            return Err(format!("transfer {id} reserves an amount below zero"));
        }
        self.scheme.post(entry.payer_account, entry.units)?;
        self.note_pending(&entry, entry.units)?;
        findings.extend(self.judge_reservation(place, &request));
        self.note_differences(place, &request, payload);
        self.fx_transfers.transfer_used(id);
        let forwards = place.about(id, entry.payee, |content| *content == CallbackContent::ForwardPrepare);
        let due = usize::from(!place.decides_item());
        if forwards != due {
            let text = format!("transfer {id} is forwarded {forwards} times, {}", not_due(due));
            findings.push(format!("record {}: {text}", place.seq));
        }
        self.in_flight.insert(id, entry);
        Ok(())
    }

    /// Whether a transfer that ends is an item of a bulk transfer, which records it.
    fn note_end_of_item(
        &mut self,
        place: RecordContext<'_>,
        id: TransferId,
        fulfilment: Option<&[u8; 32]>,
        is_expiry: bool,
        findings: &mut Vec<String>,
    ) -> bool {
        let noted = self.bulks.note_end(id, fulfilment, is_expiry);
        if let Some(Err(text)) = noted {
            findings.push(format!("record {}: transfer {id} {text}", place.seq));
        }
        noted.is_some()
    }

    /// Records the differences between a prepare's request and its record.
    fn note_differences(&mut self, place: RecordContext<'_>, request: &Request<'_>, payload: Payload<'_>) {
        let transfer = request.transfer;
        let compared =
            request.body.as_ref().map(|body| body.differences(transfer, |id| self.scheme.name_of(id)));
        let _ = self.count(payload.body, compared.as_ref().map(|_| Ok(())));
        let told = |text| format!("record {}: transfer {} is recorded with {text}", place.seq, transfer.id);
        self.differences.extend(compared.into_iter().flatten().map(told));
    }

    /// Counts a request with a body as compared or not, and returns its difference.
    fn count(&mut self, body: &[u8], compared: Compared) -> Option<String> {
        if !body.is_empty() {
            let count = match compared {
                Some(_) => &mut self.counts.requests,
                None => &mut self.counts.requests_unread,
            };
            *count += 1;
        }
        compared?.err()
    }

    /// Records the difference between the request that ended a transfer and its record.
    fn note_difference(&mut self, place: RecordContext<'_>, id: TransferId, body: &[u8], compared: Compared) {
        let different = self.count(body, compared);
        self.differences.extend(different.map(|text| format!("record {}: transfer {id} {text}", place.seq)));
    }

    fn payee_in_flight(&self, id: TransferId) -> Option<ParticipantId> {
        self.in_flight.get(&id).map(|transfer| transfer.payee)
    }

    fn units_in_flight(&self) -> i128 {
        self.in_flight.values().map(|transfer| transfer.units).sum::<i128>() + self.fx_transfers.units()
    }

    fn funds_prepared(&mut self, funds: &FundsTransfer) -> CheckResult {
        if self.funds.insert(funds.id, moved_by(funds)).is_some() {
            return Err(format!("funds {} are recorded twice", funds.id));
        }
        self.counts.funds += 1;
        let entry = withdrawal(funds);
        match (funds.direction, funds.state) {
            (FundsDirection::In, FundsState::Committed) => {
                self.scheme.post(entry.hub_account, entry.units)?;
                self.scheme.post(entry.account, -entry.units)
            }
            (FundsDirection::In, state) => Err(format!("deposit {} is {}", funds.id, state.as_str())),
            (FundsDirection::Out, FundsState::Reserved) => {
                self.scheme.post(entry.account, entry.units)?;
                self.scheme.account(entry.hub_account)?;
                self.withdrawals.insert(funds.id, entry);
                Ok(())
            }
            (FundsDirection::Out, FundsState::Aborted) => Ok(()),
            (FundsDirection::Out, FundsState::Committed) => {
                Err(format!("withdrawal {} is committed without having been reserved", funds.id))
            }
        }
    }

    /// Possible decrease of a balance by aborts of withdrawals.
    fn reserved_for_withdrawal(&self, account: AccountId) -> i128 {
        let own = self.withdrawals.values().filter(|withdrawal| withdrawal.account == account);
        own.map(|withdrawal| withdrawal.units).sum()
    }

    fn funds_ended(&mut self, id: TransferId, state: FundsState) -> CheckResult {
        let entry =
            self.withdrawals.remove(&id).ok_or_else(|| format!("funds {id} end, but are not in flight"))?;
        self.funds.insert(id, (entry.account, if state == FundsState::Committed { entry.units } else { 0 }));
        match state {
            FundsState::Committed => self.scheme.post(entry.hub_account, -entry.units),
            FundsState::Aborted => self.scheme.post(entry.account, -entry.units),
            FundsState::Reserved => Err(format!("funds {id} end in the state RESERVED")),
        }
    }

    /// Links a movement of funds to a settled account: same owner, same currency, same amount.
    fn cover_moved(&mut self, id: SettlementId, account: AccountId, funds: TransferId) -> CheckResult {
        let moved = self.funds.get(&funds).copied();
        let (cover, units) =
            moved.ok_or_else(|| format!("funds {funds} move cover, but are not recorded"))?;
        let (owner, kind) = (self.scheme.owner(account), self.scheme.kind(account));
        let expected = kind.map(|(currency, _)| (currency, LedgerAccountTypeId::SETTLEMENT));
        if self.scheme.owner(cover) != owner || self.scheme.kind(cover) != expected {
            return Err(format!("funds {funds} are not of the owner of account {}", account.number()));
        }
        self.settlements.cover_moved(id, account, funds, units)
    }

    /// Removes a transfer that ends. Its payer's FX transfer may expire before it.
    fn take_in_flight(&mut self, id: TransferId) -> Result<InFlight, String> {
        let transfer = self.in_flight.remove(&id);
        let mut transfer = transfer.ok_or_else(|| format!("transfer {id} ends, but is not in flight"))?;
        if let Some(deadline) = self.fx_transfers.deadline(id, transfer.payer) {
            transfer.expires_at = transfer.expires_at.min(deadline);
        }
        Ok(transfer)
    }

    fn note_pending(&mut self, transfer: &InFlight, units: i128) -> CheckResult {
        self.scheme.note_pending(transfer.payer_account, units)?;
        self.scheme.note_pending(transfer.payee_account, units)
    }

    fn transfer_in_flight(&self, id: TransferId) -> Option<&InFlight> {
        self.in_flight.get(&id)
    }

    /// The transfers in flight that these events end, with their payers and payees.
    fn ended_in_flight(&self, events: &[Event]) -> Vec<(TransferId, ParticipantId, ParticipantId)> {
        if self.fx_transfers.len() == 0 {
            return Vec::new();
        }
        let ended = events.iter().filter_map(|event| match event {
            Event::TransferCommitted { id, .. } | Event::TransferAborted { id, .. } => Some(*id),
            _ => None,
        });
        let parties =
            ended.filter_map(|id| self.in_flight.get(&id).map(|found| (id, found.payer, found.payee)));
        parties.collect()
    }

    fn check_owed(&self, key: CallbackKey) -> CheckResult {
        if self.outbox.contains(&key) {
            Ok(())
        } else {
            Err(format!(
                "callback {}.{} to participant {} is not owed",
                key.seq,
                key.index,
                key.target.number()
            ))
        }
    }

    /// Compares the books with the replayed ledger; each difference is a sentence.
    pub fn compare(&self, ledger: &Ledger, findings: &mut Vec<String>) {
        for (index, book) in self.scheme.accounts.iter().enumerate() {
            let balance = ledger.accounts().get(index).map(|account| i128::from(account.balance.units()));
            if balance != Some(book.units) {
                let (number, booked) = (index + 1, decimal(book.units));
                let found = balance.map_or_else(|| "missing".to_owned(), decimal);
                findings
                    .push(format!("account {number}: the events add up to {booked}, the ledger has {found}"));
            }
            let pending = ledger.accounts().get(index).map(|account| account.pending_credits.units().into());
            if pending != Some(book.pending) {
                let (number, booked) = (index + 1, decimal(book.pending));
                let found = pending.map_or_else(|| "none".to_owned(), decimal);
                findings.push(format!(
                    "account {number}: the events reserve {booked}, the ledger reserves {found}"
                ));
            }
        }
        if ledger.accounts().len() != self.scheme.accounts.len() {
            findings.push(format!(
                "{} accounts were created, the ledger has {}",
                self.scheme.accounts.len(),
                ledger.accounts().len()
            ));
        }
        if ledger.reserved_len() != self.in_flight.len() {
            let (booked, found) = (self.in_flight.len(), ledger.reserved_len());
            findings.push(format!("{booked} transfers are in flight, the ledger has {found}"));
        }
        if ledger.live_fx_transfers_len() != self.fx_transfers.len() {
            let (booked, found) = (self.fx_transfers.len(), ledger.live_fx_transfers_len());
            findings.push(format!("{booked} FX transfers are in flight, the ledger has {found}"));
        }
        if ledger.live_bulks_len() != self.bulks.len() {
            let (booked, found) = (self.bulks.len(), ledger.live_bulks_len());
            findings.push(format!("{booked} bulk transfers are in flight, the ledger has {found}"));
        }
        self.settlements.compare(ledger, findings);
        let undelivered: BTreeSet<CallbackKey> = ledger.outbox().iter().map(|(key, _)| key).collect();
        if undelivered != self.outbox {
            let (booked, found) = (self.outbox.len(), undelivered.len());
            findings.push(format!(
                "{booked} callbacks are undelivered, but the ledger has {found} or different ones"
            ));
        }
    }
}

/// The cover account, and its decrease.
fn moved_by(funds: &FundsTransfer) -> (AccountId, i128) {
    let units = i128::from(funds.amount.units());
    (
        funds.account,
        match (funds.direction, funds.state) {
            (FundsDirection::In, _) => -units,
            (FundsDirection::Out, FundsState::Committed) => units,
            (FundsDirection::Out, _) => 0,
        },
    )
}

fn withdrawal(funds: &FundsTransfer) -> Withdrawal {
    Withdrawal {
        account: funds.account,
        hub_account: funds.hub_account,
        units: i128::from(funds.amount.units()),
    }
}
