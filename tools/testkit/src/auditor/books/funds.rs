//! Money that DFSPs pay in and take out.

use upesi_ledger::{FundsDirection, FundsState, FundsTransfer};
use upesi_types::TransferId;

use super::Books;
use crate::auditor::Findings;

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
            return findings.add(format!("I5: funds {id} end and were never moved"));
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
