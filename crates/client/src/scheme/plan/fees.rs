//! The changes of rules for interchange fees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use upesi_types::{Amount, Currency};

use super::{Change, Plan};
use crate::scheme::fee_rule::{FeeRule, percent};
use crate::scheme::file::{Dfsp, Scheme};
use crate::scheme::state::{FeeRuleState, HubState};

/// Prints the DFSPs of a rule in messages.
struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("all DFSPs") } else { f.write_str(&self.0.join(", ")) }
    }
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
                    "fee rule {name} charges nothing for payments in {currency} by FX transfers of {}, without accounts \
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
