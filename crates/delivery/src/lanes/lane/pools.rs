//! The connections of a lane: one pool per origin of its endpoints.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use upesi_http::{Origin, Pool, PoolConfig, ResponseBody};

use crate::lanes::CourierConfig;

/// Number of origins of one DFSP that are kept connected; a DFSP usually has one or two.
const ORIGINS_MAX: usize = 8;

pub(super) struct Pools {
    config: PoolConfig,
    /// Ordered by use, the latest last.
    pools: Mutex<Vec<Arc<Pool>>>,
}

impl Pools {
    /// Pools for callbacks.
    pub(super) fn new(config: &CourierConfig) -> Self {
        Self::with(config, config.concurrency_max)
    }

    /// Pools for direct messages.
    pub(super) fn direct(config: &CourierConfig) -> Self {
        Self::with(config, config.relay_concurrency_max)
    }

    /// Unreadable response bodies are dropped, because the status is sufficient.
    fn with(config: &CourierConfig, connections_max: usize) -> Self {
        let config = PoolConfig {
            connections_max,
            connect_timeout: config.connect_timeout,
            idle_timeout: config.idle_timeout,
            response_body_bytes_max: config.response_body_bytes_max,
            response_body: ResponseBody::KeepReadable,
            keep_alive: config.keep_alive,
            outbound: config.outbound.clone(),
            tls: config.tls.clone(),
        };
        Self { config, pools: Mutex::default() }
    }

    /// The pool of an origin. A new pool replaces the least recently used one. `name` returns the DFSP's name, because
    /// a DFSP may have its own trust anchors. It is called only on creation, because the name is surely known by then.
    pub(super) fn of(&self, origin: &Origin, name: impl FnOnce() -> String) -> Arc<Pool> {
        let mut pools = self.pools();
        if let Some(index) = pools.iter().position(|pool| pool.origin() == origin) {
            let pool = pools.remove(index);
            pools.push(pool.clone());
            return pool;
        }
        if pools.len() >= ORIGINS_MAX {
            pools.remove(0);
        }
        let name = name();
        let (tls, outbound) =
            (self.config.tls.as_ref().map(|tls| tls.of(&name)), self.config.outbound.of(&name));
        let config = PoolConfig { tls, outbound, ..self.config.clone() };
        let pool = Arc::new(Pool::new(origin.clone(), config));
        pools.push(pool.clone());
        pool
    }

    pub(super) fn close_expired(&self) {
        let pools = self.pools().clone();
        for pool in pools {
            pool.close_expired();
        }
    }

    fn pools(&self) -> MutexGuard<'_, Vec<Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_origin_is_replaced() {
        let pools = Pools::new(&CourierConfig::default());
        let origin = |port: usize| Origin::new("dfsp.example", port as u16);
        let of = |port| pools.of(&origin(port), || "greenbank".to_owned());
        let first = of(0);
        for port in 1..ORIGINS_MAX {
            of(port);
        }
        assert!(Arc::ptr_eq(&first, &of(0)));
        of(ORIGINS_MAX);
        assert!(Arc::ptr_eq(&first, &of(0)), "used since");
        assert_eq!(pools.pools().len(), ORIGINS_MAX);
        assert!(!pools.pools().iter().any(|pool| *pool.origin() == origin(1)), "unused longest");
    }
}
