//! A limit on the connections of all pools together, and on their destinations.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::dial::dial;
use super::names::{Names, ResolvedHost};
use crate::Guard;

/// Number of connections below which a pool may use the part that is reserved for pools with few.
const FEW: usize = 4;

/// A limit that many pools share, so that outbound connections leave descriptors to the rest of the process.
///
/// A quarter is reserved for pools with fewer than four connections, because peers that do not answer occupy many
/// connections. The default has no limit and permits all destinations.
///
/// The pools also share resolved addresses: results are cached for a while, and each peer may have few lookups at the
/// same time.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    parts: Option<Arc<ConnectionBudget>>,
    guard: Guard,
    names: Names,
    /// `None`: each host counts as a peer of its own.
    peer: Option<Arc<str>>,
}

#[derive(Debug)]
struct ConnectionBudget {
    connections_max: usize,
    common: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// Permit for one connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit(
    #[expect(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>,
);

impl Outbound {
    /// At most `connections_max` connections at the same time; at least two.
    pub fn bounded(connections_max: usize) -> Self {
        let connections_max = connections_max.clamp(2, Semaphore::MAX_PERMITS);
        let kept = (connections_max / 4).max(1);
        let parts = ConnectionBudget {
            connections_max,
            common: Arc::new(Semaphore::new(connections_max - kept)),
            kept: Arc::new(Semaphore::new(kept)),
        };
        Self { parts: Some(Arc::new(parts)), ..Self::default() }
    }

    /// The same limit for one peer, which has its own share of name lookups.
    #[must_use]
    pub fn of(&self, peer: &str) -> Self {
        Self { peer: Some(peer.into()), ..self.clone() }
    }

    /// The same limit, with the destinations that the guard allows.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// The permitted destinations.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Connects to a host if the guard allows all of its addresses.
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        self.guard.check_port(port)?;
        let found = self.addresses_of(host).await?;
        let mut dialled = dial(&found.addresses, port).await;
        if dialled.is_err() && found.is_kept {
            // The host may have new addresses by now.
            self.names.forget(host);
            let found = self.addresses_of(host).await?;
            dialled = dial(&found.addresses, port).await;
        }
        let stream = dialled?;
        self.guard.check_own(&stream)?;
        Ok(stream)
    }

    async fn addresses_of(&self, host: &str) -> io::Result<ResolvedHost> {
        let peer = self.peer.as_deref().unwrap_or(host);
        let found = self.names.of(host, peer, self.guard.names()).await?;
        self.guard.check_addresses(&found.addresses)?;
        Ok(found)
    }

    /// Number of connections that are open or being opened; `None` without a limit.
    pub fn open(&self) -> Option<usize> {
        let parts = self.parts.as_ref()?;
        Some(parts.connections_max - parts.common.available_permits() - parts.kept.available_permits())
    }

    /// Whether connections are so scarce that none should be kept idle.
    pub(super) fn is_short(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.common.available_permits() == 0)
    }

    /// Waits for a permit of one more connection, for a pool with `open_of_pool` connections.
    pub(super) async fn place(&self, open_of_pool: usize) -> ConnectionPermit {
        let Some(parts) = &self.parts else { return ConnectionPermit(None) };
        if let Ok(permit) = Arc::clone(&parts.common).try_acquire_owned() {
            return ConnectionPermit(Some(permit));
        }
        let part = if open_of_pool < FEW { &parts.kept } else { &parts.common };
        // The semaphores are never closed.
        ConnectionPermit(Arc::clone(part).acquire_owned().await.ok())
    }
}

impl PartialEq for Outbound {
    /// Whether both share the same limit and guard.
    fn eq(&self, other: &Self) -> bool {
        let is_same_bound = match (&self.parts, &other.parts) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_bound && self.guard == other.guard
    }
}

impl Eq for Outbound {}
