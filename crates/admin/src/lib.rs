#![doc = include_str!("../README.md")]

mod access;
mod accounts;
mod approvals;
mod audit;
mod body;
mod call;
mod callbacks;
mod change_sets;
mod context;
mod directory;
mod endpoints;
mod enums;
mod error;
mod fee_rules;
mod find;
mod follower;
mod funds;
mod health;
mod hosts;
mod json;
mod lanes;
mod limits;
mod metrics_text;
mod operations;
mod operators;
mod oracles;
mod participants;
mod progress;
mod quotes;
mod routes;
mod service;
mod sessions;
mod settlement_models;
mod settlement_windows;
mod settlements;
mod shown;
mod signature_keys;
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
pub use change_sets::continue_change_sets;
pub use context::{AdminContext, FindQuote, FixedLog, LogLevel};
pub use directory::DirectoryHandle;
pub use endpoints::{check_endpoint, endpoints_of};
pub use follower::{Followed, FollowedNow};
pub use hosts::{AllowedHosts, AllowedOrigins};
pub use lanes::{Lanes, NoLanes};
pub use metrics_text::{MetricsService, MetricsText};
pub use operations::Holders;
pub use quotes::{MessageView, QuoteView};
pub use routes::Operation;
pub use service::{AdminService, BODY_BYTES_MAX, limits, not_yet};
pub use signature_keys::{HubKey, HubKeyState, HubKeys, SignatureKeyRules};
