//! A secured hub and its DFSPs, as created by the commands of a trial.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use tokio::time::Instant;
use upesi_http::{Answer, Bytes, ClientTls, Full, Method, Pool, PoolConfig, Request, SendError, Target};
use upesi_tls::ClientFiles;

/// Longer than any answer takes.
pub const AMPLE: Duration = Duration::from_secs(60);

/// A process that is killed when this value is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Sends a request with these TLS files, or without TLS.
pub fn call(files: Option<ClientFiles>, url: &str, body: &'static str) -> Result<Answer, SendError> {
    let tls = files.map(|files| ClientTls::load(files).unwrap());
    let target = Target::parse(url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = Pool::new(target.origin, PoolConfig { tls, ..PoolConfig::default() });
        let method = if body.is_empty() { Method::GET } else { Method::POST };
        let request = Request::builder().method(method).uri(target.path.as_str());
        pool.send(request.body(Full::new(Bytes::from(body))).unwrap(), Instant::now() + AMPLE).await
    })
}
