//! Rules for interchange fees: in the file, at the hub, and the necessary changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;
use upesi_ledger::command::FEE_RULE_PARTIES_MAX;
use upesi_ledger::{FEE_DECIMALS_MAX, FeePayer, FeeTerms, RATE_WHOLE};
use upesi_types::{Amount, Currency, Timestamp};

use super::admin_api::{AdminApi, AdminError, ApiAmount};
use super::file::{DecimalText, Dfsp, Place, Scheme, Section};
use super::plan::{Change, Plan};
use super::reading::Reading;
use super::state::HubState;

/// Default number of decimals of a rounded share.
const DECIMALS_DEFAULT: u8 = 2;

/// A rule in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeRule {
    /// Its terms; DFSPs in order of their names.
    pub terms: FeeTerms<String>,
    /// Its position in the file.
    pub place: Place,
    /// Its start; `None` for the time of its creation.
    pub from: Option<Timestamp>,
    /// Its end; `None` leaves the end unchanged.
    pub until: Option<Timestamp>,
}

/// A rule at the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeRuleState {
    terms: FeeTerms<String>,
    from: Timestamp,
    until: Option<Timestamp>,
}

/// DFSPs as messages name them.
struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("all DFSPs") } else { f.write_str(&self.0.join(", ")) }
    }
}

fn percent(rate: u32) -> Amount {
    Amount::from_units(rate.into()).unwrap_or_default()
}

impl Reading<'_> {
    /// The rules of the file; faults of each are reported.
    pub(super) fn fee_rules(&mut self, file: &mut Section<'_>, currencies: &[Currency]) -> Vec<FeeRule> {
        let mut rules: Vec<FeeRule> = Vec::new();
        for section in file.sections("fee_rule", self) {
            let start = section.start;
            let Some(rule) = self.fee_rule(section, currencies) else { continue };
            let name = &rule.terms.name;
            if rules.iter().any(|other| other.terms.name == *name) {
                self.mistake(start, format!("fee rule {name:?} is listed twice"));
            }
            rules.push(rule);
        }
        rules
    }

    fn fee_rule(&mut self, mut section: Section<'_>, currencies: &[Currency]) -> Option<FeeRule> {
        let start = section.start;
        let name = section.required::<String>("name", self);
        let currency = section.required::<String>("currency", self);
        let (payers, payees) =
            (self.fee_parties("payers", &mut section), self.fee_parties("payees", &mut section));
        let amount_min = self.fee_amount("amount_min", &mut section);
        let amount_max = self.fee_amount("amount_max", &mut section);
        let rate = self.fee_amount("rate_percent", &mut section);
        let fixed = self.fee_amount("fixed", &mut section);
        let decimals = section.optional::<u8>("decimals", self).map(Spanned::into_inner);
        let paid_by = section.required::<String>("paid_by", self);
        let (from, until) = (self.fee_instant("from", &mut section), self.fee_instant("until", &mut section));
        section.end(self);
        let (name, currency, paid_by) = (name?.into_inner(), currency?, paid_by?);
        let known = Currency::parse(currency.get_ref()).filter(|code| currencies.contains(code));
        if known.is_none() {
            let text = format!("{:?} is not among the scheme's currencies", currency.get_ref());
            self.mistake(currency.span().start, text);
        }
        let payer = FeePayer::parse(paid_by.get_ref());
        if payer.is_none() {
            self.mistake(paid_by.span().start, "paid_by must be \"PAYER\" or \"PAYEE\"");
        }
        let terms = FeeTerms {
            name: name.into(),
            currency: known?,
            payers,
            payees,
            amount_min: amount_min.unwrap_or(Amount::ZERO),
            amount_max,
            rate: u32::try_from(rate.unwrap_or(Amount::ZERO).units()).unwrap_or(u32::MAX),
            decimals: decimals.unwrap_or(DECIMALS_DEFAULT),
            fixed: fixed.unwrap_or(Amount::ZERO),
            paid_by: payer?,
        };
        self.check_fee_terms(start, &terms);
        if from.zip(until).is_some_and(|(from, until)| until <= from) {
            self.mistake(start, "until must be later than from");
        }
        Some(FeeRule { terms, place: self.place(start), from, until })
    }

    /// Reports terms that any hub would reject.
    fn check_fee_terms(&mut self, start: usize, terms: &FeeTerms<String>) {
        let name = &terms.name;
        if !(2..=30).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            self.mistake(
                start,
                format!("{name:?} is not a valid name of a fee rule: give 2 to 30 letters and digits"),
            );
        }
        if terms.rate > RATE_WHOLE {
            self.mistake(start, "rate_percent must be 0 to 100");
        }
        if terms.rate == 0 && terms.fixed == Amount::ZERO {
            self.mistake(start, "the rule charges nothing: give rate_percent, fixed, or both");
        }
        if terms.decimals > FEE_DECIMALS_MAX {
            self.mistake(start, format!("decimals must be 0 to {FEE_DECIMALS_MAX}"));
        }
        if terms.amount_max.is_some_and(|most| most < terms.amount_min) {
            self.mistake(start, "amount_max must not be below amount_min");
        }
        if terms.payers.len().max(terms.payees.len()) > FEE_RULE_PARTIES_MAX {
            self.mistake(start, format!("a rule names at most {FEE_RULE_PARTIES_MAX} DFSPs on a side"));
        }
    }

    fn fee_parties(&mut self, key: &'static str, section: &mut Section<'_>) -> Vec<String> {
        let names = section.optional::<Vec<String>>(key, self).map(Spanned::into_inner);
        let mut names = names.unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn fee_amount(&mut self, key: &'static str, section: &mut Section<'_>) -> Option<Amount> {
        let text = section.optional::<DecimalText>(key, self)?;
        self.amount(key, text)
    }

    fn fee_instant(&mut self, key: &'static str, section: &mut Section<'_>) -> Option<Timestamp> {
        let text = section.optional::<String>(key, self)?;
        let instant = Timestamp::parse_iso(text.get_ref());
        if instant.is_none() {
            let rule = "give a time in UTC, such as \"2031-04-01T12:00:00.000Z\"";
            self.mistake(text.span().start, format!("{key} {:?}: {rule}", text.get_ref()));
        }
        instant
    }
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

impl Plan {
    /// Plans to add missing rules, and to set ends. Other rules at the hub remain.
    pub(super) fn fee_rules(&mut self, scheme: &Scheme, state: &HubState) {
        for rule in &scheme.fee_rules {
            let (name, place) = (&rule.terms.name, &rule.place);
            let Some(present) = &state.fee_rules else {
                self.conflicts.push(format!("{place}: this hub does not support fee rules such as {name}"));
                continue;
            };
            let known = |dfsp: &String| {
                state.participants.contains_key(dfsp)
                    || scheme.dfsps.iter().any(|Dfsp { name, .. }| name == dfsp)
            };
            let parties = rule.terms.payers.iter().chain(&rule.terms.payees);
            if let Some(unknown) = parties.clone().find(|dfsp| !known(dfsp)) {
                let text = format!(
                    "{place}: fee rule {name}: {unknown:?} is not a DFSP, neither here nor at the hub"
                );
                self.conflicts.push(text);
                continue;
            }
            let owing_nothing = owing_nothing(rule, scheme, state);
            if !owing_nothing.is_empty() {
                let currency = rule.terms.currency;
                self.notes.push(format!(
                    "fee rule {name} charges nothing for what is paid in {currency} by conversions of {}, without accounts \
                     in {currency}",
                    owing_nothing.join(", ")
                ));
            }
            match present.iter().find(|present| present.terms.name == *name) {
                None => self.changes.push(Change::FeeRule(rule.clone())),
                Some(present) => self.fee_rule(rule, present),
            }
        }
    }

    fn fee_rule(&mut self, rule: &FeeRule, present: &FeeRuleState) {
        let (name, place) = (&rule.terms.name, &rule.place);
        let differences = differences(rule, present);
        if !differences.is_empty() {
            let differences = differences.join(", ");
            self.conflicts.push(format!(
                "{place}: fee rule {name} exists and {differences}; a rule cannot be changed: end it, and give the new rule \
                 another name"
            ));
            return;
        }
        if let (None, Some(until)) = (rule.until, present.until) {
            self.notes
                .push(format!("fee rule {name} ends at {until} at the hub, but has no end in the file"));
        }
        let ends_so = rule.until.is_none() || rule.until == present.until;
        match rule.until {
            Some(to) if !ends_so => {
                self.changes.push(Change::FeeRuleEnd { name: name.to_string(), from: present.until, to });
            }
            _ => self.unchanged += 1,
        }
    }
}

/// The payers of a rule that have accounts, but none in its currency, although a participant could exchange it for
/// them. No fee is charged for their payments in it.
fn owing_nothing(rule: &FeeRule, scheme: &Scheme, state: &HubState) -> Vec<String> {
    let mut currencies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, present) in state.participants.iter().filter(|(name, _)| **name != scheme.hub) {
        let own = present.accounts.iter().map(|(currency, _)| currency.as_str());
        currencies.entry(name).or_default().extend(own);
    }
    for dfsp in &scheme.dfsps {
        currencies.entry(&dfsp.name).or_default().extend(dfsp.accounts.keys().map(Currency::as_str));
    }
    let wanted = rule.terms.currency.as_str();
    let converts = |from: &str| currencies.values().any(|own| own.contains(wanted) && own.contains(from));
    let is_payer =
        |name: &str| rule.terms.payers.is_empty() || rule.terms.payers.iter().any(|payer| payer == name);
    let owes_nothing = |(name, own): &(&&str, &BTreeSet<&str>)| {
        is_payer(name) && !own.contains(wanted) && own.iter().any(|from| converts(from))
    };
    currencies.iter().filter(owes_nothing).map(|(name, _)| (*name).to_owned()).collect()
}

fn differences(rule: &FeeRule, present: &FeeRuleState) -> Vec<String> {
    let (wanted, found) = (&rule.terms, &present.terms);
    let most = |most: Option<Amount>| most.map_or_else(|| "none".to_owned(), |most| most.to_string());
    let text = |value: &dyn fmt::Display| value.to_string();
    [
        ("currency", text(&wanted.currency), text(&found.currency)),
        ("payers", text(&Names(&wanted.payers)), text(&Names(&found.payers))),
        ("payees", text(&Names(&wanted.payees)), text(&Names(&found.payees))),
        ("amount_min", text(&wanted.amount_min), text(&found.amount_min)),
        ("amount_max", most(wanted.amount_max), most(found.amount_max)),
        ("rate_percent", text(&percent(wanted.rate)), text(&percent(found.rate))),
        ("decimals", text(&wanted.decimals), text(&found.decimals)),
        ("fixed", text(&wanted.fixed), text(&found.fixed)),
        ("paid_by", wanted.paid_by.as_str().to_owned(), found.paid_by.as_str().to_owned()),
        ("from", text(&rule.from.unwrap_or(present.from)), text(&present.from)),
    ]
    .into_iter()
    .filter(|(_, wanted, found)| wanted != found)
    .map(|(key, wanted, found)| format!("{key} is {found}, not {wanted}"))
    .collect()
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

    /// Its terms in a line.
    pub(super) fn line(&self) -> String {
        let FeeTerms { name, currency, rate, fixed, paid_by, .. } = &self.terms;
        let (rate, paid_by) = (percent(*rate), paid_by.as_str());
        format!("+ fee rule {name} {currency} {rate} % and {fixed}, paid by {paid_by}")
    }
}
