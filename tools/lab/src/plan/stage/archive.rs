//! The settings of the stage `archive`.

use upesi_tables::archive::VALUE_BYTES_MAX;

use crate::plan::section::Section;

/// Size of an encoded finished transfer, in bytes.
const VALUE_BYTES: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The figures of the result, by index among the values of `what`; the others are among its stages.
    pub what: usize,
    pub transfers: u64,
    pub value_bytes: usize,
    pub batch: usize,
    pub lookups: u64,
    pub cache_bytes: u64,
    pub repetitions: usize,
}

impl Settings {
    pub fn read(keys: &mut Section<'_>) -> Self {
        let settings = Self {
            what: keys.choice("what", &["insert", "hit", "miss"]).unwrap_or(0),
            transfers: keys.integer("transfers", 1..=1_000_000_000).unwrap_or(200_000),
            value_bytes: keys.size("value_bytes", 1..=VALUE_BYTES_MAX).unwrap_or(VALUE_BYTES),
            batch: keys.size("batch", 1..=1_000_000).unwrap_or(16_384),
            lookups: keys.integer("lookups", 1..=100_000_000).unwrap_or(50_000),
            cache_bytes: keys.integer("cache_bytes", 1 << 20..=64 << 30).unwrap_or(32 << 20),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        };
        let repetitions = settings.repetitions as u64;
        if settings.transfers < repetitions || settings.lookups < repetitions {
            keys.mistake("give at least as many transfers and lookups as repetitions");
        }
        settings
    }
}
