//! The scenarios and suites that are built in: the files of `scenarios/`, by value.

/// Name and text of a file.
type Builtin = (&'static str, &'static str);

macro_rules! builtin {
    ($directory:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $directory, $name, ".toml")))),*]
    };
}

/// Every scenario, in the order in which they are listed.
pub const SCENARIOS: &[Builtin] = builtin!["":
    "smoke",
    "average",
    "stress",
    "spike",
    "breakpoint",
    "breakpoint-transfers",
    "around-breakpoint",
    "soak",
    "overload",
    "transfers-8",
    "transfers-uni",
    "transfers-bi",
    "transfers-hot-pair",
    "transfers-skewed",
    "transfers-long-tail",
    "transfers-reserved",
    "transfers-mixed",
    "transfers-users",
    "transfers-dfsps",
    "lookups-8",
    "quotes-8",
    "payments-8",
    "payments-weighted",
    "secured",
    "fx-payments",
    "bulk",
    "settlement-under-load",
    "gross",
    "window-of-10-million",
    "open-constant",
    "open-poisson",
    "open-ladder",
    "parallel-ladder",
    "published-ramp",
    "ablations",
    "measuring-overhead",
    "existing-rows",
    "generator-alone",
    "simulators-only",
    "forwarder-only",
    "prepare-only",
    "fulfil-only",
    "position-batch",
    "position-500k",
    "position-scale",
    "position-durability",
    "ledger-alone",
    "notification-keep-alive",
    "notification-pool",
    "notification-bodies",
    "notification-receivers",
    "notification-dfsps",
    "journal-alone",
    "archive-alone",
];

/// Every suite.
pub const SUITES: &[Builtin] =
    builtin!["suites/": "quick", "architect", "characterize", "measuring-overhead"];

/// Figures that were published for Mojaloop, beside which ours are put: TOML.
pub const PUBLISHED: &str = include_str!("../../../../scenarios/published.toml");
