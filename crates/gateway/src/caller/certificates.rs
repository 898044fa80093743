//! Client certificates of participants, and their expiry.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use upesi_http::CertificateFacts;

/// Metric of the first expiry among a participant's certificates, in seconds since 1970.
pub const FIRST_EXPIRY_SEEN: &str = "upesi_caller_certificate_expiry_timestamp_seconds";
/// Metric of the number of certificates that a participant has connected with.
pub const CERTIFICATES_SEEN: &str = "upesi_caller_certificates";

/// Time that a certificate is remembered after its last new connection. The participant may have replaced it since.
const SEEN_FOR: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of remembered certificates of a participant.
const CERTIFICATES_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Bound {
    fsp: String,
}

#[derive(Debug)]
struct CachedCertificate {
    sha256: [u8; 32],
    not_after_s: i64,
    at: Instant,
}

/// The first expiry among the certificates that each bound participant used within the last day.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    ends: Family<Bound, Gauge>,
    counts: Family<Bound, Gauge>,
    /// By participant, the latest connection first.
    seen: Mutex<BTreeMap<String, Vec<CachedCertificate>>>,
}

impl Certificates {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let certificates = Self::default();
        registry.register(
            FIRST_EXPIRY_SEEN,
            "First expiry among the client certificates of a participant within the last day",
            certificates.ends.clone(),
        );
        registry.register(
            CERTIFICATES_SEEN,
            "Number of client certificates in connections of a participant within the last day",
            certificates.counts.clone(),
        );
        certificates
    }

    /// Records a connection of a participant with this certificate.
    pub(super) fn note(&self, fsp: &str, facts: &CertificateFacts, now: Instant) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(fsp.to_owned()).or_default();
        let sha256 = facts.certificate_sha256.0;
        seen.retain(|known| known.sha256 != sha256 && now.saturating_duration_since(known.at) < SEEN_FOR);
        seen.insert(0, CachedCertificate { sha256, not_after_s: facts.not_after_s, at: now });
        seen.truncate(CERTIFICATES_MAX);
        let first = seen.iter().map(|known| known.not_after_s).min().unwrap_or(facts.not_after_s);
        let (bound, count) = (Bound { fsp: fsp.to_owned() }, seen.len() as i64);
        self.ends.get_or_create(&bound).set(first);
        self.counts.get_or_create(&bound).set(count);
    }
}

#[cfg(test)]
mod tests {
    use upesi_http::Fingerprint;

    use super::*;

    #[test]
    fn metric_shows_the_earliest_expiry_of_the_last_day() {
        let facts = super::super::tests::facts();
        let certificate = |number: u8, not_after_s| CertificateFacts {
            certificate_sha256: Fingerprint([number; 32]),
            not_after_s,
            ..facts.clone()
        };
        let certificates = Certificates::default();
        let end = |fsp: &str| certificates.ends.get_or_create(&Bound { fsp: fsp.to_owned() }).get();
        let start = Instant::now();
        let hours = |count: u64| start + Duration::from_secs(count * 3600);
        for (at_h, number, not_after_s, expected) in [
            (0, 1, 1_000, 1_000),
            (1, 2, 9_000, 1_000),
            (23, 2, 9_000, 1_000),
            // A day after its last connection the old certificate is removed.
            (24, 2, 9_000, 9_000),
            (25, 3, 5_000, 5_000),
            (26, 3, 5_000, 5_000),
        ] {
            certificates.note("greenbank", &certificate(number, not_after_s), hours(at_h));
            assert_eq!(end("greenbank"), expected, "after {at_h} hours");
        }
        for number in 10..30 {
            certificates.note("bluewallet", &certificate(number, i64::from(number)), start);
        }
        assert_eq!(end("bluewallet"), 22, "of the last eight");
    }
}
