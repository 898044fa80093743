//! What a node of a cluster is told.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use upesi_cluster::{Claim, ClusterId, NodeId, Patience};

/// A node's place in its cluster.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The cluster.
    pub cluster: ClusterId,
    /// This node.
    pub node: NodeId,
    /// What its claims say of it.
    pub claim: Claim,
    /// When it claims.
    pub patience: Patience,
    /// Whether it may claim after its start without a word of an operator; see
    /// [`upesi_cluster::Standby::permit_claims`].
    pub may_claim: bool,
    /// How often it tells the log what it needs.
    pub tell_every: Duration,
}

/// The time of a node.
pub trait Clock: Send + Sync {
    /// Since any instant, without jumps.
    fn now(&self) -> Duration;

    /// The time of day, in nanoseconds since 1970.
    fn wall_ns(&self) -> i64;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}
