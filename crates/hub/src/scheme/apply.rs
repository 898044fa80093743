//! Makes the changes of a plan, one after the other.

use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::time::sleep;
use upesi_http::Method;
use upesi_types::text::{path, url_part};
use upesi_types::{Amount, Currency, TransferId};

use super::admin_api::{AdminApi, AdminError};
use super::file::Model;
use super::plan::Change;
use super::state::{Limit, settlement_balance};

/// How often, and how many times, a deposit is looked for: some hubs book deposits after they have answered.
const DEPOSIT_POLL: Duration = Duration::from_millis(100);
const DEPOSIT_POLLS_MAX: usize = 100;

/// Why a change could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The hub did not take it.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// There is no account to pay into.
    #[error(
        "{name} has no SETTLEMENT account in {currency} that takes deposits; its settlement model may be another kind"
    )]
    NoSettlementAccount {
        /// The participant.
        name: String,
        /// The currency.
        currency: Currency,
    },
    /// A deposit was taken but is not there.
    #[error(
        "the hub took the deposit {id} of {name}, but its cover in {currency} is still {cover}; look at the hub's log"
    )]
    NotBooked {
        /// The participant.
        name: String,
        /// The currency.
        currency: Currency,
        /// The deposit.
        id: TransferId,
        /// What is there.
        cover: Amount,
    },
}

/// Makes one change.
///
/// # Errors
/// The hub refuses it or cannot be reached; nothing after it should be tried.
pub async fn make(api: &AdminApi, scheme: &str, change: &Change) -> Result<(), ApplyError> {
    match change {
        Change::HubAccount { hub, currency, kind } => {
            let body = json!({"currency": currency.as_str(), "type": kind});
            api.send(Method::POST, &path(&["participants", hub, "accounts"]), &body.to_string()).await?;
        }
        Change::Model(model) => {
            api.send(Method::POST, "/settlementModels", &model_body(model)).await?;
        }
        Change::ModelActivated(name) => {
            api.send(Method::PUT, &path(&["settlementModels", name]), r#"{"isActive":true}"#).await?;
        }
        Change::Participant { name, currency, is_proxy } => {
            let mut body = json!({"name": name, "currency": currency.as_str()});
            if *is_proxy {
                body["isProxy"] = true.into();
            }
            api.send(Method::POST, "/participants", &body.to_string()).await?;
        }
        Change::Activity { name, is_active } => {
            let body = json!({"isActive": is_active});
            api.send(Method::PUT, &path(&["participants", name]), &body.to_string()).await?;
        }
        Change::Limit { name, currency, from, to } => set_limit(api, name, *currency, *from, *to).await?,
        Change::Funds { name, currency, amount } => {
            return deposit(api, scheme, name, *currency, *amount).await;
        }
        Change::Bind { name, binding } => {
            let (kind, value) = binding.split_once(':').unwrap_or((binding, ""));
            let body = json!({"kind": kind, "value": value});
            api.send(Method::POST, &path(&["participants", name, "bindings"]), &body.to_string()).await?;
        }
        Change::Unbind { name, binding } => {
            let (kind, value) = binding.split_once(':').unwrap_or((binding, ""));
            let bindings = path(&["participants", name, "bindings"]);
            let query = format!("kind={}&value={}", url_part(kind), url_part(value));
            api.send(Method::DELETE, &format!("{bindings}?{query}"), "").await?;
        }
        Change::SignatureKey { name, key } => {
            let body = json!({"publicKey": key.text}).to_string();
            api.send(Method::POST, &path(&["participants", name, "signatureKeys"]), &body).await?;
        }
        Change::Proxied { proxy, name } => {
            let body = json!({"name": name}).to_string();
            api.send(Method::POST, &path(&["participants", proxy, "proxied"]), &body).await?;
        }
        Change::Unproxied { proxy, name } => {
            api.send(Method::DELETE, &path(&["participants", proxy, "proxied", name]), "").await?;
        }
        Change::FeeRule(rule) => api.send(Method::POST, "/feeRules", &rule.body()).await?,
        Change::FeeRuleEnd { name, to, .. } => {
            let body = json!({"until": to.to_string()});
            api.send(Method::PUT, &path(&["feeRules", name]), &body.to_string()).await?;
        }
        Change::Endpoint { name, kind, to, .. } => {
            let body = json!({"type": kind, "value": to});
            api.send(Method::POST, &path(&["participants", name, "endpoints"]), &body.to_string()).await?;
        }
    }
    Ok(())
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

/// The first cap opens the accounts, with an alarm of the hub's choice; what follows sets both. Amounts are written
/// by their digits.
async fn set_limit(
    api: &AdminApi,
    name: &str,
    currency: Currency,
    from: Option<Limit>,
    to: Limit,
) -> Result<(), AdminError> {
    let Limit { cap, alarm_percentage } = to;
    if from.is_none() {
        let body = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap}}},"initialPosition":0}}"#
        );
        let opening = path(&["participants", name, "initialPositionAndLimits"]);
        api.send(Method::POST, &opening, &body).await?;
    }
    let body = format!(
        r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":{alarm_percentage}}}}}"#
    );
    api.send(Method::PUT, &path(&["participants", name, "limits"]), &body).await
}

/// Makes the scheme's one deposit into an account and waits until it is there.
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
    let body = format!(
        r#"{{"transferId":"{id}","externalReference":"scheme {scheme}","action":"recordFundsIn","reason":"scheme apply","amount":{{"amount":{amount},"currency":"{currency}"}}}}"#
    );
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

/// The id of a scheme's deposit for a DFSP in a currency. There is one: whatever becomes of the account and of the
/// file, it is sent under the same id, which the hub books once.
pub(super) fn deposit_id(scheme: &str, name: &str, currency: Currency) -> TransferId {
    derived_id(&["upesi scheme deposit, once", scheme, name, currency.as_str()])
}

/// The id of a movement of funds that must not be made twice: it follows from what the movement is.
pub fn derived_id(parts: &[&str]) -> TransferId {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TransferId::from_random_bytes(bytes)
}
