//! Queries of the state and its parts, as the layers above use them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, Timestamp};

use super::{account, amount, funds, id, participant, sound, transfer, xts};
use crate::base::codec::DecodeError;
use crate::base::ids::{CallbackKey, LedgerAccountTypeId};
use crate::base::refusal::Refusal;
use crate::core::callback::{Callback, CallbackContent, ResourceId, StateMethod, Subject};
use crate::core::config::LedgerConfig;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::facts::DecisionInput;
use crate::core::record::Record;
use crate::core::state::{Ledger, Totals};
use crate::money::funds::{FundsDirection, FundsState};
use crate::money::transfer::{SettlementMode, TransferState};
use crate::rules::command::Command;
use crate::scheme::endpoint::EndpointType;
use crate::settlement::changes::NewSettlementModel;
use crate::settlement::model::{Delay, Granularity, Interchange, SettlementModel};

#[test]
fn the_next_deadline_is_the_earliest_of_transfers_and_withdrawals() {
    assert_eq!(Ledger::new(LedgerConfig::default()).next_deadline(), None);
    let mut ledger = sound();
    assert_eq!(ledger.next_deadline(), Some(Timestamp::from_ms(1_000)));
    let earlier = funds(50, FundsDirection::Out, FundsState::Reserved, 1);
    ledger.withdrawals.open(&crate::FundsTransfer { expires_at: Timestamp::from_ms(700), ..earlier });
    assert_eq!(ledger.next_deadline(), Some(Timestamp::from_ms(700)));
    ledger.transfers.insert(9, crate::Transfer { expires_at: Timestamp::from_ms(600), ..transfer(51, 1) });
    assert_eq!(ledger.next_deadline(), Some(Timestamp::from_ms(600)));
}

#[test]
fn totals_and_lengths_match_the_events() {
    let mut ledger = sound();
    let expected = Totals { reserved: 3, committed: 1, aborted: 1, ..Totals::default() };
    assert_eq!(ledger.totals(), expected);
    assert_eq!((ledger.reserved_len(), ledger.finished_len(), ledger.funds_len()), (1, 2, 2));
    let late = Event::TransferAborted {
        id: id(1),
        kind: crate::AbortKind::Expired,
        cause: Refusal::Expired.into(),
        fingerprint: None,
        operator_reason: None,
    };
    let refused = crate::Transfer {
        state: TransferState::from(crate::Aborted {
            kind: crate::AbortKind::Invalid,
            cause: Refusal::ConditionInvalid.into(),
            fingerprint: None,
            operator_reason: None,
            at: Timestamp::from_ms(9),
        }),
        ..transfer(4, 1)
    };
    ledger.evolve(9, Timestamp::from_ms(9), [late, Event::TransferPrepared(refused)], &[]);
    let expected =
        Totals { reserved: 3, refused: 1, committed: 1, aborted: 2, expired: 1, ..Totals::default() };
    assert_eq!(ledger.totals(), expected);
    assert_eq!((ledger.reserved_len(), ledger.finished_len()), (0, 4));
    assert_eq!((ledger.last_seq(), ledger.last_time()), (9, Timestamp::from_ms(9)));
}

/// The archivist takes the transfers that ended up to a record, oldest first, and the others stay.
#[test]
fn finished_transfers_leave_memory_by_the_record_that_ended_them() {
    let mut ledger = sound();
    let ids = |found: Vec<crate::Transfer>| found.iter().map(|transfer| transfer.id).collect::<Vec<_>>();
    let finished: Vec<_> = ledger.finished_transfers().cloned().collect();
    assert_eq!(ids(finished), [id(2), id(3)]);
    assert_eq!(ids(ledger.drain_finished(6).collect()), []);
    assert_eq!(ids(ledger.drain_finished(7).collect()), [id(2)]);
    assert_eq!((ledger.transfer(id(2)), ledger.finished_len()), (None, 1));
    assert!(ledger.transfer(id(3)).is_some());
    assert_eq!(ids(ledger.drain_finished(8).collect()), [id(3)]);
    assert_eq!((ledger.finished_len(), ledger.reserved_len()), (0, 1));
}

/// A callback that was sent twice is reported twice, perhaps at the same time.
#[test]
fn a_delivery_is_recorded_once() {
    let mut ledger = sound();
    let others = ledger.outbox().len();
    let callback = |target| Callback {
        target: participant(target),
        subject: Subject::transfer(id(2)),
        content: CallbackContent::ForwardPrepare,
    };
    ledger.evolve(9, Timestamp::from_ms(9), [], &[callback(2), callback(3)]);
    let key = |target, index| CallbackKey { target: participant(target), seq: 9, index };
    let decide = |ledger: &Ledger, keys: &[CallbackKey]| {
        let mut decision = Decision::default();
        ledger.decide(
            &Command::Delivered(keys.to_vec()),
            &DecisionInput::at(Timestamp::from_ms(10)),
            &mut decision,
        );
        decision.events
    };
    let events = decide(&ledger, &[key(3, 1), key(2, 0), key(3, 1), key(2, 1)]);
    assert_eq!(events, [Event::CallbacksDelivered([key(2, 0), key(3, 1)].into())]);
    ledger.evolve(10, Timestamp::from_ms(10), events, &[]);
    assert_eq!((ledger.outbox().len(), decide(&ledger, &[key(2, 0)])), (others, Vec::new()));
}

#[test]
fn account_types_have_names_and_an_unknown_one_has_none() {
    let ledger = sound();
    for (number, name) in [
        (0, "UNKNOWN"),
        (1, "POSITION"),
        (2, "SETTLEMENT"),
        (3, "HUB_RECONCILIATION"),
        (4, "HUB_MULTILATERAL_SETTLEMENT"),
        (5, "INTERCHANGE_FEE"),
        (6, "INTERCHANGE_FEE_SETTLEMENT"),
        (7, "UNKNOWN"),
    ] {
        assert_eq!(ledger.account_type_name(LedgerAccountTypeId(number)), name);
        let found = ledger.account_type_named(name).map(|kind| kind.id);
        assert_eq!(found, (name != "UNKNOWN").then_some(LedgerAccountTypeId(number)));
    }
    assert_eq!(ledger.account(account(4)).map(|account| account.participant), Some(participant(3)));
    assert_eq!(ledger.account(account(5)), None);
}

#[test]
fn currency_uses_its_own_active_models_or_the_default_ones() {
    let tzs = Currency::parse("TZS").unwrap_or(xts());
    // Number, currency, settled type, active; the default is number 1.
    let models = [
        (1, None, LedgerAccountTypeId::POSITION, true),
        (2, Some(xts()), LedgerAccountTypeId::INTERCHANGE_FEE, true),
        (3, Some(xts()), LedgerAccountTypeId::POSITION, false),
        (4, Some(tzs), LedgerAccountTypeId::POSITION, false),
        (5, None, LedgerAccountTypeId::INTERCHANGE_FEE, true),
        (6, None, LedgerAccountTypeId::INTERCHANGE_FEE, false),
    ];
    let mut ledger = sound();
    for (id, currency, ledger_account_type, is_active) in models {
        let model = SettlementModel { ledger_account_type, ..positions_model(id, currency) };
        let events =
            [Event::SettlementModelCreated(model), Event::SettlementModelActivitySet { id, is_active }];
        evolve(&mut ledger, events);
    }
    let governing =
        |currency| ledger.models_governing(currency).iter().map(|model| model.id).collect::<Vec<_>>();
    assert_eq!(governing(xts()), [2]);
    assert_eq!(governing(tzs), [1, 5]);
    let position = |currency| ledger.position_model(currency).map(|model| model.id);
    assert_eq!(position(xts()), None, "a currency with a model of its own does not fall back");
    assert_eq!(position(tzs), Some(1));
    assert_eq!(ledger.model_named("M4").map(|model| (model.id, model.is_active)), Some((4, false)));
    assert!(ledger.model_named("M7").is_none());
}

#[test]
fn cover_is_on_the_account_that_the_model_of_positions_names() {
    let mut ledger = sound();
    let cover = |ledger: &Ledger| ledger.cover(&ledger.participants()[1], xts());
    assert_eq!(cover(&ledger), Amount::ZERO, "no model");
    evolve(&mut ledger, [Event::SettlementModelCreated(positions_model(1, None))]);
    assert_eq!(cover(&ledger), amount(460), "500 in, 40 on their way out");
    let settlement_account_type = LedgerAccountTypeId::INTERCHANGE_FEE_SETTLEMENT;
    let other = SettlementModel { settlement_account_type, ..positions_model(2, Some(xts())) };
    evolve(&mut ledger, [Event::SettlementModelCreated(other)]);
    assert_eq!(cover(&ledger), Amount::ZERO, "no such account");
    let opened = Event::AccountCreated {
        id: account(5),
        participant: participant(2),
        currency: xts(),
        kind: settlement_account_type,
        is_opened: true,
    };
    let posted = Event::Posted { debit: account(1), credit: account(5), amount: amount(3) };
    evolve(&mut ledger, [opened, posted]);
    assert_eq!(cover(&ledger), amount(3));
    evolve(&mut ledger, [Event::SettlementModelActivitySet { id: 2, is_active: false }]);
    assert_eq!(cover(&ledger), amount(460));
}

fn evolve(ledger: &mut Ledger, events: impl IntoIterator<Item = Event>) {
    let seq = ledger.last_seq() + 1;
    ledger.evolve(seq, Timestamp::from_ms(seq as i64), events, &[]);
}

fn positions_model(id: u32, currency: Option<Currency>) -> SettlementModel {
    let new = NewSettlementModel::deferred_net("M", currency);
    SettlementModel {
        id,
        name: format!("M{id}").into(),
        is_active: true,
        granularity: new.granularity,
        interchange: new.interchange,
        delay: new.delay,
        currency,
        require_liquidity_check: new.require_liquidity_check,
        ledger_account_type: LedgerAccountTypeId::POSITION,
        settlement_account_type: LedgerAccountTypeId::SETTLEMENT,
        auto_position_reset: new.auto_position_reset,
        created_at: Timestamp::EPOCH,
    }
}

#[test]
fn settlement_models_allow_certain_combinations() {
    for (granularity, interchange, delay, is_allowed) in [
        (Granularity::Gross, Interchange::Bilateral, Delay::Immediate, true),
        (Granularity::Gross, Interchange::Bilateral, Delay::Deferred, true),
        (Granularity::Net, Interchange::Bilateral, Delay::Deferred, true),
        (Granularity::Net, Interchange::Multilateral, Delay::Deferred, true),
        (Granularity::Gross, Interchange::Multilateral, Delay::Immediate, false),
        (Granularity::Gross, Interchange::Multilateral, Delay::Deferred, false),
        (Granularity::Net, Interchange::Bilateral, Delay::Immediate, false),
        (Granularity::Net, Interchange::Multilateral, Delay::Immediate, false),
    ] {
        let found = SettlementModel::is_combination_allowed(granularity, interchange, delay);
        assert_eq!(found, is_allowed, "{granularity:?} {interchange:?} {delay:?}");
    }
}

#[test]
fn callbacks_go_to_the_endpoint_of_their_kind_by_their_method() {
    let view = || transfer(1, 1).view();
    let error = CallbackContent::Error(super::declined());
    for (content, method, endpoint) in [
        (CallbackContent::ForwardPrepare, "POST", EndpointType::TRANSFER_POST),
        (CallbackContent::ForwardFulfil, "PUT", EndpointType::TRANSFER_PUT),
        (CallbackContent::ConfirmFulfil, "PUT", EndpointType::TRANSFER_PUT),
        (CallbackContent::State(StateMethod::Put, view()), "PUT", EndpointType::TRANSFER_PUT),
        (CallbackContent::State(StateMethod::Patch, view()), "PATCH", EndpointType::TRANSFER_PUT),
        (CallbackContent::ForwardAbort, "PUT", EndpointType::TRANSFER_ERROR),
        (CallbackContent::ConfirmAbort, "PUT", EndpointType::TRANSFER_ERROR),
        (error, "PUT", EndpointType::TRANSFER_ERROR),
    ] {
        let (target, subject) = (participant(2), Subject::transfer(id(1)));
        let callback = Callback { target, subject, content };
        let found = (callback.content.method(), callback.endpoint_type(), callback.is_error());
        let is_error = endpoint == EndpointType::TRANSFER_ERROR;
        assert_eq!(found, (method, endpoint, is_error), "{callback:?}");
    }
}

#[test]
fn endpoint_types_of_urls_differ_from_addresses_and_topics() {
    let others: Vec<_> = EndpointType::all().filter(|kind| !kind.is_url()).map(EndpointType::name).collect();
    let expected = [
        "NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL",
        "NET_DEBIT_CAP_ADJUSTMENT_EMAIL",
        "SETTLEMENT_TRANSFER_POSITION_CHANGE_EMAIL",
        "ALARM_NOTIFICATION_TOPIC",
    ];
    assert_eq!(others, expected);
    assert_eq!(EndpointType::from_number(63), None);
}

#[test]
fn ids_and_decode_errors_have_their_texts() {
    let shown: [(String, &str); 3] = [
        (ResourceId::Text("not-an-id".into()).to_string(), "not-an-id"),
        (ResourceId::Id(id(1)).to_string(), "01010101-0101-4101-8101-010101010101"),
        (
            DecodeError("the data ends too early").to_string(),
            "stored data cannot be read: the data ends too early",
        ),
    ];
    for (text, expected) in shown {
        assert_eq!(text, expected);
    }
    assert_eq!(ResourceId::parse("not-an-id").id(), None);
    assert_eq!(ResourceId::parse("01010101-0101-4101-8101-010101010101").id(), Some(id(1)));
    assert!(transfer(1, 1).has_party(participant(2)) && transfer(1, 1).has_party(participant(3)));
    assert!(!transfer(1, 1).has_party(participant(1)));
}

/// Stored bytes of a damaged disk or of a newer version. Each returns an error with the reason, never a panic.
#[test]
fn unreadable_bytes_return_the_reason() {
    let read = |bytes: &[u8]| Record::decode(bytes).map(|_| ()).map_err(|error| error.0);
    // A record of format 2 by an operator with one event; its tag and fields follow.
    let event = |tag: u8, fields: &[u8]| {
        let mut bytes = Vec::from([2, 2, 1, 0, 0, 0, tag, fields.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(fields);
        bytes
    };
    // A record without events and with one callback.
    let callback = |fields: &[u8]| {
        let mut bytes = Vec::from([2, 2, 0, 0, 0, 0, 1, 0, 0, 0, fields.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(fields);
        bytes
    };
    for (bytes, why) in [
        (Vec::from([1]), "unknown record format; another version wrote it"),
        (Vec::from([3]), "unknown record format; another version wrote it"),
        (Vec::from([2, 7]), "unknown actor"),
        (event(250, &[]), "unknown event; it was written by a newer version"),
        (event(11, &[0, 0, 0, 0, 1]), "participant 0"),
        (event(11, &[1, 0, 0, 0, 2]), "a flag is neither 0 nor 1"),
        (event(13, &[0, 0, 0, 0]), "account 0"),
        (event(13, &[1, 0, 0]), "the data ends too early"),
        (event(16, &[1, 0, 0, 0, 63]), "unknown endpoint type"),
        (callback(&[0, 0, 0, 0]), "participant 0"),
        (callback(&[1, 0, 0, 0, 4]), "unknown kind of resource"),
        (callback(&[1, 0, 0, 0, 1, 2]), "unknown form of id"),
        (callback(&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 10]), "unknown content of a callback"),
        (callback(&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 5, 9]), "unknown PublicState"),
        (callback(&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 7, 1, 0, 0]), "unknown error code"),
        (callback(&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 7, 2]), "unknown cause"),
        (
            callback(&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 7, 0, 99, 0, 0, 0, 0]),
            "unknown refusal; it was written by a newer version",
        ),
        (callback(&[1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0xff]), "a text is not UTF-8"),
    ] {
        assert_eq!(read(&bytes), Err(why), "{bytes:?}");
    }
}

#[test]
fn events_have_the_names_of_their_kinds() {
    let key = CallbackKey { target: participant(2), seq: 1, index: 0 };
    let ended = FundsState::Committed;
    for event in [
        Event::TransferPrepared(transfer(1, 1)),
        Event::TransferCommitted {
            id: id(1),
            fulfilment: [0; 32],
            fingerprint: [0; 16],
            extensions: None,
            settled: SettlementMode::InWindow,
        },
        Event::ParticipantActivitySet { id: participant(2), is_active: true },
        Event::AccountOpened { id: account(1) },
        Event::AccountActivitySet { id: account(1), is_active: true },
        Event::Posted { debit: account(1), credit: account(2), amount: amount(1) },
        Event::EndpointSet { participant: participant(2), kind: EndpointType::QUOTES, value: "".into() },
        Event::SettlementModelActivitySet { id: 1, is_active: true },
        Event::FundsPrepared(funds(1, FundsDirection::In, ended, 1)),
        Event::FundsEnded { id: id(1), state: ended, reason: "".into() },
        Event::CallbacksDelivered(Vec::new()),
        Event::CallbackParked { key, attempts: 1, reason: "".into() },
        Event::CallbacksRedelivered(Vec::new()),
        Event::CouriersSet { nodes: Vec::new() },
        Event::ArchiveDivided,
        Event::FinishedRemoved { to_seq: 1 },
    ] {
        let shown = format!("{event:?}");
        let kind = shown.split(|character: char| !character.is_alphanumeric()).next();
        assert_eq!(Some(event.name()), kind);
    }
}

/// One fold has removed archived transfers, another still holds them: a removed id can be used again in both.
#[test]
fn a_removal_frees_ids_in_every_fold() {
    let (mut live, mut late) = (sound(), sound());
    live.drain_finished(8).for_each(drop);
    let decide = |ledger: &Ledger, to_seq| {
        let mut decision = Decision::default();
        ledger.decide(
            &Command::RemoveFinished { to_seq },
            &DecisionInput::at(Timestamp::from_ms(9)),
            &mut decision,
        );
        decision.events
    };
    assert_eq!(decide(&live, 0), []);
    assert_eq!(
        decide(&live, 100),
        [Event::FinishedRemoved { to_seq: 8 }],
        "transfers that finish later are not removed"
    );
    (live.divisions, late.divisions) = ([4, 7, 12].into(), [4, 7, 12].into());
    assert_eq!([3, 4, 11, 12].map(|seq| live.division_up_to(seq)), [None, Some(4), Some(7), Some(12)]);
    let again = crate::Transfer { prepare_seq: 10, ..transfer(2, 33) };
    for ledger in [&mut live, &mut late] {
        let removal = decide(ledger, 7);
        ledger.evolve(9, Timestamp::from_ms(9), removal, &[]);
        assert_eq!((ledger.removed_to(), decide(ledger, 7)), (7, Vec::new()));
        ledger.evolve(10, Timestamp::from_ms(10), [Event::TransferPrepared(again.clone())], &[]);
        assert_eq!(ledger.transfer(id(2)).map(|found| found.amount), Some(amount(33)));
        assert!(ledger.transfer(id(1)).is_some(), "a reserved transfer stays");
    }
    assert_eq!(
        (live.transfer(id(3)), late.finished_len()),
        (None, 1),
        "a transfer that finished later stays"
    );
    late.drain_finished(8).for_each(drop);
    let bytes = |ledger: &Ledger| {
        let mut bytes = Vec::new();
        ledger.encode_snapshot(&mut bytes);
        bytes
    };
    assert_eq!(bytes(&live), bytes(&late));
    let read = Ledger::decode_snapshot(&bytes(&live), live.config().clone())
        .map(|ledger| (ledger.removed_to(), ledger.division_up_to(100)));
    assert_eq!(read, Ok((7, Some(12))));
}
