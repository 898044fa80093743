//! Login by an identity provider. The session has the rules of a login with a password.

use askama::Template;
use axum::http::header::{LOCATION, REFRESH, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use upesi_admin::reads::Segments;
use upesi_admin::{
    ApiError, FailedLogin, LOGIN_COOKIE_REMOVED, LoginBegun, NEXT, begin_login, begin_login_again,
    finish_login,
};
use upesi_types::text::url_part;

use super::login;
use crate::next::Next;
use crate::page::{Frame, LOGIN, PageCall, html, see_other, url};

/// The page after a login. The provider has led the browser here from its own site, so the browser would not send the
/// session with a redirection. It sends it with a request that this page causes.
#[derive(Template)]
#[template(path = "logged_in.html")]
struct LoggedInPage {
    frame: Frame,
    next: Next,
}

/// The link that begins a login by a provider.
pub fn begin_url(label: &str, next: &Next) -> String {
    url(&format!("{LOGIN}/with/{}", url_part(label)), &[(NEXT, next.as_str())])
}

/// Leads the browser to a provider.
pub async fn begin(page: PageCall, Segments(label): Segments<String>) -> Result<Response, ApiError> {
    let next = Next::or_overview(page.parameters.get(NEXT));
    if !page.context.access.is_required() || page.call.caller().has_session() {
        return Ok(see_other(next.as_str()));
    }
    // No other site begins a login.
    if page.is_from_another_site {
        return Ok(to_login_page(&next));
    }
    match begin_login(&page.call, &label, next.as_str()).await {
        Ok(begun) => Ok(led_to(begun)),
        Err(error) => login::failed_with(&page, next, &error).await,
    }
}

/// Leads a user of an identity provider to it, where the user must log in again. Other users go on to the wanted page.
pub async fn again(page: PageCall) -> Result<Response, ApiError> {
    let next = Next::or_overview(page.parameters.get(NEXT));
    if page.call.caller().login_provider().is_none() {
        let is_in = !page.context.access.is_required() || page.call.caller().has_session();
        return Ok(if is_in { see_other(next.as_str()) } else { to_login_page(&next) });
    }
    if page.is_from_another_site {
        return Ok(see_other(next.as_str()));
    }
    match begin_login_again(&page.call, next.as_str()).await {
        Ok(begun) => Ok(led_to(begun)),
        Err(error) => login::failed_with(&page, next, &error).await,
    }
}

fn to_login_page(next: &Next) -> Response {
    see_other(&url(LOGIN, &[(NEXT, next.as_str())]))
}

/// The redirection to the provider.
fn led_to(begun: LoginBegun) -> Response {
    let mut response = see_other(LOGIN);
    let headers = response.headers_mut();
    headers.insert(LOCATION, begun.location);
    headers.insert(SET_COOKIE, begun.cookie);
    response
}

/// Takes the answer of a provider, and leads to the wanted page with a new session.
pub async fn finish(
    page: PageCall,
    Segments(label): Segments<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !page.context.access.is_required() {
        return Ok(see_other(LOGIN));
    }
    let finished = match finish_login(&page.call, &label, &headers, &page.parameters).await {
        Ok(finished) => finished,
        Err(FailedLogin { error, next }) => {
            let mut response = login::failed_with(&page, Next::or_overview(next.as_deref()), &error).await?;
            response.headers_mut().insert(SET_COOKIE, LOGIN_COOKIE_REMOVED);
            return Ok(response);
        }
    };
    let next = Next::or_overview(Some(&finished.next));
    let refresh = HeaderValue::try_from(format!("0;url={}", next.as_str()));
    let refresh = refresh.map_err(|_| ApiError::fault("the wanted page is not a valid header"))?;
    let mut response =
        html(&LoggedInPage { frame: Frame::bare(page.words.logged_in_title, page.words), next })?;
    let headers = response.headers_mut();
    headers.insert(SET_COOKIE, finished.session.into_cookie()?);
    headers.append(SET_COOKIE, LOGIN_COOKIE_REMOVED);
    headers.insert(REFRESH, refresh);
    Ok(response)
}
