//! Settings of admission.

use std::time::Duration;

/// Limits above which requests are rejected to protect accepted ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Maximum standing delay of ready tasks before a worker runs them. Above it, new work is limited. Zero disables
    /// the limit.
    pub delay_target: Duration,
    /// Maximum expected time that new commands wait for the engine.
    pub engine_wait_max: Duration,
    /// Number of commands in one batch of the engine. This many commands may always wait.
    pub engine_batch_commands: usize,
    /// Maximum number of waiting commands from new requests; the rest of the engine's queue is for finishing requests.
    pub engine_waiting_max: usize,
    /// Maximum of new requests per second of all DFSPs together; 0 means no limit.
    pub rate_max: u64,
    /// Maximum of new requests per second of each DFSP; 0 means no limit.
    pub rate_per_dfsp: u64,
    /// Maximum of bytes in bodies per second of each DFSP, counted separately for new and finishing requests; 0 means
    /// no limit.
    pub bytes_per_dfsp: u64,
    /// Delay before a rejection is sent if there are very many.
    pub refusal_hold: Duration,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            delay_target: Duration::from_millis(20),
            engine_wait_max: Duration::from_millis(500),
            engine_batch_commands: 4_096,
            engine_waiting_max: 57_344,
            rate_max: 0,
            rate_per_dfsp: 0,
            bytes_per_dfsp: 16 * 1024 * 1024,
            refusal_hold: Duration::from_millis(5),
        }
    }
}

impl AdmissionSettings {
    /// The part of the engine's queue that new work may use.
    pub const fn part_for_new(queue_commands_max: usize) -> usize {
        let part = queue_commands_max - queue_commands_max / 8;
        if part == 0 { 1 } else { part }
    }
}
