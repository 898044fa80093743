//! Torture tests: millions of injected faults, and the evidence of the results. Disks crash, tear writes, fail, fill up
//! and rot.
//!
//! A [`trials::Trial`] turns a seed into some worlds with faults, and panics if a promise of `docs/reliability.md` is
//! broken. A [`campaign`] runs many seeds and counts. It merges the counts into `docs/evidence/`. The table of that
//! page is generated from the evidence.

pub mod attacks;
pub mod black_hole;
pub mod campaign;
pub mod evidence;
pub mod handshakes;
pub mod hub;
pub mod hub_binary;
mod pacing;
pub mod real_files;
pub mod table;
pub mod trials;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Fails if a hub has ended, with its exit status and the last error of its log.
fn still_runs(hub: &mut upesi_lab::HubProcess, log: &std::path::Path) -> Result<(), String> {
    let Some(status) = hub.has_ended() else { return Ok(()) };
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let said = log.lines().rev().find(|line| line.contains("ERROR")).unwrap_or_default();
    Err(format!("the hub ended with {status}: {said}"))
}
