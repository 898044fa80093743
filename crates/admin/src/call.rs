//! One call: the caller of a request, with the engine that serves it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection, RawPathParamsRejection};
use axum::extract::{FromRequestParts, Path, Query, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;
use upesi_engine::EngineHandle;
use upesi_ledger::{AccountId, Ledger};
use upesi_types::{Currency, FspId, Timestamp, TransferId};

use crate::access::{Access, Caller, Permission, SharedCaller, forbidden};
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::searches::Searches;
use crate::shown::shown;

/// The caller's permissions that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredPermission {
    /// None: the operation is open to unauthenticated clients.
    Nothing,
    /// The caller must be authenticated.
    Identity,
    /// One of these permissions. If there are several, the operation determines the necessary one from the request.
    /// [`Call::change`] checks changes of the ledger again.
    OneOf(&'static [Permission]),
}

/// The data that an operation may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataScope {
    /// Data of the whole scheme: operators of a DFSP are rejected.
    Scheme,
    /// Data of the participant `{name}` in the path, which must be the caller's own.
    Named,
    /// Data that the handler restricts to the caller's own.
    Own,
}

/// Requirements of a route for its callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) needs: RequiredPermission,
    pub(crate) reach: DataScope,
}

/// Passes a request to its handler, or rejects it.
pub(crate) async fn admit(
    State((guard, context)): State<(Guard, AdminContext)>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let call = Call::by(request.extensions().get().cloned(), &context);
    let parameters = parameters.ok();
    let mut named = parameters.iter().flatten().filter(|(key, _)| *key == "name");
    if let Err(error) = guard.check(&call.caller, named.next().map(|(_, name)| name)) {
        let action = match guard.needs {
            RequiredPermission::OneOf(permissions) => permissions.first().copied(),
            RequiredPermission::Nothing | RequiredPermission::Identity => None,
        };
        if let Some(permission) = action {
            let object = format!("{} {}", request.method(), shown(request.uri().path()));
            call.refused(permission, object, &error).await;
        }
        return error.into_response();
    }
    next.run(request).await
}

impl Guard {
    /// Checks a caller of the route, and the participant that its path names. Segments of a path that are not text are
    /// rejected by the handler.
    pub(crate) fn check(&self, caller: &Caller, name: Option<&str>) -> Result<(), ApiError> {
        match self.needs {
            RequiredPermission::Nothing => return Ok(()),
            RequiredPermission::Identity => caller.check_known()?,
            RequiredPermission::OneOf(permissions) => caller.check(permissions)?,
        }
        let Some(own) = &caller.participant else { return Ok(()) };
        let is_own = |name: &str| FspId::parse(name).is_some_and(|name| name == *own);
        let reaches = match self.reach {
            DataScope::Scheme => self.needs == RequiredPermission::Identity,
            DataScope::Named => name.is_some_and(is_own),
            DataScope::Own => true,
        };
        if reaches {
            return Ok(());
        }
        Err(forbidden(ErrorName::OtherParticipant, &format!("is not of participant {own}")))
    }
}

/// A request's caller, with the engine that serves it. Cheap to clone.
#[derive(Clone)]
pub struct Call {
    pub(crate) engine: EngineHandle,
    pub(crate) access: Access,
    pub(crate) caller: SharedCaller,
    pub(crate) searches: Searches,
}

impl Call {
    fn by(caller: Option<SharedCaller>, context: &AdminContext) -> Self {
        let (engine, access) = (context.engine.clone(), context.access.clone());
        let caller = caller.unwrap_or_else(|| Arc::new(access.stranger(None)));
        Self { engine, access, caller, searches: context.searches.clone() }
    }

    /// The caller of the request.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Queries the durable state.
    ///
    /// # Errors
    /// The engine has stopped or is busy.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.engine.read(question).await?)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl FromRequestParts<AdminContext> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, context: &AdminContext) -> Result<Self, Infallible> {
        Ok(Self::by(parts.extensions.get().cloned(), context))
    }
}

// Parts of a request's path and query, with errors in this API's form.

/// The variable segments of a path.
#[derive(Clone, Debug)]
pub struct Segments<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(segments)| Self(segments))
            .map_err(|error: PathRejection| ApiError::malformed(&error.body_text()))
    }
}

/// The query's parameters; an empty value counts as missing.
#[derive(Clone, Debug, Default)]
pub struct Parameters(pub(crate) BTreeMap<String, String>);

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
    /// The parameters of an encoded query, such as `a=1&b=2`.
    ///
    /// # Errors
    /// The text is not an encoded query, or names a parameter twice.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let uri =
            format!("/?{query}").parse().map_err(|_| ApiError::malformed("the query is not encoded"))?;
        let read = Query::<BTreeMap<String, String>>::try_from_uri(&uri);
        read.map(|Query(parameters)| Self(parameters))
            .map_err(|error| ApiError::malformed(&error.body_text()))
    }

    /// Parameters with these names and values.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// All parameters that have a value, by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(_, value)| !value.is_empty())
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::malformed(&format!("\"{name}\" is required")))
    }

    /// Rejects unknown parameters. Otherwise, a misspelt filter would silently have no effect.
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

    /// An instant, with or without milliseconds.
    pub(crate) fn instant(&self, name: &str) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let refuse = || format!("\"{name}\" must be an instant such as 2026-11-21T09:39:53Z");
        Timestamp::parse_rfc3339(text).map(Some).ok_or_else(|| ApiError::malformed(&refuse()))
    }

    /// A whole number from 1 to `max`.
    pub(crate) fn count(&self, name: &str, default: usize, max: usize) -> Result<usize, ApiError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse()
            .ok()
            .filter(|count| (1..=max).contains(count))
            .ok_or_else(|| ApiError::malformed(&format!("\"{name}\" must be a whole number from 1 to {max}")))
    }

    /// Whether a flag is set: to any value except `false` and `0`.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }
}

/// The participant in a path. Invalid names count as unknown participants.
pub(crate) fn participant_name(text: &str) -> Result<FspId, ApiError> {
    FspId::parse(text).ok_or_else(|| ApiError::unknown_participant(text))
}

pub(crate) fn account_id(text: &str) -> Result<AccountId, ApiError> {
    text.parse()
        .ok()
        .and_then(AccountId::new)
        .ok_or_else(|| ApiError::malformed("\"id\" must be a positive number"))
}

pub(crate) fn transfer_id(text: &str) -> Result<TransferId, ApiError> {
    TransferId::parse(text)
        .ok_or_else(|| ApiError::malformed("\"transferId\" must be a valid GUID or ULID in its usual case"))
}
