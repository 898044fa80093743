//! The current state of a hub, read through its admin API.

mod fees;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use upesi_types::text::path;
use upesi_types::{Amount, Currency, ErrorCode};

use super::file::Scheme;
use super::ids::deposit_id;
use crate::admin_api::{AdminApi, AdminError, ApiAmount, ApiFlag};

pub use self::fees::FeeRuleState;
use self::fees::fee_rules_of;

/// The parts of a hub's state that schemes describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubState {
    /// Participants by name, including the hub.
    pub participants: BTreeMap<String, ParticipantState>,
    /// Settlement models by name.
    pub models: BTreeMap<String, ModelState>,
    /// Rules for interchange fees, if the scheme has any and the hub supports them.
    pub fee_rules: Option<Vec<FeeRuleState>>,
}

/// A participant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParticipantState {
    pub is_active: bool,
    /// Whether it is a proxy, if the hub reports this.
    pub is_proxy: Option<bool>,
    /// Currency and type of its accounts.
    pub accounts: Vec<(String, String)>,
    /// Net debit caps by currency.
    pub limits: BTreeMap<String, Limit>,
    /// Cover by currency: the negated balance of the settlement account.
    pub cover: BTreeMap<String, Amount>,
    /// Numbers of its settlement accounts by currency.
    settlement_accounts: BTreeMap<String, u64>,
    /// The scheme's booked deposits: amounts by currency.
    pub deposits: BTreeMap<String, Amount>,
    /// The DFSPs of other schemes behind it, if the scheme has any for it and the hub supports them.
    pub proxied: Option<BTreeSet<String>>,
    /// Bindings as `KIND:VALUE`, if the scheme has any for it and the hub supports them.
    pub bindings: Option<BTreeSet<String>>,
    /// SHA-256 of its signing keys, if the scheme has one for it and the hub supports them.
    pub signature_keys: Option<BTreeSet<String>>,
    pub endpoints: BTreeMap<String, String>,
}

/// A net debit cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub cap: Amount,
    /// Threshold of its alarm, in percent.
    pub alarm_percentage: Amount,
}

impl Limit {
    /// The alarm's threshold if neither the file nor the hub has one: 80 %. Hubs have different defaults.
    pub fn alarm_percentage_default() -> Amount {
        Amount::parse_decimal("80").unwrap_or_else(|_| unreachable!("80 is an amount"))
    }
}

impl ParticipantState {
    /// Whether it has any account in a currency.
    pub fn has_currency(&self, currency: &str) -> bool {
        self.accounts.iter().any(|(known, _)| known == currency)
    }
}

/// A settlement model as the hub lists it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelState {
    name: String,
    pub is_active: ApiFlag,
    /// GROSS or NET.
    pub settlement_granularity: String,
    /// BILATERAL or MULTILATERAL.
    pub settlement_interchange: String,
    /// IMMEDIATE or DEFERRED.
    pub settlement_delay: String,
    pub currency: Option<String>,
    pub require_liquidity_check: ApiFlag,
    /// The accounts whose obligations it settles; the value is a name in spite of the member's name.
    pub ledger_account_type_id: String,
    /// The accounts that provide cover, if the hub reports them.
    pub settlement_account_type_id: Option<String>,
    /// Whether positions are reset when a settlement completes.
    pub auto_position_reset: ApiFlag,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParticipantListing {
    name: String,
    is_active: ApiFlag,
    is_proxy: Option<ApiFlag>,
    #[serde(default)]
    accounts: Vec<AccountListing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountListing {
    ledger_account_type: String,
    currency: String,
}

/// A settlement account at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balance {
    pub id: u64,
    ledger_account_type: String,
    currency: String,
    value: ApiAmount,
}

impl Balance {
    pub fn cover(&self) -> Amount {
        self.value.0.negated()
    }
}

#[derive(Deserialize)]
struct Deposit {
    amount: DepositAmount,
}

#[derive(Deserialize)]
struct DepositAmount {
    amount: ApiAmount,
}

#[derive(Deserialize)]
struct LimitListing {
    currency: String,
    limit: LimitValue,
}

#[derive(Deserialize)]
struct LimitValue {
    #[serde(rename = "type")]
    kind: String,
    value: ApiAmount,
    #[serde(rename = "alarmPercentage")]
    alarm_percentage: Option<ApiAmount>,
}

#[derive(Deserialize)]
struct EndpointListing {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

#[derive(Deserialize)]
struct ProxiedListing {
    name: String,
}

#[derive(Deserialize)]
struct SignatureKeyListing {
    keys: Vec<SignatureKeyEntry>,
}

#[derive(Deserialize)]
struct SignatureKeyEntry {
    sha256: String,
    state: String,
    source: String,
}

#[derive(Deserialize)]
struct BindingListing {
    kind: String,
    value: String,
}

impl HubState {
    /// Reads the parts that the scheme describes.
    ///
    /// # Errors
    /// The first call that fails.
    pub async fn read(api: &AdminApi, scheme: &Scheme) -> Result<Self, AdminError> {
        let mut state = Self::default();
        for listing in api.get::<Vec<ParticipantListing>>("/participants").await? {
            let accounts = listing.accounts.into_iter().map(|one| (one.currency, one.ledger_account_type));
            let participant = ParticipantState {
                is_active: listing.is_active.0,
                is_proxy: listing.is_proxy.map(|flag| flag.0),
                accounts: accounts.collect(),
                ..ParticipantState::default()
            };
            state.participants.insert(listing.name, participant);
        }
        let models = api.get::<Vec<ModelState>>("/settlementModels").await?;
        state.models = models.into_iter().map(|model| (model.name.clone(), model)).collect();
        for model in &scheme.models {
            if !state.models.contains_key(&model.name)
                && let Some(found) = unlisted_model(api, &model.name).await?
            {
                state.models.insert(model.name.clone(), found);
            }
        }
        let dfsps = scheme.dfsps.iter().map(|dfsp| &dfsp.name);
        let with_hub = dfsps.chain((!scheme.hub_endpoints.is_empty()).then_some(&scheme.hub));
        for name in with_hub {
            let Some(participant) = state.participants.get_mut(name) else { continue };
            participant.read_details(api, name, *name != scheme.hub).await?;
        }
        for dfsp in &scheme.dfsps {
            let Some(participant) = state.participants.get_mut(&dfsp.name) else { continue };
            for (currency, _) in dfsp.accounts.iter().filter(|(_, terms)| terms.funds > Amount::ZERO) {
                if let Some(amount) = participant.deposit(api, &scheme.name, &dfsp.name, *currency).await? {
                    participant.deposits.insert(currency.to_string(), amount);
                }
            }
        }
        for dfsp in scheme.dfsps.iter().filter(|dfsp| dfsp.bindings.is_some()) {
            let Some(participant) = state.participants.get_mut(&dfsp.name) else { continue };
            participant.bindings = bindings(api, &dfsp.name).await?;
        }
        for dfsp in scheme.dfsps.iter().filter(|dfsp| dfsp.signature_key.is_some()) {
            let Some(participant) = state.participants.get_mut(&dfsp.name) else { continue };
            participant.signature_keys = signature_keys(api, &dfsp.name).await?;
        }
        for dfsp in scheme.dfsps.iter().filter(|dfsp| dfsp.proxied.is_some()) {
            let Some(participant) = state.participants.get_mut(&dfsp.name) else { continue };
            participant.proxied = proxied(api, &dfsp.name).await?;
        }
        if !scheme.fee_rules.is_empty() {
            state.fee_rules = fee_rules_of(api).await?;
        }
        Ok(state)
    }
}

impl ParticipantState {
    async fn read_details(&mut self, api: &AdminApi, name: &str, has_money: bool) -> Result<(), AdminError> {
        let endpoints = api.get::<Vec<EndpointListing>>(&path(&["participants", name, "endpoints"])).await?;
        self.endpoints = endpoints.into_iter().map(|endpoint| (endpoint.kind, endpoint.value)).collect();
        if !has_money {
            return Ok(());
        }
        for listing in api.get::<Vec<LimitListing>>(&path(&["participants", name, "limits"])).await? {
            if listing.limit.kind == "NET_DEBIT_CAP" {
                let alarm_percentage = listing
                    .limit
                    .alarm_percentage
                    .map_or_else(Limit::alarm_percentage_default, |found| found.0);
                self.limits.insert(listing.currency, Limit { cap: listing.limit.value.0, alarm_percentage });
            }
        }
        for balance in settlement_balances(api, name).await? {
            self.cover.insert(balance.currency.clone(), balance.cover());
            self.settlement_accounts.insert(balance.currency, balance.id);
        }
        Ok(())
    }

    /// The amount of the scheme's deposit, if the hub reports one.
    async fn deposit(
        &self,
        api: &AdminApi,
        scheme: &str,
        name: &str,
        currency: Currency,
    ) -> Result<Option<Amount>, AdminError> {
        let Some(account) = self.settlement_accounts.get(currency.as_str()) else { return Ok(None) };
        let id = deposit_id(scheme, name, currency);
        let [account, id] = [account.to_string(), id.to_string()];
        let deposit = path(&["participants", name, "accounts", &account, "transfers", &id]);
        match api.get::<Deposit>(&deposit).await {
            Ok(deposit) => Ok(Some(deposit.amount.amount.0)),
            Err(error) if error.has_code(ErrorCode::TRANSFER_NOT_FOUND) || error.is_unknown() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The DFSPs behind a proxy; `None` if the hub has no such call.
async fn proxied(api: &AdminApi, name: &str) -> Result<Option<BTreeSet<String>>, AdminError> {
    match api.get::<Vec<ProxiedListing>>(&path(&["participants", name, "proxied"])).await {
        Ok(proxied) => Ok(Some(proxied.into_iter().map(|one| one.name).collect())),
        Err(error) if error.is_unknown() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A participant's bindings; `None` if the hub has no such call.
async fn bindings(api: &AdminApi, name: &str) -> Result<Option<BTreeSet<String>>, AdminError> {
    match api.get::<Vec<BindingListing>>(&path(&["participants", name, "bindings"])).await {
        Ok(bindings) => {
            let texts = bindings.into_iter().map(|BindingListing { kind, value }| format!("{kind}:{value}"));
            Ok(Some(texts.collect()))
        }
        Err(error) if error.is_unknown() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The participant's signing keys in the hub's ledger, without ended and revoked ones; `None` if the hub has no such
/// call.
async fn signature_keys(api: &AdminApi, name: &str) -> Result<Option<BTreeSet<String>>, AdminError> {
    match api.get::<SignatureKeyListing>(&path(&["participants", name, "signatureKeys"])).await {
        Ok(listing) => {
            let counts = |key: &SignatureKeyEntry| {
                key.source == "ledger" && !matches!(&*key.state, "retired" | "revoked")
            };
            let keys = listing.keys.into_iter().filter(counts).map(|key| key.sha256);
            Ok(Some(keys.collect()))
        }
        Err(error) if error.is_unknown() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A model that is not in the hub's list, which contains only active ones.
async fn unlisted_model(api: &AdminApi, name: &str) -> Result<Option<ModelState>, AdminError> {
    match api.get::<ModelState>(&path(&["settlementModels", name])).await {
        Ok(model) => Ok(Some(model)),
        Err(error) if error.is_unknown() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A participant's settlement accounts with their balances.
///
/// # Errors
/// The call fails.
pub async fn settlement_balances(api: &AdminApi, name: &str) -> Result<Vec<Balance>, AdminError> {
    let mut balances = api.get::<Vec<Balance>>(&path(&["participants", name, "accounts"])).await?;
    balances.retain(|balance| balance.ledger_account_type == "SETTLEMENT");
    Ok(balances)
}

/// A participant's settlement account in a currency.
///
/// # Errors
/// The call fails.
pub async fn settlement_balance(
    api: &AdminApi,
    name: &str,
    currency: &str,
) -> Result<Option<Balance>, AdminError> {
    Ok(settlement_balances(api, name).await?.into_iter().find(|balance| balance.currency == currency))
}
