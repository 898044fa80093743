//! One call: the context with the caller of a request.

use std::convert::Infallible;
use std::ops::Deref;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use upesi_types::FspId;

use crate::access::{Caller, Permission, SharedCaller, forbidden};
use crate::context::AdminContext;
use crate::error::ApiError;

/// What an operation needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: anybody may ask.
    Nothing,
    /// That the caller says who it is.
    Identity,
    /// One of these permissions. Which one, an operation that names several decides by what it is asked; a change of
    /// the ledger is checked again by [`AdminContext::change`].
    OneOf(&'static [Permission]),
}

/// On whose data an operation works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On the whole scheme's: a DFSP's operators are refused.
    Scheme,
    /// On those of the participant `{name}` of the path, which must be the caller's own.
    Named,
    /// On what the handler finds to be the caller's own.
    Own,
}

/// What a route asks of its callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) needs: Needs,
    pub(crate) reach: Reach,
}

/// Lets a request through to its handler, or refuses it.
pub(crate) async fn admit(
    State((guard, context)): State<(Guard, AdminContext)>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let call = Call::by(request.extensions().get().cloned(), &context);
    if let Err(error) = guard.check(&call.caller, parameters.ok().as_ref()) {
        let action = match guard.needs {
            Needs::OneOf(permissions) => permissions.first().copied(),
            Needs::Nothing | Needs::Identity => None,
        };
        if let Some(permission) = action {
            let object = format!("{} {}", request.method(), request.uri().path());
            call.refused(permission, object, &error).await;
        }
        return error.into_response();
    }
    next.run(request).await
}

impl Guard {
    /// What a path has that is no text is refused by its handler.
    fn check(&self, caller: &Caller, parameters: Option<&RawPathParams>) -> Result<(), ApiError> {
        match self.needs {
            Needs::Nothing => return Ok(()),
            Needs::Identity => caller.check_known()?,
            Needs::OneOf(permissions) => caller.check(permissions)?,
        }
        let Some(own) = &caller.participant else { return Ok(()) };
        let is_own = |name: &str| FspId::parse(name).is_some_and(|name| name == *own);
        let reaches = match self.reach {
            Reach::Scheme => self.needs == Needs::Identity,
            Reach::Named => parameters
                .is_some_and(|found| found.iter().any(|(key, value)| key == "name" && is_own(value))),
            Reach::Own => true,
        };
        if reaches { Ok(()) } else { Err(forbidden(&format!("is not of participant {own}"))) }
    }
}

/// The context of a request.
pub(crate) struct Call(pub(crate) AdminContext);

impl Call {
    fn by(caller: Option<SharedCaller>, context: &AdminContext) -> Self {
        let mut context = context.clone();
        if let Some(caller) = caller {
            context.caller = caller;
        }
        Self(context)
    }
}

impl Deref for Call {
    type Target = AdminContext;

    fn deref(&self) -> &AdminContext {
        &self.0
    }
}

impl FromRequestParts<AdminContext> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, context: &AdminContext) -> Result<Self, Infallible> {
        Ok(Self::by(parts.extensions.get().cloned(), context))
    }
}
