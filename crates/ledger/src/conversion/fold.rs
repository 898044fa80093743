//! How events change conversions and the positions that they carry, and questions about them.

use alloc::boxed::Box;

use upesi_types::{Amount, ConversionId, Timestamp};

use super::{Conversion, ConversionAnswer, ConversionLeg, ConversionState};
use crate::Ledger;
use crate::conversion::table::ConversionTotals;
use crate::refusal::Cause;
use crate::transfer::{AbortKind, Settled};

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
        assert!(conversion.state == ConversionState::Reserved, "conversion {id} is fulfilled twice");
        conversion.state = ConversionState::Fulfilled;
        (conversion.fulfilment, conversion.answer) = (Some(fulfilment), Some(answer));
    }

    /// Each movement takes effect: the reserved one is settled, a further one is posted and settled.
    pub(crate) fn apply_conversion_committed(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: ConversionId,
        (settled, further_settled): (Settled, Option<Settled>),
    ) {
        let conversion = self.conversions.live_mut(id).clone();
        assert!(conversion.state == ConversionState::Fulfilled, "conversion {id} is committed unfulfilled");
        let (reserved, further) = legs(&conversion);
        self.settle_leg(now, reserved, settled);
        if let Some(leg) = further {
            let settled = further_settled
                .unwrap_or_else(|| panic!("conversion {id} is committed without its second movement"));
            self.post(leg.debtor, leg.money.amount, now);
            self.settle_leg(now, leg, settled);
        }
        self.change_pending(&conversion, Amount::negated);
        self.conversions.totals.committed += 1;
        self.conversions
            .finish(seq, id, |conversion| conversion.state = ConversionState::Committed { at: now });
    }

    /// What was reserved goes back.
    pub(crate) fn apply_conversion_aborted(
        &mut self,
        seq: u64,
        now: Timestamp,
        id: ConversionId,
        (kind, cause): (AbortKind, Cause),
        answer: Option<ConversionAnswer>,
    ) {
        let conversion = self.conversions.live_mut(id).clone();
        let (reserved, _) = legs(&conversion);
        self.post(reserved.debtor, reserved.money.amount.negated(), now);
        self.change_pending(&conversion, Amount::negated);
        self.conversions.totals.aborted += 1;
        self.conversions.totals.expired += u64::from(kind == AbortKind::Expired);
        self.conversions.finish(seq, id, |conversion| {
            conversion.answer = answer.or(conversion.answer);
            conversion.state = ConversionState::Aborted { kind, cause, at: now };
        });
    }

    /// Settles a movement whose debtor carries it.
    fn settle_leg(&mut self, now: Timestamp, leg: ConversionLeg, settled: Settled) {
        self.conversions.totals.committed_legs += 1;
        let credited = self.settle_commit(now, (leg.debtor, leg.creditor), leg.money.amount, settled);
        self.post(credited, leg.money.amount.negated(), now);
    }

    fn change_pending(&mut self, conversion: &Conversion, change: impl Fn(Amount) -> Amount) {
        for (account, amount) in conversion.pending_credits() {
            self.add_pending(account, change(amount));
        }
    }

    /// A conversion in memory: live, or ended and not yet archived.
    pub fn conversion(&self, id: ConversionId) -> Option<&Conversion> {
        self.conversions.get(id)
    }

    /// The live conversions, oldest deadline first.
    pub fn live_conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.conversions.live()
    }

    /// How many conversions are live.
    pub fn live_conversions_len(&self) -> usize {
        self.conversions.live_len()
    }

    /// The ended conversions in memory, oldest first, with the record that ended each.
    pub fn finished_conversions(&self) -> impl ExactSizeIterator<Item = (u64, &Conversion)> {
        self.conversions.finished()
    }

    /// How many ended conversions wait in memory for the archive.
    pub fn finished_conversions_len(&self) -> usize {
        self.conversions.finished_len()
    }

    /// Takes the conversions that ended at or before `seq` out of memory, as [`Ledger::take_finished`] does transfers.
    pub fn take_finished_conversions(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Conversion>)> {
        self.conversions.drain_finished(seq)
    }

    /// Conversions since the ledger began.
    pub const fn conversion_totals(&self) -> ConversionTotals {
        self.conversions.totals()
    }
}

fn legs(conversion: &Conversion) -> (ConversionLeg, Option<ConversionLeg>) {
    conversion.legs().unwrap_or_else(|| panic!("conversion {} was reserved without accounts", conversion.id))
}
