//! Requests as they come in, over real sockets.

mod bodies;
mod common;
mod exchange;
#[path = "../../../engine/tests/common/held.rs"]
mod held;
mod limits;
mod messages;
mod nodes;
mod overload;
mod refusals;
