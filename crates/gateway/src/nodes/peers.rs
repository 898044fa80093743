//! The nodes of a cluster, as seen by one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use upesi_http::{ClientTls, Origin, Pool, PoolConfig};

use super::node_answer::ANSWER_BYTES_MAX;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of open connections to the leader, and so of concurrent requests.
pub const CONNECTIONS_PER_NODE: usize = 256;
/// The leader, as far as this node has read the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownLeader {
    /// Number of the leadership; it increases with each change.
    pub epoch: u64,
    /// The leader's number; `None` without a leader.
    pub node: Option<u32>,
    /// Whether the log must still show the next leader, because this node was the leader until now. In that case `node`
    /// is the node that the handover named, if any.
    pub is_sought: bool,
}

/// Connections to the nodes of a cluster, by number.
#[derive(Debug)]
pub struct Peers(pub(super) BTreeMap<u32, Pool>);

impl Peers {
    /// Connections with mutual TLS; without `tls` they are plain, for tests.
    pub fn new(origins: impl IntoIterator<Item = (u32, Origin)>, tls: Option<&ClientTls>) -> Self {
        let config = PoolConfig {
            connections_max: CONNECTIONS_PER_NODE,
            connect_timeout: CONNECT_TIMEOUT,
            response_body_bytes_max: ANSWER_BYTES_MAX,
            tls: tls.cloned(),
            ..PoolConfig::default()
        };
        let pools = origins.into_iter().map(|(node, origin)| (node, Pool::new(origin, config.clone())));
        Self(pools.collect())
    }

    /// Closes idle connections to all nodes but one, so that the leader can use their slots.
    pub(super) fn close_all_but(&self, kept: Option<u32>) {
        self.0.iter().filter(|(node, _)| Some(**node) != kept).for_each(|(_, pool)| pool.close_idle());
    }
}
