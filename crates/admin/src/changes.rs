//! What an operator changed, from what to what, as the log tells it.

use upesi_ledger::command::{
    FundsAction, FundsEnd, FundsPrepare, NewSettlement, NewSettlementModel, SettlementAbort,
    SettlementAdvance,
};
use upesi_ledger::{AccountId, AdminCommand, AdminOutcome, FundsDirection, Ledger, Limit, SettlementId};
use upesi_types::{Amount, Currency, FspId};

/// A change and what is there before it.
#[derive(Debug)]
pub(crate) struct Change {
    what: String,
    from: String,
    to: String,
}

impl Change {
    /// Of something that is no part of the ledger.
    pub(crate) fn new(what: impl Into<String>, from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { what: what.into(), from: from.into(), to: to.into() }
    }

    /// What a command is about to change.
    pub(crate) fn of(command: &AdminCommand, ledger: &Ledger) -> Self {
        let (what, from, to) = match command {
            AdminCommand::CreateParticipant { name, currency, is_proxy } => {
                participant_created(name, *currency, *is_proxy, ledger)
            }
            AdminCommand::SetParticipantActivity { name, is_active } => {
                let before = ledger.participant_named(name).map(|participant| participant.is_active);
                (format!("participant {name}"), activity(before), activity(Some(*is_active)))
            }
            AdminCommand::SetEndpoint { name, kind, value } => {
                let before =
                    ledger.participant_named(name).and_then(|participant| participant.endpoint(*kind));
                (
                    format!("endpoint {} of {name}", kind.name()),
                    before.unwrap_or("none").to_owned(),
                    value.to_string(),
                )
            }
            AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position } => {
                let mut to = format!("{net_debit_cap}");
                if *initial_position != Amount::ZERO {
                    to += &format!(", initial position {initial_position}");
                }
                (cap_of(name, *currency), limit(limit_of(ledger, name, *currency)), to)
            }
            AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points } => {
                let (value, alarm_basis_points) = (*net_debit_cap, *alarm_basis_points);
                let to = Limit { currency: *currency, value, alarm_basis_points };
                (cap_of(name, *currency), limit(limit_of(ledger, name, *currency)), limit(Some(to)))
            }
            AdminCommand::CreateHubAccount { name, currency, kind } => {
                (format!("account {kind} of {name} in {currency}"), "none".to_owned(), "open".to_owned())
            }
            AdminCommand::SetAccountActivity { name, account, is_active } => {
                account_switched(name, *account, *is_active, ledger)
            }
            AdminCommand::PrepareFunds(funds) => funds_prepared(funds, ledger),
            AdminCommand::EndFunds(end) => funds_ended(end, ledger),
            AdminCommand::AcceptClock { reason } => (
                "the hub's time".to_owned(),
                "without the wall clock".to_owned(),
                format!("by the wall clock: {reason}"),
            ),
            AdminCommand::CreateSettlementModel(model) => {
                (format!("settlement model {}", model.name), "none".to_owned(), model_created(model))
            }
            AdminCommand::SetSettlementModelActivity { name, is_active } => {
                let before = ledger.model_named(name).map(|model| model.is_active);
                (format!("settlement model {name}"), activity(before), activity(Some(*is_active)))
            }
            AdminCommand::CloseWindow { id, reason } => {
                let before = ledger.window(*id).map_or("none", |window| window.state.as_str());
                (format!("settlement window {id}"), before.to_owned(), format!("CLOSED: {reason}"))
            }
            AdminCommand::CreateSettlement(new) => settlement_created(new),
            AdminCommand::AdvanceSettlement(advance) => settlement_advanced(advance, ledger),
            AdminCommand::AbortSettlement(SettlementAbort { id, reason, .. }) => {
                (format!("settlement {id}"), settlement_state(ledger, *id), format!("ABORTED: {reason}"))
            }
            AdminCommand::CreateLedgerAccountType { name, is_active, .. } => {
                (format!("ledger account type {name}"), "none".to_owned(), activity(Some(*is_active)))
            }
        };
        Self { what, from, to }
    }

    /// Writes the line, if anything was changed.
    pub(crate) fn log(&self, outcome: &AdminOutcome) {
        match outcome {
            AdminOutcome::AlreadyDone => {}
            AdminOutcome::Done
            | AdminOutcome::Redelivered(_)
            | AdminOutcome::WindowOpened(_)
            | AdminOutcome::SettlementCreated(_) => self.tell(),
            AdminOutcome::SettlementAdvanced { faults } if faults.is_empty() => self.tell(),
            AdminOutcome::SettlementAdvanced { faults } => {
                let to = format!("{}, {} passed over", self.to, faults.len());
                Self { what: self.what.clone(), from: self.from.clone(), to }.tell();
            }
            // What was asked for is not always what comes of it.
            AdminOutcome::Funds(_, state) => {
                Self { what: self.what.clone(), from: self.from.clone(), to: state.as_str().to_owned() }
                    .tell();
            }
        }
    }

    /// Writes the line.
    pub(crate) fn tell(&self) {
        let Self { what, from, to } = self;
        tracing::info!(%what, %from, %to, "an operator's change");
    }
}

fn activity(is_active: Option<bool>) -> String {
    match is_active {
        Some(true) => "active",
        Some(false) => "inactive",
        None => "none",
    }
    .to_owned()
}

fn cap_of(name: &FspId, currency: Currency) -> String {
    format!("net debit cap of {name} in {currency}")
}

fn limit_of(ledger: &Ledger, name: &FspId, currency: Currency) -> Option<Limit> {
    ledger.participant_named(name)?.limit(currency).copied()
}

fn limit(limit: Option<Limit>) -> String {
    limit.map_or_else(
        || "none".to_owned(),
        |Limit { value, alarm_basis_points, .. }| {
            let (percent, hundredths) = (alarm_basis_points / 100, alarm_basis_points % 100);
            let rest = if hundredths == 0 { String::new() } else { format!(".{hundredths:02}") };
            format!("{value}, alarm at {percent}{rest} %")
        },
    )
}

fn funds_prepared(funds: &FundsPrepare, ledger: &Ledger) -> (String, String, String) {
    let kind = match funds.direction {
        FundsDirection::In => "deposit",
        FundsDirection::Out => "withdrawal",
    };
    let what = format!("{kind} {} of {}, {} {}", funds.id, funds.name, funds.amount, funds.currency);
    let before = ledger.funds(funds.id).map_or("none", |found| found.state.as_str());
    (what, before.to_owned(), String::new())
}

fn account_switched(
    name: &FspId,
    account: AccountId,
    is_active: bool,
    ledger: &Ledger,
) -> (String, String, String) {
    let found = ledger.account(account);
    let kind = found.map_or("", |found| ledger.account_type_name(found.kind));
    let currency = found.map_or_else(String::new, |found| format!(" in {}", found.currency));
    let what = format!("account {} of {name}, {kind}{currency}", account.number());
    (what, activity(found.map(|found| found.is_active)), activity(Some(is_active)))
}

fn funds_ended(end: &FundsEnd, ledger: &Ledger) -> (String, String, String) {
    let before = ledger.funds(end.id).map_or("none", |funds| funds.state.as_str());
    let to = match end.action {
        FundsAction::Commit => "committed",
        FundsAction::Abort => "aborted",
    };
    (format!("withdrawal {} of {}", end.id, end.name), before.to_owned(), to.to_owned())
}

fn participant_created(
    name: &FspId,
    currency: Currency,
    is_proxy: bool,
    ledger: &Ledger,
) -> (String, String, String) {
    let participant = ledger.participant_named(name);
    let has_accounts =
        participant.is_some_and(|found| found.accounts.iter().any(|account| account.currency == currency));
    let from = match participant {
        None => "none",
        Some(_) if has_accounts => "accounts in it",
        Some(_) => "no accounts in it",
    };
    let to = match participant {
        Some(_) => "accounts in it",
        None if is_proxy => "a proxy",
        None => "a participant",
    };
    (format!("participant {name} in {currency}"), from.to_owned(), to.to_owned())
}

fn settlement_created(new: &NewSettlement) -> (String, String, String) {
    let windows: Vec<_> = new.windows.iter().map(ToString::to_string).collect();
    let what = format!("settlement by {} of windows {}", new.model, windows.join(", "));
    (what, "none".to_owned(), format!("PENDING_SETTLEMENT: {}", new.reason))
}

fn settlement_state(ledger: &Ledger, id: SettlementId) -> String {
    ledger.settlement(id).map_or("none", |settlement| settlement.state.as_str()).to_owned()
}

fn settlement_advanced(advance: &SettlementAdvance, ledger: &Ledger) -> (String, String, String) {
    let mut states: Vec<_> = advance.items.iter().map(|item| item.state.as_str()).collect();
    states.dedup();
    let what = format!("{} accounts of settlement {}", advance.items.len(), advance.id);
    (what, settlement_state(ledger, advance.id), states.join(", "))
}

fn model_created(model: &NewSettlementModel) -> String {
    let currency = model.currency.map_or_else(|| "every currency".to_owned(), |code| code.to_string());
    format!(
        "{} {} {} of {} for {currency}",
        model.granularity.as_str(),
        model.interchange.as_str(),
        model.delay.as_str(),
        model.ledger_account_type
    )
}
