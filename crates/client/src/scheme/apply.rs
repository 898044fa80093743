//! Makes the changes of a plan, one after the other.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use upesi_http::Method;
use upesi_types::text::{path, url_part};
use upesi_types::{Amount, Currency, TransferId};

use super::file::Model;
use super::ids::deposit_id;
use super::plan::Change;
use super::state::{Limit, settlement_balance};
use crate::admin_api::{AdminApi, AdminError};

/// Interval and number of checks for a deposit, because some hubs book deposits after their answer.
const DEPOSIT_POLL: Duration = Duration::from_millis(100);
const DEPOSIT_POLLS_MAX: usize = 100;
/// The account for deposits in a change set.
const SETTLEMENT: &str = "SETTLEMENT";

/// Reason why a change could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The hub did not accept it.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The participant has no account for the deposit.
    #[error(
        "{name} has no SETTLEMENT account in {currency} that accepts deposits; its settlement model may be of another kind"
    )]
    NoSettlementAccount { name: String, currency: Currency },
    /// A deposit was accepted but did not arrive.
    #[error(
        "the hub accepted the deposit {id} of {name}, but its cover in {currency} is still {cover}; see the hub's log"
    )]
    NotBooked { name: String, currency: Currency, id: TransferId, cover: Amount },
}

impl ApplyError {
    /// The approval that the change needs.
    pub(super) fn approval(&self) -> Option<u64> {
        match self {
            Self::Admin(AdminError::Waiting { approval, .. }) => Some(*approval),
            _ => None,
        }
    }
}

/// A call of the admin API that makes a change, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiCall {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// JSON, or empty.
    pub(crate) body: String,
}

impl ApiCall {
    fn new(method: Method, path: String, body: impl ToString) -> Self {
        Self { method, path, body: body.to_string() }
    }

    /// The call in the form of a change set.
    pub(super) fn to_json(&self) -> String {
        let (method, path) = (self.method.as_str(), json!(self.path));
        let body = if self.body.is_empty() { String::new() } else { format!(r#","body":{}"#, self.body) };
        format!(r#"{{"method":"{method}","path":{path}{body}}}"#)
    }
}

/// Makes one change.
///
/// # Errors
/// The hub rejects it or cannot be reached; later changes should not be tried.
pub async fn make(api: &AdminApi, scheme: &str, change: &Change) -> Result<(), ApplyError> {
    if let Change::Funds { name, currency, amount } = change {
        return deposit(api, scheme, name, *currency, *amount).await;
    }
    for call in calls_of(scheme, change) {
        api.send(call.method, &call.path, &call.body).await?;
    }
    Ok(())
}

/// The calls that make a change. A deposit uses the account that will exist by then.
pub(super) fn calls_of(scheme: &str, change: &Change) -> Vec<ApiCall> {
    let call = match change {
        Change::HubAccount { hub, currency, kind } => {
            let body = json!({"currency": currency.as_str(), "type": kind});
            ApiCall::new(Method::POST, path(&["participants", hub, "accounts"]), body)
        }
        Change::Model(model) => ApiCall::new(Method::POST, "/settlementModels".to_owned(), model_body(model)),
        Change::ModelActivated(name) => {
            ApiCall::new(Method::PUT, path(&["settlementModels", name]), r#"{"isActive":true}"#)
        }
        Change::Participant { name, currency, is_proxy } => {
            let mut body = json!({"name": name, "currency": currency.as_str()});
            if *is_proxy {
                body["isProxy"] = true.into();
            }
            ApiCall::new(Method::POST, "/participants".to_owned(), body)
        }
        Change::Activity { name, is_active } => {
            ApiCall::new(Method::PUT, path(&["participants", name]), json!({"isActive": is_active}))
        }
        Change::Limit { name, currency, from, to } => return limit_calls(name, *currency, *from, *to),
        Change::Funds { name, currency, amount } => {
            let account = path(&["participants", name, "accounts", SETTLEMENT]);
            ApiCall::new(Method::POST, account, deposit_body(scheme, name, *currency, *amount))
        }
        Change::Bind { name, binding } => {
            let (kind, value) = binding.split_once(':').unwrap_or((binding, ""));
            let body = json!({"kind": kind, "value": value});
            ApiCall::new(Method::POST, path(&["participants", name, "bindings"]), body)
        }
        Change::Unbind { name, binding } => {
            let (kind, value) = binding.split_once(':').unwrap_or((binding, ""));
            let bindings = path(&["participants", name, "bindings"]);
            let query = format!("kind={}&value={}", url_part(kind), url_part(value));
            ApiCall::new(Method::DELETE, format!("{bindings}?{query}"), "")
        }
        Change::SignatureKey { name, key } => {
            let body = json!({"publicKey": key.text});
            ApiCall::new(Method::POST, path(&["participants", name, "signatureKeys"]), body)
        }
        Change::Proxied { proxy, name } => {
            ApiCall::new(Method::POST, path(&["participants", proxy, "proxied"]), json!({"name": name}))
        }
        Change::Unproxied { proxy, name } => {
            ApiCall::new(Method::DELETE, path(&["participants", proxy, "proxied", name]), "")
        }
        Change::FeeRule(rule) => ApiCall::new(Method::POST, "/feeRules".to_owned(), rule.body()),
        Change::FeeRuleEnd { name, to, .. } => {
            ApiCall::new(Method::PUT, path(&["feeRules", name]), json!({"until": to.to_string()}))
        }
        Change::Endpoint { name, kind, to, .. } => {
            let body = json!({"type": kind, "value": to});
            ApiCall::new(Method::POST, path(&["participants", name, "endpoints"]), body)
        }
    };
    vec![call]
}

fn model_body(model: &Model) -> String {
    let mut body = json!({
        "name": model.name,
        "settlementGranularity": model.granularity,
        "settlementInterchange": model.interchange,
        "settlementDelay": model.delay,
        "requireLiquidityCheck": model.require_liquidity_check,
        "ledgerAccountType": model.ledger_account_type,
        "settlementAccountType": model.settlement_account_type,
        "autoPositionReset": model.auto_position_reset,
    });
    if let Some(currency) = &model.currency {
        body["currency"] = currency.as_str().into();
    }
    body.to_string()
}

/// The first cap opens the accounts, with an alarm of the hub's choice; the next call sets both. Amounts are written by
/// their digits.
fn limit_calls(name: &str, currency: Currency, from: Option<Limit>, to: Limit) -> Vec<ApiCall> {
    let Limit { cap, alarm_percentage } = to;
    let mut calls = Vec::new();
    if from.is_none() {
        let body = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap}}},"initialPosition":0}}"#
        );
        let opening = path(&["participants", name, "initialPositionAndLimits"]);
        calls.push(ApiCall::new(Method::POST, opening, body));
    }
    let body = format!(
        r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":{alarm_percentage}}}}}"#
    );
    calls.push(ApiCall::new(Method::PUT, path(&["participants", name, "limits"]), body));
    calls
}

/// Makes the scheme's only deposit into an account and waits until it arrives.
async fn deposit(
    api: &AdminApi,
    scheme: &str,
    name: &str,
    currency: Currency,
    amount: Amount,
) -> Result<(), ApplyError> {
    let missing = || ApplyError::NoSettlementAccount { name: name.to_owned(), currency };
    let before = settlement_balance(api, name, currency.as_str()).await?.ok_or_else(missing)?;
    let id = deposit_id(scheme, name, currency);
    let body = deposit_body(scheme, name, currency, amount);
    let account = path(&["participants", name, "accounts", &before.id.to_string()]);
    api.send(Method::POST, &account, &body).await?;
    let mut cover = before.cover();
    for _ in 0..DEPOSIT_POLLS_MAX {
        cover = settlement_balance(api, name, currency.as_str()).await?.ok_or_else(missing)?.cover();
        if cover > Amount::ZERO {
            return Ok(());
        }
        sleep(DEPOSIT_POLL).await;
    }
    Err(ApplyError::NotBooked { name: name.to_owned(), currency, id, cover })
}

fn deposit_body(scheme: &str, name: &str, currency: Currency, amount: Amount) -> String {
    let id = deposit_id(scheme, name, currency);
    format!(
        r#"{{"transferId":"{id}","externalReference":"scheme {scheme}","action":"recordFundsIn","reason":"scheme apply","amount":{{"amount":{amount},"currency":"{currency}"}}}}"#
    )
}
