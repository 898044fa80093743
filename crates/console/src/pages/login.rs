//! The login page; login and logout of the hub's own users. The session is the API's; the browser keeps its token in a
//! cookie.

use askama::Template;
use axum::body::Bytes;
use axum::http::header::{SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use upesi_admin::reads::Parameters;
use upesi_admin::{ApiError, EXPIRED, Login, LoginProvider, NEXT, log_in, log_out, login_providers};
use upesi_ledger::OPERATOR_NAME_BYTES_MAX;
use upesi_types::text::escape;

use super::provider_login::begin_url;
use crate::next::Next;
use crate::page::{Frame, LOGIN, PageCall, html, see_other, url};
use crate::words::{Words, fill};

/// Parameter of the login page: the user has logged out.
const LOGGED_OUT: &str = "out";
/// Removes pages that the browser keeps, although it is told not to store them. Cookies of other ports stay.
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    /// The form; `None` if the hub has no users who could use it.
    form: Option<Form>,
    /// What happened before: the end of a session.
    notice: Option<&'static str>,
    failure: Option<Failure>,
    /// The identity providers that log users in.
    providers: Vec<ProviderButton>,
    /// Whether there are other identity providers.
    has_other_provider: bool,
    /// The wanted page, if the browser did not send the cookie because a page of another site has the link.
    retry: Option<Next>,
}

/// A link to an identity provider.
struct ProviderButton {
    href: String,
    label: String,
}

impl ProviderButton {
    fn of(provider: &LoginProvider, next: &Next, words: &'static Words) -> Self {
        let text = if provider.is_of_dfsps { words.login_with_of_dfsps } else { words.login_with };
        let label = fill(text, &[("provider", &escape(&provider.host))]);
        Self { href: begin_url(provider.label, next), label }
    }
}

struct Form {
    next: Next,
    /// The name as typed.
    name: String,
}

/// A failed attempt.
struct Failure {
    explanation: &'static str,
    description: String,
}

impl Failure {
    fn of(error: &ApiError, words: &'static Words) -> Self {
        let explanation = match error.status() {
            StatusCode::UNAUTHORIZED => words.login_wrong,
            StatusCode::BAD_REQUEST => words.login_malformed,
            _ => words.login_later,
        };
        Self::explained(explanation, error)
    }

    /// The failure of a login by an identity provider.
    fn of_provider(error: &ApiError, words: &'static Words) -> Self {
        let explanation = match error.status() {
            StatusCode::UNAUTHORIZED => words.login_rejected,
            StatusCode::FORBIDDEN => words.login_no_role,
            StatusCode::BAD_REQUEST => words.login_ended,
            _ => words.login_later,
        };
        Self::explained(explanation, error)
    }

    fn explained(explanation: &'static str, error: &ApiError) -> Self {
        Self { explanation, description: escape(error.description()).into_owned() }
    }
}

/// The login page.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let next = Next::or_overview(page.parameters.get(NEXT));
    if !page.context.access.is_required() || page.call.caller().has_session() {
        return Ok(see_other(next.as_str()));
    }
    let words = page.words;
    let notice = if page.parameters.get(LOGGED_OUT).is_some() {
        Some(words.login_out)
    } else {
        page.parameters.get(EXPIRED).map(|_| words.login_expired)
    };
    let retry = page.is_from_another_site.then(|| next.clone());
    let mut login = LoginPage { notice, retry, ..login_page(&page, &next) };
    login.form = has_users(&page).await?.then(|| Form { next, name: String::new() });
    html(&login)
}

/// The page without a form.
fn login_page(page: &PageCall, next: &Next) -> LoginPage {
    let providers = login_providers(&page.context.access);
    let has_other_provider = providers.is_empty() && page.context.access.has_provider();
    let providers = providers.iter().map(|provider| ProviderButton::of(provider, next, page.words));
    LoginPage {
        frame: frame(page),
        form: None,
        notice: None,
        failure: None,
        providers: providers.collect(),
        has_other_provider,
        retry: None,
    }
}

/// The page after a login by an identity provider has failed.
pub async fn failed_with(page: &PageCall, next: Next, error: &ApiError) -> Result<Response, ApiError> {
    let mut login = login_page(page, &next);
    login.failure = Some(Failure::of_provider(error, page.words));
    login.form = has_users(page).await?.then(|| Form { next, name: String::new() });
    answered(&login, error)
}

fn frame(page: &PageCall) -> Frame {
    Frame::bare(page.words.login_title, page.words)
}

/// Whether an operator can log in with a password.
async fn has_users(page: &PageCall) -> Result<bool, ApiError> {
    let has_users = page.ask(|ledger| {
        ledger.operators().iter().any(|operator| operator.is_active && operator.person.is_some())
    });
    Ok(has_users.await?.1)
}

/// Takes name, password and code from the body, and leads to the wanted page.
pub async fn submit(page: PageCall, body: Bytes) -> Result<Response, ApiError> {
    let body = std::str::from_utf8(&body).map_err(|_| ApiError::malformed("the form is not encoded"))?;
    let form = Parameters::parse(body)?;
    let next = Next::or_overview(form.get(NEXT));
    if !page.context.access.is_required() {
        return Ok(see_other(next.as_str()));
    }
    match open_session(&page, &form).await {
        Ok(cookie) => {
            let mut response = see_other(next.as_str());
            response.headers_mut().insert(SET_COOKIE, cookie);
            Ok(response)
        }
        Err(error) => {
            let name: String =
                form.get("operator").unwrap_or_default().chars().take(OPERATOR_NAME_BYTES_MAX).collect();
            failed(&page, Form { next, name: escape(&name).into_owned() }, &error)
        }
    }
}

/// Opens a session. Returns its cookie.
async fn open_session(page: &PageCall, form: &Parameters) -> Result<HeaderValue, ApiError> {
    log_in(&page.call, Login::of_form(form)?).await?.into_cookie()
}

/// The form again. Only the name is kept.
fn failed(page: &PageCall, form: Form, error: &ApiError) -> Result<Response, ApiError> {
    let mut login = login_page(page, &form.next);
    login.failure = Some(Failure::of(error, page.words));
    login.form = Some(form);
    answered(&login, error)
}

/// The page with the status of an error.
fn answered(login: &LoginPage, error: &ApiError) -> Result<Response, ApiError> {
    let mut response = html(login)?;
    *response.status_mut() = error.status();
    if error.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    Ok(response)
}

/// Ends the session.
pub async fn end(page: PageCall) -> Result<Response, ApiError> {
    let removed = log_out(&page.call).await?;
    let mut response = see_other(&url(LOGIN, &[(LOGGED_OUT, "1")]));
    let headers = response.headers_mut();
    headers.insert(SET_COOKIE, removed);
    headers.insert(CLEAR_SITE_DATA, HeaderValue::from_static("\"cache\""));
    Ok(response)
}
