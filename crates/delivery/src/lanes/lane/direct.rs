//! Messages that are sent immediately or not at all, from the calling worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use upesi_http::{Answer, SendError, current_worker};
use upesi_ledger::ParticipantId;

use super::{Lane, SlotWake, pools};
use crate::lanes::CourierConfig;
use crate::lanes::metrics::add;
use crate::{OutgoingRequest, Shares, share_of};

/// Reason why a direct message was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The lane pauses, because the DFSP could not be reached several times in a row; nothing was sent.
    #[error("the lane pauses after repeated failures")]
    Barred,
    /// The maximum number of messages is being sent or waits; nothing was sent.
    #[error("too many messages are in flight")]
    Busy,
    /// A kept-alive connection was closed, probably as idle, just as it was reused: send the message once more. It is
    /// unknown whether it arrived.
    #[error("the connection was closed when it was reused")]
    Stale,
    /// The DFSP could not be reached, or did not answer in time.
    #[error("{0}")]
    Unreachable(String),
}

/// Connections for direct messages, separate for each worker, so that no two threads use one.
pub(super) struct Direct {
    config: CourierConfig,
    /// By number of worker.
    pools: Mutex<Vec<(Option<usize>, Arc<pools::Pools>)>>,
    /// Number of messages that are being sent or wait for a connection.
    begun: AtomicUsize,
    /// Bytes of these messages.
    bytes: AtomicUsize,
    /// The share of each sender.
    shares: Shares<Option<ParticipantId>>,
}

/// A message that is being sent. Dropped without an outcome, it says nothing about the DFSP.
struct Attempt<'a> {
    lane: &'a Arc<Lane>,
    is_probe: bool,
    end: Option<Result<(), String>>,
}

impl Direct {
    pub(super) fn new(config: &CourierConfig) -> Self {
        let percent = config.relay_sender_share_percent;
        let places = share_of(config.relay_concurrency_max + config.relay_waiting_max, percent);
        // Few messages are large, and a single one may use a good part of the bytes.
        let bytes = share_of(config.relay_waiting_bytes_max, (2 * percent).min(100));
        Self {
            shares: Shares::new(places, bytes),
            config: config.clone(),
            pools: Mutex::default(),
            begun: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn pools(&self) -> Arc<pools::Pools> {
        let worker = current_worker();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, of_worker)) = pools.iter().find(|(number, _)| *number == worker) {
            return of_worker.clone();
        }
        let of_worker = Arc::new(pools::Pools::direct(&self.config));
        pools.push((worker, of_worker.clone()));
        of_worker
    }

    pub(super) fn close_expired(&self) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, of_worker) in pools {
            of_worker.close_expired();
        }
    }

    fn begin(&self, sender: Option<ParticipantId>, bytes: usize) -> Result<DirectSlot<'_>, TransportError> {
        let max = self.config.relay_concurrency_max + self.config.relay_waiting_max;
        if !self.shares.take(sender, bytes) {
            return Err(TransportError::Busy);
        }
        // Counted before the comparison, so that two messages cannot take the last slot. The guard releases the count.
        let begun = DirectSlot { direct: self, sender, bytes };
        let before = self.begun.fetch_add(1, Ordering::Relaxed);
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits =
            bytes_before == 0 || bytes_before.saturating_add(bytes) <= self.config.relay_waiting_bytes_max;
        if before < max && fits { Ok(begun) } else { Err(TransportError::Busy) }
    }
}

/// A slot of a message.
struct DirectSlot<'a> {
    direct: &'a Direct,
    sender: Option<ParticipantId>,
    bytes: usize,
}

impl Drop for DirectSlot<'_> {
    fn drop(&mut self) {
        self.direct.shares.give_back(self.sender, self.bytes);
        self.direct.begun.fetch_sub(1, Ordering::Relaxed);
        self.direct.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Lane {
    pub(crate) async fn send_directly(
        self: &Arc<Self>,
        request: OutgoingRequest,
    ) -> Result<Answer, TransportError> {
        let sent = self.try_directly(request).await;
        let counter = if sent.is_ok() { &self.metrics.relayed } else { &self.metrics.relay_failures };
        add(counter, 1);
        sent
    }

    async fn try_directly(self: &Arc<Self>, request: OutgoingRequest) -> Result<Answer, TransportError> {
        let _begun = self.direct.begin(request.sender, request.bytes())?;
        let is_probe = self.state().core.begin_direct(Instant::now()).ok_or(TransportError::Barred)?;
        let mut attempt = Attempt { lane: self, is_probe, end: None };
        let deadline = Instant::now() + self.config.request_timeout;
        let pool = self.direct.pools().of(&request.target.origin, || self.renderer.name(self.target));
        let request = request.into_http(self.config.signer.as_ref()).await;
        match pool.send(request, deadline).await {
            Ok(answer) => {
                attempt.end = Some(Ok(()));
                Ok(answer)
            }
            // Neither is a failure of the DFSP.
            Err(SendError::Busy { .. }) => Err(TransportError::Busy),
            Err(SendError::Closed { reused: true }) => Err(TransportError::Stale),
            Err(error) => {
                let reason = error.to_string();
                attempt.end = Some(Err(reason.clone()));
                Err(TransportError::Unreachable(reason))
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.lane.state();
        let opened = state.core.breaker_opened();
        state.core.end_direct(self.is_probe, self.end.take(), now);
        add(&self.lane.metrics.breaker_opened, state.core.breaker_opened() - opened);
        let wake = if self.is_probe { state.wake(now, &self.lane.config) } else { SlotWake::Nothing };
        let actions = state.core.actions();
        drop(state);
        self.lane.perform(actions, wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_bytes_in_flight_are_limited() {
        let direct = Direct::new(&CourierConfig {
            relay_concurrency_max: 1,
            relay_waiting_max: 2,
            relay_waiting_bytes_max: 10,
            relay_sender_share_percent: 100,
            ..CourierConfig::default()
        });
        for (begun, another, expected) in [
            (&[0, 0][..], 0, true),
            (&[0, 0, 0], 0, false),
            (&[4], 6, true),
            (&[4], 7, false),
            (&[4, 6], 0, true),
            (&[4, 6], 1, false),
            // A single message may be larger than the limit.
            (&[], 11, true),
            (&[11], 1, false),
        ] {
            let held: Vec<_> = begun.iter().map(|bytes| direct.begin(None, *bytes).ok().unwrap()).collect();
            // A rejected message uses no memory.
            for _ in 0..2 {
                assert_eq!(direct.begin(None, another).is_ok(), expected, "{begun:?} {another}");
            }
            drop(held);
        }
    }

    #[test]
    fn one_sender_leaves_places_and_bytes_for_the_others() {
        let direct = Direct::new(&CourierConfig {
            relay_concurrency_max: 1,
            relay_waiting_max: 7,
            relay_waiting_bytes_max: 100,
            ..CourierConfig::default()
        });
        let [one, other] = [1, 2].map(ParticipantId::new);
        let held = [(); 2].map(|()| direct.begin(one, 1).ok().unwrap());
        assert!(direct.begin(one, 1).is_err(), "a quarter of the places");
        let of_other = direct.begin(other, 50).ok().unwrap();
        assert!(direct.begin(other, 1).is_err(), "half of the bytes");
        assert!(direct.begin(None, 1).is_ok());
        drop(held);
        assert!(direct.begin(one, 25).is_ok());
        drop(of_other);
        assert!(direct.begin(other, 1).is_ok());
    }
}
