//! Encoded values can be decoded, and damaged ones return an error, never a panic.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use upesi_ledger::codec::{Decoder, Encoder};
use upesi_ledger::{
    AbortKind, Aborted, AccountId, Actor, AuditActor, AuditEntry, BindingKind, Block, Callback,
    CallbackContent, CallbackKey, CarriedRemainder, Cause, ChargedFee, Committed, ContentId, ContentRef,
    Credential, Delay, EndpointType, Event, FeePayer, FeeRule, FeeTerms, FundsDirection, FundsState,
    FundsTransfer, FxTransfer, FxTransferAccounts, FxTransferAnswer, FxTransferSide, FxTransferState,
    Granularity, Interchange, Ledger, LedgerAccountTypeId, LedgerConfig, LegWindows, NewContent, NoFee,
    OperatorRole, ParticipantId, Payload, PublicKeyDer, PublicState, Record, Refusal, ResourceId,
    ResourceKind, SEALED_BYTES, SealedSecret, Secret, SettlementId, SettlementMode, SettlementModel,
    SettlementNet, SettlementStage, SettlementState, SignatureKey, StateMethod, Stored, Subject, Transfer,
    TransferState, TransferView, UserCredential, WindowId,
};
use upesi_types::{
    Amount, AmountError, Currency, ErrorCode, FspId, FxTransferId, Money, Timestamp, TransferId,
};

mod bulks;
mod compound;

fn text() -> impl Strategy<Value = Box<str>> {
    "\\PC{0,40}".prop_map(String::into_boxed_str)
}

fn participant_id() -> impl Strategy<Value = ParticipantId> {
    (1..=u32::MAX).prop_map(|number| ParticipantId::new(number).expect("above zero"))
}

fn account_id() -> impl Strategy<Value = AccountId> {
    (1..=u32::MAX).prop_map(|number| AccountId::new(number).expect("above zero"))
}

fn transfer_id() -> impl Strategy<Value = TransferId> {
    let uuid = any::<[u8; 16]>().prop_map(TransferId::from_random_bytes);
    let ulid = "[0-9A-HJKMNP-TV-Z]{26}".prop_map(|text| TransferId::parse(&text).expect("a ULID"));
    prop_oneof![uuid, ulid]
}

fn amount() -> impl Strategy<Value = Amount> {
    let most = Amount::MAX.units();
    (-most..=most).prop_map(|units| Amount::from_units(units).expect("in range"))
}

fn currency() -> impl Strategy<Value = Currency> {
    proptest::sample::select(Currency::all().collect::<Vec<_>>())
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_ns)
}

fn error_code() -> impl Strategy<Value = ErrorCode> {
    (1_000..=9_999_u16).prop_map(|number| ErrorCode::from_number(number).expect("four digits"))
}

fn endpoint_type() -> impl Strategy<Value = EndpointType> {
    proptest::sample::select(EndpointType::all().collect::<Vec<_>>())
}

fn binding_kind() -> impl Strategy<Value = BindingKind> {
    proptest::sample::select(&BindingKind::ALL)
}

fn callback_key() -> impl Strategy<Value = CallbackKey> {
    (participant_id(), any::<u64>(), any::<u8>()).prop_map(|(target, seq, index)| CallbackKey {
        target,
        seq,
        index,
    })
}

fn name() -> impl Strategy<Value = FspId> {
    "[ -~]{1,32}".prop_map(|name| FspId::parse(&name).expect("a name"))
}

/// Every kind of actor.
fn actor() -> impl Strategy<Value = Actor> {
    let hub = [Actor::Operator, Actor::Clock, Actor::Delivery, Actor::Retention, Actor::Bulks];
    prop_oneof![name().prop_map(Actor::Dfsp), proptest::sample::select(hub.to_vec())]
}

/// Every kind of refusal. All of them contain the same values.
fn refusals(name: FspId, currency: Currency, amount: Amount, at: Timestamp, text: Box<str>) -> Vec<Refusal> {
    vec![
        Refusal::SourceNotPayer,
        Refusal::AmountUnfit { text: text.clone(), error: AmountError::Syntax },
        Refusal::AmountUnfit { text: text.clone(), error: AmountError::Scale },
        Refusal::AmountUnfit { text, error: AmountError::Precision },
        Refusal::AmountNotPositive { amount },
        Refusal::ParticipantUnknown { name },
        Refusal::ParticipantInactive { name },
        Refusal::DestinationNotPayee,
        Refusal::ConditionInvalid,
        Refusal::ExpirationPassed { expires_at: at },
        Refusal::ExpirationTooFar { ahead_s_max: at.as_ns() },
        Refusal::PartiesEqual,
        Refusal::AccountUnknown { name, currency },
        Refusal::AccountInactive { name, currency },
        Refusal::CurrencyUngoverned { currency },
        Refusal::CoverShort,
        Refusal::CapExceeded,
        Refusal::AccountFull { name, currency },
        Refusal::Modified,
        Refusal::SourceNotPayee,
        Refusal::DestinationNotPayer,
        Refusal::NotReserved,
        Refusal::FulfilmentInvalid,
        Refusal::ReservedTooEarly,
        Refusal::ReceivedNoFulfil,
        Refusal::AbortedNoFulfil,
        Refusal::ErrorCodeUndefined,
        Refusal::TransferMissing,
        Refusal::TransferUnknown,
        Refusal::NotParty,
        Refusal::Expired,
        Refusal::DestinationNotFxp,
        Refusal::ExpirationMissing,
        Refusal::CurrenciesEqual,
        Refusal::DeterminingTransferMissing,
        Refusal::DeterminingTransferFinal,
        Refusal::InitiatorNotPayee,
        Refusal::DeterminingAmountDiffers,
        Refusal::FxTransferInProgress,
        Refusal::FxTransferUnfulfilled,
        Refusal::FxTransferDiffers,
        Refusal::FxTransferUnknown,
        Refusal::FxTransferMissing,
        Refusal::SourceNotFxp,
        Refusal::DestinationNotInitiator,
        Refusal::FxTransferNotReserved,
        Refusal::FxTransferReceived,
        Refusal::FxTransferExpired,
        Refusal::FxTransferDeclined,
        Refusal::BulkPayerUnknown { name },
        Refusal::BulkPayeeUnknown { name },
        Refusal::BulkPartiesEqual,
        Refusal::BulkItemKnown,
        Refusal::BulkItemConverted,
        Refusal::BulkItemAlone,
        Refusal::BulkUnknown,
        Refusal::BulkNotAccepted,
        Refusal::BulkDestination,
        Refusal::BulkStateNoAnswer,
        Refusal::BulkResultInvalid,
        Refusal::CompletedInFuture,
        Refusal::CompletedLongAgo,
        Refusal::BulkPayerInactive { name },
        Refusal::BulkPayeeInactive { name },
        Refusal::BulkSourceNotPayer,
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    let values = (name(), currency(), amount(), timestamp(), text(), any::<proptest::sample::Index>());
    let refused = values.prop_map(|(name, currency, amount, at, text, index)| {
        let refusals = refusals(name, currency, amount, at, text);
        Cause::Hub(refusals[index.index(refusals.len())].clone())
    });
    let declined = (error_code(), text()).prop_map(|(code, description)| Cause::Payee { code, description });
    prop_oneof![3 => refused, 1 => declined]
}

/// The list of refusals above is complete.
#[test]
fn every_refusal_is_encoded_in_a_test() {
    let instant = Timestamp::EPOCH;
    let name = FspId::parse("greenbank").expect("a name");
    let currency = Currency::parse("KES").expect("a currency");
    let mut tried: Vec<u8> =
        refusals(name, currency, Amount::ZERO, instant, "".into()).iter().map(Refusal::tag).collect();
    tried.dedup();
    assert_eq!(tried, Refusal::TAGS);
}

fn charged_fee() -> impl Strategy<Value = ChargedFee> {
    (any::<u32>(), account_id(), account_id(), amount(), any::<u32>()).prop_map(
        |(rule, payer, payee, amount, window)| ChargedFee {
            rule,
            payer,
            payee,
            amount,
            window: WindowId(window),
        },
    )
}

fn transfer_state() -> impl Strategy<Value = TransferState> {
    let window = proptest::option::of(any::<u32>().prop_map(WindowId));
    let fees = proptest::collection::vec(charged_fee(), 0..3);
    let committed = (any::<[u8; 32]>(), any::<[u8; 16]>(), timestamp(), window, fees).prop_map(
        |(fulfilment, fingerprint, at, window, fees)| {
            TransferState::from(Committed { fulfilment, fingerprint, at, window, fees })
        },
    );
    let kind = proptest::sample::select(AbortKind::ALL);
    let cause = (kind, cause(), any::<Option<[u8; 16]>>());
    let aborted = (cause, proptest::option::of(text()), timestamp()).prop_map(
        |((kind, cause, fingerprint), operator_reason, at)| {
            TransferState::from(Aborted { kind, cause, fingerprint, operator_reason, at })
        },
    );
    prop_oneof![Just(TransferState::Reserved), committed, aborted]
}

fn transfer() -> impl Strategy<Value = Transfer> {
    let party = || proptest::option::of(participant_id());
    let account = || proptest::option::of(account_id());
    let who = (transfer_id(), party(), party(), account(), account());
    let what =
        (amount(), currency(), any::<[u8; 32]>(), timestamp(), timestamp(), any::<u64>(), any::<[u8; 16]>());
    (who, what, proptest::option::of(text()), transfer_state()).prop_map(|(who, what, extensions, state)| {
        let (id, payer, payee, payer_account, payee_account) = who;
        let (amount, currency, condition, expires_at, prepared_at, prepare_seq, prepare_fingerprint) = what;
        Transfer {
            id,
            payer,
            payee,
            payer_account,
            payee_account,
            amount,
            currency,
            condition,
            expires_at,
            prepared_at,
            prepare_seq,
            prepare_fingerprint,
            extensions,
            state,
        }
    })
}

fn model() -> impl Strategy<Value = SettlementModel> {
    let rule = (
        proptest::sample::select(Granularity::ALL),
        proptest::sample::select(Interchange::ALL),
        proptest::sample::select(Delay::ALL),
    );
    let rest = (
        any::<u32>(),
        text(),
        any::<[bool; 3]>(),
        proptest::option::of(currency()),
        any::<[u8; 2]>(),
        timestamp(),
    );
    (rule, rest).prop_map(
        |((granularity, interchange, delay), (id, name, flags, currency, types, created_at))| {
            SettlementModel {
                id,
                name,
                is_active: flags[0],
                granularity,
                interchange,
                delay,
                currency,
                require_liquidity_check: flags[1],
                ledger_account_type: LedgerAccountTypeId(types[0]),
                settlement_account_type: LedgerAccountTypeId(types[1]),
                auto_position_reset: flags[2],
                created_at,
            }
        },
    )
}

fn funds() -> impl Strategy<Value = FundsTransfer> {
    let who = (transfer_id(), participant_id(), account_id(), account_id(), amount(), currency());
    let state = (proptest::sample::select(FundsDirection::ALL), proptest::sample::select(FundsState::ALL));
    let texts = (text(), text(), proptest::option::of(text()), any::<[u8; 16]>());
    (who, state, texts, (timestamp(), timestamp(), timestamp())).prop_map(|(who, state, texts, times)| {
        let (id, participant, account, hub_account, amount, currency) = who;
        let (external_reference, reason, extensions, fingerprint) = texts;
        FundsTransfer {
            id,
            direction: state.0,
            participant,
            account,
            hub_account,
            amount,
            currency,
            external_reference,
            reason,
            extensions,
            fingerprint,
            state: state.1,
            created_at: times.0,
            changed_at: times.1,
            expires_at: times.2,
        }
    })
}

fn settled() -> impl Strategy<Value = SettlementMode> {
    let at_once =
        (account_id(), account_id()).prop_map(|(payer, payee)| SettlementMode::AtOnce { payer, payee });
    prop_oneof![Just(SettlementMode::InWindow), at_once]
}

/// Every kind of event.
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn event() -> impl Strategy<Value = Event> {
    let transfers = prop_oneof![
        transfer().prop_map(Event::TransferPrepared),
        (transfer_id(), any::<[u8; 32]>(), any::<[u8; 16]>(), proptest::option::of(text()), settled())
            .prop_map(|(id, fulfilment, fingerprint, extensions, settled)| {
                Event::TransferCommitted { id, fulfilment, fingerprint, extensions, settled }
            }),
        (
            transfer_id(),
            proptest::sample::select(AbortKind::ALL),
            cause(),
            any::<Option<[u8; 16]>>(),
            proptest::option::of(text())
        )
            .prop_map(|(id, kind, cause, fingerprint, operator_reason)| {
                Event::TransferAborted { id, kind, cause, fingerprint, operator_reason }
            }),
        funds().prop_map(Event::FundsPrepared),
        timestamp().prop_map(Event::DecidedAt),
        timestamp().prop_map(Event::FirstWindowOpened),
        (any::<i64>(), text()).prop_map(|(jump_ms, reason)| Event::ClockAccepted { jump_ms, reason }),
        (transfer_id(), proptest::sample::select(FundsState::ALL), text())
            .prop_map(|(id, state, reason)| Event::FundsEnded { id, state, reason }),
    ];
    let participants = prop_oneof![
        (participant_id(), name(), any::<bool>())
            .prop_map(|(id, name, is_proxy)| Event::ParticipantCreated { id, name, is_proxy }),
        (participant_id(), any::<bool>())
            .prop_map(|(id, is_active)| Event::ParticipantActivitySet { id, is_active }),
        (account_id(), participant_id(), currency(), any::<u8>(), any::<bool>()).prop_map(
            |(id, participant, currency, kind, is_opened)| Event::AccountCreated {
                id,
                participant,
                currency,
                kind: LedgerAccountTypeId(kind),
                is_opened
            }
        ),
        account_id().prop_map(|id| Event::AccountOpened { id }),
        (account_id(), any::<bool>()).prop_map(|(id, is_active)| Event::AccountActivitySet { id, is_active }),
        (account_id(), account_id(), amount()).prop_map(|(debit, credit, amount)| Event::Posted {
            debit,
            credit,
            amount
        }),
        (participant_id(), endpoint_type(), text())
            .prop_map(|(participant, kind, value)| Event::EndpointSet { participant, kind, value }),
        (participant_id(), binding_kind(), text())
            .prop_map(|(participant, kind, value)| Event::BindingAdded { participant, kind, value }),
        (participant_id(), binding_kind(), text())
            .prop_map(|(participant, kind, value)| Event::BindingRemoved { participant, kind, value }),
        (participant_id(), participant_id())
            .prop_map(|(participant, proxy)| Event::ProxiedAdded { participant, proxy }),
        (participant_id(), participant_id())
            .prop_map(|(participant, proxy)| Event::ProxiedRemoved { participant, proxy }),
        (participant_id(), currency(), amount(), any::<u16>()).prop_map(
            |(participant, currency, value, alarm_basis_points)| Event::LimitSet {
                participant,
                currency,
                value,
                alarm_basis_points
            }
        ),
        signature_key().prop_map(|(participant, key, others_end_at)| Event::SignatureKeyAdded {
            participant,
            key,
            others_end_at
        }),
        (participant_id(), any::<[u8; 32]>())
            .prop_map(|(participant, sha256)| Event::SignatureKeyRevoked { participant, sha256 }),
        block().prop_map(|block| Event::BlockSet { block }),
        block().prop_map(|block| Event::BlockLifted { block }),
    ];
    let schemes =
        prop_oneof![
            model().prop_map(Event::SettlementModelCreated),
            (any::<u32>(), any::<bool>())
                .prop_map(|(id, is_active)| Event::SettlementModelActivitySet { id, is_active }),
            (any::<u8>(), text(), text(), any::<bool>(), any::<bool>()).prop_map(
                |(id, name, description, is_active, is_settleable)| {
                    Event::LedgerAccountTypeCreated {
                        id: LedgerAccountTypeId(id),
                        name,
                        description,
                        is_active,
                        is_settleable,
                    }
                }
            ),
            proptest::collection::vec(callback_key(), 0..4).prop_map(Event::CallbacksDelivered),
            (callback_key(), any::<u32>(), text())
                .prop_map(|(key, attempts, reason)| Event::CallbackParked { key, attempts, reason }),
            proptest::collection::vec(callback_key(), 0..4).prop_map(Event::CallbacksRedelivered),
            proptest::collection::vec(any::<u32>(), 0..4).prop_map(|nodes| Event::CouriersSet { nodes }),
            Just(Event::ArchiveDivided),
            any::<u64>().prop_map(|to_seq| Event::FinishedRemoved { to_seq }),
        ];
    prop_oneof![
        transfers,
        participants,
        schemes,
        settlements(),
        fees(),
        fx_transfers(),
        bulks::bulk_events(),
        operators(),
        compound::proposal_events()
    ]
}

fn signature_key() -> impl Strategy<Value = (ParticipantId, SignatureKey, Timestamp)> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    let option = || proptest::option::of(timestamp());
    (participant_id(), bytes, timestamp(), option(), (timestamp(), option(), timestamp())).prop_map(
        |(participant, bytes, added_at, not_before, (starts_at, ends_at, others_end_at))| {
            let public_key = PublicKeyDer(bytes.into());
            let key = SignatureKey { public_key, added_at, not_before, starts_at, ends_at };
            (participant, key, others_end_at)
        },
    )
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(Block::Key),
        any::<[u8; 32]>().prop_map(Block::Certificate),
        name().prop_map(Block::Participant),
    ]
}

fn leg_windows() -> impl Strategy<Value = LegWindows> {
    let window = || proptest::option::of(any::<u32>().prop_map(WindowId));
    (window(), window()).prop_map(|(reserved, further)| LegWindows { reserved, further })
}

fn fx_transfer() -> impl Strategy<Value = FxTransfer> {
    let money = || (amount(), currency()).prop_map(|(amount, currency)| Money { amount, currency });
    let accounts = (account_id(), proptest::option::of(account_id()), account_id(), account_id()).prop_map(
        |(initiator_source, initiator_target, fxp_source, fxp_target)| FxTransferAccounts {
            initiator_source,
            initiator_target,
            fxp_source,
            fxp_target,
        },
    );
    let state = prop_oneof![
        Just(FxTransferState::Reserved),
        Just(FxTransferState::Fulfilled),
        (timestamp(), proptest::option::of(leg_windows()))
            .prop_map(|(at, windows)| FxTransferState::Committed { at, windows }),
        (proptest::sample::select(AbortKind::ALL), cause(), timestamp())
            .prop_map(|(kind, cause, at)| FxTransferState::Aborted { kind, cause, at }),
    ];
    let ids = (transfer_id(), proptest::option::of(transfer_id()));
    let parties = (proptest::option::of(participant_id()), proptest::option::of(participant_id()));
    let side = proptest::sample::select(FxTransferSide::ALL);
    let bytes = (any::<[u8; 32]>(), any::<[u8; 16]>(), any::<Option<[u8; 32]>>());
    let rest = (timestamp(), timestamp(), any::<u64>(), proptest::option::of(answer()), state);
    (ids, side, parties, (money(), money()), proptest::option::of(accounts), bytes, rest).prop_map(
        |((id, determining_transfer), side, parties, amounts, accounts, bytes, rest)| FxTransfer {
            id: FxTransferId::new(id),
            determining_transfer,
            side,
            initiator: parties.0,
            fxp: parties.1,
            source: amounts.0,
            target: amounts.1,
            accounts,
            condition: bytes.0,
            prepare_fingerprint: bytes.1,
            fulfilment: bytes.2,
            expires_at: rest.0,
            prepared_at: rest.1,
            prepare_seq: rest.2,
            answer: rest.3,
            state: rest.4,
        },
    )
}

fn answer() -> impl Strategy<Value = FxTransferAnswer> {
    (any::<bool>(), any::<[u8; 16]>())
        .prop_map(|(is_error, fingerprint)| FxTransferAnswer { is_error, fingerprint })
}

fn operators() -> impl Strategy<Value = Event> {
    let texts = || (text(), text(), proptest::option::of(text()), proptest::option::of(text()));
    let by = (texts(), text(), proptest::option::of(text())).prop_map(
        |((operator, known_by, address, on_behalf_of), action, reason)| AuditActor {
            operator,
            known_by,
            address,
            on_behalf_of,
            action,
            reason,
        },
    );
    let about = (text(), text(), text(), proptest::option::of(text()));
    let entry = (any::<u64>(), timestamp(), by, about, any::<[u8; 32]>()).prop_map(
        |(number, at, by, (object, before, after, refused), chain)| {
            let entry = AuditEntry { number, at, by, object, before, after, refused, chain };
            Event::OperatorActed(Box::new(entry))
        },
    );
    let roles = proptest::sample::subsequence(OperatorRole::ALL.to_vec(), 0..=OperatorRole::ALL.len());
    let set = (text(), roles, proptest::option::of(participant_id()), any::<bool>()).prop_map(
        |(name, roles, participant, is_active)| {
            let roles = roles.into_iter().collect();
            Event::OperatorSet { name, roles, participant, is_active }
        },
    );
    let credential = (any::<u32>(), any::<[u8; 32]>(), timestamp(), timestamp()).prop_map(
        |(id, digest, created_at, expires_at)| {
            let secret = if id % 2 == 0 { Secret::Token(digest) } else { Secret::Enrolment(digest) };
            Credential { id, secret, created_at, expires_at }
        },
    );
    let sealed = (any::<[u8; 16]>(), any::<u32>(), any::<u32>(), any::<[u8; SEALED_BYTES]>());
    let person = (any::<u32>(), sealed, timestamp(), any::<u64>()).prop_map(
        |(id, (salt, memory_kib, passes, secret), set_at, code_step)| {
            let sealed = SealedSecret { salt, memory_kib, passes, secret };
            UserCredential { id, sealed, set_at, code_step }
        },
    );
    prop_oneof![
        entry,
        set,
        (text(), person).prop_map(|(name, person)| Event::PersonSet { name, person }),
        (text(), any::<u64>()).prop_map(|(name, code_step)| Event::CodeUsed { name, code_step }),
        (text(), credential).prop_map(|(name, credential)| Event::CredentialAdded { name, credential }),
        (text(), any::<u32>()).prop_map(|(name, credential)| Event::CredentialRemoved { name, credential }),
    ]
}

fn fx_transfers() -> impl Strategy<Value = Event> {
    let id = || transfer_id().prop_map(FxTransferId::new);
    prop_oneof![
        fx_transfer().prop_map(|fx_transfer| Event::FxTransferPrepared(Box::new(fx_transfer))),
        (id(), any::<[u8; 32]>(), answer()).prop_map(|(id, fulfilment, answer)| Event::FxTransferFulfilled {
            id,
            fulfilment,
            answer
        }),
        (id(), settled(), proptest::option::of(settled()))
            .prop_map(|(id, settled, further)| Event::FxTransferCommitted { id, settled, further }),
        (id(), proptest::sample::select(AbortKind::ALL), cause(), proptest::option::of(answer()))
            .prop_map(|(id, kind, cause, answer)| Event::FxTransferAborted { id, kind, cause, answer }),
    ]
}

fn caps_and_cover() -> BoxedStrategy<Event> {
    let remainder = (account_id(), amount(), amount()).prop_map(|(account, carried_in, carried_over)| {
        CarriedRemainder { account, carried_in, carried_over }
    });
    prop_oneof![
        (any::<u32>(), account_id(), amount()).prop_map(|(id, account, amount)| Event::CapRaised {
            id: SettlementId(id),
            account,
            amount
        }),
        (any::<u32>(), account_id(), amount()).prop_map(|(id, account, amount)| Event::CapReturned {
            id: SettlementId(id),
            account,
            amount
        }),
        (any::<u32>(), account_id(), transfer_id()).prop_map(|(id, account, funds)| Event::CoverMoved {
            id: SettlementId(id),
            account,
            funds
        }),
        (any::<u32>(), proptest::collection::vec(remainder, 0..4))
            .prop_map(|(id, accounts)| Event::RemaindersCarried { id: SettlementId(id), accounts }),
    ]
    .boxed()
}

fn settlements() -> BoxedStrategy<Event> {
    let content = (any::<u32>(), currency(), any::<u8>()).prop_map(|(id, currency, kind)| NewContent {
        id: ContentId(id),
        currency,
        kind: LedgerAccountTypeId(kind),
    });
    let place = (any::<u32>(), any::<u32>())
        .prop_map(|(window, content)| ContentRef { window: WindowId(window), content: ContentId(content) });
    let net = (account_id(), amount()).prop_map(|(account, net)| SettlementNet { account, net });
    let state = proptest::sample::select(SettlementState::ALL);
    let stage = (account_id(), state, text(), proptest::option::of(text()), proptest::option::of(amount()))
        .prop_map(|(account, state, reason, external_reference, cap_raised_to)| SettlementStage {
            account,
            state,
            reason,
            external_reference,
            cap_raised_to,
        });
    prop_oneof![
        caps_and_cover(),
        (any::<u32>(), any::<u32>(), text(), proptest::collection::vec(content, 0..4)).prop_map(
            |(id, next, reason, contents)| Event::WindowClosed {
                id: WindowId(id),
                next: WindowId(next),
                reason,
                contents
            }
        ),
        (
            (any::<u32>(), any::<u32>(), text()),
            proptest::collection::vec(place, 0..4),
            proptest::collection::vec(net, 0..4)
        )
            .prop_map(|((id, model, reason), contents, accounts)| Event::SettlementCreated {
                id: SettlementId(id),
                model,
                reason,
                contents,
                accounts
            }),
        (any::<u32>(), proptest::collection::vec(stage, 0..4))
            .prop_map(|(id, accounts)| Event::SettlementAdvanced { id: SettlementId(id), accounts }),
        (any::<u32>(), text(), proptest::option::of(text())).prop_map(|(id, reason, external_reference)| {
            Event::SettlementAborted { id: SettlementId(id), reason, external_reference }
        }),
    ]
    .boxed()
}

fn fee_rule() -> impl Strategy<Value = FeeRule> {
    let parties = || proptest::collection::vec(participant_id(), 0..3);
    let which = (currency(), parties(), parties(), amount(), proptest::option::of(amount()));
    let how = (any::<u32>(), any::<u8>(), amount(), proptest::sample::select(FeePayer::ALL));
    let when = (timestamp(), proptest::option::of(timestamp()), timestamp());
    (any::<u32>(), text(), which, how, when).prop_map(|(id, name, which, how, when)| {
        let (currency, payers, payees, amount_min, amount_max) = which;
        let (rate, decimals, fixed, paid_by) = how;
        let (from, until, created_at) = when;
        let terms = FeeTerms {
            name,
            currency,
            payers,
            payees,
            amount_min,
            amount_max,
            rate,
            decimals,
            fixed,
            paid_by,
        };
        FeeRule { id, terms, from, until, created_at }
    })
}

fn fees() -> impl Strategy<Value = Event> {
    let charged = (transfer_id(), any::<u32>(), account_id(), account_id(), amount());
    prop_oneof![
        fee_rule().prop_map(Event::FeeRuleCreated),
        (any::<u32>(), timestamp()).prop_map(|(id, until)| Event::FeeRuleEnded { id, until }),
        charged.prop_map(|(transfer, rule, payer, payee, amount)| {
            Event::FeeCharged { transfer, rule, payer, payee, amount }
        }),
        (transfer_id(), any::<u32>(), amount(), proptest::sample::select(NoFee::ALL)).prop_map(
            |(transfer, rule, amount, reason)| Event::FeeNotCharged { transfer, rule, amount, reason }
        ),
    ]
}

/// Every kind of callback.
fn callback() -> impl Strategy<Value = Callback> {
    let reference = prop_oneof![transfer_id().prop_map(ResourceId::Id), text().prop_map(ResourceId::Text)];
    let view = (
        proptest::sample::select(PublicState::ALL),
        proptest::option::of(timestamp()),
        any::<Option<[u8; 32]>>(),
        proptest::option::of(text()),
        proptest::option::of(cause()),
    );
    let method = prop_oneof![Just(StateMethod::Put), Just(StateMethod::Patch)];
    let content = prop_oneof![
        Just(CallbackContent::ForwardPrepare),
        Just(CallbackContent::ForwardFulfil),
        Just(CallbackContent::ForwardAbort),
        Just(CallbackContent::ConfirmFulfil),
        Just(CallbackContent::ConfirmAbort),
        (method, view).prop_map(|(method, (state, completed_at, fulfilment, extensions, cause))| {
            CallbackContent::State(
                method,
                TransferView { state, completed_at, fulfilment, extensions, cause },
            )
        }),
        cause().prop_map(CallbackContent::Error),
        bulks::contents(),
    ];
    let resource = proptest::sample::select(&ResourceKind::ALL);
    (participant_id(), resource, reference, content).prop_map(|(target, resource, id, content)| Callback {
        target,
        subject: Subject { resource, id },
        content,
    })
}

fn config() -> ProptestConfig {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/codec.regressions.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

/// Bytes that begin like a record or a snapshot, so that decoding does not end at the first bytes.
fn plausible_bytes() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![4 => 0..4_u8, 1 => any::<u8>()];
    proptest::collection::vec(small, 0..400).prop_map(|mut bytes| {
        bytes.insert(0, 2);
        bytes
    })
}

/// The list of events above is complete.
#[test]
fn every_event_is_encoded_in_a_test() {
    let mut missing = Event::TAGS.to_vec();
    let (mut runner, events) = (TestRunner::deterministic(), event());
    for _ in 0..10_000 {
        let tried = events.new_tree(&mut runner).expect("an event").current();
        missing.retain(|tag| *tag != tried.tag());
    }
    assert!(missing.is_empty(), "no event has one of the tags {missing:?}");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn records_are_read_as_they_were_written(
        actor in actor(),
        events in proptest::collection::vec(event(), 0..4),
        callbacks in proptest::collection::vec(callback(), 0..4),
        headers: Vec<u8>,
        body: Vec<u8>,
    ) {
        let mut bytes = Vec::new();
        let payload = Payload { headers: &headers, body: &body };
        Record::encode(actor, &events, &callbacks, payload, &mut bytes);
        prop_assert_eq!(Record::decode(&bytes), Ok(Record { actor, events, callbacks, payload }));
        for length in 0..bytes.len() {
            prop_assert!(Record::decode(&bytes[..length]).is_err(), "a record cut at {} was read", length);
        }
        bytes.push(0);
        prop_assert!(Record::decode(&bytes).is_err(), "a record with something behind it was read");
    }

    #[test]
    fn fields_that_a_newer_version_added_are_skipped(event in event(), added: Vec<u8>) {
        let mut bytes = Vec::new();
        event.encode(&mut Encoder(&mut bytes));
        let length = (bytes.len() - 5 + added.len()) as u32;
        bytes[1..5].copy_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&added);
        let mut decoder = Decoder(&bytes);
        prop_assert_eq!(Event::decode(&mut decoder), Ok(event));
        prop_assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop_oneof![any::<Vec<u8>>(), plausible_bytes()]) {
        let _ = Record::decode(&bytes);
        let _ = Ledger::decode_snapshot(&bytes, LedgerConfig::default());
        let _ = Transfer::decode(&mut Decoder(&bytes));
    }
}
