//! A bound on the connections of all pools together, and on where they lead.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Guard;

/// Connections up to which a pool may use the part that is kept for those that have few.
const FEW: usize = 4;

/// A bound that many pools share, so that connections to the outside leave descriptors to the rest of the process.
///
/// A quarter is kept for pools with fewer than four connections: peers that do not answer hold many, and must not take
/// all. The default has no bound and leads anywhere.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    parts: Option<Arc<Parts>>,
    guard: Guard,
}

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
        let parts = Parts {
            connections_max,
            common: Arc::new(Semaphore::new(connections_max - kept)),
            kept: Arc::new(Semaphore::new(kept)),
        };
        Self { parts: Some(Arc::new(parts)), guard: Guard::default() }
    }

    /// The same, and only to where the guard allows.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// Where connections may lead.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Connections open or being opened; `None` without a bound.
    pub fn open(&self) -> Option<usize> {
        let parts = self.parts.as_ref()?;
        Some(parts.connections_max - parts.common.available_permits() - parts.kept.available_permits())
    }

    /// Whether connections are so short that none should be kept idle.
    pub(super) fn is_short(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.common.available_permits() == 0)
    }

    /// Waits for the right to one more connection of a pool that has so many.
    pub(super) async fn place(&self, open_of_pool: usize) -> Place {
        let Some(parts) = &self.parts else { return Place(None) };
        if let Ok(permit) = Arc::clone(&parts.common).try_acquire_owned() {
            return Place(Some(permit));
        }
        let part = if open_of_pool < FEW { &parts.kept } else { &parts.common };
        // The semaphores are never closed.
        Place(Arc::clone(part).acquire_owned().await.ok())
    }
}

impl PartialEq for Outbound {
    /// Whether both are the same bound and guard.
    fn eq(&self, other: &Self) -> bool {
        let is_same_bound = match (&self.parts, &other.parts) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_bound && self.guard == other.guard
    }
}

impl Eq for Outbound {}
