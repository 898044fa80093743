//! The connections to one oracle.

use std::sync::{Arc, Mutex, PoisonError};

use upesi_http::{Origin, Pool, PoolConfig, ResponseBody, current_worker};

use crate::OracleConfig;

/// One pool for each worker, so that no connection is used from two threads.
pub(super) struct Connections {
    config: PoolConfig,
    pools: Mutex<Vec<(Option<usize>, Arc<Pool>)>>,
}

impl Connections {
    pub(super) fn new(config: &OracleConfig, in_flight_max: usize, answer_bytes_max: usize) -> Self {
        let config = PoolConfig {
            connections_max: config.connections_max.min(in_flight_max),
            connect_timeout: config.connect_timeout,
            idle_timeout: config.connection_idle_timeout,
            response_body_bytes_max: answer_bytes_max,
            // The status is used even if the body is incomplete.
            response_body: ResponseBody::KeepReadable,
            keep_alive: true,
            outbound: config.outbound.clone(),
            tls: config.tls.clone(),
        };
        Self { config, pools: Mutex::default() }
    }

    /// The pool of the calling worker; all pools lead to the same origin.
    pub(super) fn to(&self, origin: &Origin) -> Arc<Pool> {
        let worker = current_worker();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(of, _)| *of == worker) {
            return pool.clone();
        }
        let pool = Arc::new(Pool::new(origin.clone(), self.config.clone()));
        pools.push((worker, pool.clone()));
        pool
    }
}
