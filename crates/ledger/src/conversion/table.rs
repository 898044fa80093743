//! The FX transfers in memory: the live ones, and ended ones that are not archived yet.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upesi_types::{Amount, ConversionId, Timestamp, TransferId};

use crate::conversion::ended::EndedLinks;
use crate::conversion::{
    Conversion, ConversionAnswer, ConversionLeg, ConversionSide, ConversionState, LegWindows,
};
use crate::ids::{AccountId, ParticipantId};
use crate::refusal::{Cause, Refusal};
use crate::state::Ledger;
use crate::transfer::{AbortKind, Settled, Transfer, TransferState};

/// Transfer, number of the side, and initiator. It identifies a live FX transfer of a transfer.
type Link = (TransferId, u8, ParticipantId);

/// Totals of FX transfers since the ledger began, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversionTotals {
    /// Requests that were reserved.
    pub reserved: u64,
    /// Requests that were rejected.
    pub refused: u64,
    /// Reserved FX transfers that were committed.
    pub committed: u64,
    /// Reserved FX transfers that were aborted, including expired ones.
    pub aborted: u64,
    /// Aborted FX transfers that expired.
    pub expired: u64,
    /// Movements of committed FX transfers, each in a settlement window or settled immediately.
    pub committed_legs: u64,
}

/// FX transfers by id. Live ones also by determining transfer and by deadline, ended ones by age.
#[derive(Clone, Debug)]
pub(crate) struct Conversions {
    all: HashMap<ConversionId, Box<Conversion>, FixedState>,
    links: HashMap<Link, ConversionId, FixedState>,
    pub(crate) ended: EndedLinks,
    deadlines: BTreeSet<(Timestamp, ConversionId)>,
    finished: VecDeque<(u64, ConversionId)>,
    pub(crate) totals: ConversionTotals,
}

impl Conversions {
    pub(crate) fn new(hash_seed: u64) -> Self {
        Self {
            all: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            links: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            ended: EndedLinks::default(),
            deadlines: BTreeSet::new(),
            finished: VecDeque::new(),
            totals: ConversionTotals::default(),
        }
    }

    pub(crate) const fn totals(&self) -> ConversionTotals {
        self.totals
    }

    /// Whether no FX transfer is live. Checked for each transfer, so it must be fast.
    pub(crate) fn are_none_live(&self) -> bool {
        self.deadlines.is_empty()
    }

    pub(crate) fn live_len(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn get(&self, id: ConversionId) -> Option<&Conversion> {
        self.all.get(&id).map(|conversion| &**conversion)
    }

    /// The live FX transfer of a party for a transfer.
    pub(crate) fn linked(
        &self,
        transfer: TransferId,
        side: ConversionSide,
        party: Option<ParticipantId>,
    ) -> Option<&Conversion> {
        if self.are_none_live() {
            return None;
        }
        self.get(*self.links.get(&(transfer, side.number(), party?))?)
    }

    pub(crate) fn insert(&mut self, seq: u64, conversion: Box<Conversion>) {
        let id = conversion.id;
        if conversion.is_live() {
            self.deadlines.insert((conversion.expires_at, id));
            let previous = self.links.insert(link(&conversion), id);
            assert!(previous.is_none(), "conversion {id} is not the only one of its party for its transfer");
        } else {
            self.finished.push_back((seq, id));
        }
        let previous = self.all.insert(id, conversion);
        assert!(previous.is_none(), "conversion {id} is prepared twice");
    }

    /// A live FX transfer, mutable.
    pub(crate) fn live_mut(&mut self, id: ConversionId) -> &mut Conversion {
        let found = self.all.get_mut(&id).filter(|conversion| conversion.is_live());
        found.unwrap_or_else(|| panic!("conversion {id} changes, but is not live"))
    }

    /// Ends a live FX transfer. `change` sets the final state.
    pub(crate) fn finish(&mut self, seq: u64, id: ConversionId, change: impl FnOnce(&mut Conversion)) {
        let conversion = self.live_mut(id);
        let (place, link) = ((conversion.expires_at, id), link(conversion));
        change(conversion);
        assert!(!conversion.is_live(), "conversion {id} ends live");
        let was_waiting = self.deadlines.remove(&place) && self.links.remove(&link) == Some(id);
        assert!(was_waiting, "conversion {id} had no deadline");
        self.finished.push_back((seq, id));
    }

    /// The live FX transfers, oldest deadline first.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Conversion> {
        self.deadlines.iter().filter_map(|(_, id)| self.get(*id))
    }

    /// The live FX transfers, oldest request first.
    pub(crate) fn live_by_age(&self) -> impl ExactSizeIterator<Item = &Conversion> {
        let mut live: Vec<_> = self.live().collect();
        live.sort_unstable_by_key(|conversion| (conversion.prepare_seq, conversion.id));
        live.into_iter()
    }

    pub(crate) fn oldest_live_seq(&self) -> Option<u64> {
        self.live().map(|conversion| conversion.prepare_seq).min()
    }

    /// The live FX transfers whose deadline is before `now`, oldest deadline first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = &Conversion> {
        let due = self.deadlines.iter().take_while(move |(deadline, _)| *deadline < now);
        due.filter_map(|(_, id)| self.get(*id))
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// The ended FX transfers, oldest first, with the sequence number that ended each.
    pub(crate) fn finished(&self) -> impl ExactSizeIterator<Item = (u64, &Conversion)> {
        self.finished.iter().map(|(seq, id)| {
            let found = self.get(*id);
            (*seq, found.unwrap_or_else(|| unreachable!("a listed conversion is kept")))
        })
    }

    /// Removes the FX transfers that ended at or before `seq`, oldest first, with the sequence number that ended each.
    pub(crate) fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Conversion>)> {
        core::iter::from_fn(move || {
            let (finished, id) = self.finished.pop_front_if(|(finished, _)| *finished <= seq)?;
            Some((finished, self.all.remove(&id)?))
        })
    }
}

fn link(conversion: &Conversion) -> Link {
    match (conversion.determining_transfer, conversion.initiator) {
        (Some(transfer), Some(initiator)) => (transfer, conversion.side.number(), initiator),
        _ => panic!("conversion {} was reserved without its transfer or initiator", conversion.id),
    }
}

// Effects of events on FX transfers and on the positions that carry them, and queries.

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
                self.note_ended_link(seq, &conversion, (*kind, cause));
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
        assert!(conversion.state == ConversionState::Reserved, "conversion {id} is fulfilled twice");
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
        (settled, further_settled): (Settled, Option<Settled>),
    ) {
        let conversion = self.conversions.live_mut(id).clone();
        assert!(conversion.state == ConversionState::Fulfilled, "conversion {id} is committed unfulfilled");
        let (reserved, further) = legs(&conversion);
        let open = self.windows.open_id();
        let window_of = |settled: Settled| (settled == Settled::InWindow).then_some(open);
        let mut windows = LegWindows { reserved: window_of(settled), further: None };
        let credited = self.settle_leg(now, reserved, settled);
        self.post(credited, reserved.money.amount.negated(), now);
        if let Some(leg) = further {
            let settled = further_settled
                .unwrap_or_else(|| panic!("conversion {id} is committed without its second movement"));
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
        (kind, cause): (AbortKind, Cause),
        answer: Option<ConversionAnswer>,
    ) {
        let conversion = self.conversions.live_mut(id).clone();
        let (reserved, _) = legs(&conversion);
        self.post(reserved.debtor, reserved.money.amount.negated(), now);
        self.change_pending(&conversion, Amount::negated);
        self.conversions.totals.aborted += 1;
        self.conversions.totals.expired += u64::from(kind == AbortKind::Expired);
        self.note_ended_link(seq, &conversion, (kind, &cause));
        self.conversions.finish(seq, id, |conversion| {
            conversion.answer = answer.or(conversion.answer);
            conversion.state = ConversionState::Aborted { kind, cause, at: now };
        });
    }

    /// Records a payer's FX transfer that ended without its transfer. A request from another sender than the initiator
    /// is not recorded.
    fn note_ended_link(&mut self, seq: u64, conversion: &Conversion, (kind, cause): (AbortKind, &Cause)) {
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
            let end = (seq, kind == AbortKind::Expired);
            self.conversions.ended.insert((transfer, payer), end);
        }
    }

    /// Settles a movement immediately or with the open window. Returns the account that is credited.
    fn settle_leg(&mut self, now: Timestamp, leg: ConversionLeg, settled: Settled) -> AccountId {
        self.conversions.totals.committed_legs += 1;
        self.settle_commit(now, (leg.debtor, leg.creditor), leg.money.amount, settled)
    }

    fn change_pending(&mut self, conversion: &Conversion, change: impl Fn(Amount) -> Amount) {
        for (account, amount) in conversion.pending_credits() {
            self.add_pending(account, change(amount));
        }
    }

    /// An FX transfer in memory: live, or ended and not yet archived.
    pub fn conversion(&self, id: ConversionId) -> Option<&Conversion> {
        self.conversions.get(id)
    }

    /// The live FX transfers, oldest deadline first.
    pub fn live_conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.conversions.live()
    }

    /// Number of live FX transfers.
    pub fn live_conversions_len(&self) -> usize {
        self.conversions.live_len()
    }

    /// The ended FX transfers in memory, oldest first, with the sequence number of the record that ended each.
    pub fn finished_conversions(&self) -> impl ExactSizeIterator<Item = (u64, &Conversion)> {
        self.conversions.finished()
    }

    /// Number of ended FX transfers in memory that wait for the archive.
    pub fn finished_conversions_len(&self) -> usize {
        self.conversions.finished_len()
    }

    /// Removes the FX transfers that ended at or before `seq` from memory, like [`Ledger::take_finished`] for
    /// transfers.
    pub fn take_finished_conversions(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<Conversion>)> {
        self.conversions.drain_finished(seq)
    }

    /// Totals of FX transfers since the ledger began.
    pub const fn conversion_totals(&self) -> ConversionTotals {
        self.conversions.totals()
    }
}

fn legs(conversion: &Conversion) -> (ConversionLeg, Option<ConversionLeg>) {
    conversion.legs().unwrap_or_else(|| panic!("conversion {} was reserved without accounts", conversion.id))
}
