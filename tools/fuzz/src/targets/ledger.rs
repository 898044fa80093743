//! Commands of DFSPs and operators for a ledger whose balances are near the limits of amounts.

use upesi_ledger::command::{
    Abort, AbortFxTransfer, AdvanceItem, AskedMoney, BulkCommand, Expire, Fulfil, FulfilBulk,
    FulfilFxTransfer, FulfilState, Fulfilment, FundsAction, FundsEnd, FundsPrepare, FxTransferCommand,
    NewFeeRule, NewSettlement, NewSettlementModel, Prepare, PrepareBulk, PrepareFxTransfer, SettlementAbort,
    SettlementAdvance,
};
use upesi_ledger::{
    AccountId, AdminCommand, Archived, AskedItem, Command, Decision, DecisionInput, Delay, FeePayer,
    FeeTerms, FundsDirection, Granularity, Interchange, ItemResult, Ledger, LedgerAccountTypeId,
    LedgerConfig, Limits, NewItems, PublicBulkState, RATE_WHOLE, SettlementId, SettlementState, WindowId,
    audit,
};
use upesi_types::{Amount, BulkId, Currency, ErrorCode, FspId, FxTransferId, Timestamp, TransferId};

/// Members of the scheme. The last one is behind the proxy before it.
const MEMBERS: [&str; 5] = ["alpha", "beta", "forex", "bridge", "farbank"];
const PROXY: usize = 3;
const CURRENCIES: [&str; 2] = ["KES", "TZS"];
const MAX: i64 = Amount::MAX.units();
/// Amounts at the limits of the range, and small ones.
const EDGES: [i64; 12] =
    [1, 2, 10_000, MAX / 3, MAX / 2 - 1, MAX / 2, MAX / 2 + 1, MAX - 10_000, MAX - 2, MAX - 1, MAX, 50_000];
/// The only preimage that the commands use, and its SHA-256.
const PREIMAGE: [u8; 32] = [7; 32];
const CONDITION: [u8; 32] = [
    0x4b, 0xb0, 0x6f, 0x8e, 0x4e, 0x3a, 0x77, 0x15, 0xd2, 0x01, 0xd5, 0x73, 0xd0, 0xaa, 0x42, 0x37, 0x62,
    0xe5, 0x5d, 0xab, 0xd6, 0x1a, 0x2c, 0x02, 0x27, 0x8f, 0xa5, 0x6c, 0xc6, 0xd2, 0x94, 0xe0,
];
/// Maximum number of commands in one input. More would take time from other inputs.
const COMMANDS_MAX: usize = 64;
const START_MS: i64 = 1_932_811_200_000;
const EXPIRES_IN_MS: i64 = 40;

/// The input describes the scheme's setup and the commands that follow. No command may make the ledger panic, neither
/// when it is decided nor when it is folded, and all invariants hold after each.
pub(crate) fn ledger_commands(input: &[u8]) {
    let mut hub = Hub::new(Input(input));
    for _ in 0..COMMANDS_MAX {
        let Some(code) = hub.input.next() else { break };
        let Some(command) = hub.command(code) else { continue };
        hub.submit(&command);
    }
}

/// The rest of an input, with zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn amount(&mut self) -> Amount {
        amount(EDGES[self.below(EDGES.len())])
    }

    fn member(&mut self) -> FspId {
        fsp(MEMBERS[self.below(MEMBERS.len())])
    }

    fn currency(&mut self) -> Currency {
        currency(self.below(CURRENCIES.len()))
    }

    fn id(&mut self, kind: u8) -> TransferId {
        id(kind, self.byte() % 8)
    }
}

fn fsp(name: &str) -> FspId {
    FspId::parse(name).expect("a literal name")
}

fn currency(number: usize) -> Currency {
    Currency::parse(CURRENCIES[number]).expect("a literal currency")
}

fn amount(units: i64) -> Amount {
    Amount::from_units(units).expect("an amount in range")
}

fn id(kind: u8, number: u8) -> TransferId {
    let mut bytes = [kind; 16];
    bytes[15] = number;
    TransferId::from_random_bytes(bytes)
}

struct Hub<'a> {
    input: Input<'a>,
    ledger: Ledger,
    now_ms: i64,
}

impl<'a> Hub<'a> {
    /// Members with positions, deposits and caps at the limits of the range.
    fn new(mut input: Input<'a>) -> Self {
        let flags = input.byte();
        let is = |bit: u8| flags >> bit & 1 == 1;
        let config = LedgerConfig {
            on_us_transfers: is(0),
            limits: Limits { pairs: 1_000, ..Limits::TINY },
            ..LedgerConfig::default()
        };
        let mut hub = Self { input, ledger: Ledger::new(config), now_ms: START_MS };
        for number in 0..CURRENCIES.len() {
            let currency = currency(number);
            for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
                hub.admin(AdminCommand::CreateHubAccount { name: fsp("Hub"), currency, kind: kind.into() });
            }
            hub.admin(AdminCommand::CreateSettlementModel(model(number, is(1 + number as u8), is(3))));
            if is(4) {
                hub.admin(AdminCommand::CreateSettlementModel(fee_model(number)));
            }
        }
        for (member, name) in MEMBERS.iter().enumerate().take(PROXY + 1) {
            for number in 0..CURRENCIES.len() {
                let (name, currency) = (fsp(name), currency(number));
                let is_proxy = member == PROXY;
                hub.admin(AdminCommand::CreateParticipant { name, currency, is_proxy });
                let edges = hub.input.byte();
                let position = EDGES[usize::from(edges & 15) % EDGES.len()];
                let initial_position = match edges >> 4 & 3 {
                    0 => Amount::ZERO,
                    1 => amount(position).negated(),
                    _ => amount(position),
                };
                let net_debit_cap = Amount::MAX;
                hub.admin(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position });
                if let Some(account) = hub.account(name, currency, LedgerAccountTypeId::SETTLEMENT) {
                    let deposit = hub.input.amount();
                    let id = id(b'd', (2 * member + number) as u8);
                    hub.admin(funds(FundsDirection::In, id, name, account, deposit, currency));
                }
            }
        }
        hub.admin(AdminCommand::AddProxied { proxy: fsp(MEMBERS[PROXY]), name: fsp(MEMBERS[PROXY + 1]) });
        hub
    }

    fn admin(&mut self, command: AdminCommand) {
        self.submit(&Command::Admin(command));
    }

    fn submit(&mut self, command: &Command) {
        self.now_ms += 1;
        let now = Timestamp::from_ms(self.now_ms);
        let mut decision = Decision::default();
        self.ledger.decide(command, &DecisionInput::new(now.into(), &Archived::Absent), &mut decision);
        if !decision.is_empty() {
            let seq = self.ledger.last_seq() + 1;
            self.ledger.evolve(seq, now, decision.events, &decision.callbacks);
        }
        let findings = audit::check(&self.ledger);
        assert!(findings.is_empty(), "{command:?}: {findings:?}");
    }

    fn account(&self, name: FspId, currency: Currency, kind: LedgerAccountTypeId) -> Option<AccountId> {
        self.ledger.participant_named(&name)?.account(currency, kind)
    }

    fn expires_at(&self) -> Timestamp {
        Timestamp::from_ms(self.now_ms + EXPIRES_IN_MS)
    }

    /// The next command; `None` if its subject does not exist.
    fn command(&mut self, code: u8) -> Option<Command> {
        Some(match code % 20 {
            0 | 1 => self.prepare(),
            2 | 3 => self.fulfil()?,
            4 => self.abort()?,
            5 => self.convert(),
            6 => self.convert_received()?,
            7 => self.fulfil_fx_transfer()?,
            8 => self.abort_fx_transfer()?,
            9 => self.prepare_bulk(),
            10 => self.fulfil_bulk()?,
            11 => Command::StepBulk,
            12 => {
                self.now_ms += i64::from(self.input.byte() % 64);
                Command::Tick
            }
            13 => Command::Expire(Expire { transfer: self.input.id(b't'), reason: "stuck".into() }),
            14 | 15 => self.move_funds()?,
            16 => self.settle(),
            17 => self.advance()?,
            18 => self.change_scheme(),
            _ => self.change_member(),
        })
    }

    fn prepare(&mut self) -> Command {
        let id = self.input.id(b't');
        let (payer, payee) = (self.input.member(), self.input.member());
        Command::Prepare(Prepare {
            id,
            source: payer,
            destination: None,
            payer,
            payee,
            amount: Ok(self.input.amount()),
            currency: self.input.currency(),
            condition: Some(CONDITION),
            expires_at: self.expires_at(),
            fingerprint: [1; 16],
            extensions: None,
        })
    }

    fn parties(&self, id: TransferId) -> Option<(FspId, FspId)> {
        let transfer = self.ledger.transfer(id)?;
        let name = |party| Some(self.ledger.participant(party?).name);
        Some((name(transfer.payer)?, name(transfer.payee)?))
    }

    fn fulfil(&mut self) -> Option<Command> {
        let id = self.input.id(b't');
        let (payer, payee) = self.parties(id)?;
        Some(Command::Fulfil(Fulfil {
            transfer: id.into(),
            source: payee,
            destination: Some(payer),
            state: if self.input.flag() { FulfilState::Reserved } else { FulfilState::Committed },
            may_reserve: true,
            fulfilment: Fulfilment::Preimage(PREIMAGE),
            fingerprint: [2; 16],
            extensions: None,
        }))
    }

    fn abort(&mut self) -> Option<Command> {
        let id = self.input.id(b't');
        let (payer, payee) = self.parties(id)?;
        Some(Command::Abort(Abort {
            transfer: id.into(),
            source: payee,
            destination: Some(payer),
            code: ErrorCode::PAYEE,
            description: "declined".into(),
            fingerprint: [3; 16],
        }))
    }

    fn convert(&mut self) -> Command {
        let transfer = self.input.id(b't');
        let initiator = self.input.member();
        let (source, from) = (self.input.amount(), self.input.below(CURRENCIES.len()));
        self.fx_transfer(transfer, initiator, (source, from))
    }

    /// A payee's FX transfer for the amount of a reserved transfer.
    fn convert_received(&mut self) -> Option<Command> {
        let id = self.input.id(b't');
        let (_, payee) = self.parties(id)?;
        let transfer = self.ledger.transfer(id)?;
        let from = usize::from(transfer.currency != currency(0));
        let amount = transfer.amount;
        Some(self.fx_transfer(id, payee, (amount, from)))
    }

    fn fx_transfer(
        &mut self,
        transfer: TransferId,
        initiator: FspId,
        (source, from): (Amount, usize),
    ) -> Command {
        let asked = |amount, number| AskedMoney { amount: Ok(amount), currency: currency(number) };
        let counter_party = self.input.member();
        Command::FxTransfer(FxTransferCommand::Prepare(Box::new(PrepareFxTransfer {
            id: FxTransferId::new(self.input.id(b'c')),
            determining_transfer: Some(transfer),
            source: initiator,
            destination: None,
            initiator,
            counter_party,
            source_amount: asked(source, from),
            target_amount: asked(self.input.amount(), 1 - from),
            condition: Some(CONDITION),
            expires_at: Some(self.expires_at()),
            fingerprint: [4; 16],
        })))
    }

    fn parties_of_fx_transfer(&self, id: FxTransferId) -> Option<(FspId, FspId)> {
        let fx_transfer = self.ledger.fx_transfer(id)?;
        let name = |party| Some(self.ledger.participant(party?).name);
        Some((name(fx_transfer.initiator)?, name(fx_transfer.fxp)?))
    }

    fn fulfil_fx_transfer(&mut self) -> Option<Command> {
        let id = self.input.id(b'c');
        let (initiator, fxp) = self.parties_of_fx_transfer(FxTransferId::new(id))?;
        Some(Command::FxTransfer(FxTransferCommand::Fulfil(FulfilFxTransfer {
            fx_transfer: id.into(),
            source: fxp,
            destination: Some(initiator),
            state: FulfilState::Reserved,
            fulfilment: Fulfilment::Preimage(PREIMAGE),
            fingerprint: [5; 16],
        })))
    }

    fn abort_fx_transfer(&mut self) -> Option<Command> {
        let id = self.input.id(b'c');
        let (initiator, fxp) = self.parties_of_fx_transfer(FxTransferId::new(id))?;
        Some(Command::FxTransfer(FxTransferCommand::Abort(AbortFxTransfer {
            fx_transfer: id.into(),
            source: fxp,
            destination: Some(initiator),
            code: ErrorCode::PAYEE,
            description: "declined".into(),
            fingerprint: [6; 16],
        })))
    }

    fn prepare_bulk(&mut self) -> Command {
        let (payer, payee) = (self.input.member(), self.input.member());
        let first = self.input.byte() % 8;
        let currency = self.input.currency();
        let items = (0..=self.input.byte() % 3).map(|place| {
            let asked = AskedItem {
                amount: Ok(self.input.amount()),
                currency,
                ilp_packet: "packet".into(),
                condition: Some(CONDITION),
                extensions: None,
            };
            (id(b't', (first + place) % 8), asked)
        });
        let items = NewItems::new(items.collect()).expect("one to three items with ids of their own");
        Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
            id: BulkId::new(self.input.id(b'b')),
            quote: id(b'q', 0),
            source: payer,
            destination: None,
            payer,
            payee,
            items,
            expires_at: self.expires_at(),
            fingerprint: [7; 16],
            extensions: None,
        })))
    }

    /// Fulfils every item.
    fn fulfil_bulk(&mut self) -> Option<Command> {
        let id = self.input.id(b'b');
        let bulk = self.ledger.bulk(BulkId::new(id))?;
        let source = self.ledger.participant(bulk.payee?).name;
        let result = || ItemResult::Fulfil { fulfilment: PREIMAGE, extensions: None };
        let results = bulk.items.iter().map(|item| (item.transfer, result())).collect();
        Some(Command::Bulk(BulkCommand::Fulfil(Box::new(FulfilBulk {
            bulk: id.into(),
            source,
            destination: None,
            state: PublicBulkState::Completed,
            fault: None,
            results,
            fingerprint: [8; 16],
            extensions: None,
        }))))
    }

    fn move_funds(&mut self) -> Option<Command> {
        let (name, currency) = (self.input.member(), self.input.currency());
        let account = self.account(name, currency, LedgerAccountTypeId::SETTLEMENT)?;
        let id = self.input.id(b'f');
        Some(Command::Admin(match self.input.byte() % 4 {
            0 => funds(FundsDirection::In, id, name, account, self.input.amount(), currency),
            1 => funds(FundsDirection::Out, id, name, account, self.input.amount(), currency),
            end => {
                let action = if end == 2 { FundsAction::Commit } else { FundsAction::Abort };
                AdminCommand::EndFunds(FundsEnd { action, id, name, account, reason: "bank".into() })
            }
        }))
    }

    /// Closes the open window, or settles the one before it.
    fn settle(&mut self) -> Command {
        let open = self.ledger.windows().len() as u32;
        Command::Admin(if self.input.flag() {
            AdminCommand::CloseWindow { id: WindowId(open), reason: "end of day".into() }
        } else {
            let number = self.input.below(CURRENCIES.len());
            let model = if self.input.flag() { fee_model(number) } else { model(number, false, false) };
            let windows = vec![WindowId(open.saturating_sub(1))];
            AdminCommand::CreateSettlement(NewSettlement {
                model: model.name,
                reason: "end of day".into(),
                windows,
            })
        })
    }

    /// Advances every account of the last settlement, or aborts it.
    fn advance(&mut self) -> Option<Command> {
        let settlement = self.ledger.settlements().last()?;
        let id: SettlementId = settlement.id;
        Some(Command::Admin(if self.input.byte() % 8 == 7 {
            AdminCommand::AbortSettlement(SettlementAbort {
                id,
                reason: "bank".into(),
                external_reference: None,
            })
        } else {
            let item = |account: AccountId, state: SettlementState| AdvanceItem {
                participant: self.ledger.account(account).map_or(0, |account| account.participant.number()),
                account: account.number(),
                state,
                reason: "bank".into(),
                external_reference: None,
            };
            let accounts = settlement.accounts.iter();
            let items = accounts.map(|one| item(one.account, one.state.next().unwrap_or(one.state)));
            AdminCommand::AdvanceSettlement(SettlementAdvance { id, items: items.collect() })
        }))
    }

    fn change_scheme(&mut self) -> Command {
        let number = self.input.below(CURRENCIES.len());
        Command::Admin(match self.input.byte() % 4 {
            0 => AdminCommand::SetSettlementModelActivity {
                name: model(number, false, false).name,
                is_active: self.input.flag(),
            },
            1 => {
                let name = format!("FEE{}", self.input.byte() % 4).into();
                let terms = FeeTerms {
                    name,
                    currency: currency(number),
                    payers: Vec::new(),
                    payees: Vec::new(),
                    amount_min: Amount::ZERO,
                    amount_max: None,
                    rate: if self.input.flag() { RATE_WHOLE } else { 1 },
                    decimals: self.input.byte() % 5,
                    fixed: self.input.amount(),
                    paid_by: if self.input.flag() { FeePayer::Payer } else { FeePayer::Payee },
                };
                AdminCommand::CreateFeeRule(NewFeeRule { terms, from: None, until: None })
            }
            2 => {
                AdminCommand::EndFeeRule { name: format!("FEE{}", self.input.byte() % 4).into(), until: None }
            }
            _ => AdminCommand::CreateSettlementModel(fee_model(number)),
        })
    }

    fn change_member(&mut self) -> Command {
        let (name, currency) = (self.input.member(), self.input.currency());
        Command::Admin(match self.input.byte() % 4 {
            0 => AdminCommand::SetLimit {
                name,
                currency,
                net_debit_cap: self.input.amount(),
                alarm_basis_points: 10_000,
            },
            1 => AdminCommand::SetParticipantActivity { name, is_active: self.input.flag() },
            2 => AdminCommand::AddProxied { proxy: fsp(MEMBERS[PROXY]), name: fsp(MEMBERS[PROXY + 1]) },
            _ => AdminCommand::RemoveProxied { proxy: fsp(MEMBERS[PROXY]), name: fsp(MEMBERS[PROXY + 1]) },
        })
    }
}

fn model(number: usize, is_gross: bool, is_covered_by_fees: bool) -> NewSettlementModel {
    let model =
        NewSettlementModel::deferred_net(&format!("POSITIONS{}", CURRENCIES[number]), Some(currency(number)));
    let model = match is_gross {
        true => NewSettlementModel {
            granularity: Granularity::Gross,
            interchange: Interchange::Bilateral,
            delay: Delay::Immediate,
            ..model
        },
        false => model,
    };
    match is_covered_by_fees {
        true => NewSettlementModel { settlement_account_type: "INTERCHANGE_FEE_SETTLEMENT".into(), ..model },
        false => model,
    }
}

fn fee_model(number: usize) -> NewSettlementModel {
    let name = format!("FEES{}", CURRENCIES[number]);
    NewSettlementModel {
        ledger_account_type: "INTERCHANGE_FEE".into(),
        settlement_account_type: "INTERCHANGE_FEE_SETTLEMENT".into(),
        ..NewSettlementModel::deferred_net(&name, Some(currency(number)))
    }
}

fn funds(
    direction: FundsDirection,
    id: TransferId,
    name: FspId,
    account: AccountId,
    amount: Amount,
    currency: Currency,
) -> AdminCommand {
    AdminCommand::PrepareFunds(FundsPrepare {
        direction,
        id,
        name,
        account,
        amount,
        currency,
        external_reference: "bank".into(),
        reason: "bank".into(),
        extensions: None,
        fingerprint: [9; 16],
    })
}
