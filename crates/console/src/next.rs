//! The page that a user wanted before the login. It is part of a link, so anyone may have written it.

use axum::http::Uri;
use upesi_admin::NEXT_BYTES_MAX;

use crate::page::{LOGIN, LOGOUT, ROOT};

/// A page of the console, with its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next(String);

impl Next {
    /// Reads a path with a query; `None` if it may lead anywhere else than to a page of the console.
    pub fn parse(text: &str) -> Option<Self> {
        let is_url_char = |byte: u8| byte.is_ascii_graphic() && !b"\\#\"<>^`{|}".contains(&byte);
        if text.len() > NEXT_BYTES_MAX || !text.bytes().all(is_url_char) {
            return None;
        }
        let uri: Uri = text.parse().ok()?;
        let is_of_login =
            uri.path().strip_prefix(LOGIN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if uri.scheme().is_some() || uri.authority().is_some() || is_of_login || uri.path() == LOGOUT {
            return None;
        }
        let rest = uri.path().strip_prefix(ROOT)?;
        // The first part is what precedes the first slash: nothing.
        let mut parts = rest.split('/');
        let is_page = parts.next() == Some("") && parts.all(is_name);
        is_page.then(|| uri.path_and_query().map(|wanted| Self(wanted.to_string())))?
    }

    /// The wanted page, or the overview.
    pub fn or_overview(text: Option<&str>) -> Self {
        text.and_then(Self::parse).unwrap_or_else(|| Self(ROOT.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a part of a path is a name that browsers and proxies leave as it is.
fn is_name(part: &str) -> bool {
    let Some(name) = decoded(part) else { return false };
    let is_control = |byte: &u8| byte.is_ascii_control() || b"/\\".contains(byte);
    !name.iter().any(is_control) && ![&b""[..], b".", b".."].contains(&&*name)
}

/// A part of a path without its percent-encoding; `None` if it is malformed.
fn decoded(part: &str) -> Option<Vec<u8>> {
    let digit = |byte: Option<u8>| u8::try_from(char::from(byte?).to_digit(16)?).ok();
    let (mut bytes, mut decoded) = (part.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            byte => byte,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_console_are_accepted_with_their_query() {
        for wanted in [
            "/console",
            "/console?sort-dfsps=-free",
            "/console/participants",
            "/console/participants/green%20bank",
            "/console/participants/.well",
            "/console/participants/...",
            "/console/transfers?q=amount%3A100%20state%3Aaborted&csv=transfers",
            "/console/transfers?q=//evil.example/..",
            "/console/transfers/7c6f0000-0000-4000-8000-000000000001",
        ] {
            assert_eq!(Next::parse(wanted).unwrap().as_str(), wanted);
        }
        let long = format!("/console/transfers?q={}", "x".repeat(NEXT_BYTES_MAX - 21));
        assert_eq!(Next::parse(&long).unwrap().as_str(), long);
    }

    #[test]
    fn everything_else_leads_to_the_overview() {
        let long = format!("/console/transfers?q={}", "x".repeat(NEXT_BYTES_MAX - 20));
        for wanted in [
            "",
            "/",
            "*",
            "console",
            "?next=/console",
            "//evil.example",
            "//evil.example/console",
            "///console",
            "/\\evil.example",
            "\\\\evil.example\\console",
            "/console\\..\\..\\evil",
            "/console/\\evil.example",
            "https://evil.example/console",
            "http:/console",
            "https:console",
            "javascript:alert(1)",
            "data:text/html,x",
            "@evil.example/console",
            "/console@evil.example",
            "/consoles",
            "/console.evil.example",
            "/console/",
            "/console//evil.example",
            "/console/../participants",
            "/console/..",
            "/console/./participants",
            "/console/%2e%2e/participants",
            "/console/%2E./participants",
            "/console/.%2e",
            "/console/..%2fparticipants",
            "/console/%5c..",
            "/console/%0d%0aset-cookie:%20a=b",
            "/console\r\nset-cookie: a=b",
            "/console\r\n\r\n<script>",
            "/console\t/x",
            "/console/\u{0}",
            "/console/%00",
            "/console/%zz",
            "/console/%2",
            "/console/%",
            "/console#//evil.example",
            "/console/ü",
            "/console /x",
            " /console",
            "/participants",
            "/v2/settlements",
            "/sessions",
            "/console/login",
            "/console/login?next=/console",
            "/console/login/again?next=/console",
            "/console/login/with/oidc",
            "/console/login/return/oidc?code=x&state=y",
            "/console/logout",
            &long,
        ] {
            assert_eq!(Next::parse(wanted), None, "{wanted:?}");
            assert_eq!(Next::or_overview(Some(wanted)).as_str(), "/console", "{wanted:?}");
        }
        assert_eq!(Next::or_overview(None).as_str(), "/console");
    }
}
