#![doc = include_str!("../README.md")]

mod access;
mod accounts;
mod approvals;
mod audit;
mod body;
mod call;
mod callbacks;
mod change;
mod change_sets;
mod collector;
mod context;
mod directory;
mod endpoints;
mod enums;
mod error;
mod error_name;
mod fee_rules;
mod find;
mod follower;
mod funds;
mod health;
mod hosts;
mod json;
mod lanes;
mod limits;
mod metrics_service;
mod metrics_text;
mod operations;
mod operators;
mod oracles;
mod page_changes;
mod page_paths;
mod pages;
mod participants;
mod parts;
mod port;
mod progress;
mod provider_login;
mod public_keys;
mod quotes;
pub mod reads;
pub mod rejection;
mod routes;
mod searches;
mod service;
mod sessions;
mod settlement_models;
mod settlement_windows;
mod settlements;
mod shown;
mod signature_keys;
mod stored_quote;
mod transfers;
mod visitor;

pub use access::{
    Access, AccessOptions, BOOTSTRAP_FILE, BOOTSTRAP_MINUTES, BREAK_GLASS_FILE, BREAK_GLASS_MINUTES,
    BootstrapError, BreakGlassError, Caller, Issuer, IssuerConfig, is_break_glass_open, make_bootstrap,
    open_break_glass, replace_private, seal_break_glass,
};
pub use audit::{
    AttemptOutcome, AuditEntryView, AuditKey, AuditKeyError, AuditPort, AuditPublicKey, Checkpoint,
    CheckpointError, EntryFilter, ExportedEntry, log_checkpoints,
};
pub use change_sets::continue_change_sets;
pub use context::{AdminContext, Protections};
pub use endpoints::{check_endpoint, endpoints_of};
pub use error::ApiError;
pub use error_name::ErrorName;
pub use follower::{FollowedNow, FollowerProgress};
pub use hosts::{AllowedHosts, AllowedOrigins, WebOrigin};
pub use metrics_service::MetricsService;
pub use metrics_text::MetricsText;
pub use page_changes::{Accepted, ChangePreview, LiquidityEffect, PageChange, PageOperations, new_funds_id};
pub use pages::{PageTable, Pages, Reach};
pub use parts::{DirectoryHandle, FixedLog, Holders, Lanes, LogLevel, NoLanes};
pub use port::AdminPort;
pub use provider_login::{
    FailedLogin, FinishedLogin, LOGIN_COOKIE_REMOVED, LoginBegun, LoginProvider, begin_login,
    begin_login_again, finish_login, login_providers,
};
pub use public_keys::{HubKey, HubKeyState, HubKeys, SignatureKeyRules};
pub use routes::Operation;
pub use searches::Searches;
pub use service::{AdminService, BODY_BYTES_MAX, limits};
pub use sessions::{Login, OpenedSession, log_in, log_out};
pub use stored_quote::{FindQuote, MessageView, QuoteView};
pub use visitor::{EXPIRED, NEXT, NEXT_BYTES_MAX};
