//! A hub in this process, over real sockets, and its command.

mod answer_first;
mod bulks;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod conversions;
mod delivery;
mod edge;
mod identity;
mod lookups;
mod matrix_rotation;
mod matrix_signatures;
mod messages;
mod operations;
mod operators;
mod oracles;
mod outbound;
mod outcome;
mod payment;
mod proxies;
mod quotes;
mod rates;
mod relays;
mod requests;
mod retention;
mod settlement;
mod signatures;
mod simulator;
#[path = "../../../keys/tests/softhsm/mod.rs"]
mod softhsm;
#[path = "../support_command/mod.rs"]
mod support_command;
mod time;
mod tls;
mod tokens;
mod torture_outages;
mod transfers;
mod trim;
