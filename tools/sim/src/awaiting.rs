//! Waiting for the answer to a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::awaited::{ArrivedCallback, error_code};
use crate::exchange::ExchangeError;
use crate::shared::SimulatorState;

/// The place of a waiter. Dropping it ends the wait.
pub(crate) struct WaiterSlot {
    pub shared: Arc<SimulatorState>,
    pub dfsp: u32,
    pub path: String,
    pub ticket: u64,
    pub receiver: oneshot::Receiver<ArrivedCallback>,
    pub is_over: bool,
}

impl WaiterSlot {
    /// Starts to wait for an answer on `path`.
    pub fn enter(shared: &Arc<SimulatorState>, dfsp: u32, path: String, trace: Option<u128>) -> Self {
        let (ticket, receiver) = shared.dfsp(dfsp).awaited.enter(&path, trace);
        Self { shared: shared.clone(), dfsp, path, ticket, receiver, is_over: false }
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.dfsp(self.dfsp).awaited.give_up(&self.path, self.ticket);
        }
    }
}

/// An accepted request whose answer will arrive as a callback. Dropping it ends the wait.
#[must_use = "the answer comes by `answer`"]
pub struct Awaiting<T> {
    pub sent_at: Instant,
    pub accepted_at: Instant,
    pub(crate) place: WaiterSlot,
    pub(crate) read: fn(&Bytes) -> Option<T>,
}

/// The end of an exchange.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// Time of the callback's arrival, or of the timeout.
    pub at: Instant,
    pub result: Result<T, ExchangeError>,
    /// The callback's body; empty if none arrived.
    pub body: Bytes,
}

impl<T> Awaiting<T> {
    /// Waits for the answer, at most this long.
    pub async fn answer(mut self, within: Duration) -> Answer<T> {
        let arrived = match tokio::time::timeout(within, &mut self.place.receiver).await {
            Ok(Ok(arrived)) => arrived,
            _ => {
                return Answer { at: Instant::now(), result: Err(ExchangeError::Late), body: Bytes::new() };
            }
        };
        self.place.is_over = true;
        let result = if arrived.is_error {
            Err(error_code(&arrived.body).map_or(ExchangeError::Unreadable, ExchangeError::Code))
        } else {
            (self.read)(&arrived.body).ok_or(ExchangeError::Unreadable)
        };
        Answer { at: arrived.at, result, body: arrived.body }
    }
}

impl<T> std::fmt::Debug for Awaiting<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Awaiting").field("path", &self.place.path).finish_non_exhaustive()
    }
}
