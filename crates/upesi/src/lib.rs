//! The `upesi` command: arguments, and what each command runs. The hub is `upesi-node`, the lab `upesi-lab`.

pub mod cli;
pub mod demo;
