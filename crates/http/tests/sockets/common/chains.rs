//! A listener that requires clients' certificates, and authorities that issue invalid ones.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ALL_VERSIONS, ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use upesi_http::{HandshakeOutcome, Limits, ServerTls, ServerTlsOptions, Workers};
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{Identity, ServerFiles, Trust, present_s};

use super::{AMPLE, Running};

/// A listener that trusts one authority, whose own certificate another one has issued.
pub struct Listener {
    directory: TempDir,
    pub hub: Authority,
    pub running: Running,
    pub secured: ServerTlsOptions,
    _handshakes: Workers,
}

impl Listener {
    /// Trusts the authorities of a PEM text, or the hub's authority with its list.
    pub fn start(anchors: Option<&str>) -> Self {
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
        let secured = ServerTlsOptions {
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

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn address(&self) -> SocketAddr {
        self.running.server.local_addr()
    }

    pub fn client(&self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> ClientConfig {
        self.client_of(Some((chain, key)), ALL_VERSIONS)
    }

    /// A client with these TLS versions, with or without a chain and a key.
    pub fn client_of(
        &self,
        identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let Some((chain, key)) = identity else { return builder.with_no_client_auth() };
        // Not checked, because the library would not send some of the invalid chains.
        let key = provider.key_provider.load_private_key(key).unwrap();
        let identity = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        builder.with_client_cert_resolver(Arc::new(identity))
    }

    /// Sends a request on a new connection. Returns the common name that the server found, and the result of the
    /// handshake.
    pub async fn ask(
        &self,
        client: &Arc<ClientConfig>,
    ) -> Option<(String, HandshakeKind, TlsStream<TcpStream>)> {
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

    pub async fn until_counted(&self, outcome: HandshakeOutcome, count: u64) {
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

pub fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A root authority, or one below another authority.
pub struct Ca {
    pub certificate: Certificate,
    pub issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub fn new(name: &str, above: Option<&Self>, constraint: BasicConstraints, names: Option<&str>) -> Self {
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

    /// A root authority with the key of another one.
    pub fn with_key(name: &str, key: &KeyPair) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A client's certificate with a change, and its key.
    pub fn leaf(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        self.leaf_of(&KeyPair::generate().unwrap(), change)
    }

    /// Like `leaf`, with this key.
    pub fn leaf_of(
        &self,
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = params("caller");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }
}

/// A part of `weak.pem`, with certificates that the library cannot make.
pub fn weak(name: &str) -> &'static str {
    let mut parts = include_str!("../../weak.pem").split("\n\n");
    parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('\n')).expect("a part of this name")
}

/// A record with a ClientHello of TLS 1.2 or earlier.
pub fn client_hello(version: [u8; 2], suites: &[[u8; 2]]) -> Vec<u8> {
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
