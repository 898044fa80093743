//! Requests as they come in, over real sockets.

mod bodies;
mod common;
mod exchange;
mod large_bodies;
mod limits;
mod messages;
mod nodes;
mod overload;
mod payloads;
mod refusals;
