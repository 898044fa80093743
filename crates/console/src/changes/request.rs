//! The request to the API for each kind of change.

use serde_json::{Value, json};
use upesi_admin::reads::{Parameters, SettlementView, settlement};
use upesi_admin::{ApiError, PageChange};
use upesi_ledger::SettlementState;
use upesi_types::text::path;

use super::kind::Kind;
use crate::page::PageCall;

/// The request that makes a change.
///
/// # Errors
/// The form does not say what the change concerns, or the settlement does not exist.
pub async fn request(page: &PageCall, kind: Kind, form: &Parameters) -> Result<PageChange, ApiError> {
    for name in kind.subject() {
        if form.get(name).is_none() && *name != "dfsp" {
            return Err(ApiError::malformed(&format!("\"{name}\" is required")));
        }
    }
    let value = |name: &str| form.get(name).unwrap_or_default();
    let (method, _) = kind.operation();
    let (path, body) = match kind {
        Kind::Deposit | Kind::Withdraw => funds(kind, value),
        Kind::PayOut | Kind::TakeBack => {
            let action = if kind == Kind::PayOut { "recordFundsOutCommit" } else { "recordFundsOutAbort" };
            let (name, account, id) = (value("participant"), value("account"), value("movement"));
            (
                path(&["participants", name, "accounts", account, "transfers", id]),
                json!({"action": action, "reason": value("reason")}),
            )
        }
        Kind::Cap => (
            path(&["participants", value("participant"), "limits"]),
            json!({"currency": value("currency"), "limit": {
                "type": "NET_DEBIT_CAP", "value": value("limit"), "alarmPercentage": value("alarm"),
            }}),
        ),
        Kind::Suspend | Kind::Resume => {
            (path(&["participants", value("participant")]), json!({"isActive": kind == Kind::Resume}))
        }
        Kind::CloseWindow => (
            path(&["v2", "settlementWindows", value("window")]),
            json!({"state": "CLOSED", "reason": value("reason")}),
        ),
        Kind::Settle => (
            path(&["v2", "settlements"]),
            json!({
                "settlementModel": value("model"), "reason": value("reason"),
                "settlementWindows": [{"id": number(value("window"))?}],
            }),
        ),
        Kind::Advance => {
            let body = advance(&read_settlement(page, value("settlement")).await?, value("reason"))?;
            (path(&["v2", "settlements", value("settlement")]), body)
        }
        Kind::AbortSettlement => (
            path(&["v2", "settlements", value("settlement")]),
            json!({"state": "ABORTED", "reason": value("reason")}),
        ),
        Kind::Redeliver => (
            path(&["callbacks", "redeliver"]),
            match form.get("dfsp") {
                Some(dfsp) => json!({"state": "parked", "fsp": dfsp}),
                None => json!({"state": "parked"}),
            },
        ),
        Kind::Approve => (path(&["approvals", value("proposal"), "approve"]), comment(value("comment"))),
        Kind::Reject => (path(&["approvals", value("proposal"), "reject"]), comment(value("reason"))),
        Kind::Retract => (path(&["approvals", value("proposal"), "withdraw"]), comment(value("comment"))),
    };
    let reason = form.get("reason").map(str::to_owned);
    Ok(PageChange { method, path, body, reason })
}

/// A deposit, or the first step of a withdrawal.
fn funds<'a>(kind: Kind, value: impl Fn(&str) -> &'a str) -> (String, Value) {
    let (account, action) = match kind {
        Kind::Deposit => ("SETTLEMENT", "recordFundsIn"),
        _ => (value("account"), "recordFundsOutPrepareReserve"),
    };
    let body = json!({
        "transferId": value("id"), "externalReference": value("reference"), "action": action,
        "reason": value("reason"), "amount": {"amount": value("amount"), "currency": value("currency")},
    });
    (path(&["participants", value("participant"), "accounts", account]), body)
}

fn comment(text: &str) -> Value {
    if text.is_empty() { json!({}) } else { json!({"comment": text}) }
}

fn number(text: &str) -> Result<u64, ApiError> {
    text.parse()
        .map_err(|_| ApiError::malformed("the number of a window or a settlement is a positive number"))
}

/// The settlement that a form names.
async fn read_settlement(page: &PageCall, id: &str) -> Result<SettlementView, ApiError> {
    let id = number(id)?;
    let (_, found) = page.ask(move |ledger| settlement(ledger, u32::try_from(id).unwrap_or(0))).await?;
    found
}

/// The next state of the accounts with the least progress; `None` at the end.
fn next_stage(settlement: &SettlementView) -> Option<SettlementState> {
    let accounts = settlement.participants.iter().flat_map(|party| &party.accounts);
    let states = accounts.filter_map(|account| SettlementState::parse(account.state));
    states.min_by_key(|state| state.number())?.next()
}

/// Brings all accounts that are behind to the next state. Payers are first, because their debts are the exposure.
fn advance(settlement: &SettlementView, reason: &str) -> Result<Value, ApiError> {
    let next = next_stage(settlement).ok_or_else(|| ApiError::malformed("the settlement has ended"))?;
    let is_behind =
        |state: &str| SettlementState::parse(state).is_some_and(|state| state.next() == Some(next));
    let mut accounts: Vec<_> = settlement
        .participants
        .iter()
        .flat_map(|party| party.accounts.iter().map(move |account| (party.id, account)))
        .filter(|(_, account)| is_behind(account.state))
        .collect();
    accounts.sort_by_key(|(_, account)| {
        account.net_settlement_amount.as_ref().is_none_or(|net| net.amount.0.units() <= 0)
    });
    let items = accounts.into_iter().map(|(party, account)| {
        json!({"id": party, "accounts": [{"id": account.id, "state": next.as_str(), "reason": reason}]})
    });
    Ok(json!({"participants": items.collect::<Vec<_>>()}))
}
