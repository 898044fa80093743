//! Windows and settlements in the admin API.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use upesi_admin::ErrorName;
use upesi_http::Method;
use upesi_ledger::{SettlementState, Sum, WindowState};
use upesi_types::TransferId;

use super::error::{Done, PendingApprovals};
use crate::admin_api::{AdminApi, AdminError, ApiAmount, HubError};

/// Maximum number of accounts that one call advances: well below the largest body that the admin API accepts.
pub(super) const ACCOUNTS_PER_CALL_MAX: usize = 1_000;

/// Sums of a window by currency and type of account.
pub(super) type Sums = BTreeMap<(String, String), Sum>;

/// A settlement window, by itself or in a settlement.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Window {
    #[serde(alias = "settlementWindowId")]
    pub(super) id: u32,
    pub(super) state: String,
    pub(super) reason: String,
    pub(super) created_date: String,
    pub(super) changed_date: String,
    #[serde(default)]
    pub(super) content: Vec<Content>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    pub(super) state: String,
    pub(super) ledger_account_type: String,
    pub(super) currency_id: String,
    pub(super) created_date: String,
}

impl Window {
    pub(super) fn is_open(&self) -> bool {
        self.state == WindowState::Open.as_str()
    }
}

impl Content {
    /// Whether a settlement can include this content.
    pub(super) fn can_be_settled(&self) -> bool {
        WindowState::parse(&self.state).is_some_and(WindowState::can_be_settled)
    }
}

/// A page of the pairs of a window.
#[derive(Debug, Deserialize)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<Pair>,
    pub(super) next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pair {
    pub(super) payer: PairParty,
    pub(super) payee: PairParty,
    pub(super) currency: String,
    pub(super) ledger_account_type: String,
    pub(super) amount: Units,
    pub(super) transfers: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PairParty {
    pub(super) account_id: u32,
}

/// A JSON number in ten-thousandths; it may have more digits than an amount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units(pub(super) i128);

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let (whole, fraction) = raw.get().split_once('.').unwrap_or((raw.get(), ""));
        let units = (fraction.len() <= 4).then(|| format!("{whole}{fraction:0<4}").parse().ok()).flatten();
        units.map(Self).ok_or_else(|| serde::de::Error::custom(format!("{} is not an amount", raw.get())))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settlement {
    pub(super) id: u32,
    pub(super) settlement_model: String,
    pub(super) state: String,
    pub(super) reason: String,
    pub(super) created_date: String,
    pub(super) changed_date: String,
    pub(super) settlement_windows: Vec<Window>,
    pub(super) participants: Vec<Party>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Party {
    pub(super) id: u32,
    pub(super) accounts: Vec<Account>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Account {
    pub(super) id: u32,
    pub(super) state: String,
    pub(super) reason: String,
    pub(super) external_reference: Option<String>,
    pub(super) net_settlement_amount: Option<Money>,
    /// The movement of funds that moved the cover of the net with the settlement.
    pub(super) cover_transfer_id: Option<String>,
    pub(super) carried_in: Option<ApiAmount>,
    pub(super) carried_over: Option<ApiAmount>,
    pub(super) error_information: Option<HubError>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Money {
    pub(super) amount: ApiAmount,
    pub(super) currency: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Model {
    pub(super) name: String,
    pub(super) settlement_granularity: String,
    pub(super) settlement_delay: String,
    pub(super) currency: Option<String>,
    pub(super) ledger_account_type_id: String,
}

/// An answer to an update; only the accounts are used, which may have errors.
#[derive(Debug, Deserialize)]
struct Advanced {
    participants: Vec<Party>,
}

impl Settlement {
    /// All accounts, each with the number of its participant.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (u32, &Account)> {
        self.participants
            .iter()
            .flat_map(|party| party.accounts.iter().map(move |account| (party.id, account)))
    }

    /// The type of its accounts; the model governs all of them.
    pub(super) fn account_type(&self) -> Option<&str> {
        self.settlement_windows
            .iter()
            .flat_map(|window| &window.content)
            .map(|one| &*one.ledger_account_type)
            .next()
    }

    pub(super) fn stage(&self) -> Result<SettlementState, AdminError> {
        SettlementState::parse(&self.state).ok_or_else(|| AdminError::Malformed {
            path: format!("/v2/settlements/{}", self.id),
            reason: format!("unknown state {}", self.state),
        })
    }
}

/// A new state of an account.
pub(super) struct Step {
    pub(super) participant: u32,
    pub(super) account: u32,
    pub(super) state: SettlementState,
    pub(super) reason: String,
    pub(super) reference: Option<String>,
}

/// The calls about settlement.
pub(super) struct SettlementApi(pub(super) AdminApi);

impl SettlementApi {
    pub(super) async fn window(&self, id: u32) -> Result<Window, AdminError> {
        self.0.get(&format!("/v2/settlementWindows/{id}")).await
    }

    /// A page of a window's pairs.
    pub(super) async fn pairs(&self, window: u32, after: Option<&str>) -> Result<Pairs, AdminError> {
        let after = after.map_or_else(String::new, |after| format!("&after={after}"));
        self.0.get(&format!("/v2/settlementWindows/{window}/pairs?limit=10000{after}")).await
    }

    /// The sums of a window's transfers.
    pub(super) async fn sums(&self, window: u32) -> Result<Sums, AdminError> {
        let (mut sums, mut after) = (Sums::new(), None);
        loop {
            let page = self.pairs(window, after.as_deref()).await?;
            for pair in page.pairs {
                let sum: &mut Sum = sums.entry((pair.currency, pair.ledger_account_type)).or_default();
                sum.units += pair.amount.0;
                sum.transfers += pair.transfers;
            }
            after = page.next;
            if after.is_none() {
                return Ok(sums);
            }
        }
    }

    /// The windows that match a query.
    pub(super) async fn windows(&self, query: &str) -> Result<Vec<Window>, AdminError> {
        self.find(&format!("/v2/settlementWindows?{query}")).await
    }

    pub(super) async fn settlement(&self, id: u32) -> Result<Settlement, AdminError> {
        self.0.get(&format!("/v2/settlements/{id}")).await
    }

    /// The settlements that match a query.
    pub(super) async fn settlements(&self, query: &str) -> Result<Vec<Settlement>, AdminError> {
        self.find(&format!("/v2/settlements?{query}")).await
    }

    /// The windows that were closed with this reason.
    pub(super) async fn windows_closed_for(&self, reason: &str) -> Result<Vec<Window>, AdminError> {
        self.windows(&format!("closeReason={}", in_query(reason))).await
    }

    /// All settlements that were created with this reason, the oldest first. Answers are limited, so this may need
    /// several calls.
    pub(super) async fn settlements_created_for(&self, reason: &str) -> Result<Vec<Settlement>, AdminError> {
        let reason = in_query(reason);
        let mut all: Vec<Settlement> = Vec::new();
        loop {
            let before = all.last().map_or_else(String::new, |last| format!("&before={}", last.id));
            let page = self.settlements(&format!("creationReason={reason}{before}")).await?;
            if page.is_empty() {
                all.reverse();
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// The active models.
    pub(super) async fn models(&self) -> Result<Vec<Model>, AdminError> {
        self.0.get("/settlementModels").await
    }

    /// The name of each account's participant.
    pub(super) async fn names(&self) -> Result<BTreeMap<u32, String>, AdminError> {
        #[derive(Deserialize)]
        struct Participant {
            name: String,
            accounts: Vec<AccountId>,
        }
        #[derive(Deserialize)]
        struct AccountId {
            id: u32,
        }
        let all: Vec<Participant> = self.0.get("/participants").await?;
        let names = all.into_iter().flat_map(|one| {
            let name = one.name;
            one.accounts.into_iter().map(move |account| (account.id, name.clone()))
        });
        Ok(names.collect())
    }

    /// Reads a list; the API answers an empty one with an error.
    async fn find<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<Vec<T>, AdminError> {
        match self.0.get(path).await {
            Err(error) if error.is(ErrorName::NothingFound) => Ok(Vec::new()),
            other => other,
        }
    }

    /// Closes a window and returns the new open one.
    pub(super) async fn close(&self, id: u32, reason: &str) -> Result<Window, AdminError> {
        let body = json!({"state": "CLOSED", "reason": reason});
        self.post(&format!("/v2/settlementWindows/{id}"), &body).await
    }

    pub(super) async fn create(
        &self,
        model: &str,
        reason: &str,
        windows: &[u32],
    ) -> Result<Settlement, AdminError> {
        let windows: Vec<Value> = windows.iter().map(|id| json!({"id": id})).collect();
        let body = json!({"settlementModel": model, "reason": reason, "settlementWindows": windows});
        self.post("/v2/settlements", &body).await
    }

    async fn post<T: for<'de> Deserialize<'de>>(&self, path: &str, body: &Value) -> Result<T, AdminError> {
        self.0.post(path, "application/json", body.to_string().into()).await
    }

    /// Sets states of accounts, and returns the reasons of failures.
    pub(super) async fn advance(&self, id: u32, steps: &[Step]) -> Done<Vec<(u32, String)>> {
        let steps: Vec<Value> = steps.iter().map(Step::to_json).collect();
        self.put_accounts(&format!("/v2/settlements/{id}"), &steps).await
    }

    /// Finishes accounts with the amounts that the bank moved, and returns the reasons of failures.
    pub(super) async fn move_cover(&self, id: u32, covers: &[Cover]) -> Done<Vec<(u32, String)>> {
        let covers: Vec<Value> = covers.iter().map(Cover::to_json).collect();
        self.put_accounts(&format!("/v2/settlements/{id}/cover"), &covers).await
    }

    async fn put_accounts(&self, path: &str, participants: &[Value]) -> Done<Vec<(u32, String)>> {
        let (mut faults, mut waiting) = (Vec::new(), PendingApprovals::default());
        for participants in participants.chunks(ACCOUNTS_PER_CALL_MAX) {
            let body = json!({"participants": participants}).to_string();
            let answer = self.0.put::<Advanced>(path, body).await;
            let Some(answer) = waiting.take(answer.map_err(Into::into))? else { continue };
            let accounts = answer.participants.into_iter().flat_map(|party| party.accounts);
            faults.extend(accounts.filter_map(|one| Some((one.id, one.error_information?.detail))));
        }
        waiting.check()?;
        Ok(faults)
    }

    pub(super) async fn abort(
        &self,
        id: u32,
        reason: &str,
        reference: Option<&str>,
    ) -> Result<(), AdminError> {
        let mut body = json!({"state": "ABORTED", "reason": reason});
        if let Some(reference) = reference {
            body["externalReference"] = reference.into();
        }
        self.0.send(Method::PUT, &format!("/v2/settlements/{id}"), &body.to_string()).await
    }
}

/// Names of jobs need no encoding, but the spaces beside them do.
fn in_query(reason: &str) -> String {
    reason.replace(' ', "%20")
}

/// The amount that the bank moved for an account.
pub(super) struct Cover {
    pub(super) participant: u32,
    pub(super) account: u32,
    pub(super) movement: TransferId,
    pub(super) reason: String,
    pub(super) reference: String,
}

impl Cover {
    pub(super) fn to_json(&self) -> Value {
        let Self { participant, account, movement, reason, reference } = self;
        let movement = movement.to_string();
        let account =
            json!({"id": account, "transferId": movement, "reason": reason, "externalReference": reference});
        json!({"id": participant, "accounts": [account]})
    }
}

impl Step {
    pub(super) fn to_json(&self) -> Value {
        let mut account = json!({"id": self.account, "state": self.state.as_str(), "reason": self.reason});
        if let Some(reference) = &self.reference {
            account["externalReference"] = reference.as_str().into();
        }
        json!({"id": self.participant, "accounts": [account]})
    }
}
