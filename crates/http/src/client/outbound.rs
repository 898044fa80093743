//! A bound on the connections of all pools together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections up to which a pool may use the part that is kept for those that have few.
const FEW: usize = 4;

/// A bound that many pools share, so that connections to the outside leave descriptors to the rest of the process.
///
/// A quarter is kept for pools with fewer than four connections: peers that do not answer hold many, and must not take
/// all.
#[derive(Clone, Debug, Default)]
pub struct Outbound(Option<Arc<Parts>>);

#[derive(Debug)]
struct Parts {
    connections_max: usize,
    common: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// The right to one connection.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>);

impl Outbound {
    /// So many connections at a time; at least two.
    pub fn bounded(connections_max: usize) -> Self {
        let connections_max = connections_max.clamp(2, Semaphore::MAX_PERMITS);
        let kept = (connections_max / 4).max(1);
        Self(Some(Arc::new(Parts {
            connections_max,
            common: Arc::new(Semaphore::new(connections_max - kept)),
            kept: Arc::new(Semaphore::new(kept)),
        })))
    }

    /// Connections open or being opened; `None` without a bound.
    pub fn open(&self) -> Option<usize> {
        let parts = self.0.as_ref()?;
        Some(parts.connections_max - parts.common.available_permits() - parts.kept.available_permits())
    }

    /// Whether connections are so short that none should be kept idle.
    pub(super) fn is_short(&self) -> bool {
        self.0.as_ref().is_some_and(|parts| parts.common.available_permits() == 0)
    }

    /// Waits for the right to one more connection of a pool that has so many.
    pub(super) async fn place(&self, open_of_pool: usize) -> Place {
        let Some(parts) = &self.0 else { return Place(None) };
        if let Ok(permit) = Arc::clone(&parts.common).try_acquire_owned() {
            return Place(Some(permit));
        }
        let part = if open_of_pool < FEW { &parts.kept } else { &parts.common };
        // The semaphores are never closed.
        Place(Arc::clone(part).acquire_owned().await.ok())
    }
}

impl PartialEq for Outbound {
    /// Whether both are the same bound.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Outbound {}
