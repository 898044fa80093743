//! The `torture` command.

fn main() {}
