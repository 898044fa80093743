//! From node to node of a cluster: one that follows reads and checks requests as any edge does, and hands each on to
//! the one that leads.
//!
//! A request goes as it came: its method, path and query, its header block, its body, byte for byte, as a request of
//! HTTP/1.1 over mutual TLS. The leader reads it again, so that nodes of different versions need to agree on nothing
//! but the API. Whom it comes from is what the follower has found out: its headers.

mod answer;
mod hand_on;
mod port;

pub use hand_on::{CONNECTIONS_PER_NODE, HandOn, HandOnCounts, Lead, Peers};
pub use port::NodePort;
