//! The verifier with keys in files, without a hub.

use std::fs;

use tempfile::TempDir;
use upesi_fspiop::Method as Verb;
use upesi_http::{HeaderMap, HeaderValue, Request as HttpRequest};
use upesi_jws::PrivateKey;
use upesi_ledger::ParticipantId;
use upesi_pki::{Authority, KeyKind, Order, SigningKey, Usage};
use upesi_settings::Sources;

use super::*;

const PATH: &str = "/participants/MSISDN/26097";

struct Standing(Timestamp);

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn participant(number: u32, name: &str) -> Participant {
    Participant::new(ParticipantId::new(number).unwrap(), FspId::parse(name).unwrap(), Timestamp::from_ns(0))
}

const START_S: i64 = 1_893_456_000;
const DAY_S: i64 = 86_400;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_ms(seconds * 1_000)
}

/// The private keys and public files of two DFSPs and of the hub.
struct Files(TempDir);

impl Files {
    /// Greenbank has a certificate of 30 days, bluebank a key without an expiry.
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let own = directory.path().join("own");
        SigningKey::make(&own, "bluebank", KeyKind::Rsa2048).unwrap();
        let files = Self(directory);
        fs::create_dir(files.path("public")).unwrap();
        fs::copy(own.join("bluebank.pem"), files.path("public/bluebank.pem")).unwrap();
        files.certify("greenbank", 30);
        files.publish("greenbank");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A certificate with a new key, valid for this many days.
    fn certify(&self, name: &str, days: u32) {
        let directory = self.path(&format!("authority-of-{name}"));
        let mut authority = Authority::init(&directory, "scheme", START_S, 365, KeyKind::default()).unwrap();
        let order = Order { key: KeyKind::Rsa2048, days, ..Order::new(name, Usage::Client, START_S) };
        let issued = authority.issue(&order).unwrap();
        fs::rename(issued.key_file.unwrap(), self.path(&format!("own/{name}.key"))).unwrap();
        fs::rename(issued.certificate_file, self.path(&format!("own/{name}.pem"))).unwrap();
    }

    fn publish(&self, name: &str) {
        fs::copy(self.path(&format!("own/{name}.pem")), self.path(&format!("public/{name}.pem"))).unwrap();
    }

    /// Signatures with these settings at this time.
    fn load(&self, settings: &[(&str, &str)], now: Timestamp) -> Result<Signatures, HubError> {
        let public = self.path("public").display().to_string();
        let all =
            [("jws.keys_dir", &*public), ("jws.mode", "enforce")].into_iter().chain(settings.iter().copied());
        let flags = all.map(|(key, value)| ("test".to_owned(), key.to_owned(), value.to_owned()));
        let sources = Sources { flags: flags.collect(), ..Sources::default() };
        let settings = upesi_settings::load(&sources).unwrap().settings;
        let participants = SharedParticipants::default();
        let names = ["Hub", "greenbank", "bluebank"];
        let all = names.iter().zip(1..).map(|(name, number)| participant(number, name)).collect();
        participants.set(Arc::new(Participants::new(all, &[])));
        let clock: Arc<dyn Clock> = Arc::new(Standing(now));
        Signatures::load(&settings, &Keys::in_files(), &participants, &clock)
    }

    fn key(&self, name: &str) -> PrivateKey {
        PrivateKey::load(&self.path(&format!("own/{name}.key"))).unwrap()
    }
}

/// The head of a message of a DFSP, at the beginning of the certificates' validity.
fn head(method: Method, source: &str) -> Parts {
    let request = HttpRequest::builder().method(method).uri(PATH).header("fspiop-source", source);
    let date = at(START_S).http_date().to_string();
    request.header("date", date).body(()).unwrap().into_parts().0
}

/// A signed message. The signature does not cover the date unless it is protected.
fn signed(files: &Files, method: Method, source: &str, protects_date: bool) -> Parts {
    let mut parts = head(method, source);
    let mut covered = parts.headers.clone();
    covered.insert("fspiop-uri", HeaderValue::from_static(PATH));
    covered.insert("fspiop-http-method", parts.method.as_str().parse().unwrap());
    if !protects_date {
        covered.remove("date");
    }
    parts.headers.insert(SIGNATURE, files.key(source).sign(&covered, b"").unwrap());
    parts
}

fn judge(signatures: &Signatures, parts: &Parts, is_sender_proven: bool) -> Result<(), String> {
    let operation = upesi_fspiop::Route::resolve(Verb::parse(parts.method.as_str()), PATH).unwrap().operation;
    let authenticator = signatures.authenticator().unwrap();
    authenticator.authenticate(operation, parts, b"", is_sender_proven).map_err(|error| error.description)
}

fn refused(why: &str) -> Result<(), String> {
    Err(format!("Invalid signature - {why}"))
}

fn metrics(signatures: &Signatures) -> String {
    let mut text = String::new();
    signatures.write(&mut text);
    text
}

#[test]
fn certificate_of_a_key_is_reported_if_invalid_and_before_its_expiry() {
    let files = Files::new();
    for (day, expected) in
        [(-1, refused("the certificate of the sender's key is not valid yet")), (1, Ok(()))]
    {
        let signatures = files.load(&[], at(START_S + day * DAY_S)).unwrap();
        // Dates are checked first.
        let mut parts = signed(&files, Method::POST, "greenbank", true);
        parts = redated(&files, parts, START_S + day * DAY_S);
        assert_eq!(judge(&signatures, &parts, false), expected, "day {day}");
    }
    let signatures = files.load(&[], at(START_S + 31 * DAY_S)).unwrap();
    let parts = redated(&files, head(Method::POST, "greenbank"), START_S + 31 * DAY_S);
    assert_eq!(judge(&signatures, &parts, false), refused("the sender's key or its certificate has expired"));
    let text = metrics(&signatures);
    let fault = "upesi_jws_faults_total{fsp=\"greenbank\",reason=\"expired\",mode=\"enforce\"} 1\n";
    assert!(text.contains(fault), "{text}");
    let left = |text: &str| {
        let prefix = "upesi_jws_key_expiry_seconds{fsp=\"greenbank\"} ";
        text.lines().find_map(|line| line.strip_prefix(prefix)?.parse::<i64>().ok())
    };
    assert!(left(&text).is_some_and(|left_s| (-DAY_S..0).contains(&left_s)), "{text}");
    let before = metrics(&files.load(&[], at(START_S + 20 * DAY_S)).unwrap());
    assert!(left(&before).is_some_and(|left_s| (9 * DAY_S..=10 * DAY_S + 1).contains(&left_s)), "{before}");
    assert!(
        !before.contains("upesi_jws_key_expiry_seconds{fsp=\"bluebank\"}"),
        "its key has no end: {before}"
    );
    // Participants whose signatures are not checked need no key.
    let off = metrics(&files.load(&[("dfsp.greenbank.signatures", "off")], at(START_S)).unwrap());
    assert_eq!(left(&off), None, "{off}");
}

/// A message that was signed at another time.
fn redated(files: &Files, mut parts: Parts, seconds: i64) -> Parts {
    parts.headers.insert("date", at(seconds).http_date().to_string().parse().unwrap());
    let mut covered: HeaderMap = parts.headers.clone();
    covered.insert("fspiop-uri", HeaderValue::from_static(PATH));
    covered.insert("fspiop-http-method", parts.method.as_str().parse().unwrap());
    let source = parts.headers["fspiop-source"].to_str().unwrap().to_owned();
    parts.headers.insert(SIGNATURE, files.key(&source).sign(&covered, b"").unwrap());
    parts
}

#[test]
fn certificate_of_the_hub_must_match_its_key_and_its_expiry_is_shown() {
    let files = Files::new();
    let (key, certificate) = (files.path("own/greenbank.key"), files.path("own/greenbank.pem"));
    let (key, certificate) = (key.display().to_string(), certificate.display().to_string());
    let settings = [("jws.signing_key_file", &*key), ("jws.signing_certificate_file", &*certificate)];
    let signatures = files.load(&settings, at(START_S + 20 * DAY_S)).unwrap();
    let text = metrics(&signatures);
    assert!(text.contains("upesi_jws_key_expiry_seconds{fsp=\"Hub\"} 86"), "{text}");
    let keys = serde_json::to_value((signatures.hub_keys())()).unwrap();
    assert!(keys[0]["ends"].as_str().unwrap().starts_with("2030-01-31T"), "{keys}");
    // A certificate of another key, or no certificate, prevents a start. Later it changes nothing.
    fs::copy(files.path("own/bluebank.pem"), files.path("own/greenbank.pem")).unwrap();
    signatures.reload();
    assert!(metrics(&signatures).contains("upesi_jws_reload_failing 1\n"));
    let keys = serde_json::to_value((signatures.hub_keys())()).unwrap();
    assert!(keys[0]["ends"].is_string(), "{keys}");
    let refused = files.load(&settings, at(START_S)).err().unwrap().to_string();
    assert!(refused.ends_with("has no certificate in PEM (BEGIN CERTIFICATE)"), "{refused}");
    files.certify("other", 30);
    fs::copy(files.path("own/other.pem"), files.path("own/greenbank.pem")).unwrap();
    let refused = files.load(&settings, at(START_S)).err().unwrap().to_string();
    assert!(refused.ends_with("is not the certificate of the key of jws.signing_key_file"), "{refused}");
}

#[test]
fn unusable_key_file_affects_only_its_participant() {
    let files = Files::new();
    fs::write(files.path("public/bluebank.pem"), "nonsense").unwrap();
    let signatures = files.load(&[], at(START_S)).unwrap();
    assert_eq!(judge(&signatures, &signed(&files, Method::POST, "greenbank", true), false), Ok(()));
    let of_bluebank = signed(&files, Method::POST, "bluebank", true);
    assert_eq!(judge(&signatures, &of_bluebank, false), refused("the sender's key file cannot be used"));
    let text = metrics(&signatures);
    for line in [
        "upesi_jws_key_file_unusable{fsp=\"bluebank\"} 1\n",
        "upesi_jws_reload_failing 1\n",
        "upesi_jws_faults_total{fsp=\"bluebank\",reason=\"key_file\",mode=\"enforce\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // When the file is usable, its key is used. If it becomes unusable again, the previous key stays.
    for (content, failing) in
        [(fs::read(files.path("own/bluebank.pem")).unwrap(), 0), (b"nonsense".to_vec(), 1)]
    {
        fs::write(files.path("public/bluebank.pem"), content).unwrap();
        signatures.reload();
        assert_eq!(judge(&signatures, &of_bluebank, false), Ok(()));
        let text = metrics(&signatures);
        assert!(text.contains(&format!("upesi_jws_reload_failing {failing}\n")), "{text}");
    }
}

#[test]
fn delete_of_an_authenticated_sender_needs_no_signature() {
    let files = Files::new();
    let missing = || refused("FSPIOP-Signature is missing");
    for (setting, is_proven, expected) in [
        ("proven", true, Ok(())),
        ("proven", false, missing()),
        ("refuse", true, missing()),
        ("refuse", false, missing()),
    ] {
        let signatures = files.load(&[("jws.unsigned_delete", setting)], at(START_S)).unwrap();
        let delete = head(Method::DELETE, "greenbank");
        assert_eq!(judge(&signatures, &delete, is_proven), expected, "{setting} {is_proven}");
        let post = head(Method::POST, "greenbank");
        assert_eq!(judge(&signatures, &post, is_proven), missing(), "{setting} {is_proven}");
    }
    // A signed message is judged by its signature.
    let signatures = files.load(&[], at(START_S)).unwrap();
    let mut wrong = signed(&files, Method::DELETE, "greenbank", true);
    assert_eq!(judge(&signatures, &wrong, true), Ok(()));
    let stolen = signed(&files, Method::DELETE, "bluebank", true).headers[SIGNATURE].clone();
    wrong.headers.insert(SIGNATURE, stolen);
    assert!(judge(&signatures, &wrong, true).is_err());
}

#[test]
fn unprotected_date_is_accepted_if_configured() {
    let files = Files::new();
    for (setting, is_proven, is_accepted) in
        [("proven", true, true), ("proven", false, false), ("accept", false, true), ("refuse", true, false)]
    {
        let signatures = files.load(&[("jws.unprotected_date", setting)], at(START_S)).unwrap();
        let parts = signed(&files, Method::POST, "greenbank", false);
        let expected = if is_accepted { Ok(()) } else { refused("Date is not in the protected header") };
        assert_eq!(judge(&signatures, &parts, is_proven), expected, "{setting} {is_proven}");
        let late = files.load(&[("jws.unprotected_date", setting)], at(START_S + 400)).unwrap();
        let expected = if is_accepted { refused("the date is not recent") } else { expected };
        assert_eq!(judge(&late, &parts, is_proven), expected, "{setting} {is_proven}");
    }
}

#[test]
fn invalid_signature_header_does_not_count_as_signed() {
    let files = Files::new();
    let signatures = files.load(&[], at(START_S)).unwrap();
    for (method, is_proven, expected) in [
        (Method::GET, false, Ok(())),
        (Method::DELETE, true, Ok(())),
        (
            Method::DELETE,
            false,
            refused("FSPIOP-Signature is not an object of signature and protectedHeader"),
        ),
        (Method::POST, true, refused("FSPIOP-Signature is not an object of signature and protectedHeader")),
    ] {
        let mut parts = head(method, "greenbank");
        parts.headers.insert(SIGNATURE, HeaderValue::from_static("unsigned"));
        assert_eq!(judge(&signatures, &parts, is_proven), expected, "{}", parts.method);
    }
}
