//! Obligations: the amounts that commits add to a settlement window, which make up the nets.

use alloc::vec::Vec;

use upesi_types::{Amount, TransferId};

use crate::base::ids::{AccountId, WindowId};
use crate::base::stored::wire_enum;
use crate::money::fx_transfer::{FxTransfer, FxTransferState};
use crate::money::transfer::{Transfer, TransferState};

wire_enum! {
    /// The origin of an obligation.
    ObligationKind {
        /// A committed transfer.
        Transfer = 1 "TRANSFER",
        /// A movement of a committed FX transfer.
        FxTransfer = 2 "FX_TRANSFER",
        /// A fee that was charged for a committed transfer.
        Fee = 3 "FEE",
    }
}

/// An amount that one account owes another in a settlement window. The net of an account is the sum of the amounts with
/// it as debtor minus the sum of the amounts with it as creditor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obligation {
    /// The origin.
    pub kind: ObligationKind,
    /// The id of the transfer or FX transfer.
    pub id: TransferId,
    pub window: WindowId,
    /// The account that owes.
    pub debtor: AccountId,
    /// The account that is owed.
    pub creditor: AccountId,
    /// The amount, in the currency of both accounts.
    pub amount: Amount,
}

impl Transfer {
    /// The obligations that the commit added to a window, including fees. Empty if the commit was settled immediately
    /// and had no fees.
    pub fn obligations(&self) -> Vec<Obligation> {
        let TransferState::Committed(end) = &self.state else { return Vec::new() };
        let own = end.window.zip(self.payer_account).zip(self.payee_account);
        let own = own.map(|((window, debtor), creditor)| Obligation {
            kind: ObligationKind::Transfer,
            id: self.id,
            window,
            debtor,
            creditor,
            amount: self.amount,
        });
        let fees = end.fees.iter().map(|fee| Obligation {
            kind: ObligationKind::Fee,
            id: self.id,
            window: fee.window,
            debtor: fee.payer,
            creditor: fee.payee,
            amount: fee.amount,
        });
        own.into_iter().chain(fees).collect()
    }
}

impl FxTransfer {
    /// The obligations that the commit added to a window. Empty if the commit settled its movements, or if the hub
    /// version that stored the FX transfer did not record their windows.
    pub fn obligations(&self) -> Vec<Obligation> {
        let FxTransferState::Committed { windows: Some(windows), .. } = self.state else { return Vec::new() };
        let Some((reserved, further)) = self.legs() else { return Vec::new() };
        let legs = [(Some(reserved), windows.reserved), (further, windows.further)];
        let noted = legs.into_iter().filter_map(|(leg, window)| leg.zip(window));
        let obligation = noted.map(|(leg, window)| Obligation {
            kind: ObligationKind::FxTransfer,
            id: self.id.id(),
            window,
            debtor: leg.debtor,
            creditor: leg.creditor,
            amount: leg.money.amount,
        });
        obligation.collect()
    }
}
