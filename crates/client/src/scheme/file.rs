//! The contents of a scheme file, expanded into the requirements of each DFSP.

use std::collections::BTreeMap;

use upesi_ledger::Binding;
use upesi_types::{Amount, Currency};

pub use super::fee_rule::FeeRule;

/// The required state of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name of the scheme; part of the ids of deposits.
    pub name: String,
    /// Name of the hub as a participant.
    pub hub: String,
    /// Position of the hub's name.
    pub hub_place: SourceLine,
    /// Currencies, in the order of the file, with the position of each.
    pub currencies: Vec<(Currency, SourceLine)>,
    pub models: Vec<Model>,
    /// Endpoints of the hub itself, usually e-mail addresses.
    pub hub_endpoints: BTreeMap<String, String>,
    /// DFSPs, in the order of the file.
    pub dfsps: Vec<Dfsp>,
    pub fee_rules: Vec<FeeRule>,
}

/// Position in a file: `FILE:LINE`.
pub type SourceLine = String;

/// A settlement model, with the texts of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Name, alphanumeric.
    pub name: String,
    /// Its position in the file.
    pub place: SourceLine,
    /// Its currency; without one it is the default for currencies without a model.
    pub currency: Option<String>,
    /// GROSS or NET.
    pub granularity: String,
    /// BILATERAL or MULTILATERAL.
    pub interchange: String,
    /// IMMEDIATE or DEFERRED.
    pub delay: String,
    pub require_liquidity_check: bool,
    /// The accounts whose obligations it settles.
    pub ledger_account_type: String,
    /// The accounts that provide cover.
    pub settlement_account_type: String,
    /// Whether positions are reset when a settlement completes.
    pub auto_position_reset: bool,
}

/// A DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dfsp {
    /// Name, as in `FSPIOP-Source`.
    pub name: String,
    /// Its position in the file.
    pub place: SourceLine,
    /// Whether it must be active; `None` leaves this unchanged.
    pub is_active: Option<bool>,
    /// Whether it must be a proxy; `None` leaves this unchanged, and a new DFSP is not one.
    pub is_proxy: Option<bool>,
    /// The DFSPs of other schemes behind it; `None` leaves them unchanged.
    pub proxied: Option<Vec<String>>,
    /// The bindings of its clients; `None` leaves them unchanged.
    pub bindings: Option<Vec<Binding>>,
    /// Its signing key; `None` leaves its keys unchanged.
    pub signature_key: Option<SigningKey>,
    pub accounts: BTreeMap<Currency, AccountTerms>,
    pub endpoints: BTreeMap<String, String>,
}

/// A public key for a DFSP's signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// The key as in the file: PEM or a JSON Web Key.
    pub text: String,
    /// SHA-256 of the key, in hexadecimal.
    pub sha256: String,
}

/// The required state of a DFSP's account in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountTerms {
    pub net_debit_cap: Amount,
    /// Threshold of the cap's alarm, in percent; `None` leaves it unchanged.
    pub alarm_percentage: Option<Amount>,
    /// Funds that are deposited once into the settlement account.
    pub funds: Amount,
}

/// The endpoints of a DFSP that serves everything below one base URL.
pub use upesi_admin::endpoints_of;

/// A template with a letter instead of each `{{placeholder}}`, so that it can be checked as a URL.
pub fn without_placeholders(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        text.push('x');
        rest = after.split_once("}}").map_or("", |(_, behind)| behind);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_ledger::EndpointType;

    #[test]
    fn endpoints_of_have_known_types_and_valid_urls() {
        for (kind, url) in endpoints_of("http://127.0.0.1:5000/greenbank/") {
            assert!(EndpointType::parse(&kind).is_some_and(EndpointType::is_url), "{kind}");
            assert!(url.starts_with("http://127.0.0.1:5000/greenbank"), "{url}");
            let plain = without_placeholders(&url);
            assert!(upesi_http::Target::parse(&plain).is_ok() && !plain.contains('{'), "{plain}");
        }
        let put = endpoints_of("http://a").find(|(kind, _)| kind.ends_with("TRANSFER_PUT"));
        assert_eq!(put.unwrap().1, "http://a/transfers/{{transferId}}");
    }
}
