//! Settings of a node of a cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use upesi_cluster::{Claim, ClusterId, NodeId, StandbyTimeouts};

/// A node's settings in its cluster.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    pub cluster: ClusterId,
    pub node: NodeId,
    pub claim: Claim,
    /// Conditions for its claims.
    pub patience: StandbyTimeouts,
    /// Whether it may claim after its start without an operator's request; see
    /// [`upesi_cluster::Standby::permit_claims`].
    pub may_claim: bool,
    /// Set by an operator: the node claims once, without waiting for silence. From then on it may claim, whatever other
    /// nodes reported.
    pub is_promoted: Arc<AtomicBool>,
    /// Set when the state of this node has failed: the node follows the log, and no longer claims.
    pub is_unfit: Arc<AtomicBool>,
    /// Interval of its reports to the log about the entries that it needs.
    pub report_every: Duration,
}
