//! Signing and verification: an example from a standard, every part changed, and keys of every kind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::common::RFC_KEY;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use rcgen::{CertificateParams, KeyUsagePurpose, date_time_ymd};
use tempfile::TempDir;
use upesi_jws::{
    Freshness, KeyRing, PrivateKey, Request, SIGNATURE, SignatureFault, is_signature_object, verify,
};
use upesi_types::Timestamp;

/// An RSA key of 1,024 bits.
const SHORT_KEY: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQChPu9v54yIIaWPqiiLWDttxwMK
Kk6M+NNaKN76IYe3bCYBGhYzrgtfyUp/ho9rloHO28k8hRRJDrW/7GsB86Jd9Uw/
Z0AdrGmFUcGv6rfQlbj038P1eDsqDNn4JedTeskCF56wLqhLISV8FYYK9wyM8hvx
O3jL6u7gopG6syl/8wIDAQAB
-----END PUBLIC KEY-----
";
const PROTECTED: &str = "eyJhbGciOiJSUzI1NiIsIkZTUElPUC1VUkkiOiIvdHJhbnNmZXJzL2IwYTFkNmQyLTdjMWUtNGE1NC04ZDBmLTJmOWY1YmUxYzAwMSIsIkZTUElPUC1IVFRQLU1ldGhvZCI6IlBVVCIsIkZTUElPUC1Tb3VyY2UiOiJncmVlbmJhbmsiLCJGU1BJT1AtRGVzdGluYXRpb24iOiJibHVlYmFuayIsIkRhdGUiOiJUdWUsIDAxIEphbiAyMDMwIDAwOjAwOjAwIEdNVCJ9";
const WORKED: &str = "LZI8EqrlQy1lgSlNPLbPF2Btjk14_jC-tfCtXU5Xd1_7Fdc-2m-GV4Gz1a_Y9lIodhoX_UyNMhx62KUIFwW3ZlstmomGBjuPlEDyiEtFKLTfIro0j4zcb2EEPQEufsiLOW3QUdIML67lCVZVsb856WcE4NjhslvvrgiUUBxrLt4SC_bLy-DzrXXBWAzpxYHF_FLewBocvgvhZJ7rMWcR6M1mjrPr7l8-oO2wOz0Uweo7bN4i_biGCQWXSYE-78GkHNSNk0DGSmKEeBpAMGntw8jRojfvnqCNk-1Lx1W-0eeLWhz7a22hFsE2Oztvx_VEafbLvZWNBCw7Fk8HrJrv7A";
const URI: &str = "/transfers/b0a1d6d2-7c1e-4a54-8d0f-2f9f5be1c001";
const BODY: &str =
    r#"{"transferState":"COMMITTED","fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA"}"#;
const DATE: &str = "Tue, 01 Jan 2030 00:00:00 GMT";

fn at(text: &str) -> Timestamp {
    Timestamp::parse_iso(text).unwrap()
}

/// A message that a test may change in any way.
#[derive(Clone)]
struct Message {
    method: Method,
    uri: String,
    headers: HeaderMap,
    body: String,
}

impl Message {
    fn new() -> Self {
        let mut message = Self {
            method: Method::PUT,
            uri: URI.to_owned(),
            headers: HeaderMap::new(),
            body: BODY.to_owned(),
        };
        message.set("fspiop-source", "greenbank");
        message.set("fspiop-destination", "bluebank");
        message.set("date", DATE);
        message
    }

    fn worked() -> Self {
        let mut message = Self::new();
        message.set_signature(WORKED, PROTECTED);
        message
    }

    fn set(&mut self, name: &str, value: &str) {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers.insert(name, HeaderValue::from_str(value).unwrap());
    }

    fn set_signature(&mut self, signature: &str, protected: &str) {
        let value = format!(r#"{{"signature":"{signature}","protectedHeader":"{protected}"}}"#);
        self.set(SIGNATURE, &value);
    }

    /// Puts another protected header before the example's signature.
    fn protect(&mut self, protected: &str) {
        self.set_signature(WORKED, &URL_SAFE_NO_PAD.encode(protected));
    }

    /// Signs as a DFSP's adapter does, with the headers for method and URI.
    fn sign(&mut self, key: &PrivateKey) {
        let (uri, method) = (self.uri.clone(), self.method.to_string());
        self.set("fspiop-uri", &uri);
        self.set("fspiop-http-method", &method);
        let value = key.sign(&self.headers, self.body.as_bytes()).unwrap();
        self.headers.insert(SIGNATURE, value);
    }

    fn judge(&self, keys: &KeyRing, freshness: Freshness, now: &str) -> Result<(), SignatureFault> {
        self.judge_by(keys, freshness, now, false)
    }

    fn judge_by(
        &self,
        keys: &KeyRing,
        freshness: Freshness,
        now: &str,
        accepts_unprotected_date: bool,
    ) -> Result<(), SignatureFault> {
        let uri: Uri = self.uri.parse().unwrap();
        let request = Request {
            method: &self.method,
            uri: &uri,
            headers: &self.headers,
            body: self.body.as_bytes(),
            base_path: "/switch",
            accepts_unprotected_date,
        };
        verify(request, keys, freshness, at(now))
    }

    fn verify(&self, keys: &KeyRing) -> Result<(), SignatureFault> {
        self.judge(keys, Freshness::Any, "2035-01-01T00:00:00.000Z")
    }
}

/// A directory of public keys.
struct Keys(TempDir);

impl Keys {
    fn with(files: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().unwrap();
        for (name, pem) in files {
            fs::write(directory.path().join(name), pem).unwrap();
        }
        Self(directory)
    }

    fn ring(&self) -> KeyRing {
        KeyRing::load(self.0.path(), true).unwrap()
    }

    fn refused(&self) -> String {
        KeyRing::load_all(self.0.path(), false).unwrap_err().to_string()
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

/// A private key in a file, and the public key in PEM.
fn write_key(directory: &Path, name: &str, private: &[u8], public: &[u8]) -> (PathBuf, String) {
    let path = directory.join(name);
    fs::write(&path, pem("PRIVATE KEY", private)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    (path, pem("PUBLIC KEY", public))
}

fn rsa(directory: &Path, name: &str) -> (PrivateKey, String) {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    let (path, public) = write_key(directory, name, private.as_ref(), public.as_ref());
    (PrivateKey::load(&path).unwrap(), public)
}

fn p256(directory: &Path) -> (PrivateKey, String) {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let private = pair.to_pkcs8v1().unwrap();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    let (path, public) = write_key(directory, "p256.key", private.as_ref(), public.as_ref());
    (PrivateKey::load(&path).unwrap(), public)
}

#[test]
fn signature_of_another_implementation_is_verified() {
    let keys = Keys::with(&[("greenbank.pem", RFC_KEY), ("README.txt", "of the scheme")]).ring();
    assert_eq!(keys.len(), 1);
    assert_eq!(Message::worked().verify(&keys), Ok(()));
    // Participants' names that differ only in case are the same.
    let keys = Keys::with(&[("GreenBank.pem", &RFC_KEY.replace('\n', "\\r\\n"))]).ring();
    assert_eq!(Message::worked().verify(&keys), Ok(()));
}

type Change = fn(&mut Message);

#[test]
fn signature_covers_every_part_of_the_message() {
    let keys = Keys::with(&[("greenbank.pem", RFC_KEY), ("redbank.pem", RFC_KEY)]).ring();
    let differs = |name: &str| SignatureFault::Differs(name.to_owned());
    let cases: [(&str, Change, SignatureFault); 11] = [
        (
            "body",
            |message| message.body = message.body.replace("COMMITTED", "ABORTED"),
            SignatureFault::Wrong,
        ),
        ("blank in the body", |message| message.body.push(' '), SignatureFault::Wrong),
        ("method", |message| message.method = Method::POST, differs("FSPIOP-HTTP-Method")),
        ("query", |message| message.uri.push_str("?a=1"), differs("FSPIOP-URI")),
        ("URI", |message| message.uri = message.uri.replace("c001", "c002"), differs("FSPIOP-URI")),
        ("source", |message| message.set("fspiop-source", "redbank"), differs("fspiop-source")),
        (
            "destination",
            |message| message.set("fspiop-destination", "redbank"),
            differs("fspiop-destination"),
        ),
        ("date", |message| message.set("date", "Tue, 01 Jan 2030 00:00:01 GMT"), differs("date")),
        ("header for the URI", |message| message.set("fspiop-uri", "/transfers/x"), differs("fspiop-uri")),
        (
            "no date",
            |message| {
                message.headers.remove("date");
            },
            differs("date"),
        ),
        (
            "two dates",
            |message| {
                message.headers.append("date", HeaderValue::from_static(DATE));
            },
            differs("date"),
        ),
    ];
    for (what, change, expected) in cases {
        let mut message = Message::worked();
        change(&mut message);
        assert_eq!(message.verify(&keys), Err(expected), "{what}");
    }
    let none = Keys::with(&[("redbank.pem", RFC_KEY)]).ring();
    assert_eq!(Message::worked().verify(&none), Err(SignatureFault::NoKey));
    assert_eq!(Message::new().verify(&keys), Err(SignatureFault::Missing));
}

/// A protected header of the message with another `alg` and other members.
fn protected(alg: &str, more: &str) -> String {
    format!(
        r#"{{"alg":"{alg}","FSPIOP-URI":"{URI}","FSPIOP-HTTP-Method":"PUT","FSPIOP-Source":"greenbank","FSPIOP-Destination":"bluebank"{more}}}"#
    )
}

#[test]
fn algorithm_that_does_not_fit_the_key_is_rejected() {
    let directory = TempDir::new().unwrap();
    let keys = Keys::with(&[("greenbank.pem", &p256(directory.path()).1)]).ring();
    assert_eq!(Message::worked().verify(&keys), Err(SignatureFault::Algorithm), "RS256 by a P-256 key");
    let keys = Keys::with(&[("greenbank.pem", RFC_KEY)]).ring();
    for alg in ["none", "None", "HS256", "HS512", "ES256", "ES384", "PS256", "EdDSA", "rs256", ""] {
        let mut message = Message::new();
        message.protect(&protected(alg, ""));
        assert_eq!(message.verify(&keys), Err(SignatureFault::Algorithm), "{alg}");
    }
    for alg in ["RS384", "RS512"] {
        let mut message = Message::new();
        message.protect(&protected(alg, ""));
        assert_eq!(
            message.verify(&keys),
            Err(SignatureFault::Wrong),
            "{alg} is an algorithm, but not of this signature"
        );
    }
}

#[test]
fn malformed_signature_header_is_rejected() {
    let keys = Keys::with(&[("greenbank.pem", RFC_KEY)]).ring();
    let is_malformed = |message: &Message, what: &str| {
        let judged = message.verify(&keys);
        assert!(matches!(judged, Err(SignatureFault::Malformed(_))), "{what}: {judged:?}");
    };
    for value in [
        "signature",
        "{}",
        "[]",
        r#"{"signature":"a"}"#,
        r#"{"signature":1,"protectedHeader":"a"}"#,
        r#"{"signature":"a","signature":"a","protectedHeader":"a"}"#,
        r#"{"signature":"a","protectedHeader":"a","more":"a"}"#,
    ] {
        let mut message = Message::new();
        message.set(SIGNATURE, value);
        is_malformed(&message, value);
    }
    for (signature, header) in
        [(format!("{WORKED}="), PROTECTED.to_owned()), (WORKED.to_owned(), format!("{PROTECTED}=="))]
    {
        let mut message = Message::new();
        message.set_signature(&signature, &header);
        is_malformed(&message, "padding");
    }
    let dup = r#","fspiop-source":"redbank""#;
    let other = [r#","crit":["b64"]"#, r#","b64":"false""#, r#","jku":"http://x""#, r#","x5c":"a""#];
    let number = r#","n":1"#;
    for more in other.into_iter().chain([dup, number, r#","jwk":"k""#, r#","x5u":"u""#]) {
        let mut message = Message::new();
        message.protect(&protected("RS256", more));
        is_malformed(&message, more);
    }
    for text in ["", "[]", "null", "\"text\"", r#"{"alg":"RS256""#] {
        let mut message = Message::new();
        message.protect(text);
        is_malformed(&message, text);
    }
    let mut message = Message::new();
    message.protect(&protected("RS256", &format!(r#","x":"{}""#, "y".repeat(8_200))));
    is_malformed(&message, "a protected header that is too long");
}

#[test]
fn unsigned_required_header_is_rejected() {
    let keys = Keys::with(&[("greenbank.pem", RFC_KEY)]).ring();
    for (title, part) in [
        ("FSPIOP-URI", format!(r#""FSPIOP-URI":"{URI}","#)),
        ("FSPIOP-HTTP-Method", r#""FSPIOP-HTTP-Method":"PUT","#.to_owned()),
        ("FSPIOP-Source", r#""FSPIOP-Source":"greenbank","#.to_owned()),
        ("FSPIOP-Destination", r#","FSPIOP-Destination":"bluebank""#.to_owned()),
    ] {
        let mut message = Message::new();
        message.protect(&protected("RS256", "").replace(&part, ""));
        assert_eq!(message.verify(&keys), Err(SignatureFault::Unprotected(title)));
    }
}

#[test]
fn own_signatures_are_verified() {
    let directory = TempDir::new().unwrap();
    for (key, public) in [rsa(directory.path(), "rsa.key"), p256(directory.path())] {
        let keys = Keys::with(&[("greenbank.pem", &public)]).ring();
        for body in ["", BODY, &"ab".repeat(5_000), &"é".repeat(383)] {
            let mut message = Message { body: body.to_owned(), ..Message::new() };
            message.sign(&key);
            assert_eq!(message.verify(&keys), Ok(()), "{key:?}");
            message.body.push('x');
            assert_eq!(message.verify(&keys), Err(SignatureFault::Wrong), "{key:?}");
        }
        // Lookups name no receiver.
        let mut message = Message::new();
        message.headers.remove("fspiop-destination");
        message.sign(&key);
        assert_eq!(message.verify(&keys), Ok(()));
        message.set("fspiop-destination", "bluebank");
        assert_eq!(message.verify(&keys), Err(SignatureFault::Unprotected("FSPIOP-Destination")));
    }
    // A proxy removed a base path that the sender had signed.
    let (key, public) = rsa(directory.path(), "proxied.key");
    let keys = Keys::with(&[("greenbank.pem", &public)]).ring();
    for (base, expected) in
        [("/switch", Ok(())), ("/other", Err(SignatureFault::Differs("FSPIOP-URI".to_owned())))]
    {
        let mut message = Message { uri: format!("{base}{URI}"), ..Message::new() };
        message.sign(&key);
        message.uri = URI.to_owned();
        assert_eq!(message.verify(&keys), expected, "{base}");
    }
    let mut message = Message::new();
    message.headers.remove("fspiop-source");
    assert!(rsa(directory.path(), "other.key").0.sign(&message.headers, b"").is_err());
}

#[test]
fn old_and_new_key_are_both_valid_during_a_change() {
    let directory = TempDir::new().unwrap();
    let [old, new, next, other] = ["old", "new", "next", "other"].map(|name| rsa(directory.path(), name));
    let keys = Keys::with(&[("greenbank.pem", &format!("{}{}{}", old.1, new.1, next.1))]).ring();
    for (key, _) in [&old, &new, &next] {
        let mut message = Message::new();
        message.sign(key);
        assert_eq!(message.verify(&keys), Ok(()));
    }
    let mut message = Message::new();
    message.sign(&other.0);
    assert_eq!(message.verify(&keys), Err(SignatureFault::Wrong));
    let four = [&old.1, &new.1, &next.1, &other.1].map(String::as_str).concat();
    let refused = Keys::with(&[("greenbank.pem", &four)]).refused();
    assert!(refused.ends_with("greenbank.pem has 4 keys; a participant has at most 3"), "{refused}");
}

#[test]
fn old_date_is_rejected_if_it_must_be_recent() {
    let directory = TempDir::new().unwrap();
    let (key, public) = rsa(directory.path(), "rsa.key");
    let keys = Keys::with(&[("greenbank.pem", &public)]).ring();
    let mut message = Message::new();
    message.sign(&key);
    for (now, expected) in [
        ("2029-12-31T23:58:59.999Z", Err(SignatureFault::Stale)),
        ("2029-12-31T23:59:00.000Z", Ok(())),
        ("2030-01-01T00:05:00.999Z", Ok(())),
        ("2030-01-01T00:05:01.000Z", Err(SignatureFault::Stale)),
    ] {
        assert_eq!(message.judge(&keys, Freshness::Recent, now), expected, "{now}");
        assert_eq!(message.judge(&keys, Freshness::Any, now), Ok(()), "{now}");
    }
    let mut undated = Message::new();
    undated.headers.remove("date");
    undated.sign(&key);
    let now = "2030-01-01T00:00:00.000Z";
    assert_eq!(undated.judge(&keys, Freshness::Any, now), Ok(()));
    assert_eq!(undated.judge(&keys, Freshness::Recent, now), Err(SignatureFault::Unprotected("Date")));
}

/// A certificate of a key in a file, for signing or only for encryption, valid throughout 2030.
fn certificate(directory: &Path, name: &str, usage: KeyUsagePurpose) -> String {
    let key = rcgen::KeyPair::from_pem(&fs::read_to_string(directory.join(name)).unwrap()).unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.key_usages = vec![usage];
    parameters.not_before = date_time_ymd(2030, 1, 1);
    parameters.not_after = date_time_ymd(2031, 1, 1);
    parameters.self_signed(&key).unwrap().pem()
}

#[test]
fn key_in_a_certificate_is_valid_as_long_as_the_certificate() {
    let directory = TempDir::new().unwrap();
    let (key, _) = rsa(directory.path(), "rsa.key");
    let signing = certificate(directory.path(), "rsa.key", KeyUsagePurpose::DigitalSignature);
    let keys = Keys::with(&[("greenbank.pem", &signing)]).ring();
    let mut message = Message::new();
    message.sign(&key);
    for (now, expected) in [
        ("2029-12-31T23:59:59.000Z", Err(SignatureFault::NotYetValid)),
        ("2030-01-01T00:00:00.000Z", Ok(())),
        ("2031-01-01T00:00:00.000Z", Ok(())),
        ("2031-01-01T00:00:01.000Z", Err(SignatureFault::Expired)),
    ] {
        assert_eq!(message.judge(&keys, Freshness::Any, now), expected, "{now}");
    }
    // With a signature by another key, the message is wrong and not expired.
    let (other, other_public) = rsa(directory.path(), "other.key");
    let mut forged = Message::new();
    forged.sign(&other);
    assert_eq!(forged.judge(&keys, Freshness::Any, "2031-01-02T00:00:00.000Z"), Err(SignatureFault::Wrong));
    // The reason is also found beside a key without an expiry.
    let both = Keys::with(&[("greenbank.pem", &format!("{signing}{other_public}"))]).ring();
    assert_eq!(
        message.judge(&both, Freshness::Any, "2031-01-02T00:00:00.000Z"),
        Err(SignatureFault::Expired)
    );
    assert_eq!(forged.judge(&both, Freshness::Any, "2031-01-02T00:00:00.000Z"), Ok(()));
    assert_eq!((both.last_end("greenbank"), both.last_end("bluebank")), (None, None));
    assert_eq!(keys.last_end("GreenBank"), Some(at("2031-01-01T00:00:01.000Z")));
    let view = keys.views().next().unwrap();
    assert_eq!(view.from, Some(at("2030-01-01T00:00:00.000Z")));
    assert_eq!(view.until, Some(at("2031-01-01T00:00:01.000Z")));
    let other = certificate(directory.path(), "rsa.key", KeyUsagePurpose::KeyEncipherment);
    let refused = Keys::with(&[("greenbank.pem", &other)]).refused();
    assert!(refused.ends_with("has a certificate whose key must not sign (digitalSignature)"), "{refused}");
}

#[test]
fn directory_with_an_unusable_key_is_rejected() {
    let directory = TempDir::new().unwrap();
    let (_, elliptic) = p256(directory.path());
    let private = fs::read_to_string(directory.path().join("p256.key")).unwrap();
    let broken = RFC_KEY.replace("MIIB", "MIIA");
    for (content, expected) in [
        ("", "has no public key in PEM (BEGIN PUBLIC KEY or BEGIN CERTIFICATE)"),
        (elliptic.as_str(), "has a P-256 key, and jws.es256 is off"),
        (private.as_str(), "contains a private key; this directory is for public keys"),
        (broken.as_str(), "has a key that cannot be read"),
        (SHORT_KEY, "has an RSA key of 1024 bits; 2048 to 8192 are needed"),
    ] {
        let refused = Keys::with(&[("greenbank.pem", content)]).refused();
        assert!(refused.ends_with(&format!("/greenbank.pem {expected}")), "{refused}");
    }
    let twice = Keys::with(&[("greenbank.pem", RFC_KEY), ("GREENBANK.pem", RFC_KEY)]).refused();
    assert!(twice.ends_with("which differ in case only"), "{twice}");
    let directory_of_file = TempDir::new().unwrap();
    fs::create_dir(directory_of_file.path().join("greenbank.pem")).unwrap();
    assert!(KeyRing::load_all(directory_of_file.path(), false).is_err(), "a directory is not a file of keys");
    let missing = KeyRing::load(Path::new("/nowhere"), false).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere: "), "{missing}");
}

#[test]
fn readable_private_key_is_rejected_and_never_printed() {
    let directory = TempDir::new().unwrap();
    let (key, _) = rsa(directory.path(), "rsa.key");
    assert_eq!(format!("{key:?}"), "PrivateKey(Rs256)");
    let path = directory.path().join("rsa.key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = PrivateKey::load(&path).unwrap_err().to_string();
    assert!(refused.contains(&format!("run: chmod 600 {}", path.display())), "{refused}");
    fs::write(&path, RFC_KEY).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let refused = PrivateKey::load(&path).unwrap_err().to_string();
    assert!(refused.ends_with("does not have one private key in PEM (BEGIN PRIVATE KEY)"), "{refused}");
}

#[test]
fn unusable_key_file_affects_only_its_participant() {
    let files = [("greenbank.pem", RFC_KEY), ("bluebank.pem", "nonsense"), ("red.pem", SHORT_KEY)];
    let keys = Keys::with(&files);
    let mut ring = keys.ring();
    assert_eq!(Message::worked().verify(&ring), Ok(()));
    assert_eq!(ring.unusable().keys().collect::<Vec<_>>(), ["bluebank", "red"]);
    let mut of_bluebank = Message::new();
    of_bluebank.set("fspiop-source", "BlueBank");
    of_bluebank.protect(&protected("RS256", "").replace("greenbank", "BlueBank"));
    assert_eq!(of_bluebank.verify(&ring), Err(SignatureFault::KeyFile));
    // If a file becomes unusable, only its participant keeps the previous keys.
    for name in ["greenbank.pem", "bluebank.pem"] {
        fs::write(keys.0.path().join(name), "nonsense").unwrap();
    }
    let mut later = keys.ring();
    assert_eq!(later.len(), 0);
    later.keep_unusable(&ring);
    assert_eq!((later.len(), Message::worked().verify(&later)), (1, Ok(())));
    // With two files of one participant, neither is valid.
    fs::write(keys.0.path().join("greenbank.pem"), RFC_KEY).unwrap();
    fs::write(keys.0.path().join("GREENBANK.pem"), RFC_KEY).unwrap();
    ring = keys.ring();
    assert_eq!((ring.len(), ring.unusable().len()), (0, 3));
}

#[test]
fn pkcs1_keys_and_byte_order_marks_are_accepted() {
    let spki =
        STANDARD.decode(RFC_KEY.lines().filter(|line| !line.contains('-')).collect::<String>()).unwrap();
    // The same key without its algorithm, as written by `openssl rsa -RSAPublicKey_out`.
    let pkcs1 = pem("RSA PUBLIC KEY", &spki[24..]);
    let mislabelled = pem("PUBLIC KEY", &spki[24..]);
    for text in [&pkcs1, &mislabelled, &format!("\u{feff}{RFC_KEY}"), &format!("\u{feff}{pkcs1}")] {
        let keys = Keys::with(&[("greenbank.pem", text)]).ring();
        assert_eq!(Message::worked().verify(&keys), Ok(()), "{text}");
        assert_eq!(keys.views().next().unwrap().public_key.as_ref(), spki, "{text}");
    }
    let utf16: Vec<u8> =
        "\u{feff}".encode_utf16().chain(RFC_KEY.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let keys = Keys::with(&[]);
    fs::write(keys.0.path().join("greenbank.pem"), utf16).unwrap();
    assert_eq!(Message::worked().verify(&keys.ring()), Ok(()));
    let refused = Keys::with(&[("greenbank.pem", &pem("RSA PUBLIC KEY", &[0x30, 3, 2, 1, 7]))]).refused();
    assert!(refused.ends_with("has a key that cannot be read"), "{refused}");
}

#[test]
fn uri_may_be_signed_without_percent_encoding() {
    let directory = TempDir::new().unwrap();
    let (key, public) = rsa(directory.path(), "rsa.key");
    let keys = Keys::with(&[("greenbank.pem", &public)]).ring();
    for (signed, sent, is_same) in [
        ("/parties/ALIAS/a b@c", "/parties/ALIAS/a%20b@c", true),
        ("/parties/ALIAS/a b@c", "/parties/ALIAS/a%20b%40c", true),
        ("/parties/ALIAS/100%", "/parties/ALIAS/100%25", true),
        ("/parties/ALIAS/%41", "/parties/ALIAS/%2541", true),
        // A signed encoding is not decoded: it may be literal text.
        ("/parties/ALIAS/a%40b", "/parties/ALIAS/a@b", false),
        ("/%70arties/ALIAS/a", "/parties/ALIAS/a", false),
        ("/parties/ALIAS/a%40b", "/parties/ALIAS/a%40b", true),
        ("/switch/parties/ALIAS/a b", "/parties/ALIAS/a%20b", true),
        ("/x?amount=1 000&currency=KES", "/x?amount=1%20000&currency=KES", true),
        // An encoded delimiter is not a delimiter.
        ("/parties/ALIAS/a/b", "/parties/ALIAS/a%2Fb", false),
        ("/parties/ALIAS/a%2Fb", "/parties/ALIAS/a/b", false),
        ("/parties/ALIAS/a?b", "/parties/ALIAS/a%3Fb", false),
        ("/x?a=1&b=2", "/x?a=1%26b=2", false),
        ("/parties/ALIAS/a b", "/parties/ALIAS/a%20c", false),
        ("/parties/ALIAS/a", "/parties/ALIAS/a/", false),
        ("/parties/ALIAS/a+b", "/parties/ALIAS/a%20b", false),
    ] {
        let mut message = Message { uri: signed.to_owned(), ..Message::new() };
        message.sign(&key);
        message.uri = sent.to_owned();
        let expected = if is_same { Ok(()) } else { Err(SignatureFault::Differs("FSPIOP-URI".to_owned())) };
        assert_eq!(message.verify(&keys), expected, "{signed} as {sent}");
        // The header may have either form.
        message.set("fspiop-uri", if signed.starts_with("/switch") { signed } else { sent });
        assert_eq!(message.verify(&keys), expected, "{signed} as {sent}, also in the header");
    }
}

#[test]
fn unprotected_date_is_accepted_if_configured() {
    let directory = TempDir::new().unwrap();
    let (key, public) = rsa(directory.path(), "rsa.key");
    let keys = Keys::with(&[("greenbank.pem", &public)]).ring();
    let mut message = Message::new();
    message.headers.remove("date");
    message.sign(&key);
    message.set("date", DATE);
    let judge = |message: &Message, now: &str| message.judge_by(&keys, Freshness::Recent, now, true);
    assert_eq!(judge(&message, "2030-01-01T00:05:00.999Z"), Ok(()));
    assert_eq!(judge(&message, "2030-01-01T00:05:01.000Z"), Err(SignatureFault::Stale));
    let refused = message.judge(&keys, Freshness::Recent, "2030-01-01T00:00:00.000Z");
    assert_eq!(refused, Err(SignatureFault::Unprotected("Date")));
    message.headers.append("date", HeaderValue::from_static(DATE));
    assert_eq!(
        judge(&message, "2030-01-01T00:00:00.000Z"),
        Err(SignatureFault::Unprotected("Date")),
        "two dates"
    );
    message.headers.remove("date");
    assert_eq!(
        judge(&message, "2030-01-01T00:00:00.000Z"),
        Err(SignatureFault::Unprotected("Date")),
        "no date"
    );
    // A signed date must equal the date of the message.
    let mut signed = Message::new();
    signed.sign(&key);
    signed.set("date", "Tue, 01 Jan 2030 00:01:00 GMT");
    assert_eq!(judge(&signed, "2030-01-01T00:00:00.000Z"), Err(SignatureFault::Differs("date".to_owned())));
}

#[test]
fn invalid_signature_header_does_not_count_as_signed() {
    for (value, expected) in [
        ("unsigned", false),
        ("", false),
        ("{}", false),
        (r#"{"signature":"a"}"#, false),
        (r#"{"signature":"a","protectedHeader":"b"}"#, true),
    ] {
        assert_eq!(is_signature_object(value.as_bytes()), expected, "{value}");
    }
}
