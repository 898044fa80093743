//! The session cookie, with which a browser authenticates requests for pages, and the cookie of a login by an identity
//! provider that is in progress.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

use super::Token;

/// Its name. Browsers accept this prefix only from the host itself, with `Secure` and for all paths. So neither another
/// host of the domain nor a page without TLS can set the cookie.
const NAME: &str = "__Host-upesi-session";
/// It has no expiry: the hub ends the session, and browsers remove the cookie when they close.
const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";
/// The cookie of a login in progress. The provider leads the browser back from its own site, so `Strict` would leave
/// the cookie out.
const LOGIN_NAME: &str = "__Host-upesi-login";
const LOGIN_ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Lax";

/// The values of all cookies of a name in a request. Other cookies of the host may contain any bytes.
fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    let all = headers.get_all(COOKIE).iter().flat_map(|header| header.as_bytes().split(|byte| *byte == b';'));
    all.filter_map(move |cookie| cookie.trim_ascii_start().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Whether a request has a session cookie, valid or not.
pub(super) fn is_sent(headers: &HeaderMap) -> bool {
    values(headers, NAME).next().is_some()
}

/// The cookie of a login in progress; `None` if there is none, or if there are several.
pub(crate) fn login(headers: &HeaderMap) -> Option<&str> {
    let mut values = values(headers, LOGIN_NAME);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    std::str::from_utf8(value).ok()
}

/// The header `Set-Cookie` that stores a login in progress for a number of seconds.
pub(crate) fn set_login(value: &str, age_s: i64) -> Option<HeaderValue> {
    let cookie = format!("{LOGIN_NAME}={value}; {LOGIN_ATTRIBUTES}; Max-Age={age_s}");
    let mut value = HeaderValue::try_from(cookie).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header `Set-Cookie` that removes the cookie of a login.
pub(crate) const LOGIN_REMOVED: HeaderValue =
    HeaderValue::from_static("__Host-upesi-login=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0");

/// The token in the session cookie; `None` if the form is wrong, or if there are several cookies.
pub(super) fn token(headers: &HeaderMap) -> Option<Token> {
    let mut values = values(headers, NAME);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    Token::received(std::str::from_utf8(value).ok()?)
}

/// The header `Set-Cookie` that stores the token of a new session.
pub(crate) fn set(token: Token) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("{NAME}={}; {ATTRIBUTES}", token.reveal())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header `Set-Cookie` that removes the cookie.
pub(crate) const REMOVED: HeaderValue =
    HeaderValue::from_static("__Host-upesi-session=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0");

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&[u8]]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, HeaderValue::from_bytes(line).unwrap())).collect()
    }

    #[test]
    fn token_is_read_from_the_only_session_cookie() {
        let value = Token::session().unwrap().reveal();
        let cookie = format!("{NAME}={value}");
        for (lines, is_sent_here, is_read) in [
            (&[cookie.as_bytes()][..], true, true),
            (&[format!("a=1; {cookie}; b=2").as_bytes()], true, true),
            (&[format!("a=1;{cookie}").as_bytes()], true, true),
            (&["a=ü".as_bytes(), cookie.as_bytes()], true, true),
            (&[], false, false),
            (&[b"a=1; b"], false, false),
            (&[format!("x{cookie}").as_bytes()], false, false),
            (&[format!("a={cookie}").as_bytes()], false, false),
            (&[cookie.replace("__Host", "__host").as_bytes()], false, false),
            (&[NAME.as_bytes()], false, false),
            (&[format!("{NAME}=").as_bytes()], true, false),
            (&[format!("{NAME}=\"{value}\"").as_bytes()], true, false),
            (&[format!("{NAME}=ü{value}").as_bytes()], true, false),
            (&[format!("{cookie}; {cookie}").as_bytes()], true, false),
            (&[cookie.as_bytes(), format!("{NAME}=x").as_bytes()], true, false),
        ] {
            let headers = of(lines);
            assert_eq!(is_sent(&headers), is_sent_here, "{lines:?}");
            assert_eq!(token(&headers).map(Token::reveal), is_read.then(|| value.clone()), "{lines:?}");
        }
    }

    #[test]
    fn cookie_has_all_attributes_and_prints_as_a_mask() {
        let token = Token::session().unwrap();
        let value = token.clone().reveal();
        let header = set(token).unwrap();
        let attributes = "Path=/; Secure; HttpOnly; SameSite=Strict";
        assert_eq!(header.to_str().unwrap(), format!("__Host-upesi-session={value}; {attributes}"));
        assert!(!format!("{header:?}").contains(&value));
        assert_eq!(REMOVED, format!("__Host-upesi-session=; {attributes}; Max-Age=0"));
    }
}
