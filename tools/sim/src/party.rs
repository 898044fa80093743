//! Parties and their owners.
//!
//! DFSP `i` of a simulator (counted from 0) owns the MSISDNs of 15 digits that start with `26` and `i` in four digits;
//! the other nine digits number its parties. So every simulator, oracle and load script agrees about a thousand million
//! parties per DFSP without a list.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use upesi_fspiop::uri::{decode_segment, encode_segment};
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Currency, ErrorCode, FspId};

use crate::dfsp::count;
use crate::message::Family;
use crate::reply::{Reply, Saying};
use crate::simulator::{DFSPS_MAX, Shared};

pub const PARTIES_PER_DFSP: u64 = 1_000_000_000;

const COUNTRY: &str = "26";
const DFSP_DIGITS: usize = 4;
const PARTY_DIGITS: usize = 9;
const _: () = assert!(DFSPS_MAX <= 10_usize.pow(DFSP_DIGITS as u32));
const _: () = assert!(PARTIES_PER_DFSP == 10_u64.pow(PARTY_DIGITS as u32));

const FIRST_NAMES: [&str; 8] = ["Amina", "Baraka", "Chausiku", "Daudi", "Esi", "Farida", "Gakuru", "Halima"];
const LAST_NAMES: [&str; 7] = ["Achieng", "Banda", "Chirwa", "Dlamini", "Eze", "Juma", "Otieno"];

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

/// First and last name of a party.
pub(crate) const fn name_of(number: u64) -> (&'static str, &'static str) {
    let (first, last) = (number % FIRST_NAMES.len() as u64, number % LAST_NAMES.len() as u64);
    (FIRST_NAMES[first as usize], LAST_NAMES[last as usize])
}

/// A path with its percent-encoded bytes decoded, or unchanged if they are not a text.
pub(crate) fn decoded(path: &str) -> Cow<'_, str> {
    decode_segment(path).unwrap_or(Cow::Borrowed(path))
}

/// Maximum number of currencies in a party object (FSPIOP API v1.1 §7.4.11).
const CURRENCIES_MAX: usize = 16;

/// Accepts a `GET /parties` and starts to answer it. `path` is type, identifier and sub-identifier as received. With
/// `owns_it`, the owner of the party is not checked.
pub(crate) fn take(
    shared: &Arc<Shared>,
    payee: u32,
    headers: &HeaderMap,
    path: &str,
    owns_it: bool,
) -> StatusCode {
    let dfsp = shared.dfsp(payee);
    count(&dfsp.counters.lookups_received);
    let mut parts = path.splitn(3, '/').map(decoded);
    let (kind, identifier) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let sub_id = parts.next();
    let owner = owner_of(&kind, &identifier);
    let reply = Reply::new(shared, payee, Family::Parties, headers, format!("parties/{path}"));
    let owns_it = owns_it || owner.is_some_and(|(dfsp, _)| dfsp == payee as usize);
    let saying = if owns_it || dfsp.has_party(&decoded(path)) {
        let number = owner.map_or(0, |(_, number)| number);
        let body = party_body(&dfsp.name, &kind, &identifier, sub_id.as_deref(), number, &shared.currencies);
        Saying::Answer(body)
    } else {
        count(&dfsp.counters.parties_unknown);
        Saying::Error(ErrorCode::PARTY_NOT_FOUND)
    };
    reply.start_unnumbered(saying)
}

/// A JSON list of currencies, cut to the maximum of a party object.
pub(crate) fn currency_list(currencies: &[Currency]) -> String {
    let quoted: Vec<_> = currencies.iter().take(CURRENCIES_MAX).map(|one| format!("\"{one}\"")).collect();
    format!("[{}]", quoted.join(","))
}

fn party_body(
    fsp: &FspId,
    kind: &str,
    identifier: &str,
    sub_id: Option<&str>,
    number: u64,
    currencies: &str,
) -> Bytes {
    let (first, last) = name_of(number);
    let sub_id = sub_id.map_or(String::new(), |sub_id| format!(",\"partySubIdOrType\":{}", quoted(sub_id)));
    // The API does not allow an empty list.
    let currencies =
        if currencies == "[]" { String::new() } else { format!(",\"supportedCurrencies\":{currencies}") };
    let (kind, identifier, fsp) = (quoted(kind), quoted(identifier), quoted(fsp.as_str()));
    format!(
        "{{\"party\":{{\"partyIdInfo\":{{\"partyIdType\":{kind},\"partyIdentifier\":{identifier}{sub_id},\"fspId\":{fsp}}},\
         \"name\":\"{first} {last}\",\"personalInfo\":{{\"complexName\":{{\"firstName\":\"{first}\",\"lastName\":\"{last}\"}},\
         \"dateOfBirth\":\"1990-04-17\"}}{currencies}}}}}"
    )
    .into()
}

/// A text as a JSON value.
pub(crate) fn quoted(text: &str) -> String {
    // Cannot fail: the value is a text.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parties_have_exactly_one_owner() {
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
    fn identifiers_print_as_paths_and_read_back() {
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

    #[test]
    fn a_party_is_told_with_name_and_currencies() {
        let fsp = FspId::parse("dfsp-1").unwrap();
        let currencies = currency_list(&[Currency::parse("XXX").unwrap(), Currency::parse("XTS").unwrap()]);
        let body = party_body(&fsp, "ALIAS", "a\"b\\", Some("shop 7"), 9, &currencies);
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({"party": {
            "partyIdInfo": {"partyIdType": "ALIAS", "partyIdentifier": "a\"b\\", "partySubIdOrType": "shop 7",
                "fspId": "dfsp-1"},
            "name": "Baraka Chirwa",
            "personalInfo": {"complexName": {"firstName": "Baraka", "lastName": "Chirwa"}, "dateOfBirth": "1990-04-17"},
            "supportedCurrencies": ["XXX", "XTS"]}});
        assert_eq!(json, expected);
        let body = party_body(&fsp, "MSISDN", "1", None, 0, &currency_list(&[]));
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(json["party"].get("supportedCurrencies").is_none());
        assert!(json["party"]["partyIdInfo"].get("partySubIdOrType").is_none());
        assert_eq!(currency_list(&Currency::all().collect::<Vec<_>>()).matches(',').count(), 15);
    }
}
