//! The fees that a commit must charge.

use upesi_ledger::{FeePayer, LedgerAccountTypeId, NoFee, ParticipantId};
use upesi_types::{Amount, TransferId};

use super::Books;
use crate::audit::fees::{FeeDue, charge};
use crate::audit::judge::{InFlight, RecordContext};

impl Books {
    /// The fees of a commit in the order of their rules. The owners of the reserved accounts owe them.
    ///
    /// The second list uses the proxies at the commit: earlier versions charged those.
    pub(super) fn fees_due(
        &self,
        place: RecordContext<'_>,
        id: TransferId,
        transfer: &InFlight,
    ) -> [Vec<FeeDue>; 2] {
        let payers = self.fx_transfers.reserved_account(id, transfer.payer).unwrap_or(transfer.payer_account);
        let [payer, payee] = [payers, transfer.payee_account].map(|account| self.scheme.owner(account));
        let holders = (payer.unwrap_or(transfer.payer), payee.unwrap_or(transfer.payee));
        let present = (transfer.payer, transfer.payee);
        [holders, present].map(|(payer, payee)| self.fees_between(payer, payee, place, id, transfer))
    }

    /// The fees between two participants. A participant without a fee account owes none, and a fee that would overflow
    /// a balance is not charged.
    fn fees_between(
        &self,
        payer: ParticipantId,
        payee: ParticipantId,
        place: RecordContext<'_>,
        id: TransferId,
        transfer: &InFlight,
    ) -> Vec<FeeDue> {
        let Some((currency, _)) = self.scheme.kind(transfer.payer_account) else { return Vec::new() };
        let kind = LedgerAccountTypeId::INTERCHANGE_FEE;
        let account = |party| {
            let id = self.scheme.account_id_of(party, currency, kind)?;
            Some((id, self.scheme.account_of(party, currency, kind)?.units))
        };
        let mut accounts = account(payer).zip(account(payee));
        let most = i128::from(Amount::MAX.units());
        let mut due = Vec::new();
        for rule in self.scheme.fee_rules() {
            let units = charge(rule, currency, transfer, place.time);
            if units <= 0 || units > most {
                continue;
            }
            let owed = match &mut accounts {
                None => Err(NoFee::Account),
                Some((payer, payee)) => {
                    let (from, to) = match rule.terms.paid_by {
                        FeePayer::Payer => (payer, payee),
                        FeePayer::Payee => (payee, payer),
                    };
                    if from.1 + units > most || to.1 - units < -most {
                        Err(NoFee::Room)
                    } else {
                        (from.1, to.1) = (from.1 + units, to.1 - units);
                        Ok((from.0, to.0))
                    }
                }
            };
            due.push(FeeDue { transfer: id, rule: rule.id, units, owed });
        }
        due
    }
}
