//! The bounds of lookups and of the oracles they ask.

use std::time::Duration;

use upesi_http::{ClientTls, Outbound};

/// How lookups behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// How long a `GET /parties` may go unanswered before the hub answers it with an error (3300). The default is
    /// longer than an oracle and a delivery can take together, so that whatever the hub knows better is said first, and
    /// shorter than the 30 s that payers commonly wait.
    pub lookup_deadline: Duration,
    /// Lookups that wait for an answer; above it further ones are refused with 2005.
    pub pending_max: usize,
    /// Bytes of headers and paths of the lookups that wait; above it further ones are refused with 2005.
    pub pending_bytes_max: usize,
    /// The part of these that the lookups of one DFSP may take, in percent.
    pub sender_share_percent: usize,
    /// Error callbacks about unanswered lookups that are on their way at a time; the others wait.
    pub expiries_in_flight_max: usize,
    /// Whether a lookup that finds an owner or a destination unknown to the scheme makes the oracle forget the party.
    /// Other hubs do that; a lookup that deletes is a surprise, and one mistyped participant costs the directory.
    pub remove_stale_parties: bool,
    /// Whether the extended types of identifiers are served, of which batches may bring some; paths are checked before.
    pub extended_party_id_types: bool,
    /// Whether only the DFSP that a party belongs to may change or remove it in an external oracle. It costs a lookup
    /// for each. The built-in directory has its own such option.
    pub external_ownership_check: bool,
    /// The bounds of each external oracle.
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

/// What each external oracle may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleConfig {
    /// From a question to the end of its answer, connecting included.
    pub deadline: Duration,
    /// Time to open a connection.
    pub connect_timeout: Duration,
    /// Questions on their way to one oracle; further ones fail at once. They hold no more memory than this, however
    /// slow it is.
    pub in_flight_max: usize,
    /// The part of these that the questions of one DFSP may take, in percent.
    pub sender_share_percent: usize,
    /// Connections that each worker may have open to one oracle.
    pub connections_max: usize,
    /// How long a connection may idle before it is used no more.
    pub connection_idle_timeout: Duration,
    /// The bound on the connections to all oracles, and to others outside, together.
    pub outbound: Outbound,
    /// TLS for `https://` addresses; without it they cannot be called.
    pub tls: Option<ClientTls>,
    /// Largest answer to a lookup or registration.
    pub answer_bytes_max: usize,
    /// Largest answer to a batch, which tells each of up to 10,000 parties again and what is wrong with it.
    pub batch_answer_bytes_max: usize,
    /// Batches on their way to one oracle; further ones fail at once.
    pub batches_in_flight_max: usize,
    /// Questions without an answer in a row after which the oracle is not asked for a while.
    pub breaker_threshold: u32,
    /// First pause; it doubles with each probe that fails.
    pub breaker_pause_min: Duration,
    /// Longest pause.
    pub breaker_pause_max: Duration,
    /// How long an answer to a lookup may be used again; zero: never.
    pub cache_ttl: Duration,
    /// Answers kept per oracle; the oldest makes way.
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
    /// It must be at least one.
    #[error("{setting} must be at least 1")]
    Zero {
        /// The field's name.
        setting: &'static str,
    },
    /// One must not be above the other.
    #[error("{smaller} must not be above {larger}")]
    Order {
        /// The field that has to be smaller.
        smaller: &'static str,
        /// The field that has to be larger.
        larger: &'static str,
    },
}

impl DirectoryConfig {
    /// Gives every mistake.
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
