//! Certificates that an authority issues, rejects and revokes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;
use upesi_pki::{Authority, KeyKind, Order, PkiError, Usage};
use upesi_tls::{CertificateDer, CertificateFacts};

/// 2026-11-23.
const NOW_S: i64 = 1_795_392_000;
const DAY_S: i64 = 86_400;

fn start() -> (TempDir, Authority) {
    let directory = TempDir::new().unwrap();
    let authority = Authority::init(directory.path(), "Scheme", NOW_S, 3650, KeyKind::P256).unwrap();
    (directory, authority)
}

fn facts(file: &std::path::Path) -> CertificateFacts {
    use rustls::pki_types::pem::PemObject as _;
    CertificateFacts::read(&CertificateDer::from_pem_file(file).unwrap()).unwrap()
}

#[test]
fn certificate_contains_the_ordered_values() {
    let (_directory, mut authority) = start();
    for (name, usage, key) in
        [("hub.example", Usage::Server, KeyKind::P256), ("greenbank", Usage::Client, KeyKind::Rsa2048)]
    {
        let order =
            Order { days: 90, key, ..Order::new(name, usage, NOW_S) }.with_hosts(&["a.example", "10.0.0.1"]);
        let issued = authority.issue(&order).unwrap();
        let found = facts(&issued.certificate_file);
        assert_eq!(found.common_name.as_deref(), Some(name));
        assert_eq!((&*found.issuer, found.dns), ("CN=Scheme", vec!["a.example".to_owned()]));
        assert_eq!(found.not_after_s, NOW_S + 90 * DAY_S);
        assert_eq!(
            (found.serial, found.spki_sha256.to_string()),
            (issued.entry.serial, issued.entry.spki_sha256)
        );
        let mode = fs::metadata(issued.key_file.unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn index_is_durable_and_lists_revocations() {
    let (directory, mut authority) = start();
    for name in ["greenbank", "bluewallet", "redmoney"] {
        authority.issue(&Order::new(name, Usage::Client, NOW_S)).unwrap();
    }
    let revoked = authority.revoke("bluewallet", NOW_S + 5, 30).unwrap();
    assert_eq!((&*revoked.name, revoked.revoked_at_s), ("bluewallet", Some(NOW_S + 5)));
    let mut again = Authority::open(directory.path()).unwrap();
    assert_eq!(again.entries(), authority.entries());
    assert!(
        matches!(again.revoke("bluewallet", NOW_S, 30), Err(PkiError::Unknown(_))),
        "it is revoked already"
    );
    let serial = again.entries()[2].serial.clone();
    again.revoke(&serial, NOW_S + 6, 30).unwrap();
    let in_force: Vec<_> = again.entries().iter().map(|entry| entry.is_in_force(NOW_S)).collect();
    assert_eq!(in_force, [true, false, false]);
    assert!(!again.entries()[0].is_in_force(NOW_S + 366 * DAY_S), "it has expired");
}

#[test]
fn requests_prove_only_their_key() {
    let (directory, mut authority) = start();
    let pair = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["evil.example".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "hub");
    let request = params.serialize_request(&pair).unwrap().pem().unwrap();
    let order = |name: &str, request: &str| Order {
        request: Some(request.to_owned()),
        ..Order::new(name, Usage::Client, NOW_S)
    };
    let issued = authority.issue(&order("greenbank", &request)).unwrap();
    assert_eq!(issued.key_file, None);
    let found = facts(&issued.certificate_file);
    assert_eq!((found.common_name.as_deref(), found.dns.len()), (Some("greenbank"), 0));
    // The same key again, for any name.
    let seen = authority.issue(&order("bluewallet", &request)).unwrap_err().to_string();
    assert!(seen.contains("already has a certificate, for greenbank"), "{seen}");
    // One bit of the signature.
    let mut body: Vec<String> = request.lines().map(str::to_owned).collect();
    let last = body.len() - 2;
    let swapped: String = body[last].chars().map(|c| if c == 'A' { 'B' } else { 'A' }).collect();
    body[last] = swapped;
    for damaged in
        [body.join("\n"), "x".to_owned(), fs::read_to_string(directory.path().join("ca.pem")).unwrap()]
    {
        assert!(
            matches!(authority.issue(&order("redmoney", &damaged)), Err(PkiError::Request(_))),
            "{damaged}"
        );
    }
    assert_eq!(authority.entries().len(), 1);
}

#[test]
fn hosts_must_be_names_addresses_or_valid_wildcards() {
    let (_directory, mut authority) = start();
    for host in [
        "",
        "*",
        "*.",
        "*.example",
        "a.*.example",
        "*a.pay.example",
        "evil,hub",
        "evil hub",
        "evil\nhub",
        "hub.",
        ".hub",
        "a..b",
        "-hub.example",
        "127.1",
        "1.2.3.256",
        "h\u{fc}b.example",
        &format!("{}.example", "a".repeat(64)),
        &["a".repeat(63).as_str(); 4].join("."),
    ] {
        let order = Order::new("hub", Usage::Server, NOW_S).with_hosts(&["hub.example", host]);
        assert!(matches!(authority.issue(&order), Err(PkiError::Host(_))), "{host}");
    }
    assert!(authority.entries().is_empty());
    let sound = ["hub.example", "*.pay.example", "hub", "a_b-1.example", "10.0.0.1", "::1", "2001:db8::1"];
    authority.issue(&Order::new("hub", Usage::Node, NOW_S).with_hosts(&sound)).unwrap();
}

#[test]
fn key_of_the_authority_is_not_certified() {
    let (directory, authority) = start();
    let pair = rcgen::KeyPair::from_pem(&fs::read_to_string(directory.path().join("ca.key")).unwrap());
    let request = rcgen::CertificateParams::default().serialize_request(&pair.unwrap()).unwrap();
    let request = Some(request.pem().unwrap());
    for mut authority in [authority, Authority::open(directory.path()).unwrap()] {
        let order = Order { request: request.clone(), ..Order::new("greenbank", Usage::Client, NOW_S) };
        assert!(matches!(authority.issue(&order), Err(PkiError::OwnKey)));
        assert!(authority.entries().is_empty());
    }
}

#[test]
fn odd_names_and_duplicates_are_rejected() {
    let (directory, mut authority) = start();
    for name in ["", "ca", "crl", "index", ".x", "a/b", "../x", "a b", "é", &"x".repeat(65)] {
        let refused = authority.issue(&Order::new(name, Usage::Client, NOW_S));
        assert!(matches!(refused, Err(PkiError::Name(_))), "{name}");
    }
    authority.issue(&Order::new("greenbank", Usage::Client, NOW_S)).unwrap();
    let again = Order::new("greenbank", Usage::Client, NOW_S);
    assert!(matches!(authority.issue(&again), Err(PkiError::Taken { .. })));
    authority.issue(&Order { replaces: true, ..again }).unwrap();
    let ambiguous = authority.revoke("greenbank", NOW_S, 30).unwrap_err().to_string();
    assert!(ambiguous.contains("2 valid certificates"), "{ambiguous}");
    let second = Authority::init(directory.path(), "Other", NOW_S, 10, KeyKind::P256);
    assert!(matches!(second, Err(PkiError::Exists(_))));
    let nowhere = Authority::open(&directory.path().join("none"));
    assert!(matches!(nowhere, Err(PkiError::None(_))));
}
