//! CPU that one handshake costs the hub, accepted or refused: `cargo bench -p upesi-tls`.

#![expect(clippy::print_stdout, reason = "it prints its figures")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use tempfile::TempDir;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{Identity, ServerFiles, ServerTls, Trust, present_s};

const ROUNDS: usize = 200;

type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// An authority of the hub's own certificate and of callers' certificates, with this kind of keys.
fn server(directory: &Path, kind: KeyKind) -> ServerTls {
    let mut authority = Authority::init(directory, "Scheme", present_s(), 100, kind).expect("an authority");
    let orders = [
        Order::new("hub", Usage::Server, present_s()).with_hosts(&["hub.example"]),
        Order::new("caller", Usage::Client, present_s()),
    ];
    for order in orders {
        authority.issue(&Order { key: kind, ..order }).expect("issues");
    }
    let file = |name: &str| directory.join(name);
    let identity = Identity { certificate_file: file("hub.pem"), key_file: file("hub.key") };
    let clients =
        Trust { anchors_file: file("ca.pem"), crl_file: Some(file("crl.pem")), refuses_stale_crls: false };
    ServerTls::load(ServerFiles { identity, clients: Some(clients) }).expect("sound files")
}

/// A certificate that the authority has issued.
fn issued(directory: &Path) -> Shown {
    let file = |ending: &str| fs::read(directory.join(format!("caller.{ending}"))).expect("a file");
    let certificate = CertificateDer::from_pem_slice(&file("pem")).expect("a certificate");
    (vec![certificate], PrivateKeyDer::from_pem_slice(&file("key")).expect("a key"))
}

/// A self-made chain: authorities of these names, the highest first, and a caller's certificate.
fn forged(names: &[&str]) -> Shown {
    let mut chain = Vec::new();
    let mut above: Option<Issuer<'static, KeyPair>> = None;
    for name in names {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, *name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = match &above {
            None => params.self_signed(&key),
            Some(above) => params.signed_by(&key, above),
        };
        chain.insert(0, certificate.expect("a certificate").der().clone());
        above = Some(Issuer::new(params, key));
    }
    let mut params = CertificateParams::default();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a key");
    let leaf = params.signed_by(&key, &above.expect("a name at least")).expect("a certificate");
    chain.insert(0, leaf.der().clone());
    (chain, PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
}

/// The time that the server takes for one handshake, and whether it lets the caller in.
fn shake(server: &ServerTls, client: &Arc<ClientConfig>) -> (Duration, bool) {
    let name = ServerName::try_from("hub.example").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    let mut taken = Duration::ZERO;
    let mut connection = None;
    loop {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("writes");
        let started = Instant::now();
        let server =
            connection.get_or_insert_with(|| ServerConnection::new(server.config()).expect("a server"));
        server.read_tls(&mut &*bytes).expect("reads");
        let is_sound = server.process_new_packets().is_ok();
        bytes.clear();
        server.write_tls(&mut bytes).expect("writes");
        taken += started.elapsed();
        if !is_sound || !server.is_handshaking() {
            return (taken, is_sound);
        }
        client.read_tls(&mut &*bytes).expect("reads");
        client.process_new_packets().expect("the server's certificate is sound");
    }
}

fn client(directory: &Path, (chain, key): Shown) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let anchor = CertificateDer::from_pem_file(directory.join("ca.pem")).expect("a certificate");
    roots.add(anchor).expect("an authority");
    let provider = Arc::new(default_provider());
    let key = provider.key_provider.load_private_key(key).expect("a key");
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    // Unchecked, so that it shows what no library would.
    let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let mut config = builder.with_client_cert_resolver(Arc::new(shown));
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

fn main() {
    for kind in [KeyKind::P256, KeyKind::Rsa2048] {
        let directory = TempDir::new().expect("a directory");
        let tls = server(directory.path(), kind);
        for (what, shown) in [
            ("a valid chain", issued(directory.path())),
            ("a forged chain of one intermediate", forged(&["Scheme"])),
            ("a forged chain of four intermediates", forged(&["1", "Scheme", "2", "3"])),
            ("a forged chain of ten of one name", forged(&["Scheme"; 10])),
        ] {
            let client = client(directory.path(), shown);
            let mut taken: Vec<_> = (0..ROUNDS).map(|_| shake(&tls, &client)).collect();
            taken.sort_unstable();
            let ((median, is_let_in), (longest, _)) = (taken[ROUNDS / 2], taken[ROUNDS * 99 / 100]);
            println!("{kind:?}: {what} (accepted: {is_let_in}): median {median:.0?}, p99 {longest:.0?}");
        }
    }
}
