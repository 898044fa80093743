//! The `upesi` command: arguments, and what each command runs. The hub is `upesi-hub`, the lab `upesi-lab`.

pub mod cli;
pub mod demo;
