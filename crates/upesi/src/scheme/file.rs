//! The scheme file: read, validated, and expanded into what each DFSP must have.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;
use upesi_http::Target;
use upesi_ledger::{Delay, EndpointType, Granularity, Interchange, SettlementModel};
use upesi_types::{Amount, Currency};

use super::templates;
use crate::config::nearest;

/// A scheme file larger than this is refused, in bytes.
const FILE_BYTES_MAX: usize = 16 << 20;
const NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=30;

/// What a hub must look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name of the scheme; part of the ids of deposits.
    pub name: String,
    /// Name of the hub as a participant.
    pub hub: String,
    /// Currencies, in the order of the file.
    pub currencies: Vec<Currency>,
    /// Settlement models.
    pub models: Vec<Model>,
    /// Endpoints of the hub itself, mostly e-mail addresses.
    pub hub_endpoints: BTreeMap<String, String>,
    /// DFSPs, in the order of the file.
    pub dfsps: Vec<Dfsp>,
}

/// A settlement model; texts are those of the admin API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name, alphanumeric.
    pub name: String,
    /// Its currency; without one it is the default for currencies that have no model.
    pub currency: Option<String>,
    /// GROSS or NET.
    #[serde(default = "net")]
    pub granularity: String,
    /// BILATERAL or MULTILATERAL.
    #[serde(default = "multilateral")]
    pub interchange: String,
    /// IMMEDIATE or DEFERRED.
    #[serde(default = "deferred")]
    pub delay: String,
    /// Whether liquidity is checked.
    #[serde(default = "yes")]
    pub require_liquidity_check: bool,
    /// The accounts whose obligations it settles.
    #[serde(default = "position")]
    pub ledger_account_type: String,
    /// The accounts that give cover.
    #[serde(default = "settlement")]
    pub settlement_account_type: String,
    /// Whether positions are reset when a settlement completes.
    #[serde(default = "yes")]
    pub auto_position_reset: bool,
}

/// A DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dfsp {
    /// Name, as in `FSPIOP-Source`.
    pub name: String,
    /// Whether it must be active or not; `None` leaves it as it is.
    pub is_active: Option<bool>,
    /// Whether it must stand for other schemes or not; `None` leaves it as it is, and a new one does not.
    pub is_proxy: Option<bool>,
    /// Its accounts by currency.
    pub accounts: BTreeMap<Currency, AccountTerms>,
    /// Endpoints by type.
    pub endpoints: BTreeMap<String, String>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemeFile {
    name: Spanned<String>,
    #[serde(default = "hub")]
    hub: Spanned<String>,
    currencies: Vec<Spanned<String>>,
    #[serde(default)]
    model: Vec<Spanned<Model>>,
    #[serde(default)]
    hub_endpoints: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    dfsp: Vec<DfspFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    base_url: Option<Spanned<String>>,
    #[serde(default)]
    accounts: BTreeMap<String, Spanned<AccountFile>>,
    #[serde(default)]
    endpoints: BTreeMap<String, Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DfspFile {
    name: Spanned<String>,
    is_active: Option<bool>,
    is_proxy: Option<bool>,
    base_url: Option<Spanned<String>>,
    accounts: Option<BTreeMap<String, Spanned<AccountFile>>>,
    #[serde(default)]
    endpoints: BTreeMap<String, Spanned<String>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountFile {
    net_debit_cap: DecimalText,
    alarm_percentage: Option<DecimalText>,
    #[serde(default)]
    funds: DecimalText,
}

/// An amount as a string, or as an integer. Fractions must be strings: a TOML float would be rounded.
#[derive(Clone)]
struct DecimalText(String);

impl Default for DecimalText {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

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

fn hub() -> Spanned<String> {
    Spanned::new(0..0, "Hub".to_owned())
}
fn net() -> String {
    Granularity::Net.as_str().to_owned()
}
fn multilateral() -> String {
    Interchange::Multilateral.as_str().to_owned()
}
fn deferred() -> String {
    Delay::Deferred.as_str().to_owned()
}
fn position() -> String {
    "POSITION".to_owned()
}
fn settlement() -> String {
    "SETTLEMENT".to_owned()
}
fn yes() -> bool {
    true
}

/// Reads a scheme file. `path` is only shown.
///
/// # Errors
/// Every mistake, one per line, each with file and line. Broken syntax and unknown keys are reported one at a time.
pub fn parse(path: &str, text: &str) -> Result<Scheme, Vec<String>> {
    if text.len() > FILE_BYTES_MAX {
        return Err(vec![format!("{path}: it is longer than {FILE_BYTES_MAX} bytes")]);
    }
    let line = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let file: SchemeFile = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        vec![format!("{path}:{}: {}", line(offset), error.message().trim_end())]
    })?;
    let mut reading = Reading { path, line: &line, mistakes: Vec::new() };
    let scheme = reading.scheme(file);
    if reading.mistakes.is_empty() { Ok(scheme) } else { Err(reading.mistakes) }
}

/// What hubs can keep: hundredths of a percent, up to all of it. Amounts count ten-thousandths.
fn is_percentage(amount: Amount) -> bool {
    (0..=100 * 10_000).contains(&amount.units()) && amount.units() % 100 == 0
}

struct Reading<'a> {
    path: &'a str,
    line: &'a dyn Fn(usize) -> usize,
    mistakes: Vec<String>,
}

impl Reading<'_> {
    fn mistake<T>(&mut self, at: &Spanned<T>, text: impl fmt::Display) {
        self.mistakes.push(format!("{}:{}: {text}", self.path, (self.line)(at.span().start)));
    }

    fn scheme(&mut self, file: SchemeFile) -> Scheme {
        let mut currencies = Vec::new();
        for code in &file.currencies {
            match Currency::parse(code.get_ref()) {
                None => self.mistake(code, format!("{:?} is not a currency code", code.get_ref())),
                Some(currency) if currencies.contains(&currency) => {
                    self.mistake(code, format!("{currency} stands twice"))
                }
                Some(currency) => currencies.push(currency),
            }
        }
        for name in [&file.name, &file.hub] {
            self.check_name(name);
        }
        let mut models: Vec<Model> = Vec::new();
        for model in file.model {
            self.check_model(&model, &models, &currencies);
            models.push(model.into_inner());
        }
        let mut dfsps: Vec<Dfsp> = Vec::new();
        for dfsp in &file.dfsp {
            self.check_name(&dfsp.name);
            let name = dfsp.name.get_ref();
            if dfsps.iter().any(|other| other.name.eq_ignore_ascii_case(name)) || name == file.hub.get_ref() {
                self.mistake(&dfsp.name, format!("{name:?} stands twice; names differ by more than case"));
            }
            dfsps.push(self.dfsp(dfsp, &file.defaults, &currencies));
        }
        Scheme {
            hub_endpoints: self.endpoints(&file.hub_endpoints, ""),
            name: file.name.into_inner(),
            hub: file.hub.into_inner(),
            currencies,
            models,
            dfsps,
        }
    }

    fn check_name(&mut self, name: &Spanned<String>) {
        let text = name.get_ref();
        let printable = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'/');
        if !NAME_CHARS.contains(&text.len()) || !printable {
            self.mistake(
                name,
                format!("{text:?} is not a name: give 2 to 30 printable characters without spaces"),
            );
        }
    }

    fn check_model(&mut self, at: &Spanned<Model>, others: &[Model], currencies: &[Currency]) {
        let model = at.get_ref();
        if !NAME_CHARS.contains(&model.name.len())
            || !model.name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            self.mistake(
                at,
                format!("{:?} is not a name of a model: give 2 to 30 letters and digits", model.name),
            );
        }
        if others.iter().any(|other| other.name == model.name) {
            self.mistake(at, format!("model {:?} stands twice", model.name));
        }
        if let Some(code) = &model.currency
            && !currencies.iter().any(|currency| currency.as_str() == code)
        {
            self.mistake(at, format!("model {}: {code:?} is not among the scheme's currencies", model.name));
        }
        let parsed = (
            Granularity::parse(&model.granularity),
            Interchange::parse(&model.interchange),
            Delay::parse(&model.delay),
        );
        let allowed = match parsed {
            (Some(granularity), Some(interchange), Some(delay)) => {
                SettlementModel::is_combination_allowed(granularity, interchange, delay)
            }
            _ => false,
        };
        if !allowed {
            let (name, delay) = (&model.name, &model.delay);
            let combination = format!("{} {} {delay}", model.granularity, model.interchange);
            self.mistake(at, format!(
                "model {name}: {combination} is not a kind of settlement; there are GROSS BILATERAL IMMEDIATE, \
                 GROSS BILATERAL DEFERRED, NET BILATERAL DEFERRED and NET MULTILATERAL DEFERRED"
            ));
        }
    }

    fn dfsp(&mut self, file: &DfspFile, defaults: &Defaults, currencies: &[Currency]) -> Dfsp {
        let name = file.name.get_ref();
        let mut endpoints = BTreeMap::new();
        if let Some(base) = file.base_url.as_ref().or(defaults.base_url.as_ref()) {
            let url = base.get_ref().replace("{name}", name);
            match Target::parse(&url) {
                Ok(_) => endpoints.extend(templates::expand(&url)),
                Err(error) => self.mistake(base, error),
            }
        }
        endpoints.extend(self.endpoints(&defaults.endpoints, name));
        endpoints.extend(self.endpoints(&file.endpoints, name));
        let accounts = file.accounts.as_ref().unwrap_or(&defaults.accounts);
        if accounts.is_empty() {
            self.mistake(
                &file.name,
                format!("{name:?} has no account: write [dfsp.accounts.CODE] or [defaults.accounts.CODE]"),
            );
        }
        Dfsp {
            name: name.clone(),
            is_active: file.is_active,
            is_proxy: file.is_proxy,
            accounts: accounts
                .iter()
                .filter_map(|(code, terms)| self.account(code, terms, currencies))
                .collect(),
            endpoints,
        }
    }

    fn account(
        &mut self,
        code: &str,
        terms: &Spanned<AccountFile>,
        currencies: &[Currency],
    ) -> Option<(Currency, AccountTerms)> {
        let currency = currencies.iter().copied().find(|currency| currency.as_str() == code);
        if currency.is_none() {
            self.mistake(terms, format!("{code:?} is not among the scheme's currencies"));
        }
        let AccountFile { net_debit_cap, alarm_percentage, funds } = terms.get_ref();
        let mut read = |key: &str, text: &DecimalText| match Amount::parse_decimal(&text.0) {
            Ok(amount) if !amount.is_negative() => Some(amount),
            Ok(_) => {
                self.mistake(terms, format!("{key} {} must not be negative", text.0));
                None
            }
            Err(error) => {
                self.mistake(terms, format!("{key} {:?} {error}", text.0));
                None
            }
        };
        let (net_debit_cap, funds) = (read("net_debit_cap", net_debit_cap), read("funds", funds));
        let alarm_percentage = match alarm_percentage {
            None => None,
            Some(text) => Some(read("alarm_percentage", text)?),
        };
        if alarm_percentage.is_some_and(|percentage| !is_percentage(percentage)) {
            self.mistake(terms, "alarm_percentage must be 0 to 100 with at most two decimal places");
        }
        Some((currency?, AccountTerms { net_debit_cap: net_debit_cap?, alarm_percentage, funds: funds? }))
    }

    fn endpoints(
        &mut self,
        given: &BTreeMap<String, Spanned<String>>,
        name: &str,
    ) -> BTreeMap<String, String> {
        let mut endpoints = BTreeMap::new();
        for (kind, value) in given {
            let text = value.get_ref().replace("{name}", name);
            match EndpointType::parse(kind) {
                None => {
                    let meant = nearest(kind, EndpointType::all().map(EndpointType::name));
                    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
                    self.mistake(value, format!("{kind:?} is not an endpoint type{hint}"));
                }
                Some(known) if known.is_url() => {
                    if let Err(error) = Target::parse(&templates::without_placeholders(&text)) {
                        self.mistake(value, error);
                    }
                }
                Some(_) => {}
            }
            endpoints.insert(kind.clone(), text);
        }
        endpoints
    }
}
