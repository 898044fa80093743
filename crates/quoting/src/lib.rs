#![doc = include_str!("../README.md")]

mod checks;
mod config;
mod duplicates;
mod error;
mod kept;
mod metrics;
mod query;
mod quote_key;
mod reading;
pub mod rules;
mod service;

pub use config::{DUPLICATE_ENTRIES_DEFAULT, QuotingConfig, Retention};
pub use error::QuotingError;
pub use kept::{KeptMessage, KeptQuote, TABLES};
pub use metrics::QuotingMetrics;
pub use rules::{Rules, RulesError};
pub use service::Quoting;
