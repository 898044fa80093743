//! The story of a day, from `day.toml`: volumes, ordinary payments, and events.

use std::collections::BTreeMap;

use serde::Deserialize;
use upesi_sim::DfspSettings;

/// Hours of a day.
pub(super) const HOURS: usize = 24;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Story {
    /// Settings of the hub.
    pub hub: BTreeMap<String, String>,
    pub traffic: Traffic,
    #[serde(rename = "event")]
    pub events: Vec<Event>,
}

/// The ordinary payments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Traffic {
    /// The shares of the hours.
    pub volumes: [u64; HOURS],
    #[serde(rename = "currency")]
    pub currencies: Vec<Flow>,
}

/// The ordinary payments in a currency.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    pub currency: String,
    pub per_mille: u64,
    /// Smallest and largest amount, in whole units.
    pub amounts: [u64; 2],
    /// The weight of each DFSP, as payer and as payee.
    pub weights: BTreeMap<String, u64>,
}

/// One thing that happens in an hour, in this order: a change of behaviour, payments, commands, a restart.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    pub hour: usize,
    pub title: String,
    pub behaviour: Option<Behaviour>,
    pub payments: Option<Group>,
    #[serde(default)]
    pub commands: Vec<Command>,
    /// Whether the hub restarts without authentication.
    #[serde(default)]
    pub opens_console: bool,
}

/// A DFSP and its behaviour from now on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Behaviour {
    pub dfsp: String,
    pub does: DfspSettings,
}

/// Payments of one pair.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub payer: String,
    pub payee: String,
    pub count: u64,
    /// Whether the count does not grow with the number of ordinary payments.
    #[serde(default)]
    pub is_fixed: bool,
    pub currency: String,
    pub amounts: [u64; 2],
    #[serde(default)]
    pub kind: Kind,
    /// Transfers in each bulk transfer.
    #[serde(default = "one")]
    pub items: usize,
    /// The seller of the target currency of FX transfers.
    pub fxp: Option<String>,
    pub target: Option<String>,
    /// Price of a thousand units of the target currency.
    #[serde(default)]
    pub rate_per_mille: u32,
    /// Whether no DFSP has registered the payee's party.
    #[serde(default)]
    pub unknown_party: bool,
    #[serde(default = "usual_expiry_ms")]
    pub expiry_ms: u64,
    /// Maximum wait for a callback.
    #[serde(default = "usual_patience_ms")]
    pub patience_ms: u64,
    /// Behaviour of the payer and the payee during these payments.
    pub payer_does: Option<DfspSettings>,
    pub payee_does: Option<DfspSettings>,
    /// The DFSP whose callbacks of these payments fail. The day continues when they are parked.
    pub parked_at: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Lookup, quote and transfer.
    #[default]
    Payment,
    Transfer,
    Bulk,
    /// An FX transfer, and the transfer that it pays.
    Fx,
}

/// A command of `upesi`, without the options that name hub, operator, reference and reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    pub run: String,
    pub reference: Option<String>,
    pub reason: Option<String>,
    /// The operator. Without one, the command works on the data directory.
    pub by: Option<String>,
    /// The decision of the second person about the proposal; none if the command needs no second person.
    pub decision: Option<Decision>,
    /// Reason of the decision.
    pub comment: Option<String>,
    /// Whether the command is made again after each approval, until it has ended.
    #[serde(default)]
    pub repeat: bool,
    /// Whether the hub refuses it.
    #[serde(default)]
    pub is_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Decision {
    Approve,
    Reject,
    /// The proposal stays pending.
    Leave,
}

const fn one() -> usize {
    1
}

const fn usual_expiry_ms() -> u64 {
    60_000
}

const fn usual_patience_ms() -> u64 {
    30_000
}
