//! The body of a request: a JSON object whose members are read by name.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use serde_json::value::RawValue;
use upesi_http::Bytes;
use upesi_types::ErrorCode;

use crate::error::ApiError;
use crate::field::Field;

/// The bytes of a body that calls itself JSON.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl JsonBody {
    /// The members of the object, or 400 with 3101.
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
        // The service has read the body within its limits already.
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|error| ApiError::malformed(&error.body_text()))
    }
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = media_type.strip_prefix("application/");
    subtype.is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

/// The members of an object. Of members with the same name the last one counts.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    /// Where the object stands, such as `limit`; empty for the body itself.
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

    /// A member that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<Field<'a>, ApiError> {
        self.optional(name)
            .ok_or_else(|| ApiError::malformed(&format!("\"{}\" is required", self.label_of(name))))
    }

    /// The same for resources of account lookup, which have a code of its own for what is missing: 3102.
    pub(crate) fn required_in_lookup(&self, name: &str) -> Result<Field<'a>, ApiError> {
        self.optional(name).ok_or_else(|| {
            let detail = format!("\"{}\" is required", self.label_of(name));
            ApiError::new(ErrorCode::MISSING_ELEMENT, &detail)
        })
    }

    /// A member that may be missing; `null` counts as missing.
    pub(crate) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let json = self.members.get(name).filter(|json| json.get() != "null")?;
        Some(Field::new(self.label_of(name), json))
    }

    /// Refuses members with other names: a misspelt optional one would otherwise change nothing, in silence.
    pub(crate) fn only(&self, names: &[&str]) -> Result<(), ApiError> {
        match self.members.keys().find(|name| !names.contains(&name.as_str())) {
            Some(other) => Err(ApiError::malformed(&format!("\"{}\" is not allowed", self.label_of(other)))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
