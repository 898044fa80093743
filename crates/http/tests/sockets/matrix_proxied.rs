//! Connections that a load balancer forwards with the PROXY protocol. Each case is a line, over real sockets.
//!
//! A rejected header reaches no service, and its connection is closed without an answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{AMPLE, Running, exchange};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use upesi_http::{Limits, ProxyProtocol, ProxyRefusal, ServerTls, ServerTlsOptions, Workers};
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{Identity, ServerFiles, Trust, present_s};

const CASES_MIN: usize = 60;
const REQUEST: &str = "GET /from HTTP/1.1\r\nhost: x\r\n\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const V4: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0x30, 0x39, 0x01, 0xbb];

fn balancers(from: &str, header_timeout: Duration) -> ProxyProtocol {
    ProxyProtocol { from: vec![from.parse().unwrap()], header_timeout, counts: Arc::default() }
}

fn behind(protocol: &ProxyProtocol) -> Running {
    Running::start_behind(Limits::default(), None, Some(protocol.clone()))
}

/// A header of version 2 with its version and command, its family, and the remaining bytes.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap();
    v2_saying(command, family, length, rest)
}

fn v2_saying(command: u8, family: u8, length: u16, rest: &[u8]) -> Vec<u8> {
    [SIGNATURE, &[command, family], &length.to_be_bytes(), rest].concat()
}

fn v6(source: &str) -> Vec<u8> {
    let source = source.parse::<std::net::Ipv6Addr>().unwrap().octets();
    [&source[..], &[0; 16], &[0x30, 0x39, 0x01, 0xbb]].concat()
}

/// A header, and the address that the hub reads from it; for IPv6 its network half.
fn told() -> Vec<(Vec<u8>, &'static str)> {
    let line = |text: &str| text.as_bytes().to_vec();
    let with_more = |addresses: &[u8]| [addresses, &[4, 0, 3, 1, 2, 3]].concat();
    vec![
        (line("PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n"), "192.0.2.7"),
        (line("PROXY TCP4 192.0.2.7 198.51.100.1 0 65535\r\n"), "192.0.2.7"),
        (line("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), "255.255.255.255"),
        (line("PROXY TCP6 2001:db8:1:2:3:4:5:6 2001:db8::1 12345 443\r\n"), "2001:db8:1:2::"),
        (line("PROXY TCP6 ::1 ::1 1 1\r\n"), "::"),
        (line("PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 12345 443\r\n"), "192.0.2.7"),
        (
            line(&format!("PROXY TCP6 {0} {0} 65535 65535\r\n", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")),
            "ffff:ffff:ffff:ffff::",
        ),
        // The load balancer's own connection, or one with an unknown source: the address is the load balancer's.
        (line("PROXY UNKNOWN\r\n"), "127.0.0.1"),
        (line("PROXY UNKNOWN 192.0.2.7 198.51.100.1 12345 443\r\n"), "127.0.0.1"),
        (line(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(91))), "127.0.0.1"),
        (v2(0x20, 0x00, &[]), "127.0.0.1"),
        (v2(0x20, 0x11, &V4), "127.0.0.1"),
        (v2(0x20, 0x11, &[]), "127.0.0.1"),
        (v2(0x21, 0x00, &[]), "127.0.0.1"),
        (v2(0x21, 0x00, &V4), "127.0.0.1"),
        (v2(0x21, 0x31, &[0; 216]), "127.0.0.1"),
        (v2(0x21, 0x11, &V4), "192.0.2.7"),
        (v2(0x21, 0x11, &with_more(&V4)), "192.0.2.7"),
        (v2(0x21, 0x11, &[&V4[..], &[0; 2_020]].concat()), "192.0.2.7"),
        (v2(0x21, 0x21, &v6("2001:db8:1:2:3:4:5:6")), "2001:db8:1:2::"),
        (v2(0x21, 0x21, &v6("::ffff:192.0.2.7")), "192.0.2.7"),
        (v2(0x21, 0x21, &with_more(&v6("2001:db8:1:2:3:4:5:6"))), "2001:db8:1:2::"),
    ]
}

/// Invalid headers.
fn malformed() -> Vec<Vec<u8>> {
    let mut cases: Vec<Vec<u8>> = [
        "GET /count HTTP/1.1\r\nhost: x\r\n\r\n",
        "PROXY\r\nGET /count HTTP/1.1\r\nhost: x\r\n\r\n",
        "PROXY \r\nGET /count HTTP/1.1\r\nhost: x\r\n\r\n",
        "proxy TCP4 192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY tcp4 192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY  TCP4 192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY TCP4  192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443 \r\n",
        "PROXY TCP4\t192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 12345\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443 1\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 12345 65536\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 -1 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 +1 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 01 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1  443\r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.1 12345 443\r\n",
        "PROXY TCP4 192.0.2.07 198.51.100.1 12345 443\r\n",
        "PROXY TCP4 192.0.2 198.51.100.1 12345 443\r\n",
        "PROXY TCP4 3221225991 198.51.100.1 12345 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100 12345 443\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 12345 443\r\n",
        "PROXY TCP4 localhost 198.51.100.1 12345 443\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY TCP6 2001:db8::1 198.51.100.1 12345 443\r\n",
        "PROXY TCP6 fe80::1%eth0 2001:db8::2 12345 443\r\n",
        "PROXY TCP6 [2001:db8::1] 2001:db8::2 12345 443\r\n",
        "PROXY TCP 192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY UDP4 192.0.2.7 198.51.100.1 12345 443\r\n",
        "PROXY UNKNOWNX 192.0.2.7 198.51.100.1 12345\r\n",
        "PROXY TCP4 192.0.2.\u{667} 198.51.100.1 12345 443\r\n",
        "\r\nPROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    // One byte too long, and without an end.
    cases.push(format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)).into_bytes());
    cases.push(format!("PROXY UNKNOWN {}", "x".repeat(10_000)).into_bytes());
    for (command, family) in
        [(0x11, 0x11), (0x31, 0x11), (0x01, 0x11), (0x22, 0x11), (0x2f, 0x11), (0x21, 0x12), (0x21, 0x22)]
    {
        cases.push(v2(command, family, &[0; 36]));
    }
    for (family, length) in
        [(0x01, 36), (0x10, 36), (0x41, 36), (0xff, 36), (0x11, 0), (0x11, 11), (0x21, 35)]
    {
        cases.push(v2(0x21, family, &vec![0; length]));
    }
    cases.push(v2(0x21, 0x31, &[0; 215]));
    cases.push(v2(0x21, 0x11, &[&V4[..], &[0; 2_021]].concat()));
    cases.push(v2_saying(0x20, 0x00, u16::MAX, &[0; 64]));
    // One byte of the signature is wrong.
    for at in 0..SIGNATURE.len() {
        let mut header = v2(0x21, 0x11, &V4);
        header[at] ^= 0x20;
        cases.push(header);
    }
    cases
}

/// Whether the server ends the connection without an answer, by any packet.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut answer = Vec::new();
    let _ = timeout(AMPLE, stream.read_to_end(&mut answer)).await.expect("the connection ends");
    answer.is_empty()
}

#[tokio::test]
async fn proxy_header_determines_the_client_address() {
    let protocol = balancers("127.0.0.0/8", AMPLE);
    let running = behind(&protocol);
    for (header, address) in told() {
        // The header is sent in one piece, and then byte by byte.
        let mut stream = running.connect().await;
        let whole = [&header[..], REQUEST.as_bytes()].concat();
        stream.write_all(&whole).await.unwrap();
        let (head, body) = crate::common::response(&mut stream).await;
        let text = String::from_utf8_lossy(&header).into_owned();
        assert!(head.starts_with("http/1.1 200"), "{text}: {head}");
        assert_eq!(String::from_utf8(body).unwrap(), address, "{text}");
        let mut stream = running.connect().await;
        stream.set_nodelay(true).unwrap();
        for byte in &header {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let (_, body) = exchange(&mut stream, REQUEST).await;
        assert_eq!(String::from_utf8(body).unwrap(), address, "{text}");
        // A header belongs to the connection, so a second one is not a request.
        let again = [&header[..], REQUEST.as_bytes()].concat();
        stream.write_all(&again).await.unwrap();
        let (head, _) = crate::common::response(&mut stream).await;
        assert!(head.starts_with("http/1.1 400"), "{text}: {head}");
    }
    assert_eq!(ProxyRefusal::ALL.map(|refusal| protocol.counts.of(refusal)), [0; 5]);
}

#[tokio::test]
async fn connection_without_a_valid_proxy_header_is_closed() {
    let protocol = balancers("127.0.0.0/8", AMPLE);
    let running = behind(&protocol);
    let cases = malformed();
    assert!(cases.len() + told().len() >= CASES_MIN, "{}", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let mut stream = running.connect().await;
        // The connection may be closed before all bytes are written.
        let _ = stream.write_all(&[case, REQUEST.as_bytes()].concat()).await;
        assert!(is_closed(&mut stream).await, "{}", String::from_utf8_lossy(case));
        assert_eq!(protocol.counts.of(ProxyRefusal::Malformed), number as u64 + 1);
    }
    // Truncated at any byte.
    let whole: Vec<_> =
        told().into_iter().map(|(header, _)| header).filter(|header| header.len() < 60).collect();
    let mut closed = 0;
    for header in &whole {
        for length in [0, 1, 5, 12, 14, header.len() - 1] {
            let mut stream = running.connect().await;
            stream.write_all(&header[..length]).await.unwrap();
            stream.shutdown().await.unwrap();
            assert!(is_closed(&mut stream).await, "{header:?} cut off at {length}");
            closed += 1;
        }
    }
    assert_eq!(protocol.counts.of(ProxyRefusal::Closed), closed);
    assert_eq!(running.script.requests.load(Ordering::Relaxed), 0);
    assert_eq!(running.server.connections(), 0);
}

#[tokio::test]
async fn proxy_header_of_an_untrusted_address_is_rejected() {
    let protocol = balancers("192.0.2.0/24", AMPLE);
    let running = behind(&protocol);
    for number in 1..=3 {
        let mut stream = running.connect().await;
        let _ = stream.write_all(b"PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n").await;
        assert!(is_closed(&mut stream).await);
        assert_eq!(protocol.counts.of(ProxyRefusal::Unlisted), number);
    }
    assert_eq!(running.script.requests.load(Ordering::Relaxed), 0);
    // Without load balancers, a header is not a valid request.
    let plain = Running::start(Limits::default());
    let mut stream = plain.connect().await;
    let (head, _) = exchange(&mut stream, "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n\r\n").await;
    assert!(head.starts_with("http/1.1 400"), "{head}");
}

#[tokio::test]
async fn late_proxy_header_closes_the_connection() {
    let protocol = balancers("127.0.0.1/32", Duration::from_millis(50));
    let running = behind(&protocol);
    for (number, begun) in ["", "P", "PROXY TCP4 192.0.2.7 198.51.100.1"].into_iter().enumerate() {
        let mut stream = running.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        assert!(is_closed(&mut stream).await, "{begun}");
        assert_eq!(protocol.counts.of(ProxyRefusal::Late), number as u64 + 1);
    }
}

#[tokio::test]
async fn connections_that_wait_for_a_proxy_header_are_limited() {
    let protocol = balancers("127.0.0.1/32", AMPLE);
    let running = behind(&protocol);
    let mut waiting = Vec::new();
    for _ in 0..upesi_http::server::PROXY_HEADERS_MAX {
        waiting.push(running.connect().await);
    }
    let mut beyond = running.connect().await;
    assert!(is_closed(&mut beyond).await);
    assert_eq!(protocol.counts.of(ProxyRefusal::Crowded), 1);
    // Waiting connections are served in turn, and replaced by others.
    for stream in &mut waiting {
        stream.write_all(b"PROXY UNKNOWN\r\n").await.unwrap();
        exchange(stream, REQUEST).await;
    }
    let mut next = running.connect().await;
    next.write_all(b"PROXY UNKNOWN\r\n").await.unwrap();
    exchange(&mut next, REQUEST).await;
}

/// Unauthenticated clients are counted by the address in the header, not by the load balancer's.
#[tokio::test]
async fn limits_by_address_use_the_address_of_the_proxy_header() {
    let protocol = balancers("127.0.0.1/32", AMPLE);
    let limits = Limits { anonymous_per_address_max: 1, ..Limits::default() };
    let running = Running::start_behind(limits, None, Some(protocol));
    let from = async |address: &str| {
        let mut stream = running.connect().await;
        let header = format!("PROXY TCP4 {address} 198.51.100.1 12345 443\r\n");
        stream.write_all(header.as_bytes()).await.unwrap();
        exchange(&mut stream, REQUEST).await;
        stream
    };
    let (mut first, mut other) = (from("192.0.2.1").await, from("192.0.2.2").await);
    // A second connection of an address replaces the first one.
    let _second = from("192.0.2.1").await;
    assert!(is_closed(&mut first).await);
    exchange(&mut other, REQUEST).await;
}

/// With TLS the header comes before the handshake.
#[tokio::test]
async fn proxy_header_precedes_the_handshake() {
    let directory = TempDir::new().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut authority = Authority::init(directory.path(), "Scheme", present_s(), 100, KeyKind::P256).unwrap();
    authority.issue(&Order::new("hub", Usage::Server, present_s()).with_hosts(&["127.0.0.1"])).unwrap();
    authority.issue(&Order::new("greenbank", Usage::Client, present_s())).unwrap();
    let identity = Identity { certificate_file: file("hub.pem"), key_file: file("hub.key") };
    let trust = Trust { anchors_file: file("ca.pem"), crl_file: None, refuses_stale_crls: false };
    let handshakes = Workers::start(1, "handshake").unwrap();
    let secured = ServerTlsOptions {
        tls: ServerTls::load(ServerFiles { identity, clients: Some(trust) }).unwrap(),
        worker: handshakes.get(0).clone(),
        handshake_timeout: AMPLE,
        handshakes_max: 16,
        counts: Arc::default(),
    };
    let protocol = balancers("127.0.0.1/32", AMPLE);
    let running = Running::start_behind(Limits::default(), Some(secured), Some(protocol.clone()));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let chain = CertificateDer::pem_file_iter(file("greenbank.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file("greenbank.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap());
    let connect = async |header: &[u8]| {
        let mut stream = running.connect().await;
        stream.write_all(header).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::clone(&config)).connect(name, stream).await
    };
    let header = v2(0x21, 0x11, &V4);
    let mut stream = connect(&header).await.unwrap();
    for (path, expected) in [("/from", "192.0.2.7"), ("/who", "greenbank")] {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(expected.as_bytes()) {
            assert_ne!(
                stream.read_buf(&mut answer).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
    assert!(connect(b"").await.is_err(), "a handshake without a header");
    assert_eq!(protocol.counts.of(ProxyRefusal::Malformed), 1);
}
