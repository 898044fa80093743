//! Operators: one at a time changes the scheme, and repeats requests that were not answered.

use std::collections::VecDeque;

use upesi_engine::SubmitError;
use upesi_ledger::command::{Expire, FundsAction, FundsEnd, FundsPrepare};
use upesi_ledger::{
    AccountId, AdminCommand, AdminOutcome, AdminRefusal, Command, EndpointType, FundsDirection, FundsState,
    LedgerAccountTypeId, Reply,
};
use upesi_types::{Amount, Currency, FspId, TransferId};

use super::World;
use super::event::Event;
use super::treasury::is_settlement;
use super::values::{fsp, kes, money};
use crate::clock::true_time;
use crate::message::UNITS;

/// Initial cap and cover of each DFSP, in whole units.
const FUNDS: i64 = 1_000;
const OPERATION_PAUSE_US: u64 = 700_000;
const REPEAT_PAUSE_US: u64 = 50_000;
/// One operation in this many ends a transfer.
const END_ONE_IN: u64 = 4;
/// When an operator checks the clock, it accepts one jump in this many.
const ACCEPT_ONE_IN: u64 = 3;
/// The operator ends one of this many latest transfers.
const RECENT_SPECS: usize = 4;
/// Accounts that a scheme must have before its first DFSP.
const HUB_ACCOUNTS: [&str; 2] = ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"];

#[derive(Debug, Default)]
pub(super) struct Operator {
    /// The current command, until it is answered.
    pub(super) current: Option<Command>,
    pub(super) is_submitted: bool,
    pub(super) next: VecDeque<Command>,
    /// The accounts of each DFSP: position and settlement.
    pub(super) accounts: Vec<(AccountId, AccountId)>,
}

pub(super) fn endpoint(dfsp: usize, kind: EndpointType, host: &str) -> Command {
    let path = match kind {
        EndpointType::TRANSFER_POST => "/transfers",
        EndpointType::TRANSFER_PUT => "/transfers/{{transferId}}",
        _ => "/transfers/{{transferId}}/error",
    };
    let value = format!("http://{host}{path}").into_boxed_str();
    Command::Admin(AdminCommand::SetEndpoint { name: fsp(dfsp), kind, value })
}

fn accept_clock() -> Command {
    Command::Admin(AdminCommand::AcceptClock { reason: "operator".into() })
}

fn expire(transfer: TransferId) -> Command {
    Command::Expire(Expire { transfer, reason: "operator".into() })
}

pub(super) const ENDPOINTS: [EndpointType; 3] =
    [EndpointType::TRANSFER_POST, EndpointType::TRANSFER_PUT, EndpointType::TRANSFER_ERROR];

/// Whether a rejection is due to a limit of the ledger.
const fn is_full(refusal: &AdminRefusal) -> bool {
    use AdminRefusal as R;
    matches!(
        refusal,
        R::FundsFull | R::WindowsFull | R::WindowsUnsettled | R::SettlementsFull | R::SettlementWindowsMany
    )
}

impl World {
    /// Sets up the scheme before the faults begin.
    pub(super) fn onboard(&mut self) {
        self.create_hub_accounts(kes());
        self.create_models();
        for dfsp in 0..self.locals() {
            let name = fsp(dfsp);
            let is_proxy = self.is_proxy(dfsp);
            self.must(AdminCommand::CreateParticipant { name, currency: kes(), is_proxy });
            self.must(AdminCommand::OpenAccounts {
                name,
                currency: kes(),
                net_debit_cap: money(FUNDS),
                initial_position: Amount::ZERO,
            });
            self.note_accounts(dfsp);
            let funds = self.funds(dfsp, FundsDirection::In, FUNDS);
            self.must(AdminCommand::PrepareFunds(funds));
            for kind in ENDPOINTS {
                self.do_now(endpoint(dfsp, kind, &format!("{}.example", crate::message::name(dfsp))));
            }
            self.auditor.outside.cover.insert(dfsp, i128::from(FUNDS) * UNITS);
            self.auditor.outside.caps.insert(dfsp, i128::from(FUNDS) * UNITS);
        }
        self.onboard_other_currency();
        self.onboard_bulks();
        self.onboard_remote();
    }

    pub(super) fn create_hub_accounts(&mut self, currency: Currency) {
        for kind in HUB_ACCOUNTS {
            let name = FspId::parse("Hub").unwrap_or_else(|| fsp(0));
            self.must(AdminCommand::CreateHubAccount { name, currency, kind: kind.into() });
        }
    }

    fn note_accounts(&mut self, dfsp: usize) {
        let participant = self.hub.as_ref().and_then(|hub| hub.ledger().participant_named(&fsp(dfsp)));
        let account = |kind| participant.and_then(|participant| participant.account(kes(), kind));
        let both = account(LedgerAccountTypeId::POSITION).zip(account(LedgerAccountTypeId::SETTLEMENT));
        self.operator.accounts.extend(both);
    }

    pub(super) fn must(&mut self, command: AdminCommand) {
        self.do_now(Command::Admin(command));
    }

    /// Executes a command before the world's faults begin.
    pub(super) fn do_now(&mut self, command: Command) {
        self.operator.current = Some(command.clone());
        if let Some(hub) = &mut self.hub {
            hub.operate(command);
        }
        for _ in 0..4 {
            self.clock.at(self.now_us);
            self.turn(false);
            self.turn_journal();
        }
        if self.operator.current.take().is_some() {
            self.auditor.findings.add("the scheme cannot be set up".to_owned());
        }
    }

    pub(super) fn funds(&mut self, dfsp: usize, direction: FundsDirection, units: i64) -> FundsPrepare {
        FundsPrepare {
            direction,
            id: self.new_id(),
            name: fsp(dfsp),
            account: self.operator.accounts[dfsp].1,
            amount: money(units),
            currency: kes(),
            external_reference: "bank".into(),
            reason: "operator".into(),
            extensions: None,
            fingerprint: [1; 16],
        }
    }

    pub(super) fn operate(&mut self) {
        let most = if self.is_troubled() { OPERATION_PAUSE_US } else { REPEAT_PAUSE_US };
        let pause = self.between(REPEAT_PAUSE_US, most);
        self.after(pause, Event::Operate);
        if self.operator.current.is_none() {
            self.operator.current = self.operator.next.pop_front();
        }
        if self.operator.current.is_none() && self.is_troubled() && self.plan.faults.operators {
            let drawn = self.draw_operation();
            let drawn = self.draw_set(drawn);
            let rare = self.draw_acceptance().or_else(|| self.draw_end());
            self.operator.current = Some(rare.unwrap_or(drawn));
        }
        self.submit_operation();
    }

    pub(super) fn submit_operation(&mut self) {
        let Some(command) = self.operator.current.clone().filter(|_| !self.operator.is_submitted) else {
            return;
        };
        if self.hub.is_none() {
            return;
        }
        self.say(format_args!("operator: {command:?}"));
        if matches!(command, Command::Admin(AdminCommand::AcceptClock { .. })) {
            // After this decision, the hub follows the clock's current time.
            self.trusts_clock = false;
        }
        if let Command::Expire(expire) = &command {
            self.auditor.outside.ended_by_operator.insert(expire.transfer.to_bytes());
        }
        if let Command::Admin(AdminCommand::SetLimit { name, .. }) = &command
            && let Some(dfsp) = crate::message::number(name.as_str())
        {
            // Until the answer, it is not known which cap applies.
            self.auditor.outside.caps.remove(&dfsp);
        }
        if let Command::Admin(command) = &command {
            self.auditor.outside.treasurer.asked.ask(command);
        }
        if let Command::Audited(act) = &command {
            self.note_proposed(act);
        }
        if let Some(hub) = &mut self.hub {
            hub.operate(command);
            self.operator.is_submitted = true;
        }
        self.after_hub(true);
    }

    fn draw_operation(&mut self) -> Command {
        let dfsp = self.random.below(self.locals() as u64) as usize;
        let name = fsp(dfsp);
        let command = match self.random.below(8) {
            0 => {
                // Deactivated, and soon activated again.
                let on = AdminCommand::SetParticipantActivity { name, is_active: true };
                self.operator.next.push_back(Command::Admin(on));
                AdminCommand::SetParticipantActivity { name, is_active: false }
            }
            1 => {
                let account = self.operator.accounts[dfsp].0;
                let on = AdminCommand::SetAccountActivity { name, account, is_active: true };
                self.operator.next.push_back(Command::Admin(on));
                AdminCommand::SetAccountActivity { name, account, is_active: false }
            }
            2 | 3 => {
                let net_debit_cap = money(self.random.below(2 * FUNDS as u64) as i64);
                AdminCommand::SetLimit { name, currency: kes(), net_debit_cap, alarm_basis_points: 1_000 }
            }
            4 => {
                let units = 1 + self.random.below(500) as i64;
                AdminCommand::PrepareFunds(self.funds(dfsp, FundsDirection::In, units))
            }
            5 | 6 => {
                let units = 1 + self.random.below(800) as i64;
                AdminCommand::PrepareFunds(self.funds(dfsp, FundsDirection::Out, units))
            }
            _ => {
                let kind = ENDPOINTS[self.random.below(3) as usize];
                let host = if self.random.one_in(3) { "broken.example:99999" } else { "elsewhere.example" };
                let host = format!("{}.{host}", crate::message::name(dfsp));
                return endpoint(dfsp, kind, &host);
            }
        };
        Command::Admin(command)
    }

    /// Ends reservations that last longer than the world.
    pub(super) fn operator_ends_reservations(&mut self) {
        if !self.operator_is_idle() {
            return;
        }
        let lasts = true_time(self.now_us).plus_ms(3_600_000);
        let Some(hub) = &self.hub else { return };
        let reserved = hub.ledger().reserved_transfers();
        let long = reserved.filter(|transfer| transfer.expires_at > lasts);
        self.operator.next.extend(long.map(|transfer| expire(transfer.id)));
    }

    /// Sometimes draws the end of a transfer instead: reserved, final or rejected. From the second random stream.
    fn draw_end(&mut self) -> Option<Command> {
        let ends = self.plan.faults.ambushes && !self.specs.is_empty() && self.mischance.one_in(END_ONE_IN);
        let recent = self.specs.len().min(RECENT_SPECS) as u64;
        ends.then(|| expire(self.specs[self.specs.len() - 1 - self.mischance.below(recent) as usize].id))
    }

    /// After a clock jump, an operator may believe that the clock is right. From the second random stream.
    fn draw_acceptance(&mut self) -> Option<Command> {
        let has_jumped = self.hub.as_ref().is_some_and(|hub| hub.clock().jump_ms != 0);
        (has_jumped && self.plan.faults.ambushes && self.mischance.one_in(ACCEPT_ONE_IN)).then(accept_clock)
    }

    /// Corrects the hub's time, now that the clock is right.
    pub(super) fn operator_accepts_clock(&mut self) {
        let has_jumped = self.hub.as_ref().is_some_and(|hub| hub.clock().jump_ms != 0);
        if has_jumped && self.operator_is_idle() {
            self.operator.next.push_back(accept_clock());
        }
    }

    pub(super) fn operator_told(&mut self, reply: Result<Reply, SubmitError>) {
        self.operator.is_submitted = false;
        self.say(format_args!("operator receives {reply:?}"));
        // Without an outcome, the command is repeated.
        let Some(outcome) = reply.ok().and_then(Reply::into_outcome) else { return };
        let Some(command) = self.operator.current.take() else { return };
        self.counts.operations += 1;
        if matches!(command, Command::Audited(_)) {
            return self.set_told(outcome);
        }
        if let (Command::Admin(command), Ok(_)) = (&command, &outcome)
            && is_settlement(command)
        {
            self.settlement_told(command);
        }
        match (command, outcome) {
            (Command::Admin(AdminCommand::SetLimit { name, net_debit_cap, .. }), Ok(outcome)) => {
                if let Some(dfsp) = crate::message::number(name.as_str()) {
                    if outcome == AdminOutcome::Done {
                        self.auditor.outside.treasurer.forget_raises(dfsp);
                    }
                    self.auditor.outside.caps.insert(dfsp, i128::from(net_debit_cap.units()));
                }
            }
            (Command::Admin(AdminCommand::PrepareFunds(funds)), Ok(AdminOutcome::Funds(_, state))) => {
                self.funds_told(&funds, state);
            }
            (Command::Admin(AdminCommand::EndFunds(end)), Ok(AdminOutcome::Funds(_, state))) => {
                // The money was withdrawn when the withdrawal was prepared.
                if state == FundsState::Aborted {
                    let amount = self.operator_amount.take().unwrap_or(0);
                    self.add_cover(end.name, amount);
                }
            }
            (Command::Admin(AdminCommand::AcceptClock { .. }), Ok(AdminOutcome::Done)) => {
                self.counts.jumps_accepted += 1;
            }
            (Command::Expire(_), Ok(AdminOutcome::Done)) => self.counts.ended_by_operator += 1,
            (_, Ok(_)) => {}
            (command, Err(refusal)) => {
                let is_settlement = matches!(&command, Command::Admin(command) if is_settlement(command));
                self.count_refusal(is_settlement, &refusal);
                self.say(format_args!("operator's {command:?} is rejected: {refusal:?}"));
            }
        }
    }

    /// Counts the rejection of a change, or of a set.
    pub(super) fn count_refusal(&mut self, is_settlement: bool, refusal: &AdminRefusal) {
        let of_change = match refusal {
            AdminRefusal::ChangeSetChange { refusal, .. } => refusal,
            other => other,
        };
        self.counts.settlements_refused += u64::from(is_settlement);
        self.counts.limits_met += u64::from(is_full(of_change));
    }

    fn funds_told(&mut self, funds: &FundsPrepare, state: FundsState) {
        if funds.currency != kes() {
            // The cover in the other currency never changes.
            return;
        }
        let amount = i128::from(funds.amount.units());
        match (funds.direction, state) {
            (FundsDirection::In, _) => self.add_cover(funds.name, amount),
            (FundsDirection::Out, FundsState::Aborted) => {}
            (FundsDirection::Out, _) => {
                self.add_cover(funds.name, -amount);
                self.operator_amount = Some(amount);
                let action = if self.random.one_in(2) { FundsAction::Commit } else { FundsAction::Abort };
                let end = FundsEnd {
                    action,
                    id: funds.id,
                    name: funds.name,
                    account: funds.account,
                    reason: "operator".into(),
                };
                self.operator.next.push_front(Command::Admin(AdminCommand::EndFunds(end)));
            }
        }
    }

    fn add_cover(&mut self, owner: FspId, amount: i128) {
        if let Some(dfsp) = crate::message::number(owner.as_str()) {
            *self.auditor.outside.cover.entry(dfsp).or_default() += amount;
        }
    }

    /// The process has ended, so the operator will not receive the answer.
    pub(super) fn operator_lost(&mut self) {
        self.operator.is_submitted = false;
    }

    /// Restores the scheme: all participants active, all endpoints as before.
    pub(super) fn operator_heals(&mut self) {
        for dfsp in 0..self.locals() {
            let (name, account) = (fsp(dfsp), self.operator.accounts[dfsp].0);
            let activity = AdminCommand::SetParticipantActivity { name, is_active: true };
            self.operator.next.push_back(Command::Admin(activity));
            let account = AdminCommand::SetAccountActivity { name, account, is_active: true };
            self.operator.next.push_back(Command::Admin(account));
            for kind in ENDPOINTS {
                let host = format!("{}.example", crate::message::name(dfsp));
                self.operator.next.push_back(endpoint(dfsp, kind, &host));
            }
        }
    }

    /// Sends parked callbacks again.
    pub(super) fn operator_recalls(&mut self) {
        let keys = self.auditor.parked();
        let is_idle = self.operator.current.is_none() && self.operator.next.is_empty();
        if !keys.is_empty() && is_idle {
            self.counts.recalled += keys.len() as u64;
            self.operator.next.push_back(Command::Redeliver(keys));
        }
    }

    pub(super) fn operator_is_idle(&self) -> bool {
        self.operator.current.is_none() && self.operator.next.is_empty()
    }
}
