//! Chains and handshakes that must be rejected, and similar ones that must be accepted.
//!
//! `weak.pem` has certificates that the library cannot make: signed with SHA-1, or by a key of 1024 bits.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use upesi_http::{
    Answer, CertificateFacts, ClientTls, Full, HandshakeOutcome, Origin, Pool, PoolConfig, Request,
    SendError, VerifiedIssuer,
};
use upesi_pki::{Order, Usage};
use upesi_tls::{ClientFiles, Trust, present_s};

use crate::common::chains::{Ca, Listener, client_hello, weak};
use crate::common::http2::Scheme;
use crate::common::{AMPLE, ample};

/// Whether a client with this leaf and these intermediates is served. Otherwise it is counted as untrusted.
async fn is_served(
    listener: &Listener,
    (leaf, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
    intermediates: &[&Ca],
) -> bool {
    let chain = std::iter::once(leaf).chain(intermediates.iter().map(|ca| ca.der())).collect();
    let untrusted = listener.secured.counts.of(HandshakeOutcome::Untrusted);
    let found = listener.ask(&Arc::new(listener.client(chain, key))).await;
    match found {
        Some((name, ..)) => {
            assert_eq!(name, "caller");
            true
        }
        None => {
            listener.until_counted(HandshakeOutcome::Untrusted, untrusted + 1).await;
            false
        }
    }
}

#[tokio::test]
async fn chains_must_respect_the_constraints_of_their_authorities() {
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
    // The path below an authority must not exceed its path length.
    assert!(is_served(&listener, last.leaf(plain), &[&last]).await);
    assert!(!is_served(&listener, below_last.leaf(plain), &[&below_last, &last]).await);
    // The client's names must be within the authority's constraints.
    assert!(is_served(&listener, green.leaf(named("pay.green.example")), &[&green]).await);
    assert!(!is_served(&listener, green.leaf(named("pay.blue.example")), &[&green]).await);
    // A critical extension must be known; others need not be.
    for is_critical in [false, true] {
        let unknown = |params: &mut CertificateParams| {
            let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
            extension.set_criticality(is_critical);
            params.custom_extensions = vec![extension];
        };
        assert_eq!(is_served(&listener, root.leaf(unknown), &[]).await, !is_critical);
    }
    // A leaf is not an authority, whatever it has signed.
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

/// A line of authorities, each below the previous one, the lowest first.
fn line(root: &Ca, length: usize) -> Vec<Ca> {
    let mut line: Vec<Ca> = Vec::new();
    for depth in 1..=length {
        let above = line.first().unwrap_or(root);
        let next = Ca::new(&format!("{length}, {depth}"), Some(above), BasicConstraints::Unconstrained, None);
        line.insert(0, next);
    }
    line
}

#[tokio::test]
async fn a_chain_is_short_and_has_no_two_certificates_of_one_subject_or_key() {
    let any = BasicConstraints::Unconstrained;
    let root = Ca::new("root", None, any, None);
    let listener = Listener::start(Some(&root.certificate.pem()));
    let plain = |_: &mut CertificateParams| {};
    // The library would accept six.
    for (length, expected) in [(1, true), (4, true), (5, false), (6, false)] {
        let line = line(&root, length);
        let sent: Vec<&Ca> = line.iter().collect();
        assert_eq!(is_served(&listener, line[0].leaf(plain), &sent).await, expected, "{length}");
    }
    // Valid chains with one more certificate, which belongs to no path or to a second path.
    let below = Ca::new("below", Some(&root), any, None);
    let stray = Ca::new("stray", None, any, None);
    let same_subject = Ca::new("below", None, any, None);
    let same_key = Ca::with_key("other", below.issuer.key());
    let again = Ca::with_key("below", below.issuer.key());
    for (other, expected) in [(&stray, true), (&same_subject, false), (&same_key, false), (&again, false)] {
        for sent in [[&below, other], [other, &below]] {
            assert_eq!(is_served(&listener, below.leaf(plain), &sent).await, expected);
        }
    }
    let leaf = below.leaf_of(stray.issuer.key(), plain);
    assert!(!is_served(&listener, leaf, &[&below, &stray]).await, "the caller's own key");
    // Ten authorities with the name of the trusted one, each a candidate for each place of the path.
    let crowd: Vec<Ca> = (0..10).map(|_| Ca::new("root", None, any, None)).collect();
    let sent: Vec<&Ca> = crowd.iter().collect();
    assert!(!is_served(&listener, crowd[0].leaf(plain), &sent).await);
    assert!(!is_served(&listener, crowd[0].leaf(plain), &sent[..2]).await);
}

#[tokio::test]
async fn issuer_is_identified_by_its_key_and_not_its_name() {
    let any = BasicConstraints::Unconstrained;
    let one = Ca::new("One", None, any, None);
    let other = Ca::new("Other", None, any, None);
    let namesake = Ca::new("One", None, any, None);
    let below = Ca::new("Below", Some(&one), any, None);
    // An intermediate of one authority with the name of another one.
    let imposter = Ca::new("One", Some(&other), any, None);
    let spki = |ca: &Ca| CertificateFacts::read(&ca.der()).unwrap().spki_sha256;
    for (anchors, issuer, others, expected) in [
        (&[&one][..], &one, &[][..], (true, true)),
        (&[&one], &below, &[&below], (true, false)),
        (&[&one, &other], &one, &[], (false, true)),
        (&[&one, &other], &one, &[&one], (false, true)),
        (&[&one, &other], &below, &[&below], (false, false)),
        (&[&one, &other], &imposter, &[&imposter], (false, false)),
        (&[&one, &other], &one, &[&imposter], (false, true)),
        (&[&one, &namesake], &one, &[], (false, false)),
        (&[&one, &namesake], &namesake, &[], (false, false)),
    ] {
        let pem: String = anchors.iter().map(|anchor| anchor.certificate.pem()).collect();
        let listener = Listener::start(Some(&pem));
        let (leaf, _) = issuer.leaf(|_| {});
        let chain: Vec<_> = std::iter::once(leaf).chain(others.iter().map(|ca: &&Ca| ca.der())).collect();
        let peer = listener.secured.tls.peer(&chain).unwrap();
        assert!(listener.secured.tls.trusts(&peer));
        let (is_of_only_authority, has_unique_name) = expected;
        let spki_sha256 = spki(issuer);
        let known = VerifiedIssuer { spki_sha256, is_of_only_authority, has_unique_name };
        assert_eq!(peer.facts().verified_issuer, Some(known));
    }
}

#[tokio::test]
async fn client_certificate_must_allow_client_authentication_and_signatures() {
    let root = Ca::new("root", None, BasicConstraints::Unconstrained, None);
    let listener = Listener::start(Some(&root.certificate.pem()));
    let (signature, encipherment) = (KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment);
    let (client, server) = (ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth);
    let any = ExtendedKeyUsagePurpose::Any;
    let mut refused = 0;
    for (usages, purposes, expected) in [
        (vec![signature], vec![client.clone()], true),
        (vec![signature, encipherment], vec![server.clone(), client.clone()], true),
        (vec![], vec![client.clone()], false),
        (vec![encipherment], vec![client.clone()], false),
        (vec![signature], vec![], false),
        (vec![signature], vec![server], false),
        (vec![signature], vec![any], false),
    ] {
        let shown = format!("{usages:?} {purposes:?}");
        let (leaf, key) = root.leaf(|params| {
            params.key_usages = usages;
            params.extended_key_usages = purposes;
        });
        let served = listener.ask(&Arc::new(listener.client(vec![leaf], key))).await;
        assert_eq!(served.is_some(), expected, "{shown}");
        refused += u64::from(!expected);
        listener.until_counted(HandshakeOutcome::WrongPurpose, refused).await;
    }
}

/// Calls a server with this chain, as a client that trusts the authorities of a file.
async fn ask_server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    anchors_file: PathBuf,
) -> Result<Answer, SendError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(socket).await else { return };
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let _ = stream.shutdown().await;
    });
    let servers = Trust { anchors_file, crl_file: None, refuses_stale_crls: false };
    let tls = ClientTls::load(ClientFiles { servers, identity: None }).unwrap();
    let pool =
        Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls: Some(tls), ..PoolConfig::default() });
    let answered = pool.send(Request::get("/").body(Full::default()).unwrap(), ample()).await;
    server.await.unwrap();
    answered
}

#[tokio::test]
async fn server_chains_have_the_same_length_limit_as_client_chains() {
    let any = BasicConstraints::Unconstrained;
    let root = Ca::new("root", None, any, None);
    let scheme = Scheme::new();
    std::fs::write(scheme.file("servers.pem"), root.certificate.pem()).unwrap();
    let below = Ca::new("below", Some(&root), any, None);
    let same_subject = Ca::new("below", None, any, None);
    let lines = [line(&root, 1), line(&root, 4), line(&root, 5), vec![below, same_subject]];
    for (line, expected) in lines.iter().zip([true, true, false, false]) {
        let (leaf, key) = line[0].leaf(|params| {
            params.subject_alt_names =
                CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().subject_alt_names;
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let chain = std::iter::once(leaf).chain(line.iter().map(Ca::der)).collect();
        let answered = ask_server(chain, key, scheme.file("servers.pem")).await;
        match expected {
            true => assert_eq!(answered.unwrap().status, 200),
            false => {
                let error = answered.unwrap_err();
                assert!(matches!(error, SendError::Connect { .. }), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn weak_signatures_are_refused() {
    for (anchor, certificate, expected) in [
        ("root.pem", "sound.pem", true),
        ("root.pem", "sha1.pem", false),
        ("small.pem", "of-small.pem", false),
    ] {
        let listener = Listener::start(Some(weak(anchor)));
        let leaf = CertificateDer::from_pem_slice(weak(certificate).as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(weak("caller.key").as_bytes()).unwrap();
        assert_eq!(is_served(&listener, (leaf, key), &[]).await, expected, "{certificate}");
    }
}

/// The type of the server's first record, and the description if it is an alert.
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
    // The same hello is answered if version and cipher suite are valid.
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
    listener.until_counted(HandshakeOutcome::Protocol, 5).await;
    assert_eq!(listener.secured.counts.of(HandshakeOutcome::Established), 0);
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
    listener.until_counted(HandshakeOutcome::Revoked, 1).await;
    let (name, kind, _) = listener.ask(&other).await.unwrap();
    assert_eq!((&*name, kind), ("other", HandshakeKind::Full), "the others perform a new handshake");
}
