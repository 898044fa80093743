//! The settings of the stage `journal`.

use crate::plan::section::Section;

/// Size of a record of a prepare with its request, as in the lab's own messages, in bytes.
const RECORD_BYTES: usize = 1_450;
/// Maximum size of a batch in bytes, so that it fits a frame.
const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub record_bytes: usize,
    pub batch: usize,
    pub batches: usize,
    pub durable: bool,
    /// Whether the next segment is filled with zeros ahead of time.
    pub zero_ahead: bool,
    pub segment_bytes: u64,
    pub repetitions: usize,
}

impl Settings {
    /// Reads the settings.
    pub fn read(keys: &mut Section<'_>) -> Self {
        let settings = Self {
            record_bytes: keys.size("record_bytes", 1..=1024 * 1024).unwrap_or(RECORD_BYTES),
            batch: keys.size("batch", 1..=65_536).unwrap_or(1),
            batches: keys.size("batches", 1..=10_000_000).unwrap_or(2_000),
            durable: keys.flag("durable").unwrap_or(true),
            zero_ahead: keys.flag("zero_ahead").unwrap_or(true),
            segment_bytes: keys.integer("segment_bytes", 64 * 1024..=4 << 30).unwrap_or(64 << 20),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        };
        if settings.batch.saturating_mul(settings.record_bytes) > BATCH_BYTES_MAX {
            keys.mistake(format!("batch × record_bytes must not be more than {BATCH_BYTES_MAX}"));
        }
        settings
    }
}
