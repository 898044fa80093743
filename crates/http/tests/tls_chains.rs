//! Chains and handshakes that must be refused, and those beside them that must not.
//!
//! `weak/` holds what the library does not make: certificates that are signed with SHA-1, and by a key of 1024 bits.

mod common;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{AMPLE, Running};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use upesi_http::{Limits, Outcome, Secured, ServerTls, Workers};
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{Identity, ServerFiles, Trust, present_s};

/// A listener that trusts one authority, whose own certificate another has issued.
struct Listener {
    directory: TempDir,
    hub: Authority,
    running: Running,
    secured: Secured,
    _handshakes: Workers,
}

impl Listener {
    /// Trusting the authorities of a PEM text, or that of the hub, with its list.
    fn start(anchors: Option<&str>) -> Self {
        let directory = TempDir::new().unwrap();
        let file = |name: &str| directory.path().join(name);
        let mut hub = Authority::init(directory.path(), "Hub", present_s(), 100, KeyKind::P256).unwrap();
        hub.issue(&Order::new("hub", Usage::Server, present_s()).with_hosts(&["127.0.0.1"])).unwrap();
        if let Some(anchors) = anchors {
            fs::write(file("anchors.pem"), anchors).unwrap();
        }
        let clients = Trust {
            anchors_file: file(if anchors.is_some() { "anchors.pem" } else { "ca.pem" }),
            crl_file: anchors.is_none().then(|| file("crl.pem")),
            refuses_stale_crls: false,
        };
        let identity = Identity { certificate_file: file("hub.pem"), key_file: file("hub.key") };
        let tls = ServerTls::load(ServerFiles { identity, clients: Some(clients) }).unwrap();
        let handshakes = Workers::start(1, "handshake").unwrap();
        let secured = Secured {
            tls,
            worker: handshakes.get(0).clone(),
            handshake_timeout: 10 * AMPLE,
            handshakes_max: 512,
            counts: Arc::default(),
        };
        let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() };
        let running = Running::start_with(limits, Some(secured.clone()));
        Self { directory, hub, running, secured, _handshakes: handshakes }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn address(&self) -> SocketAddr {
        self.running.server.local_addr()
    }

    /// A client with this chain and key.
    fn client(&self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        // Unchecked: the library would not send all that is to be refused.
        let key = provider.key_provider.load_private_key(key).unwrap();
        let identity = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(identity))
    }

    /// A request by a new connection; the common name that the server found, and how the handshake went.
    async fn ask(&self, client: &Arc<ClientConfig>) -> Option<(String, HandshakeKind, TlsStream<TcpStream>)> {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let socket = TcpStream::connect(self.address()).await.unwrap();
        let connect = TlsConnector::from(client.clone()).connect(name, socket);
        let mut stream = timeout(AMPLE, connect).await.unwrap().ok()?;
        stream.write_all(b"GET /who HTTP/1.1\r\nhost: hub\r\n\r\n").await.ok()?;
        stream.flush().await.ok()?;
        let mut answer = Vec::new();
        while !answer.windows(4).any(|part| part == b"\r\n\r\n") || answer.ends_with(b"\r\n\r\n") {
            let read = timeout(AMPLE, stream.read_buf(&mut answer)).await.unwrap().ok()?;
            if read == 0 {
                return None;
            }
        }
        let name = String::from_utf8(answer).unwrap().rsplit("\r\n").next().unwrap().to_owned();
        let kind = stream.get_ref().1.handshake_kind().unwrap();
        Some((name, kind, stream))
    }

    async fn until_counted(&self, outcome: Outcome, count: u64) {
        let counted = async {
            while self.secured.counts.of(outcome) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let found = timeout(AMPLE, counted).await;
        assert!(found.is_ok(), "{outcome:?}: {}", self.secured.counts.of(outcome));
        assert_eq!(self.secured.counts.of(outcome), count, "{outcome:?}");
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// An authority below none or another one.
struct Ca {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new(name: &str, above: Option<&Self>, constraint: BasicConstraints, names: Option<&str>) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(constraint);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.name_constraints = names.map(|name| NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(name.to_owned())],
            excluded_subtrees: Vec::new(),
        });
        let key = KeyPair::generate().unwrap();
        let certificate = match above {
            None => params.self_signed(&key).unwrap(),
            Some(above) => params.signed_by(&key, &above.issuer).unwrap(),
        };
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A caller's certificate with something changed, and its key.
    fn leaf(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = params("caller");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }
}

/// Whether a caller with this leaf and these intermediates is served; if not, it is counted as untrusted.
async fn is_served(
    listener: &Listener,
    (leaf, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
    intermediates: &[&Ca],
) -> bool {
    let chain = std::iter::once(leaf).chain(intermediates.iter().map(|ca| ca.der())).collect();
    let untrusted = listener.secured.counts.of(Outcome::Untrusted);
    let found = listener.ask(&Arc::new(listener.client(chain, key))).await;
    match found {
        Some((name, ..)) => {
            assert_eq!(name, "caller");
            true
        }
        None => {
            listener.until_counted(Outcome::Untrusted, untrusted + 1).await;
            false
        }
    }
}

#[tokio::test]
async fn chains_are_held_to_what_their_authorities_may() {
    let any = BasicConstraints::Unconstrained;
    let root = Ca::new("root", None, any, None);
    let below = Ca::new("below", Some(&root), any, None);
    let last = Ca::new("last", Some(&root), BasicConstraints::Constrained(0), None);
    let below_last = Ca::new("below last", Some(&last), any, None);
    let green = Ca::new("green", Some(&root), any, Some("green.example"));
    let listener = Listener::start(Some(&root.certificate.pem()));
    let plain = |_: &mut CertificateParams| {};
    let named = |name: &'static str| {
        move |params: &mut CertificateParams| {
            params.subject_alt_names =
                CertificateParams::new(vec![name.to_owned()]).unwrap().subject_alt_names;
        }
    };
    assert!(is_served(&listener, root.leaf(plain), &[]).await);
    assert!(is_served(&listener, below.leaf(plain), &[&below]).await);
    assert!(!is_served(&listener, below.leaf(plain), &[]).await, "the intermediate is missing");
    assert!(!is_served(&listener, below.leaf(plain), &[&last]).await, "it is another's");
    // The path below an authority may be no longer than that says.
    assert!(is_served(&listener, last.leaf(plain), &[&last]).await);
    assert!(!is_served(&listener, below_last.leaf(plain), &[&below_last, &last]).await);
    // Its names must be those that the authority may certify.
    assert!(is_served(&listener, green.leaf(named("pay.green.example")), &[&green]).await);
    assert!(!is_served(&listener, green.leaf(named("pay.blue.example")), &[&green]).await);
    // A critical extension must be understood; another one need not be.
    for is_critical in [false, true] {
        let unknown = |params: &mut CertificateParams| {
            let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
            extension.set_criticality(is_critical);
            params.custom_extensions = vec![extension];
        };
        assert_eq!(is_served(&listener, root.leaf(unknown), &[]).await, !is_critical);
    }
    // A leaf is no authority, whatever it has signed.
    let no_authority = Ca::new("no authority", Some(&root), any, None);
    let leaf = no_authority.leaf(|params| params.is_ca = IsCa::ExplicitNoCa);
    assert!(is_served(&listener, leaf, &[&no_authority]).await);
    let mut chain = vec![Ca::new("1", Some(&root), any, None)];
    for depth in 2..=11 {
        let next = Ca::new(&depth.to_string(), chain.last(), any, None);
        chain.push(next);
    }
    let sent: Vec<&Ca> = chain.iter().rev().collect();
    assert!(!is_served(&listener, chain[10].leaf(plain), &sent).await, "a chain of eleven");
}

#[tokio::test]
async fn weak_signatures_are_refused() {
    let weak = |name: &str| {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/weak");
        fs::read_to_string(directory.join(name)).unwrap()
    };
    for (anchor, certificate, expected) in [
        ("root.pem", "sound.pem", true),
        ("root.pem", "sha1.pem", false),
        ("small.pem", "of-small.pem", false),
    ] {
        let listener = Listener::start(Some(&weak(anchor)));
        let leaf = CertificateDer::from_pem_slice(weak(certificate).as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(weak("caller.key").as_bytes()).unwrap();
        assert_eq!(is_served(&listener, (leaf, key), &[]).await, expected, "{certificate}");
    }
}

/// A record with a ClientHello of TLS 1.2 or before.
fn client_hello(version: [u8; 2], suites: &[[u8; 2]]) -> Vec<u8> {
    let suites = suites.concat();
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &length(content), content].concat();
    let extensions = [
        // Curves P-256 and X25519; signatures by ECDSA and RSA with SHA-256 and SHA-1.
        extension(10, &[0, 4, 0, 23, 0, 29]),
        extension(11, &[1, 0]),
        extension(13, &[0, 8, 4, 3, 4, 1, 2, 3, 2, 1]),
    ]
    .concat();
    let body =
        [&version[..], &[7; 32], &[0], &length(&suites), &suites, &[1, 0], &length(&extensions), &extensions]
            .concat();
    let handshake = [&[1, 0][..], &length(&body), &body].concat();
    [&[22, 3, 1][..], &length(&handshake), &handshake].concat()
}

/// The first record that the server sends: its type, and of an alert the description.
async fn first_record(listener: &Listener, hello: &[u8]) -> (u8, u8) {
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    stream.write_all(hello).await.unwrap();
    let mut record = [0; 7];
    timeout(AMPLE, stream.read_exact(&mut record)).await.unwrap().unwrap();
    (record[0], record[6])
}

#[tokio::test]
async fn old_versions_and_suites_without_forward_secrecy_are_refused() {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    const FORWARD_SECRET: [u8; 2] = [0xc0, 0x2b];
    const RSA: [[u8; 2]; 4] = [[0x00, 0x9d], [0x00, 0x9c], [0x00, 0x3c], [0x00, 0x2f]];
    const CBC: [[u8; 2]; 2] = [[0xc0, 0x23], [0xc0, 0x09]];
    let listener = Listener::start(None);
    // The same hello is answered if version and suite are sound.
    let sound = client_hello([3, 3], &[FORWARD_SECRET]);
    assert_eq!(first_record(&listener, &sound).await.0, HANDSHAKE);
    let (protocol_version, handshake_failure) = (70, 40);
    for version in [[3, 2], [3, 1], [3, 0]] {
        let hello = client_hello(version, &[FORWARD_SECRET, RSA[3], CBC[1]]);
        assert_eq!(first_record(&listener, &hello).await, (ALERT, protocol_version), "{version:?}");
    }
    for suites in [&RSA[..], &CBC] {
        let found = first_record(&listener, &client_hello([3, 3], suites)).await;
        assert_eq!(found, (ALERT, handshake_failure), "{suites:?}");
    }
    listener.until_counted(Outcome::Protocol, 5).await;
    assert_eq!(listener.secured.counts.of(Outcome::Established), 0);
}

#[tokio::test]
async fn sessions_are_resumed_without_early_data_and_not_after_a_revocation() {
    let mut listener = Listener::start(None);
    for name in ["caller", "other"] {
        listener.hub.issue(&Order::new(name, Usage::Client, present_s())).unwrap();
    }
    listener.secured.tls.reload().unwrap();
    let client = |name: &str| {
        let chain = vec![CertificateDer::from_pem_file(listener.file(&format!("{name}.pem"))).unwrap()];
        let key = PrivateKeyDer::from_pem_file(listener.file(&format!("{name}.key"))).unwrap();
        let mut client = listener.client(chain, key);
        client.resumption = Resumption::in_memory_sessions(16);
        client.enable_early_data = true;
        Arc::new(client)
    };
    let (caller, other) = (client("caller"), client("other"));
    for (client, expected) in [(&caller, "caller"), (&other, "other")] {
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
            let (name, found, stream) = listener.ask(client).await.unwrap();
            assert_eq!((&*name, found), (expected, kind), "a resumed session knows its caller");
            assert!(!stream.get_ref().1.is_early_data_accepted());
        }
    }
    listener.hub.revoke("caller", present_s(), 30).unwrap();
    assert!(listener.secured.tls.reload().unwrap());
    assert!(listener.ask(&caller).await.is_none(), "a ticket of before opens nothing");
    listener.until_counted(Outcome::Revoked, 1).await;
    let (name, kind, _) = listener.ask(&other).await.unwrap();
    assert_eq!((&*name, kind), ("other", HandshakeKind::Full), "the others shake hands anew");
}
