//! TLS of a server: handshakes, on a thread of their own and within limits.

use std::io;
use std::net::TcpStream as StdStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::{CertificateError, Error};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use upesi_tls::{HTTP_2, Peer, ServerTls};

use super::failed_handshakes::Addresses;
use super::failures::Failures;
use super::turns::Turns;
use crate::WorkerHandle;

/// First byte of a TLS record that begins a handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// Answer to a client that does not use TLS.
const PLAINTEXT_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 48\r\nconnection: close\r\n\r\nThis port speaks TLS: begin the URL with https:\n";
/// Maximum number of bytes read from a client without TLS, so that the answer is not lost in a reset.
const PLAINTEXT_BYTES_MAX: u64 = 64 * 1024;

/// TLS of a server, and the limits of handshakes.
#[derive(Clone, Debug)]
pub struct Secured {
    /// Certificates and trust anchors.
    pub tls: ServerTls,
    /// The worker for handshakes. Their signatures take as long as many requests and must not delay those. No other
    /// server uses this worker for handshakes.
    pub worker: WorkerHandle,
    /// Time from the first byte to the last of a handshake.
    pub handshake_timeout: Duration,
    /// Maximum number of unfinished handshakes. For a further one, the handshakes that have waited longest are closed.
    pub handshakes_max: usize,
    /// Counts of handshakes by outcome.
    pub counts: Arc<HandshakeCounts>,
}

/// Outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The connection serves requests.
    Established,
    /// The client sent no certificate.
    NoCertificate,
    /// No trusted authority issued the certificate, or the chain is not valid.
    Untrusted,
    /// The certificate has expired, or is not valid yet.
    Expired,
    /// The certificate is revoked.
    Revoked,
    /// The revocation list is missing or stale.
    NoList,
    /// The certificate is for another purpose.
    WrongPurpose,
    /// The client does not speak TLS.
    Plaintext,
    /// It took too long, or was closed to make room for another.
    Late,
    /// The client ended it.
    Closed,
    /// There is no common version or cipher suite, or a message was invalid.
    Protocol,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::NoCertificate,
        Self::Untrusted,
        Self::Expired,
        Self::Revoked,
        Self::NoList,
        Self::WrongPurpose,
        Self::Plaintext,
        Self::Late,
        Self::Closed,
        Self::Protocol,
    ];

    /// The outcome as a label of a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::NoCertificate => "no_certificate",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::NoList => "no_list",
            Self::WrongPurpose => "wrong_purpose",
            Self::Plaintext => "plaintext",
            Self::Late => "late",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
        }
    }

    fn of(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
            return if is_over_budget(error) { Self::Protocol } else { Self::Closed };
        };
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(error) => Self::of_certificate(error),
            Error::AlertReceived(_) => Self::Closed,
            _ => Self::Protocol,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Expired,
            CertificateError::Revoked => Self::Revoked,
            CertificateError::UnknownRevocationStatus
            | CertificateError::ExpiredRevocationList
            | CertificateError::ExpiredRevocationListContext { .. } => Self::NoList,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::WrongPurpose
            }
            _ => Self::Untrusted,
        }
    }
}

/// Counts handshakes by outcome, logs failures, and delays addresses after failures.
#[derive(Debug, Default)]
pub struct HandshakeCounts {
    counts: [AtomicU64; Outcome::ALL.len()],
    failures: Mutex<Failures>,
    addresses: Addresses,
    turns: Turns<std::net::IpAddr>,
}

impl HandshakeCounts {
    /// Number of handshakes with this outcome since the start.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: Outcome, reason: &dyn std::fmt::Display, address: std::net::IpAddr) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if outcome == Outcome::Established {
            return;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = failures.note(Instant::now()) {
            let outcome = outcome.name();
            tracing::warn!(outcome, %reason, %address, times, "TLS handshakes failed; only the last one is shown");
        }
    }
}

/// A connection whose handshake is done.
pub(super) struct Established {
    pub(super) stream: Box<TlsStream<Socket>>,
    pub(super) peer: Option<Peer>,
    /// Whether both sides have agreed on HTTP/2.
    pub(super) is_http2: bool,
}

impl Secured {
    /// Performs the handshake of a connection; `None` if it failed.
    pub(super) async fn establish(
        &self,
        stream: TcpStream,
        address: std::net::IpAddr,
    ) -> Option<Established> {
        match timeout(self.handshake_timeout, self.handshake(stream, address)).await {
            Ok(Ok(established)) => {
                self.counts.count(Outcome::Established, &"", address);
                Some(established)
            }
            Ok(Err((outcome, reason))) => {
                self.counts.count(outcome, &reason, address);
                None
            }
            Err(_) => {
                self.counts.count(Outcome::Late, &"it took too long", address);
                None
            }
        }
    }

    /// Counts a handshake that was closed to make room for another.
    pub(super) fn made_way(&self, address: std::net::IpAddr) {
        self.counts.count(Outcome::Late, &"it was closed to make room for another one", address);
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        address: std::net::IpAddr,
    ) -> Result<Established, (Outcome, String)> {
        let closed = |error: io::Error| (Outcome::Closed, error.to_string());
        let mut first = [0];
        match stream.peek(&mut first).await.map_err(closed)? {
            0 => return Err((Outcome::Closed, "the client closed the connection".to_owned())),
            _ if first[0] != HANDSHAKE_RECORD => {
                refuse_plaintext(stream).await;
                return Err((Outcome::Plaintext, "the client does not speak TLS".to_owned()));
            }
            _ => {}
        }
        // Only actual handshakes count as failures, not probes that open a connection and close it.
        let begun = self.counts.addresses.begin(address).await;
        let accept = TlsAcceptor::from(self.tls.config()).accept(Socket::new(stream));
        let accepted = self.counts.turns.run(address, accept).await;
        let mut stream = accepted.map_err(|error| (Outcome::of(&error), error.to_string()))?;
        let (socket, connection) = stream.get_mut();
        let peer = connection.peer_certificates().map(|chain| {
            let owned: Vec<_> = chain.iter().map(|der| der.clone().into_owned()).collect();
            self.tls.peer(&owned).ok_or((Outcome::Untrusted, "the certificate cannot be read".to_owned()))
        });
        let (peer, is_http2) = (peer.transpose()?, connection.alpn_protocol() == Some(HTTP_2));
        // The runtime of the worker that serves the connection must own it.
        socket.detach().map_err(closed)?;
        begun.succeed();
        Ok(Established { stream: Box::new(stream), peer, is_http2 })
    }
}

/// Answers with an error in plaintext.
async fn refuse_plaintext(mut stream: TcpStream) {
    let answered = async {
        stream.write_all(PLAINTEXT_ANSWER).await?;
        stream.shutdown().await?;
        let mut rest = stream.take(PLAINTEXT_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // The client may already be gone.
    let _ = answered.await;
}

// The socket below TLS: limited during the handshake, and able to move to another runtime afterwards.

/// Maximum number of bytes read from a client before its handshake is complete: its certificates (64 KiB at most), the
/// rest of the handshake, and the bytes right after it.
const HANDSHAKE_BYTES_MAX: usize = 128 * 1024;

/// The client exceeded this limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handshake is longer than {HANDSHAKE_BYTES_MAX} bytes")]
struct OverBudget;

fn is_over_budget(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OverBudget>())
}

/// A socket that belongs to a runtime, or to none.
#[derive(Debug)]
pub(super) struct Socket {
    at: At,
    /// Number of bytes that may still be read before the handshake is complete; `None` afterwards.
    left_bytes: Option<usize>,
}

#[derive(Debug)]
enum At {
    Runtime(TcpStream),
    Nowhere(StdStream),
    /// Moving failed; the connection is lost.
    Lost,
}

impl Socket {
    pub(super) const fn new(stream: TcpStream) -> Self {
        Self { at: At::Runtime(stream), left_bytes: Some(HANDSHAKE_BYTES_MAX) }
    }

    /// Detaches the socket from its runtime after the handshake.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.left_bytes = None;
        if let At::Runtime(stream) = std::mem::replace(&mut self.at, At::Lost) {
            self.at = At::Nowhere(stream.into_std()?);
        }
        Ok(())
    }

    /// Attaches the socket to the current runtime.
    pub(super) fn attach(&mut self) -> io::Result<()> {
        if let At::Nowhere(stream) = std::mem::replace(&mut self.at, At::Lost) {
            self.at = At::Runtime(TcpStream::from_std(stream)?);
        }
        Ok(())
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        match &mut self.at {
            At::Runtime(stream) => Ok(Pin::new(stream)),
            At::Nowhere(_) | At::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(self.stream()?.poll_read(context, into))?;
        if let Some(left) = &mut self.left_bytes {
            let read = into.filled().len() - before;
            let Some(less) = left.checked_sub(read) else {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, OverBudget)));
            };
            *left = less;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use upesi_pki::{Authority, KeyKind, Order, Usage};
    use upesi_tls::{Identity, ServerFiles, Trust};

    use super::*;
    use crate::Workers;

    #[test]
    fn the_answer_in_the_clear_is_as_long_as_it_says() {
        let text = str::from_utf8(PLAINTEXT_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{} in {head}", body.len());
    }

    #[test]
    fn outcomes_are_counted_apart() {
        for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number, "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn so_many_bytes_are_read_before_the_handshake_is_done_and_any_number_after() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(listener.accept().await.unwrap().0);
        let send = async move |bytes: usize| {
            caller.write_all(&vec![1; bytes]).await.unwrap();
            caller
        };
        let mut whole = vec![0; HANDSHAKE_BYTES_MAX];
        let (read, mut caller) = tokio::join!(socket.read_exact(&mut whole), send(HANDSHAKE_BYTES_MAX + 1));
        read.unwrap();
        let over = socket.read_u8().await.unwrap_err();
        assert!(is_over_budget(&over), "{over}");
        socket.detach().unwrap();
        assert_eq!(socket.read_u8().await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        socket.attach().unwrap();
        caller.write_all(&[2; 3]).await.unwrap();
        socket.read_exact(&mut whole[..3]).await.unwrap();
        assert_eq!(whole[..3], [2; 3]);
    }

    fn secured() -> Secured {
        let directory = tempfile::TempDir::new().unwrap();
        let now = upesi_tls::present_s();
        let made = Authority::init(directory.path(), "Scheme", now, 100, KeyKind::P256);
        made.unwrap().issue(&Order::new("hub", Usage::Server, now).with_hosts(&["127.0.0.1"])).unwrap();
        let file = |name: &str| directory.path().join(name);
        let identity = Identity { certificate_file: file("hub.pem"), key_file: file("hub.key") };
        let trust = Trust { anchors_file: file("ca.pem"), crl_file: None, refuses_stale_crls: false };
        Secured {
            tls: ServerTls::load(ServerFiles { identity, clients: Some(trust) }).unwrap(),
            worker: Workers::start(1, "unused").unwrap().get(0).clone(),
            handshake_timeout: Duration::from_secs(60),
            handshakes_max: 1,
            counts: Arc::default(),
        }
    }

    #[tokio::test]
    async fn only_a_failure_that_costs_a_handshake_delays_the_next_one() {
        let secured = secured();
        for (number, sent, outcome, is_delayed) in [
            (1, &b""[..], Outcome::Closed, false),
            (2, b"GET / HTTP/1.1\r\n\r\n", Outcome::Plaintext, false),
            (3, &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0], Outcome::Protocol, true),
            (4, &[22, 3, 1, 2, 0, 1, 0], Outcome::Closed, true),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            caller.write_all(sent).await.unwrap();
            caller.shutdown().await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let address = std::net::IpAddr::from([192, 0, 2, number]);
            let before = secured.counts.of(outcome);
            assert!(secured.establish(accepted, address).await.is_none());
            assert_eq!(secured.counts.of(outcome), before + 1, "{outcome:?}");
            assert_eq!(secured.counts.addresses.has_failed(address), is_delayed, "{outcome:?}");
        }
    }
}
