//! Rate limit of a node's warnings, because the client retries many times a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// Minimum interval between equal warnings.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Whether the brokers deny a permission.
pub(crate) fn is_denied(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed};
    matches!(
        error.rdkafka_error_code(),
        Some(TopicAuthorizationFailed | ClusterAuthorizationFailed | GroupAuthorizationFailed)
    )
}

/// Subject of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// The producer reported an error of this kind. Each kind has its own rate.
    Failure(Option<RDKafkaErrorCode>),
    /// This node may not write to the topic.
    NoWrite,
    /// This node may not read the topic.
    NoRead,
    /// This node may not read the progress of other nodes.
    Members,
    /// Its stalled consumer or producer was replaced.
    Stuck,
}

/// Time of the last warning about each subject.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<(Warning, Instant)>>);

impl Warnings {
    /// Whether a warning is due; then it counts as logged.
    pub(crate) fn is_due(&self, warning: Warning, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|(_, at)| now.saturating_duration_since(*at) < SAY_EVERY);
        let is_due = said.iter().all(|(known, _)| *known != warning);
        if is_due {
            said.push((warning, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_limited_by_subject() {
        let (warnings, start) = (Warnings::default(), Instant::now());
        let down = Warning::Failure(Some(RDKafkaErrorCode::AllBrokersDown));
        let refused = Warning::Failure(Some(RDKafkaErrorCode::Authentication));
        for (seconds, warning, is_said) in [
            (0, Warning::NoWrite, true),
            (0, Warning::NoWrite, false),
            (1, down, true),
            (2, refused, true),
            (2, Warning::NoRead, true),
            (9, Warning::NoWrite, false),
            (10, Warning::NoWrite, true),
            (10, down, false),
            (11, down, true),
            (11, refused, false),
            (19, Warning::NoWrite, false),
            (25, Warning::NoWrite, true),
        ] {
            let is_due = warnings.is_due(warning, start + Duration::from_secs(seconds));
            assert_eq!(is_due, is_said, "{warning:?} after {seconds} s");
        }
    }

    #[test]
    fn missing_permissions_are_denials() {
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
