//! Settings of the gate.

use std::time::Duration;

/// When requests are refused for the sake of those that are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// How long what is ready to run may wait for a worker, all the time; over it new work is limited. Zero: never.
    pub delay_target: Duration,
    /// How long new commands may be expected to wait for the engine.
    pub engine_wait_max: Duration,
    /// Commands that the engine does in one go: so many may always wait.
    pub engine_batch_commands: usize,
    /// Commands that new work may bring to wait at most; the rest of the engine's queue is for what finishes something.
    pub engine_waiting_max: usize,
    /// New requests per second of all DFSPs together; 0 for no bound.
    pub rate_max: u64,
    /// New requests per second of each DFSP; 0 for no bound.
    pub rate_per_dfsp: u64,
    /// Bytes per second of bodies over 16 KiB in new requests of each DFSP; 0 for no bound.
    pub bytes_per_dfsp: u64,
    /// How long a refusal waits before it leaves, where there are very many.
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
    /// The part of the engine's queue that new work may fill.
    pub const fn part_for_new(queue_commands_max: usize) -> usize {
        let part = queue_commands_max - queue_commands_max / 8;
        if part == 0 { 1 } else { part }
    }
}
