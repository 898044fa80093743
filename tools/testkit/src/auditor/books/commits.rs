//! What a commit moves: the amount, and the fees of its rules.

use upesi_ledger::Settled;
use upesi_types::{Timestamp, TransferId};

use super::{AccountKey, Books, Entry, POSITION, SETTLEMENT};
use crate::auditor::Findings;

impl Books {
    /// The money of a commit: from position to position, with the open window, or from cover to cover.
    pub(super) fn settle_commit(&mut self, id: TransferId, settled: Settled, findings: &mut Findings) {
        let Some(Entry { carrier, creditor, amount, currency, .. }) =
            self.transfers.get(&id.to_bytes()).cloned()
        else {
            return;
        };
        let leg = ((carrier, POSITION, currency), (creditor, POSITION, currency), amount);
        self.settle_leg(&id.to_string(), leg, settled, findings);
    }

    /// A movement whose debtor carries it takes effect.
    pub(super) fn settle_leg(
        &mut self,
        what: &str,
        (debtor, creditor, amount): (AccountKey, AccountKey, i128),
        settled: Settled,
        findings: &mut Findings,
    ) {
        let number = |account: upesi_ledger::AccountId| self.numbers.get(&account.number()).copied();
        let cover = match settled {
            Settled::InWindow => None,
            Settled::AtOnce { payer, payee } => Some((number(payer), number(payee))),
        };
        let of_cover = |key: AccountKey| (key.0, SETTLEMENT, key.2);
        let is_gross = self.settling.settles_commits(debtor.2);
        let expected = is_gross.then_some((Some(of_cover(debtor)), Some(of_cover(creditor))));
        if cover != expected {
            findings.add(format!("settlement: {what} is settled {settled:?}, its model says {expected:?}"));
        }
        let mut add = |key: AccountKey, amount: i128| self.account(key.0, key.1, key.2).balance += amount;
        if is_gross {
            add(debtor, -amount);
            add(of_cover(debtor), amount);
            add(of_cover(creditor), -amount);
            self.settling.counts.settled_at_once += 1;
        } else {
            add(creditor, -amount);
            self.settling.committed(debtor, creditor, amount);
        }
    }

    /// Notes the fees that a commit owes.
    pub(super) fn owe_fees(&mut self, id: TransferId, at: Timestamp) {
        // Rules of this world are of the scheme's currency.
        if let Some(Entry { payer, payee, amount, currency: 0, .. }) = self.transfers.get(&id.to_bytes()) {
            let parties = (self.liable(*payer), self.liable(*payee));
            self.fees_due = self.settling.fees(parties, *amount, at);
        }
    }

    /// Enters a fee, which is settled with the open window.
    pub(super) fn charged(&mut self, payer: u32, payee: u32, amount: i128) {
        let number = |account: u32| self.numbers.get(&account).copied().unwrap_or_default();
        let (payer, payee) = (number(payer), number(payee));
        self.account(payer.0, payer.1, payer.2).balance += amount;
        self.account(payee.0, payee.1, payee.2).balance -= amount;
        self.settling.committed(payer, payee, amount);
        self.settling.counts.fees += 1;
        self.fees_charged.push((payer, payee, amount));
    }

    /// A record charges the fees that its commits owe, and no others.
    pub(super) fn compare_fees(&mut self, seq: u64, findings: &mut Findings) {
        let (due, charged) = (std::mem::take(&mut self.fees_due), std::mem::take(&mut self.fees_charged));
        if due != charged {
            findings.add(format!("settlement: record {seq} charges {charged:?}, its fees are {due:?}"));
        }
    }
}
