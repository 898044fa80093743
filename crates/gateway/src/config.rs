//! Settings of the gateway.

use std::time::Duration;

use upesi_fspiop::headers::HeaderRules;
use upesi_http::PaceLimits;
use upesi_types::FspId;

use crate::admission::AdmissionSettings;
use crate::caller::AddressLists;

/// Limits, rules and time limits of the gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Accepted protocol versions, and whether every request needs a `Content-Type`.
    pub headers: HeaderRules,
    /// Name of the hub in messages; shown by `GET /`.
    pub hub_name: FspId,
    /// Longest request body in bytes. Longer bodies are answered 400 with 3104 (FSPIOP API v1.1 §3.2.1 names
    /// 5,242,880).
    pub body_bytes_max: usize,
    /// Longest body in bytes of messages about transfers, which the journal stores. The longest member has 32 KiB.
    pub transfer_body_bytes_max: usize,
    /// Maximum total of bytes in bodies over 64 KiB, from their first byte until they are forwarded or dropped. Further
    /// bodies are answered 503 with 2005.
    pub large_bodies_bytes_max: usize,
    /// Maximum total of bytes in one sender's bodies. Bodies over 16 KiB count while they are read, bodies over 64 KiB
    /// until they are forwarded or dropped. Further bodies are answered 503 with 2005. The sender is a DFSP once its
    /// connection has carried a valid request of a participant, and an address before.
    pub sender_bodies_bytes_max: usize,
    /// Time limit from the end of a request's head to the end of its body; then 408 with 2004.
    pub body_deadline: Duration,
    /// Maximum time in milliseconds of a fulfil's `completedTimestamp` in the future (scheme practice).
    pub completed_timestamp_lag_ms: i64,
    /// Maximum age in seconds of a fulfil's `completedTimestamp` (scheme practice).
    pub completed_timestamp_age_s_max: i64,
    /// Whether paths may have the party identifier types CONSENT and THIRD_PARTY_LINK, which only third-party schemes
    /// use.
    pub extended_party_id_types: bool,
    /// Whether amounts with more decimals than their currency are rejected with 3100.
    pub rejects_finer_amounts: bool,
    /// Whether requests are counted and timed. If not, the metrics of requests stay at zero; for measurements.
    pub records_metrics: bool,
    /// Whether each request is logged, at `info` under the target `upesi_access`.
    pub logs_access: bool,
    /// Whether the client's certificate must be bound to a participant. If not, a client with an unbound certificate
    /// may name participants without bindings.
    pub are_bindings_required: bool,
    /// Whether each request must have a token, if the gateway accepts tokens of a provider.
    pub are_tokens_required: bool,
    /// Permitted client addresses of participants.
    pub addresses: AddressLists,
    /// Rate limit of unauthenticated requests: health, pages, unknown paths.
    pub pace: PaceLimits,
    /// Whether health shows more than the status, and whether the gateway serves the API's metadata, its documents and
    /// the endpoint for operators' scripts.
    pub shows_diagnostics: bool,
    /// Limits above which requests are rejected to protect accepted ones.
    pub admission: AdmissionSettings,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            headers: HeaderRules::default(),
            hub_name: FspId::parse("Hub").unwrap_or_else(|| unreachable!("a literal name")),
            body_bytes_max: 5 * 1024 * 1024,
            transfer_body_bytes_max: 64 * 1024,
            large_bodies_bytes_max: 64 * 1024 * 1024,
            sender_bodies_bytes_max: 32 * 1024 * 1024,
            body_deadline: Duration::from_secs(30),
            completed_timestamp_lag_ms: 200,
            completed_timestamp_age_s_max: 300,
            extended_party_id_types: false,
            rejects_finer_amounts: false,
            records_metrics: true,
            logs_access: false,
            are_bindings_required: true,
            are_tokens_required: true,
            shows_diagnostics: true,
            addresses: AddressLists::default(),
            pace: PaceLimits::default(),
            admission: AdmissionSettings::default(),
        }
    }
}
