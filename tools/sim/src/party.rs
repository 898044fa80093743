//! Parties and their owners.
//!
//! DFSP `i` of a simulator (counted from 0) owns the MSISDNs of 15 digits that start with `26` and `i` in four digits;
//! the other nine digits number its parties. So every simulator, oracle and load script agrees about a thousand million
//! parties per DFSP without a list.

use std::borrow::Cow;
use std::fmt;

use upesi_fspiop::uri::{decode_segment, encode_segment};

/// Maximum number of DFSPs of a simulator.
pub const DFSPS_MAX: usize = 10_000;
pub const PARTIES_PER_DFSP: u64 = 1_000_000_000;

const COUNTRY: &str = "26";
const DFSP_DIGITS: usize = 4;
const PARTY_DIGITS: usize = 9;
const _: () = assert!(DFSPS_MAX <= 10_usize.pow(DFSP_DIGITS as u32));
const _: () = assert!(PARTIES_PER_DFSP == 10_u64.pow(PARTY_DIGITS as u32));

/// A party identifier (FSPIOP API v1.1 §7.3.25 and following). It prints as the path below `/parties/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartyId {
    /// The kind of identifier: `MSISDN`, `ALIAS` and so on.
    pub kind: Cow<'static, str>,
    pub identifier: String,
    /// The sub-identifier, such as a till of a shop.
    pub sub_id: Option<String>,
}

impl PartyId {
    /// A mobile number.
    pub fn msisdn(identifier: impl Into<String>) -> Self {
        Self { kind: Cow::Borrowed("MSISDN"), identifier: identifier.into(), sub_id: None }
    }

    /// The parts joined by slashes, not encoded: the path after [`decoded`].
    pub(crate) fn decoded_path(&self) -> String {
        let (slash, sub_id) = self.sub_id.as_ref().map_or(("", ""), |sub_id| ("/", sub_id.as_str()));
        format!("{}/{}{slash}{sub_id}", self.kind, self.identifier)
    }
}

impl fmt::Display for PartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        encode_segment(&self.kind, &mut path);
        for part in [Some(&self.identifier), self.sub_id.as_ref()].into_iter().flatten() {
            path.push('/');
            encode_segment(part, &mut path);
        }
        f.write_str(&path)
    }
}

/// The identifier of party `number` (taken modulo [`PARTIES_PER_DFSP`]) of DFSP `dfsp`, counted from 0.
pub fn party_of(dfsp: usize, number: u64) -> PartyId {
    let (prefix, number) = (prefix_of(dfsp), number % PARTIES_PER_DFSP);
    PartyId::msisdn(format!("{prefix}{number:0PARTY_DIGITS$}"))
}

/// The prefix of the MSISDNs of DFSP `dfsp`, counted from 0.
pub fn prefix_of(dfsp: usize) -> String {
    let dfsp = dfsp % DFSPS_MAX;
    format!("{COUNTRY}{dfsp:0DFSP_DIGITS$}")
}

/// The DFSP that owns an identifier, and the number of its party; the reverse of [`party_of`]. A leading `+` is
/// tolerated.
pub fn owner_of(kind: &str, identifier: &str) -> Option<(usize, u64)> {
    let digits = identifier.strip_prefix('+').unwrap_or(identifier).strip_prefix(COUNTRY)?;
    let right_form = kind == "MSISDN"
        && digits.len() == DFSP_DIGITS + PARTY_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !right_form {
        return None;
    }
    let (dfsp, number) = digits.split_at(DFSP_DIGITS);
    Some((dfsp.parse().ok()?, number.parse().ok()?))
}

/// A path with its percent-encoded bytes decoded, or unchanged if they are not a text.
pub(crate) fn decoded(path: &str) -> Cow<'_, str> {
    decode_segment(path).unwrap_or(Cow::Borrowed(path))
}

/// A text as a JSON value.
pub(crate) fn quoted(text: &str) -> String {
    // Cannot fail: the value is a text.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn party_has_exactly_one_owner() {
        for (dfsp, number) in [(0, 0), (7, 1), (9_999, 999_999_999), (12, 26_097)] {
            let party = party_of(dfsp, number);
            assert_eq!((party.kind.as_ref(), party.identifier.len()), ("MSISDN", 15));
            assert_eq!(owner_of("MSISDN", &party.identifier), Some((dfsp, number)));
            assert_eq!(owner_of("MSISDN", &format!("+{}", party.identifier)), Some((dfsp, number)));
            assert_eq!(owner_of("ALIAS", &party.identifier), None);
        }
        assert_eq!(party_of(3, 5).identifier, "260003000000005");
        for identifier in
            ["", "26097", "2600030000000055", "270003000000005", "26000300000000x", "26+003000000005"]
        {
            assert_eq!(owner_of("MSISDN", identifier), None, "{identifier}");
        }
    }

    #[test]
    fn identifier_is_printed_as_a_path_and_read_back() {
        for (kind, identifier, sub_id, path) in [
            ("MSISDN", "26097", None, "MSISDN/26097"),
            ("EMAIL", "a+b@c.de", Some("shop 7"), "EMAIL/a+b@c.de/shop%207"),
            ("ALIAS", "50%/é", None, "ALIAS/50%25%2F%C3%A9"),
        ] {
            let party = PartyId {
                kind: kind.into(),
                identifier: identifier.to_owned(),
                sub_id: sub_id.map(str::to_owned),
            };
            assert_eq!(party.to_string(), path);
            let parts: Vec<_> = path.split('/').map(decoded).collect();
            let expected: Vec<_> = [Some(kind), Some(identifier), sub_id].into_iter().flatten().collect();
            assert_eq!(parts, expected);
        }
        for path in ["%", "%4", "%zz", "%+4", "a%ff", "%é"] {
            assert_eq!(decoded(path), path);
        }
    }
}
