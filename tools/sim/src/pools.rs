//! One connection pool per worker to the upstream, so that connections stay on the thread that uses them.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use upesi_http::{Answer, ClientTls, HeaderMap, Method, Origin, Pool, PoolConfig, Request, SendError, Uri};
use upesi_http::{Full, Workers, current_worker};

/// Connections to one origin, apart for each worker.
pub struct Pools {
    per_worker: Vec<Pool>,
    request_timeout: Duration,
}

impl Pools {
    /// Pools of `connections_max` connections together; `https` origins need TLS. Response bodies may have 64 KiB.
    pub fn new(
        origin: &Origin,
        workers: &Workers,
        connections_max: usize,
        request_timeout: Duration,
        tls: Option<&ClientTls>,
    ) -> Self {
        let config = PoolConfig {
            connections_max: connections_max.div_ceil(workers.count()),
            response_body_bytes_max: 64 * 1024,
            tls: tls.cloned(),
            ..PoolConfig::default()
        };
        let pool = || Pool::new(origin.clone(), config.clone());
        Self { per_worker: workers.iter().map(|_| pool()).collect(), request_timeout }
    }

    /// Sends from the pool of the worker that runs this.
    ///
    /// # Errors
    /// When no response came in time.
    pub async fn send(
        &self,
        method: Method,
        path: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path;
        *request.headers_mut() = headers;
        let pool = &self.per_worker[current_worker().unwrap_or_default() % self.per_worker.len()];
        pool.send(request, Instant::now() + self.request_timeout).await
    }
}
