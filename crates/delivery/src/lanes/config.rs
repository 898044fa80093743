//! The bounds of every lane.

use std::time::Duration;

use upesi_http::Outbound;

/// What every lane may use and how it repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourierConfig {
    /// Requests in flight to one DFSP at a time, and the most connections to one of its origins.
    pub in_flight_max: usize,
    /// Callbacks that a lane holds in memory; further ones wait in the outbox.
    pub queue_items_max: usize,
    /// Bytes of callbacks that a lane holds in memory, headers and bodies. One callback may exceed it if it is alone.
    pub queue_bytes_max: usize,
    /// Callbacks of a lane that are in memory while they wait to be repeated, and as many that wait behind another of
    /// their transfer; a quarter of `queue_items_max` at most. Further ones wait in the outbox.
    pub retrying_max: usize,
    /// Time to open a connection.
    pub connect_timeout: Duration,
    /// Time from sending a callback to the end of the response's head; connecting included.
    pub request_timeout: Duration,
    /// Whether a connection serves more than one request. Without, every request opens one of its own, as some hubs do;
    /// for measurements.
    pub keep_alive: bool,
    /// How long a connection may idle before it is used no more.
    pub connection_idle_timeout: Duration,
    /// The bound on the connections of all lanes, and of others outside, together.
    pub outbound: Outbound,
    /// Response body that is read and thrown away; a longer one costs the connection.
    pub response_body_bytes_max: usize,
    /// Upper end of the wait before the first repetition; it doubles with each.
    pub retry_wait_first: Duration,
    /// Upper end of the wait before any repetition.
    pub retry_wait_max: Duration,
    /// From the first attempt at a callback to its being parked.
    pub callback_deadline: Duration,
    /// Connection-level failures in a row after which the lane pauses.
    pub breaker_failures: u32,
    /// First pause; it doubles with each probe that fails.
    pub breaker_pause_first: Duration,
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
    pub direct_in_flight_max: usize,
    /// Relayed messages that wait for one of those at a time; further ones are refused.
    pub direct_waiting_max: usize,
    /// Bytes of relayed messages to one DFSP that are on their way or wait; further ones are refused. One that is alone
    /// may exceed it.
    pub direct_bytes_max: usize,
    /// Whether attempts and callbacks are timed; they are counted always. Without is for measurements.
    pub times_deliveries: bool,
    /// Seed of the random part of waits.
    pub seed: u64,
}

impl Default for CourierConfig {
    fn default() -> Self {
        Self {
            in_flight_max: 32,
            queue_items_max: 8192,
            queue_bytes_max: 32 * 1024 * 1024,
            retrying_max: 1024,
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(10),
            keep_alive: true,
            connection_idle_timeout: Duration::from_secs(60),
            outbound: Outbound::default(),
            response_body_bytes_max: 64 * 1024,
            retry_wait_first: Duration::from_millis(200),
            retry_wait_max: Duration::from_secs(30),
            callback_deadline: Duration::from_secs(15 * 60),
            breaker_failures: 8,
            breaker_pause_first: Duration::from_millis(500),
            breaker_pause_max: Duration::from_secs(30),
            report_items: 64,
            report_interval: Duration::from_millis(20),
            backlog_retry_wait: Duration::from_millis(500),
            direct_in_flight_max: 64,
            direct_waiting_max: 1024,
            direct_bytes_max: 16 * 1024 * 1024,
            times_deliveries: true,
            seed: 0,
        }
    }
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A bound of zero would stop all delivery.
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
            ("in_flight_max", self.in_flight_max == 0),
            ("queue_items_max", self.queue_items_max == 0),
            ("queue_bytes_max", self.queue_bytes_max == 0),
            ("retrying_max", self.retrying_max == 0),
            ("request_timeout", self.request_timeout.is_zero()),
            ("connect_timeout", self.connect_timeout.is_zero()),
            ("callback_deadline", self.callback_deadline.is_zero()),
            ("breaker_failures", self.breaker_failures == 0),
            ("report_items", self.report_items == 0),
            ("direct_in_flight_max", self.direct_in_flight_max == 0),
        ] {
            if is_zero {
                mistakes.push(ConfigError::Zero { setting });
            }
        }
        for (smaller, larger, in_order) in [
            ("retry_wait_first", "retry_wait_max", self.retry_wait_first <= self.retry_wait_max),
            ("breaker_pause_first", "breaker_pause_max", self.breaker_pause_first <= self.breaker_pause_max),
            ("in_flight_max", "queue_items_max", self.in_flight_max <= self.queue_items_max),
            ("retrying_max", "queue_items_max", self.retrying_max <= self.queue_items_max),
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
            in_flight_max: 9000,
            breaker_pause_first: Duration::from_secs(60),
            ..CourierConfig::default()
        };
        let mistakes = config.check().unwrap_err();
        assert_eq!(
            mistakes,
            [
                ConfigError::Zero { setting: "report_items" },
                ConfigError::Order { smaller: "breaker_pause_first", larger: "breaker_pause_max" },
                ConfigError::Order { smaller: "in_flight_max", larger: "queue_items_max" },
            ]
        );
    }
}
