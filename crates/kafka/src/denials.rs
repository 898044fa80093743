//! A node that may not write to the topic, and how often it says so: the client tries again about once a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// How often it is said.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Whether an operator of the brokers must permit something.
pub(crate) fn is_denied(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed};
    matches!(
        error.rdkafka_error_code(),
        Some(TopicAuthorizationFailed | ClusterAuthorizationFailed | GroupAuthorizationFailed)
    )
}

/// When it was said last.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<Option<Instant>>);

impl Denials {
    /// Whether a denial is to be said; it is then.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut said_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = said_at.is_none_or(|said| now.saturating_duration_since(said) >= SAY_EVERY);
        if is_due {
            *said_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_are_said_now_and_then() {
        let (denials, start) = (Denials::default(), Instant::now());
        for (seconds, is_said) in [(0, true), (0, false), (9, false), (10, true), (19, false), (25, true)] {
            assert_eq!(denials.is_due(start + Duration::from_secs(seconds)), is_said, "{seconds} s");
        }
    }

    #[test]
    fn what_an_operator_must_permit_is_a_denial() {
        for (code, is_one) in [
            (RDKafkaErrorCode::TopicAuthorizationFailed, true),
            (RDKafkaErrorCode::ClusterAuthorizationFailed, true),
            (RDKafkaErrorCode::GroupAuthorizationFailed, true),
            (RDKafkaErrorCode::NotEnoughReplicas, false),
        ] {
            assert_eq!(is_denied(&KafkaError::MessageProduction(code)), is_one, "{code}");
        }
    }
}
