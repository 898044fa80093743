//! The bounds of every lane.

use std::time::Duration;

use upesi_http::{ClientTls, Outbound};

use crate::Signer;

/// Bounds of a lane and its repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourierConfig {
    /// Requests in flight to one DFSP at a time, and the most connections to one of its origins.
    pub concurrency_max: usize,
    /// Callbacks that a lane holds in memory; further ones wait in the outbox.
    pub queue_max: usize,
    /// Bytes of callbacks that a lane holds in memory, headers and bodies. One callback may exceed it if it is alone.
    pub queue_bytes_max: usize,
    /// Callbacks of a lane that are in memory while they wait to be repeated, and as many that wait behind another of
    /// their transfer; a quarter of `queue_max` at most. Further ones wait in the outbox.
    pub retrying_max: usize,
    /// Time to open a connection.
    pub connect_timeout: Duration,
    /// Time from sending a callback to the end of the response's head; connecting included.
    pub request_timeout: Duration,
    /// Whether a connection serves more than one request. Without, every request opens one of its own, as some hubs do;
    /// for measurements.
    pub keep_alive: bool,
    /// Longest idle time of a connection that is used again.
    pub idle_timeout: Duration,
    /// The bound on the connections of all lanes, and of others outside, together.
    pub outbound: Outbound,
    /// TLS for `https://` addresses; without it they cannot be called.
    pub tls: Option<ClientTls>,
    /// Signs what the hub makes itself; without it those messages go out unsigned.
    pub signer: Option<Signer>,
    /// Response body that is read and thrown away; a longer one costs the connection.
    pub response_body_bytes_max: usize,
    /// Upper end of the wait before the first repetition; it doubles with each.
    pub backoff_min: Duration,
    /// Upper end of the wait before any repetition.
    pub backoff_max: Duration,
    /// Time from the first attempt at a callback until it is parked.
    pub deadline: Duration,
    /// Connection-level failures in a row after which the lane pauses.
    pub breaker_threshold: u32,
    /// First pause; it doubles with each probe that fails.
    pub breaker_pause_min: Duration,
    /// Longest pause.
    pub breaker_pause_max: Duration,
    /// Delivered callbacks that are reported together.
    pub report_items: usize,
    /// Longest time for which a delivered callback goes unreported.
    pub report_interval: Duration,
    /// Pause after the backlog could not be read.
    pub backlog_retry_wait: Duration,
    /// Relayed messages sent to one DFSP at a time, from each worker, and the most connections to one of its origins
    /// for them.
    pub relay_concurrency_max: usize,
    /// Relayed messages that wait for one of those at a time; further ones are refused.
    pub relay_waiting_max: usize,
    /// Bytes of relayed messages to one DFSP that are on their way or wait; further ones are refused. One that is alone
    /// may exceed it.
    pub relay_waiting_bytes_max: usize,
    /// The part of these places that the messages of one sender may take, in percent; of the bytes twice that part.
    pub relay_sender_share_percent: usize,
    /// Whether attempts and callbacks are timed; they are counted always. Without is for measurements.
    pub records_metrics: bool,
    /// Seed of the random part of waits.
    pub seed: u64,
}

impl Default for CourierConfig {
    fn default() -> Self {
        Self {
            concurrency_max: 32,
            queue_max: 8192,
            queue_bytes_max: 32 * 1024 * 1024,
            retrying_max: 1024,
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(10),
            keep_alive: true,
            idle_timeout: Duration::from_secs(60),
            outbound: Outbound::default(),
            tls: None,
            signer: None,
            response_body_bytes_max: 64 * 1024,
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(30),
            deadline: Duration::from_secs(15 * 60),
            breaker_threshold: 8,
            breaker_pause_min: Duration::from_millis(500),
            breaker_pause_max: Duration::from_secs(30),
            report_items: 64,
            report_interval: Duration::from_millis(20),
            backlog_retry_wait: Duration::from_millis(500),
            relay_concurrency_max: 64,
            relay_waiting_max: 4096,
            relay_waiting_bytes_max: 32 * 1024 * 1024,
            relay_sender_share_percent: 25,
            records_metrics: true,
            seed: 0,
        }
    }
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A bound of zero, which would stop all delivery.
    #[error("{setting} must be at least 1")]
    Zero {
        /// The setting's name.
        setting: &'static str,
    },
    /// A pair of settings contradicts itself.
    #[error("{smaller} must not be more than {larger}")]
    Order {
        /// The setting that is too large.
        smaller: &'static str,
        /// The setting that is too small.
        larger: &'static str,
    },
}

impl CourierConfig {
    /// Checks that the settings can work together; returns every mistake.
    pub fn check(&self) -> Result<(), Vec<ConfigError>> {
        let mut mistakes = Vec::new();
        for (setting, is_zero) in [
            ("concurrency_max", self.concurrency_max == 0),
            ("queue_max", self.queue_max == 0),
            ("queue_bytes_max", self.queue_bytes_max == 0),
            ("retrying_max", self.retrying_max == 0),
            ("request_timeout", self.request_timeout.is_zero()),
            ("connect_timeout", self.connect_timeout.is_zero()),
            ("idle_timeout", self.idle_timeout.is_zero()),
            ("deadline", self.deadline.is_zero()),
            ("breaker_threshold", self.breaker_threshold == 0),
            ("report_items", self.report_items == 0),
            ("relay_concurrency_max", self.relay_concurrency_max == 0),
        ] {
            if is_zero {
                mistakes.push(ConfigError::Zero { setting });
            }
        }
        for (smaller, larger, in_order) in [
            ("backoff_min", "backoff_max", self.backoff_min <= self.backoff_max),
            ("breaker_pause_min", "breaker_pause_max", self.breaker_pause_min <= self.breaker_pause_max),
            ("concurrency_max", "queue_max", self.concurrency_max <= self.queue_max),
            ("retrying_max", "queue_max", self.retrying_max <= self.queue_max),
        ] {
            if !in_order {
                mistakes.push(ConfigError::Order { smaller, larger });
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_work_and_every_mistake_is_named() {
        assert_eq!(CourierConfig::default().check(), Ok(()));
        let config = CourierConfig {
            report_items: 0,
            concurrency_max: 9000,
            breaker_pause_min: Duration::from_secs(60),
            ..CourierConfig::default()
        };
        let mistakes = config.check().unwrap_err();
        assert_eq!(
            mistakes,
            [
                ConfigError::Zero { setting: "report_items" },
                ConfigError::Order { smaller: "breaker_pause_min", larger: "breaker_pause_max" },
                ConfigError::Order { smaller: "concurrency_max", larger: "queue_max" },
            ]
        );
    }
}
