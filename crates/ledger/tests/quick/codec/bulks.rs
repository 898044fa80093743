//! Bulk transfers of every kind.

use proptest::prelude::*;
use upesi_ledger::{
    AskedItem, Bulk, BulkAnswer, BulkItem, BulkRequest, BulkState, BulkView, CallbackContent, Event,
    ItemOutcome, ItemResult, ItemState, PublicBulkState,
};
use upesi_types::{AmountError, BulkId, UnfitAmount};

use super::{amount, cause, currency, name, participant_id, text, timestamp, transfer_id};

fn extensions() -> impl Strategy<Value = Option<Box<str>>> {
    proptest::option::of(text())
}

fn asked_item() -> impl Strategy<Value = AskedItem> {
    let unfit = text().prop_map(|text| Err(UnfitAmount { error: AmountError::Scale, text }));
    let amount = prop_oneof![amount().prop_map(Ok), unfit];
    (amount, currency(), text(), any::<Option<[u8; 32]>>(), extensions()).prop_map(
        |(amount, currency, ilp_packet, condition, extensions)| AskedItem {
            amount,
            currency,
            ilp_packet,
            condition,
            extensions,
        },
    )
}

fn item() -> impl Strategy<Value = BulkItem> {
    let state = prop_oneof![
        Just(ItemState::Waiting),
        cause().prop_map(ItemState::Refused),
        Just(ItemState::Accepted),
        (any::<[u8; 32]>(), extensions())
            .prop_map(|(fulfilment, extensions)| ItemState::Committed { fulfilment, extensions }),
        cause().prop_map(ItemState::Aborted),
    ];
    (transfer_id(), proptest::option::of(asked_item()), state).prop_map(|(transfer, asked, state)| BulkItem {
        transfer,
        asked: asked.map(Box::new),
        state,
    })
}

fn result() -> impl Strategy<Value = ItemResult> {
    prop_oneof![
        (any::<[u8; 32]>(), extensions())
            .prop_map(|(fulfilment, extensions)| ItemResult::Fulfil { fulfilment, extensions }),
        cause().prop_map(ItemResult::Abort),
    ]
}

fn answer() -> impl Strategy<Value = BulkAnswer> {
    (any::<bool>(), any::<[u8; 16]>(), extensions(), proptest::option::of(cause())).prop_map(
        |(is_error, fingerprint, extensions, cause)| BulkAnswer { is_error, fingerprint, extensions, cause },
    )
}

fn bulk() -> impl Strategy<Value = Bulk> {
    let state = prop_oneof![
        Just(BulkState::Received),
        Just(BulkState::Accepted),
        Just(BulkState::Processing),
        timestamp().prop_map(|at| BulkState::Completed { at }),
        (proptest::option::of(cause()), timestamp())
            .prop_map(|(cause, at)| BulkState::Rejected { cause, at }),
    ];
    let ids = (transfer_id(), transfer_id());
    let parties = (proptest::option::of(participant_id()), proptest::option::of(participant_id()));
    let request = (timestamp(), timestamp(), any::<u64>(), any::<[u8; 16]>(), extensions());
    let results = proptest::collection::btree_map(any::<u32>(), result(), 0..3);
    let rest = (proptest::collection::vec(item(), 0..3), proptest::option::of(answer()), results, state);
    (ids, parties, request, rest).prop_map(|((id, quote), (payer, payee), request, rest)| Bulk {
        id: BulkId::new(id),
        quote,
        payer,
        payee,
        expires_at: request.0,
        received_at: request.1,
        prepare_seq: request.2,
        prepare_fingerprint: request.3,
        extensions: request.4,
        items: rest.0,
        answer: rest.1,
        results: rest.2,
        state: rest.3,
    })
}

pub fn bulk_events() -> impl Strategy<Value = Event> {
    let id = || transfer_id().prop_map(BulkId::new);
    let refused = || proptest::option::of(cause());
    let results = proptest::collection::btree_map(any::<u32>(), result(), 0..3);
    prop_oneof![
        bulk().prop_map(|bulk| Event::BulkReceived(Box::new(bulk))),
        (id(), any::<u32>(), refused()).prop_map(|(id, place, refused)| Event::BulkItemDecided {
            id,
            place,
            refused
        }),
        id().prop_map(|id| Event::BulkAccepted { id }),
        (id(), answer(), results, any::<u32>()).prop_map(|(id, answer, results, ignored)| {
            Event::BulkAnswered { id, answer, results, ignored }
        }),
        (id(), refused()).prop_map(|(id, cause)| Event::BulkEnded { id, cause }),
    ]
}

pub fn contents() -> impl Strategy<Value = CallbackContent> {
    let items = proptest::collection::vec((transfer_id(), asked_item()), 0..3);
    let request = (transfer_id(), name(), name(), timestamp(), items, extensions()).prop_map(
        |(quote, payer, payee, expires_at, items, extensions)| {
            let request = BulkRequest { quote, payer, payee, expires_at, items, extensions };
            CallbackContent::BulkRequest(Box::new(request))
        },
    );
    let outcome = prop_oneof![
        Just(ItemOutcome::Open),
        (any::<[u8; 32]>(), extensions())
            .prop_map(|(fulfilment, extensions)| ItemOutcome::Fulfilled { fulfilment, extensions }),
        cause().prop_map(ItemOutcome::Failed),
    ];
    let items = proptest::collection::vec((transfer_id(), outcome), 0..3);
    let state = proptest::sample::select(PublicBulkState::ALL);
    let view = (state, proptest::option::of(timestamp()), items, extensions()).prop_map(
        |(state, completed_at, items, extensions)| {
            CallbackContent::BulkState(Box::new(BulkView { state, completed_at, items, extensions }))
        },
    );
    prop_oneof![request, view]
}
