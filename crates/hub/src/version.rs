//! What this binary was built from.

/// The version and the commit, as `upesi --version` says them.
pub const VERSION: &str = env!("UPESI_VERSION");

/// The commit, with a `+` where sources differed from it; `None` for debug builds and outside of a git checkout.
pub fn commit() -> Option<&'static str> {
    Some(env!("UPESI_BUILT_FROM")).filter(|commit| !commit.is_empty())
}
