#![doc = include_str!("../README.md")]

mod access;
mod account_types;
mod accounts;
mod approvals;
mod audit;
mod bindings;
mod blocks;
mod body;
mod call;
mod callbacks;
mod clock;
mod cluster;
mod context;
mod cross_site;
mod debug;
mod directory;
mod docs;
mod endpoints;
mod enrolments;
mod enums;
mod error;
mod extract;
mod fee_rules;
mod field;
mod find;
mod follower;
mod funds;
mod health;
mod hosts;
mod hub_keys;
mod imports;
mod json;
mod lanes;
mod limits;
mod metrics_service;
mod metrics_text;
mod operations;
mod operators;
mod oracles;
mod participants;
mod positions;
mod proxied;
mod quotes;
mod routes;
mod service;
mod sessions;
mod settlement_models;
mod settlement_pairs;
mod settlement_windows;
mod settlements;
mod signature_keys;
mod transactions;
mod transfers;

pub use access::{
    Access, AccessOptions, BOOTSTRAP_FILE, BOOTSTRAP_MINUTES, BREAK_GLASS_FILE, BREAK_GLASS_MINUTES,
    BootstrapError, BreakGlassError, Caller, Issuer, IssuerConfig, is_break_glass_open, make_bootstrap,
    open_break_glass, replace_private, seal_break_glass,
};
pub use audit::{
    AuditEntryView, AuditKey, AuditKeyError, AuditPort, AuditPublicKey, Checkpoint, CheckpointError,
    EntryFilter, ExportedEntry, Outcome, log_checkpoints,
};
pub use context::{AdminContext, FindQuote, FixedLog, LogLevel};
pub use debug::Holders;
pub use directory::DirectoryHandle;
pub use endpoints::check_endpoint;
pub use follower::{Followed, FollowedNow};
pub use hosts::AllowedHosts;
pub use hub_keys::{HubKey, HubKeyState, HubKeys};
pub use lanes::{Lanes, NoLanes};
pub use metrics_service::MetricsService;
pub use metrics_text::MetricsText;
pub use quotes::{MessageView, QuoteView};
pub use routes::Operation;
pub use service::{AdminService, BODY_BYTES_MAX, limits, not_yet};
pub use signature_keys::SignatureKeyRules;
