//! A hub in this process, over real sockets, and its command.

mod answer_first;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod delivery;
mod identity;
mod lookups;
mod matrix_rotation;
mod matrix_signatures;
mod messages;
mod operations;
mod operators;
mod oracles;
mod outbound;
mod payment;
mod quotes;
mod relays;
mod retention;
mod rotation;
mod settlement;
mod signatures;
mod simulator;
#[path = "../support_command/mod.rs"]
mod support_command;
mod time;
mod tls;
mod transfers;

use std::process::Output;

// Exit code of a command.

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
