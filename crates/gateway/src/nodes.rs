//! Requests between the nodes of a cluster: a follower reads and checks requests of DFSPs and forwards each to the
//! leader.
//!
//! A request is forwarded unchanged: its method, path and query, its header block and its body, byte for byte, as an
//! HTTP/1.1 request over mutual TLS. The leader reads it again, so nodes of different versions need to agree only on
//! the API. The leader trusts the follower's authentication of the sender, and takes the sender from the headers.

mod couriers;
mod forwarder;
mod node_answer;
mod peers;
mod port;

pub use self::couriers::{Couriers, REPORT_EVERY, ReportWay};
pub use self::forwarder::{ForwardCounts, RequestForwarder};
pub use self::peers::{CONNECTIONS_PER_NODE, KnownLeader, Peers};
pub use self::port::NodePort;
