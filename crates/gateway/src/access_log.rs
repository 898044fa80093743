//! The access log: one optional line per request.
//!
//! A line contains the request, its sender, the status and the duration. Party identifiers are personal data, so only
//! paths of transfers show their ids. Bodies are never logged.

use http::StatusCode;
use tokio::time::Instant;
use upesi_fspiop::{Route, Segments};

use crate::caller::Caller;
use crate::metrics::Labels;

/// Target of the log lines, for directives such as `upesi_access=off`.
const ACCESS_LOG_TARGET: &str = "upesi_access";

/// Data of a request for its log line. `None` costs nothing.
#[derive(Debug)]
pub(crate) struct Access {
    source: Box<str>,
    id: Box<str>,
}

/// Maximum number of characters of a name or id in a line: the longest valid one fits.
const SHOWN_CHARS_MAX: usize = 128;

fn beginning(text: &str) -> Box<str> {
    text.chars().take(SHOWN_CHARS_MAX).collect::<String>().into()
}

impl Access {
    /// The data of a request, if lines are enabled.
    pub(crate) fn of(is_wanted: bool, caller: Caller<'_>, route: Option<Route<'_>>) -> Option<Self> {
        if !is_wanted {
            return None;
        }
        let id = match route {
            Some(Route { operation, segments: Segments::Id(id) }) if operation.resource().moves_money() => id,
            _ => "-",
        };
        Some(Self { source: beginning(caller.name()), id: beginning(id) })
    }

    pub(crate) fn log(self, labels: Labels, status: StatusCode, received: Instant) {
        let Self { source, id } = self;
        let duration_us = u64::try_from(received.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (Labels { method, resource }, status) = (labels, status.as_u16());
        tracing::info!(target: ACCESS_LOG_TARGET, method, resource, %source, %id, status, duration_us, "answered");
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use upesi_fspiop::Method;

    use super::*;

    #[test]
    fn line_truncates_long_names_and_ids() {
        let (mut headers, long) = (HeaderMap::new(), "x".repeat(60_000));
        headers.insert("fspiop-source", HeaderValue::from_str(&long).unwrap());
        let path = format!("/transfers/{long}");
        let route = Route::resolve(Method::parse("GET"), &path).unwrap();
        let access = Access::of(true, Caller::named(&headers), Some(route)).unwrap();
        assert_eq!((access.source.len(), access.id.len()), (SHOWN_CHARS_MAX, SHOWN_CHARS_MAX));
        assert!(Access::of(false, Caller::named(&headers), Some(route)).is_none());
    }
}
