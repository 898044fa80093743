//! Verifies the signature of a request.

use http::{HeaderMap, Method, Uri};
use upesi_types::Timestamp;

use crate::SIGNATURE;
use crate::algorithm::Algorithm;
use crate::envelope::{self, Envelope, decode};
use crate::protected::ProtectedHeader;
use crate::ring::{KeyRing, Validity};

/// Maximum age in seconds of a date that must be recent.
const AGE_MAX_S: i64 = 300;
/// Such a date may be this many seconds in the future, because clocks differ.
const AHEAD_MAX_S: i64 = 60;

/// A request as received.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a Method,
    /// Its target in the request line.
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    /// The exact bytes of its body.
    pub body: &'a [u8],
    /// A prefix of the path that a proxy removed, such as `/switch`: a signed URI may contain it. Empty if there is
    /// none.
    pub base_path: &'a str,
    /// Whether a date that must be recent may be unsigned.
    pub accepts_unprotected_date: bool,
}

/// Effect of a repetition of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// None, because its id is then known.
    Any,
    /// The same effect again. So a recorded request must not stay valid: its date must be signed, and recent.
    Recent,
}

/// Reason why a request is not as its sender signed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// The request has no signature.
    #[error("FSPIOP-Signature is missing")]
    Missing,
    /// The header is malformed.
    #[error("{0}")]
    Malformed(String),
    /// The algorithm is not accepted, or not for the sender's key.
    #[error("the algorithm of the signature does not fit the sender's key")]
    Algorithm,
    /// The hub has no key of the sender.
    #[error("no key of the sender is known")]
    NoKey,
    /// The sender's file of keys cannot be used, and no other key of it is known.
    #[error("the sender's key file cannot be used")]
    KeyFile,
    /// The key of the signature, or its certificate, has expired.
    #[error("the sender's key or its certificate has expired")]
    Expired,
    /// The key of the signature is not valid yet: its certificate's validity begins later.
    #[error("the certificate of the sender's key is not valid yet")]
    NotYetValid,
    /// The protected header and the message differ.
    #[error("{0} of the protected header differs from the message")]
    Differs(String),
    /// The protected header lacks data that must be signed.
    #[error("{0} is not in the protected header")]
    Unprotected(&'static str),
    /// The date is not recent, but must be.
    #[error("the date is not recent")]
    Stale,
    /// The signature is by another key, or of another message.
    #[error("the signature does not match")]
    Wrong,
}

impl SignatureFault {
    pub const LABELS: [&'static str; 11] = [
        "missing",
        "malformed",
        "algorithm",
        "no_key",
        "differs",
        "unprotected",
        "stale",
        "wrong",
        "key_file",
        "expired",
        "not_yet_valid",
    ];

    /// The fault as a label of a metric.
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
            Self::KeyFile => 8,
            Self::Expired => 9,
            Self::NotYetValid => 10,
        }]
    }
}

/// Whether a value of `FSPIOP-Signature` is a signature object. A message with any other text counts as unsigned.
pub fn is_signature_object(value: &[u8]) -> bool {
    Envelope::read(value).is_some()
}

/// Verifies a request at a time.
///
/// The signature is over the bytes as received. Its protected header names the URI of the request line, the method and
/// the sender, and the receiver if the message has one. Every other header that it names must have its value in the
/// message.
///
/// # Errors
/// The reason why the request is not as its sender signed it.
pub fn verify(
    request: Request<'_>,
    keys: &KeyRing,
    freshness: Freshness,
    now: Timestamp,
) -> Result<(), SignatureFault> {
    let value = request.headers.get(SIGNATURE).ok_or(SignatureFault::Missing)?;
    let malformed = |problem: &str| SignatureFault::Malformed(problem.to_owned());
    let envelope = Envelope::read(value.as_bytes())
        .ok_or_else(|| malformed("FSPIOP-Signature is not an object of signature and protectedHeader"))?;
    let signature = decode(&envelope.signature).ok_or_else(|| malformed("the signature is not base64url"))?;
    let protected = decode(&envelope.protected_header);
    let protected = protected.ok_or_else(|| malformed("the protected header is not base64url"))?;
    let protected = ProtectedHeader::read(&protected).map_err(SignatureFault::Malformed)?;
    compare(request, &protected)?;
    check_freshness(request, &protected, freshness, now)?;
    let algorithm = protected.get("alg").and_then(Algorithm::parse).ok_or(SignatureFault::Algorithm)?;
    let source = protected.get("fspiop-source").unwrap_or_default();
    let Some(held) = keys.of(source) else {
        let has_file = keys.unusable().contains_key(&source.to_ascii_lowercase());
        return Err(if has_file { SignatureFault::KeyFile } else { SignatureFault::NoKey });
    };
    let fitting: Vec<_> = held.iter().filter_map(|key| key.fitting(algorithm, now)).collect();
    if fitting.is_empty() {
        return Err(SignatureFault::Algorithm);
    }
    let digest = envelope::digest(&envelope.protected_header, algorithm, request.body);
    let of = |wanted| {
        let mut keys = fitting.iter().filter(|(validity, _)| *validity == wanted);
        keys.any(|(_, key)| key.verifies(algorithm, &digest, &signature))
    };
    if of(Validity::Valid) {
        Ok(())
    } else if of(Validity::Over) {
        Err(SignatureFault::Expired)
    } else if of(Validity::Early) {
        Err(SignatureFault::NotYetValid)
    } else {
        Err(SignatureFault::Wrong)
    }
}

/// Checks that the protected header matches this message.
fn compare(request: Request<'_>, protected: &ProtectedHeader) -> Result<(), SignatureFault> {
    let target = request.uri.path_and_query().map_or("", |target| target.as_str());
    let of_line = [
        ("FSPIOP-URI", "fspiop-uri", target),
        ("FSPIOP-HTTP-Method", "fspiop-http-method", request.method.as_str()),
    ];
    for (title, name, actual) in of_line {
        let signed = protected.get(name).ok_or(SignatureFault::Unprotected(title))?;
        let is_same = match name {
            "fspiop-uri" => {
                let rest = signed.strip_prefix(request.base_path);
                is_same_uri(signed, actual) || rest.is_some_and(|rest| is_same_uri(rest, actual))
            }
            _ => signed == actual,
        };
        if !is_same {
            return Err(SignatureFault::Differs(title.to_owned()));
        }
    }
    if protected.get("fspiop-source").is_none() {
        return Err(SignatureFault::Unprotected("FSPIOP-Source"));
    }
    if request.headers.contains_key("fspiop-destination") && protected.get("fspiop-destination").is_none() {
        return Err(SignatureFault::Unprotected("FSPIOP-Destination"));
    }
    for (name, signed) in protected.headers() {
        let is_of_line = of_line.iter().any(|(_, of_line, _)| *of_line == name);
        let mut values = request.headers.get_all(name).iter();
        let is_same = match (values.next(), values.next()) {
            (Some(value), None) if name == "fspiop-uri" => {
                value.as_bytes() == signed.as_bytes()
                    || value.to_str().is_ok_and(|value| is_same_uri(signed, value))
            }
            (Some(value), None) => value.as_bytes() == signed.as_bytes(),
            // The request line contains it; the header is optional.
            (None, None) => is_of_line,
            _ => false,
        };
        if !is_same {
            return Err(SignatureFault::Differs(name.to_owned()));
        }
    }
    Ok(())
}

/// Whether a URI is the signed one, with or without percent-encoding: Mojaloop's library signs a URI before it is
/// encoded. The comparison is part by part, so that an encoded delimiter does not separate parts.
fn is_same_uri(signed: &str, actual: &str) -> bool {
    const DELIMITERS: [char; 4] = ['/', '?', '&', '='];
    let is_same = |(signed, actual): (&str, &str)| signed == actual || decoded(actual) == signed.as_bytes();
    let delimiters = |uri: &str| uri.matches(DELIMITERS).collect::<String>();
    signed == actual
        || (delimiters(signed) == delimiters(actual)
            && signed.split(DELIMITERS).zip(actual.split(DELIMITERS)).all(is_same))
}

/// The decoded bytes of a part of a URI. A percent sign without two hexadecimal digits remains unchanged.
fn decoded(part: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let [first, behind @ ..] = rest {
        let encoded = match behind {
            [high, low, ..] if *first == b'%' => {
                let digits = [*high, *low].map(|digit| char::from(digit).to_digit(16));
                digits[0].zip(digits[1]).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        bytes.push(encoded.unwrap_or(*first));
        rest = if encoded.is_some() { &behind[2..] } else { behind };
    }
    bytes
}

fn check_freshness(
    request: Request<'_>,
    protected: &ProtectedHeader,
    freshness: Freshness,
    now: Timestamp,
) -> Result<(), SignatureFault> {
    if freshness == Freshness::Any {
        return Ok(());
    }
    let unsigned = || {
        let mut dates = request.headers.get_all("date").iter();
        let date = dates.next().filter(|_| request.accepts_unprotected_date && dates.next().is_none());
        date.and_then(|date| date.to_str().ok())
    };
    let date = protected.get("date").or_else(unsigned).ok_or(SignatureFault::Unprotected("Date"))?;
    let date = Timestamp::parse_http_date(date).ok_or(SignatureFault::Stale)?;
    let age_s = (now.as_ms() - date.as_ms()).div_euclid(1_000);
    if (-AHEAD_MAX_S..=AGE_MAX_S).contains(&age_s) { Ok(()) } else { Err(SignatureFault::Stale) }
}
