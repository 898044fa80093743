//! The rules for interchange fees of a hub.

use serde::Deserialize;
use upesi_ledger::{FeePayer, FeeTerms};
use upesi_types::{Currency, Timestamp};

use crate::admin_api::{AdminApi, AdminError, ApiAmount};

/// A rule at the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeRuleState {
    pub(in crate::scheme) terms: FeeTerms<String>,
    pub(in crate::scheme) from: Timestamp,
    pub(in crate::scheme) until: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FeeRuleListing {
    name: String,
    currency: String,
    payers: Vec<String>,
    payees: Vec<String>,
    amount_min: ApiAmount,
    amount_max: Option<ApiAmount>,
    rate_percent: ApiAmount,
    decimals: u8,
    fixed: ApiAmount,
    paid_by: String,
    from: String,
    until: Option<String>,
}

impl FeeRuleListing {
    /// The rule; `None` if the hub uses unknown words.
    fn read(self) -> Option<FeeRuleState> {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names
        };
        let terms = FeeTerms {
            name: self.name.into(),
            currency: Currency::parse(&self.currency)?,
            payers: sorted(self.payers),
            payees: sorted(self.payees),
            amount_min: self.amount_min.0,
            amount_max: self.amount_max.map(|amount| amount.0),
            rate: u32::try_from(self.rate_percent.0.units()).ok()?,
            decimals: self.decimals,
            fixed: self.fixed.0,
            paid_by: FeePayer::parse(&self.paid_by)?,
        };
        let until = match self.until {
            None => None,
            Some(text) => Some(Timestamp::parse_iso(&text)?),
        };
        Some(FeeRuleState { terms, from: Timestamp::parse_iso(&self.from)?, until })
    }
}

/// The hub's rules; `None` if it has no such call.
///
/// # Errors
/// The call fails.
pub(super) async fn fee_rules_of(api: &AdminApi) -> Result<Option<Vec<FeeRuleState>>, AdminError> {
    const PATH: &str = "/feeRules";
    let listings = match api.get::<Vec<FeeRuleListing>>(PATH).await {
        Ok(listings) => listings,
        Err(error) if error.is_unknown() => return Ok(None),
        Err(error) => return Err(error),
    };
    let rules: Option<Vec<_>> = listings.into_iter().map(FeeRuleListing::read).collect();
    let malformed =
        || AdminError::Malformed { path: PATH.to_owned(), reason: "a rule cannot be read".to_owned() };
    rules.map(Some).ok_or_else(malformed)
}
