//! Watching messages: for demonstrations and tests, and over web sockets for Mojaloop's load scripts, which wait for
//! their callbacks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use upesi_http::{HeaderMap, Method, StatusCode};
use upesi_types::FspId;

/// The direction of a message, as the DFSP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Sent,
    Received,
}

/// A message that a simulated DFSP sent or received, and its answer.
#[derive(Clone, Debug)]
pub struct SeenMessage {
    /// Time of sending or receiving. A sent message is shown once it is answered, so watchers sort by this time.
    pub at: Instant,
    pub dfsp: FspId,
    pub direction: Direction,
    pub method: Method,
    /// The path, without the DFSP's base path if the DFSP received the message.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The answer's status; `None` without an answer.
    pub status: Option<StatusCode>,
}

/// The channel for seen messages. Messages that do not fit into the channel are counted but not shown, so that watching
/// never delays a transfer.
#[derive(Debug, Default)]
pub(crate) struct MessageWatch {
    sender: Option<mpsc::Sender<SeenMessage>>,
    not_shown: AtomicU64,
}

impl MessageWatch {
    pub fn new(sender: Option<mpsc::Sender<SeenMessage>>) -> Self {
        Self { sender, not_shown: AtomicU64::new(0) }
    }

    pub const fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    /// Sends a message to the watcher.
    pub fn show(&self, message: SeenMessage) {
        let Some(sender) = &self.sender else { return };
        // If the watcher has ended, the message is dropped.
        if let Err(TrySendError::Full(_)) = sender.try_send(message) {
            self.not_shown.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn not_shown(&self) -> u64 {
        self.not_shown.load(Ordering::Relaxed)
    }
}

/// Maximum number of open channels. A script that opens one more is disconnected.
const CHANNELS_MAX: usize = 65_536;

const SUCCESS: &str = "SUCCESS_CALLBACK_RECEIVED";
const ERROR: &str = "ERROR_CALLBACK_RECEIVED";

type ByName = HashMap<String, (u64, oneshot::Sender<&'static str>), foldhash::fast::RandomState>;

/// The open channels, by name. Their number is counted separately, so that callbacks cost nothing without channels.
#[derive(Default)]
pub(crate) struct Channels {
    open: AtomicUsize,
    by_name: Mutex<ByName>,
    registered: AtomicUsize,
}

impl Channels {
    fn by_name(&self) -> MutexGuard<'_, ByName> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a script may be waiting. Without channels, this call is the only cost of a callback.
    pub fn any(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    /// Notifies the channel of that trace and path, if there is one, that its callback arrived. The path of an error is
    /// the path of the answer that it replaces.
    pub fn push(&self, traceparent: Option<&str>, path: &str, is_error: bool) -> bool {
        if !self.any() {
            return false;
        }
        let Some(trace_id) = traceparent.and_then(|value| value.split('-').nth(1)) else { return false };
        let channel = self.by_name().remove(&format!("{trace_id}/PUT/{path}"));
        channel.is_some_and(|(_, sender)| sender.send(if is_error { ERROR } else { SUCCESS }).is_ok())
    }

    /// Opens a channel. A second channel of the same name replaces the first. `None` if too many are open.
    pub fn register(&self, name: String) -> Option<(u64, oneshot::Receiver<&'static str>)> {
        let (sender, receiver) = oneshot::channel();
        let ticket = self.registered.fetch_add(1, Ordering::Relaxed) as u64;
        let mut by_name = self.by_name();
        if by_name.len() >= CHANNELS_MAX {
            return None;
        }
        by_name.insert(name, (ticket, sender));
        self.open.fetch_add(1, Ordering::Release);
        Some((ticket, receiver))
    }

    /// Closes a channel, unless another one has replaced it.
    pub fn close(&self, name: &str, ticket: u64) {
        let mut by_name = self.by_name();
        if by_name.get(name).is_some_and(|(registered, _)| *registered == ticket) {
            by_name.remove(name);
        }
        self.open.fetch_sub(1, Ordering::Release);
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
    fn message_that_does_not_fit_is_counted() {
        let (sender, receiver) = mpsc::channel(1);
        let watch = MessageWatch::new(Some(sender));
        for not_shown in [0, 1, 2] {
            watch.show(message());
            assert_eq!(watch.not_shown(), not_shown);
        }
        drop(receiver);
        watch.show(message());
        assert_eq!(watch.not_shown(), 2);
    }
}
