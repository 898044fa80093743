//! The values of a row, and the types of columns.

use std::borrow::Cow;

use upesi_types::{Amount, Timestamp};

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Amount,
    /// A number of at most 31 bits.
    Small,
    Number,
    Instant,
    Hash,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet has typed columns"))]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    /// Whether rows may lack a value.
    pub(super) is_optional: bool,
}

impl Column {
    pub(super) const fn required(name: &'static str, kind: Type) -> Self {
        Self { name, kind, is_optional: false }
    }

    pub(super) const fn optional(name: &'static str, kind: Type) -> Self {
        Self { name, kind, is_optional: true }
    }
}

/// A value of a row.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Amount(Amount),
    Number(u64),
    Instant(Timestamp),
    Hash(&'a [u8; 32]),
    Absent,
}

impl<'a> Value<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// An optional value.
    pub(super) fn of<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent, make)
    }
}

/// The values of a row in the order of its table's columns.
pub(super) type Row<'a> = Vec<Value<'a>>;
