//! The settings of the connection to the brokers, and the failures of its clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;

use crate::plain::Security;
use crate::security::SecurityError;

/// The log is one partition. Its order is the order of the ledger.
pub(crate) const PARTITION: i32 = 0;

/// Settings of the connection to the brokers.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// Addresses of some brokers, separated by commas.
    pub brokers: String,
    pub topic: String,
    /// Authentication of both sides.
    pub security: Security,
    /// Counts the failures that the client reports.
    pub errors: Arc<AtomicU64>,
    /// The newest failure.
    pub failure: LastFailure,
}

/// The reason of the last failed connection, in librdkafka's words. The errors that it returns say only that no broker
/// was reached.
#[derive(Clone, Debug, Default)]
pub struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    /// Records a failure. A rejection is more informative than the failure of a broker's second address, so it is kept.
    fn note(&self, message: &str) {
        // A broker that does not understand the first request closes the connection.
        let is_unasked = message.contains("Disconnected") && message.contains("APIVERSION_QUERY");
        let hint = if is_unasked {
            "; does this listener expect another security.protocol, such as TLS?"
        } else {
            ""
        };
        let message = &format!("{message}{hint}");
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_refusal(message) || !last.as_deref().is_some_and(is_refusal) {
            *last = Some(message.clone());
        }
    }

    /// The failure as the end of a sentence; empty if there was none.
    pub fn told(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map_or_else(String::new, |last| format!("; the last failure: {last}"))
    }
}

fn is_refusal(message: &str) -> bool {
    ["SSL", "SASL", "uthentication", "security.protocol"].iter().any(|word| message.contains(word))
}

/// The reason why no client can be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// librdkafka rejects a setting.
    #[error("cannot create the Kafka client: {0}; check the brokers' addresses")]
    Client(#[from] KafkaError),
    /// A file of keys, certificates or the password is invalid.
    #[error(transparent)]
    Security(#[from] SecurityError),
}

/// The context of all clients without a producer's results.
pub(crate) struct Context {
    pub(crate) errors: Arc<AtomicU64>,
    failure: LastFailure,
}

impl ClientContext for Context {
    /// Logs at the level of a library, because messages about unreachable brokers are very frequent.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            self.failure.note(message);
        }
        tracing::debug!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, reason, "Kafka");
    }
}

impl rdkafka::consumer::ConsumerContext for Context {}

impl KafkaSettings {
    /// Brokers by their addresses, separated by commas, and the topic.
    ///
    /// # Errors
    /// None; a build without this client returns one.
    pub fn new(brokers: String, topic: String, security: Security) -> Result<Self, ConnectError> {
        Ok(Self { brokers, topic, security, errors: Arc::default(), failure: LastFailure::default() })
    }

    /// Counts failures in this counter.
    #[must_use]
    pub fn counting(self, errors: Arc<AtomicU64>) -> Self {
        Self { errors, ..self }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The reason of the last failed connection, as the end of a sentence; empty if none failed.
    pub fn last_failure(&self) -> String {
        self.failure.told()
    }

    /// The configuration of every client of these brokers.
    pub(crate) fn client(&self) -> Result<ClientConfig, SecurityError> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            // A paused broker does not close its connections.
            .set("socket.timeout.ms", "3000")
            .set("socket.nagle.disable", "true")
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "200")
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "100")
            .set("topic.metadata.refresh.fast.interval.ms", "50");
        // Failures of connections are reported as log lines. Their level must be set, or another library's level
        // applies.
        config.set_log_level(RDKafkaLogLevel::Info);
        self.security.apply(&mut config)?;
        Ok(config)
    }

    /// The context of a client, which records its failures.
    pub(crate) fn told(&self) -> Context {
        Context { errors: Arc::clone(&self.errors), failure: self.failure.clone() }
    }
}
