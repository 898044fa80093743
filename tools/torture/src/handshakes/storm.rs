//! New connections at a fixed rate, each with a full handshake.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Stream};
use upesi_http::{
    Bytes, ClientTls, Connection, Full, Incoming, Limits, Request, Response, Server, ServerTls, Service,
    Workers,
};
use upesi_pki::Trial;
use upesi_sim::secured;

use super::told;

/// Number of threads that connect in turn. Each waits for the response before it connects again.
const THREADS: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(10);
/// A request that causes no work. The first ones of a connection have no rate limit, unlike rejected requests.
const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";

/// A storm that continues until it is ended.
pub struct Storm {
    shared: Arc<StormState>,
    threads: Vec<JoinHandle<()>>,
}

struct StormState {
    target: SocketAddr,
    config: Arc<ClientConfig>,
    has_ended: AtomicBool,
    made: AtomicU64,
    failed: AtomicU64,
}

impl Storm {
    /// Starts a storm against an address.
    pub fn start(per_s: u64, target: SocketAddr, tls: ClientTls) -> Self {
        let mut config = ClientConfig::clone(&tls.config().expect("usable files"));
        // A resumed session costs almost nothing.
        config.resumption = Resumption::disabled();
        let shared = Arc::new(StormState {
            target,
            config: Arc::new(config),
            has_ended: AtomicBool::new(false),
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let begun = Instant::now();
        let thread = |number: u64| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for turn in 0.. {
                    let due =
                        begun + Duration::from_micros((turn * THREADS + number) * 1_000_000 / per_s.max(1));
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    if shared.has_ended.load(Ordering::Acquire) {
                        return;
                    }
                    shared.connect();
                }
            })
        };
        let threads = (0..THREADS).map(thread).collect();
        Self { shared, threads }
    }

    /// Ends the storm. Returns the handshakes that ended with a response, and the others.
    pub fn end(self) -> (u64, u64) {
        self.shared.has_ended.store(true, Ordering::Release);
        for thread in self.threads {
            let _ = thread.join();
        }
        (self.shared.made.load(Ordering::Acquire), self.shared.failed.load(Ordering::Acquire))
    }
}

impl StormState {
    fn connect(&self) {
        let counter = if self.is_answered().unwrap_or(false) { &self.made } else { &self.failed };
        counter.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a new connection was answered, which proves that its handshake was complete.
    fn is_answered(&self) -> std::io::Result<bool> {
        let mut socket = TcpStream::connect_timeout(&self.target, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::IpAddress(self.target.ip().into());
        let connection = ClientConnection::new(Arc::clone(&self.config), name);
        let mut connection = connection.map_err(std::io::Error::other)?;
        let mut stream = Stream::new(&mut connection, &mut socket);
        stream.write_all(REQUEST)?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b" 200"))
    }
}

/// A stand-in for the hub, with the same handshakes.
pub struct BareTlsServer {
    server: Server,
    workers: Workers,
}

struct EmptyService;

impl Service for EmptyService {
    async fn call(&self, _: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        Response::new(Full::default())
    }
}

impl BareTlsServer {
    /// Starts it, with one thread for handshakes as the hub has. Fails if it cannot be started.
    pub fn start(trial: &Trial) -> Result<Self, String> {
        let workers = Workers::start(1, "elsewhere").map_err(told)?;
        let tls = ServerTls::load(trial.port()).map_err(told)?;
        let bound = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(told)?;
        let server = Server::serve_with(
            bound,
            Limits::default(),
            &workers,
            Arc::new(EmptyService),
            Some(secured(tls, &workers)),
        );
        Ok(Self { server, workers })
    }

    pub fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }
}

impl Drop for BareTlsServer {
    fn drop(&mut self) {
        self.workers.shutdown();
    }
}
