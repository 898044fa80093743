//! Parts of a request's path and query, with refusals in this API's form.

use std::collections::BTreeMap;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use upesi_ledger::AccountId;
use upesi_types::{Currency, FspId, TransferId};

use crate::error::ApiError;

/// The variable segments of a path.
pub(crate) struct Segments<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(segments)| Self(segments))
            .map_err(|error: PathRejection| ApiError::malformed(&error.body_text()))
    }
}

/// The query's parameters; an empty value counts as a missing one.
pub(crate) struct Parameters(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        query
            .map(|Query(parameters)| Self(parameters))
            .map_err(|error: QueryRejection| ApiError::malformed(&error.body_text()))
    }
}

impl Parameters {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::malformed(&format!("\"{name}\" is required")))
    }

    /// Refuses parameters of other names, which would be passed over where they were meant to narrow something.
    pub(crate) fn only(&self, names: &[&str]) -> Result<(), ApiError> {
        match self.0.keys().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(ApiError::malformed(&format!("\"{name}\" is not allowed"))),
        }
    }

    pub(crate) fn currency(&self) -> Result<Option<Currency>, ApiError> {
        let Some(text) = self.get("currency") else { return Ok(None) };
        match Currency::parse(text) {
            Some(currency) => Ok(Some(currency)),
            None => Err(ApiError::malformed("\"currency\" must be an ISO 4217 code in capital letters")),
        }
    }

    /// A whole number from 1 to `max`.
    pub(crate) fn count(&self, name: &str, default: usize, max: usize) -> Result<usize, ApiError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse()
            .ok()
            .filter(|count| (1..=max).contains(count))
            .ok_or_else(|| ApiError::malformed(&format!("\"{name}\" must be a whole number from 1 to {max}")))
    }

    /// Whether a flag is set: any value but `false` and `0`.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }
}

/// The participant that a path names. What cannot be a name is the name of nobody.
pub(crate) fn participant_name(text: &str) -> Result<FspId, ApiError> {
    FspId::parse(text).ok_or_else(|| ApiError::unknown_participant(text))
}

/// The account that a path names.
pub(crate) fn account_id(text: &str) -> Result<AccountId, ApiError> {
    text.parse()
        .ok()
        .and_then(AccountId::new)
        .ok_or_else(|| ApiError::malformed("\"id\" must be a positive number"))
}

/// The transfer that a path names.
pub(crate) fn transfer_id(text: &str) -> Result<TransferId, ApiError> {
    TransferId::parse(text)
        .ok_or_else(|| ApiError::malformed("\"transferId\" must be a valid GUID or ULID in its usual case"))
}
