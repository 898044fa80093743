//! The version and the commit of this program.

/// The version and the commit, as in `upesi --version`.
pub const VERSION: &str = env!("UPESI_VERSION");

/// The commit, with a `+` if the sources differed from it; `None` for debug builds and outside of a git checkout.
pub fn commit() -> Option<&'static str> {
    Some(env!("UPESI_BUILT_FROM")).filter(|commit| !commit.is_empty())
}
