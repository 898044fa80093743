//! Limits of lookups and of calls to oracles.

use std::time::Duration;

use upesi_http::{ClientTls, Outbound};

/// Settings of lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// Time after which the hub answers an unanswered `GET /parties` with an error (3300). The default is longer than a
    /// call to an oracle and a delivery together, so that a more precise error comes first. It is shorter than the 30 s
    /// that payers commonly wait.
    pub lookup_deadline: Duration,
    /// Maximum number of lookups that wait for an answer; further ones are rejected with 2005.
    pub pending_max: usize,
    /// Maximum number of bytes in headers and paths of these lookups; further ones are rejected with 2005.
    pub pending_bytes_max: usize,
    /// Share of these limits for the lookups of one DFSP, in percent.
    pub sender_share_percent: usize,
    /// Maximum number of concurrent error callbacks about unanswered lookups; the others wait.
    pub expiries_in_flight_max: usize,
    /// Whether a lookup removes the party from the oracle if the owner or destination is unknown to the scheme.
    /// Mojaloop does that. A lookup that deletes is unexpected, and one mistyped participant can cost directory
    /// entries.
    pub remove_stale_parties: bool,
    /// Whether batches may contain identifiers of the extended types. Paths are checked earlier.
    pub extended_party_id_types: bool,
    /// Whether only the DFSP of a party may change or remove it in an external oracle. This costs one lookup for each
    /// change. The built-in directory has a separate option.
    pub external_ownership_check: bool,
    /// Limits of each external oracle.
    pub oracle: OracleConfig,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self {
            lookup_deadline: Duration::from_secs(20),
            pending_max: 65_536,
            pending_bytes_max: 128 << 20,
            sender_share_percent: 25,
            expiries_in_flight_max: 256,
            remove_stale_parties: false,
            extended_party_id_types: false,
            external_ownership_check: true,
            oracle: OracleConfig::default(),
        }
    }
}

/// Limits of an external oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleConfig {
    /// Time limit from a request to the end of its answer, including the connection.
    pub deadline: Duration,
    /// Time limit for opening a connection.
    pub connect_timeout: Duration,
    /// Maximum number of concurrent requests to one oracle; further ones fail at once. A slow oracle can use only the
    /// memory of these.
    pub in_flight_max: usize,
    /// Share of these requests for one DFSP, in percent.
    pub sender_share_percent: usize,
    /// Maximum number of connections of each worker to one oracle.
    pub connections_max: usize,
    /// Maximum idle time of a connection that is reused.
    pub connection_idle_timeout: Duration,
    /// The limit on the connections to all oracles and other destinations together.
    pub outbound: Outbound,
    /// TLS for `https://` addresses; without it they cannot be called.
    pub tls: Option<ClientTls>,
    /// Maximum size of an answer to a lookup or registration.
    pub answer_bytes_max: usize,
    /// Maximum size of an answer to a batch, which repeats up to 10,000 parties with their errors.
    pub batch_answer_bytes_max: usize,
    /// Maximum number of concurrent batches to one oracle; further ones fail at once.
    pub batches_in_flight_max: usize,
    /// Number of consecutive requests without an answer after which calls to the oracle pause.
    pub breaker_threshold: u32,
    /// First pause; it doubles with each failed probe.
    pub breaker_pause_min: Duration,
    /// Longest pause.
    pub breaker_pause_max: Duration,
    /// How long an answer to a lookup is cached; zero disables the cache.
    pub cache_ttl: Duration,
    /// Maximum number of cached answers per oracle; the oldest is dropped.
    pub cache_entries_max: usize,
}

impl Default for OracleConfig {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            in_flight_max: 1024,
            sender_share_percent: 25,
            connections_max: 64,
            connection_idle_timeout: Duration::from_secs(30),
            outbound: Outbound::default(),
            tls: None,
            answer_bytes_max: 64 << 10,
            batch_answer_bytes_max: 8 << 20,
            batches_in_flight_max: 4,
            breaker_threshold: 8,
            breaker_pause_min: Duration::from_millis(500),
            breaker_pause_max: Duration::from_secs(10),
            cache_ttl: Duration::ZERO,
            cache_entries_max: 65_536,
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The setting must be at least one.
    #[error("{setting} must be at least 1")]
    Zero {
        /// Name of the field.
        setting: &'static str,
    },
    /// One setting must not be larger than the other.
    #[error("{smaller} must not be above {larger}")]
    Order {
        /// The field that must be smaller.
        smaller: &'static str,
        /// The field that must be larger.
        larger: &'static str,
    },
}

impl DirectoryConfig {
    /// Returns every mistake.
    pub fn check(&self) -> Result<(), Vec<ConfigError>> {
        let oracle = &self.oracle;
        let mut mistakes = Vec::new();
        for (setting, is_zero) in [
            ("lookup_deadline", self.lookup_deadline.is_zero()),
            ("pending_max", self.pending_max == 0),
            ("pending_bytes_max", self.pending_bytes_max == 0),
            ("expiries_in_flight_max", self.expiries_in_flight_max == 0),
            ("oracle.deadline", oracle.deadline.is_zero()),
            ("oracle.connect_timeout", oracle.connect_timeout.is_zero()),
            ("oracle.in_flight_max", oracle.in_flight_max == 0),
            ("oracle.connections_max", oracle.connections_max == 0),
            ("oracle.answer_bytes_max", oracle.answer_bytes_max == 0),
            ("oracle.batch_answer_bytes_max", oracle.batch_answer_bytes_max == 0),
            ("oracle.batches_in_flight_max", oracle.batches_in_flight_max == 0),
            ("oracle.breaker_threshold", oracle.breaker_threshold == 0),
            ("oracle.breaker_pause_min", oracle.breaker_pause_min.is_zero()),
            ("oracle.cache_entries_max", oracle.cache_entries_max == 0),
        ] {
            if is_zero {
                mistakes.push(ConfigError::Zero { setting });
            }
        }
        for (smaller, larger, is_above) in [
            ("oracle.deadline", "lookup_deadline", oracle.deadline > self.lookup_deadline),
            (
                "oracle.breaker_pause_min",
                "oracle.breaker_pause_max",
                oracle.breaker_pause_min > oracle.breaker_pause_max,
            ),
        ] {
            if is_above {
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
    fn every_mistake_is_found() {
        assert_eq!(DirectoryConfig::default().check(), Ok(()));
        let config = DirectoryConfig {
            pending_max: 0,
            lookup_deadline: Duration::from_secs(1),
            oracle: OracleConfig {
                in_flight_max: 0,
                breaker_pause_max: Duration::ZERO,
                ..OracleConfig::default()
            },
            ..DirectoryConfig::default()
        };
        let mistakes = config.check().unwrap_err();
        assert_eq!(
            mistakes,
            [
                ConfigError::Zero { setting: "pending_max" },
                ConfigError::Zero { setting: "oracle.in_flight_max" },
                ConfigError::Order { smaller: "oracle.deadline", larger: "lookup_deadline" },
                ConfigError::Order {
                    smaller: "oracle.breaker_pause_min",
                    larger: "oracle.breaker_pause_max"
                },
            ]
        );
    }
}
