//! Where and with what something was tried.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use upesi_lab::Environment;
use upesi_types::Timestamp;

/// The commit that this program was built from, with a `+` where sources differed from it: `UPESI_COMMIT` or git at the
/// time of the build; `unknown` without either.
pub fn commit() -> String {
    env!("UPESI_BUILT_FROM").to_owned()
}

/// Processor, cores, kernel.
pub fn machine() -> String {
    Environment::detect(None, String::new(), Path::new(".")).machine()
}

/// How this program was built.
pub const fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Now, as ISO 8601 in seconds.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp::from_ms(i64::try_from(seconds).unwrap_or(i64::MAX / 1_000) * 1_000).to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn evidence_names_a_build() {
        // Outside of a checkout it is `unknown`; it never is nothing.
        assert!(!super::commit().is_empty());
        assert!(super::machine().contains(" cores, Linux "));
        assert!(super::now().ends_with(".000Z"));
    }
}
