//! Applies the events of FX transfers to the state, and to the positions that carry them.

use alloc::boxed::Box;

use upesi_types::{Amount, ConversionId, Timestamp};

use crate::base::ids::AccountId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::state::Ledger;
use crate::money::conversion::ended::EndedLink;
use crate::money::conversion::{
    Conversion, ConversionAnswer, ConversionLeg, ConversionSide, ConversionState, LegWindows,
};
use crate::money::transfer::{Settled, Transfer, TransferState};

impl Ledger {
    pub(crate) fn apply_conversion_prepared(
        &mut self,
        seq: u64,
        now: Timestamp,
        conversion: Box<Conversion>,
    ) {
        if conversion.is_live() {
            self.conversions.totals.reserved += 1;
            let (reserved, _) = legs(&conversion);
            self.post(reserved.debtor, reserved.money.amount, now);
            self.change_pending(&conversion, |amount| amount);
        } else {
            self.conversions.totals.refused += 1;
            if let ConversionState::Aborted { kind, cause, .. } = &conversion.state {
                self.note_ended_link(seq, &conversion, *kind, cause);
            }
        }
        self.conversions.insert(seq, conversion);
    }

    pub(crate) fn apply_conversion_fulfilled(
        &mut self,
        id: ConversionId,
        fulfilment: [u8; 32],
        answer: ConversionAnswer,
    ) {
        let conversion = self.conversions.live_mut(id);
        assert!(conversion.state == ConversionState::Reserved, "FX transfer {id} is fulfilled twice");
        conversion.state = ConversionState::Fulfilled;
        (conversion.fulfilment, conversion.answer) = (Some(fulfilment), Some(answer));
    }

    /// Applies the movements of a commit. The reserved movement is settled. A further movement is carried by its debtor
    /// from now on, or settled immediately.
    pub(crate) fn apply_conversion_committed(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: ConversionId,
        settled: Settled,
        further_settled: Option<Settled>,
    ) {
        let conversion = self.conversions.live_mut(id).clone();
        assert!(conversion.state == ConversionState::Fulfilled, "FX transfer {id} is committed unfulfilled");
        let (reserved, further) = legs(&conversion);
        let open = self.windows.open_id();
        let window_of = |settled: Settled| (settled == Settled::InWindow).then_some(open);
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
        self.change_pending(&conversion, Amount::negated);
        self.conversions.totals.committed += 1;
        self.conversions.finish(seq, id, |conversion| {
            conversion.state = ConversionState::Committed { at: now, windows: Some(windows) };
        });
    }

    /// Releases the reserved amount.
    pub(crate) fn apply_conversion_aborted(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: ConversionId,
        kind: AbortKind,
        cause: Cause,
        answer: Option<ConversionAnswer>,
    ) {
        let conversion = self.conversions.live_mut(id).clone();
        let (reserved, _) = legs(&conversion);
        self.post(reserved.debtor, reserved.money.amount.negated(), now);
        self.change_pending(&conversion, Amount::negated);
        self.conversions.totals.aborted += 1;
        self.conversions.totals.expired += u64::from(kind == AbortKind::Expired);
        self.note_ended_link(seq, &conversion, kind, &cause);
        self.conversions.finish(seq, id, |conversion| {
            conversion.answer = answer.or(conversion.answer);
            conversion.state = ConversionState::Aborted { kind, cause, at: now };
        });
    }

    /// Records a payer's FX transfer that ended without its transfer. A request from another sender than the initiator
    /// is not recorded.
    fn note_ended_link(&mut self, seq: u64, conversion: &Conversion, kind: AbortKind, cause: &Cause) {
        let link = conversion.determining_transfer.zip(conversion.initiator);
        let Some((transfer, payer)) = link.filter(|_| conversion.side == ConversionSide::Payer) else {
            return;
        };
        // Finished transfers of earlier records may have left memory, so they are not considered.
        let is_reserved = |found: &Transfer| found.state == TransferState::Reserved;
        let is_used = self.transfers.is_finished_by(seq, transfer)
            || self.transfer(transfer).is_some_and(is_reserved)
            || self.bulks.holding(transfer).is_some();
        if *cause != Cause::Hub(Refusal::SourceNotPayer) && !is_used {
            let end = EndedLink { seq, is_expired: kind == AbortKind::Expired };
            self.conversions.ended.insert(transfer, payer, end);
        }
    }

    /// Settles a movement immediately or with the open window. Returns the account that is credited.
    fn settle_leg(&mut self, now: Timestamp, leg: ConversionLeg, settled: Settled) -> AccountId {
        self.conversions.totals.committed_legs += 1;
        self.settle_commit(now, leg.debtor, leg.creditor, leg.money.amount, settled)
    }

    fn change_pending(&mut self, conversion: &Conversion, change: impl Fn(Amount) -> Amount) {
        for (account, amount) in conversion.pending_credits() {
            self.add_pending(account, change(amount));
        }
    }
}

fn legs(conversion: &Conversion) -> (ConversionLeg, Option<ConversionLeg>) {
    conversion.legs().unwrap_or_else(|| panic!("FX transfer {} was reserved without accounts", conversion.id))
}
