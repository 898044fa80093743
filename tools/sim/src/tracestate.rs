//! The instants that load scripts and simulators leave in `tracestate`, to tell afterwards what took how long.
//!
//! A script writes when it sent its request, and who answers adds when the answer left. Hubs pass the text on as it
//! is, so that both arrive with the answer. It is a list of `key=value` (W3C Trace Context §3.3) in which others
//! may have members too.

use std::fmt::Write as _;

use upesi_http::{HeaderMap, HeaderValue};
use upesi_types::Timestamp;

use crate::message::TRACESTATE;

/// When the request of an exchange was sent, in milliseconds since 1970.
pub(crate) const END_TO_END_START: &str = "tx_end2end_start_ts";
/// When its answer was sent, the same.
pub(crate) const CALLBACK_START: &str = "tx_callback_start_ts";

/// Most members of a list (W3C Trace Context §3.3.1.1).
const MEMBERS_MAX: usize = 32;
/// As much of a list as everybody passes on (W3C Trace Context §3.3.1.5).
const BYTES_MAX: usize = 512;

/// The list that a message carries, if it carries one.
pub(crate) fn of(headers: &HeaderMap) -> Option<&str> {
    headers.get(TRACESTATE)?.to_str().ok()
}

/// The instant under a key, in milliseconds since 1970; `None` where the list has none, or something else there.
pub(crate) fn instant_ms(list: &str, key: &str) -> Option<i64> {
    let value = list.split(',').take(MEMBERS_MAX).find_map(|member| value_of(member, key))?;
    if value.bytes().all(|byte| byte.is_ascii_digit()) { value.parse().ok() } else { None }
}

/// The headers of an answer that leaves now; `None` where they stay as they are, since nobody wants to know, or the
/// list has no room.
pub(crate) fn leaving(headers: &HeaderMap, now: impl FnOnce() -> Timestamp) -> Option<HeaderMap> {
    let list = with_callback_start(of(headers)?, now().as_ms())?;
    let mut headers = headers.clone();
    headers.insert(TRACESTATE, HeaderValue::try_from(list).ok()?);
    Some(headers)
}

/// The list with the instant at which the answer leaves; `None` where it does not say when the exchange began, or
/// has no room. What is new stands last, although the standard puts it first: readers may look for the script's
/// member where the script put it.
fn with_callback_start(list: &str, ms: i64) -> Option<String> {
    instant_ms(list, END_TO_END_START)?;
    let mut longer = String::with_capacity(list.len() + CALLBACK_START.len() + 24);
    let mut members = 1;
    for member in list.split(',').filter(|member| value_of(member, CALLBACK_START).is_none()) {
        longer.push_str(member);
        longer.push(',');
        members += 1;
    }
    // Writing into a String cannot fail.
    let _ = write!(longer, "{CALLBACK_START}={ms}");
    (members <= MEMBERS_MAX && longer.len() <= BYTES_MAX).then_some(longer)
}

/// The value of a member, if it has that key.
fn value_of<'list>(member: &'list str, key: &str) -> Option<&'list str> {
    member.trim().strip_prefix(key)?.strip_prefix('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_found_among_other_members() {
        let far = format!("{}tx_end2end_start_ts=7", "v=1,".repeat(MEMBERS_MAX));
        for (list, expected) in [
            ("tx_end2end_start_ts=1700000000000", Some(1_700_000_000_000)),
            ("vendor=x, tx_end2end_start_ts=17\t,tx_callback_start_ts=18", Some(17)),
            ("tx_end2end_start_ts=9223372036854775807", Some(i64::MAX)),
            // Absent.
            ("", None),
            (",,", None),
            ("vendor=x,tx_callback_start_ts=18", None),
            ("own_tx_end2end_start_ts=17", None),
            ("tx_end2end_start_ts_own=17", None),
            ("tx_end2end_start_ts", None),
            // Malformed.
            ("tx_end2end_start_ts=", None),
            ("tx_end2end_start_ts=soon", None),
            ("tx_end2end_start_ts=17.5", None),
            ("tx_end2end_start_ts=-17", None),
            ("tx_end2end_start_ts=+17", None),
            ("tx_end2end_start_ts =17", None),
            ("tx_end2end_start_ts=soon,tx_end2end_start_ts=17", None),
            // Too long: the number, and the list.
            ("tx_end2end_start_ts=9223372036854775808", None),
            (far.as_str(), None),
            (&far["v=1,".len()..], Some(7)),
        ] {
            assert_eq!(instant_ms(list, END_TO_END_START), expected, "{list}");
        }
    }

    #[test]
    fn an_answer_keeps_what_was_there() {
        for (list, expected) in [
            ("tx_end2end_start_ts=17", Some("tx_end2end_start_ts=17,tx_callback_start_ts=18")),
            (
                "a=b, tx_end2end_start_ts=17 ,,c=d",
                Some("a=b, tx_end2end_start_ts=17 ,,c=d,tx_callback_start_ts=18"),
            ),
            (
                "tx_callback_start_ts=5,tx_end2end_start_ts=17",
                Some("tx_end2end_start_ts=17,tx_callback_start_ts=18"),
            ),
            ("", None),
            ("a=b", None),
            ("tx_end2end_start_ts=soon", None),
        ] {
            assert_eq!(with_callback_start(list, 18).as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn a_list_without_room_stays_as_it_is() {
        let added = ",tx_callback_start_ts=18".len();
        let start = "tx_end2end_start_ts=17,v=";
        for (bytes, expected) in [(BYTES_MAX, Some(BYTES_MAX)), (BYTES_MAX + 1, None)] {
            let list = format!("{start}{}", "x".repeat(bytes - added - start.len()));
            assert_eq!(with_callback_start(&list, 18).map(|longer| longer.len()), expected);
        }
        for (members, expected) in [(MEMBERS_MAX, Some(MEMBERS_MAX)), (MEMBERS_MAX + 1, None)] {
            let list = format!("tx_end2end_start_ts=17{}", ",v=1".repeat(members - 2));
            let longer = with_callback_start(&list, 18);
            assert_eq!(longer.map(|longer| longer.split(',').count()), expected);
        }
    }

    #[test]
    fn headers_change_only_where_a_script_measures() {
        let at = Timestamp::from_ms(1_700_000_000_250);
        let mut headers = HeaderMap::new();
        assert_eq!(leaving(&headers, || at), None);
        headers.insert("fspiop-source", HeaderValue::from_static("dfsp-2"));
        headers.insert(TRACESTATE, HeaderValue::from_static("a=b"));
        assert_eq!(leaving(&headers, || at), None);
        let unreadable = HeaderValue::from_bytes(b"tx_end2end_start_ts=17,a=\xff").unwrap();
        headers.insert(TRACESTATE, unreadable);
        assert_eq!(leaving(&headers, || at), None);
        headers.insert(TRACESTATE, HeaderValue::from_static("tx_end2end_start_ts=1700000000000"));
        let left = leaving(&headers, || at).unwrap();
        assert_eq!(left["fspiop-source"], "dfsp-2");
        assert_eq!(
            left["tracestate"],
            "tx_end2end_start_ts=1700000000000,tx_callback_start_ts=1700000000250"
        );
        assert_eq!((left.len(), of(&headers)), (2, Some("tx_end2end_start_ts=1700000000000")));
    }
}
