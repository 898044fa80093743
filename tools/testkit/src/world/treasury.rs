//! Settlement: windows are closed and settled during all other events, account by account and in any order. Settlements
//! are aborted, requested twice, and requested with mistakes.
//!
//! All random numbers of this module come from their own stream.

use upesi_journal::sim_disk::Random;
use upesi_ledger::command::{
    AdvanceItem, CoverItem, NewFeeRule, NewSettlement, NewSettlementModel, SettlementAbort,
    SettlementAdvance, SettlementCover,
};
use upesi_ledger::{
    AdminCommand, Command, Content, Delay, FeePayer, FeeTerms, Granularity, Interchange, Ledger,
    LedgerAccountTypeId, Settlement, SettlementId, SettlementState, WindowId, WindowState,
};
use upesi_types::{Amount, TransferId};

use super::World;
use super::event::Event;
use super::values::{kes, money};
use crate::auditor::SimFee;
use crate::plan::Plan;

/// Separates the random stream of settlement from a seed's other streams.
const STREAM: u64 = 0x7365_7474_6c65_6d65;
const PAUSE_MOST_US: u64 = 600_000;
/// One step in this many is drawn without regard to the state.
const BLIND_ONE_IN: u64 = 4;
/// Each time that a settlement could advance, one in this many is aborted.
const ABORT_ONE_IN: u64 = 8;
/// The currency's own model, which operators switch off and on. The other model is the default.
const OWN_MODEL: &str = "DEFERREDNETKES";
const DEFAULT_MODEL: &str = "DEFERREDNET";
const FEE_MODEL: &str = "FEES";
const FEES: [SimFee; 2] = [
    SimFee { rate: 6_000, fixed: 0, least: 0, paid_by_payer: true },
    SimFee { rate: 0, fixed: 5_000, least: 200, paid_by_payer: false },
];

#[derive(Debug)]
pub(super) struct SettlementTraffic {
    is_on: bool,
    random: Random,
    /// Answered commands, which may be sent again.
    done: Vec<AdminCommand>,
    /// Whether everything is settled before the world ends.
    finishes: bool,
    /// Whether transfers owe fees. Then only the default models govern, and they settle net.
    has_fees: bool,
}

impl SettlementTraffic {
    pub(super) fn new(seed: u64, plan: &Plan) -> Self {
        let mut random = Random::new(seed ^ STREAM);
        let finishes = random.one_in(2);
        let has_fees = random.one_in(3);
        Self { is_on: plan.faults.settlements, random, done: Vec::new(), finishes, has_fees }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end.max(1) as u64) as usize
    }

    /// An operator's next step, if there is something to settle.
    fn next_step(&mut self, ledger: &Ledger, gives_up: bool) -> Option<AdminCommand> {
        let is_unfinished = |settlement: &&Settlement| {
            !matches!(settlement.state, SettlementState::Settled | SettlementState::Aborted)
        };
        if let Some(settlement) = ledger.settlements().iter().find(is_unfinished) {
            return Some(self.step_of(ledger, settlement, gives_up));
        }
        let can_be_settled = ledger
            .windows()
            .iter()
            .filter(|window| window.contents.iter().any(|one| one.state.can_be_settled()));
        let mut windows: Vec<_> = can_be_settled.map(|window| window.id).collect();
        let room = FreeCapacity::of(ledger);
        let open = ledger.windows().last().filter(|open| {
            (gives_up || room.for_window)
                && open.state == WindowState::Open
                && ledger.window_pairs(open).is_some_and(|pairs| !pairs.is_empty())
        });
        // Sometimes several windows are closed before they are settled together. Windows of fees are settled after
        // windows of positions.
        if let Some(open) = open
            && (windows.is_empty() || self.random.one_in(2))
        {
            return Some(close(open.id));
        }
        if windows.is_empty() || !(gives_up || room.for_settlement) {
            return None;
        }
        if gives_up && self.random.one_in(3) {
            windows.truncate(1);
        }
        let (model, is_of_it) = governing(ledger, &windows);
        windows.retain(|id| contents_of(ledger, &[*id]).any(is_of_it));
        if !gives_up {
            windows.truncate(ledger.config().limits.windows_per_settlement);
        }
        if ledger.model_named(model).is_some_and(|model| model.granularity == Granularity::Gross) {
            return Some(set_own_model(true));
        }
        Some(settle(windows, model))
    }

    /// The next stage for the accounts that are behind, or for one of them; or the abort of the settlement.
    fn step_of(&mut self, ledger: &Ledger, settlement: &Settlement, gives_up: bool) -> AdminCommand {
        let may_abort = settlement.state.number() <= SettlementState::Reserved.number();
        if gives_up && may_abort && self.random.one_in(ABORT_ONE_IN) {
            return abort(settlement.id);
        }
        let least = settlement.accounts.iter().map(|one| one.state).min_by_key(|state| state.number());
        let behind = settlement.accounts.iter().filter(|one| Some(one.state) == least);
        let mut behind: Vec<_> = behind.collect();
        let state = least.and_then(SettlementState::next).unwrap_or(SettlementState::Recorded);
        if state == SettlementState::Reserved
            && gives_up
            && self.random.one_in(3)
            && let Some(recipient) = behind.iter().find(|one| one.net.is_negative())
            && let Some(account) = ledger.account(recipient.account)
        {
            // The position may exceed the cap once the settlement is paid.
            return AdminCommand::SetLimit {
                name: ledger.participant(account.participant).name,
                currency: kes(),
                net_debit_cap: money(self.below(3) as i64),
                alarm_basis_points: 1_000,
            };
        }
        if self.random.one_in(3) {
            let at = self.below(behind.len());
            behind = vec![behind[at]];
        }
        let accounts = behind.iter().map(|one| one.account.number()).collect();
        // The cover in the other currency never changes.
        let is_own = |one: &upesi_ledger::SettlementAccount| {
            ledger.account(one.account).is_some_and(|account| account.currency == kes())
        };
        let moves_cover = state == SettlementState::Committed
            && settlement.accounts.iter().all(is_own)
            && self.random.one_in(2);
        if moves_cover {
            move_cover(ledger, settlement.id, accounts)
        } else {
            advance(ledger, settlement.id, accounts, state)
        }
    }

    /// Draws any step, regardless of the state; most of them cannot succeed.
    fn blind_step(&mut self, ledger: &Ledger) -> Option<AdminCommand> {
        let (windows, settlements) = (ledger.windows().len(), ledger.settlements().len());
        let id = SettlementId(self.below(settlements + 2) as u32);
        Some(match self.below(6) {
            0 => close(WindowId(self.below(windows + 2) as u32)),
            1 => {
                let count = 1 + self.below(2);
                let any = (0..count).map(|_| WindowId(self.below(windows + 2) as u32)).collect();
                settle(any, [OWN_MODEL, DEFAULT_MODEL][self.below(2)])
            }
            2 => {
                let state = SettlementState::ALL[self.below(SettlementState::ALL.len())];
                let accounts = ledger.accounts().len();
                let any = (0..2).map(|_| self.below(accounts + 2) as u32).collect();
                advance(ledger, id, any, state)
            }
            3 => abort(id),
            4 => {
                let own = ledger.model_named(OWN_MODEL)?;
                set_own_model(!own.is_active)
            }
            _ => {
                let at = self.below(self.done.len());
                self.done.get(at)?.clone()
            }
        })
    }
}

/// The free capacity that a ledger certainly has.
struct FreeCapacity {
    for_window: bool,
    for_settlement: bool,
}

impl FreeCapacity {
    fn of(ledger: &Ledger) -> Self {
        let limits = &ledger.config().limits;
        let kept: usize = ledger.settlements().iter().map(|settlement| settlement.accounts.len()).sum();
        Self {
            for_window: ledger.windows().len() < limits.windows,
            for_settlement: ledger.settlements().len() < limits.settlements
                && kept + ledger.accounts().len() <= limits.settlement_accounts,
        }
    }
}

impl SimFee {
    fn rule(&self, name: &str) -> NewFeeRule {
        NewFeeRule {
            terms: FeeTerms {
                name: name.into(),
                currency: kes(),
                payers: Vec::new(),
                payees: Vec::new(),
                amount_min: money(self.least),
                amount_max: None,
                rate: self.rate,
                decimals: 2,
                fixed: Amount::from_units(self.fixed).unwrap_or(Amount::ZERO),
                paid_by: if self.paid_by_payer { FeePayer::Payer } else { FeePayer::Payee },
            },
            from: None,
            until: None,
        }
    }
}

impl World {
    /// Creates the models that a scheme with settlement has beside its default.
    pub(super) fn create_models(&mut self) {
        let mut default = NewSettlementModel::deferred_net(DEFAULT_MODEL, None);
        if self.treasury.is_on {
            default.require_liquidity_check = self.treasury.random.one_in(2);
            default.auto_position_reset = !self.treasury.random.one_in(4);
            if !self.treasury.has_fees && self.treasury.random.one_in(2) {
                (default.granularity, default.interchange) = (Granularity::Gross, Interchange::Bilateral);
                default.delay = [Delay::Immediate, Delay::Deferred][self.treasury.below(2)];
            }
        }
        self.must(AdminCommand::CreateSettlementModel(default));
        if self.treasury.is_on && self.treasury.has_fees {
            let mut fees = NewSettlementModel::deferred_net(FEE_MODEL, None);
            fees.ledger_account_type = "INTERCHANGE_FEE".into();
            fees.settlement_account_type = "INTERCHANGE_FEE_SETTLEMENT".into();
            self.must(AdminCommand::CreateSettlementModel(fees));
            for (fee, name) in FEES.iter().zip(["SHARE", "FLAT"]) {
                self.must(AdminCommand::CreateFeeRule(fee.rule(name)));
            }
            self.auditor.outside.fees = &FEES;
        } else if self.treasury.is_on {
            let own = NewSettlementModel::deferred_net(OWN_MODEL, Some(kes()));
            self.must(AdminCommand::CreateSettlementModel(own));
        }
    }

    pub(super) fn plan_settlement(&mut self) {
        if self.treasury.is_on {
            let pause = 1 + self.treasury.random.below(PAUSE_MOST_US);
            self.after(pause, Event::Settle);
        }
    }

    /// Takes the next step of settlement, if an operator is free.
    pub(super) fn settle(&mut self) {
        self.plan_settlement();
        self.take_settlement_step();
    }

    /// Tries to submit a step of settlement. Returns whether it did.
    fn take_settlement_step(&mut self) -> bool {
        if self.operator.current.is_some() {
            return false;
        }
        let command = if self.is_troubled() { self.draw_settlement() } else { self.last_settlement_step() };
        self.operator.current = command.map(|command| self.draw_set(Command::Admin(command)));
        let is_taken = self.operator.current.is_some();
        self.submit_operation();
        is_taken
    }

    /// Sometimes lets the operator who acts at the worst moment take a step of settlement.
    pub(super) fn strike_by_settlement(&mut self) -> bool {
        self.treasury.is_on && self.treasury.random.one_in(3) && self.take_settlement_step()
    }

    fn draw_settlement(&mut self) -> Option<AdminCommand> {
        let ledger = self.hub.as_ref()?.ledger();
        if self.treasury.random.one_in(BLIND_ONE_IN) {
            return self.treasury.blind_step(ledger);
        }
        self.treasury.next_step(ledger, true)
    }

    /// The next step of settlement before the world ends.
    fn last_settlement_step(&mut self) -> Option<AdminCommand> {
        let Self { hub, treasury, .. } = self;
        let ledger = hub.as_ref()?.ledger();
        let is_due = treasury.is_on && treasury.finishes && self.auditor.reserved() == 0;
        is_due.then(|| treasury.next_step(ledger, false)).flatten()
    }

    /// Whether nothing is left to settle. This call changes nothing.
    pub(super) fn settlement_rests(&self) -> bool {
        let Some(hub) = self.hub.as_ref().filter(|_| self.treasury.is_on && self.treasury.finishes) else {
            return true;
        };
        let mut treasury =
            SettlementTraffic { random: self.treasury.random.clone(), done: Vec::new(), ..self.treasury };
        treasury.next_step(hub.ledger(), false).is_none()
    }

    /// An operator gets an answer about settlement, and reads the settlements.
    pub(super) fn settlement_told(&mut self, command: &AdminCommand) {
        self.treasury.done.push(command.clone());
        self.read_settlements();
    }

    pub(super) fn read_settlements(&mut self) {
        let Some(hub) = &self.hub else { return };
        let auditor = &mut self.auditor;
        auditor.outside.read_settlements(hub.ledger(), &mut auditor.findings);
    }
}

/// Whether a command is about windows or settlements.
pub(super) const fn is_settlement(command: &AdminCommand) -> bool {
    matches!(
        command,
        AdminCommand::CloseWindow { .. }
            | AdminCommand::CreateSettlement(_)
            | AdminCommand::AdvanceSettlement(_)
            | AdminCommand::AbortSettlement(_)
            | AdminCommand::MoveCover(_)
    )
}

/// The contents of windows that can be settled.
fn contents_of<'a>(ledger: &'a Ledger, windows: &'a [WindowId]) -> impl Iterator<Item = &'a Content> {
    let windows = windows.iter().filter_map(|id| ledger.window(*id));
    windows.flat_map(|window| &window.contents).filter(|content| content.state.can_be_settled())
}

/// The name of a model that settles part of these windows, and that part: positions in the scheme's currency, positions
/// in the other one, or fees.
fn governing(ledger: &Ledger, windows: &[WindowId]) -> (&'static str, fn(&Content) -> bool) {
    let own: fn(&Content) -> bool =
        |content| content.kind == LedgerAccountTypeId::POSITION && content.currency == kes();
    let other: fn(&Content) -> bool =
        |content| content.kind == LedgerAccountTypeId::POSITION && content.currency != kes();
    if contents_of(ledger, windows).any(own) {
        let is_own_active = ledger.model_named(OWN_MODEL).is_some_and(|model| model.is_active);
        return (if is_own_active { OWN_MODEL } else { DEFAULT_MODEL }, own);
    }
    if contents_of(ledger, windows).any(other) {
        return (DEFAULT_MODEL, other);
    }
    (FEE_MODEL, |content| content.kind == LedgerAccountTypeId::INTERCHANGE_FEE)
}

fn set_own_model(is_active: bool) -> AdminCommand {
    AdminCommand::SetSettlementModelActivity { name: OWN_MODEL.into(), is_active }
}

fn close(id: WindowId) -> AdminCommand {
    AdminCommand::CloseWindow { id, reason: "end of day".into() }
}

fn settle(windows: Vec<WindowId>, model: &str) -> AdminCommand {
    AdminCommand::CreateSettlement(NewSettlement {
        model: model.into(),
        reason: "end of day".into(),
        windows,
    })
}

fn abort(id: SettlementId) -> AdminCommand {
    let reason = "bank unavailable".into();
    AdminCommand::AbortSettlement(SettlementAbort { id, reason, external_reference: None })
}

/// The accounts of a settlement, with the money that the bank moved.
fn move_cover(ledger: &Ledger, id: SettlementId, accounts: Vec<u32>) -> AdminCommand {
    let item = |account: u32| {
        let mut bytes = [0xC0; 16];
        bytes[..4].copy_from_slice(&id.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&account.to_le_bytes());
        CoverItem {
            participant: owner(ledger, account),
            account,
            funds: TransferId::from_random_bytes(bytes),
            reason: "bank file".into(),
            external_reference: None,
        }
    };
    AdminCommand::MoveCover(SettlementCover { id, items: accounts.into_iter().map(item).collect() })
}

fn owner(ledger: &Ledger, account: u32) -> u32 {
    let account = upesi_ledger::AccountId::new(account).and_then(|account| ledger.account(account));
    account.map_or(0, |account| account.participant.number())
}

/// Accounts by number, each with its owner.
fn advance(ledger: &Ledger, id: SettlementId, accounts: Vec<u32>, state: SettlementState) -> AdminCommand {
    let item = |account: u32| AdvanceItem {
        participant: owner(ledger, account),
        account,
        state,
        reason: "sent to bank".into(),
        external_reference: Some("ref-1".into()),
    };
    let items = accounts.into_iter().map(item).collect();
    AdminCommand::AdvanceSettlement(SettlementAdvance { id, items })
}
