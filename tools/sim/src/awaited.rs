//! Pending answers by the path of their arrival: lookups, quotes, registrations.
//!
//! Several waiters may share a path, since lookups of the same party do. An answer then goes to the waiter with the
//! answer's trace. Without a match, it goes to the waiter that has waited longest.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use tokio::sync::oneshot;
use upesi_types::ErrorCode;

use crate::scan;

/// A callback that a waiter expected.
#[derive(Debug)]
pub(crate) struct ArrivedCallback {
    pub at: Instant,
    pub is_error: bool,
    pub body: Bytes,
}

struct Waiter {
    ticket: u64,
    trace: Option<u128>,
    sender: oneshot::Sender<ArrivedCallback>,
}

#[derive(Default)]
struct Paths {
    tickets: u64,
    /// The waiters of each path, in the order of their arrival. A list is never empty.
    by_path: HashMap<String, Vec<Waiter>, foldhash::fast::RandomState>,
}

/// The answers that one DFSP waits for. Their number is bounded by the waiters: each removes its entry when it stops
/// waiting.
#[derive(Default)]
pub(crate) struct AwaitedAnswers(Mutex<Paths>);

impl std::fmt::Debug for AwaitedAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Awaited")
    }
}

impl AwaitedAnswers {
    fn paths(&self) -> MutexGuard<'_, Paths> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to wait for an answer on `path`. The number identifies the waiter.
    pub fn enter(&self, path: &str, trace: Option<u128>) -> (u64, oneshot::Receiver<ArrivedCallback>) {
        let (sender, receiver) = oneshot::channel();
        let mut paths = self.paths();
        paths.tickets += 1;
        let ticket = paths.tickets;
        paths.by_path.entry_ref(path).or_default().push(Waiter { ticket, trace, sender });
        (ticket, receiver)
    }

    /// Hands an answer to its waiter. Returns false if there is none.
    pub fn deliver(&self, path: &str, trace: Option<u128>, arrived: ArrivedCallback) -> bool {
        let has_trace = |waiter: &Waiter| trace.is_some() && waiter.trace == trace;
        let waiter = self.remove(path, |waiters| Some(waiters.iter().position(has_trace).unwrap_or(0)));
        waiter.is_some_and(|waiter| waiter.sender.send(arrived).is_ok())
    }

    pub fn give_up(&self, path: &str, ticket: u64) {
        self.remove(path, |waiters| waiters.iter().position(|waiter| waiter.ticket == ticket));
    }

    fn remove(&self, path: &str, place: impl FnOnce(&[Waiter]) -> Option<usize>) -> Option<Waiter> {
        let mut paths = self.paths();
        let waiters = paths.by_path.get_mut(path)?;
        let waiter = waiters.remove(place(waiters)?);
        if waiters.is_empty() {
            paths.by_path.remove(path);
        }
        Some(waiter)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.paths().by_path.len()
    }
}

pub(crate) fn error_code(body: &[u8]) -> Option<ErrorCode> {
    let text = std::str::from_utf8(scan::text_member(body, b"\"errorCode\"")?).ok()?;
    ErrorCode::from_number(text.parse().ok()?)
}

/// The description in an error object, if there is one without escapes.
pub(crate) fn error_description(body: &[u8]) -> Option<&str> {
    std::str::from_utf8(scan::text_member(body, b"\"errorDescription\"")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(body: &'static str) -> ArrivedCallback {
        ArrivedCallback { at: Instant::now(), is_error: false, body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn answer_goes_to_its_trace_or_the_longest_waiter() {
        let awaited = AwaitedAnswers::default();
        let mut receivers: Vec<_> = (1..=4).map(|trace| awaited.enter("a", Some(trace)).1).collect();
        for (trace, body) in [(Some(3), "third"), (None, "first"), (Some(99), "second"), (Some(4), "fourth")]
        {
            assert!(awaited.deliver("a", trace, arrived(body)));
        }
        assert!(!awaited.deliver("a", None, arrived("too much")));
        for (receiver, body) in receivers.iter_mut().zip(["first", "second", "third", "fourth"]) {
            assert_eq!(receiver.try_recv().unwrap().body, body);
        }
        assert_eq!(awaited.len(), 0);
    }

    #[test]
    fn removed_waiter_does_not_affect_the_others() {
        let awaited = AwaitedAnswers::default();
        let (first, _gone) = awaited.enter("a", None);
        let (_, mut second) = awaited.enter("a", None);
        awaited.give_up("a", first);
        awaited.give_up("a", first);
        awaited.give_up("b", first);
        assert!(awaited.deliver("a", None, arrived("x")));
        assert_eq!(second.try_recv().unwrap().body, "x");
        assert_eq!(awaited.len(), 0);
    }

    #[test]
    fn error_code_is_read() {
        let body = br#"{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found"}}"#;
        assert_eq!(error_code(body), Some(ErrorCode::PARTY_NOT_FOUND));
        for body in ["", r#"{"errorCode":"abcd"}"#, r#"{"errorCode":"99999"}"#, r#"{"errorCode":3204}"#] {
            assert_eq!(error_code(body.as_bytes()), None, "{body}");
        }
    }
}
