//! Applies the events of FX transfers to the state, and to the positions that carry them.

use alloc::boxed::Box;

use upesi_types::{Amount, FxTransferId, Timestamp};

use crate::base::ids::AccountId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::state::Ledger;
use crate::money::fx_transfer::ended::EndedLink;
use crate::money::fx_transfer::{
    FxTransfer, FxTransferAnswer, FxTransferLeg, FxTransferSide, FxTransferState, LegWindows,
};
use crate::money::transfer::{SettlementMode, Transfer, TransferState};

impl Ledger {
    pub(crate) fn apply_fx_transfer_prepared(
        &mut self,
        seq: u64,
        now: Timestamp,
        fx_transfer: Box<FxTransfer>,
    ) {
        if fx_transfer.is_live() {
            self.fx_transfers.totals.reserved += 1;
            let (reserved, _) = legs(&fx_transfer);
            self.post(reserved.debtor, reserved.money.amount, now);
            self.change_pending(&fx_transfer, |amount| amount);
        } else {
            self.fx_transfers.totals.refused += 1;
            if let FxTransferState::Aborted { kind, cause, .. } = &fx_transfer.state {
                self.note_ended_link(seq, &fx_transfer, *kind, cause);
            }
        }
        self.fx_transfers.insert(seq, fx_transfer);
    }

    pub(crate) fn apply_fx_transfer_fulfilled(
        &mut self,
        id: FxTransferId,
        fulfilment: [u8; 32],
        answer: FxTransferAnswer,
    ) {
        let fx_transfer = self.fx_transfers.live_mut(id);
        assert!(fx_transfer.state == FxTransferState::Reserved, "FX transfer {id} is fulfilled twice");
        fx_transfer.state = FxTransferState::Fulfilled;
        (fx_transfer.fulfilment, fx_transfer.answer) = (Some(fulfilment), Some(answer));
    }

    /// Applies the movements of a commit. The reserved movement is settled. A further movement is carried by its debtor
    /// from now on, or settled immediately.
    pub(crate) fn apply_fx_transfer_committed(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: FxTransferId,
        settled: SettlementMode,
        further_settled: Option<SettlementMode>,
    ) {
        let fx_transfer = self.fx_transfers.live_mut(id).clone();
        assert!(fx_transfer.state == FxTransferState::Fulfilled, "FX transfer {id} is committed unfulfilled");
        let (reserved, further) = legs(&fx_transfer);
        let open = self.windows.open_id();
        let window_of = |settled: SettlementMode| (settled == SettlementMode::InWindow).then_some(open);
        let mut windows = LegWindows { reserved: window_of(settled), further: None };
        let credited = self.settle_leg(now, reserved, settled);
        self.post(credited, reserved.money.amount.negated(), now);
        if let Some(leg) = further {
            let settled = further_settled
                .unwrap_or_else(|| panic!("FX transfer {id} is committed without its second movement"));
            windows.further = window_of(settled);
            let credited = self.settle_leg(now, leg, settled);
            // If the debtor itself is credited immediately, its balance stays the same, even if it could not hold the
            // amount.
            let carried = if credited == leg.debtor { Amount::ZERO } else { leg.money.amount };
            self.post(leg.debtor, carried, now);
            self.post(credited, carried.negated(), now);
        }
        self.change_pending(&fx_transfer, Amount::negated);
        self.fx_transfers.totals.committed += 1;
        self.fx_transfers.finish(seq, id, |fx_transfer| {
            fx_transfer.state = FxTransferState::Committed { at: now, windows: Some(windows) };
        });
    }

    /// Releases the reserved amount.
    pub(crate) fn apply_fx_transfer_aborted(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: FxTransferId,
        kind: AbortKind,
        cause: Cause,
        answer: Option<FxTransferAnswer>,
    ) {
        let fx_transfer = self.fx_transfers.live_mut(id).clone();
        let (reserved, _) = legs(&fx_transfer);
        self.post(reserved.debtor, reserved.money.amount.negated(), now);
        self.change_pending(&fx_transfer, Amount::negated);
        self.fx_transfers.totals.aborted += 1;
        self.fx_transfers.totals.expired += u64::from(kind == AbortKind::Expired);
        self.note_ended_link(seq, &fx_transfer, kind, &cause);
        self.fx_transfers.finish(seq, id, |fx_transfer| {
            fx_transfer.answer = answer.or(fx_transfer.answer);
            fx_transfer.state = FxTransferState::Aborted { kind, cause, at: now };
        });
    }

    /// Records a payer's FX transfer that ended without its transfer. A request from another sender than the initiator
    /// is not recorded.
    fn note_ended_link(&mut self, seq: u64, fx_transfer: &FxTransfer, kind: AbortKind, cause: &Cause) {
        let link = fx_transfer.determining_transfer.zip(fx_transfer.initiator);
        let Some((transfer, payer)) = link.filter(|_| fx_transfer.side == FxTransferSide::Payer) else {
            return;
        };
        // Finished transfers of earlier records may have left memory, so they are not considered.
        let is_reserved = |found: &Transfer| found.state == TransferState::Reserved;
        let is_used = self.transfers.is_finished_by(seq, transfer)
            || self.transfer(transfer).is_some_and(is_reserved)
            || self.bulks.holding(transfer).is_some();
        if *cause != Cause::Hub(Refusal::SourceNotPayer) && !is_used {
            let end = EndedLink { seq, is_expired: kind == AbortKind::Expired };
            self.fx_transfers.ended.insert(transfer, payer, end);
        }
    }

    /// Settles a movement immediately or with the open window. Returns the account that is credited.
    fn settle_leg(&mut self, now: Timestamp, leg: FxTransferLeg, settled: SettlementMode) -> AccountId {
        self.fx_transfers.totals.committed_legs += 1;
        self.settle_commit(now, leg.debtor, leg.creditor, leg.money.amount, settled)
    }

    fn change_pending(&mut self, fx_transfer: &FxTransfer, change: impl Fn(Amount) -> Amount) {
        for (account, amount) in fx_transfer.pending_credits() {
            self.add_pending(account, change(amount));
        }
    }
}

fn legs(fx_transfer: &FxTransfer) -> (FxTransferLeg, Option<FxTransferLeg>) {
    fx_transfer
        .legs()
        .unwrap_or_else(|| panic!("FX transfer {} was reserved without accounts", fx_transfer.id))
}
