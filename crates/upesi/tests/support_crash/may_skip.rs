//! Tests that need something of the system.

const VARIABLE: &str = "UPESI_TESTS_MAY_SKIP";

/// A test cannot be run for want of something: it fails, unless whoever runs it has said that it may be left out.
#[allow(clippy::print_stdout, reason = "a test that is left out must say so")]
pub fn leave_out(why: &str) {
    let is_allowed = std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
    assert!(is_allowed, "{why}. Where that cannot be had, {VARIABLE}=1 leaves such tests out");
    println!("left out, as {VARIABLE} allows: {why}");
}
