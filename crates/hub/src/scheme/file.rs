//! The contents of a scheme file, expanded into the requirements of each DFSP.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use upesi_ledger::Binding;
use upesi_types::{Amount, Currency};

use super::fees::FeeRule;
use super::reading::Reading;
use crate::config::nearest;

/// Maximum size of a scheme file, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;

/// The required state of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name of the scheme; part of the ids of deposits.
    pub name: String,
    /// Name of the hub as a participant.
    pub hub: String,
    /// Position of the hub's name.
    pub hub_place: Place,
    /// Currencies, in the order of the file, with the position of each.
    pub currencies: Vec<(Currency, Place)>,
    /// Settlement models.
    pub models: Vec<Model>,
    /// Endpoints of the hub itself, usually e-mail addresses.
    pub hub_endpoints: BTreeMap<String, String>,
    /// DFSPs, in the order of the file.
    pub dfsps: Vec<Dfsp>,
    /// Rules for interchange fees.
    pub fee_rules: Vec<FeeRule>,
}

/// Position in a file: `FILE:LINE`.
pub type Place = String;

/// A settlement model, with the texts of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Name, alphanumeric.
    pub name: String,
    /// Its position in the file.
    pub place: Place,
    /// Its currency; without one it is the default for currencies without a model.
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
    pub place: Place,
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
    /// Its accounts by currency.
    pub accounts: BTreeMap<Currency, AccountTerms>,
    /// Endpoints by type.
    pub endpoints: BTreeMap<String, String>,
}

/// A public key by which a DFSP signs.
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
    /// Net debit cap.
    pub net_debit_cap: Amount,
    /// Threshold of the cap's alarm, in percent; `None` leaves it unchanged.
    pub alarm_percentage: Option<Amount>,
    /// Funds that are deposited once into the settlement account.
    pub funds: Amount,
}

/// Parses a scheme file that names no other files. `path` is only shown in messages.
///
/// # Errors
/// Every mistake, one per line, each with file and line, in the order of the file. If the syntax is wrong, only that is
/// reported.
pub fn parse(path: &str, text: &str) -> Result<Scheme, Vec<String>> {
    check_length(path, text)?;
    Reading::new(path, text, None).read(text)
}

/// Parses a scheme file; the files that it names are in this directory or below.
///
/// # Errors
/// See [`parse`].
pub fn parse_in(directory: &Path, path: &str, text: &str) -> Result<Scheme, Vec<String>> {
    check_length(path, text)?;
    Reading::new(path, text, Some(directory)).read(text)
}

fn check_length(path: &str, text: &str) -> Result<(), Vec<String>> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(vec![format!("{path}: the file is longer than {FILE_BYTES_MAX} bytes")]);
    }
    Ok(())
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

// The tables of a scheme file, read key by key, so that one mistake does not hide another.

/// A table whose keys are taken one by one; the keys that remain at the end are unknown.
pub(super) struct Section<'t> {
    table: DeTable<'t>,
    /// Its beginning.
    pub(super) start: usize,
    /// The requested keys.
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    pub(super) fn new(table: DeTable<'t>, start: usize) -> Self {
        Self { table, start, known: Vec::new() }
    }

    /// Takes the value of a key.
    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// The value of a key; `None` if it is absent or of another type.
    pub(super) fn optional<T: for<'de> Deserialize<'de>>(
        &mut self,
        key: &'static str,
        reading: &mut Reading<'_>,
    ) -> Option<Spanned<T>> {
        let value = self.take(key)?;
        let span = value.span();
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => Some(Spanned::new(span, value)),
            Err(error) => {
                reading.mistake(span.start, format!("{key}: {}", error.message().trim_end()));
                None
            }
        }
    }

    /// The value of a required key; `None` after a mistake.
    pub(super) fn required<T: for<'de> Deserialize<'de>>(
        &mut self,
        key: &'static str,
        reading: &mut Reading<'_>,
    ) -> Option<Spanned<T>> {
        if !self.table.contains_key(key) {
            self.known.push(key);
            reading.mistake(self.start, format!("{key:?} is missing"));
            return None;
        }
        self.optional(key, reading)
    }

    /// A table below this one.
    pub(super) fn section(&mut self, key: &'static str, reading: &mut Reading<'_>) -> Option<Self> {
        let value = self.take(key)?;
        Self::of(value, key, reading)
    }

    /// A list of tables: `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str, reading: &mut Reading<'_>) -> Vec<Self> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Array(items) => {
                items.into_iter().filter_map(|item| Self::of(item, key, reading)).collect()
            }
            _ => {
                reading.mistake(start, format!("{key:?} is a list of tables: write [[{key}]]"));
                Vec::new()
            }
        }
    }

    /// The entries of a table whose keys are names and whose values are texts.
    pub(super) fn texts(
        &mut self,
        key: &'static str,
        reading: &mut Reading<'_>,
    ) -> Vec<(String, Spanned<String>)> {
        let Some(section) = self.section(key, reading) else { return Vec::new() };
        let mut texts = Vec::new();
        for (name, value) in section.table {
            let span = value.span();
            match value.into_inner() {
                DeValue::String(text) => {
                    texts.push((name.into_inner().into_owned(), Spanned::new(span, text.into_owned())));
                }
                _ => reading.mistake(span.start, format!("{}: must be a string", name.get_ref())),
            }
        }
        texts
    }

    /// The entries of a table whose keys are names and whose values are tables. `None` if there is no such table.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        reading: &mut Reading<'_>,
    ) -> Option<Vec<(String, Self)>> {
        let section = self.section(key, reading)?;
        let mut tables = Vec::new();
        for (name, value) in section.table {
            let name = name.into_inner().into_owned();
            if let Some(table) = Self::of(value, &name, reading) {
                tables.push((name, table));
            }
        }
        Some(tables)
    }

    fn of(value: Spanned<DeValue<'t>>, key: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Table(table) => Some(Self::new(table, start)),
            _ => {
                reading.mistake(start, format!("{key:?} must be a table"));
                None
            }
        }
    }

    /// Reports unknown keys.
    pub(super) fn end(self, reading: &mut Reading<'_>) {
        for (key, _) in &self.table {
            let name = key.get_ref().as_ref();
            let hint = match nearest(name, self.known.iter().copied()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("the keys are {}", self.known.join(", ")),
            };
            reading.mistake(key.span().start, format!("{name:?} is not a key here; {hint}"));
        }
    }
}

/// An amount as a string, or as an integer. Fractions must be strings, because a TOML float would be rounded.
pub(super) struct DecimalText(pub(super) String);

impl<'de> Deserialize<'de> for DecimalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DecimalVisitor;
        impl Visitor<'_> for DecimalVisitor {
            type Value = DecimalText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount: a whole number, or a string such as \"12.50\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<DecimalText, E> {
                Ok(DecimalText(number.to_string()))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DecimalText, E> {
                Ok(DecimalText(text.to_owned()))
            }
        }
        deserializer.deserialize_any(DecimalVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_ledger::EndpointType;

    #[test]
    fn every_template_is_of_a_known_type_and_a_url() {
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
