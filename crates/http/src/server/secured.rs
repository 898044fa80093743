//! TLS of a server: handshakes, on a thread of their own and within limits.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::{CertificateError, Error};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use upesi_tls::{HTTP_2, Peer, ServerTls};

use super::failed_handshakes::Addresses;
use super::failures::Failures;
use super::socket::{Socket, is_over_budget};
use super::turns::FairTurns;
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
pub struct ServerTlsOptions {
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
pub enum HandshakeOutcome {
    /// The connection serves requests.
    Established,
    /// The client sent no certificate.
    NoCertificate,
    /// No trusted authority issued the certificate, or the chain is not valid.
    Untrusted,
    /// The certificate has expired, or is not valid yet.
    Expired,
    Revoked,
    /// The revocation list is missing or stale.
    NoList,
    /// The certificate is for another purpose.
    WrongPurpose,
    /// The client does not speak TLS.
    Plaintext,
    /// The handshake took too long, or was closed to make room for another.
    Late,
    /// The client ended the handshake.
    Closed,
    /// The sides have no common version or cipher suite, or a message was invalid.
    Protocol,
}

impl HandshakeOutcome {
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
    counts: [AtomicU64; HandshakeOutcome::ALL.len()],
    failures: Mutex<Failures>,
    addresses: Addresses,
    turns: FairTurns<std::net::IpAddr>,
}

impl HandshakeCounts {
    /// Number of handshakes with this outcome since the start.
    pub fn of(&self, outcome: HandshakeOutcome) -> u64 {
        self.counts[outcome as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: HandshakeOutcome, reason: &dyn std::fmt::Display, address: std::net::IpAddr) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if outcome == HandshakeOutcome::Established {
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
pub(super) struct EstablishedTls {
    pub(super) stream: Box<TlsStream<Socket>>,
    pub(super) peer: Option<Peer>,
    /// Whether both sides have agreed on HTTP/2.
    pub(super) is_http2: bool,
}

impl ServerTlsOptions {
    /// Performs the handshake of a connection; `None` if it failed.
    pub(super) async fn establish(
        &self,
        stream: TcpStream,
        address: std::net::IpAddr,
    ) -> Option<EstablishedTls> {
        match timeout(self.handshake_timeout, self.handshake(stream, address)).await {
            Ok(Ok(established)) => {
                self.counts.count(HandshakeOutcome::Established, &"", address);
                Some(established)
            }
            Ok(Err((outcome, reason))) => {
                self.counts.count(outcome, &reason, address);
                None
            }
            Err(_) => {
                self.counts.count(HandshakeOutcome::Late, &"it took too long", address);
                None
            }
        }
    }

    /// Counts a handshake that was closed to make room for another.
    pub(super) fn made_way(&self, address: std::net::IpAddr) {
        self.counts.count(HandshakeOutcome::Late, &"it was closed to make room for another one", address);
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        address: std::net::IpAddr,
    ) -> Result<EstablishedTls, (HandshakeOutcome, String)> {
        let closed = |error: io::Error| (HandshakeOutcome::Closed, error.to_string());
        let mut first = [0];
        match stream.peek(&mut first).await.map_err(closed)? {
            0 => return Err((HandshakeOutcome::Closed, "the client closed the connection".to_owned())),
            _ if first[0] != HANDSHAKE_RECORD => {
                refuse_plaintext(stream).await;
                return Err((HandshakeOutcome::Plaintext, "the client does not speak TLS".to_owned()));
            }
            _ => {}
        }
        // Only actual handshakes count as failures, not probes that open a connection and close it.
        let begun = self.counts.addresses.begin(address).await;
        let accept = TlsAcceptor::from(self.tls.config()).accept(Socket::new(stream));
        let accepted = self.counts.turns.run(address, accept).await;
        let mut stream = accepted.map_err(|error| (HandshakeOutcome::of(&error), error.to_string()))?;
        let (socket, connection) = stream.get_mut();
        let peer = connection.peer_certificates().map(|chain| {
            let owned: Vec<_> = chain.iter().map(|der| der.clone().into_owned()).collect();
            self.tls
                .peer(&owned)
                .ok_or((HandshakeOutcome::Untrusted, "the certificate cannot be read".to_owned()))
        });
        let (peer, is_http2) = (peer.transpose()?, connection.alpn_protocol() == Some(HTTP_2));
        // The runtime of the worker that serves the connection must own it.
        socket.detach().map_err(closed)?;
        begun.succeed();
        Ok(EstablishedTls { stream: Box::new(stream), peer, is_http2 })
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use upesi_pki::{Authority, KeyKind, Order, Usage};
    use upesi_tls::{Identity, ServerFiles, Trust};

    use super::*;
    use crate::Workers;

    #[test]
    fn plaintext_answer_has_the_announced_length() {
        let text = str::from_utf8(PLAINTEXT_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{} in {head}", body.len());
    }

    #[test]
    fn outcomes_are_counted_apart() {
        for (number, outcome) in HandshakeOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number, "{outcome:?}");
        }
    }

    fn secured() -> ServerTlsOptions {
        let directory = tempfile::TempDir::new().unwrap();
        let now = upesi_tls::present_s();
        let made = Authority::init(directory.path(), "Scheme", now, 100, KeyKind::P256);
        made.unwrap().issue(&Order::new("hub", Usage::Server, now).with_hosts(&["127.0.0.1"])).unwrap();
        let file = |name: &str| directory.path().join(name);
        let identity = Identity { certificate_file: file("hub.pem"), key_file: file("hub.key") };
        let trust = Trust { anchors_file: file("ca.pem"), crl_file: None, refuses_stale_crls: false };
        ServerTlsOptions {
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
            (1, &b""[..], HandshakeOutcome::Closed, false),
            (2, b"GET / HTTP/1.1\r\n\r\n", HandshakeOutcome::Plaintext, false),
            (3, &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0], HandshakeOutcome::Protocol, true),
            (4, &[22, 3, 1, 2, 0, 1, 0], HandshakeOutcome::Closed, true),
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
