//! The necessary changes to bring a hub to the state of the scheme file.

mod fees;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use upesi_types::text::escape;
use upesi_types::{Amount, Currency, FspId, Timestamp};

use super::fee_rule::FeeRule;
use super::file::{AccountTerms, Dfsp, Model, Scheme, SigningKey};
use super::state::{HubState, Limit, ModelState, ParticipantState};

const POSITION: &str = "POSITION";
const SETTLEMENT: &str = "SETTLEMENT";
/// Types of the hub's accounts in each currency.
const HUB_ACCOUNTS: [&str; 2] = ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"];

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Create an account of the hub.
    HubAccount { hub: String, currency: Currency, kind: &'static str },
    /// Create a settlement model.
    Model(Model),
    /// Activate a settlement model again.
    ModelActivated(String),
    /// Create a DFSP, or add a currency to it.
    Participant { name: String, currency: Currency, is_proxy: bool },
    /// Activate or deactivate a DFSP.
    Activity {
        name: String,
        /// The new flag.
        is_active: bool,
    },
    /// Set a net debit cap.
    Limit {
        name: String,
        currency: Currency,
        /// The current cap.
        from: Option<Limit>,
        /// The new cap.
        to: Limit,
    },
    /// Book the scheme's only deposit into a settlement account.
    Funds { name: String, currency: Currency, amount: Amount },
    /// Bind a certificate or key to a participant.
    Bind {
        name: String,
        /// `KIND:VALUE`.
        binding: String,
    },
    /// Remove a binding of a participant.
    Unbind {
        name: String,
        /// `KIND:VALUE`.
        binding: String,
    },
    /// Add a signing key of a DFSP.
    SignatureKey { name: String, key: SigningKey },
    /// Put a DFSP of another scheme behind a proxy.
    Proxied { proxy: String, name: String },
    /// Remove a DFSP of another scheme from behind a proxy.
    Unproxied { proxy: String, name: String },
    /// Add a rule for an interchange fee.
    FeeRule(FeeRule),
    /// Set the end of a rule.
    FeeRuleEnd {
        name: String,
        /// The current end.
        from: Option<Timestamp>,
        to: Timestamp,
    },
    /// Set an endpoint.
    Endpoint {
        name: String,
        kind: String,
        /// The current value.
        from: Option<String>,
        /// The new value.
        to: String,
    },
}

/// Changes, ordered so that each step is possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub changes: Vec<Change>,
    /// Number of parts that are already as required.
    pub unchanged: usize,
    /// Parts that cannot be brought to the required state.
    pub conflicts: Vec<String>,
    /// Parts that this hub does not report, so that they were not compared.
    pub notes: Vec<String>,
}

/// Compares a scheme with a hub.
pub fn plan(scheme: &Scheme, state: &HubState) -> Plan {
    let mut plan = Plan::default();
    let nobody = ParticipantState::default();
    let hub = state.participants.get(&scheme.hub).unwrap_or(&nobody);
    plan.preconditions(scheme, state);
    for (currency, _) in &scheme.currencies {
        for kind in HUB_ACCOUNTS {
            let exists = hub.accounts.iter().any(|(known, of)| known == currency.as_str() && of == kind);
            plan.need(!exists, || Change::HubAccount { hub: scheme.hub.clone(), currency: *currency, kind });
        }
    }
    // A currency with a model of its own, but none for positions yet, could have no payments.
    let (of_positions, others): (Vec<_>, Vec<_>) =
        scheme.models.iter().partition(|model| model.ledger_account_type == POSITION);
    for model in of_positions.into_iter().chain(others) {
        plan.model(model, state.models.get(&model.name));
    }
    plan.move_bindings(scheme, state);
    plan.move_proxied(scheme, state);
    for dfsp in &scheme.dfsps {
        plan.dfsp(dfsp, state.participants.get(&dfsp.name).unwrap_or(&nobody), state);
    }
    plan.endpoints(&scheme.hub, scheme.hub_endpoints.iter(), hub);
    plan.fee_rules(scheme, state);
    plan
}

impl Scheme {
    /// Whether a DFSP will get its first account in a currency.
    fn needs_model(&self, currency: Currency, state: &HubState) -> bool {
        let has_account = |dfsp: &Dfsp| {
            let present = state.participants.get(&dfsp.name);
            present.is_some_and(|present| present.has_currency(currency.as_str()))
        };
        self.dfsps.iter().any(|dfsp| dfsp.accounts.contains_key(&currency) && !has_account(dfsp))
    }
}

/// Whether a currency has a model of its own or a default one, in the file or active at the hub.
fn is_governed(currency: Currency, scheme: &Scheme, state: &HubState) -> bool {
    let governs = |of: Option<&String>| of.is_none_or(|code| code == currency.as_str());
    scheme.models.iter().any(|model| governs(model.currency.as_ref()))
        || state.models.values().any(|model| model.is_active.0 && governs(model.currency.as_ref()))
}

/// Whether a model removes a currency from the default one while none of its own governs positions.
fn stops_positions(model: &Model, scheme: &Scheme, state: &HubState) -> bool {
    let of_positions = |currency: Option<&String>| {
        let in_file = scheme
            .models
            .iter()
            .any(|other| other.ledger_account_type == POSITION && other.currency.as_ref() == currency);
        let at_hub = state.models.values().any(|other| {
            other.is_active.0
                && other.ledger_account_type_id == POSITION
                && other.currency.as_ref() == currency
        });
        in_file || at_hub
    };
    let is_in_force = state.models.get(&model.name).is_some_and(|present| present.is_active.0);
    let own = model.currency.as_ref();
    !is_in_force
        && own.is_some()
        && model.ledger_account_type != POSITION
        && !of_positions(own)
        && of_positions(None)
}

impl Plan {
    /// Reports what this hub would reject half-way, before the first change.
    fn preconditions(&mut self, scheme: &Scheme, state: &HubState) {
        if !state.participants.contains_key(&scheme.hub) {
            self.conflicts.push(format!(
                "{}: this hub has no participant {:?}; `hub` must be the name of the hub's own participant",
                scheme.hub_place, scheme.hub
            ));
        }
        for (currency, place) in &scheme.currencies {
            if scheme.needs_model(*currency, state) && !is_governed(*currency, scheme, state) {
                self.conflicts.push(format!(
                    "{place}: {currency} has no settlement model, neither here nor at the hub: write a [[model]] with currency = \
                     \"{currency}\", or one without a currency for all currencies that have none"
                ));
            }
        }
        for model in scheme.models.iter().filter(|model| !state.models.contains_key(&model.name)) {
            let governs_same = |other: &ModelState| {
                other.is_active.0
                    && other.currency == model.currency
                    && other.ledger_account_type_id == model.ledger_account_type
            };
            if let Some((other, _)) = state.models.iter().find(|(_, other)| governs_same(other)) {
                self.conflicts.push(format!(
                    "{}: model {} cannot be created: at the hub, model {other} governs the same \
                     accounts; name that one here, or deactivate it first",
                    model.place, model.name
                ));
            }
        }
        for model in scheme.models.iter().filter(|model| !state.models.contains_key(&model.name)) {
            let (place, name, cover) = (&model.place, &model.name, &model.settlement_account_type);
            if model.ledger_account_type == POSITION && cover != SETTLEMENT {
                self.conflicts.push(format!(
                    "{place}: model {name}: POSITION accounts are covered by SETTLEMENT accounts, and not by {cover}"
                ));
            }
        }
        for model in scheme.models.iter().filter(|model| stops_positions(model, scheme, state)) {
            let (place, name, currency) = (&model.place, &model.name, text(model.currency.as_ref()));
            self.conflicts.push(format!(
                "{place}: model {name} would leave {currency} without payments: a currency with its own model is not governed by the \
                 default one; write a [[model]] of POSITION with currency = \"{currency}\", too"
            ));
        }
        for dfsp in scheme.dfsps.iter().filter(|dfsp| !state.participants.contains_key(&dfsp.name)) {
            let names = &mut state.participants.keys();
            if let Some(other) = names.find(|other| other.eq_ignore_ascii_case(&dfsp.name)) {
                self.conflicts.push(format!(
                    "{}: {:?} differs only in case from {other:?} at the hub; write it in the same way",
                    dfsp.place, dfsp.name
                ));
            }
        }
    }

    pub(super) fn need(&mut self, is_needed: bool, change: impl FnOnce() -> Change) {
        if is_needed {
            self.changes.push(change());
        } else {
            self.unchanged += 1;
        }
    }

    fn model(&mut self, model: &Model, present: Option<&ModelState>) {
        let Some(present) = present else { return self.changes.push(Change::Model(model.clone())) };
        let covering = present.settlement_account_type_id.clone();
        if covering.is_none() {
            self.notes.push(format!(
                "model {}: this hub does not return the settlement_account_type, so it was not compared",
                model.name
            ));
        }
        let differences: Vec<String> = [
            ("granularity", model.granularity.clone(), present.settlement_granularity.clone()),
            ("interchange", model.interchange.clone(), present.settlement_interchange.clone()),
            ("delay", model.delay.clone(), present.settlement_delay.clone()),
            ("currency", text(model.currency.as_ref()), text(present.currency.as_ref())),
            (
                "ledger_account_type",
                model.ledger_account_type.clone(),
                present.ledger_account_type_id.clone(),
            ),
            (
                "settlement_account_type",
                model.settlement_account_type.clone(),
                covering.unwrap_or_else(|| model.settlement_account_type.clone()),
            ),
            (
                "require_liquidity_check",
                model.require_liquidity_check.to_string(),
                present.require_liquidity_check.0.to_string(),
            ),
            (
                "auto_position_reset",
                model.auto_position_reset.to_string(),
                present.auto_position_reset.0.to_string(),
            ),
        ]
        .into_iter()
        .filter(|(_, wanted, found)| wanted != found)
        .map(|(key, wanted, found)| format!("{key} is {found}, not {wanted}"))
        .collect();
        if differences.is_empty() {
            self.need(!present.is_active.0, || Change::ModelActivated(model.name.clone()));
        } else {
            self.conflicts.push(format!(
                "{}: model {} exists and {}; a model cannot be changed: deactivate it and give the new model \
                 another name",
                model.place,
                model.name,
                differences.join(", ")
            ));
        }
    }

    fn dfsp(&mut self, dfsp: &Dfsp, present: &ParticipantState, state: &HubState) {
        let Dfsp { name, place, .. } = dfsp;
        let exists = state.participants.contains_key(name);
        // New participants are active.
        let was_active = !exists || present.is_active;
        let wants_active = dfsp.is_active.unwrap_or(was_active);
        let activity = || Change::Activity { name: name.clone(), is_active: wants_active };
        if exists {
            self.proxy(dfsp, present);
        } else {
            self.new_name(name, place);
        }
        // An inactive DFSP accepts no deposits: it is activated before all other changes, and deactivated after them.
        if wants_active && dfsp.is_active.is_some() {
            self.need(!was_active, activity);
        }
        for (currency, terms) in &dfsp.accounts {
            self.account(dfsp, *currency, terms, present);
            self.funds(dfsp, (*currency, terms.funds), present, was_active || wants_active);
        }
        self.bindings(dfsp, exists, present);
        self.signature_key(dfsp, exists, present);
        self.proxied(dfsp, exists, present);
        self.endpoints(name, dfsp.endpoints.iter(), present);
        if !wants_active && dfsp.is_active.is_some() {
            self.need(was_active, activity);
        }
    }

    /// Applies the admin API's rule for new names.
    fn new_name(&mut self, name: &str, place: &str) {
        if FspId::parse_new(name).is_none() {
            let rule = FspId::NEW_NAME_RULE;
            self.conflicts.push(format!("{place}: participant {name:?} cannot be created: its name {rule}"));
        }
    }

    /// Funds are deposited once, into an account without cover. Later changes of the cover are the DFSP's business: a
    /// further deposit without a payment at the bank would be money that does not exist.
    fn funds(
        &mut self,
        dfsp: &Dfsp,
        (currency, funds): (Currency, Amount),
        present: &ParticipantState,
        is_active: bool,
    ) {
        let Dfsp { name, place, .. } = dfsp;
        let (cover, booked) = (cover(present, currency), present.deposits.get(currency.as_str()));
        let is_due = funds > Amount::ZERO && booked.is_none() && cover == Amount::ZERO;
        if is_due && !is_active {
            self.conflicts.push(format!(
                "{place}: participant {name} is inactive and cannot receive deposits: its funds of {funds} {currency} cannot \
                 be deposited; give it is_active = true, or funds = 0"
            ));
            return;
        }
        match booked {
            Some(booked) if *booked != funds => self.notes.push(format!(
                "funds {name} {currency}: {booked} were already deposited for this scheme; record further deposits as the \
                 bank books them"
            )),
            None if !is_due && cover < funds => self.notes.push(format!(
                "funds {name} {currency}: the account already has a cover of {cover}, so {funds} are not deposited; record further deposits as the \
                 bank books them"
            )),
            _ => {}
        }
        self.need(is_due, || Change::Funds { name: name.clone(), currency, amount: funds });
    }

    /// A binding that moves from one DFSP to another is removed first, because it may belong to only one.
    fn move_bindings(&mut self, scheme: &Scheme, state: &HubState) {
        let wanted = |dfsp: &Dfsp, text: &str| {
            dfsp.bindings.iter().flatten().any(|binding| binding.to_string() == text)
        };
        for dfsp in scheme.dfsps.iter().filter(|dfsp| dfsp.bindings.is_some()) {
            let present = state.participants.get(&dfsp.name).and_then(|present| present.bindings.as_ref());
            for binding in present.into_iter().flatten() {
                if !wanted(dfsp, binding) && scheme.dfsps.iter().any(|other| wanted(other, binding)) {
                    self.changes.push(Change::Unbind { name: dfsp.name.clone(), binding: binding.clone() });
                }
            }
        }
    }

    /// The bindings become exactly as in the file, because a key that is missing there must not stay valid.
    fn bindings(&mut self, dfsp: &Dfsp, exists: bool, present: &ParticipantState) {
        let Some(wanted) = &dfsp.bindings else { return };
        let name = &dfsp.name;
        if exists && present.bindings.is_none() {
            self.conflicts.push(format!(
                "{}: this hub does not support bindings, which {name} has in the file",
                dfsp.place
            ));
            return;
        }
        let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
        let none = BTreeSet::new();
        let present = present.bindings.as_ref().unwrap_or(&none);
        for binding in &wanted {
            let bind = || Change::Bind { name: name.clone(), binding: binding.clone() };
            self.need(!present.contains(binding), bind);
        }
        for binding in present.difference(&wanted) {
            let unbind = Change::Unbind { name: name.clone(), binding: binding.clone() };
            if !self.changes.contains(&unbind) {
                self.changes.push(unbind);
            }
        }
    }

    /// The earlier keys end automatically. None is revoked, because that would be permanent.
    fn signature_key(&mut self, dfsp: &Dfsp, exists: bool, present: &ParticipantState) {
        let Some(key) = &dfsp.signature_key else { return };
        let name = &dfsp.name;
        if exists && present.signature_keys.is_none() {
            let problem = "this hub does not support signing keys, which";
            self.conflicts.push(format!("{}: {problem} {name} has in the file", dfsp.place));
            return;
        }
        let is_there = present.signature_keys.as_ref().is_some_and(|keys| keys.contains(&key.sha256));
        self.need(!is_there, || Change::SignatureKey { name: name.clone(), key: key.clone() });
    }

    fn proxy(&mut self, dfsp: &Dfsp, present: &ParticipantState) {
        let name = &dfsp.name;
        match (dfsp.is_proxy, present.is_proxy) {
            (Some(wanted), Some(found)) if wanted != found => self.conflicts.push(format!(
                "{}: participant {name} exists and is_proxy is {found}, not {wanted}; that cannot be changed: give the new \
                 participant another name",
                dfsp.place
            )),
            (Some(_), None) => self.notes.push(format!(
                "participant {name}: this hub does not return is_proxy, so it was not compared"
            )),
            _ => {}
        }
    }

    /// The account itself, and its cap.
    fn account(&mut self, dfsp: &Dfsp, currency: Currency, terms: &AccountTerms, present: &ParticipantState) {
        let name = &dfsp.name;
        self.need(!present.has_currency(currency.as_str()), || Change::Participant {
            name: name.clone(),
            currency,
            is_proxy: dfsp.is_proxy.unwrap_or(false),
        });
        let from = present.limits.get(currency.as_str()).copied();
        let kept = from.map_or_else(Limit::alarm_percentage_default, |limit| limit.alarm_percentage);
        let to = Limit { cap: terms.net_debit_cap, alarm_percentage: terms.alarm_percentage.unwrap_or(kept) };
        self.need(from != Some(to), || Change::Limit { name: name.clone(), currency, from, to });
    }

    fn endpoints<'a>(
        &mut self,
        name: &str,
        wanted: impl Iterator<Item = (&'a String, &'a String)>,
        present: &ParticipantState,
    ) {
        for (kind, value) in wanted {
            let from = present.endpoints.get(kind);
            self.need(from != Some(value), || Change::Endpoint {
                name: name.to_owned(),
                kind: kind.clone(),
                from: from.cloned(),
                to: value.clone(),
            });
        }
    }
}

fn cover(present: &ParticipantState, currency: Currency) -> Amount {
    present.cover.get(currency.as_str()).copied().unwrap_or(Amount::ZERO)
}

fn text(currency: Option<&String>) -> String {
    currency.map_or_else(|| "none".to_owned(), Clone::clone)
}

fn no_end(until: Option<Timestamp>) -> String {
    until.map_or_else(|| "none".to_owned(), |until| until.to_string())
}

/// Prints both values, or a single one if they are equal.
fn step(from: Amount, to: Amount) -> String {
    if from == to { to.to_string() } else { format!("{from} → {to}") }
}

impl Change {
    /// One line: `+` for additions, `~` for changes, `-` for removals.
    pub fn line(&self) -> String {
        escape(&self.raw_line()).into_owned()
    }

    fn raw_line(&self) -> String {
        match self {
            Self::HubAccount { currency, kind, .. } => format!("+ hub account {currency} {kind}"),
            Self::Model(model) => format!("+ model {}", model.name),
            Self::ModelActivated(name) => format!("~ model {name} inactive → active"),
            Self::Participant { name, currency, .. } => format!("+ participant {name} {currency}"),
            Self::Activity { name, is_active } => {
                let (from, to) = if *is_active { ("inactive", "active") } else { ("active", "inactive") };
                format!("~ participant {name} {from} → {to}")
            }
            Self::Limit { name, currency, from: None, to } => {
                format!("+ limit {name} {currency} {}, alarm at {} %", to.cap, to.alarm_percentage)
            }
            Self::Limit { name, currency, from: Some(from), to } => format!(
                "~ limit {name} {currency} {}, alarm at {} %",
                step(from.cap, to.cap),
                step(from.alarm_percentage, to.alarm_percentage)
            ),
            Self::Funds { name, currency, amount } => format!("+ funds {name} {currency} {amount}"),
            Self::Bind { name, binding } => format!("+ binding {name} {binding}"),
            Self::Unbind { name, binding } => format!("- binding {name} {binding}"),
            Self::SignatureKey { name, key } => format!("+ signature key {name} {}", key.sha256),
            Self::Proxied { proxy, name } => format!("+ participant {name} behind {proxy}"),
            Self::Unproxied { proxy, name } => format!("- participant {name} behind {proxy}"),
            Self::FeeRule(rule) => rule.line(),
            Self::FeeRuleEnd { name, from, to } => {
                format!("~ fee rule {name} until {} → {to}", no_end(*from))
            }
            Self::Endpoint { name, kind, from: None, to } => format!("+ endpoint {name} {kind} {to}"),
            Self::Endpoint { name, kind, from: Some(from), to } => {
                format!("~ endpoint {name} {kind} {from} → {to}")
            }
        }
    }

    /// The change as JSON. Amounts are strings.
    pub fn to_json(&self) -> Value {
        match self {
            Self::HubAccount { currency, kind, .. } => {
                json!({"what": "hubAccount", "currency": currency.as_str(), "type": kind})
            }
            Self::Model(model) => json!({"what": "model", "name": model.name}),
            Self::ModelActivated(name) => json!({"what": "model", "name": name, "isActive": true}),
            Self::Participant { name, currency, .. } => {
                json!({"what": "participant", "name": name, "currency": currency.as_str()})
            }
            Self::Activity { name, is_active } => {
                json!({"what": "participant", "name": name, "isActive": is_active})
            }
            Self::Limit { name, currency, from, to } => json!({
                "what": "limit",
                "name": name,
                "currency": currency.as_str(),
                "from": from.map(|from| from.cap.to_string()),
                "to": to.cap.to_string(),
                "alarmPercentageFrom": from.map(|from| from.alarm_percentage.to_string()),
                "alarmPercentageTo": to.alarm_percentage.to_string(),
            }),
            Self::Funds { name, currency, amount } => json!({
                "what": "funds",
                "name": name,
                "currency": currency.as_str(),
                "amount": amount.to_string(),
            }),
            Self::Bind { name, binding } => {
                json!({"what": "binding", "name": name, "binding": binding, "isBound": true})
            }
            Self::Unbind { name, binding } => {
                json!({"what": "binding", "name": name, "binding": binding, "isBound": false})
            }
            Self::SignatureKey { name, key } => {
                json!({"what": "signatureKey", "name": name, "sha256": key.sha256})
            }
            Self::Proxied { proxy, name } => {
                json!({"what": "proxied", "name": name, "proxy": proxy, "isBehind": true})
            }
            Self::Unproxied { proxy, name } => {
                json!({"what": "proxied", "name": name, "proxy": proxy, "isBehind": false})
            }
            Self::FeeRule(rule) => json!({"what": "feeRule", "name": &*rule.terms.name}),
            Self::FeeRuleEnd { name, from, to } => json!({
                "what": "feeRule",
                "name": name,
                "from": from.map(|from| from.to_string()),
                "to": to.to_string(),
            }),
            Self::Endpoint { name, kind, from, to } => {
                json!({"what": "endpoint", "name": name, "type": kind, "from": from, "to": to})
            }
        }
    }
}

// The DFSPs behind proxies become exactly as in the file.

impl Plan {
    /// A DFSP that moves between proxies is removed from the first one before.
    pub(super) fn move_proxied(&mut self, scheme: &Scheme, state: &HubState) {
        let is_wanted = |dfsp: &Dfsp, name: &str| dfsp.proxied.iter().flatten().any(|wanted| wanted == name);
        for dfsp in scheme.dfsps.iter().filter(|dfsp| dfsp.proxied.is_some()) {
            let present = state.participants.get(&dfsp.name).and_then(|present| present.proxied.as_ref());
            for name in present.into_iter().flatten() {
                if !is_wanted(dfsp, name) && scheme.dfsps.iter().any(|other| is_wanted(other, name)) {
                    self.changes.push(Change::Unproxied { proxy: dfsp.name.clone(), name: name.clone() });
                }
            }
        }
    }

    pub(super) fn proxied(&mut self, dfsp: &Dfsp, exists: bool, present: &ParticipantState) {
        let Some(wanted) = &dfsp.proxied else { return };
        let proxy = &dfsp.name;
        if exists && present.proxied.is_none() {
            let place = &dfsp.place;
            self.conflicts.push(format!(
                "{place}: this hub does not support DFSPs behind proxies, which {proxy} has in the file"
            ));
            return;
        }
        let none = BTreeSet::new();
        let present = present.proxied.as_ref().unwrap_or(&none);
        for name in wanted {
            if !present.contains(name) {
                self.new_name(name, &dfsp.place);
            }
            self.need(!present.contains(name), || Change::Proxied {
                proxy: proxy.clone(),
                name: name.clone(),
            });
        }
        for name in present.iter().filter(|name| !wanted.contains(name)) {
            let leaves = Change::Unproxied { proxy: proxy.clone(), name: name.clone() };
            if !self.changes.contains(&leaves) {
                self.changes.push(leaves);
            }
        }
    }
}
