//! The auditor's own books: what the recorded events must add up to, computed without the ledger's code.
//!
//! They are kept beside the ledger that replays the journal. What contradicts them is found before it is folded, so
//! that a journal that makes no sense gives a finding and not a crash.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use upesi_ledger::{
    AbortKind, AccountId, CallbackContent, CallbackKey, Event, FundsDirection, FundsState, FundsTransfer,
    Ledger, LedgerAccountTypeId, ParticipantId, Payload, Record, SettlementModel, Transfer, TransferState,
};
use upesi_types::{Amount, Currency, Timestamp, TransferId};

use super::bodies::{Compared, compare_error, compare_fulfilment};
use super::judge::{InFlight, Place, judge_abort, judge_commit};
use super::refusals::Request;
use super::settlements::{Scheme, SettlementBooks};

/// A balance as the auditor computes it.
#[derive(Clone, Debug)]
pub(super) struct BookAccount {
    pub(super) units: i128,
    pub(super) is_active: bool,
    currency: Currency,
    kind: LedgerAccountTypeId,
}

/// A participant as the auditor knows it.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    is_active: bool,
}

/// A withdrawal in flight.
#[derive(Clone, Debug)]
struct Withdrawal {
    account: AccountId,
    hub_account: AccountId,
    units: i128,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Prepares that were reserved.
    pub reserved: u64,
    /// Prepares that were refused.
    pub refused: u64,
    /// Transfers that were committed.
    pub committed: u64,
    /// Transfers that were aborted, expired ones included.
    pub aborted: u64,
    /// Of the aborted, those that expired.
    pub expired: u64,
    /// Movements of funds.
    pub funds: u64,
    /// Callbacks owed.
    pub owed: u64,
    /// Callbacks delivered.
    pub delivered: u64,
    /// Requests that were read again and compared with what was recorded of them.
    pub requests: u64,
    /// Those that say nothing that could be compared, as the ones of `upesi fill`.
    pub requests_unread: u64,
}

/// The books.
#[derive(Debug)]
pub struct Books {
    participants: Vec<Member>,
    accounts: Vec<BookAccount>,
    /// The account of a participant, by currency and type.
    account_ids: BTreeMap<(ParticipantId, Currency, LedgerAccountTypeId), AccountId>,
    account_types: usize,
    models: Vec<SettlementModel>,
    limits: BTreeMap<(ParticipantId, Currency), i128>,
    in_flight: HashMap<TransferId, InFlight>,
    withdrawals: BTreeMap<TransferId, Withdrawal>,
    funds: BTreeSet<TransferId>,
    settlements: SettlementBooks,
    outbox: BTreeSet<CallbackKey>,
    /// Retention has removed what finished up to this record.
    removed_to: u64,
    counts: Counts,
}

type Finding = Result<(), String>;

impl Books {
    /// Opens the books with a state that is taken as given.
    pub fn of(ledger: &Ledger) -> Self {
        let accounts = ledger.accounts().iter().map(|account| BookAccount {
            units: i128::from(account.balance.units()),
            is_active: account.is_active,
            currency: account.currency,
            kind: account.kind,
        });
        let account_ids = ledger
            .accounts()
            .iter()
            .map(|account| ((account.participant, account.currency, account.kind), account.id));
        let participants = ledger.participants().iter().map(|participant| Member {
            name: participant.name.to_string(),
            is_active: participant.is_active,
        });
        let limits = ledger.participants().iter().flat_map(|participant| {
            let limits = participant.limits.iter();
            limits.map(|limit| ((participant.id, limit.currency), i128::from(limit.value.units())))
        });
        let mut books = Self {
            participants: participants.collect(),
            accounts: accounts.collect(),
            account_ids: account_ids.collect(),
            account_types: ledger.account_types().len(),
            models: ledger.models().to_vec(),
            limits: limits.collect(),
            in_flight: HashMap::new(),
            withdrawals: BTreeMap::new(),
            funds: ledger.all_funds().map(|funds| funds.id).collect(),
            settlements: SettlementBooks::of(ledger),
            outbox: ledger.outbox().iter().map(|(key, _)| key).collect(),
            removed_to: ledger.removed_to(),
            counts: Counts::default(),
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

    /// How often things happened since the books were opened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Enters a record. The error says what contradicts the books; nothing after it can be judged.
    pub fn enter(
        &mut self,
        seq: u64,
        time: Timestamp,
        record: &Record<'_>,
        findings: &mut Vec<String>,
    ) -> Finding {
        self.counts.records += 1;
        if record.decided_at(time) > time {
            return Err(format!("it was decided at {}, later than its own instant", record.decided_at(time)));
        }
        let place = Place { seq, time: record.decided_at(time), callbacks: &record.callbacks };
        findings.extend(self.judge_actor(place.seq, record));
        let mut settlements = std::mem::take(&mut self.settlements);
        settlements.enter(seq, record, self, findings)?;
        self.settlements = settlements;
        for event in &record.events {
            self.enter_event(place, event, record.payload, findings)?;
        }
        for (index, callback) in record.callbacks.iter().enumerate() {
            self.check_participant(callback.target)?;
            self.counts.owed += 1;
            let index = u8::try_from(index).map_err(|_| "it owes more than 256 callbacks".to_owned())?;
            self.outbox.insert(CallbackKey { target: callback.target, seq, index });
        }
        Ok(())
    }

    fn enter_event(
        &mut self,
        place: Place<'_>,
        event: &Event,
        payload: Payload<'_>,
        findings: &mut Vec<String>,
    ) -> Finding {
        match event {
            Event::TransferPrepared(transfer) => self.prepared(place, transfer, payload, findings),
            Event::TransferCommitted { id, fulfilment, .. } => {
                self.counts.committed += 1;
                let transfer = self.take_in_flight(*id)?;
                self.post(transfer.payee_account, -transfer.units)?;
                self.settlements.committed(transfer.payer_account, transfer.payee_account, transfer.units);
                findings.extend(judge_commit(place, *id, &transfer, fulfilment));
                let different = self.count(payload.body, compare_fulfilment(payload.body, fulfilment));
                findings.extend(different.map(|text| format!("record {}: transfer {id} {text}", place.seq)));
                Ok(())
            }
            Event::TransferAborted { id, kind, cause, operator_reason, .. } => {
                let code = upesi_fspiop::refusal::cause(cause).0;
                self.counts.aborted += 1;
                self.counts.expired += u64::from(*kind == AbortKind::Expired);
                let transfer = self.take_in_flight(*id)?;
                self.post(transfer.payer_account, -transfer.units)?;
                findings.extend(judge_abort(place, *id, &transfer, *kind, operator_reason.is_some()));
                let different = self.count(payload.body, compare_error(payload.body, *kind, code.number()));
                findings.extend(different.map(|text| format!("record {}: transfer {id} {text}", place.seq)));
                Ok(())
            }
            Event::FundsPrepared(funds) => self.funds_prepared(funds),
            Event::FundsEnded { id, state, .. } => self.funds_ended(*id, *state),
            Event::Posted { debit, credit, amount } => {
                self.post(*debit, i128::from(amount.units()))?;
                self.post(*credit, -i128::from(amount.units()))
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
            other => self.enter_setup(other),
        }
    }

    fn removed(&mut self, seq: u64, to_seq: u64) -> Finding {
        let before = self.removed_to;
        if to_seq <= before || to_seq >= seq {
            return Err(format!(
                "it removes what finished up to record {to_seq}, after the same to {before}"
            ));
        }
        self.removed_to = to_seq;
        Ok(())
    }

    /// Participants, accounts, limits and models.
    fn enter_setup(&mut self, event: &Event) -> Finding {
        match event {
            Event::ParticipantCreated { id, name, .. } => {
                next("participant", id.number() as usize, self.participants.len())?;
                self.participants.push(Member { name: name.to_string(), is_active: true });
            }
            Event::AccountCreated { id, participant, currency, kind, is_opened } => {
                next("account", id.number() as usize, self.accounts.len())?;
                self.check_participant(*participant)?;
                let (participant, currency, kind) = (*participant, *currency, *kind);
                self.account_ids.insert((participant, currency, kind), *id);
                self.accounts.push(BookAccount { units: 0, is_active: *is_opened, currency, kind });
            }
            Event::LedgerAccountTypeCreated { id, .. } => {
                next("ledger account type", usize::from(id.0), self.account_types)?;
                self.account_types += 1;
            }
            Event::SettlementModelCreated(model) => {
                next("settlement model", model.id as usize, self.models.len())?;
                self.models.push(model.clone());
            }
            Event::SettlementModelActivitySet { id, is_active } => {
                let index = (*id as usize).checked_sub(1);
                let model = index.and_then(|index| self.models.get_mut(index));
                model.ok_or_else(|| format!("settlement model {id} does not exist"))?.is_active = *is_active;
            }
            Event::LimitSet { participant, currency, value, .. } => {
                self.check_participant(*participant)?;
                self.limits.insert((*participant, *currency), i128::from(value.units()));
            }
            Event::ParticipantActivitySet { id, is_active } => {
                self.check_participant(*id)?;
                self.participants[id.number() as usize - 1].is_active = *is_active;
            }
            Event::EndpointSet { participant, .. } => self.check_participant(*participant)?,
            Event::AccountOpened { id } => self.account_mut(*id)?.is_active = true,
            Event::AccountActivitySet { id, is_active } => self.account_mut(*id)?.is_active = *is_active,
            _ => {}
        }
        Ok(())
    }

    fn prepared(
        &mut self,
        place: Place<'_>,
        transfer: &Transfer,
        payload: Payload<'_>,
        findings: &mut Vec<String>,
    ) -> Finding {
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
            findings.extend(self.differences(place, &request, payload));
            return Ok(());
        }
        self.counts.reserved += 1;
        let entry =
            InFlight::of(transfer).ok_or_else(|| format!("transfer {id} is reserved without parties"))?;
        self.account(entry.payee_account)?;
        self.post(entry.payer_account, entry.units)?;
        findings.extend(self.judge_reservation(place, &request));
        findings.extend(self.differences(place, &request, payload));
        let forwards = place.about(id, entry.payee, |content| *content == CallbackContent::ForwardPrepare);
        if forwards != 1 {
            findings
                .push(format!("record {}: transfer {id} is forwarded {forwards} times, not once", place.seq));
        }
        self.in_flight.insert(id, entry);
        Ok(())
    }

    /// What the request behind a prepare says otherwise than its record.
    fn differences(&mut self, place: Place<'_>, request: &Request<'_>, payload: Payload<'_>) -> Vec<String> {
        let transfer = request.transfer;
        let compared = request.body.as_ref().map(|body| body.differences(transfer, |id| self.name_of(id)));
        let _ = self.count(payload.body, compared.as_ref().map(|_| Ok(())));
        let told = |text| format!("record {}: transfer {} is recorded with {text}", place.seq, transfer.id);
        compared.into_iter().flatten().map(told).collect()
    }

    /// Counts a request with a body as compared or not, and returns what it says otherwise.
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

    pub(super) fn participant_named(&self, name: &str) -> Option<ParticipantId> {
        let index = self.participants.iter().position(|member| member.name == name)?;
        ParticipantId::new(index as u32 + 1)
    }

    /// The payee of a transfer in flight.
    pub(super) fn payee_in_flight(&self, id: TransferId) -> Option<ParticipantId> {
        self.in_flight.get(&id).map(|transfer| transfer.payee)
    }

    pub(super) fn name_of(&self, id: ParticipantId) -> Option<String> {
        self.participants.get(id.number() as usize - 1).map(|member| member.name.clone())
    }

    pub(super) fn is_active(&self, id: ParticipantId) -> bool {
        self.participants.get(id.number() as usize - 1).is_some_and(|member| member.is_active)
    }

    pub(super) fn account_of(
        &self,
        participant: ParticipantId,
        currency: Currency,
        kind: LedgerAccountTypeId,
    ) -> Option<&BookAccount> {
        self.account(self.account_id_of(participant, currency, kind)?).ok()
    }

    pub(super) fn account_id_of(
        &self,
        participant: ParticipantId,
        currency: Currency,
        kind: LedgerAccountTypeId,
    ) -> Option<AccountId> {
        self.account_ids.get(&(participant, currency, kind)).copied()
    }

    pub(super) fn cap(&self, participant: ParticipantId, currency: Currency) -> i128 {
        self.limits.get(&(participant, currency)).copied().unwrap_or(0)
    }

    pub(super) fn units_in_flight(&self) -> i128 {
        self.in_flight.values().map(|transfer| transfer.units).sum()
    }

    /// The type of the account that covers positions: by the currency's own models, or else by the default ones.
    pub(super) fn settlement_type(&self, currency: Currency) -> Option<LedgerAccountTypeId> {
        let active =
            |wanted| self.models.iter().filter(move |model| model.is_active && model.currency == wanted);
        let wanted = if active(Some(currency)).next().is_some() { Some(currency) } else { None };
        let position = |model: &&SettlementModel| model.ledger_account_type == LedgerAccountTypeId::POSITION;
        active(wanted).find(position).map(|model| model.settlement_account_type)
    }

    fn funds_prepared(&mut self, funds: &FundsTransfer) -> Finding {
        if !self.funds.insert(funds.id) {
            return Err(format!("funds {} are recorded twice", funds.id));
        }
        self.counts.funds += 1;
        let entry = withdrawal(funds);
        match (funds.direction, funds.state) {
            (FundsDirection::In, FundsState::Committed) => {
                self.post(entry.hub_account, entry.units)?;
                self.post(entry.account, -entry.units)
            }
            (FundsDirection::In, state) => Err(format!("deposit {} is {}", funds.id, state.as_str())),
            (FundsDirection::Out, FundsState::Reserved) => {
                self.post(entry.account, entry.units)?;
                self.account(entry.hub_account)?;
                self.withdrawals.insert(funds.id, entry);
                Ok(())
            }
            (FundsDirection::Out, FundsState::Aborted) => Ok(()),
            (FundsDirection::Out, FundsState::Committed) => {
                Err(format!("withdrawal {} is committed without having been reserved", funds.id))
            }
        }
    }

    fn funds_ended(&mut self, id: TransferId, state: FundsState) -> Finding {
        let entry =
            self.withdrawals.remove(&id).ok_or_else(|| format!("funds {id} end, but are not in flight"))?;
        match state {
            FundsState::Committed => self.post(entry.hub_account, -entry.units),
            FundsState::Aborted => self.post(entry.account, -entry.units),
            FundsState::Reserved => Err(format!("funds {id} end in the state RESERVED")),
        }
    }

    fn take_in_flight(&mut self, id: TransferId) -> Result<InFlight, String> {
        self.in_flight.remove(&id).ok_or_else(|| format!("transfer {id} ends, but is not in flight"))
    }

    fn account(&self, id: AccountId) -> Result<&BookAccount, String> {
        let index = id.number() as usize - 1;
        self.accounts.get(index).ok_or_else(|| format!("account {} does not exist", id.number()))
    }

    fn account_mut(&mut self, id: AccountId) -> Result<&mut BookAccount, String> {
        let index = id.number() as usize - 1;
        self.accounts.get_mut(index).ok_or_else(|| format!("account {} does not exist", id.number()))
    }

    fn post(&mut self, id: AccountId, units: i128) -> Finding {
        let account = self.account_mut(id)?;
        account.units += units;
        if account.units.abs() > i128::from(Amount::MAX.units()) {
            return Err(format!("account {} leaves the range of amounts", id.number()));
        }
        Ok(())
    }

    fn check_participant(&self, id: ParticipantId) -> Finding {
        if id.number() as usize <= self.participants.len() {
            Ok(())
        } else {
            Err(format!("participant {} does not exist", id.number()))
        }
    }

    fn check_owed(&self, key: CallbackKey) -> Finding {
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
        for (index, book) in self.accounts.iter().enumerate() {
            let balance = ledger.accounts().get(index).map(|account| i128::from(account.balance.units()));
            if balance != Some(book.units) {
                let (number, booked) = (index + 1, decimal(book.units));
                let found = balance.map_or_else(|| "missing".to_owned(), decimal);
                findings
                    .push(format!("account {number}: the events add up to {booked}, the ledger has {found}"));
            }
        }
        if ledger.accounts().len() != self.accounts.len() {
            findings.push(format!(
                "{} accounts were created, the ledger has {}",
                self.accounts.len(),
                ledger.accounts().len()
            ));
        }
        if ledger.reserved_len() != self.in_flight.len() {
            let (booked, found) = (self.in_flight.len(), ledger.reserved_len());
            findings.push(format!("{booked} transfers are in flight, the ledger has {found}"));
        }
        self.settlements.compare(ledger, findings);
        let undelivered: BTreeSet<CallbackKey> = ledger.outbox().iter().map(|(key, _)| key).collect();
        if undelivered != self.outbox {
            let (booked, found) = (self.outbox.len(), undelivered.len());
            findings
                .push(format!("{booked} callbacks are undelivered, the ledger has {found} or other ones"));
        }
    }
}

impl Scheme for Books {
    fn account(&self, id: AccountId) -> Option<(Currency, LedgerAccountTypeId)> {
        self.account(id).ok().map(|account| (account.currency, account.kind))
    }

    fn hub_account(&self, currency: Currency) -> Option<AccountId> {
        let kind = LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT;
        self.account_id_of(ParticipantId::HUB, currency, kind)
    }

    fn resets_positions(&self, model: u32) -> bool {
        let model = self.models.get((model as usize).wrapping_sub(1));
        model.is_some_and(|model| model.auto_position_reset)
    }
}

fn withdrawal(funds: &FundsTransfer) -> Withdrawal {
    Withdrawal {
        account: funds.account,
        hub_account: funds.hub_account,
        units: i128::from(funds.amount.units()),
    }
}

fn next(what: &str, number: usize, count: usize) -> Finding {
    if number == count + 1 { Ok(()) } else { Err(format!("{what} {number} follows {what} {count}")) }
}

pub(super) fn decimal(units: i128) -> String {
    let amount = i64::try_from(units).ok().and_then(Amount::from_units);
    amount.map_or_else(|| format!("{units} ten-thousandths"), |amount| amount.to_string())
}
