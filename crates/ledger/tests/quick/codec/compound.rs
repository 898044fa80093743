//! Proposals of changes of every kind.

use proptest::prelude::*;
use upesi_ledger::command::{
    AdvanceItem, CoverItem, Deposit, EndpointValue, FundsAction, FundsEnd, FundsPrepare, NewCredential,
    NewFeeRule, NewOperator, NewSettlement, NewSettlementModel, NewSignatureKey, SettlementAbort,
    SettlementAdvance, SettlementCover,
};
use upesi_ledger::{
    AccountId, AdminAction, AdminCommand, ApprovalPolicy, BindingKind, Block, ChangeSet, EndpointType, Event,
    FeePayer, FeeTerms, FundsDirection, OperatorRole, Proposal, ProposalEnd, ProposalState, PublicKeyDer,
    Secret, SetChange, SettlementId, SettlementState, WindowId,
};
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::{account_id, amount, currency, name, text, timestamp, transfer_id};

/// Values for changes.
#[derive(Clone, Debug)]
struct Values {
    name: FspId,
    currency: Currency,
    amount: Amount,
    account: AccountId,
    id: TransferId,
    at: Timestamp,
    text: Box<str>,
    option: Option<Box<str>>,
    flag: bool,
    number: u32,
}

fn values() -> impl Strategy<Value = Values> {
    let ids = (name(), currency(), amount(), account_id(), transfer_id(), timestamp());
    (ids, text(), proptest::option::of(text()), any::<bool>(), any::<u32>()).prop_map(
        |((name, currency, amount, account, id, at), text, option, flag, number)| Values {
            name,
            currency,
            amount,
            account,
            id,
            at,
            text,
            option,
            flag,
            number,
        },
    )
}

fn of_participants(values: Values) -> Vec<AdminCommand> {
    let Values { name, currency, amount, account, text, flag, .. } = values;
    vec![
        AdminCommand::CreateParticipant { name, currency, is_proxy: flag },
        AdminCommand::SetParticipantActivity { name, is_active: flag },
        AdminCommand::SetEndpoint { name, kind: EndpointType::TRANSFER_POST, value: text.clone() },
        AdminCommand::SetEndpoints {
            name,
            endpoints: vec![EndpointValue { kind: EndpointType::TRANSFER_POST, value: text.clone() }],
        },
        AdminCommand::AddBinding { name, kind: BindingKind::ALL[0], value: text.clone() },
        AdminCommand::RemoveBinding { name, kind: BindingKind::ALL[0], value: text.clone() },
        AdminCommand::AddProxied { proxy: name, name },
        AdminCommand::RemoveProxied { proxy: name, name },
        AdminCommand::OpenAccounts { name, currency, net_debit_cap: amount, initial_position: amount },
        AdminCommand::SetLimit { name, currency, net_debit_cap: amount, alarm_basis_points: 800 },
        AdminCommand::CreateHubAccount { name, currency, kind: text },
        AdminCommand::SetAccountActivity { name, account, is_active: flag },
    ]
}

fn of_money(values: Values) -> Vec<AdminCommand> {
    let Values { name, currency, amount, account, id, text, option, flag, number, .. } = values;
    let direction = if flag { FundsDirection::In } else { FundsDirection::Out };
    let action = if flag { FundsAction::Commit } else { FundsAction::Abort };
    let reason = text.clone();
    vec![
        AdminCommand::PrepareFunds(FundsPrepare {
            direction,
            id,
            name,
            account,
            amount,
            currency,
            external_reference: text.clone(),
            reason: reason.clone(),
            extensions: option.clone(),
            fingerprint: [7; 16],
        }),
        AdminCommand::Deposit(Deposit {
            id,
            name,
            amount,
            currency,
            external_reference: text.clone(),
            reason: reason.clone(),
            extensions: option.clone(),
            fingerprint: [7; 16],
        }),
        AdminCommand::EndFunds(FundsEnd { action, id, name, account, reason: reason.clone() }),
        AdminCommand::CloseWindow { id: WindowId(number), reason: reason.clone() },
        AdminCommand::CreateSettlement(NewSettlement {
            model: text,
            reason: reason.clone(),
            windows: vec![WindowId(number)],
        }),
        AdminCommand::AdvanceSettlement(SettlementAdvance {
            id: SettlementId(number),
            items: vec![AdvanceItem {
                participant: number,
                account: number,
                state: SettlementState::Settled,
                reason: reason.clone(),
                external_reference: option.clone(),
            }],
        }),
        AdminCommand::MoveCover(SettlementCover {
            id: SettlementId(number),
            items: vec![CoverItem {
                participant: number,
                account: number,
                funds: id,
                reason: reason.clone(),
                external_reference: option.clone(),
            }],
        }),
        AdminCommand::AbortSettlement(SettlementAbort {
            id: SettlementId(number),
            reason,
            external_reference: option,
        }),
    ]
}

fn of_scheme(values: Values) -> Vec<AdminCommand> {
    let Values { name, currency, amount, at, text, flag, number, .. } = values;
    let terms = FeeTerms {
        name: text.clone(),
        currency,
        payers: vec![name],
        payees: vec![],
        amount_min: amount,
        amount_max: flag.then_some(amount),
        rate: number,
        decimals: 2,
        fixed: amount,
        paid_by: FeePayer::ALL[0],
    };
    let roles = [OperatorRole::Treasury].into_iter().collect();
    let waived = [(currency, amount)].into_iter().collect();
    vec![
        AdminCommand::AcceptClock { reason: text.clone() },
        AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net(&text, Some(currency))),
        AdminCommand::SetSettlementModelActivity { name: text.clone(), is_active: flag },
        AdminCommand::CreateFeeRule(NewFeeRule { terms, from: flag.then_some(at), until: Some(at) }),
        AdminCommand::EndFeeRule { name: text.clone(), until: flag.then_some(at) },
        AdminCommand::CreateLedgerAccountType {
            name: text.clone(),
            description: text.clone(),
            is_active: flag,
            is_settleable: flag,
        },
        AdminCommand::SetOperator(NewOperator {
            name: text.clone(),
            roles,
            participant: flag.then_some(name),
            is_active: flag,
        }),
        AdminCommand::AddCredential(NewCredential {
            name: text.clone(),
            secret: Secret::Token([9; 32]),
            expires_at: at,
        }),
        AdminCommand::RemoveCredential { name: text, id: number },
        AdminCommand::SetApprovalPolicy(ApprovalPolicy { waived, ..ApprovalPolicy::default() }),
        AdminCommand::AddSignatureKey(NewSignatureKey {
            name,
            public_key: PublicKeyDer([7; 91].into()),
            not_before: flag.then_some(at),
            not_after: None,
            starts_at: Some(at),
            overlap_hours: 24,
        }),
        AdminCommand::RevokeSignatureKey { name, sha256: [8; 32] },
        AdminCommand::SetBlock { block: Block::Key([9; 32]) },
        AdminCommand::LiftBlock { block: Block::Participant(name) },
    ]
}

/// Every kind of change.
fn changes(values: &Values) -> Vec<AdminCommand> {
    let single =
        [of_participants(values.clone()), of_money(values.clone()), of_scheme(values.clone())].concat();
    let before = |command: &AdminCommand| SetChange { command: command.clone(), before: values.text.clone() };
    let set = ChangeSet { name: values.text.clone(), changes: single.iter().map(before).collect() };
    [single, vec![AdminCommand::ChangeSet(set)]].concat()
}

fn change() -> BoxedStrategy<AdminCommand> {
    values().prop_flat_map(|values| proptest::sample::select(changes(&values))).boxed()
}

fn end() -> impl Strategy<Value = ProposalEnd> {
    let option = || proptest::option::of(text());
    let state = proptest::sample::select(ProposalState::ALL);
    (state, timestamp(), option(), option(), option())
        .prop_map(|(state, at, by, comment, result)| ProposalEnd { state, at, by, comment, result })
}

/// Boxed, because trees of so many values are large on the stack.
pub fn proposal_events() -> BoxedStrategy<Event> {
    let texts = (text(), text(), text(), text(), text());
    let rest = (any::<u64>(), any::<[u8; 32]>(), timestamp(), timestamp(), proptest::option::of(end()));
    let action = proptest::sample::select(AdminAction::ALL);
    let made = (proptest::option::of(change()), texts, action, rest).prop_map(
        |(command, (object, before, after, reason, maker), action, rest)| {
            let (id, digest, created_at, expires_at, end) = rest;
            Event::ProposalMade(Box::new(Proposal {
                id,
                command,
                digest,
                action,
                object,
                before,
                after,
                reason,
                maker,
                created_at,
                expires_at,
                end,
            }))
        },
    );
    let ended = (any::<u64>(), end()).prop_map(|(id, end)| {
        let ProposalEnd { state, by, comment, result, .. } = end;
        Event::ProposalEnded { id, state, by, comment, result }
    });
    let who = (text(), text(), proptest::option::of(text()), proptest::option::of(text()));
    let approved = (any::<u64>(), who).prop_map(|(id, (operator, known_by, address, comment))| {
        Event::ChangeSetApproved { id, operator, known_by, address, comment }
    });
    let steps =
        (any::<u64>(), any::<u32>(), proptest::option::of(text())).prop_map(|(id, number, why)| match why {
            Some(why) => Event::ChangeSetStopped { id, number, why },
            None => Event::ChangeSetStepped { id, number },
        });
    let waived = proptest::collection::btree_map(currency(), amount(), 0..3);
    let set = waived
        .prop_map(|waived| Event::ApprovalPolicySet(ApprovalPolicy { waived, ..ApprovalPolicy::default() }));
    let of_sets = prop_oneof![approved.boxed(), steps.boxed()];
    prop_oneof![3 => made.boxed(), 1 => ended.boxed(), 1 => set.boxed(), 1 => of_sets.boxed()].boxed()
}

/// The list of changes above is complete.
#[test]
fn every_change_is_encoded_in_a_test() {
    let values = Values {
        name: FspId::parse("greenbank").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        amount: Amount::ZERO,
        account: AccountId::new(1).unwrap(),
        id: TransferId::from_random_bytes([1; 16]),
        at: Timestamp::EPOCH,
        text: "text".into(),
        option: None,
        flag: true,
        number: 1,
    };
    let mut tags: Vec<_> = changes(&values).iter().map(AdminCommand::tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, AdminCommand::TAGS);
}
