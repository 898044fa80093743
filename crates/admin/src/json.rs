//! Answers: exact numbers, instants, flags, links.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use upesi_types::{Amount, Currency, Timestamp};

use crate::error::ApiError;

pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, ApiError> {
    let bytes = serde_json::to_vec(body)
        .map_err(|error| ApiError::internal(&format!("The answer cannot be written: {error}")))?;
    Ok((status, [(CONTENT_TYPE, "application/json; charset=utf-8")], bytes).into_response())
}

/// 200 with a JSON body.
pub(crate) fn ok(body: &impl Serialize) -> Result<Response, ApiError> {
    json(StatusCode::OK, body)
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Result<Response, ApiError> {
    Ok(status.into_response())
}

#[derive(Serialize)]
pub(crate) struct EmptyObject {}

/// An amount as a JSON number with exactly the digits of its decimal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal(pub Amount);

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number(self.0.to_string(), serializer)
    }
}

/// A currency as its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub Currency);

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Hundredths of a percent as a JSON number in percent: `10`, `12.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percentage(pub(crate) u16);

impl Serialize for Percentage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let units_per_basis_point = 100;
        let percent = Amount::from_units(i64::from(self.0) * units_per_basis_point);
        number(percent.unwrap_or_default().to_string(), serializer)
    }
}

/// Milliseconds as a JSON number in seconds: `12.345`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds {
    pub ms: u64,
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number(format!("{}.{:03}", self.ms / 1000, self.ms % 1000), serializer)
    }
}

/// Writes digits unchanged: numbers are never converted to a float.
pub(crate) fn number<S: Serializer>(digits: String, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(digits).map_err(S::Error::custom)?.serialize(serializer)
}

/// An instant as `2031-04-01T12:00:30.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant(pub Timestamp);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Accepts only the written form, so that no two texts are the same instant.
impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let found = Timestamp::parse_iso(&text).filter(|instant| instant.to_string() == text);
        found.map(Self).ok_or_else(|| de::Error::custom(format_args!("{text:?} is not an instant")))
    }
}

/// A flag as 0 or 1, the form that portals usually expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(u8::from(self.0))
    }
}

/// JSON text that was checked at input; `None` if it is not JSON.
pub(crate) fn raw(text: &str) -> Option<Box<RawValue>> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        for text in ["0", "12.5", "-0.0001", "99999999999999.9999", "-99999999999999.9999"] {
            let amount = Amount::parse_decimal(text).unwrap();
            assert_eq!(serde_json::to_string(&Decimal(amount)).unwrap(), text);
        }
        for (basis_points, text) in [(0, "0"), (1_000, "10"), (1_250, "12.5"), (33, "0.33"), (10_000, "100")]
        {
            assert_eq!(serde_json::to_string(&Percentage(basis_points)).unwrap(), text);
        }
        for (ms, text) in [(0, "0.000"), (7, "0.007"), (1_234_500, "1234.500")] {
            assert_eq!(serde_json::to_string(&Seconds { ms }).unwrap(), text);
        }
    }
}
