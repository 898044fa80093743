//! Watching messages go by, for demonstrations and for tests.

use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;
use upesi_http::{HeaderMap, Method, StatusCode};
use upesi_types::FspId;

/// Which way a message went, as the DFSP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The DFSP sent it.
    Sent,
    /// The DFSP received it.
    Received,
}

/// A message that a simulated DFSP sent or received, and how it was answered.
#[derive(Clone, Debug)]
pub struct SeenMessage {
    /// When it was sent or received. A sent message is shown once it is answered, so watchers sort by this.
    pub at: Instant,
    /// Which DFSP.
    pub dfsp: FspId,
    /// Which way.
    pub direction: Direction,
    /// The method.
    pub method: Method,
    /// The path, without the DFSP's base path where it received the message.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The answer's status; `None` when there was no answer.
    pub status: Option<StatusCode>,
}

/// Where seen messages go. What does not fit into the channel is not shown: watching never holds up a transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(pub Option<mpsc::Sender<SeenMessage>>);

impl Watch {
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub fn show(&self, message: SeenMessage) {
        if let Some(sender) = &self.0 {
            let _ = sender.try_send(message);
        }
    }
}
