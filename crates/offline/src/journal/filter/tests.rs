use upesi_ledger::{
    AbortKind, Aborted, AccountId, Actor, BindingKind, Block, Bulk, BulkAnswer, BulkItem, BulkState,
    Callback, CallbackContent, Cause, EndpointType, FundsDirection, FundsState, FundsTransfer, FxTransfer,
    FxTransferAnswer, FxTransferSide, FxTransferState, ItemState, Ledger, LedgerAccountTypeId, LedgerConfig,
    NoFee, Payload, Refusal, SettlementMode, Subject, Transfer,
};
use upesi_types::{Amount, Currency, Money};

use super::*;

const AT: Timestamp = Timestamp::from_ms(0);

fn id(number: u8) -> TransferId {
    TransferId::from_random_bytes([number; 16])
}

fn participant(number: u32) -> ParticipantId {
    ParticipantId::new(number).unwrap()
}

fn account(number: u32) -> AccountId {
    AccountId::new(number).unwrap()
}

fn kes() -> Currency {
    Currency::parse("KES").unwrap()
}

/// Greenbank (2) has account 5, bluebank (3) account 6. Account 4 belongs to another participant.
fn names() -> Names {
    let mut names = Names::of(&Ledger::new(LedgerConfig::default()));
    for (number, name) in [(2, "greenbank"), (3, "bluebank")] {
        let name = FspId::parse(name).unwrap();
        names.learn(&Event::ParticipantCreated { id: participant(number), name, is_proxy: false });
        names.learn(&Event::AccountCreated {
            id: account(number + 3),
            participant: participant(number),
            currency: kes(),
            kind: LedgerAccountTypeId::POSITION,
            is_opened: true,
        });
    }
    let (kind, value) = (BindingKind::SpkiSha256, upesi_types::hex(&[7; 32]).into());
    names.learn(&Event::BindingAdded { participant: participant(2), kind, value });
    names
}

fn transfer(number: u8, state: TransferState) -> Event {
    Event::TransferPrepared(Transfer {
        id: id(number),
        payer: Some(participant(2)),
        payee: Some(participant(3)),
        payer_account: None,
        payee_account: None,
        amount: Amount::ZERO,
        currency: kes(),
        condition: [0; 32],
        expires_at: AT,
        prepared_at: AT,
        prepare_seq: 1,
        prepare_fingerprint: [0; 16],
        extensions: None,
        state,
    })
}

fn committed(number: u8) -> Event {
    Event::TransferCommitted {
        id: id(number),
        fulfilment: [0; 32],
        fingerprint: [0; 16],
        extensions: None,
        settled: SettlementMode::InWindow,
    }
}

fn aborted(number: u8) -> Event {
    Event::TransferAborted {
        id: id(number),
        kind: AbortKind::Invalid,
        cause: Cause::Hub(Refusal::Expired),
        fingerprint: None,
        operator_reason: None,
    }
}

fn ended(number: u8) -> Event {
    Event::FundsEnded { id: id(number), state: FundsState::Committed, reason: "x".into() }
}

/// A withdrawal of greenbank.
fn funds(number: u8) -> Event {
    Event::FundsPrepared(FundsTransfer {
        id: id(number),
        direction: FundsDirection::Out,
        participant: participant(2),
        account: account(4),
        hub_account: account(4),
        amount: Amount::ZERO,
        currency: kes(),
        external_reference: "x".into(),
        reason: "x".into(),
        extensions: None,
        fingerprint: [0; 16],
        state: FundsState::Reserved,
        created_at: AT,
        changed_at: AT,
        expires_at: AT,
    })
}

/// Greenbank converts for transfer 7, and bluebank is the FXP.
fn fx_transfer(number: u8, state: FxTransferState) -> Event {
    let money = Money { amount: Amount::ZERO, currency: kes() };
    Event::FxTransferPrepared(Box::new(FxTransfer {
        id: FxTransferId::new(id(number)),
        determining_transfer: Some(id(7)),
        side: FxTransferSide::Payer,
        initiator: Some(participant(2)),
        fxp: Some(participant(3)),
        source: money,
        target: money,
        accounts: None,
        condition: [0; 32],
        expires_at: AT,
        prepared_at: AT,
        prepare_seq: 1,
        prepare_fingerprint: [0; 16],
        fulfilment: None,
        answer: None,
        state,
    }))
}

fn fx_transfer_fulfilled(number: u8) -> Event {
    let answer = FxTransferAnswer { is_error: false, fingerprint: [0; 16] };
    Event::FxTransferFulfilled { id: FxTransferId::new(id(number)), fulfilment: [0; 32], answer }
}

fn fx_transfer_committed(number: u8) -> Event {
    let settled = SettlementMode::InWindow;
    Event::FxTransferCommitted { id: FxTransferId::new(id(number)), settled, further: None }
}

fn fx_transfer_aborted(number: u8) -> Event {
    let (kind, cause) = (AbortKind::Invalid, Cause::Hub(Refusal::Expired));
    Event::FxTransferAborted { id: FxTransferId::new(id(number)), kind, cause, answer: None }
}

/// Greenbank pays bluebank. Transfer 7 is the only item.
fn bulk(number: u8, state: BulkState) -> Event {
    Event::BulkReceived(Box::new(Bulk {
        id: BulkId::new(id(number)),
        quote: id(8),
        payer: Some(participant(2)),
        payee: Some(participant(3)),
        expires_at: AT,
        received_at: AT,
        prepare_seq: 1,
        prepare_fingerprint: [0; 16],
        extensions: None,
        items: vec![BulkItem { transfer: id(7), asked: None, state: ItemState::Waiting }],
        answer: None,
        results: [].into(),
        state,
    }))
}

/// Events of a bulk transfer, in order. The last one is its end.
fn of_bulk(number: u8) -> [Event; 4] {
    let id = BulkId::new(id(number));
    let answer = BulkAnswer { is_error: false, fingerprint: [0; 16], extensions: None, cause: None };
    [
        Event::BulkItemDecided { id, place: 0, refused: None },
        Event::BulkAccepted { id },
        Event::BulkAnswered { id, answer, results: [].into(), ignored: 0 },
        Event::BulkEnded { id, cause: None },
    ]
}

fn fee(number: u8, payer: u32, payee: u32) -> Event {
    let (payer, payee) = (account(payer), account(payee));
    Event::FeeCharged { transfer: id(number), rule: 1, payer, payee, amount: Amount::ZERO }
}

fn record(events: Vec<Event>, callbacks: Vec<Callback>) -> Record<'static> {
    Record { actor: Actor::Operator, events, callbacks, payload: Payload::default() }
}

fn told(target: u32, subject: Subject) -> Callback {
    Callback { target: participant(target), subject, content: CallbackContent::ForwardPrepare }
}

fn key(target: u32) -> CallbackKey {
    CallbackKey { target: participant(target), seq: 9, index: 0 }
}

/// Whether a record with only this event, and without a callback, concerns greenbank, and whether it concerns bluebank.
fn concern(event: &Event) -> [bool; 2] {
    [2, 3].map(|number| {
        RecordFilter::new(Filter::default()).event_concerns(participant(number), event, &names())
    })
}

#[test]
fn event_concerns_named_participants_and_owners_of_accounts() {
    let (green, blue) = (participant(2), participant(3));
    let kind = EndpointType::TRANSFER_POST;
    let (none, both) = ([false; 2], [true; 2]);
    for (event, expected) in [
        (transfer(1, TransferState::Reserved), both),
        (
            Event::ParticipantCreated {
                id: green,
                name: FspId::parse("greenbank").unwrap(),
                is_proxy: false,
            },
            [true, false],
        ),
        (Event::ParticipantActivitySet { id: blue, is_active: false }, [false, true]),
        (Event::AccountOpened { id: account(5) }, [true, false]),
        (Event::AccountActivitySet { id: account(6), is_active: false }, [false, true]),
        (Event::AccountOpened { id: account(4) }, none),
        (Event::Posted { debit: account(5), credit: account(4), amount: Amount::ZERO }, [true, false]),
        (Event::Posted { debit: account(4), credit: account(6), amount: Amount::ZERO }, [false, true]),
        (Event::Posted { debit: account(4), credit: account(4), amount: Amount::ZERO }, none),
        (fee(1, 5, 4), [true, false]),
        (fee(1, 4, 6), [false, true]),
        (funds(1), [true, false]),
        (fx_transfer(1, FxTransferState::Reserved), both),
        (bulk(1, BulkState::Received), both),
        (Event::EndpointSet { participant: blue, kind, value: "x".into() }, [false, true]),
        (
            Event::LimitSet {
                participant: green,
                currency: kes(),
                value: Amount::ZERO,
                alarm_basis_points: 0,
            },
            [true, false],
        ),
        (Event::CallbacksDelivered(vec![key(1), key(2)]), [true, false]),
        (Event::BlockSet { block: Block::Participant(FspId::parse("bluebank").unwrap()) }, [false, true]),
        (Event::BlockSet { block: Block::Participant(FspId::parse("other").unwrap()) }, none),
        // The key is bound to greenbank. As the digest of a certificate it belongs to no participant.
        (Event::BlockSet { block: Block::Key([7; 32]) }, [true, false]),
        (Event::BlockLifted { block: Block::Key([7; 32]) }, [true, false]),
        (Event::BlockSet { block: Block::Certificate([7; 32]) }, none),
        (Event::CallbackParked { key: key(3), attempts: 1, reason: "x".into() }, [false, true]),
        // Begun before the records that are shown, or not at all.
        (committed(1), none),
        (aborted(1), none),
        (ended(1), none),
        (fx_transfer_fulfilled(1), none),
        (fx_transfer_committed(1), none),
        (fx_transfer_aborted(1), none),
    ]
    .into_iter()
    .chain(of_bulk(1).map(|event| (event, none)))
    {
        assert_eq!(concern(&event), expected, "{event:?}");
    }
}

#[test]
fn end_of_a_transfer_concerns_its_participants_once() {
    let refused = |number| {
        let cause = Cause::Hub(Refusal::Expired);
        let (fingerprint, operator_reason) = (None, None);
        let kind = AbortKind::Invalid;
        transfer(number, Aborted { kind, cause, fingerprint, operator_reason, at: AT }.into())
    };
    let mut sieve = RecordFilter::new(Filter::default());
    let mut concerns = |event: &Event| sieve.event_concerns(participant(2), event, &names());
    for event in [transfer(1, TransferState::Reserved), transfer(2, TransferState::Reserved), refused(3)] {
        assert!(concerns(&event), "{event:?}");
    }
    for (event, expected) in [
        (committed(1), true),
        (committed(1), false),
        (aborted(2), true),
        (aborted(2), false),
        (aborted(3), false),
    ] {
        assert_eq!(concerns(&event), expected, "{event:?}");
    }
}

#[test]
fn end_of_withdrawal_fx_and_bulk_concerns_participants_once() {
    let lapsed =
        FxTransferState::Aborted { kind: AbortKind::Invalid, cause: Cause::Hub(Refusal::Expired), at: AT };
    let begun = [
        funds(1),
        fx_transfer(2, FxTransferState::Reserved),
        fx_transfer(3, FxTransferState::Fulfilled),
        fx_transfer(4, lapsed),
        bulk(5, BulkState::Received),
        bulk(6, BulkState::Rejected { cause: None, at: AT }),
    ];
    for of in [2, 3] {
        let mut sieve = RecordFilter::new(Filter::default());
        let mut concerns = |event: &Event| sieve.event_concerns(participant(of), event, &names());
        for event in &begun {
            assert_eq!(concerns(event), of == 2 || !matches!(event, Event::FundsPrepared(_)), "{event:?}");
        }
        let ends = [
            (ended(1), of == 2),
            (ended(1), false),
            (fx_transfer_fulfilled(2), true),
            (fx_transfer_committed(2), true),
            (fx_transfer_committed(2), false),
            (fx_transfer_aborted(3), true),
            (fx_transfer_fulfilled(3), false),
            (fx_transfer_aborted(4), false),
        ];
        let of_bulks = of_bulk(5).map(|event| (event, true)).into_iter();
        let over = of_bulk(5).map(|event| (event, false)).into_iter();
        let refused = of_bulk(6).map(|event| (event, false)).into_iter();
        for (event, expected) in ends.into_iter().chain(of_bulks).chain(over).chain(refused) {
            assert_eq!(concerns(&event), expected, "participant {of}: {event:?}");
        }
    }
}

#[test]
fn end_of_others_transfers_does_not_concern_a_participant() {
    let mut sieve = RecordFilter::new(Filter::default());
    let mut concerns = |event: &Event| sieve.event_concerns(participant(4), event, &names());
    for event in [
        transfer(1, TransferState::Reserved),
        committed(1),
        funds(2),
        ended(2),
        fx_transfer(3, FxTransferState::Reserved),
        fx_transfer_committed(3),
        bulk(4, BulkState::Received),
    ]
    .into_iter()
    .chain(of_bulk(4))
    {
        assert!(!concerns(&event), "{event:?}");
    }
}

#[test]
fn record_concerns_receivers_of_its_callbacks() {
    let passes = |name: &str, target| {
        let fsp = Some(FspId::parse(name).unwrap());
        let mut sieve = RecordFilter::new(Filter { fsp, ..Filter::default() });
        sieve.passes(1, AT, &record(Vec::new(), vec![told(target, Subject::transfer(id(1)))]), &names())
    };
    assert!(passes("greenbank", 2) && passes("bluebank", 3));
    assert!(!passes("greenbank", 3) && !passes("bluebank", 2) && !passes("nobody", 2));
}

#[test]
fn delivery_of_a_callback_is_about_its_transfer() {
    let mut sieve = RecordFilter::new(Filter { transfer: Some(id(1)), ..Filter::default() });
    let mut passes = |seq, record: &Record<'_>| sieve.passes(seq, AT, record, &names());
    let owed = |number| record(Vec::new(), vec![told(2, Subject::transfer(id(number)))]);
    let delivered = || record(vec![Event::CallbacksDelivered(vec![key(2)])], Vec::new());
    assert!(!passes(8, &owed(2)) && !passes(9, &owed(2)) && !passes(10, &delivered()));
    assert!(passes(9, &owed(1)) && passes(11, &delivered()));
}

#[test]
fn filter_includes_since_and_excludes_until() {
    let at = Timestamp::from_ms;
    let mut sieve = RecordFilter::new(Filter { since: Some(at(2)), until: Some(at(4)), ..Filter::default() });
    for (ms, is_printed, is_over) in
        [(1, false, false), (2, true, false), (3, true, false), (4, true, true), (5, true, true)]
    {
        let record = record(vec![committed(1)], Vec::new());
        assert_eq!(sieve.passes(1, at(ms), &record, &names()), is_printed, "{ms}");
        assert_eq!(sieve.is_over(at(ms)), is_over, "{ms}");
    }
}

#[test]
fn event_is_about_the_named_transfer() {
    let no_fee = |number| Event::FeeNotCharged {
        transfer: id(number),
        rule: 1,
        amount: Amount::ZERO,
        reason: NoFee::Account,
    };
    for number in [1, 2] {
        for event in [
            transfer(number, TransferState::Reserved),
            committed(number),
            aborted(number),
            funds(number),
            ended(number),
            fee(number, 5, 6),
            no_fee(number),
            fx_transfer(number, FxTransferState::Reserved),
            fx_transfer_fulfilled(number),
            fx_transfer_committed(number),
            fx_transfer_aborted(number),
            bulk(number, BulkState::Received),
        ]
        .into_iter()
        .chain(of_bulk(number))
        {
            let text = format!("{event:?}");
            assert_eq!(is_about(&record(vec![event], Vec::new()), id(1)), number == 1, "{text}");
        }
    }
}

#[test]
fn fx_and_bulk_events_are_about_their_transfers() {
    for event in [fx_transfer(1, FxTransferState::Reserved), bulk(1, BulkState::Received)] {
        let record = record(vec![event], Vec::new());
        assert!(is_about(&record, id(7)) && !is_about(&record, id(8)));
    }
    for subject in [Subject::transfer(id(1)), Subject::fx_transfer(id(1)), Subject::bulk(id(1))] {
        let record = record(Vec::new(), vec![told(2, subject)]);
        assert!(is_about(&record, id(1)) && !is_about(&record, id(2)));
    }
}
