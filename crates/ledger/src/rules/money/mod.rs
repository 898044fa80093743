//! The rules of transfers, FX transfers, bulk transfers, funds and fees.

pub(crate) mod abort;
pub(crate) mod bulks;
pub(crate) mod expire;
pub(crate) mod fees;
pub(crate) mod fold;
pub(crate) mod fulfil;
pub(crate) mod funds;
pub(crate) mod fx_transfers;
pub(crate) mod get;
pub(crate) mod prepare;
pub(crate) mod put;
pub(crate) mod query;
