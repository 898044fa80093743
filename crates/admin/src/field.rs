//! One value of a request's body, read by the rule that its resource has for it.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::value::RawValue;
use upesi_types::{Amount, AmountError, Currency, FspId, Timestamp, TransferId};

use crate::body::Fields;
use crate::error::ApiError;

/// A value and the label under which refusals name it, such as `limit.value`.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    label: String,
    json: &'a str,
}

impl<'a> Field<'a> {
    pub(crate) fn new(label: String, json: &'a RawValue) -> Self {
        Self { label, json: json.get() }
    }

    /// The refusal that this value must be something else.
    pub(crate) fn refuse(&self, rule: &str) -> ApiError {
        ApiError::malformed(&format!("\"{}\" {rule}", self.label))
    }

    /// A text that is not empty.
    pub(crate) fn text(&self) -> Result<String, ApiError> {
        let text: String = serde_json::from_str(self.json).map_err(|_| self.refuse("must be a string"))?;
        if text.is_empty() { Err(self.refuse("is not allowed to be empty")) } else { Ok(text) }
    }

    /// A text that is not empty, or an object as its JSON.
    pub(crate) fn text_or_object(&self) -> Result<String, ApiError> {
        if self.json.starts_with('{') { Ok(self.json.to_owned()) } else { self.text() }
    }

    /// A text of `min` to `max` characters.
    pub(crate) fn text_of(&self, min: usize, max: usize) -> Result<String, ApiError> {
        let text = self.text()?;
        match text.chars().count() {
            length if length < min => {
                Err(self.refuse(&format!("length must be at least {min} characters long")))
            }
            length if length > max => {
                Err(self.refuse(&format!("length must be less than or equal to {max} characters long")))
            }
            _ => Ok(text),
        }
    }

    /// A flag; the texts `true` and `false` will do.
    pub(crate) fn flag(&self) -> Result<bool, ApiError> {
        match self.json {
            "true" | "\"true\"" => Ok(true),
            "false" | "\"false\"" => Ok(false),
            _ => Err(self.refuse("must be a boolean")),
        }
    }

    /// A flag as resources of account lookup show it, 1 or 0; or as [`Self::flag`] reads it.
    pub(crate) fn flag_or_bit(&self) -> Result<bool, ApiError> {
        match self.json {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => self.flag(),
        }
    }

    /// A decimal number, or a text that holds one; read digit by digit.
    pub(crate) fn decimal(&self) -> Result<Amount, ApiError> {
        let quoted: Option<String> = serde_json::from_str(self.json).ok();
        let text = quoted.as_deref().unwrap_or(self.json);
        Amount::parse_decimal(text).map_err(|error| {
            self.refuse(match error {
                AmountError::Syntax => "must be a number in plain decimal digits",
                AmountError::Scale => "must have no more than 4 decimal places",
                AmountError::Precision => "must have no more than 14 digits before the decimal point",
            })
        })
    }

    /// A whole number from 0 to `max`, or a text that holds one.
    pub(crate) fn whole<T: Copy + FromStr + Display + PartialOrd>(&self, max: T) -> Result<T, ApiError> {
        let quoted: Option<String> = serde_json::from_str(self.json).ok();
        let number = quoted.as_deref().unwrap_or(self.json).parse::<T>().ok();
        number
            .filter(|number| *number <= max)
            .ok_or_else(|| self.refuse(&format!("must be a whole number from 0 to {max}")))
    }

    /// An instant in milliseconds, by UTC.
    pub(crate) fn instant(&self) -> Result<Timestamp, ApiError> {
        let refuse = || self.refuse("must be an instant such as 2031-04-01T12:00:00.000Z");
        Timestamp::parse_iso(&self.text()?).ok_or_else(refuse)
    }

    /// One of a list of names.
    pub(crate) fn one_of<T: Copy>(
        &self,
        known: impl Iterator<Item = T> + Clone,
        name: impl Fn(&T) -> &str,
    ) -> Result<T, ApiError> {
        let text = serde_json::from_str::<String>(self.json).unwrap_or_default();
        known.clone().find(|value| name(value) == text).ok_or_else(|| {
            let values: Vec<T> = known.collect();
            let names: Vec<&str> = values.iter().map(name).collect();
            self.refuse(&format!("must be one of [{}]", names.join(", ")))
        })
    }

    pub(crate) fn currency(&self) -> Result<Currency, ApiError> {
        let all: Vec<Currency> = Currency::all().collect();
        self.one_of(all.iter().copied(), Currency::as_str)
    }

    /// A participant's name of 2 to 30 characters.
    pub(crate) fn participant_name(&self) -> Result<FspId, ApiError> {
        let text = self.text_of(2, 30)?;
        FspId::parse(&text).ok_or_else(|| self.refuse("must consist of printable ASCII characters"))
    }

    pub(crate) fn transfer_id(&self) -> Result<TransferId, ApiError> {
        TransferId::parse(&self.text()?)
            .ok_or_else(|| self.refuse("must be a valid GUID or ULID in its usual case"))
    }

    pub(crate) fn object(&self) -> Result<Fields<'a>, ApiError> {
        Fields::nested(&self.label, self.json).ok_or_else(|| self.refuse("must be of type object"))
    }

    /// The members of an array, at most `max`.
    pub(crate) fn array(&self, max: usize) -> Result<Vec<Field<'a>>, ApiError> {
        let items: Vec<&'a RawValue> =
            serde_json::from_str(self.json).map_err(|_| self.refuse("must be an array"))?;
        if items.len() > max {
            return Err(self.refuse(&format!("must contain less than or equal to {max} items")));
        }
        let label = |index| format!("{}[{index}]", self.label);
        Ok(items.into_iter().enumerate().map(|(index, json)| Field::new(label(index), json)).collect())
    }
}
