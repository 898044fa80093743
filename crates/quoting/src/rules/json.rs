//! A JSON value whose numbers remain the digits as written.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::rules::decimal::{compare_decimals, is_decimal};

/// Maximum depth of objects and arrays; deeper values count as `null`. A quote needs seven levels.
const LEVELS_MAX: usize = 24;

/// A JSON value.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number as written; it is never converted to a float.
    Number(Box<str>),
    Text(Box<str>),
    Array(Vec<Json>),
    /// If a name occurs twice, the last value is used.
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Parses a text. Needs at most as many passes over it as there are levels.
    pub(crate) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let whole: &RawValue = serde_json::from_str(text)?;
        Self::of(whole.get(), LEVELS_MAX)
    }

    fn of(text: &str, levels: usize) -> Result<Self, serde_json::Error> {
        Ok(match text.as_bytes().first() {
            Some(b'{' | b'[') if levels == 0 => Self::Null,
            Some(b'{') => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
                let members =
                    members.into_iter().map(|(name, raw)| Ok((name, Self::of(raw.get(), levels - 1)?)));
                Self::Object(members.collect::<Result<_, serde_json::Error>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                let items = items.into_iter().map(|raw| Self::of(raw.get(), levels - 1));
                Self::Array(items.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Self::Text(serde_json::from_str::<String>(text)?.into()),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number(text.into()),
        })
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// 1 or 0, the form of participants' flags.
    pub(crate) fn flag(is_set: bool) -> Self {
        Self::Number(if is_set { "1" } else { "0" }.into())
    }

    /// An object with these members.
    pub(crate) fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The decimal number, if this is a number or a text of one.
    pub(crate) fn decimal(&self) -> Option<&str> {
        match self {
            Self::Number(text) | Self::Text(text) if is_decimal(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the value counts as true: it is not `null`, `false`, zero or the empty text.
    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => *value,
            Self::Number(text) => compare_decimals(text, "0").is_none_or(|order| order.is_ne()),
            Self::Text(text) => !text.is_empty(),
            Self::Array(_) | Self::Object(_) => true,
        }
    }
}

impl PartialEq for Json {
    /// Same type and value; `1` and `1.0` are equal, `1` and `"1"` are not.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => compare_decimals(a, b).is_some_and(|order| order.is_eq()),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}
