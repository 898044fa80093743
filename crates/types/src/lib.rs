//! Identifiers, money, time and error codes that all layers use.
//!
//! The types are pure values: no IO, no clock, no randomness, no floats. The crate is `no_std + alloc`, so the build
//! rejects impure code.
#![no_std]

extern crate alloc;

mod amount;
mod currency;
pub mod error_code;
mod hex;
mod id;
mod present;
pub mod text;
mod timestamp;

pub use amount::{Amount, AmountError, Money, SCALE_DIGITS, UnfitAmount};
pub use currency::Currency;
pub use error_code::ErrorCode;
pub use hex::{hex, unhex};
pub use id::{BulkId, FspId, FxTransferId, TransferId};
pub use present::Present;
pub use timestamp::Timestamp;
