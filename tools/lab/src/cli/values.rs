//! Values of flags of `upesi lab`.

use std::time::Duration;

pub use upesi_hub::values::{amount, currency};

/// `20s`, `500ms`, `5m` or `1h`.
///
/// # Errors
/// How to write one.
pub fn duration(text: &str) -> Result<Duration, String> {
    crate::plan::duration_of(text).ok_or_else(|| "write a number and a unit: 500ms, 20s, 5m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("500ms", 500), ("20s", 20_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "20", "s", "1.5s", "-1s", "20 s", "20sec", "99999999999999999999s", "99999999999999999h"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
