//! Keys as participants submit them, and their precedence relative to keys in files.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::common::RFC_KEY;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyUsagePurpose, date_time_ymd};
use tempfile::TempDir;
use upesi_jws::{KeyRing, RecordedKey, Records, SubmittedKey};
use upesi_types::Timestamp;

/// The keys of RFC 7515, appendices A.2 and A.3.
const RSA: &str = r#"{"kty":"RSA","kid":"a","alg":"RS256","use":"sig","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#;
const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}

fn read(text: &str) -> SubmittedKey {
    SubmittedKey::read(text, true).unwrap_or_else(|problem| panic!("{text} {problem}"))
}

#[test]
fn same_key_in_every_encoding_is_equal() {
    let key = read(RSA);
    assert_eq!(key, read(RFC_KEY));
    assert_eq!(key, read(&RFC_KEY.replace('\n', "\\r\\n")));
    assert_eq!(pem("PUBLIC KEY", &key.public_key).lines().count(), 3);
    // `openssl pkey -pubin -outform DER | sha256sum`
    assert_eq!(key.sha256, upesi_types::hex(&sha256(&key.public_key)));
    assert_eq!(
        STANDARD.encode(&key.public_key),
        RFC_KEY.lines().filter(|line| !line.contains('-')).collect::<String>()
    );
    let elliptic = read(P256);
    assert_eq!(elliptic, read(&pem("PUBLIC KEY", &elliptic.public_key)));
    assert_eq!((elliptic.public_key.len(), elliptic.valid_s), (91, None));
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().try_into().unwrap()
}

#[test]
fn certificate_limits_its_keys_validity_and_must_allow_signing() {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    let key = rcgen::KeyPair::from_pem(&pem("PRIVATE KEY", private.as_ref())).unwrap();
    let certificate = |usage| {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.key_usages = vec![usage];
        parameters.not_before = date_time_ymd(2030, 1, 1);
        parameters.not_after = date_time_ymd(2031, 1, 1);
        parameters.self_signed(&key).unwrap().pem()
    };
    let signing = read(&certificate(KeyUsagePurpose::DigitalSignature));
    assert_eq!(signing.valid_s, Some((1_893_456_000, 1_924_992_000)));
    assert_eq!(&*signing.public_key, public.as_ref());
    let refused = SubmittedKey::read(&certificate(KeyUsagePurpose::KeyEncipherment), true);
    assert_eq!(refused.unwrap_err(), "has a certificate whose key must not sign (digitalSignature)");
}

#[test]
fn unsuitable_keys_are_rejected() {
    let private = "is a private key, which must stay with its owner: create a new one";
    let one = "must be one key: PEM (BEGIN PUBLIC KEY or BEGIN CERTIFICATE) or a JSON Web Key";
    let with = |member: &str| RSA.replace("\"kid\"", &format!("{member},\"kid\""));
    let short = r#"{"kty":"RSA","e":"AQAB","n":"oT7vb-eMiCGlj6ooi1g7bccDCipOjPjTWije-iGHt2wmARoWM64LX8lKf4aPa5aBztvJPIUUSQ61v-xrAfOiXfVMP2dAHaxphVHBr-q30JW49N_D9Xg7KgzZ-CXnU3rJAheesC6oSyElfBWGCvcMjPIb8Tt4y-ru4KKRurMpf_M"}"#;
    for (text, expected) in [
        ("", one.to_owned()),
        ("ofgWCuLjybRlzo0tZWJj", one.to_owned()),
        (&format!("{RFC_KEY}{RFC_KEY}"), one.to_owned()),
        (&pem("PRIVATE KEY", b"x"), private.to_owned()),
        (&pem("EC PRIVATE KEY", b"x"), private.to_owned()),
        (&format!("{RFC_KEY}{}", pem("RSA PRIVATE KEY", b"x")), private.to_owned()),
        (&with("\"d\":\"AQAB\""), private.to_owned()),
        (r#"{"kty":"oct","k":"AQAB"}"#, private.to_owned()),
        ("{}", "is not a JSON Web Key".to_owned()),
        (&format!("{RSA}x"), "is not a JSON Web Key".to_owned()),
        (&RSA.replace("\"sig\"", "\"enc\""), "is a JSON Web Key whose use is not sig".to_owned()),
        (&RSA.replace("\"n\"", "\"m\""), "is a JSON Web Key without a valid \"n\"".to_owned()),
        (&RSA.replace("XpoQ", "XpoQ="), "is a JSON Web Key without a valid \"n\"".to_owned()),
        (&RSA.replace("\"RSA\"", "\"OKP\""), "has a key that is neither RSA nor P-256".to_owned()),
        (&P256.replace("P-256", "P-384"), "has a key that is neither RSA nor P-256".to_owned()),
        (
            &P256.replace("f83OJ", "AA"),
            "is a JSON Web Key whose \"x\" and \"y\" do not have 32 bytes".to_owned(),
        ),
        (&P256.replace("f83OJ", "g83OJ"), "has a key that the library rejects".to_owned()),
        (short, "has an RSA key of 1024 bits; 2048 to 8192 are needed".to_owned()),
        (&RSA.replace("AQAB", "AQ"), "has a key that the library rejects".to_owned()),
        (&"x".repeat(16 * 1024 + 1), "is longer than 16384 bytes".to_owned()),
    ] {
        assert_eq!(SubmittedKey::read(text, true).err(), Some(expected), "{text:.80}");
    }
    assert_eq!(SubmittedKey::read(P256, false).unwrap_err(), "is a P-256 key, and jws.es256 is off");
}

/// The owners of accepted keys, with the digests.
fn counted(ring: &KeyRing) -> Vec<(String, [u8; 32])> {
    let mut all: Vec<_> = ring.views().map(|view| (view.participant, view.sha256)).collect();
    all.sort();
    all
}

#[test]
fn registered_keys_take_precedence_over_files() {
    let directory = TempDir::new().unwrap();
    for name in ["greenbank", "bluewallet"] {
        fs::write(directory.path().join(format!("{name}.pem")), RFC_KEY).unwrap();
    }
    let files = KeyRing::load(directory.path(), false).unwrap();
    let (rsa, elliptic) = (read(RSA), read(P256));
    let (of_rsa, of_p256) = (sha256(&rsa.public_key), sha256(&elliptic.public_key));
    let [green, blue] = ["greenbank", "bluewallet"].map(|name| (name.to_owned(), of_rsa));
    let join = |records: &Records<'_>| files.with(records, &KeyRing::empty(false));
    assert_eq!(counted(&join(&Records::default()).0), [blue.clone(), green.clone()]);
    let recorded = |participant, key: &'static str| {
        let bytes: &[u8] = Box::leak(read(key).public_key);
        RecordedKey { participant, public_key: bytes, sha256: sha256(bytes), from: None, until: None }
    };
    // A participant's key is not accepted for others.
    let kept = Records { keys: vec![recorded("GreenBank", RSA)], ..Records::default() };
    let (ring, unusable) = join(&kept);
    assert_eq!((counted(&ring), unusable), (vec![green], vec![]));
    // A key that the settings do not allow is reported and not accepted, and so is a malformed key.
    let broken =
        RecordedKey { participant: "redmoney", public_key: b"x", sha256: [1; 32], from: None, until: None };
    let kept = Records { keys: vec![recorded("redmoney", P256), broken], ..Records::default() };
    let (ring, unusable) = join(&kept);
    assert_eq!((ring.len(), unusable), (2, vec![upesi_types::hex(&of_p256), upesi_types::hex(&[1; 32])]));
    // A revoked key is accepted nowhere.
    let revoked = Records { revoked: HashSet::from([of_rsa]), ..Records::default() };
    assert!(join(&revoked).0.is_empty());
    // Keys in a file are not accepted after their end. Here the end is only stored, because verification has the time.
    let files_until = HashMap::from([("greenbank".to_owned(), Timestamp::EPOCH)]);
    assert_eq!(join(&Records { files_until, ..Records::default() }).0.len(), 2);
}
