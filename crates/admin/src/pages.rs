//! HTML pages beside the API, served by the same port.
//!
//! A page has no permissions of its own. It takes over the guard of the operation whose data it shows, so the table of
//! operations stays the only one.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::handler::Handler;
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::Response;

use crate::access::Caller;
use crate::call::{DataScope, Guard, RequiredPermission};
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::page_paths::PagePaths;
use crate::routes::Table;
use crate::visitor::Visitor;

/// The pages of a port, and their answer to errors.
#[derive(Clone, Copy)]
pub struct Pages {
    /// The path of the first page. The paths of all others begin with it and a slash.
    pub root: &'static str,
    /// The path of the login page and its form. The parameters [`crate::NEXT`] and [`crate::EXPIRED`] tell it which
    /// page the user wanted, and whether the browser had a session that has ended.
    pub login: &'static str,
    /// Adds the pages to the table.
    pub add: fn(PageTable) -> PageTable,
    /// Shows an error to a person, in a language of the header `Accept-Language`. The status is the error's.
    pub error: fn(&ApiError, Option<&HeaderValue>) -> Response<Body>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Pages {
    /// Whether a path belongs to the pages.
    pub(crate) fn contain(&self, path: &str) -> bool {
        path.strip_prefix(self.root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether it is the form of the login page. It authenticates, so its caller is not authenticated yet.
    pub(crate) fn is_login(&self, method: &Method, path: &str) -> bool {
        method == Method::POST && path == self.login
    }

    /// Replaces the JSON of an error with a page, and keeps its other headers. A visitor who has to log in is led to
    /// the login page.
    pub(crate) fn explain(
        &self,
        mut response: Response<Body>,
        languages: Option<&HeaderValue>,
        visitor: Option<&Visitor>,
    ) -> Response<Body> {
        let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
        let mut page = match visitor {
            Some(visitor) if error.name == ErrorName::Unauthenticated => {
                response.headers_mut().remove(WWW_AUTHENTICATE);
                visitor.led_to(self.login)
            }
            _ => {
                let mut page = (self.error)(&error, languages);
                *page.status_mut() = response.status();
                page
            }
        };
        let is_of_body = |name: &HeaderName| name.as_str().starts_with("content-");
        for (name, value) in response.headers().iter().filter(|(name, _)| !is_of_body(name)) {
            page.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        page
    }
}

/// The guard of routes for everybody.
const OPEN: Guard = Guard { needs: RequiredPermission::Nothing, reach: DataScope::Scheme };

/// The table of operations. Pages are added to it.
pub struct PageTable(pub(crate) Table);

impl fmt::Debug for PageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageTable").finish_non_exhaustive()
    }
}

impl PageTable {
    /// Adds a page that shows the data of the operation `GET like`, and therefore has its guard.
    ///
    /// # Panics
    /// The operation does not exist.
    #[must_use]
    pub fn page<H, T>(self, path: &'static str, like: &str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        self.like((path, Method::GET), like, handler)
    }

    /// Adds a form that changes nothing, with the guard of `GET like`. The browser sends its fields in the body,
    /// because a URL is stored in histories and logs.
    ///
    /// # Panics
    /// The operation does not exist.
    #[must_use]
    pub fn form<H, T>(self, path: &'static str, like: &str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        self.like((path, Method::POST), like, handler).noting(|paths| paths.forms.push(path))
    }

    /// Adds a page for all authenticated callers. Its handler shows only what [`Reach`] permits.
    #[must_use]
    pub fn common<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        let guard = Guard { needs: RequiredPermission::Identity, reach: DataScope::Own };
        Self(self.0.route((path, Method::GET), guard, handler))
    }

    /// Adds a form for all authenticated callers. It changes their own session only, or makes its changes with
    /// [`PageOperations`](crate::PageOperations), which check the permission.
    #[must_use]
    pub fn common_form<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        let guard = Guard { needs: RequiredPermission::Identity, reach: DataScope::Own };
        Self(self.0.route((path, Method::POST), guard, handler))
    }

    /// Adds the login page for everybody.
    #[must_use]
    pub fn login<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        Self(self.0.route((path, Method::GET), OPEN, handler))
    }

    /// Adds the form of the login page for everybody. Its path is [`Pages::login`].
    #[must_use]
    pub fn login_form<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        Self(self.0.route((path, Method::POST), OPEN, handler))
    }

    /// Adds a file for everybody, such as a style sheet.
    #[must_use]
    pub fn file<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        Self(self.0.route((path, Method::GET), OPEN, handler)).noting(|paths| paths.files.push(path))
    }

    fn noting(mut self, note: impl FnOnce(&mut PagePaths)) -> Self {
        note(&mut self.0.pages);
        self
    }

    /// Adds a route with the guard of `GET like`.
    fn like<H, T>(self, route: (&'static str, Method), like: &str, handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        let guard = self.0.guards.reads.get(like).copied();
        let guard =
            guard.unwrap_or_else(|| panic!("a page shows the data of GET {like}, which is not an operation"));
        Self(self.0.route(route, guard, handler))
    }
}

/// The guards of the operations.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    /// Of `GET`, by path.
    pub(crate) reads: BTreeMap<&'static str, Guard>,
    /// Of other methods.
    pub(crate) changes: HashMap<(Method, &'static str), Guard>,
}

/// The operations that a caller may use. Pages show only links and panels that it permits. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Reach(pub(crate) Arc<Guards>);

impl Reach {
    /// Whether the caller may use the operation `GET path`. For a path with `{name}`, also the participant is needed.
    pub fn may(&self, caller: &Caller, path: &str, name: Option<&str>) -> bool {
        self.0.reads.get(path).is_some_and(|guard| guard.check(caller, name).is_ok())
    }

    /// Whether the caller may use the operation `method path`, which changes something.
    ///
    /// # Errors
    /// It may not.
    pub fn check_change(
        &self,
        caller: &Caller,
        (method, path): (Method, &'static str),
        name: Option<&str>,
    ) -> Result<(), ApiError> {
        let guard = self.0.changes.get(&(method, path)).ok_or_else(ApiError::unknown_path)?;
        guard.check(caller, name)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Reach {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
