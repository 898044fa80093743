//! Watching messages go by, for demonstrations and for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc::{self, error::TrySendError};
use upesi_http::{HeaderMap, Method, StatusCode};
use upesi_types::FspId;

/// Which way a message went, as the DFSP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Sent,
    Received,
}

/// A message that a simulated DFSP sent or received, and how it was answered.
#[derive(Clone, Debug)]
pub struct SeenMessage {
    /// When it was sent or received. A sent message is shown once it is answered, so watchers sort by this.
    pub at: Instant,
    pub dfsp: FspId,
    pub direction: Direction,
    pub method: Method,
    /// The path, without the DFSP's base path where it received the message.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The answer's status; `None` when there was no answer.
    pub status: Option<StatusCode>,
}

/// Where seen messages go. What does not fit into the channel is not shown, and counted: watching never holds up a
/// transfer.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    sender: Option<mpsc::Sender<SeenMessage>>,
    not_shown: AtomicU64,
}

impl Watch {
    pub fn new(sender: Option<mpsc::Sender<SeenMessage>>) -> Self {
        Self { sender, not_shown: AtomicU64::new(0) }
    }

    pub const fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    pub fn show(&self, message: SeenMessage) {
        let Some(sender) = &self.sender else { return };
        // A watcher that has gone misses nothing.
        if let Err(TrySendError::Full(_)) = sender.try_send(message) {
            self.not_shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn not_shown(&self) -> u64 {
        self.not_shown.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> SeenMessage {
        SeenMessage {
            at: Instant::now(),
            dfsp: FspId::parse("dfsp-1").unwrap(),
            direction: Direction::Sent,
            method: Method::GET,
            path: "/transfers".to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            status: None,
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let (sender, receiver) = mpsc::channel(1);
        let watch = Watch::new(Some(sender));
        for not_shown in [0, 1, 2] {
            watch.show(message());
            assert_eq!(watch.not_shown(), not_shown);
        }
        drop(receiver);
        watch.show(message());
        assert_eq!(watch.not_shown(), 2);
    }
}
