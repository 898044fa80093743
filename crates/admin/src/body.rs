//! The body of a request: a JSON object whose members are read by name.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use serde_json::value::RawValue;
use upesi_http::Bytes;
use upesi_types::text::has_hidden;
use upesi_types::{Amount, AmountError, Currency, FspId, Timestamp, TransferId};

use crate::error::ApiError;
use crate::error_name::ErrorName;

/// The bytes of a body with a JSON content type.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl JsonBody {
    /// The members of the object; otherwise 400 with 3101.
    pub(crate) fn fields(&self) -> Result<Fields<'_>, ApiError> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_slice(&self.0).map_err(|error| {
            ApiError::malformed(&if error.is_data() {
                "the body must be a JSON object".to_owned()
            } else {
                format!("the body is not JSON: {error}")
            })
        })?;
        Ok(Fields { label: String::new(), members })
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(is_json) {
            return Err(ApiError::malformed("\"content-type\" must be application/json"));
        }
        // The service has already read the body within its limits.
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|error| ApiError::malformed(&error.body_text()))
    }
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = media_type.strip_prefix("application/");
    subtype.is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

/// The members of an object. If a name occurs twice, the last member is used.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    /// Path of the object, such as `limit`; empty for the body itself.
    label: String,
    members: BTreeMap<String, &'a RawValue>,
}

impl<'a> Fields<'a> {
    /// The members of an object inside the body.
    pub(crate) fn nested(label: &str, json: &'a str) -> Option<Self> {
        Some(Self { label: label.to_owned(), members: serde_json::from_str(json).ok()? })
    }

    fn label_of(&self, name: &str) -> String {
        if self.label.is_empty() { name.to_owned() } else { format!("{}.{name}", self.label) }
    }

    pub(crate) fn required(&self, name: &str) -> Result<Field<'a>, ApiError> {
        self.optional(name)
            .ok_or_else(|| ApiError::malformed(&format!("\"{}\" is required", self.label_of(name))))
    }

    /// A required member in resources of account lookup, which have a separate code for missing ones: 3102.
    pub(crate) fn required_in_lookup(&self, name: &str) -> Result<Field<'a>, ApiError> {
        self.optional(name).ok_or_else(|| {
            let detail = format!("\"{}\" is required", self.label_of(name));
            ApiError::new(ErrorName::ElementMissing, &detail)
        })
    }

    /// A member that may be missing; `null` counts as missing.
    pub(crate) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let json = self.members.get(name).filter(|json| json.get() != "null")?;
        Some(Field::new(self.label_of(name), json))
    }

    /// Rejects members with other names. Otherwise, a misspelt optional member would silently have no effect.
    pub(crate) fn only(&self, names: &[&str]) -> Result<(), ApiError> {
        match self.members.keys().find(|name| !names.contains(&name.as_str())) {
            Some(other) => Err(ApiError::malformed(&format!("\"{}\" is not allowed", self.label_of(other)))),
            None => Ok(()),
        }
    }
}

// A value of a request's body, read by the rule of its resource.

/// A value and its label in errors, such as `limit.value`.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    label: String,
    json: &'a str,
}

impl<'a> Field<'a> {
    pub(crate) fn new(label: String, json: &'a RawValue) -> Self {
        Self { label, json: json.get() }
    }

    /// The JSON as received.
    pub(crate) fn raw(&self) -> &'a str {
        self.json
    }

    /// The error that this value must follow a rule.
    pub(crate) fn refuse(&self, rule: &str) -> ApiError {
        ApiError::malformed(&format!("\"{}\" {rule}", self.label))
    }

    /// A text that is not empty, without control and format characters, because lists, logs and exports show it.
    pub(crate) fn text(&self) -> Result<String, ApiError> {
        let text = self.secret()?;
        match has_hidden(&text) {
            true => Err(self.refuse("must not contain control or format characters")),
            false => Ok(text),
        }
    }

    /// A text that is not empty, of any characters, such as a password.
    pub(crate) fn secret(&self) -> Result<String, ApiError> {
        let text: String = serde_json::from_str(self.json).map_err(|_| self.refuse("must be a string"))?;
        if text.is_empty() { Err(self.refuse("is not allowed to be empty")) } else { Ok(text) }
    }

    /// A text of any characters that is not empty, such as a key of several lines, or an object as its JSON.
    pub(crate) fn text_or_object(&self) -> Result<String, ApiError> {
        if self.json.starts_with('{') { Ok(self.json.to_owned()) } else { self.secret() }
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

    /// A flag; the texts `true` and `false` are also accepted.
    pub(crate) fn flag(&self) -> Result<bool, ApiError> {
        match self.json {
            "true" | "\"true\"" => Ok(true),
            "false" | "\"false\"" => Ok(false),
            _ => Err(self.refuse("must be a boolean")),
        }
    }

    /// A flag as 1 or 0, the form of account lookup, or as [`Self::flag`] reads it.
    pub(crate) fn flag_or_bit(&self) -> Result<bool, ApiError> {
        match self.json {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => self.flag(),
        }
    }

    /// A decimal number, or a text with one; read digit by digit.
    pub(crate) fn decimal(&self) -> Result<Amount, ApiError> {
        let quoted: Option<String> = serde_json::from_str(self.json).ok();
        let text = quoted.as_deref().unwrap_or(self.json);
        Amount::parse_decimal(text).map_err(|error| {
            self.refuse(match error {
                AmountError::Syntax => "must be a number in plain decimal digits",
                AmountError::Scale => "must have no more than 4 decimal places",
                AmountError::Finer => "must have no more decimal places than the currency",
                AmountError::Precision => "must have no more than 14 digits before the decimal point",
            })
        })
    }

    /// A whole number from 0 to `max`, or a text with one.
    pub(crate) fn whole<T: Copy + FromStr + Display + PartialOrd>(&self, max: T) -> Result<T, ApiError> {
        let quoted: Option<String> = serde_json::from_str(self.json).ok();
        let number = quoted.as_deref().unwrap_or(self.json).parse::<T>().ok();
        number
            .filter(|number| *number <= max)
            .ok_or_else(|| self.refuse(&format!("must be a whole number from 0 to {max}")))
    }

    /// An instant in milliseconds, in UTC.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: std::fmt::Debug>(
        body: &'static str,
        read: impl FnOnce(&Fields<'_>) -> Result<T, ApiError>,
    ) -> String {
        let body = JsonBody(Bytes::from_static(body.as_bytes()));
        let error = body.fields().and_then(|fields| read(&fields)).unwrap_err();
        assert_eq!((error.status.as_u16(), error.name), (400, ErrorName::Malformed));
        error.description.strip_prefix("Malformed syntax - ").unwrap().to_owned()
    }

    #[test]
    fn bodies_are_json_objects() {
        for (body, expected) in [
            ("", "the body is not JSON: EOF while parsing a value at line 1 column 0"),
            ("{\"name\":", "the body is not JSON: EOF while parsing a value at line 1 column 8"),
            ("[]", "the body must be a JSON object"),
            ("\"text\"", "the body must be a JSON object"),
            ("null", "the body must be a JSON object"),
        ] {
            assert_eq!(refusal(body, |_| Ok(())), expected, "{body}");
        }
    }

    #[test]
    fn refusals_name_the_field_and_the_rule() {
        for (body, expected) in [
            (r"{}", "\"f\" is required"),
            (r#"{"f":null}"#, "\"f\" is required"),
            (r#"{"f":7}"#, "\"f\" must be a string"),
            (r#"{"f":""}"#, "\"f\" is not allowed to be empty"),
            (r#"{"f":"a"}"#, "\"f\" length must be at least 2 characters long"),
            (r#"{"f":"éééé"}"#, "\"f\" length must be less than or equal to 3 characters long"),
            (r#"{"f":"abc","g":1}"#, "\"g\" is not allowed"),
        ] {
            let read = |fields: &Fields<'_>| {
                fields.required("f")?.text_of(2, 3)?;
                fields.only(&["f"])
            };
            assert_eq!(refusal(body, read), expected, "{body}");
        }
    }

    #[test]
    fn numbers_are_read_digit_by_digit() {
        for (body, expected) in [
            (r#"{"f":99999999999999.9999}"#, "99999999999999.9999"),
            (r#"{"f":"99999999999999.9999"}"#, "99999999999999.9999"),
            (r#"{"f":-0.0001}"#, "-0.0001"),
            (r#"{"f":5000.00}"#, "5000"),
            (r#"{"f":"007.50"}"#, "7.5"),
        ] {
            let json = JsonBody(Bytes::from_static(body.as_bytes()));
            let amount = json.fields().unwrap().required("f").unwrap().decimal().unwrap();
            assert_eq!(amount.to_string(), expected, "{body}");
        }
        for (body, expected) in [
            (r#"{"f":1e3}"#, "\"f\" must be a number in plain decimal digits"),
            (r#"{"f":"ten"}"#, "\"f\" must be a number in plain decimal digits"),
            (r#"{"f":true}"#, "\"f\" must be a number in plain decimal digits"),
            (r#"{"f":{}}"#, "\"f\" must be a number in plain decimal digits"),
            (r#"{"f":0.00001}"#, "\"f\" must have no more than 4 decimal places"),
            (r#"{"f":100000000000000}"#, "\"f\" must have no more than 14 digits before the decimal point"),
        ] {
            assert_eq!(refusal(body, |fields| fields.required("f")?.decimal()), expected, "{body}");
        }
    }

    #[test]
    fn errors_of_flags_objects_arrays_and_names_state_the_rule() {
        let refused = |body, read: fn(&Field<'_>) -> Result<(), ApiError>| {
            refusal(body, |fields| read(&fields.required("f")?))
        };
        assert_eq!(refused(r#"{"f":1}"#, |f| f.flag().map(drop)), "\"f\" must be a boolean");
        assert_eq!(refused(r#"{"f":1}"#, |f| f.object().map(drop)), "\"f\" must be of type object");
        assert_eq!(refused(r#"{"f":{}}"#, |f| f.array(1).map(drop)), "\"f\" must be an array");
        assert_eq!(
            refused(r#"{"f":[1,2]}"#, |f| f.array(1).map(drop)),
            "\"f\" must contain less than or equal to 1 items"
        );
        assert_eq!(refused(r#"{"f":[1]}"#, |f| f.array(1)?[0].text().map(drop)), "\"f[0]\" must be a string");
        assert_eq!(
            refused(r#"{"f":{"g":1}}"#, |f| f.object()?.required("g")?.text().map(drop)),
            "\"f.g\" must be a string"
        );
        assert_eq!(
            refused(r#"{"f":{"g":1}}"#, |f| f.object()?.required("h").map(drop)),
            "\"f.h\" is required"
        );
        assert_eq!(
            refused(r#"{"f":"c"}"#, |f| f.one_of(["a", "b"].iter(), |name| name).map(drop)),
            "\"f\" must be one of [a, b]"
        );
        let currencies = refused(r#"{"f":"kes"}"#, |f| f.currency().map(drop));
        let all: Vec<_> = Currency::all().map(|one| one.as_str().to_owned()).collect();
        assert_eq!(currencies, format!("\"f\" must be one of [{}]", all.join(", ")), "all of them");
        assert_eq!(
            refused(r#"{"f":"7"}"#, |f| f.transfer_id().map(drop)),
            "\"f\" must be a valid GUID or ULID in its usual case"
        );
        assert_eq!(
            refused(r#"{"f":"bänk"}"#, |f| f.participant_name().map(drop)),
            "\"f\" must consist of printable ASCII characters"
        );
    }

    #[test]
    fn content_types_of_json_are_recognised() {
        for (content_type, expected) in [
            ("application/json", true),
            ("application/JSON; charset=utf-8", true),
            ("application/vnd.interoperability.transfers+json;version=1.0", true),
            ("text/plain", false),
            ("application/xml", false),
            ("", false),
        ] {
            assert_eq!(is_json(content_type), expected, "{content_type}");
        }
    }
}
