//! What a scheme file says, expanded into what each DFSP must have.

use std::collections::BTreeMap;

use upesi_ledger::Binding;
use upesi_types::{Amount, Currency};

use super::fees::FeeRule;
use super::reading::Reading;

/// A scheme file larger than this is refused, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;

/// What a hub must look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name of the scheme; part of the ids of deposits.
    pub name: String,
    /// Name of the hub as a participant.
    pub hub: String,
    /// Where the hub's name stands.
    pub hub_place: Place,
    /// Currencies, in the order of the file, and where each stands.
    pub currencies: Vec<(Currency, Place)>,
    /// Settlement models.
    pub models: Vec<Model>,
    /// Endpoints of the hub itself, mostly e-mail addresses.
    pub hub_endpoints: BTreeMap<String, String>,
    /// DFSPs, in the order of the file.
    pub dfsps: Vec<Dfsp>,
    /// Rules for interchange fees.
    pub fee_rules: Vec<FeeRule>,
}

/// Where something stands: `FILE:LINE`.
pub type Place = String;

/// A settlement model; texts are those of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Name, alphanumeric.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Its currency; without one it is the default for currencies that have no model.
    pub currency: Option<String>,
    /// GROSS or NET.
    pub granularity: String,
    /// BILATERAL or MULTILATERAL.
    pub interchange: String,
    /// IMMEDIATE or DEFERRED.
    pub delay: String,
    /// Whether liquidity is checked.
    pub require_liquidity_check: bool,
    /// The accounts whose obligations it settles.
    pub ledger_account_type: String,
    /// The accounts that give cover.
    pub settlement_account_type: String,
    /// Whether positions are reset when a settlement completes.
    pub auto_position_reset: bool,
}

/// A DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dfsp {
    /// Name, as in `FSPIOP-Source`.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Whether it must be active or not; `None` leaves it as it is.
    pub is_active: Option<bool>,
    /// Whether it must stand for other schemes or not; `None` leaves it as it is, and a new one does not.
    pub is_proxy: Option<bool>,
    /// The DFSPs of other schemes behind it; `None` leaves them as they are.
    pub proxied: Option<Vec<String>>,
    /// What its callers' certificates must have; `None` leaves that as it is.
    pub bindings: Option<Vec<Binding>>,
    /// The key by which it signs; `None` leaves its keys as they are.
    pub signature_key: Option<SigningKey>,
    /// Its accounts by currency.
    pub accounts: BTreeMap<Currency, AccountTerms>,
    /// Endpoints by type.
    pub endpoints: BTreeMap<String, String>,
}

/// A public key by which a DFSP signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// As the file has it: PEM or a JSON Web Key.
    pub text: String,
    /// SHA-256 over it, in hexadecimal.
    pub sha256: String,
}

/// What a DFSP's account in a currency must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountTerms {
    /// Net debit cap.
    pub net_debit_cap: Amount,
    /// Threshold of the cap's alarm, in percent; `None` leaves it as it is.
    pub alarm_percentage: Option<Amount>,
    /// Funds to hold at least on the settlement account.
    pub funds: Amount,
}

/// Reads a scheme file. `path` is only shown.
///
/// # Errors
/// Every mistake, one per line, each with file and line, in the order of the file. Where the syntax is broken, that
/// alone is reported.
pub fn parse(path: &str, text: &str) -> Result<Scheme, Vec<String>> {
    if text.len() > FILE_BYTES_MAX {
        return Err(vec![format!("{path}: it is longer than {FILE_BYTES_MAX} bytes")]);
    }
    Reading::new(path, text).read(text)
}
