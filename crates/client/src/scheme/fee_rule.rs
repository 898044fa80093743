//! A rule for interchange fees in a scheme file.

use serde_json::{Value, json};
use upesi_ledger::FeeTerms;
use upesi_types::{Amount, Timestamp};

/// A rule in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeRule {
    /// The terms of the rule; DFSPs in order of their names.
    pub terms: FeeTerms<String>,
    /// Its position in the file: `FILE:LINE`.
    pub place: String,
    /// Its start; `None` for the time of its creation.
    pub from: Option<Timestamp>,
    /// Its end; `None` leaves the end unchanged.
    pub until: Option<Timestamp>,
}

impl FeeRule {
    /// The body that adds it.
    pub(super) fn body(&self) -> String {
        let terms = &self.terms;
        // Amounts are texts with exact digits.
        let mut body: Value = json!({
            "name": &*terms.name,
            "currency": terms.currency.as_str(),
            "payers": terms.payers,
            "payees": terms.payees,
            "amountMin": terms.amount_min.to_string(),
            "ratePercent": percent(terms.rate).to_string(),
            "decimals": terms.decimals,
            "fixed": terms.fixed.to_string(),
            "paidBy": terms.paid_by.as_str(),
        });
        if let Some(most) = terms.amount_max {
            body["amountMax"] = most.to_string().into();
        }
        for (key, instant) in [("from", self.from), ("until", self.until)] {
            if let Some(instant) = instant {
                body[key] = instant.to_string().into();
            }
        }
        body.to_string()
    }

    /// The terms in one line.
    pub(super) fn line(&self) -> String {
        let FeeTerms { name, currency, rate, fixed, paid_by, .. } = &self.terms;
        let (rate, paid_by) = (percent(*rate), paid_by.as_str());
        format!("+ fee rule {name} {currency} {rate} % and {fixed}, paid by {paid_by}")
    }
}

/// The rate of a rule, in percent.
pub(super) fn percent(rate: u32) -> Amount {
    Amount::from_units(rate.into()).unwrap_or_default()
}
