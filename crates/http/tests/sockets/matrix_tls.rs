//! Accepted and rejected TLS clients. Each case is a line, over real sockets, in both versions of the protocol.
//!
//! For each rejection the test checks the client's alert, the hub's count, the end of the connection, and that no
//! request reaches a service.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription as Alert, ClientConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use upesi_http::{HandshakeOutcome, Limits};
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::present_s;

use crate::common;
use crate::common::chains::{Ca, Listener, client_hello, weak};
use crate::common::{AMPLE, Running};

/// Group A of the matrix alone; group B is `e2e_identity` of `upesi`.
const CASES_MIN: usize = 50;
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// A chain with its key; none for a client without a certificate.
type Shown = Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;
/// Description, certificate, and result: served, or an outcome and an alert.
type Case = (&'static str, Shown, Option<(HandshakeOutcome, Alert)>);

fn alert(error: &io::Error) -> Option<Alert> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// The alert that ends a connection of a silent client.
async fn refused(listener: &Listener, client: ClientConfig) -> Option<Alert> {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let socket = TcpStream::connect(listener.address()).await.unwrap();
    let connected = TlsConnector::from(Arc::new(client)).connect(name, socket);
    match timeout(AMPLE, connected).await.unwrap() {
        Err(error) => alert(&error),
        Ok(mut stream) => match timeout(AMPLE, stream.read_u8()).await.expect("the caller was let in") {
            Ok(_) => panic!("the caller was answered"),
            Err(error) => alert(&error),
        },
    }
}

/// Runs the cases in both versions. Returns their number.
async fn run(listener: &Listener, cases: Vec<Case>) -> usize {
    let seen = || listener.running.script.requests.load(Ordering::Relaxed);
    let count = cases.len() * VERSIONS.len();
    for (what, shown, expected) in cases {
        for version in VERSIONS {
            let identity = shown.as_ref().map(|(chain, key)| (chain.clone(), key.clone_key()));
            let client = listener.client_of(identity, &[version]);
            let what = format!("{what}, {:?}", version.version);
            let before = seen();
            let Some((outcome, alert)) = expected else {
                let served = listener.ask(&Arc::new(client)).await;
                assert_eq!(served.expect(&what).0, "caller", "{what}");
                assert_eq!(seen(), before + 1, "{what}");
                continue;
            };
            let counted = listener.secured.counts.of(outcome);
            assert_eq!(refused(listener, client).await, Some(alert), "{what}");
            listener.until_counted(outcome, counted + 1).await;
            assert_eq!(seen(), before, "{what}: nothing reached a service");
        }
    }
    count
}

fn plain(_: &mut CertificateParams) {}

fn chain((leaf, key): (CertificateDer<'static>, PrivateKeyDer<'static>), intermediates: &[&Ca]) -> Shown {
    Some((std::iter::once(leaf).chain(intermediates.iter().map(|ca| ca.der())).collect(), key))
}

fn named(name: &'static str) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        params.subject_alt_names = CertificateParams::new(vec![name.into()]).unwrap().subject_alt_names
    }
}

fn with_extension(is_critical: bool) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        extension.set_criticality(is_critical);
        params.custom_extensions = vec![extension];
    }
}

fn for_purposes(purposes: &[ExtendedKeyUsagePurpose]) -> impl FnOnce(&mut CertificateParams) {
    let purposes = purposes.to_vec();
    move |params| params.extended_key_usages = purposes
}

fn valid(from: i32, to: i32) -> impl FnOnce(&mut CertificateParams) {
    move |params| {
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
    }
}

/// The listener's authorities, and imitations of them.
struct World {
    root: Ca,
    second: Ca,
}

impl World {
    fn new() -> Self {
        let any = BasicConstraints::Unconstrained;
        Self { root: Ca::new("root", None, any, None), second: Ca::new("second", None, any, None) }
    }

    fn served(&self) -> Vec<Case> {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        let below = Ca::new("below", Some(&self.root), BasicConstraints::Unconstrained, None);
        let last = Ca::new("last", Some(&self.root), BasicConstraints::Constrained(0), None);
        let green =
            Ca::new("green", Some(&self.root), BasicConstraints::Unconstrained, Some("green.example"));
        let case = |what, shown| (what, shown, None);
        vec![
            case("of an anchor", chain(self.root.leaf(plain), &[])),
            case("of the other anchor, as during a change", chain(self.second.leaf(plain), &[])),
            case("of an intermediate that is sent", chain(below.leaf(plain), &[&below])),
            case("… and one that is not needed", chain(below.leaf(plain), &[&below, &last])),
            case("of an authority with no room below it", chain(last.leaf(plain), &[&last])),
            case(
                "of a name that its authority may certify",
                chain(green.leaf(named("a.green.example")), &[&green]),
            ),
            case(
                "for callers and servers",
                chain(self.root.leaf(for_purposes(&[ServerAuth, ClientAuth])), &[]),
            ),
            case("with an extension that is not critical", chain(self.root.leaf(with_extension(false)), &[])),
        ]
    }

    fn refused(&self) -> Vec<Case> {
        use ExtendedKeyUsagePurpose::{Any, CodeSigning, ServerAuth};
        use HandshakeOutcome::{Expired, NoCertificate, Untrusted, WrongPurpose};
        let any = BasicConstraints::Unconstrained;
        let (root, unknown) = (&self.root, (Untrusted, Alert::UnknownCA));
        let [other, namesake] = ["other", "root"].map(|name| Ca::new(name, None, any, None));
        let [below, beside] = ["below", "beside"].map(|name| Ca::new(name, Some(root), any, None));
        let last = Ca::new("last", Some(root), BasicConstraints::Constrained(0), None);
        let below_last = Ca::new("below last", Some(&last), any, None);
        let green = Ca::new("green", Some(root), any, Some("green.example"));
        let mut long = vec![Ca::new("1", Some(root), any, None)];
        for depth in 2..=11 {
            long.push(Ca::new(&depth.to_string(), long.last(), any, None));
        }
        let all: Vec<&Ca> = long.iter().rev().collect();
        let (expired, early) = (root.leaf(valid(2001, 2002)), root.leaf(valid(3000, 3001)));
        let of_another_key = (root.leaf(plain).0, root.leaf(plain).1);
        let cut_off = {
            let (leaf, key) = root.leaf(plain);
            (CertificateDer::from(leaf[..leaf.len() / 2].to_vec()), key)
        };
        let as_ca = root.leaf(|params| params.is_ca = IsCa::Ca(any));
        let case = |what, shown, outcome, alert| (what, shown, Some((outcome, alert)));
        let purpose = |what, purposes| {
            let shown = chain(root.leaf(for_purposes(purposes)), &[]);
            case(what, shown, WrongPurpose, Alert::UnsupportedCertificate)
        };
        vec![
            case("none", None, NoCertificate, Alert::CertificateRequired),
            case("of another authority", chain(other.leaf(plain), &[]), unknown.0, unknown.1),
            case("… which is sent along", chain(other.leaf(plain), &[&other]), unknown.0, unknown.1),
            case("of a namesake", chain(namesake.leaf(plain), &[]), Untrusted, Alert::DecryptError),
            case("signed by itself", self_signed(), unknown.0, unknown.1),
            case("expired", chain(expired, &[]), Expired, Alert::CertificateExpired),
            case("not yet valid", chain(early, &[]), Expired, Alert::CertificateExpired),
            case("an authority's own", chain(as_ca, &[]), Untrusted, Alert::CertificateUnknown),
            case("without its intermediate", chain(below.leaf(plain), &[]), unknown.0, unknown.1),
            case("with another's intermediate", chain(below.leaf(plain), &[&beside]), unknown.0, unknown.1),
            case(
                "of an authority that there may not be",
                chain(below_last.leaf(plain), &[&below_last, &last]),
                Untrusted,
                Alert::CertificateUnknown,
            ),
            case(
                "of a name that its authority may not certify",
                chain(green.leaf(named("a.blue.example")), &[&green]),
                Untrusted,
                Alert::CertificateUnknown,
            ),
            case(
                "a chain of eleven",
                chain(long[10].leaf(plain), &all),
                Untrusted,
                Alert::CertificateUnknown,
            ),
            case(
                "with an unknown critical extension",
                chain(root.leaf(with_extension(true)), &[]),
                Untrusted,
                Alert::CertificateUnknown,
            ),
            case("of another key", chain(of_another_key, &[]), Untrusted, Alert::DecryptError),
            case("cut off", chain(cut_off, &[]), Untrusted, Alert::BadCertificate),
            purpose("for servers", &[ServerAuth]),
            purpose("for signing programs", &[CodeSigning]),
            purpose("for anything", &[Any]),
        ]
    }
}

fn self_signed() -> Shown {
    let (key, mut params) = (KeyPair::generate().unwrap(), common::chains::params("caller"));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.self_signed(&key).unwrap();
    Some((vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap()))
}

/// Cases of certificates that the library cannot make, each with its own authority.
async fn weak_cases() -> usize {
    let mut count = 0;
    for (what, anchor, certificate, expected) in [
        ("sound", "root.pem", "sound.pem", None),
        (
            "signed with SHA-1",
            "root.pem",
            "sha1.pem",
            Some((HandshakeOutcome::Untrusted, Alert::DecryptError)),
        ),
        (
            "by RSA of 1024 bits",
            "small.pem",
            "of-small.pem",
            Some((HandshakeOutcome::Untrusted, Alert::DecryptError)),
        ),
    ] {
        let listener = Listener::start(Some(weak(anchor)));
        let leaf = CertificateDer::from_pem_slice(weak(certificate).as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(weak("caller.key").as_bytes()).unwrap();
        count += run(&listener, vec![(what, Some((vec![leaf], key)), expected)]).await;
    }
    count
}

/// Cases of revocation lists.
async fn list_cases() -> usize {
    let mut listener = Listener::start(None);
    for name in ["caller", "revoked"] {
        listener.hub.issue(&Order::new(name, Usage::Client, present_s())).unwrap();
    }
    listener.hub.revoke("revoked", present_s(), 30).unwrap();
    listener.secured.tls.reload().unwrap();
    let shown = |name: &str| {
        let chain = vec![CertificateDer::from_pem_file(listener.file(&format!("{name}.pem"))).unwrap()];
        Some((chain, PrivateKeyDer::from_pem_file(listener.file(&format!("{name}.key"))).unwrap()))
    };
    let revoked = Some((HandshakeOutcome::Revoked, Alert::CertificateRevoked));
    let cases = vec![("on no list", shown("caller"), None), ("revoked", shown("revoked"), revoked)];
    let mut count = run(&listener, cases).await;
    // An authority that has a list, but no list of this authority.
    let other = tempfile::TempDir::new().unwrap();
    let mut second = Authority::init(other.path(), "Other", present_s(), 100, KeyKind::P256).unwrap();
    second.issue(&Order::new("unlisted", Usage::Client, present_s())).unwrap();
    let pem = |name: &str| std::fs::read_to_string(other.path().join(name)).unwrap();
    let both = format!("{}{}", std::fs::read_to_string(listener.file("ca.pem")).unwrap(), pem("ca.pem"));
    std::fs::write(listener.file("ca.pem"), both).unwrap();
    listener.secured.tls.reload().unwrap();
    let leaf = CertificateDer::from_pem_slice(pem("unlisted.pem").as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem("unlisted.key").as_bytes()).unwrap();
    let unlisted = Some((vec![leaf], key));
    count +=
        run(&listener, vec![("of no list", unlisted, Some((HandshakeOutcome::NoList, Alert::UnknownCA)))])
            .await;
    count
}

/// Sends the first bytes of a connection. Returns the type of the record in the answer, and the alert's number if it is
/// an alert.
async fn first_record(listener: &Listener, bytes: &[u8]) -> (u8, u8) {
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut record = [0; 7];
    timeout(AMPLE, stream.read_exact(&mut record)).await.unwrap().unwrap();
    let _ = timeout(AMPLE, stream.read_to_end(&mut Vec::new())).await.expect("the connection ends");
    (record[0], record[6])
}

/// Cases of unsupported protocols and cipher suites.
async fn protocol_cases() -> usize {
    const ALERT: u8 = 21;
    const FORWARD_SECRET: [u8; 2] = [0xc0, 0x2b];
    let (protocol_version, handshake_failure) = (70, 40);
    let listener = Listener::start(None);
    let mut cases: Vec<(String, Vec<u8>, u8)> = [[3, 2], [3, 1], [3, 0]]
        .into_iter()
        .map(|version| (format!("{version:?}"), client_hello(version, &[FORWARD_SECRET]), protocol_version))
        .collect();
    // RSA key exchange; CBC; RC4, export, NULL and anonymous suites.
    for suite in [
        [0x00, 0x9d],
        [0x00, 0x9c],
        [0x00, 0x3c],
        [0x00, 0x2f],
        [0xc0, 0x23],
        [0xc0, 0x09],
        [0xc0, 0x27],
        [0xc0, 0x13],
        [0x00, 0x05],
        [0x00, 0x03],
        [0x00, 0x01],
        [0x00, 0x34],
        [0xc0, 0x18],
    ] {
        cases.push((format!("suite {suite:02x?}"), client_hello([3, 3], &[suite]), handshake_failure));
    }
    let count = cases.len();
    for (number, (what, hello, alert)) in (1..).zip(cases) {
        assert_eq!(first_record(&listener, &hello).await, (ALERT, alert), "{what}");
        listener.until_counted(HandshakeOutcome::Protocol, number).await;
    }
    assert_eq!(listener.secured.counts.of(HandshakeOutcome::Established), 0);
    assert_eq!(listener.running.script.requests.load(Ordering::Relaxed), 0);
    count
}

/// Cases of the wrong kind of port.
async fn clear_text_cases() -> usize {
    let listener = Listener::start(None);
    let openings: [&[u8]; 4] = [
        b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x80\x2e\x01\x00\x02",
        b"\0\0\0\0",
    ];
    for (number, opening) in (1..).zip(openings) {
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        stream.write_all(opening).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        timeout(AMPLE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{opening:?}: {}", String::from_utf8_lossy(&answer));
        listener.until_counted(HandshakeOutcome::Plaintext, number).await;
    }
    assert_eq!(listener.running.script.requests.load(Ordering::Relaxed), 0);
    // A client may also use TLS on a port without TLS.
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    stream.write_all(&client_hello([3, 3], &[[0xc0, 0x2b]])).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(AMPLE, stream.read_to_end(&mut answer)).await.expect("the connection ends");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    assert_eq!(running.script.requests.load(Ordering::Relaxed), 0);
    openings.len() + 1
}

#[tokio::test]
async fn every_case_is_served_or_rejected_as_listed() {
    let world = World::new();
    let anchors = format!("{}{}", world.root.certificate.pem(), world.second.certificate.pem());
    let listener = Listener::start(Some(&anchors));
    let mut count = run(&listener, world.served()).await + run(&listener, world.refused()).await;
    count += weak_cases().await + list_cases().await + protocol_cases().await + clear_text_cases().await;
    assert!(count >= CASES_MIN, "{count} cases");
}
