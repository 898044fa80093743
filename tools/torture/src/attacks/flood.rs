//! Floods: a limited number of an attacker's tasks, on a separate thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};
use upesi_http::Bytes;

use super::dial::{Dialer, Stream};
use super::streams::{self, Streams};

/// First address of the attackers. No DFSP has one of their addresses.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
/// Delay before an attacker connects again.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of connections that are opened at once. If there are more, the kernel accepts some that it never hands to the
/// hub.
const OPENED_TOGETHER: usize = 100;
/// Delay before a connection that was accepted, and ended after a rejected request, is opened again.
const AGAIN_SOON: Duration = Duration::from_millis(5);
const AT_THE_DOOR: Duration = Duration::from_millis(100);
const DRIP: Duration = Duration::from_secs(1);
/// `HTTP/1.1 202`.
const STATUS_BYTES: usize = 12;
const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const REFUSED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Makes the request with this number.
pub type MakeRequest = Arc<dyn Fn(u64) -> Bytes + Send + Sync>;

/// The activity of an attacker's connections.
#[derive(Clone)]
pub enum AttackTraffic {
    /// Open connections from several addresses that send some bytes and stay open. With `drips`, each sends another
    /// byte every second.
    Hold { connections: usize, addresses: u8, opening: Bytes, drips: bool },
    /// Requests without waiting for answers: as fast as they are accepted, or at a rate; at most `count_max`. Without
    /// `reads`, the answers are never read.
    Pipeline { connections: usize, make: MakeRequest, per_s: Option<u64>, count_max: u64, reads: bool },
    /// HTTP/2 requests whose answers are never read, or whose bodies never end.
    Streams(Streams),
    /// Handshakes, one after the other on each connection.
    Handshakes { connections: usize },
}

impl AttackTraffic {
    const fn connections(&self) -> usize {
        match self {
            Self::Hold { connections, .. }
            | Self::Pipeline { connections, .. }
            | Self::Streams(Streams { connections, .. })
            | Self::Handshakes { connections } => *connections,
        }
    }
}

/// The results, as the attacker sees them.
#[derive(Clone, Debug, Default)]
struct FloodCounts {
    sent: Arc<AtomicU64>,
    answered: Arc<OnceLock<String>>,
}

/// A flood that continues until it is dropped.
pub struct Flood {
    held: u64,
    tally: FloodCounts,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Starts a flood on connections of this dialer.
    pub fn start(means: AttackTraffic, dialer: Dialer) -> Self {
        let (end, ended) = oneshot::channel();
        let tally = FloodCounts::default();
        let counted = tally.clone();
        let held = if let AttackTraffic::Hold { connections, .. } = &means { *connections as u64 } else { 0 };
        let thread = on_thread(async move {
            let addresses = if let AttackTraffic::Hold { addresses, .. } = &means { *addresses } else { 1 };
            let first = u32::from(ADDRESS);
            let sources = (first..first + u32::from(addresses)).map(Ipv4Addr::from).cycle();
            for (source, number) in sources.take(means.connections()).zip(1_usize..) {
                tokio::spawn(attack(means.clone(), source, dialer.clone(), counted.clone()));
                if number.is_multiple_of(OPENED_TOGETHER) {
                    sleep(AT_THE_DOOR).await;
                }
            }
            // The outcome of the connection does not matter.
            let _ = ended.await;
        });
        Self { held, tally, end: Some(end), thread: Some(thread) }
    }

    /// Whether all connections to be held were opened.
    pub fn stands(&self) -> bool {
        self.sent() >= self.held
    }

    /// Number of requests that were sent, or of held connections that were opened.
    pub fn sent(&self) -> u64 {
        self.tally.sent.load(Ordering::Relaxed)
    }

    pub fn answered(&self) -> String {
        self.tally.answered.get().cloned().unwrap_or_default()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a future on a thread with its own runtime. Its tasks end with it.
fn on_thread(story: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(story);
    })
}

async fn attack(means: AttackTraffic, source: Ipv4Addr, dialer: Dialer, tally: FloodCounts) {
    loop {
        let pause = match (dialer.dial(source).await, &means) {
            (Ok(stream), AttackTraffic::Hold { opening, drips, .. }) => {
                tally.sent.fetch_add(1, Ordering::Relaxed);
                let _ = hold(stream, opening, *drips).await;
                AGAIN
            }
            (Ok(stream), AttackTraffic::Pipeline { make, per_s, count_max, reads, .. }) => {
                let (reading, writing) = tokio::io::split(stream);
                let written = pipeline(writing, make, *per_s, *count_max, &tally.sent);
                // A separate task reads it, or it stays open and is never read.
                let kept =
                    if *reads { Ok(tokio::spawn(discard(reading, tally.clone()))) } else { Err(reading) };
                let _ = written.await;
                if let Ok(reader) = kept {
                    reader.abort();
                }
                AGAIN_SOON
            }
            (Ok(stream), AttackTraffic::Streams(requests)) => {
                let _ = streams::hold(stream, requests, &tally.sent).await;
                AGAIN
            }
            // With TLS 1.3, the client's handshake ends before the server has checked the client's certificate.
            (Ok(mut stream), AttackTraffic::Handshakes { .. }) => {
                tally.sent.fetch_add(1, Ordering::Relaxed);
                let _ = stream.read(&mut [0]).await;
                AGAIN_SOON
            }
            // A rejected handshake was an attack as well.
            (Err(_), AttackTraffic::Handshakes { .. }) => {
                tally.sent.fetch_add(1, Ordering::Relaxed);
                AGAIN_SOON
            }
            // The clients wait for a hub that restarts.
            (Err(_), _) => AT_THE_DOOR,
        };
        sleep(pause).await;
    }
}

/// Holds the connection until the other side closes it.
async fn hold(mut stream: Stream, opening: &[u8], drips: bool) -> std::io::Result<()> {
    stream.write_all(opening).await?;
    let mut buffer = [0; 4096];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => if read? == 0 { return Ok(()) },
            () = sleep(DRIP), if drips => stream.write_all(b"a").await?,
        }
    }
}

async fn pipeline(
    mut writing: impl AsyncWriteExt + Unpin,
    make: &MakeRequest,
    per_s: Option<u64>,
    count_max: u64,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    let begun = Instant::now();
    for number in 0.. {
        if sent.fetch_add(1, Ordering::Relaxed) >= count_max {
            sent.fetch_sub(1, Ordering::Relaxed);
            // Everything was sent, and the connection stays open.
            std::future::pending::<()>().await;
        }
        if let Some(per_s) = per_s {
            sleep_until(begun + Duration::from_micros(number * 1_000_000 / per_s.max(1))).await;
        }
        let written = writing.write_all(&make(sent.load(Ordering::Relaxed))).await;
        if written.is_err() {
            sent.fetch_sub(1, Ordering::Relaxed);
            return written;
        }
    }
    Ok(())
}

async fn discard(mut reading: impl AsyncReadExt + Unpin, tally: FloodCounts) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(1..) = reading.read(&mut buffer).await {
        tally.answered.get_or_init(|| String::from_utf8_lossy(&buffer[..STATUS_BYTES]).into_owned());
    }
}

/// Behaviour of the attacker's own endpoint towards the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointBehaviour {
    Polite,
    /// Sends `100 Continue` without end.
    Interim,
    Silent,
    Drips,
    /// Answers callbacks about one of ten ids with 500, each time.
    Refusing,
}

/// A server of the attacker: its endpoint as DFSP and as oracle, or a stand-in for a hub.
pub struct Endpoint {
    address: SocketAddr,
    manner: watch::Sender<EndpointBehaviour>,
    counts: Counts,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    taken: Arc<AtomicU64>,
    delivered: Arc<AtomicU64>,
}

impl Endpoint {
    /// Listens on a free port and behaves politely. It ends when this value is dropped. Fails if it cannot listen.
    pub fn listen() -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind((ADDRESS, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (manner, mut shown) = watch::channel(EndpointBehaviour::Polite);
        let counts = Counts::default();
        let counted = counts.clone();
        on_thread(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((stream, _)) = accepted else { continue };
                        counted.taken.fetch_add(1, Ordering::Relaxed);
                        tokio::spawn(serve(stream, shown.clone(), counted.clone()));
                    }
                    changed = shown.changed() => if changed.is_err() { return },
                }
            }
        });
        Ok(Self { address, manner, counts })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the behaviour from now on. Existing connections end.
    pub fn behave(&self, manner: EndpointBehaviour) {
        self.manner.send_replace(manner);
    }

    /// Number of accepted connections.
    pub fn taken(&self) -> u64 {
        self.counts.taken.load(Ordering::Relaxed)
    }

    /// Number of requests that were answered 200.
    pub fn delivered(&self) -> u64 {
        self.counts.delivered.load(Ordering::Relaxed)
    }
}

async fn serve(stream: TcpStream, mut shown: watch::Receiver<EndpointBehaviour>, counts: Counts) {
    let manner = *shown.borrow_and_update();
    tokio::select! {
        _ = answer(stream, manner, &counts) => {}
        _ = shown.changed() => {}
    }
}

async fn answer(mut stream: TcpStream, manner: EndpointBehaviour, counts: &Counts) -> std::io::Result<()> {
    if manner == EndpointBehaviour::Silent {
        return std::future::pending().await;
    }
    let (mut buffer, mut head, mut ends) = (vec![0; 1 << 16], Vec::new(), 0);
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let mut answers = Vec::new();
        for byte in &buffer[..count] {
            head.push(*byte);
            if head_ends(&mut ends, *byte) {
                let is_refused = manner == EndpointBehaviour::Refusing && is_tenth(&head);
                counts.delivered.fetch_add(u64::from(!is_refused), Ordering::Relaxed);
                answers.extend_from_slice(if is_refused { REFUSED } else { TAKEN });
                head.clear();
            }
        }
        match manner {
            EndpointBehaviour::Interim if !answers.is_empty() => {
                let many = INTERIM.repeat(400);
                while stream.write_all(&many).await.is_ok() {}
            }
            EndpointBehaviour::Drips if !answers.is_empty() => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await?;
                while stream.write_all(b"a").await.is_ok() {
                    sleep(DRIP).await;
                }
            }
            _ => stream.write_all(&answers).await?,
        }
    }
}

/// Whether a request is about one id of ten; the number at the end of the id decides. `head` may include earlier bytes.
fn is_tenth(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let path = text.rsplit("PUT ").next().and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let id = path.split('/').nth(2).unwrap_or_default();
    let number = id.rsplit('-').next().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.is_some_and(|number| number.is_multiple_of(10))
}

/// Whether a byte is the last of a head. `ends` counts the line-end bytes directly before it. Bodies here contain no
/// line ends.
const fn head_ends(ends: &mut usize, byte: u8) -> bool {
    *ends = match (byte, *ends) {
        (b'\r', 0 | 2) | (b'\n', 1 | 3) => *ends + 1,
        (b'\r', _) => 1,
        _ => 0,
    };
    if *ends == 4 {
        *ends = 0;
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_heads_are_counted() {
        let mut ends = 0;
        let count = |text: &str, ends: &mut usize| text.bytes().filter(|byte| head_ends(ends, *byte)).count();
        assert_eq!(count("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r", &mut ends), 1);
        assert_eq!(count("\n{\"a\":1}\r\r\n\r\n", &mut ends), 2);
    }

    #[test]
    fn one_of_ten_ids_is_rejected_regardless_of_earlier_bytes() {
        let head = |number: u64| {
            format!("{{\"a\":1}}PUT /transfers/{:08x}-0-4-8-{number:012x}/error HTTP/1.1\r\n\r\n", 10)
        };
        let refused: Vec<_> = (1..=40).filter(|number| is_tenth(head(*number).as_bytes())).collect();
        assert_eq!(refused, [10, 20, 30, 40]);
        assert!(!is_tenth(b"GET / HTTP/1.1\r\n\r\n"));
    }

    /// A flood against a correct server of the attacker itself, so that the test covers both ends.
    #[test]
    fn flood_reaches_a_server_and_ends_when_dropped() {
        let server = Endpoint::listen().unwrap();
        let make: MakeRequest = Arc::new(|_| Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"));
        let means = AttackTraffic::Pipeline {
            connections: 1,
            make,
            per_s: Some(1_000_000),
            count_max: 50,
            reads: true,
        };
        let flood = Flood::start(means, Dialer::clear(server.address()));
        while flood.sent() < 50 || flood.answered().is_empty() {
            std::thread::yield_now();
        }
        let held = AttackTraffic::Hold {
            connections: 3,
            addresses: 2,
            opening: Bytes::from_static(b"G"),
            drips: true,
        };
        let held = Flood::start(held, Dialer::clear(server.address()));
        while held.sent() < 3 || server.taken() < 4 {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!((flood.sent(), flood.answered().as_str()), (50, "HTTP/1.1 200"));
    }
}
