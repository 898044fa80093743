//! Limits of every lane.

use std::time::Duration;

use upesi_http::{ClientTls, Outbound};

use crate::Signer;

/// Limits and time limits of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourierConfig {
    /// Maximum number of concurrent requests to one DFSP, and of connections to one of its origins.
    pub concurrency_max: usize,
    /// Maximum number of callbacks of a lane in memory; further ones wait in the outbox.
    pub queue_max: usize,
    /// Maximum number of bytes of a lane's callbacks in memory, headers and bodies. A single callback may exceed it.
    pub queue_bytes_max: usize,
    /// Maximum number of a lane's callbacks in memory that wait for repetition, and maximum number that wait behind
    /// another of their transfer. Each is a quarter of `queue_max` at most. Further ones wait in the outbox.
    pub retrying_max: usize,
    /// Time limit for opening a connection.
    pub connect_timeout: Duration,
    /// Time limit from sending a callback to the end of the response's head, including the connection.
    pub request_timeout: Duration,
    /// Whether a connection carries more than one request. If not, every request opens one, as some hubs do; for
    /// measurements.
    pub keep_alive: bool,
    /// Maximum idle time of a connection that is reused.
    pub idle_timeout: Duration,
    /// The limit on the connections of all lanes and of other users together.
    pub outbound: Outbound,
    /// TLS for `https://` addresses; without it they cannot be called.
    pub tls: Option<ClientTls>,
    /// Signs messages that the hub creates; without it they are sent unsigned.
    pub signer: Option<Signer>,
    /// Maximum size of a response body that is read and discarded; a longer one closes the connection.
    pub response_body_bytes_max: usize,
    /// Upper limit of the delay before the first repetition; it doubles with each.
    pub backoff_min: Duration,
    /// Upper limit of the delay before any repetition.
    pub backoff_max: Duration,
    /// Time from the first attempt at a callback until it is parked.
    pub deadline: Duration,
    /// Number of consecutive connection-level failures after which the lane pauses.
    pub breaker_threshold: u32,
    /// First pause; it doubles with each failed probe.
    pub breaker_pause_min: Duration,
    /// Longest pause.
    pub breaker_pause_max: Duration,
    /// Number of delivered callbacks that are reported together.
    pub report_items: usize,
    /// Maximum time before a delivered callback is reported.
    pub report_interval: Duration,
    /// Pause after the outbox could not be read.
    pub backlog_retry_wait: Duration,
    /// Maximum number of relayed messages that each worker sends to one DFSP at the same time, and of their connections
    /// to one of its origins.
    pub relay_concurrency_max: usize,
    /// Maximum number of relayed messages that wait for a connection; further ones are rejected.
    pub relay_waiting_max: usize,
    /// Maximum number of bytes of relayed messages to one DFSP that are being sent or wait; further ones are rejected.
    /// A single message may exceed it.
    pub relay_waiting_bytes_max: usize,
    /// Share of these slots that the messages of one sender may use, in percent. Its share of the bytes is twice as
    /// large.
    pub relay_sender_share_percent: usize,
    /// Whether attempts and callbacks are timed; they are always counted. Disabled for measurements.
    pub records_metrics: bool,
    /// Seed of the random part of delays.
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
    /// A limit of zero, which would stop all delivery.
    #[error("{setting} must be at least 1")]
    Zero { setting: &'static str },
    /// Two settings contradict each other.
    #[error("{smaller} must not be more than {larger}")]
    Order {
        /// The setting that is too large.
        smaller: &'static str,
        /// The setting that is too small.
        larger: &'static str,
    },
}

impl CourierConfig {
    /// Checks that the settings are consistent; returns every mistake.
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
    fn defaults_are_valid_and_every_mistake_is_reported() {
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
