//! Reservations: they agree with the payer's request, are carried by the right participant, and stay within cover and
//! cap.

use upesi_ledger::{
    Callback, FundsDirection, FundsState, FundsTransfer, ParticipantId, SettlementMode, Transfer,
    TransferState,
};
use upesi_types::{Timestamp, TransferId};

use super::{AccountKey, Books, Entry, Leg, TransferStage, currency_of};
use crate::auditor::outside::SentPrepare;
use crate::auditor::settling::Accounts as _;
use crate::auditor::{Findings, ObservedMessages};

impl Books {
    pub(super) fn prepared(
        &mut self,
        seq: u64,
        transfer: &Transfer,
        callbacks: &[Callback],
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let id = transfer.id;
        let item = self.item_now.clone().filter(|sent| sent.item().id == id);
        if item.is_none() && outside.prepare(id, &transfer.prepare_fingerprint, None).is_none() {
            findings.add(format!("I3: {id} is prepared, but no DFSP sent that prepare"));
        }
        let number = |party: Option<ParticipantId>| party.map_or(0, |party| party.number());
        let mut entry = Entry {
            standing: if transfer.state == TransferState::Reserved {
                TransferStage::Reserved
            } else {
                TransferStage::Aborted
            },
            payer: number(transfer.payer),
            payee: number(transfer.payee),
            carrier: self.liable(number(transfer.payer)),
            creditor: self.liable(number(transfer.payee)),
            currency: currency_of(transfer.currency),
            amount: i128::from(transfer.amount.units()),
            condition: transfer.condition,
            expires_at: transfer.expires_at,
            prepare_seq: transfer.prepare_seq,
            ended_seq: if transfer.state == TransferState::Reserved { 0 } else { seq },
        };
        if entry.standing == TransferStage::Reserved {
            entry.carrier = self.carrier(id, &entry, findings).unwrap_or(entry.carrier);
            self.check_reservation(transfer, &entry, outside, findings);
            let tells_payee = matches!(callbacks, [one] if one.target.number() == entry.payee);
            if tells_payee != item.is_none() || item.is_some() && !callbacks.is_empty() {
                findings.add(format!("I6: {id} is reserved, but {} callbacks are owed", callbacks.len()));
            }
            self.account(AccountKey::position(entry.carrier, entry.currency)).balance += entry.amount;
        } else {
            let about =
                callbacks.iter().filter(|callback| callback.subject.transfer_id() == Some(id)).count();
            if about != usize::from(item.is_none()) {
                findings.add(format!("I6: {id} is rejected, but {about} callbacks are owed"));
            }
            // A copy that another DFSP sent does not end the FX transfer.
            if self.source.is_some() && self.source == self.number_of(entry.payer) {
                self.ended_now.push((id, false));
            }
        }
        if self.transfers.insert(id.to_bytes(), entry).is_some() {
            findings.add(format!("I3: {id} is prepared twice"));
        }
    }

    /// Checks that a reservation is what its payer requested, and that it stays within cover and cap (I4).
    fn check_reservation(
        &self,
        transfer: &Transfer,
        entry: &Entry,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let id = transfer.id;
        let payer = self.number_of(entry.payer);
        let sent = outside.prepare(id, &transfer.prepare_fingerprint, payer);
        let as_sent = |sent: &SentPrepare| {
            Some(sent.payer) == payer
                && Some(sent.payee) == self.number_of(entry.payee)
                && sent.amount == Some(entry.amount)
                && sent.currency == entry.currency
        };
        let is_as_sent = match &self.item_now {
            Some(item) => self.is_item_as_sent(item, transfer, entry),
            None => sent.is_some_and(as_sent),
        };
        if !is_as_sent || payer.is_none() {
            findings.add(format!("I3: {id} is reserved, but that is not what its payer sent"));
        }
        let is_active = |party: &u32| self.members.get(party).is_some_and(|one| one.is_active);
        for party in [entry.carrier, entry.creditor] {
            let account = self.accounts.get(&AccountKey::position(party, entry.currency));
            if !(is_active(&party) && account.is_some_and(|one| one.is_active)) {
                findings.add(format!("{id} is reserved with an inactive party"));
            }
        }
        if ![entry.payer, entry.payee].iter().all(is_active) {
            findings.add(format!("{id} is reserved, but payer or payee is inactive"));
        }
        self.check_cover(&id.to_string(), entry.carrier, entry.currency, entry.amount, findings);
    }

    /// Checks that reserved amounts stay within cover and cap (I4).
    pub(super) fn check_cover(
        &self,
        what: &str,
        owner: u32,
        currency: u8,
        amount: i128,
        findings: &mut Findings,
    ) {
        let cap = self.cap(owner, currency);
        let account = AccountKey::position(owner, currency);
        let (cover, position) = (-self.balance(account.cover()), self.balance(account) + amount);
        if position > cap.min(cover) {
            findings.add(format!("I4: {what} leads to {position}, beyond cap {cap} or cover {cover}"));
        }
    }
}

impl Books {
    /// Enters the money of a commit. It moves from position to position with the open window, or from cover to cover.
    pub(super) fn settle_commit(&mut self, id: TransferId, settled: SettlementMode, findings: &mut Findings) {
        let Some(Entry { carrier, creditor, amount, currency, .. }) =
            self.transfers.get(&id.to_bytes()).cloned()
        else {
            return;
        };
        let [debtor, creditor] = [carrier, creditor].map(|owner| AccountKey::position(owner, currency));
        let leg = Leg { debtor, creditor, amount };
        self.settle_leg(&id.to_string(), leg, settled, findings);
    }

    /// Enters a committed movement that its debtor carries.
    pub(super) fn settle_leg(
        &mut self,
        what: &str,
        leg: Leg,
        settled: SettlementMode,
        findings: &mut Findings,
    ) {
        let Leg { debtor, creditor, amount } = leg;
        let number = |account: upesi_ledger::AccountId| self.numbers.get(&account.number()).copied();
        let cover = match settled {
            SettlementMode::InWindow => None,
            SettlementMode::AtOnce { payer, payee } => Some((number(payer), number(payee))),
        };
        let is_gross = self.settling.settles_commits(debtor.currency);
        let expected = is_gross.then_some((Some(debtor.cover()), Some(creditor.cover())));
        if cover != expected {
            findings
                .add(format!("settlement: {what} is settled {settled:?}, its model requires {expected:?}"));
        }
        let mut add = |key: AccountKey, amount: i128| self.account(key).balance += amount;
        if is_gross {
            add(debtor, -amount);
            add(debtor.cover(), amount);
            add(creditor.cover(), -amount);
            self.settling.counts.settled_at_once += 1;
        } else {
            add(creditor, -amount);
            self.settling.committed(debtor, creditor, amount);
        }
    }

    /// Enters the fees that a commit owes.
    pub(super) fn owe_fees(&mut self, id: TransferId, at: Timestamp) {
        // Fee rules of this world apply to the scheme's currency only.
        if let Some(Entry { payer, payee, amount, currency: 0, .. }) = self.transfers.get(&id.to_bytes()) {
            self.fees_due = self.settling.fees(self.liable(*payer), self.liable(*payee), *amount, at);
        }
    }

    /// Enters a charged fee, which is settled with the open window.
    pub(super) fn charged(&mut self, payer: u32, payee: u32, amount: i128) {
        let number = |account: u32| self.numbers.get(&account).copied().unwrap_or_default();
        let (payer, payee) = (number(payer), number(payee));
        self.account(payer).balance += amount;
        self.account(payee).balance -= amount;
        self.settling.committed(payer, payee, amount);
        self.settling.counts.fees += 1;
        self.fees_charged.push(Leg { debtor: payer, creditor: payee, amount });
    }

    /// Checks that a record charges exactly the fees that its commits owe.
    pub(super) fn compare_fees(&mut self, seq: u64, findings: &mut Findings) {
        let (due, charged) = (std::mem::take(&mut self.fees_due), std::mem::take(&mut self.fees_charged));
        if due != charged {
            findings.add(format!("settlement: record {seq} charges {charged:?}, its fees are {due:?}"));
        }
    }
}

impl Books {
    pub(super) fn funds_prepared(&mut self, funds: &FundsTransfer, findings: &mut Findings) {
        let amount = i128::from(funds.amount.units());
        match (funds.direction, funds.state) {
            (FundsDirection::In, _) => {
                self.add(funds.hub_account.number(), amount);
                self.add(funds.account.number(), -amount);
            }
            (FundsDirection::Out, FundsState::Reserved) => self.add(funds.account.number(), amount),
            (FundsDirection::Out, _) => {}
        }
        if self.funds.insert(funds.id.to_bytes(), funds.clone()).is_some() {
            findings.add(format!("I3: funds {} are moved twice", funds.id));
        }
    }

    pub(super) fn funds_ended(&mut self, id: TransferId, state: FundsState, findings: &mut Findings) {
        let Some(funds) = self.funds.get_mut(&id.to_bytes()) else {
            return findings.add(format!("I5: funds {id} end, but they were never moved"));
        };
        if funds.state != FundsState::Reserved {
            findings.add(format!("I5: funds {id} end twice"));
        }
        funds.state = state;
        let credited = if state == FundsState::Committed { funds.hub_account } else { funds.account };
        let (credited, amount) = (credited.number(), i128::from(funds.amount.units()));
        self.add(credited, -amount);
    }
}
