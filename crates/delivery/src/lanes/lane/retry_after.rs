//! `Retry-After` of a DFSP (RFC 9110 §10.2.3).

use std::time::Duration;

use upesi_http::HeaderMap;
use upesi_http::header::{DATE, HeaderName, RETRY_AFTER};
use upesi_types::Timestamp;

/// Longest delay that a DFSP can request. A longer one is shortened, so that a mistake does not outlast the deadline.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The delay that an answer requests: in seconds, or until a time on the clock of the answer's own `Date`.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(asked.parse().map_or(WAIT_MAX, Duration::from_secs).min(WAIT_MAX));
    }
    let instant = |text| Timestamp::parse_http_date(text).map(Timestamp::as_ms);
    let wait_ms = instant(asked)? - instant(text(DATE)?)?;
    Some(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)).min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_seconds_and_dates_are_parsed_and_limited() {
        let date = "Tue, 01 Apr 2031 12:00:00 GMT";
        for (asked, date, expected) in [
            (Some("0"), None, Some(0)),
            (Some("7"), None, Some(7)),
            (Some(" 120 "), None, Some(120)),
            (Some("301"), None, Some(300)),
            (Some("99999999999999999999999"), None, Some(300)),
            (Some("Tue, 01 Apr 2031 12:00:30 GMT"), Some(date), Some(30)),
            (Some("Tue, 01 Apr 2031 13:00:00 GMT"), Some(date), Some(300)),
            (Some("Tue, 01 Apr 2031 11:00:00 GMT"), Some(date), Some(0)),
            (Some("Tue, 01 Apr 2031 12:00:30 GMT"), None, None),
            (Some("-1"), Some(date), None),
            (Some("soon"), Some(date), None),
            (Some(""), Some(date), None),
            (None, Some(date), None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(RETRY_AFTER, asked), (DATE, date)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{asked:?}");
        }
    }
}
