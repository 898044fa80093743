//! Money: accounts, and the transfers, FX transfers, bulk transfers, funds and fees that move amounts between them.

pub(crate) mod account;
pub(crate) mod bulk;
pub(crate) mod changes;
pub(crate) mod fee;
pub(crate) mod funds;
pub(crate) mod fx_transfer;
pub(crate) mod obligation;
pub(crate) mod transfer;
pub(crate) mod transfer_table;
