//! The books that a DFSP keeps of its own transfers, from the messages that it sent and received.
//!
//! The books are independent of the hub: the audit compares the hub's positions with them. A transfer is in exactly one
//! state at a time. The book holds the sum of the amounts in each state, per currency.

use std::collections::BTreeMap;

use serde::Serialize;
use upesi_types::{Amount, Currency, Money};

/// A transfer as its payer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingState {
    /// The POST was sent; the hub may or may not have accepted it.
    Sent = 0,
    /// The hub answered 202: the amount is reserved until an outcome arrives.
    Accepted = 1,
    /// The callback reported COMMITTED.
    Committed = 2,
    /// Rejected immediately, aborted or expired: the money did not move.
    Aborted = 3,
}

/// A transfer as its payee sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingState {
    /// The POST arrived; no fulfilment has been sent.
    Received = 0,
    /// A right fulfilment was sent; the hub may or may not have accepted it.
    Answered = 1,
    /// The hub accepted a fulfilment with RESERVED; the payee waits for its PATCH.
    AwaitingPatch = 2,
    /// The hub accepted a fulfilment with COMMITTED, which is final for the payee.
    Committed = 3,
    /// The hub confirmed COMMITTED.
    Confirmed = 4,
    /// Rejected by the payee, or rejected, aborted or expired by the hub.
    Aborted = 5,
}

/// A message about an outgoing transfer, for the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingEvent {
    Accepted,
    /// The POST was answered with an error: the hub did not accept it.
    Refused,
    Committed,
    /// A callback reported ABORTED or an error.
    Aborted,
}

/// A message about an incoming transfer, for the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingEvent {
    Answered,
    /// The fulfilment was answered 200 and contained COMMITTED.
    AcceptedAsCommitted,
    /// The fulfilment was answered 200 and contained RESERVED.
    AcceptedAsReserved,
    /// The fulfilment was answered with an error, or the payee rejects the transfer.
    GivenUp,
    HubCommitted,
    /// A message of the hub reported ABORTED or an error.
    HubAborted,
}

/// The meaning of a message for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    First,
    /// The message repeated a known outcome. This is allowed, since delivery is at least once.
    Repeated,
    /// The message contradicts a final outcome: a violation.
    Contradiction,
}

impl OutgoingState {
    /// The state after `event`, and the meaning of the event.
    pub const fn after(self, event: OutgoingEvent) -> (Self, Delivery) {
        use Delivery::{Contradiction, First, Repeated};
        match (self, event) {
            (Self::Sent, OutgoingEvent::Accepted) => (Self::Accepted, First),
            // The callback may overtake the 202.
            (state, OutgoingEvent::Accepted) => (state, Repeated),
            (Self::Sent | Self::Accepted, OutgoingEvent::Committed) => (Self::Committed, First),
            (Self::Sent | Self::Accepted, OutgoingEvent::Aborted | OutgoingEvent::Refused) => {
                (Self::Aborted, First)
            }
            (Self::Committed, OutgoingEvent::Committed) => (self, Repeated),
            (Self::Aborted, OutgoingEvent::Aborted | OutgoingEvent::Refused) => (self, Repeated),
            (Self::Committed, OutgoingEvent::Aborted | OutgoingEvent::Refused)
            | (Self::Aborted, OutgoingEvent::Committed) => (self, Contradiction),
        }
    }

    pub const fn is_final(self) -> bool {
        matches!(self, Self::Committed | Self::Aborted)
    }
}

impl IncomingState {
    /// The state after `event`, and the meaning of the event.
    pub const fn after(self, event: IncomingEvent) -> (Self, Delivery) {
        use Delivery::{Contradiction, First, Repeated};
        match (self, event) {
            (Self::Received, IncomingEvent::Answered) => (Self::Answered, First),
            (Self::Answered, IncomingEvent::AcceptedAsCommitted) => (Self::Committed, First),
            (Self::Answered, IncomingEvent::AcceptedAsReserved) => (Self::AwaitingPatch, First),
            // The hub's message may arrive before this DFSP has entered its own action.
            (
                state,
                IncomingEvent::Answered
                | IncomingEvent::AcceptedAsCommitted
                | IncomingEvent::AcceptedAsReserved,
            ) => (state, Repeated),
            (Self::Received | Self::Answered, IncomingEvent::GivenUp) => (Self::Aborted, First),
            (state, IncomingEvent::GivenUp) => (state, Repeated),
            (Self::Answered | Self::AwaitingPatch | Self::Committed, IncomingEvent::HubCommitted) => {
                (Self::Confirmed, First)
            }
            (Self::Confirmed, IncomingEvent::HubCommitted) => (Self::Confirmed, Repeated),
            // Only this payee knows the fulfilment.
            (Self::Received | Self::Aborted, IncomingEvent::HubCommitted) => (self, Contradiction),
            // An accepted fulfilment may still turn out to be late: the hub reports this with an error.
            (
                Self::Received | Self::Answered | Self::AwaitingPatch | Self::Committed,
                IncomingEvent::HubAborted,
            ) => (Self::Aborted, First),
            (Self::Aborted, IncomingEvent::HubAborted) => (Self::Aborted, Repeated),
            (Self::Confirmed, IncomingEvent::HubAborted) => (Self::Confirmed, Contradiction),
        }
    }

    /// Whether the books need no further event. The hub may still confirm.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Committed | Self::Confirmed | Self::Aborted)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    outgoing: [Sum; 4],
    incoming: [Sum; 6],
    /// Amounts that an FXP sells in FX transfers, by state.
    sold: [Sum; 6],
    /// Amounts that a payee sells in its FX transfers, by state.
    passed_on: [Sum; 4],
    /// Amounts that a payee buys with them.
    bought: [Sum; 4],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    units: i128,
    count: i64,
}

/// Moves an amount from one sum to another, or enters it into one.
fn shift(sums: &mut [Sum], amount: Amount, from: Option<usize>, to: usize) {
    if let Some(from) = from {
        sums[from].units -= i128::from(amount.units());
        sums[from].count -= 1;
    }
    sums[to].units += i128::from(amount.units());
    sums[to].count += 1;
}

/// One DFSP's books: sums in ten-thousandths, per currency and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    pages: BTreeMap<Currency, Page>,
}

/// The hub's position of a DFSP in one currency that follows from the DFSP's own books.
///
/// `low` and `high` differ only while messages are in transit, or if messages were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectedPosition {
    /// Minimum of the position, in ten-thousandths; positive means that the DFSP owes.
    pub low: i128,
    /// Maximum of the position.
    pub high: i128,
    /// The part that is reserved for accepted transfers without an outcome.
    pub reserved: i128,
    pub paid: i128,
    pub received: i128,
}

impl Book {
    /// Enters an outgoing transfer (`from` absent) or moves it to another state. For a payee's FX transfer, `bought` is
    /// the amount that the payee buys.
    pub fn move_outgoing(
        &mut self,
        moved: Money,
        bought: Option<Money>,
        from: Option<OutgoingState>,
        to: OutgoingState,
    ) {
        let Money { amount, currency } = moved;
        let (from, to) = (from.map(|state| state as usize), to as usize);
        match bought {
            None => shift(&mut self.page(currency).outgoing, amount, from, to),
            Some(bought) => {
                shift(&mut self.page(currency).passed_on, amount, from, to);
                shift(&mut self.page(bought.currency).bought, bought.amount, from, to);
            }
        }
    }

    /// Enters an incoming transfer (`from` absent) or moves it to another state. For an FX transfer, `sold` is the
    /// amount that the FXP sells.
    pub fn move_incoming(
        &mut self,
        moved: Money,
        sold: Option<Money>,
        from: Option<IncomingState>,
        to: IncomingState,
    ) {
        let (from, to) = (from.map(|state| state as usize), to as usize);
        shift(&mut self.page(moved.currency).incoming, moved.amount, from, to);
        if let Some(sold) = sold {
            shift(&mut self.page(sold.currency).sold, sold.amount, from, to);
        }
    }

    fn page(&mut self, currency: Currency) -> &mut Page {
        self.pages.entry(currency).or_default()
    }

    /// Number of committed outgoing transfers in a currency, plus the committed movements of payees' FX transfers.
    pub fn committed_in(&self, currency: Currency) -> u64 {
        let committed = |sums: &[Sum; 4]| sums[OutgoingState::Committed as usize].count.unsigned_abs();
        let page = self.pages.get(&currency);
        page.map_or(0, |page| [page.outgoing, page.passed_on, page.bought].iter().map(committed).sum())
    }

    /// Number of payees' FX transfers without an outcome.
    pub fn sales_open(&self) -> u64 {
        let open = [OutgoingState::Sent, OutgoingState::Accepted];
        let of_page = |page: &Page| open.map(|state| page.passed_on[state as usize].count.unsigned_abs());
        self.pages.values().flat_map(of_page).sum()
    }

    /// Number of outgoing transfers in that state, in all currencies.
    pub fn outgoing_count(&self, state: OutgoingState) -> u64 {
        self.pages.values().map(|page| page.outgoing[state as usize].count.unsigned_abs()).sum()
    }

    /// Number of incoming transfers in that state, in all currencies.
    pub fn incoming_count(&self, state: IncomingState) -> u64 {
        self.pages.values().map(|page| page.incoming[state as usize].count.unsigned_abs()).sum()
    }

    /// The position that a correct hub shows, per currency.
    pub fn expected(&self) -> BTreeMap<Currency, ExpectedPosition> {
        self.pages.iter().map(|(currency, page)| (*currency, page.expected())).collect()
    }
}

impl Page {
    fn expected(&self) -> ExpectedPosition {
        let outgoing = |state: OutgoingState| self.outgoing[state as usize].units;
        let incoming = |state: IncomingState| self.incoming[state as usize].units;
        let sold = |state: IncomingState| self.sold[state as usize].units;
        let passed_on = |state: OutgoingState| self.passed_on[state as usize].units;
        let bought = |state: OutgoingState| self.bought[state as usize].units;
        let paid = outgoing(OutgoingState::Committed)
            + sold(IncomingState::Confirmed)
            + passed_on(OutgoingState::Committed);
        let reserved = outgoing(OutgoingState::Accepted);
        let received = incoming(IncomingState::Committed)
            + incoming(IncomingState::Confirmed)
            + bought(OutgoingState::Committed);
        let certain = paid + reserved - received;
        let unsure = [IncomingState::Answered, IncomingState::AwaitingPatch];
        let unsure_incoming: i128 = unsure.into_iter().map(incoming).sum();
        // If the initiator is a payee, the FXP's amount is reserved before the FXP has answered.
        let unsure_sold: i128 = unsure.into_iter().chain([IncomingState::Received]).map(sold).sum();
        // The amount that a payee sells moves with its transfer.
        let open = [OutgoingState::Sent, OutgoingState::Accepted];
        let unsure_bought: i128 = open.into_iter().map(bought).sum();
        let unsure_passed_on: i128 = open.into_iter().map(passed_on).sum();
        ExpectedPosition {
            low: certain - unsure_incoming - unsure_bought,
            high: certain + outgoing(OutgoingState::Sent) + unsure_sold + unsure_passed_on,
            reserved,
            paid,
            received,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KES: fn() -> Currency = || Currency::parse("KES").unwrap();

    fn money(units: i64, currency: Currency) -> Money {
        Money { amount: Amount::from_units(units).unwrap(), currency }
    }

    #[test]
    fn payer_owes_committed_and_reserved_amounts() {
        let mut book = Book::default();
        let mut state = None;
        let mut expect = |to, low, high| {
            book.move_outgoing(money(500, KES()), None, state, to);
            state = Some(to);
            let expected = book.expected()[&KES()];
            assert_eq!((expected.low, expected.high), (low, high), "{to:?}");
        };
        expect(OutgoingState::Sent, 0, 500);
        expect(OutgoingState::Accepted, 500, 500);
        expect(OutgoingState::Committed, 500, 500);
    }

    #[test]
    fn payee_is_owed_only_fulfilled_amounts() {
        for (path, low, high) in [
            (&[IncomingState::Received][..], 0, 0),
            (&[IncomingState::Received, IncomingState::Answered], -70, 0),
            (&[IncomingState::Received, IncomingState::Answered, IncomingState::AwaitingPatch], -70, 0),
            (&[IncomingState::Received, IncomingState::Answered, IncomingState::Committed], -70, -70),
            (&[IncomingState::Received, IncomingState::Answered, IncomingState::Confirmed], -70, -70),
            (&[IncomingState::Received, IncomingState::Aborted], 0, 0),
        ] {
            let mut book = Book::default();
            let mut from = None;
            for &to in path {
                book.move_incoming(money(70, KES()), None, from, to);
                from = Some(to);
            }
            let expected = book.expected()[&KES()];
            assert_eq!((expected.low, expected.high), (low, high), "{path:?}");
        }
    }

    #[test]
    fn converting_payee_keeps_nothing_in_the_transfers_currency() {
        let usd = Currency::parse("USD").unwrap();
        let mut book = Book::default();
        book.move_incoming(money(70, KES()), None, None, IncomingState::Received);
        let mut state = None;
        let mut expect = |book: &mut Book, to, kes: (i128, i128), dollars: (i128, i128)| {
            book.move_outgoing(money(70, KES()), Some(money(5, usd)), state, to);
            state = Some(to);
            let bounds = |currency| (book.expected()[&currency].low, book.expected()[&currency].high);
            assert_eq!((bounds(KES()), bounds(usd)), (kes, dollars), "{to:?}");
        };
        expect(&mut book, OutgoingState::Sent, (0, 70), (-5, 0));
        expect(&mut book, OutgoingState::Accepted, (0, 70), (-5, 0));
        assert_eq!((book.sales_open(), book.outgoing_count(OutgoingState::Accepted)), (1, 0));
        let received = Some(IncomingState::Received);
        book.move_incoming(money(70, KES()), None, received, IncomingState::Confirmed);
        expect(&mut book, OutgoingState::Committed, (0, 0), (-5, -5));
        assert_eq!((book.sales_open(), book.committed_in(KES()), book.committed_in(usd)), (0, 1, 1));
    }

    #[test]
    fn contradiction_of_a_final_outcome_is_found() {
        use OutgoingEvent as E;
        use OutgoingState as S;
        for (state, event, after, delivery) in [
            (S::Sent, E::Accepted, S::Accepted, Delivery::First),
            (S::Sent, E::Committed, S::Committed, Delivery::First),
            (S::Committed, E::Accepted, S::Committed, Delivery::Repeated),
            (S::Accepted, E::Aborted, S::Aborted, Delivery::First),
            (S::Committed, E::Committed, S::Committed, Delivery::Repeated),
            (S::Aborted, E::Aborted, S::Aborted, Delivery::Repeated),
            (S::Committed, E::Aborted, S::Committed, Delivery::Contradiction),
            (S::Aborted, E::Committed, S::Aborted, Delivery::Contradiction),
        ] {
            assert_eq!(state.after(event), (after, delivery), "{state:?} {event:?}");
        }
        use IncomingEvent as I;
        use IncomingState as T;
        for (state, event, after, delivery) in [
            (T::Received, I::Answered, T::Answered, Delivery::First),
            (T::Answered, I::AcceptedAsCommitted, T::Committed, Delivery::First),
            (T::Answered, I::AcceptedAsReserved, T::AwaitingPatch, Delivery::First),
            (T::Answered, I::HubCommitted, T::Confirmed, Delivery::First),
            (T::Confirmed, I::AcceptedAsReserved, T::Confirmed, Delivery::Repeated),
            (T::AwaitingPatch, I::HubAborted, T::Aborted, Delivery::First),
            (T::Committed, I::HubAborted, T::Aborted, Delivery::First),
            (T::Committed, I::HubCommitted, T::Confirmed, Delivery::First),
            (T::Confirmed, I::HubAborted, T::Confirmed, Delivery::Contradiction),
            (T::Received, I::HubCommitted, T::Received, Delivery::Contradiction),
            (T::Aborted, I::HubCommitted, T::Aborted, Delivery::Contradiction),
            (T::Received, I::HubAborted, T::Aborted, Delivery::First),
            (T::Aborted, I::GivenUp, T::Aborted, Delivery::Repeated),
        ] {
            assert_eq!(state.after(event), (after, delivery), "{state:?} {event:?}");
        }
    }

    const OUTGOING_EVENTS: [OutgoingEvent; 4] =
        [OutgoingEvent::Accepted, OutgoingEvent::Refused, OutgoingEvent::Committed, OutgoingEvent::Aborted];
    const INCOMING_EVENTS: [IncomingEvent; 6] = [
        IncomingEvent::Answered,
        IncomingEvent::AcceptedAsCommitted,
        IncomingEvent::AcceptedAsReserved,
        IncomingEvent::GivenUp,
        IncomingEvent::HubCommitted,
        IncomingEvent::HubAborted,
    ];

    proptest! {
        /// For all messages in all orders, the sums equal the sums over a naive list of transfers, and a transfer that
        /// is finally paid stays paid.
        #[test]
        fn sums_equal_a_naive_list(steps in prop::collection::vec((0_usize..8, any::<bool>(), 0_usize..6), 0..200)) {
            let mut book = Book::default();
            let mut outgoing: [Option<OutgoingState>; 8] = [None; 8];
            let mut incoming: [Option<IncomingState>; 8] = [None; 8];
            let units = |index: usize| 1 + 10_i64.pow(index as u32);
            for (index, is_outgoing, event) in steps {
                let moved = money(units(index), KES());
                if is_outgoing {
                    let from = outgoing[index];
                    let to = from.map_or(OutgoingState::Sent, |state| state.after(OUTGOING_EVENTS[event % 4]).0);
                    prop_assert!(from != Some(OutgoingState::Committed) || to == OutgoingState::Committed);
                    book.move_outgoing(moved, None, from, to);
                    outgoing[index] = Some(to);
                } else {
                    let from = incoming[index];
                    let to = from.map_or(IncomingState::Received, |state| state.after(INCOMING_EVENTS[event]).0);
                    prop_assert!(from != Some(IncomingState::Confirmed) || to == IncomingState::Confirmed);
                    book.move_incoming(moved, None, from, to);
                    incoming[index] = Some(to);
                }
            }
            let sum_out = |wanted: &[OutgoingState]| (0..8)
                .filter(|index| outgoing[*index].is_some_and(|state| wanted.contains(&state)))
                .map(|index| i128::from(units(index))).sum::<i128>();
            let sum_in = |wanted: &[IncomingState]| (0..8)
                .filter(|index| incoming[*index].is_some_and(|state| wanted.contains(&state)))
                .map(|index| i128::from(units(index))).sum::<i128>();
            let certain = sum_out(&[OutgoingState::Accepted, OutgoingState::Committed])
                - sum_in(&[IncomingState::Committed, IncomingState::Confirmed]);
            let (low, high) = book.expected().get(&KES()).map_or((0, 0), |expected| (expected.low, expected.high));
            prop_assert_eq!(low, certain - sum_in(&[IncomingState::Answered, IncomingState::AwaitingPatch]));
            prop_assert_eq!(high, certain + sum_out(&[OutgoingState::Sent]));
        }
    }

    /// An FXP's position includes the sold amount when the hub confirms it. If the initiator is a payee, the amount is
    /// reserved from the start.
    #[test]
    fn fxp_owes_only_committed_amounts() {
        let usd = Currency::parse("USD").unwrap();
        for (path, low, high) in [
            (&[IncomingState::Received][..], 0, 90),
            (&[IncomingState::Received, IncomingState::Answered], 0, 90),
            (&[IncomingState::Received, IncomingState::Answered, IncomingState::AwaitingPatch], 0, 90),
            (&[IncomingState::Received, IncomingState::Answered, IncomingState::Confirmed], 90, 90),
            (&[IncomingState::Received, IncomingState::Answered, IncomingState::Aborted], 0, 0),
        ] {
            let mut book = Book::default();
            let mut from = None;
            for &to in path {
                book.move_incoming(money(7, usd), Some(money(90, KES())), from, to);
                from = Some(to);
            }
            let expected = book.expected()[&KES()];
            assert_eq!((expected.low, expected.high), (low, high), "{path:?}");
            assert_eq!(expected.paid, if from == Some(IncomingState::Confirmed) { 90 } else { 0 });
        }
    }
}
