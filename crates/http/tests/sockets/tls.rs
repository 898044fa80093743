//! TLS over real sockets: accepted and rejected clients, and the cost of handshakes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{AMPLE, Running, ample};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use upesi_http::{
    Bytes, ClientTls, Full, HandshakeOutcome, Limits, Origin, Pool, PoolConfig, Request, SendError,
    ServerTls, ServerTlsOptions, TlsFault, Workers,
};
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{ClientFiles, Identity, ServerFiles, Trust, present_s};

const DAY_S: i64 = 24 * 3600;

/// Two authorities, and a listener that trusts the first.
struct Scheme {
    directory: TempDir,
    ours: Authority,
    running: Option<Running>,
    tls: Option<ServerTlsOptions>,
    handshakes: Workers,
    refuses_stale: bool,
}

impl Scheme {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let ours = Self::authority(directory.path(), "ours");
        Self::authority(directory.path(), "others");
        let handshakes = Workers::start(1, "handshake").unwrap();
        let mut scheme = Self { directory, ours, running: None, tls: None, handshakes, refuses_stale: false };
        scheme.ours.issue(&Order::new("hub", Usage::Server, present_s()).with_hosts(&["127.0.0.1"])).unwrap();
        scheme
    }

    fn authority(directory: &Path, name: &str) -> Authority {
        let now = present_s() - 100 * DAY_S;
        let mut made = Authority::init(&directory.join(name), name, now, 3650, KeyKind::P256).unwrap();
        made.make_list(present_s(), 30).unwrap();
        made
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn identity(&self, name: &str) -> Identity {
        let file = |ending: &str| self.file(&format!("{name}.{ending}"));
        Identity { certificate_file: file("pem"), key_file: file("key") }
    }

    fn trust(&self, authority: &str, with_list: bool) -> Trust {
        let file = |name: &str| self.file(&format!("{authority}/{name}"));
        Trust {
            anchors_file: file("ca.pem"),
            crl_file: with_list.then(|| file("crl.pem")),
            refuses_stale_crls: self.refuses_stale,
        }
    }

    /// Starts a listener with mutual TLS and revocation lists.
    fn serve(self) -> Self {
        self.serve_within(Limits::default(), 10 * AMPLE, 512)
    }

    fn serve_within(mut self, limits: Limits, handshake_timeout: Duration, handshakes_max: usize) -> Self {
        // Only the limits of handshakes end a connection here.
        let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..limits };
        let clients = Some(self.trust("ours", true));
        let tls = ServerTls::load(ServerFiles { identity: self.identity("ours/hub"), clients }).unwrap();
        let worker = self.handshakes.get(0).clone();
        let secured =
            ServerTlsOptions { tls, worker, handshake_timeout, handshakes_max, counts: Arc::default() };
        self.running = Some(Running::start_with(limits, Some(secured.clone())));
        self.tls = Some(secured);
        self
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    fn secured(&self) -> &ServerTlsOptions {
        self.tls.as_ref().unwrap()
    }

    fn client(&mut self, name: &str) -> Pool {
        self.ours.issue(&Order::new(name, Usage::Client, present_s())).unwrap();
        self.pool(Some(&format!("ours/{name}")))
    }

    fn pool(&self, identity: Option<&str>) -> Pool {
        let identity = identity.map(|name| self.identity(name));
        let tls = ClientTls::load(ClientFiles { servers: self.trust("ours", false), identity }).unwrap();
        let port = self.running().server.local_addr().port();
        Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls: Some(tls), ..PoolConfig::default() })
    }

    async fn until_counted(&self, outcome: HandshakeOutcome, count: u64) {
        let counted = async {
            while self.secured().counts.of(outcome) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let found = timeout(AMPLE, counted).await;
        assert!(found.is_ok(), "{outcome:?}: {}", self.secured().counts.of(outcome));
        assert_eq!(self.secured().counts.of(outcome), count, "{outcome:?}");
    }

    fn requests(&self) -> usize {
        self.running().script.requests.load(std::sync::atomic::Ordering::Relaxed)
    }
}

async fn ask(pool: &Pool, path: &str) -> Result<String, SendError> {
    let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
    let answer = pool.send(request, ample()).await?;
    Ok(String::from_utf8(answer.body.to_vec()).unwrap())
}

#[tokio::test]
async fn client_is_identified_by_its_certificate_and_connections_are_reused() {
    let mut scheme = Scheme::new().serve();
    for name in ["greenbank", "bluewallet"] {
        let pool = scheme.client(name);
        for _ in 0..3 {
            assert_eq!(ask(&pool, "/who").await.unwrap(), name);
        }
        let body = vec![b'y'; 900];
        let request =
            Request::builder().method("POST").uri("/echo").body(Full::new(body.clone().into())).unwrap();
        assert_eq!(pool.send(request, ample()).await.unwrap().body, body);
        assert_eq!(
            ask(&pool, "/large/3000000").await.err().map(|error| error.to_string()).as_deref(),
            Some("the response body is larger than 1048576 bytes")
        );
        assert_eq!(ask(&pool, "/large/900000").await.unwrap().len(), 900_000);
    }
    // The request that was too large has ended its connection.
    scheme.until_counted(HandshakeOutcome::Established, 4).await;
}

/// Certificates of another authority, of another time, of another purpose.
fn issue_odd_ones(scheme: &mut Scheme) {
    let now = present_s();
    let mut others = Authority::open(&scheme.file("others")).unwrap();
    others.issue(&Order::new("stranger", Usage::Client, now)).unwrap();
    let late = Order { days: 10, ..Order::new("late", Usage::Client, now - 20 * DAY_S) };
    let early = Order::new("early", Usage::Client, now + DAY_S);
    for order in
        [late, early, Order::new("server", Usage::Server, now), Order::new("revoked", Usage::Client, now)]
    {
        scheme.ours.issue(&order).unwrap();
    }
    scheme.ours.revoke("revoked", now, 30).unwrap();
    // The same name as ours, with another key.
    let imposters = Authority::init(&scheme.file("imposters"), "ours", now, 3650, KeyKind::Rsa2048);
    imposters.unwrap().issue(&Order::new("imposter", Usage::Client, now)).unwrap();
    // The certificate of an authority is used as a client certificate.
    for ending in ["pem", "key"] {
        std::fs::copy(scheme.file(&format!("ours/ca.{ending}")), scheme.file(&format!("ca.{ending}")))
            .unwrap();
    }
}

#[tokio::test]
async fn untrusted_clients_reach_no_service() {
    let mut scheme = Scheme::new();
    issue_odd_ones(&mut scheme);
    let scheme = scheme.serve();
    for (identity, outcome) in [
        (None, HandshakeOutcome::NoCertificate),
        (Some("others/stranger"), HandshakeOutcome::Untrusted),
        (Some("imposters/imposter"), HandshakeOutcome::Untrusted),
        (Some("ca"), HandshakeOutcome::Untrusted),
        (Some("ours/late"), HandshakeOutcome::Expired),
        (Some("ours/early"), HandshakeOutcome::Expired),
        (Some("ours/server"), HandshakeOutcome::WrongPurpose),
        (Some("ours/revoked"), HandshakeOutcome::Revoked),
    ] {
        let before = scheme.secured().counts.of(outcome);
        let refused = ask(&scheme.pool(identity), "/who").await;
        assert!(refused.is_err(), "{identity:?}: {refused:?}");
        scheme.until_counted(outcome, before + 1).await;
    }
    assert_eq!((scheme.requests(), scheme.secured().counts.of(HandshakeOutcome::Established)), (0, 0));
}

#[tokio::test]
async fn stale_revocation_list_is_used_or_rejects_all_as_configured() {
    for refuses_stale in [false, true] {
        let mut scheme = Scheme::new();
        scheme.refuses_stale = refuses_stale;
        for name in ["greenbank", "revoked"] {
            scheme.ours.issue(&Order::new(name, Usage::Client, present_s())).unwrap();
        }
        scheme.ours.revoke("revoked", present_s() - 40 * DAY_S, 30).unwrap();
        let scheme = scheme.serve();
        let asked = ask(&scheme.pool(Some("ours/greenbank")), "/who").await;
        assert_eq!(asked.ok().as_deref(), (!refuses_stale).then_some("greenbank"));
        assert!(ask(&scheme.pool(Some("ours/revoked")), "/who").await.is_err());
        let (no_list, revoked) = if refuses_stale { (2, 0) } else { (0, 1) };
        scheme.until_counted(HandshakeOutcome::NoList, no_list).await;
        scheme.until_counted(HandshakeOutcome::Revoked, revoked).await;
    }
}

#[tokio::test]
async fn both_tls_versions_are_supported_with_http_1_1_only() {
    let mut scheme = Scheme::new().serve();
    scheme.ours.issue(&Order::new("greenbank", Usage::Client, present_s())).unwrap();
    let identity = scheme.identity("ours/greenbank");
    let chain = CertificateDer::pem_file_iter(identity.certificate_file)
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(scheme.file("ours/ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    for (version, protocol, expected) in [
        (&TLS12, "http/1.1", Some(ProtocolVersion::TLSv1_2)),
        (&TLS13, "http/1.1", Some(ProtocolVersion::TLSv1_3)),
        (&TLS13, "h2", None),
    ] {
        let key = PrivateKeyDer::from_pem_file(&identity.key_file).unwrap();
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), key)
            .unwrap();
        config.alpn_protocols = vec![protocol.into()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connect = TlsConnector::from(Arc::new(config)).connect(name, scheme.running().connect().await);
        let Ok(mut stream) = connect.await else {
            assert_eq!(expected, None, "{protocol}");
            continue;
        };
        assert_eq!(stream.get_ref().1.protocol_version(), expected);
        stream.write_all(b"GET /who HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        timeout(AMPLE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.ends_with("\r\n\r\ngreenbank"), "{answer}");
    }
    scheme.until_counted(HandshakeOutcome::Protocol, 1).await;
}

#[tokio::test]
async fn server_certificate_must_match_the_called_name() {
    let mut scheme = Scheme::new().serve();
    let port = scheme.running().server.local_addr().port();
    let pool = scheme.client("greenbank");
    assert_eq!(ask(&pool, "/who").await.unwrap(), "greenbank");
    let call = async |host: &str, authority: &str| {
        let tls = ClientTls::load(ClientFiles {
            servers: scheme.trust(authority, false),
            identity: Some(scheme.identity("ours/greenbank")),
        });
        let config = PoolConfig { tls: Some(tls.unwrap()), ..PoolConfig::default() };
        ask(&Pool::new(Origin::secure(host, port), config), "/who").await
    };
    assert_eq!(call("127.0.0.1", "ours").await.unwrap(), "greenbank");
    let wrong_name = call("localhost", "ours").await.unwrap_err().to_string();
    assert!(wrong_name.contains("not valid for name \"localhost\""), "{wrong_name}");
    let wrong_authority = call("127.0.0.1", "others").await.unwrap_err().to_string();
    assert!(wrong_authority.contains("UnknownIssuer"), "{wrong_authority}");
    let none = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig::default());
    let no_tls = ask(&none, "/who").await.unwrap_err().to_string();
    assert!(no_tls.ends_with("no trust anchors are set for https://"), "{no_tls}");
}

#[tokio::test]
async fn plain_http_on_the_tls_port_is_answered_with_the_reason() {
    let scheme = Scheme::new().serve();
    let mut stream = scheme.running().connect().await;
    stream.write_all(b"GET /who HTTP/1.1\r\nhost: hub\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(AMPLE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("This port speaks TLS: begin the URL with https:\n"), "{answer}");
    drop(stream);
    scheme.until_counted(HandshakeOutcome::Plaintext, 1).await;
    // The other way round: a port without TLS ends a connection that it cannot read.
    let plain = Running::start(Limits::default());
    let port = plain.server.local_addr().port();
    let tls = ClientTls::load(ClientFiles { servers: scheme.trust("ours", false), identity: None }).unwrap();
    let config = PoolConfig { tls: Some(tls), ..PoolConfig::default() };
    let refused = ask(&Pool::new(Origin::secure("127.0.0.1", port), config), "/who").await;
    assert!(matches!(refused, Err(SendError::Connect { .. })), "{refused:?}");
    assert_eq!(plain.script.requests.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// Begins a handshake and does not continue.
async fn stall(scheme: &Scheme) -> TcpStream {
    let mut stream = scheme.running().connect().await;
    stream.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
    stream
}

#[tokio::test]
async fn a_handshake_that_stalls_is_closed() {
    let scheme = Scheme::new().serve_within(Limits::default(), Duration::from_millis(50), 512);
    let mut stalled = stall(&scheme).await;
    assert_eq!(timeout(AMPLE, stalled.read(&mut [0; 16])).await.unwrap().unwrap_or(0), 0);
    // A connection that sends nothing is also closed.
    let mut silent = scheme.running().connect().await;
    assert_eq!(timeout(AMPLE, silent.read(&mut [0; 16])).await.unwrap().unwrap_or(0), 0);
    scheme.until_counted(HandshakeOutcome::Late, 2).await;
}

#[tokio::test]
async fn unfinished_handshakes_are_closed_before_served_connections() {
    let mut scheme = Scheme::new().serve_within(Limits::default(), 10 * AMPLE, 2);
    let served = scheme.client("greenbank");
    assert_eq!(ask(&served, "/who").await.unwrap(), "greenbank");
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(stall(&scheme).await);
    }
    let newcomer = scheme.client("bluewallet");
    assert_eq!(ask(&newcomer, "/who").await.unwrap(), "bluewallet");
    assert_eq!(ask(&served, "/who").await.unwrap(), "greenbank");
    scheme.until_counted(HandshakeOutcome::Established, 2).await;
    // At most two of the stalled ones are left.
    let closed = async {
        for stream in &mut stalled[..18] {
            assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
        }
    };
    timeout(AMPLE, closed).await.expect("18 handshakes are given up");
}

#[tokio::test]
async fn handshakes_of_one_address_are_limited() {
    let limits = Limits { anonymous_per_address_max: 3, ..Limits::default() };
    let mut scheme = Scheme::new().serve_within(limits, 10 * AMPLE, 512);
    let mut stalled = Vec::new();
    for _ in 0..10 {
        stalled.push(stall(&scheme).await);
    }
    let honest = scheme.client("greenbank");
    assert_eq!(ask(&honest, "/who").await.unwrap(), "greenbank");
    let closed = async {
        for stream in &mut stalled[..7] {
            assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
        }
    };
    timeout(AMPLE, closed).await.expect("those over the bound are given up");
}

#[tokio::test]
async fn oversized_handshake_is_cut_off() {
    const BYTES_MAX: usize = 64 << 20;
    let scheme = Scheme::new().serve();
    let mut stream = scheme.running().connect().await;
    // A ClientHello of 16 MiB, in records of 16 KiB.
    let mut record = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 0x4000, 0);
    let mut sent = 0;
    while sent < BYTES_MAX && timeout(AMPLE, stream.write_all(&record)).await.unwrap().is_ok() {
        sent += record.len();
        record.splice(5..9, [0; 4]);
    }
    assert!(sent < BYTES_MAX, "it reads no further");
    scheme.until_counted(HandshakeOutcome::Protocol, 1).await;
}

#[tokio::test]
async fn a_revoked_caller_loses_its_connection_and_others_keep_theirs() {
    let mut scheme = Scheme::new().serve();
    let (green, blue) = (scheme.client("greenbank"), scheme.client("bluewallet"));
    for (pool, name) in [(&green, "greenbank"), (&blue, "bluewallet")] {
        assert_eq!(ask(pool, "/who").await.unwrap(), name);
    }
    let tls = scheme.secured().tls.clone();
    let recheck = || scheme.running().server.recheck(|peer| tls.trusts(peer));
    assert!(!tls.reload().unwrap(), "nothing has changed");
    assert_eq!(recheck(), 0);
    // A request that is in flight while its certificate is revoked gets its answer.
    let script = scheme.running().script.clone();
    let (held, ()) = tokio::join!(ask(&green, "/hold"), async {
        script.holding.acquire().await.unwrap().forget();
        let mut ours = Authority::open(&scheme.file("ours")).unwrap();
        ours.revoke("greenbank", present_s(), 30).unwrap();
        assert!(tls.reload().unwrap());
        assert_eq!(recheck(), 1);
        script.release.add_permits(1);
    });
    assert_eq!(held.unwrap(), "released");
    assert!(ask(&green, "/who").await.is_err(), "neither the connection nor the session is left");
    scheme.until_counted(HandshakeOutcome::Revoked, 1).await;
    assert_eq!(ask(&blue, "/who").await.unwrap(), "bluewallet");
    // The request of bluewallet used its existing connection.
    assert_eq!(scheme.secured().counts.of(HandshakeOutcome::Established), 2);
}

#[tokio::test]
async fn a_new_certificate_is_used_from_the_next_connection_on() {
    let mut scheme = Scheme::new().serve();
    let old = scheme.client("greenbank");
    assert_eq!(ask(&old, "/who").await.unwrap(), "greenbank");
    // The hub gets a key of another authority, which only new clients trust.
    let mut others = Authority::open(&scheme.file("others")).unwrap();
    others.issue(&Order::new("hub", Usage::Server, present_s()).with_hosts(&["127.0.0.1"])).unwrap();
    for ending in ["pem", "key"] {
        let name = format!("hub.{ending}");
        std::fs::copy(scheme.file(&format!("others/{name}")), scheme.file(&format!("ours/{name}"))).unwrap();
    }
    assert!(scheme.secured().tls.reload().unwrap());
    assert_eq!(ask(&old, "/who").await.unwrap(), "greenbank", "the connection of before serves on");
    let refused = ask(&scheme.pool(Some("ours/greenbank")), "/who").await.unwrap_err().to_string();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
}

#[tokio::test]
async fn client_uses_its_new_certificate_after_the_file_changed() {
    let mut scheme = Scheme::new().serve();
    scheme.ours.issue(&Order::new("greenbank", Usage::Client, present_s())).unwrap();
    let identity = Some(scheme.identity("ours/greenbank"));
    let tls = ClientTls::load(ClientFiles { servers: scheme.trust("ours", false), identity }).unwrap();
    let port = scheme.running().server.local_addr().port();
    let config = PoolConfig { tls: Some(tls.clone()), ..PoolConfig::default() };
    let pool = Pool::new(Origin::secure("127.0.0.1", port), config);
    for _ in 0..2 {
        assert_eq!(ask(&pool, "/who").await.unwrap(), "greenbank");
    }
    scheme.until_counted(HandshakeOutcome::Established, 1).await;
    scheme.ours.issue(&Order::new("redmoney", Usage::Client, present_s())).unwrap();
    for ending in ["pem", "key"] {
        let name = |of: &str| scheme.file(&format!("ours/{of}.{ending}"));
        std::fs::copy(name("redmoney"), name("greenbank")).unwrap();
    }
    assert!(tls.reload().unwrap());
    assert_eq!(ask(&pool, "/who").await.unwrap(), "redmoney");
    scheme.until_counted(HandshakeOutcome::Established, 2).await;
}

/// A client gets the reason, not only the end of the connection.
#[tokio::test]
async fn clients_receive_the_reason_of_a_tls_failure() {
    let mut scheme = Scheme::new().serve();
    let port = scheme.running().server.local_addr().port();
    let fault = async |pool: Pool| ask(&pool, "/who").await.unwrap_err().tls_fault();
    let pool_of = |host: &str, files: Option<ClientFiles>| {
        let tls = files.map(|files| ClientTls::load(files).unwrap());
        Pool::new(Origin::secure(host, port), PoolConfig { tls, ..PoolConfig::default() })
    };
    assert_eq!(fault(scheme.pool(None)).await, Some(TlsFault::CertificateRequired));
    assert_eq!(fault(pool_of("127.0.0.1", None)).await, Some(TlsFault::NoAnchors));
    let strangers = ClientFiles { servers: scheme.trust("others", false), identity: None };
    assert_eq!(fault(pool_of("127.0.0.1", Some(strangers))).await, Some(TlsFault::ServerUntrusted));
    let ours = ClientFiles { servers: scheme.trust("ours", false), identity: None };
    assert_eq!(fault(pool_of("localhost", Some(ours))).await, Some(TlsFault::ServerOfOtherHost));
    let mut others = Authority::open(&scheme.file("others")).unwrap();
    others.issue(&Order::new("stranger", Usage::Client, present_s())).unwrap();
    let stranger = scheme.pool(Some("others/stranger"));
    assert_eq!(fault(stranger).await, Some(TlsFault::CertificateRefused));
    let known = scheme.client("greenbank");
    assert_eq!(ask(&known, "/who").await.unwrap(), "greenbank");
    // A port without a listener is not a fault of TLS.
    let silent = Origin::new("127.0.0.1", 1);
    assert_eq!(fault(Pool::new(silent, PoolConfig::default())).await, None);
    let plain = Running::start(Limits::default());
    let tls = ClientTls::load(ClientFiles { servers: scheme.trust("ours", false), identity: None }).unwrap();
    let origin = Origin::secure("127.0.0.1", plain.server.local_addr().port());
    let pool = Pool::new(origin, PoolConfig { tls: Some(tls), ..PoolConfig::default() });
    // A server without TLS may close the connection without an answer.
    assert!(matches!(fault(pool).await, Some(TlsFault::NotTls) | None));
}
