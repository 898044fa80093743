//! Requests of random runs, and their translation into commands of the ledger.

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use upesi_ledger::command::{
    Abort, AdvanceItem, Expire, Fulfil, FulfilState, Fulfilment, FundsAction, FundsEnd, FundsPrepare, Get,
    NewFeeRule, NewSettlement, NewSettlementModel, Prepare, SettlementAbort, SettlementAdvance,
};
use upesi_ledger::{
    AccountId, AdminCommand, CallbackKey, Command, Delay, EndpointType, FeePayer, FeeTerms, FundsDirection,
    Granularity, Interchange, Ledger, LedgerAccountTypeId, ResourceId, SettlementId, SettlementState, Window,
    WindowId,
};
use upesi_types::{Amount, AmountError, Currency, ErrorCode, FspId, Timestamp, TransferId, UnfitAmount};

/// Time until a prepared withdrawal expires.
pub const VALIDITY_MS: i64 = 30_000;
/// Maximum time until a transfer expires.
pub const EXPIRY_MAX_MS: i64 = 20_000;

/// First id of payments that end at once. Other ids are below.
pub const PAYMENT_FIRST: u8 = 20;
pub const PAYMENT_LAST: u8 = 100;

/// Two members from the beginning, one that may join, one that never does, one in different case, and the hub.
pub const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "ghost", "ALPHA", "Hub"];
pub type Name = &'static str;

/// A request. There are few ids, so that requests often collide.
#[derive(Clone, Debug)]
pub enum Ask {
    Prepare(AskPrepare),
    /// A prepare and its fulfil, with an id of their own.
    Pay {
        payer: Name,
        payee: Name,
        units: i64,
    },
    Resend {
        id: u8,
        from: Option<Name>,
    },
    Fulfil {
        id: u8,
        from: Who,
        to: Who,
        state: FulfilState,
        is_v10: bool,
        fulfilment: Given,
        body: u8,
    },
    Abort {
        id: u8,
        from: Who,
        to: Who,
        code: u16,
        body: u8,
    },
    Get {
        id: u8,
        from: Name,
    },
    Tick,
    Expire {
        id: u8,
    },
    Delivered(Name),
    Park(Name),
    Redeliver(Name),
    Drain,
    Restart,
    Create(Name),
    Activate {
        name: Name,
        is_active: bool,
    },
    ActivateAccount {
        name: Name,
        is_position: bool,
        is_active: bool,
    },
    ActivateModel(bool),
    Endpoint {
        name: Name,
        is_empty: bool,
    },
    Open {
        name: Name,
        cap: i64,
        position: i64,
    },
    Limit {
        name: Name,
        cap: i64,
    },
    HubAccount {
        name: Name,
        is_known: bool,
    },
    Model {
        is_new_name: bool,
    },
    AccountType,
    /// A number, or the open window.
    CloseWindow(Option<u8>),
    /// Numbers, or all that can be settled; by the model of positions, or the one of fees.
    Settle {
        windows: Option<Vec<u8>>,
        is_fee: bool,
    },
    FeeRule(RuleAsk),
    /// Now, or some milliseconds from now.
    EndFee {
        id: u8,
        in_ms: Option<i64>,
    },
    /// The last settlement, all of its parties and the next state, if not given.
    Advance {
        id: Option<u8>,
        names: Option<Vec<Name>>,
        state: Option<u8>,
    },
    /// The last one, if not given.
    AbortSettlement(Option<u8>),
    Funds {
        id: u8,
        name: Name,
        is_deposit: bool,
        units: i64,
    },
    EndFunds {
        id: u8,
        name: Name,
        is_commit: bool,
    },
}

/// The payers of a rule that names some.
pub const PAYERS: [Name; 2] = ["alpha", "gamma"];

/// A rule for a fee. Ids count in order of names.
#[derive(Clone, Debug)]
pub struct RuleAsk {
    pub id: u8,
    pub names_payers: bool,
    pub least: i64,
    pub most: Option<i64>,
    pub rate: u32,
    pub decimals: u8,
    pub fixed: i64,
    pub is_paid_by_payer: bool,
    pub begins_in_ms: i64,
    pub lasts_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct AskPrepare {
    pub id: u8,
    pub from: Option<Name>,
    pub payer: Name,
    pub payee: Name,
    /// Ten-thousandths; absent for an amount that the ledger cannot hold.
    pub units: Option<i64>,
    pub has_condition: bool,
    /// When it expires, in milliseconds from now.
    pub expires_in_ms: i64,
    pub body: u8,
}

/// The party that a PUT names.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    Payer,
    Payee,
    Name(Name),
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    Right,
    Wrong,
    Missing,
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![8 => 0..2_usize, 3 => Just(2), 1 => 3..6_usize].prop_map(|index| NAMES[index])
}

fn units() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 1..12_i64, 1 => 12..60_i64, 2 => proptest::sample::select(vec![0_i64, 20, 50, 60])]
}

/// Usually the correct party, sometimes another one.
fn who(right: Who) -> impl Strategy<Value = Who> {
    prop_oneof![
        8 => Just(right), 1 => Just(Who::Payer), 1 => Just(Who::Payee), 2 => name().prop_map(Who::Name), 1 => Just(Who::Nobody)
    ]
}

fn transfers() -> impl Strategy<Value = Ask> {
    let id = || 0..6_u8;
    // Deadlines and pauses are chosen from few values, so that requests often meet a deadline to the millisecond.
    let expiry = proptest::sample::select(vec![
        -1_i64,
        0,
        1,
        2,
        1_000,
        5_000,
        EXPIRY_MAX_MS,
        EXPIRY_MAX_MS,
        EXPIRY_MAX_MS + 1,
    ]);
    let prepare = (
        (id(), proptest::option::weighted(0.1, name()), name(), name()),
        (proptest::option::weighted(0.95, units()), proptest::bool::weighted(0.95), expiry, 0..2_u8),
    );
    let state = prop_oneof![
        6 => Just(FulfilState::Committed), 6 => Just(FulfilState::Reserved), 1 => Just(FulfilState::Received),
        1 => Just(FulfilState::Aborted)
    ];
    let given = prop_oneof![
        8 => Just(Given::Right), 2 => Just(Given::Wrong), 1 => Just(Given::Missing)
    ];
    let put = || (id(), who(Who::Payee), who(Who::Payer), prop_oneof![4 => Just(0), 1 => Just(1_u8)]);
    prop_oneof![
        8 => prepare.prop_map(|((id, from, payer, payee), (units, has_condition, expires_in_ms, body))| {
            Ask::Prepare(AskPrepare { id, from, payer, payee, units, has_condition, expires_in_ms, body })
        }),
        3 => (id(), proptest::option::weighted(0.2, name())).prop_map(|(id, from)| Ask::Resend { id, from }),
        8 => (put(), state, proptest::bool::weighted(0.1), given).prop_map(
            |((id, from, to, body), state, is_v10, fulfilment)| Ask::Fulfil {
                id, from, to, state, is_v10, fulfilment, body
            }
        ),
        4 => (put(), proptest::sample::select(vec![5104_u16, 5199, 7001])).prop_map(
            |((id, from, to, body), code)| Ask::Abort { id, from, to, code, body }
        ),
        3 => (id(), name()).prop_map(|(id, from)| Ask::Get { id, from }),
        3 => Just(Ask::Tick),
        1 => id().prop_map(|id| Ask::Expire { id }),
    ]
}

fn operations() -> impl Strategy<Value = Ask> {
    let is = proptest::bool::ANY;
    let mostly = || proptest::bool::weighted(0.7);
    let cap = || prop_oneof![0..80_i64, Just(-1)];
    prop_oneof![
        1 => name().prop_map(Ask::Delivered),
        1 => name().prop_map(Ask::Park),
        1 => name().prop_map(Ask::Redeliver),
        1 => Just(Ask::Drain),
        1 => Just(Ask::Restart),
        1 => name().prop_map(Ask::Create),
        1 => (name(), mostly()).prop_map(|(name, is_active)| Ask::Activate { name, is_active }),
        1 => (name(), mostly(), mostly()).prop_map(|(name, is_position, is_active)| Ask::ActivateAccount {
            name,
            is_position,
            is_active
        }),
        1 => mostly().prop_map(Ask::ActivateModel),
        1 => (name(), is).prop_map(|(name, is_empty)| Ask::Endpoint { name, is_empty }),
        1 => (name(), cap(), -10..10_i64).prop_map(|(name, cap, position)| Ask::Open { name, cap, position }),
        1 => (name(), cap()).prop_map(|(name, cap)| Ask::Limit { name, cap }),
        1 => (name(), is).prop_map(|(name, is_known)| Ask::HubAccount { name, is_known }),
        1 => is.prop_map(|is_new_name| Ask::Model { is_new_name }),
        1 => Just(Ask::AccountType),
        4 => (0..4_u8, name(), is, units()).prop_map(|(id, name, is_deposit, units)| Ask::Funds {
            id,
            name,
            is_deposit,
            units
        }),
        6 => (0..4_u8, name(), is).prop_map(|(id, name, is_commit)| Ask::EndFunds { id, name, is_commit }),
    ]
}

fn settlements() -> impl Strategy<Value = Ask> {
    let number = || proptest::option::weighted(0.1, 0..5_u8);
    let names = proptest::collection::vec(name(), 0..4);
    prop_oneof![
        6 => (name(), name(), units()).prop_map(|(payer, payee, units)| Ask::Pay { payer, payee, units }),
        3 => number().prop_map(Ask::CloseWindow),
        3 => (proptest::option::weighted(0.2, proptest::collection::vec(0..5_u8, 0..3)), proptest::bool::ANY)
            .prop_map(|(windows, is_fee)| Ask::Settle { windows, is_fee }),
        8 => (number(), proptest::option::weighted(0.2, names), proptest::option::weighted(0.1, 0..7_u8))
            .prop_map(|(id, names, state)| Ask::Advance { id, names, state }),
        1 => number().prop_map(Ask::AbortSettlement),
    ]
}

fn fees() -> impl Strategy<Value = Ask> {
    let which =
        (0..4_u8, proptest::bool::weighted(0.2), 0..8_i64, proptest::option::weighted(0.2, 0..40_i64));
    let rate = proptest::sample::select(vec![0_u32, 1, 120_000, 500_000, 1_000_000]);
    let how = (rate, 3..5_u8, 0..3_i64, proptest::bool::ANY);
    let begins = proptest::sample::select(vec![0_i64, 0, 0, 1, 4_000, -1]);
    let lasts = proptest::option::weighted(0.3, proptest::sample::select(vec![0_i64, 1, 3, 4_000]));
    let ends = proptest::sample::select(vec![None, None, Some(0_i64), Some(2), Some(4_000), Some(-1)]);
    prop_oneof![
        2 => (which, how, begins, lasts).prop_map(|(which, how, begins_in_ms, lasts_ms)| {
            let (id, names_payers, least, most) = which;
            let (rate, decimals, fixed, is_paid_by_payer) = how;
            Ask::FeeRule(RuleAsk {
                id, names_payers, least, most, rate, decimals, fixed, is_paid_by_payer, begins_in_ms, lasts_ms
            })
        }),
        1 => (0..4_u8, ends).prop_map(|(id, in_ms)| Ask::EndFee { id, in_ms }),
    ]
}

/// A step: the pause after the previous step in milliseconds, and a request.
pub fn step() -> impl Strategy<Value = (i64, Ask)> {
    let pause = proptest::sample::select(vec![1_i64, 1, 1, 1, 2, 2, 3, 1_000, 4_000, VALIDITY_MS]);
    (pause, prop_oneof![12 => transfers(), 4 => operations(), 8 => settlements(), 1 => fees()])
}

/// A first prepare, for repetitions and PUTs.
#[derive(Clone, Debug)]
pub struct Known {
    pub ask: AskPrepare,
    pub expires_ms: i64,
}

impl AskPrepare {
    /// A prepare without faults.
    pub fn plain(id: u8, payer: Name, payee: Name, units: i64) -> Self {
        let (units, has_condition, expires_in_ms) = (Some(units), true, EXPIRY_MAX_MS);
        Self { id, from: None, payer, payee, units, has_condition, expires_in_ms, body: 0 }
    }

    pub fn fingerprint(&self, expires_ms: i64) -> [u8; 16] {
        let said = (self.payer, self.payee, self.units, self.has_condition, expires_ms, self.body);
        digest(&format!("{said:?}"))
    }

    pub fn command(&self, from: Name, expires_ms: i64) -> Command {
        Command::Prepare(Prepare {
            id: transfer_id('t', self.id),
            source: fsp(from),
            destination: Some(fsp(self.payee)),
            payer: fsp(self.payer),
            payee: fsp(self.payee),
            amount: self
                .units
                .map(amount)
                .ok_or(UnfitAmount { error: AmountError::Scale, text: "0.00001".into() }),
            currency: xts(),
            condition: self.has_condition.then(|| Sha256::digest([self.id; 32]).into()),
            expires_at: Timestamp::from_ms(expires_ms),
            fingerprint: self.fingerprint(expires_ms),
            extensions: None,
        })
    }
}

/// The headers of a PUT; `None` for a source that is not a valid name.
pub fn named(who: Who, known: Option<&Known>) -> Option<Name> {
    match who {
        Who::Payer => Some(known.map_or("alpha", |known| known.ask.payer)),
        Who::Payee => Some(known.map_or("beta", |known| known.ask.payee)),
        Who::Name(name) => Some(name),
        Who::Nobody => None,
    }
}

pub fn put_fingerprint(ask: &Ask) -> [u8; 16] {
    match ask {
        Ask::Fulfil { state, fulfilment, body, .. } => digest(&format!("{state:?} {fulfilment:?} {body}")),
        Ask::Abort { code, body, .. } => digest(&format!("{code} {body}")),
        other => panic!("{other:?} is no PUT"),
    }
}

/// The command of a request that does not depend on earlier prepares. `ledger` provides numbers that operators look up.
pub fn command(ask: &Ask, known: Option<&Known>, ledger: &Ledger, now_ms: i64) -> Command {
    match ask {
        Ask::Fulfil { id, from, to, state, is_v10, fulfilment, .. } => Command::Fulfil(Fulfil {
            transfer: ResourceId::Id(transfer_id('t', *id)),
            source: fsp(named(*from, known).unwrap_or("ghost")),
            destination: named(*to, known).map(fsp),
            state: *state,
            may_reserve: !is_v10,
            fulfilment: match fulfilment {
                Given::Right => Fulfilment::Preimage([*id; 32]),
                Given::Wrong => Fulfilment::Preimage([0xee; 32]),
                Given::Missing => Fulfilment::Missing,
            },
            fingerprint: put_fingerprint(ask),
            extensions: None,
        }),
        Ask::Abort { id, from, to, code, .. } => Command::Abort(Abort {
            transfer: ResourceId::Id(transfer_id('t', *id)),
            source: fsp(named(*from, known).unwrap_or("ghost")),
            destination: named(*to, known).map(fsp),
            code: ErrorCode::from_number(*code).expect("four digits"),
            description: "declined".into(),
            fingerprint: put_fingerprint(ask),
        }),
        Ask::Get { id, from } => Command::Get(Get {
            transfer: ResourceId::Id(transfer_id('t', *id)),
            source: fsp(from),
            is_proxied: false,
        }),
        Ask::Tick => Command::Tick,
        Ask::Expire { id } => {
            Command::Expire(Expire { transfer: transfer_id('t', *id), reason: "as told".into() })
        }
        Ask::Delivered(name) => Command::Delivered(owed(ledger, name)),
        Ask::Redeliver(name) => Command::Redeliver(owed(ledger, name)),
        Ask::Park(name) => {
            let nothing = CallbackKey { target: upesi_ledger::ParticipantId::HUB, seq: u64::MAX, index: 0 };
            let key = owed(ledger, name).first().copied().unwrap_or(nothing);
            Command::Park { key, attempts: 3, reason: "connection refused".into() }
        }
        Ask::FeeRule(_) | Ask::EndFee { .. } => Command::Admin(rule(ask, now_ms)),
        other => Command::Admin(admin(other, ledger)),
    }
}

fn admin(ask: &Ask, ledger: &Ledger) -> AdminCommand {
    let currency = xts();
    match *ask {
        Ask::Create(name) => AdminCommand::CreateParticipant { name: fsp(name), currency, is_proxy: false },
        Ask::Activate { name, is_active } => {
            AdminCommand::SetParticipantActivity { name: fsp(name), is_active }
        }
        Ask::ActivateAccount { name, is_position, is_active } => {
            let kind =
                if is_position { LedgerAccountTypeId::POSITION } else { LedgerAccountTypeId::SETTLEMENT };
            AdminCommand::SetAccountActivity {
                name: fsp(name),
                account: account(ledger, name, kind),
                is_active,
            }
        }
        Ask::ActivateModel(is_active) => {
            AdminCommand::SetSettlementModelActivity { name: "NET".into(), is_active }
        }
        Ask::Endpoint { name, is_empty } => {
            let value = if is_empty { "" } else { "http://dfsp/transfers" }.into();
            AdminCommand::SetEndpoint { name: fsp(name), kind: EndpointType::TRANSFER_POST, value }
        }
        Ask::Open { name, cap, position } => AdminCommand::OpenAccounts {
            name: fsp(name),
            currency,
            net_debit_cap: amount(cap),
            initial_position: amount(position),
        },
        Ask::Limit { name, cap } => AdminCommand::SetLimit {
            name: fsp(name),
            currency,
            net_debit_cap: amount(cap),
            // As opened, so that the same cap changes nothing.
            alarm_basis_points: 8_000,
        },
        Ask::HubAccount { name, is_known } => {
            let kind = if is_known { "HUB_RECONCILIATION" } else { "NOSTRO" }.into();
            AdminCommand::CreateHubAccount { name: fsp(name), currency, kind }
        }
        Ask::Model { is_new_name: true } => AdminCommand::CreateSettlementModel(NewSettlementModel {
            delay: Delay::Immediate,
            ..NewSettlementModel::deferred_net("OTHER", Some(currency))
        }),
        Ask::Model { is_new_name: false } => new_model("NET"),
        Ask::AccountType => AdminCommand::CreateLedgerAccountType {
            name: "VOSTRO".into(),
            description: "".into(),
            is_active: true,
            is_settleable: false,
        },
        Ask::Funds { id, name, is_deposit, units } => AdminCommand::PrepareFunds(FundsPrepare {
            direction: if is_deposit { FundsDirection::In } else { FundsDirection::Out },
            id: transfer_id('f', id),
            name: fsp(name),
            account: account(ledger, name, LedgerAccountTypeId::SETTLEMENT),
            amount: amount(units),
            currency,
            external_reference: "bank".into(),
            reason: "as told".into(),
            extensions: None,
            fingerprint: digest(&format!("{name} {is_deposit} {units}")),
        }),
        Ask::EndFunds { id, name, is_commit } => AdminCommand::EndFunds(FundsEnd {
            action: if is_commit { FundsAction::Commit } else { FundsAction::Abort },
            id: transfer_id('f', id),
            name: fsp(name),
            account: account(ledger, name, LedgerAccountTypeId::SETTLEMENT),
            reason: "as told".into(),
        }),
        ref other => settlement(other, ledger),
    }
}

/// A fee rule that begins and ends relative to the present.
fn rule(ask: &Ask, now_ms: i64) -> AdminCommand {
    let name = |id: &u8| format!("FEE{id}").into();
    let said = match ask {
        Ask::FeeRule(said) => said,
        Ask::EndFee { id, in_ms } => {
            let until = in_ms.map(|in_ms| Timestamp::from_ms(now_ms + in_ms));
            return AdminCommand::EndFeeRule { name: name(id), until };
        }
        other => panic!("{other:?} is about no rule"),
    };
    let from_ms = now_ms + said.begins_in_ms;
    let terms = FeeTerms {
        name: name(&said.id),
        currency: xts(),
        payers: if said.names_payers { PAYERS.map(fsp).to_vec() } else { Vec::new() },
        payees: Vec::new(),
        amount_min: amount(said.least),
        amount_max: said.most.map(amount),
        rate: said.rate,
        decimals: said.decimals,
        fixed: amount(said.fixed),
        paid_by: if said.is_paid_by_payer { FeePayer::Payer } else { FeePayer::Payee },
    };
    let from = (said.begins_in_ms != 0).then_some(Timestamp::from_ms(from_ms));
    let until = said.lasts_ms.map(|lasts_ms| Timestamp::from_ms(from_ms + lasts_ms));
    AdminCommand::CreateFeeRule(NewFeeRule { terms, from, until })
}

fn settlement(ask: &Ask, ledger: &Ledger) -> AdminCommand {
    match *ask {
        Ask::CloseWindow(number) => {
            let open = ledger.windows().len() as u32;
            let id = WindowId(number.map_or(open, u32::from));
            AdminCommand::CloseWindow { id, reason: "end of day".into() }
        }
        Ask::Settle { ref windows, is_fee } => {
            let kind =
                if is_fee { LedgerAccountTypeId::INTERCHANGE_FEE } else { LedgerAccountTypeId::POSITION };
            let can_be_settled = |window: &&Window| {
                window.contents.iter().any(|content| content.kind == kind && content.state.can_be_settled())
            };
            let all = || ledger.windows().iter().filter(can_be_settled).map(|window| window.id).collect();
            let numbers = |numbers: &Vec<u8>| numbers.iter().map(|id| WindowId(u32::from(*id))).collect();
            let windows = windows.as_ref().map_or_else(all, numbers);
            AdminCommand::CreateSettlement(NewSettlement {
                model: if is_fee { "FEES" } else { "NET" }.into(),
                reason: "end of day".into(),
                windows,
            })
        }
        Ask::Advance { id, ref names, state } => advance(id, names.as_deref(), state, ledger),
        Ask::AbortSettlement(id) => AdminCommand::AbortSettlement(SettlementAbort {
            id: settlement_id(id, ledger),
            reason: "bank unavailable".into(),
            external_reference: None,
        }),
        ref other => panic!("{other:?} is not an operator's command"),
    }
}

fn settlement_id(id: Option<u8>, ledger: &Ledger) -> SettlementId {
    SettlementId(id.map_or(ledger.settlements().len() as u32, u32::from))
}

/// The type of the accounts that a settlement's model settles.
fn kind_of(ledger: &Ledger, id: SettlementId) -> LedgerAccountTypeId {
    let accounts = ledger.settlement(id).into_iter().flat_map(|settlement| &settlement.accounts);
    let kinds = accounts.filter_map(|item| Some(ledger.account(item.account)?.kind));
    kinds.max().unwrap_or(LedgerAccountTypeId::POSITION)
}

fn advance(id: Option<u8>, names: Option<&[Name]>, state: Option<u8>, ledger: &Ledger) -> AdminCommand {
    let id = settlement_id(id, ledger);
    let settlement = ledger.settlement(id);
    let before = settlement.map_or(SettlementState::Pending, |settlement| settlement.state);
    let next = match before {
        SettlementState::Settling => SettlementState::Settled,
        other => other.next().unwrap_or(other),
    };
    let state = state.map_or(next, |index| SettlementState::ALL[usize::from(index)]);
    let all = || {
        let mut names: Vec<_> = settlement.into_iter().flat_map(|settlement| &settlement.accounts).collect();
        let name = |id| ledger.participant(ledger.account(id).expect("an account").participant).name;
        names.sort_by_key(|item| name(item.account).to_string());
        names.into_iter().map(|item| item.account).collect()
    };
    let by_name = |names: &[Name]| {
        names.iter().map(|name| account(ledger, name, kind_of(ledger, id))).collect::<Vec<_>>()
    };
    let item = |account: AccountId| AdvanceItem {
        participant: ledger.account(account).map_or(0, |account| account.participant.number()),
        account: account.number(),
        state,
        reason: "as the bank reported".into(),
        external_reference: None,
    };
    let items = names.map_or_else(all, by_name).into_iter().map(item).collect();
    AdminCommand::AdvanceSettlement(SettlementAdvance { id, items })
}

pub fn new_model(name: &str) -> AdminCommand {
    AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net(name, Some(xts())))
}

/// A model that settles fees.
pub fn fee_model() -> AdminCommand {
    AdminCommand::CreateSettlementModel(NewSettlementModel {
        ledger_account_type: "INTERCHANGE_FEE".into(),
        settlement_account_type: "INTERCHANGE_FEE_SETTLEMENT".into(),
        ..NewSettlementModel::deferred_net("FEES", Some(xts()))
    })
}

/// A model that settles each transfer by its commit, in every currency without a model of its own.
pub fn gross_model() -> AdminCommand {
    AdminCommand::CreateSettlementModel(NewSettlementModel {
        granularity: Granularity::Gross,
        interchange: Interchange::Bilateral,
        delay: Delay::Immediate,
        ..NewSettlementModel::deferred_net("GROSS", None)
    })
}

/// The number of an account; 999 if it does not exist.
pub fn account(ledger: &Ledger, name: Name, kind: LedgerAccountTypeId) -> AccountId {
    let owner = ledger.participant_named(&fsp(name));
    let found = owner.and_then(|owner| owner.account(xts(), kind));
    found.or(AccountId::new(999)).expect("above zero")
}

fn owed(ledger: &Ledger, name: Name) -> Vec<CallbackKey> {
    let target = ledger.participant_named(&fsp(name)).map(|participant| participant.id);
    ledger.outbox().iter().map(|(key, _)| key).filter(|key| Some(key.target) == target).collect()
}

/// A currency without a smallest unit, so that any number of ten-thousandths is an amount.
pub fn xts() -> Currency {
    Currency::parse("XTS").expect("listed")
}

pub fn fsp(name: &str) -> FspId {
    FspId::parse(name).expect("a name")
}

pub fn amount(units: i64) -> Amount {
    Amount::from_units(units).expect("in range")
}

pub fn transfer_id(kind: char, id: u8) -> TransferId {
    TransferId::from_random_bytes([id + if kind == 't' { 0x10 } else { 0x80 }; 16])
}

fn digest(text: &str) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(text)[..16]);
    half
}
