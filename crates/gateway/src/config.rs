//! Settings of the gateway.

use std::time::Duration;

use upesi_fspiop::headers::HeaderRules;
use upesi_http::PaceLimits;
use upesi_types::FspId;

use crate::admission::AdmissionSettings;
use crate::caller::AddressLists;

/// What the gateway accepts and how long it waits.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Protocol versions that requests may have, and whether all of them need a `Content-Type`.
    pub headers: HeaderRules,
    /// Name under which the hub appears in messages; shown by `GET /`.
    pub hub_name: FspId,
    /// Longest request body in bytes; longer ones are answered 400 with 3104 (FSPIOP API v1.1 §3.2.1 names 5,242,880).
    pub body_bytes_max: usize,
    /// The same of messages about transfers, whose bodies the journal keeps: their longest member has 32 KiB.
    pub transfer_body_bytes_max: usize,
    /// Bytes of bodies over 64 KiB that may be in the hub at a time, from their first byte until they are passed on or
    /// dropped; further ones are answered 503 with 2005.
    pub large_bodies_bytes_max: usize,
    /// Bytes of one sender's bodies that may be in the hub at a time: those over 16 KiB while they are read, those over
    /// 64 KiB until they are passed on or dropped; further ones are answered 503 with 2005. A sender is a DFSP once its
    /// connection has carried a sound request of a participant, an address before.
    pub sender_bodies_bytes_max: usize,
    /// Time from the end of a request's head to the end of its body; then 408 with 2004.
    pub body_deadline: Duration,
    /// How far in the future a fulfil's `completedTimestamp` may lie, in milliseconds (scheme practice).
    pub completed_timestamp_lag_ms: i64,
    /// How far in the past a fulfil's `completedTimestamp` may lie, in seconds (scheme practice).
    pub completed_timestamp_age_s_max: i64,
    /// Whether paths may have the party-id types CONSENT and THIRD_PARTY_LINK, which only third-party schemes use.
    pub extended_party_id_types: bool,
    /// Whether amounts with more decimals than their currency are rejected with 3100.
    pub rejects_finer_amounts: bool,
    /// Whether requests are counted and timed. Without, the metrics of requests stay at nothing; for measurements.
    pub records_metrics: bool,
    /// Whether each request is logged, at `info` under the target `upesi_access`.
    pub logs_access: bool,
    /// Whether a caller's certificate must be bound to a participant. If not, an unbound one may name participants that
    /// have no bindings.
    pub are_bindings_required: bool,
    /// Whether each request must show a token, if those of a provider are taken.
    pub are_tokens_required: bool,
    /// From where participants may call.
    pub addresses: AddressLists,
    /// The pace of what anybody may ask without saying who: health, pages, unknown paths.
    pub pace: PaceLimits,
    /// Whether health shows more than whether requests are taken, and whether what the API is, its documents and the
    /// endpoint for operators' scripts are served.
    pub shows_diagnostics: bool,
    /// When requests are refused for the sake of those that are taken.
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
