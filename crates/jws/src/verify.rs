//! Whether a request is what its sender signed.

use http::{HeaderMap, Method, Uri};
use upesi_types::Timestamp;

use crate::SIGNATURE;
use crate::envelope::{self, Envelope, Protected, decode};
use crate::public_key::Algorithm;
use crate::ring::KeyRing;

/// How long before the present a date may be that has to be fresh.
const AGE_MAX_S: i64 = 300;
/// How long after it: clocks differ.
const AHEAD_MAX_S: i64 = 60;

/// A request as it came.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its target, as the request line has it.
    pub uri: &'a Uri,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// The exact bytes of its body.
    pub body: &'a [u8],
    /// A path before the target that a proxy took off, such as `/switch`: a signed URI may have it. Empty for none.
    pub base_path: &'a str,
}

/// What a repetition of a request would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing: its id is known by then.
    Any,
    /// The same again, so that a recorded request must not count for ever: its date is signed, and recent.
    Recent,
}

/// Why a request is not its sender's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It carries no signature.
    #[error("FSPIOP-Signature is missing")]
    Missing,
    /// The header is not what it should be.
    #[error("{0}")]
    Malformed(String),
    /// An algorithm that is not taken, or not with the sender's key.
    #[error("the algorithm of the signature is not one of the sender's key")]
    Algorithm,
    /// The hub has no key of the sender.
    #[error("no key of the sender is known")]
    NoKey,
    /// The protected header and the message differ.
    #[error("{0} of the protected header is not that of the message")]
    Differs(String),
    /// The protected header lacks what has to be signed.
    #[error("{0} is not in the protected header")]
    Unprotected(&'static str),
    /// The date that has to be recent is not.
    #[error("the date is not recent")]
    Stale,
    /// The signature is another's, or of another message.
    #[error("the signature does not match")]
    Wrong,
}

impl Fault {
    /// All labels.
    pub const LABELS: [&'static str; 8] =
        ["missing", "malformed", "algorithm", "no_key", "differs", "unprotected", "stale", "wrong"];

    /// As a label of a metric.
    pub const fn label(&self) -> &'static str {
        Self::LABELS[match self {
            Self::Missing => 0,
            Self::Malformed(_) => 1,
            Self::Algorithm => 2,
            Self::NoKey => 3,
            Self::Differs(_) => 4,
            Self::Unprotected(_) => 5,
            Self::Stale => 6,
            Self::Wrong => 7,
        }]
    }
}

/// Judges a request at a time.
///
/// The signature is over the bytes as they came. Its protected header names the URI of the request line, the method and
/// the sender; the receiver if the message has one; and whatever other header it names has the value that it has in the
/// message.
///
/// # Errors
/// Why it is not what its sender signed.
pub fn verify(
    request: Request<'_>,
    keys: &KeyRing,
    freshness: Freshness,
    now: Timestamp,
) -> Result<(), Fault> {
    let value = request.headers.get(SIGNATURE).ok_or(Fault::Missing)?;
    let malformed = |problem: &str| Fault::Malformed(problem.to_owned());
    let envelope = Envelope::read(value.as_bytes())
        .ok_or_else(|| malformed("FSPIOP-Signature is not an object of signature and protectedHeader"))?;
    let signature = decode(&envelope.signature).ok_or_else(|| malformed("the signature is not base64url"))?;
    let protected = decode(&envelope.protected_header);
    let protected = protected.ok_or_else(|| malformed("the protected header is not base64url"))?;
    let protected = Protected::read(&protected).map_err(Fault::Malformed)?;
    compare(request, &protected)?;
    check_freshness(&protected, freshness, now)?;
    let algorithm = protected.get("alg").and_then(Algorithm::parse).ok_or(Fault::Algorithm)?;
    let source = protected.get("fspiop-source").unwrap_or_default();
    let keys = keys.of(source).ok_or(Fault::NoKey)?;
    let mut fitting = keys.iter().filter_map(|key| key.fitting(algorithm, now)).peekable();
    if fitting.peek().is_none() {
        return Err(Fault::Algorithm);
    }
    let digest = envelope::digest(&envelope.protected_header, algorithm, request.body);
    if fitting.any(|key| key.verifies(algorithm, &digest, &signature)) { Ok(()) } else { Err(Fault::Wrong) }
}

/// Whether the protected header is that of this message.
fn compare(request: Request<'_>, protected: &Protected) -> Result<(), Fault> {
    let target = request.uri.path_and_query().map_or("", |target| target.as_str());
    let of_line = [
        ("FSPIOP-URI", "fspiop-uri", target),
        ("FSPIOP-HTTP-Method", "fspiop-http-method", request.method.as_str()),
    ];
    for (title, name, actual) in of_line {
        let signed = protected.get(name).ok_or(Fault::Unprotected(title))?;
        let is_with_base = || {
            name == "fspiop-uri" && signed.strip_prefix(request.base_path).is_some_and(|rest| rest == actual)
        };
        if signed != actual && !is_with_base() {
            return Err(Fault::Differs(title.to_owned()));
        }
    }
    if protected.get("fspiop-source").is_none() {
        return Err(Fault::Unprotected("FSPIOP-Source"));
    }
    if request.headers.contains_key("fspiop-destination") && protected.get("fspiop-destination").is_none() {
        return Err(Fault::Unprotected("FSPIOP-Destination"));
    }
    for (name, signed) in protected.headers() {
        let is_of_line = of_line.iter().any(|(_, of_line, _)| *of_line == name);
        let mut values = request.headers.get_all(name).iter();
        let is_same = match (values.next(), values.next()) {
            (Some(value), None) => value.as_bytes() == signed.as_bytes(),
            // The request line says it; the header need not.
            (None, None) => is_of_line,
            _ => false,
        };
        if !is_same {
            return Err(Fault::Differs(name.to_owned()));
        }
    }
    Ok(())
}

fn check_freshness(protected: &Protected, freshness: Freshness, now: Timestamp) -> Result<(), Fault> {
    if freshness == Freshness::Any {
        return Ok(());
    }
    let date = protected.get("date").ok_or(Fault::Unprotected("Date"))?;
    let date = Timestamp::parse_http_date(date).ok_or(Fault::Stale)?;
    let age_s = (now.as_ms() - date.as_ms()).div_euclid(1_000);
    if (-AHEAD_MAX_S..=AGE_MAX_S).contains(&age_s) { Ok(()) } else { Err(Fault::Stale) }
}
