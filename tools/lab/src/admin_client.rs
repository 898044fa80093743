//! The lab's calls of the admin API. All hubs that are compatible with Mojaloop have these calls.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
pub use upesi_client::admin_api::AdminError;
use upesi_client::admin_api::{AdminApi, ApiAmount};
use upesi_http::{ClientTls, Method};
use upesi_types::{Amount, Currency};

/// A client of one hub's admin API. It belongs to the runtime that first uses it.
#[derive(Debug)]
pub struct AdminClient(AdminApi);

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Participant {
    pub name: String,
    #[serde(default)]
    accounts: Vec<AccountName>,
}

#[derive(Clone, Debug, Deserialize)]
struct AccountName {
    #[serde(rename = "ledgerAccountType")]
    kind: String,
    currency: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Model {
    pub name: String,
    pub currency: Option<String>,
}

#[derive(Deserialize)]
struct LimitRow {
    currency: String,
}

#[derive(Deserialize)]
struct PositionRow {
    currency: String,
    value: ApiAmount,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Account {
    pub id: u64,
    #[serde(rename = "ledgerAccountType")]
    pub kind: String,
    pub currency: String,
    pub value: Option<ApiAmount>,
}

impl AdminClient {
    /// A client of the admin API at a base URL. Fails if the URL is unusable.
    pub fn new(url: &str) -> Result<Self, AdminError> {
        AdminApi::new(url).map(Self)
    }

    /// A client that uses this TLS for a URL that starts with `https://`. Fails if the URL is unusable.
    pub fn with_tls(url: &str, tls: Option<&ClientTls>) -> Result<Self, AdminError> {
        AdminApi::with_tls(url, tls.cloned()).map(Self)
    }

    /// Whether its URL has no path.
    pub(crate) fn is_at_root(&self) -> bool {
        self.0.is_at_root()
    }

    /// Gets a resource and returns its body. Fails if the hub does not answer with success.
    pub async fn get(&self, path: &str) -> Result<Bytes, AdminError> {
        self.0.get_bytes(path).await
    }

    /// Gets a resource and parses it. Fails if the hub does not answer in the expected form.
    pub async fn read<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, AdminError> {
        self.0.get(path).await
    }

    /// Deletes a resource. Fails if the hub does not answer with success.
    pub async fn delete(&self, path: &str) -> Result<(), AdminError> {
        self.0.send(Method::DELETE, path, "").await
    }

    /// Posts a JSON text. Fails if the hub rejects it or does not answer.
    pub async fn create(&self, path: &str, json: String) -> Result<(), AdminError> {
        self.0.send(Method::POST, path, &json).await
    }

    /// Posts a JSON text. If the hub rejects it, the object may exist already. Hubs report this with different
    /// statuses, codes and texts, so `exists` looks the object up. Fails if the hub does not answer, or has no such
    /// object after a rejection.
    pub(crate) async fn create_once(
        &self,
        path: &str,
        json: String,
        exists: impl AsyncFnOnce() -> Result<bool, AdminError>,
    ) -> Result<(), AdminError> {
        let created = self.create(path, json).await;
        let is_rejected = matches!(created, Err(AdminError::Refused { .. }));
        if is_rejected && exists().await.unwrap_or_default() { Ok(()) } else { created }
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, AdminError> {
        self.0.get("/participants").await
    }

    /// The accounts of a participant that have balances.
    pub(crate) async fn accounts(&self, name: &str) -> Result<Vec<Account>, AdminError> {
        self.0.get(&format!("/participants/{name}/accounts")).await
    }

    /// The balances of all SETTLEMENT accounts in a currency, by participant; a deposit is negative.
    pub(crate) async fn covers(&self, currency: Currency) -> Result<BTreeMap<String, Amount>, AdminError> {
        let mut covers = BTreeMap::new();
        for participant in self.participants().await? {
            let accounts = self.accounts(&participant.name).await?;
            let mut accounts = accounts.into_iter();
            let of_cover = |one: &Account| one.kind == "SETTLEMENT" && one.currency == currency.as_str();
            if let Some(value) = accounts.find(of_cover).and_then(|account| account.value) {
                covers.insert(participant.name, value.0);
            }
        }
        Ok(covers)
    }

    /// The currencies of a participant's net debit caps.
    pub(crate) async fn capped(&self, name: &str) -> Result<Vec<String>, AdminError> {
        let rows: Vec<LimitRow> = self.0.get(&format!("/participants/{name}/limits")).await?;
        Ok(rows.into_iter().map(|row| row.currency).collect())
    }

    pub(crate) async fn models(&self) -> Result<Vec<Model>, AdminError> {
        self.0.get("/settlementModels").await
    }

    async fn position(&self, name: &str, currency: Currency) -> Result<Option<Amount>, AdminError> {
        let rows: Vec<PositionRow> = self.0.get(&format!("/participants/{name}/positions")).await?;
        Ok(rows.iter().find(|row| row.currency == currency.as_str()).map(|row| row.value.0))
    }

    /// The positions of all participants that have a position account in a currency. Fails if the hub does not answer,
    /// or if a number is not an exact amount.
    pub async fn positions(&self, currency: Currency) -> Result<BTreeMap<String, Amount>, AdminError> {
        let mut positions = BTreeMap::new();
        for participant in self.participants().await? {
            let has_position =
                |account: &AccountName| account.kind == "POSITION" && account.currency == currency.as_str();
            if participant.accounts.iter().any(has_position)
                && let Some(value) = self.position(&participant.name, currency).await?
            {
                positions.insert(participant.name, value);
            }
        }
        Ok(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly() {
        let units = |json: &'static str| {
            serde_json::from_str::<Vec<PositionRow>>(json).map(|rows| rows[0].value.0.units()).ok()
        };
        assert_eq!(
            units(r#"[{"currency":"XXX","value":-12345678901234.5678}]"#),
            Some(-123_456_789_012_345_678)
        );
        assert_eq!(units(r#"[{"currency":"XXX","value":0}]"#), Some(0));
        assert_eq!(units(r#"[{"currency":"XXX","value":"1.5"}]"#), Some(15_000));
        assert_eq!(units(r#"[{"currency":"XXX","value":0.30000000000000004}]"#), None);
    }
}
