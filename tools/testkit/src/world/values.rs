//! Names of DFSPs and amounts of money in the form of commands.

use upesi_types::{Amount, Currency, FspId};

use crate::message::{CURRENCY, UNITS, name};

pub(super) fn fsp(dfsp: usize) -> FspId {
    FspId::parse(&name(dfsp)).unwrap_or_else(|| unreachable!("a sound name"))
}

pub(super) fn kes() -> Currency {
    Currency::parse(CURRENCY).unwrap_or_else(|| unreachable!("a known currency"))
}

pub(super) fn money(units: i64) -> Amount {
    Amount::from_units(units * UNITS as i64).unwrap_or(Amount::ZERO)
}
