//! Identifiers, money, time and error codes that every layer speaks.
//!
//! Pure values: no IO, no clock, no randomness, no floats. `no_std + alloc`, so that the build refuses impurity.
#![no_std]

extern crate alloc;

mod amount;
mod currency;
pub mod error_code;
mod id;
pub mod text;
mod timestamp;

pub use amount::{Amount, AmountError, Money};
pub use currency::Currency;
pub use error_code::ErrorCode;
pub use id::{BulkId, ConversionId, FspId, TransferId, hex, unhex};
pub use timestamp::{Present, Timestamp};
