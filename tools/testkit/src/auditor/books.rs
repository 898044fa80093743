//! The auditor's books: balances, transfers and owed callbacks. The auditor derives them from the journal's records
//! with its own arithmetic, and compares every entry with the messages that were seen outside the hub.

mod bulks;
mod finished;
mod fx_transfers;
mod reservations;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use bulks::BulkCounts;
use bulks::{ItemEnd, SentItem};
pub(crate) use fx_transfers::FxTransferCounts;
use sha2::{Digest, Sha256};
use upesi_ledger::{
    AbortKind, Actor, Callback, CallbackKey, Event, FundsState, FundsTransfer, Ledger, Record,
};
use upesi_types::{Timestamp, TransferId};

use super::account::{AccountKey, Leg, currency_of};
use super::settling::{Accounts, SettlementBooks, SettlementCounts};
use super::{Findings, ObservedMessages};
use crate::message::{PutContent, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferStage {
    Reserved,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
struct Entry {
    standing: TransferStage,
    payer: u32,
    payee: u32,
    /// Participant whose position carries the transfer: the payer, the FXP of its FX transfer, or the proxy of either.
    carrier: u32,
    /// Participant that is owed the amount after the commit: the payee or its proxy.
    creditor: u32,
    amount: i128,
    currency: u8,
    condition: [u8; 32],
    expires_at: Timestamp,
    prepare_seq: u64,
    /// Sequence number of the record that ended it; 0 while it is reserved.
    ended_seq: u64,
}

/// A record whose events are entered.
#[derive(Clone, Copy)]
struct RecordHead<'a> {
    seq: u64,
    /// Time of the decision.
    time: Timestamp,
    callbacks: &'a [Callback],
}

/// A finished transfer as an export must contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finished {
    pub(crate) prepare_seq: u64,
    pub(crate) id: TransferId,
    /// Numbers of the payer and the payee; 0 for an unknown participant.
    pub(crate) parties: (u32, u32),
    /// The amount in ten-thousandths of a unit.
    pub(crate) amount: i128,
    pub(crate) is_committed: bool,
}

#[derive(Debug, Default)]
struct Account {
    balance: i128,
    is_active: bool,
}

#[derive(Debug, Default)]
struct Member {
    name: String,
    is_active: bool,
    /// Net debit caps by currency.
    caps: [i128; 2],
}

#[derive(Debug, Default)]
pub(super) struct Books {
    last_seq: u64,
    last_time: Option<Timestamp>,
    members: BTreeMap<u32, Member>,
    /// The proxy of each participant that is behind one.
    proxies: BTreeMap<u32, u32>,
    committed_through_proxy: u64,
    accounts: BTreeMap<AccountKey, Account>,
    numbers: BTreeMap<u32, AccountKey>,
    transfers: BTreeMap<[u8; 17], Entry>,
    /// Transfers that retention removed, with the record that ended each.
    left: BTreeMap<[u8; 17], (TransferId, u64)>,
    /// Last record whose finished transfers were removed, according to the journal.
    removed_to: u64,
    fx_transfers: BTreeMap<[u8; 17], fx_transfers::Exchange>,
    left_fx_transfers: BTreeSet<[u8; 17]>,
    fx_transfer_counts: FxTransferCounts,
    rolls: BTreeMap<[u8; 17], bulks::BulkEntry>,
    left_rolls: BTreeSet<[u8; 17]>,
    bulk_counts: BulkCounts,
    /// The bulk transfer of each reserved item.
    items: BTreeMap<[u8; 17], TransferId>,
    /// The item of a bulk transfer that the current record decides.
    item_now: Option<SentItem>,
    /// The DFSP that caused the current record.
    source: Option<usize>,
    /// Transfers that the current record has ended; true if committed.
    ended_now: Vec<(TransferId, bool)>,
    funds: BTreeMap<[u8; 17], FundsTransfer>,
    /// Callbacks that are owed; true if parked.
    owed: BTreeMap<CallbackKey, bool>,
    settling: SettlementBooks,
    /// Fees that the commits of the current record owe.
    fees_due: Vec<Leg>,
    /// Fees that the current record charges.
    fees_charged: Vec<Leg>,
    committed: u64,
    aborted: u64,
    expired: u64,
    was_committed: BTreeSet<TransferId>,
    /// Whether an id was removed and then committed again, because the clock was set back.
    pub(super) is_twice_committed: bool,
}

impl Books {
    pub(super) const fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(super) fn knows(&self, id: TransferId) -> bool {
        self.transfers.contains_key(&id.to_bytes())
    }

    /// Whether a transfer is reserved and this DFSP is its payee.
    pub(super) fn is_waiting_for(&self, id: TransferId, payee: usize) -> bool {
        self.transfers.get(&id.to_bytes()).is_some_and(|entry| {
            entry.standing == TransferStage::Reserved && self.number_of(entry.payee) == Some(payee)
        }) && !self.was_converted(id)
            && !self.is_item(id)
    }

    pub(super) fn owes(&self, key: CallbackKey) -> bool {
        self.owed.contains_key(&key)
    }

    pub(super) fn owed(&self) -> usize {
        self.owed.len()
    }

    pub(super) fn owed_keys(&self) -> impl Iterator<Item = CallbackKey> {
        self.owed.keys().copied()
    }

    pub(super) fn is_reserved(&self, id: TransferId) -> bool {
        self.transfers.get(&id.to_bytes()).is_some_and(|entry| entry.standing == TransferStage::Reserved)
    }

    pub(super) fn parked(&self) -> Vec<CallbackKey> {
        self.owed.iter().filter(|(_, is_parked)| **is_parked).map(|(key, _)| *key).collect()
    }

    pub(super) fn recipient(&self, key: CallbackKey) -> Option<String> {
        self.members.get(&key.target.number()).map(|member| member.name.clone())
    }

    pub(super) fn reserved(&self) -> usize {
        self.transfers.values().filter(|entry| entry.standing == TransferStage::Reserved).count()
    }

    pub(super) const fn totals(&self) -> (u64, u64, u64) {
        (self.committed, self.aborted, self.expired)
    }

    pub(super) const fn committed_through_proxy(&self) -> u64 {
        self.committed_through_proxy
    }

    /// The participant whose accounts carry a member's transfers.
    fn liable(&self, member: u32) -> u32 {
        self.proxies.get(&member).copied().unwrap_or(member)
    }

    pub(super) const fn settled(&self) -> SettlementCounts {
        self.settling.counts
    }

    fn account(&mut self, key: AccountKey) -> &mut Account {
        self.accounts.entry(key).or_default()
    }

    fn balance(&self, key: AccountKey) -> i128 {
        self.accounts.get(&key).map_or(0, |account| account.balance)
    }

    fn add(&mut self, account: u32, amount: i128) {
        if let Some(key) = self.numbers.get(&account).copied() {
            self.accounts.entry(key).or_default().balance += amount;
        }
    }

    /// Enters a durable record in the books.
    pub(super) fn fold(
        &mut self,
        seq: u64,
        time: Timestamp,
        record: &Record<'_>,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        if seq != self.last_seq + 1 || self.last_time.is_some_and(|last| time <= last) {
            findings.add(format!("I8: record {seq} of {time} follows record {}", self.last_seq));
        }
        self.last_seq = seq;
        self.last_time = Some(time);
        let decided_at = record.decided_at(time);
        if decided_at > time {
            findings.add(format!("I8: record {seq} of {time} was decided later, at {decided_at}"));
        }
        let mut settling = std::mem::take(&mut self.settling);
        settling.enter(record, self, &outside.treasurer.asked, findings);
        self.settling = settling;
        self.source = match record.actor {
            Actor::Dfsp(name) => number(name.as_str()),
            _ => None,
        };
        self.item_now = self.item_decided_by(&record.events);
        for event in &record.events {
            let head = RecordHead { seq, time: decided_at, callbacks: &record.callbacks };
            self.enter(head, event, outside, findings);
        }
        self.compare_fees(seq, findings);
        self.compare_ends(seq, findings);
        for (index, callback) in record.callbacks.iter().enumerate() {
            self.owed.insert(CallbackKey { target: callback.target, seq, index: index as u8 }, false);
        }
    }

    fn enter(
        &mut self,
        head: RecordHead<'_>,
        event: &Event,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { seq, time, callbacks } = head;
        match event {
            Event::TransferPrepared(transfer) => self.prepared(seq, transfer, callbacks, outside, findings),
            Event::TransferCommitted { id, fulfilment, settled, .. } => {
                self.settle_commit(*id, *settled, findings);
                self.owe_fees(*id, time);
                self.committed(head, *id, fulfilment, outside, findings);
                self.ended(*id, seq);
            }
            Event::TransferAborted { id, kind, operator_reason, .. } => {
                let by_operator = operator_reason.is_some();
                self.aborted(head, *id, *kind, by_operator, outside, findings);
                self.ended(*id, seq);
            }
            Event::Posted { debit, credit, amount } => {
                self.add(debit.number(), i128::from(amount.units()));
                self.add(credit.number(), -i128::from(amount.units()));
            }
            Event::CapRaised { account, amount, .. } => {
                self.shift_cap(account.number(), amount.units().into())
            }
            Event::CapReturned { account, amount, .. } => {
                self.shift_cap(account.number(), -i128::from(amount.units()));
            }
            Event::LimitSet { participant, currency, value, .. } => {
                if let Some(member) = self.members.get_mut(&participant.number()) {
                    member.caps[usize::from(currency_of(*currency))] = i128::from(value.units());
                }
            }
            Event::FeeCharged { payer, payee, amount, .. } => {
                self.charged(payer.number(), payee.number(), i128::from(amount.units()));
            }
            Event::FundsPrepared(funds) => self.funds_prepared(funds, findings),
            Event::FundsEnded { id, state, .. } => self.funds_ended(*id, *state, findings),
            Event::CallbacksDelivered(keys) => {
                for key in keys {
                    self.delivered(seq, *key, outside, findings);
                }
            }
            Event::CallbackParked { key, .. } => self.set_parked(*key, true, findings),
            Event::CallbacksRedelivered(keys) => {
                keys.iter().for_each(|key| self.set_parked(*key, false, findings));
            }
            Event::FinishedRemoved { to_seq } => self.finished_removed(*to_seq),
            // Other events move no money and owe no callback. If one did, the balances would differ.
            _ => {
                self.enter_scheme(event);
                self.enter_fx_transfer(head, event, outside, findings);
                self.enter_bulk(head, event, outside, findings);
            }
        }
    }

    /// Enters participants, proxies and accounts.
    fn enter_scheme(&mut self, event: &Event) {
        match event {
            Event::ParticipantCreated { id, name, .. } => {
                let member = Member { name: name.as_str().to_owned(), is_active: true, caps: [0; 2] };
                self.members.insert(id.number(), member);
            }
            Event::ProxiedAdded { participant, proxy } => {
                self.proxies.insert(participant.number(), proxy.number());
            }
            Event::ProxiedRemoved { participant, .. } => {
                self.proxies.remove(&participant.number());
            }
            Event::ParticipantActivitySet { id, is_active } => {
                if let Some(member) = self.members.get_mut(&id.number()) {
                    member.is_active = *is_active;
                }
            }
            Event::AccountCreated { id, participant, kind, currency, is_opened, .. } => {
                let (owner, currency) = (participant.number(), currency_of(*currency));
                let key = AccountKey { owner, kind: kind.0, currency };
                self.numbers.insert(id.number(), key);
                self.account(key).is_active = *is_opened;
            }
            Event::AccountOpened { id } => self.set_active(id.number(), true),
            Event::AccountActivitySet { id, is_active } => self.set_active(id.number(), *is_active),
            _ => {}
        }
    }

    fn set_active(&mut self, account: u32, is_active: bool) {
        if let Some(key) = self.numbers.get(&account).copied() {
            self.account(key).is_active = is_active;
        }
    }

    fn ended(&mut self, id: TransferId, seq: u64) {
        if let Some(entry) = self.transfers.get_mut(&id.to_bytes()) {
            entry.ended_seq = seq;
            self.ended_now.push((id, entry.standing == TransferStage::Committed));
        }
    }

    /// Removes a reserved transfer from the books. A second end is a finding.
    fn end(&mut self, id: TransferId, standing: TransferStage, findings: &mut Findings) -> Option<Entry> {
        let Some(entry) = self.transfers.get_mut(&id.to_bytes()) else {
            findings.add(format!("I5: {id} was never prepared, but has an outcome"));
            return None;
        };
        if entry.standing != TransferStage::Reserved {
            findings.add(format!("I5: {id} was {:?} and is {standing:?}", entry.standing));
            return None;
        }
        entry.standing = standing;
        Some(entry.clone())
    }

    fn committed(
        &mut self,
        head: RecordHead<'_>,
        id: TransferId,
        fulfilment: &[u8; 32],
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { time, callbacks, .. } = head;
        let Some(entry) = self.end(id, TransferStage::Committed, findings) else { return };
        self.committed += 1;
        self.is_twice_committed |= !self.was_committed.insert(id);
        let is_behind = |party| self.proxies.contains_key(party);
        self.committed_through_proxy += u64::from([entry.payer, entry.payee].iter().any(is_behind));
        if Sha256::digest(fulfilment)[..] != entry.condition {
            findings.add(format!("{id} is committed by a wrong fulfilment"));
        }
        if self.is_item(id) {
            return self.item_ends(id, ItemEnd::Committed(fulfilment), callbacks, findings);
        }
        if time >= entry.expires_at {
            findings.add(format!("{id} is committed at {time}, after its expiry {}", entry.expires_at));
        }
        let is_fulfil = |ending, good| good && matches!(ending, PutContent::Fulfil { .. });
        if !self.number_of(entry.payee).is_some_and(|payee| outside.has_put(id, payee, is_fulfil)) {
            findings.add(format!("{id} is committed, but its payee never fulfilled it"));
        }
        check_told(id, &entry, true, callbacks, findings);
    }

    fn aborted(
        &mut self,
        head: RecordHead<'_>,
        id: TransferId,
        kind: AbortKind,
        by_operator: bool,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { time, callbacks, .. } = head;
        let Some(entry) = self.end(id, TransferStage::Aborted, findings) else { return };
        self.aborted += 1;
        self.account(AccountKey::position(entry.carrier, entry.currency)).balance -= entry.amount;
        let payee = self.number_of(entry.payee);
        let has_put = |is_it: &dyn Fn(PutContent, bool) -> bool| {
            payee.is_some_and(|payee| outside.has_put(id, payee, is_it))
        };
        let is_justified = match kind {
            AbortKind::Expired => {
                self.expired += 1;
                if by_operator {
                    outside.ended_by_operator.contains(&id.to_bytes())
                } else {
                    // The payer's FX transfer may lapse before the transfer does. Then the transfer expires with it.
                    time >= entry.expires_at || self.fx_transfer_has_lapsed(id, &entry, time)
                }
            }
            AbortKind::ByPayee => has_put(&|ending, good| good && matches!(ending, PutContent::Abort(_))),
            AbortKind::InvalidFulfil => {
                has_put(&|ending, good| !good && matches!(ending, PutContent::Fulfil { .. }))
            }
            AbortKind::InvalidAbort => {
                has_put(&|ending, good| !good && matches!(ending, PutContent::Abort(_)))
            }
            AbortKind::Invalid | AbortKind::Rejected => false,
        };
        if self.is_item(id) {
            let is_expiry = kind == AbortKind::Expired;
            if is_expiry && !is_justified || by_operator && !is_expiry {
                findings.add(format!("{id} is aborted ({kind:?}) without a cause"));
            }
            return self.item_ends(id, ItemEnd::Aborted(kind), callbacks, findings);
        }
        if !is_justified || (by_operator && kind != AbortKind::Expired) {
            findings.add(format!("{id} is aborted ({kind:?}) without a cause"));
        }
        check_told(id, &entry, kind == AbortKind::Expired, callbacks, findings);
    }

    fn delivered(&mut self, seq: u64, key: CallbackKey, outside: &ObservedMessages, findings: &mut Findings) {
        if self.owed.remove(&key).is_none() {
            findings.add(format!("I6: record {seq} settles callback {key:?}, which is not owed"));
        }
        if !outside.is_delivered(key) {
            findings
                .add(format!("I6: callback {key:?} is recorded as delivered, but no DFSP has accepted it"));
        }
    }

    fn set_parked(&mut self, key: CallbackKey, parked: bool, findings: &mut Findings) {
        match self.owed.get_mut(&key) {
            Some(is_parked) => *is_parked = parked,
            None => findings.add(format!("I6: callback {key:?} is parked or recalled, but it is not owed")),
        }
    }

    pub(super) fn compare(&self, ledger: &Ledger, findings: &mut Findings) {
        let mut sum = 0;
        for account in ledger.accounts() {
            let (owner, kind) = (account.participant.number(), account.kind.0);
            let key = AccountKey { owner, kind, currency: currency_of(account.currency) };
            let mine = self.accounts.get(&key);
            let theirs = i128::from(account.balance.units());
            sum += theirs;
            if mine.is_none_or(|mine| mine.balance != theirs || mine.is_active != account.is_active) {
                findings.add(format!("account {key:?}: the ledger has {theirs}, the auditor {mine:?}"));
            }
        }
        let reserved = self.transfers.values().filter(|entry| entry.standing == TransferStage::Reserved);
        let held = reserved.clone().map(|entry| entry.amount).sum::<i128>() + self.held_by_fx_transfers();
        let withdrawn = self.funds.values().filter(|funds| funds.state == FundsState::Reserved);
        let withdrawn: i128 = withdrawn.map(|funds| i128::from(funds.amount.units())).sum();
        if sum != held + withdrawn {
            findings.add(format!("I1: accounts sum to {sum}, reservations to {}", held + withdrawn));
        }
        if ledger.reserved_len() != reserved.count() {
            findings.add(format!(
                "I5: {} transfers are reserved, not {}",
                ledger.reserved_len(),
                self.reserved()
            ));
        }
        if ledger.live_fx_transfers_len() != self.live_fx_transfers() {
            let (theirs, mine) = (ledger.live_fx_transfers_len(), self.live_fx_transfers());
            findings.add(format!("I5: {theirs} FX transfers are live, not {mine}"));
        }
        self.compare_bulks(ledger, findings);
        self.settling.compare(ledger, self, findings);
        let theirs = ledger.outbox().iter().map(|(key, entry)| (key, entry.parked.is_some()));
        if !theirs.eq(self.owed.iter().map(|(key, is_parked)| (*key, *is_parked))) {
            findings.add(format!(
                "I6: the outbox holds {} callbacks, {} are owed",
                ledger.outbox().len(),
                self.owed.len()
            ));
        }
    }
}

impl Books {
    /// Raises the cap of the account's owner by this amount.
    fn shift_cap(&mut self, account: u32, units: i128) {
        let Some(AccountKey { owner, currency, .. }) = self.numbers.get(&account).copied() else { return };
        if let Some(member) = self.members.get_mut(&owner) {
            member.caps[usize::from(currency)] += units;
        }
    }
}

impl Accounts for Books {
    fn key(&self, account: u32) -> Option<AccountKey> {
        self.numbers.get(&account).copied()
    }

    fn balance(&self, key: AccountKey) -> i128 {
        self.balance(key)
    }

    fn cap(&self, owner: u32, currency: u8) -> i128 {
        self.members.get(&owner).map_or(0, |member| member.caps[usize::from(currency)])
    }
}

/// Checks that a callback is owed to every party that must be notified.
fn check_told(id: TransferId, entry: &Entry, both: bool, callbacks: &[Callback], findings: &mut Findings) {
    let parties = [Some(entry.payer), both.then_some(entry.payee)];
    for party in parties.into_iter().flatten() {
        let is_told = |callback: &&Callback| {
            callback.target.number() == party && callback.subject.transfer_id() == Some(id)
        };
        let count = callbacks.iter().filter(is_told).count();
        if count == 0 {
            findings.add(format!("I6: {id} ends, but participant {party} is not notified"));
        }
    }
}
