//! Reservations: what a payer asked for, carried by whom it is to be, within cover and cap.

use upesi_ledger::{Callback, ParticipantId, Transfer, TransferState};

use super::{Books, Entry, POSITION, SETTLEMENT, Standing, currency_of};
use crate::auditor::outside::SentPrepare;
use crate::auditor::settling::Accounts as _;
use crate::auditor::{Findings, Outside};

impl Books {
    pub(super) fn prepared(
        &mut self,
        seq: u64,
        transfer: &Transfer,
        callbacks: &[Callback],
        outside: &Outside,
        findings: &mut Findings,
    ) {
        let id = transfer.id;
        let item = self.item_now.clone().filter(|(sent, place)| sent.spec.items[*place].id == id);
        if item.is_none() && outside.prepare(id, &transfer.prepare_fingerprint, None).is_none() {
            findings.add(format!("I3: {id} is prepared, but nobody sent that prepare"));
        }
        let number = |party: Option<ParticipantId>| party.map_or(0, |party| party.number());
        let mut entry = Entry {
            standing: if transfer.state == TransferState::Reserved {
                Standing::Reserved
            } else {
                Standing::Aborted
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
        if entry.standing == Standing::Reserved {
            entry.carrier = self.carrier(id, &entry, findings).unwrap_or(entry.carrier);
            self.check_reservation(transfer, &entry, outside, findings);
            let tells_payee = matches!(callbacks, [one] if one.target.number() == entry.payee);
            if tells_payee != item.is_none() || item.is_some() && !callbacks.is_empty() {
                findings.add(format!("I6: {id} is reserved and {} callbacks are owed", callbacks.len()));
            }
            self.account(entry.carrier, POSITION, entry.currency).balance += entry.amount;
        } else {
            let about =
                callbacks.iter().filter(|callback| callback.subject.transfer_id() == Some(id)).count();
            if about != usize::from(item.is_none()) {
                findings.add(format!("I6: {id} is refused and {about} callbacks are owed"));
            }
            // A stranger's copy takes no conversion along.
            if self.source.is_some() && self.source == self.number_of(entry.payer) {
                self.ended_now.push((id, false));
            }
        }
        if self.transfers.insert(id.to_bytes(), entry).is_some() {
            findings.add(format!("I3: {id} is prepared twice"));
        }
    }

    /// A reservation is what its payer asked for, and stays within cover and cap (I4).
    fn check_reservation(
        &self,
        transfer: &Transfer,
        entry: &Entry,
        outside: &Outside,
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
            let account = self.accounts.get(&(party, POSITION, entry.currency));
            if !(is_active(&party) && account.is_some_and(|one| one.is_active)) {
                findings.add(format!("{id} is reserved with an inactive party"));
            }
        }
        if ![entry.payer, entry.payee].iter().all(is_active) {
            findings.add(format!("{id} is reserved, and payer or payee is inactive"));
        }
        self.check_cover(&id.to_string(), (entry.carrier, entry.currency), entry.amount, findings);
    }

    /// What is reserved stays within cover and cap (I4).
    pub(super) fn check_cover(
        &self,
        what: &str,
        (owner, currency): (u32, u8),
        amount: i128,
        findings: &mut Findings,
    ) {
        let cap = self.cap(owner, currency);
        let cover = -self.balance((owner, SETTLEMENT, currency));
        let position = self.balance((owner, POSITION, currency)) + amount;
        if position > cap.min(cover) {
            findings.add(format!("I4: {what} leads to {position}, beyond cap {cap} or cover {cover}"));
        }
    }
}
