use super::*;
use proptest::prelude::*;

const KES: fn() -> Currency = || Currency::parse("KES").unwrap();

fn amount(units: i64) -> Amount {
    Amount::from_units(units).unwrap()
}

#[test]
fn a_payer_owes_what_is_committed_or_reserved() {
    let mut book = Book::default();
    let mut state = None;
    let mut expect = |to, low, high| {
        book.move_outgoing(KES(), amount(500), state, to);
        state = Some(to);
        let expected = book.expected()[&KES()];
        assert_eq!((expected.low, expected.high), (low, high), "{to:?}");
    };
    expect(OutgoingState::Sent, 0, 500);
    expect(OutgoingState::Accepted, 500, 500);
    expect(OutgoingState::Committed, 500, 500);
}

#[test]
fn a_payee_is_owed_only_what_it_fulfilled() {
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
            book.move_incoming(KES(), amount(70), from, to);
            from = Some(to);
        }
        let expected = book.expected()[&KES()];
        assert_eq!((expected.low, expected.high), (low, high), "{path:?}");
    }
}

#[test]
fn a_payee_that_converts_has_nothing_of_the_transfers_currency_left() {
    let usd = Currency::parse("USD").unwrap();
    let mut book = Book::default();
    book.move_incoming(KES(), amount(70), None, IncomingState::Received);
    let mut state = None;
    let mut expect = |book: &mut Book, to, kes: (i128, i128), dollars: (i128, i128)| {
        book.move_sale((amount(70), KES()), (amount(5), usd), state, to);
        state = Some(to);
        let bounds = |currency| (book.expected()[&currency].low, book.expected()[&currency].high);
        assert_eq!((bounds(KES()), bounds(usd)), (kes, dollars), "{to:?}");
    };
    expect(&mut book, OutgoingState::Sent, (0, 70), (-5, 0));
    expect(&mut book, OutgoingState::Accepted, (0, 70), (-5, 0));
    assert_eq!((book.sales_open(), book.outgoing_count(OutgoingState::Accepted)), (1, 0));
    book.move_incoming(KES(), amount(70), Some(IncomingState::Received), IncomingState::Confirmed);
    expect(&mut book, OutgoingState::Committed, (0, 0), (-5, -5));
    assert_eq!((book.sales_open(), book.committed_in(KES()), book.committed_in(usd)), (0, 1, 1));
}

#[test]
fn final_outcomes_do_not_change_and_contradictions_are_noticed() {
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
    /// Whatever arrives in whatever order, the sums equal those of a list of transfers kept naively, and once a
    /// transfer is paid for good it stays paid.
    #[test]
    fn sums_equal_a_naive_list(steps in prop::collection::vec((0_usize..8, any::<bool>(), 0_usize..6), 0..200)) {
        let mut book = Book::default();
        let mut outgoing: [Option<OutgoingState>; 8] = [None; 8];
        let mut incoming: [Option<IncomingState>; 8] = [None; 8];
        let units = |index: usize| 1 + 10_i64.pow(index as u32);
        for (index, is_outgoing, event) in steps {
            let value = amount(units(index));
            if is_outgoing {
                let from = outgoing[index];
                let to = from.map_or(OutgoingState::Sent, |state| state.after(OUTGOING_EVENTS[event % 4]).0);
                prop_assert!(from != Some(OutgoingState::Committed) || to == OutgoingState::Committed);
                book.move_outgoing(KES(), value, from, to);
                outgoing[index] = Some(to);
            } else {
                let from = incoming[index];
                let to = from.map_or(IncomingState::Received, |state| state.after(INCOMING_EVENTS[event]).0);
                prop_assert!(from != Some(IncomingState::Confirmed) || to == IncomingState::Confirmed);
                book.move_incoming(KES(), value, from, to);
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

/// An FXP gives what it sells when the hub says so. For a payee it is reserved from the beginning.
#[test]
fn an_fxp_gives_only_what_the_hub_commits() {
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
            book.move_sold(KES(), amount(90), from, to);
            from = Some(to);
        }
        let expected = book.expected()[&KES()];
        assert_eq!((expected.low, expected.high), (low, high), "{path:?}");
        assert_eq!(expected.paid, if from == Some(IncomingState::Confirmed) { 90 } else { 0 });
    }
}
