#![doc = include_str!("../README.md")]

pub mod broker;
#[cfg(feature = "engine")]
pub mod held;
pub mod hostile_texts;
#[cfg(feature = "identity-provider")]
pub mod identity_provider;
pub mod packed;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(feature = "engine")]
pub mod scheme;
#[cfg(feature = "softhsm")]
pub mod softhsm;
