//! Entries of the built-in directory.

pub use upesi_fspiop::PartyIdType;
use upesi_fspiop::{PartySegments, check_party_path};
use upesi_types::{Currency, FspId};

/// An entry: a DFSP serves a party, under a sub id and in a currency.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirectoryEntry {
    pub kind: PartyIdType,
    /// The identifier, decoded, exactly as given.
    pub id: Box<str>,
    /// Distinguishes parties under one identifier, such as the tills of a business.
    pub sub_id: Option<Box<str>>,
    /// Currency of the entry; `None` for any.
    pub currency: Option<Currency>,
    pub fsp: FspId,
}

/// An owner of a party: the result of a lookup, one for each sub id and currency.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub fsp: FspId,
    /// Currency of the entry; `None` for any.
    pub currency: Option<Currency>,
    /// Sub id of the entry; `None` for the identifier without one.
    pub sub_id: Option<Box<str>>,
}

impl Owner {
    /// Sub id and currency, which distinguish the owners of one identifier.
    pub(crate) fn slot(&self) -> Slot<'_> {
        (self.sub_id.as_deref(), self.currency)
    }

    /// Whether a lookup could find both: they have the same sub id, and the same currency or one for any.
    pub(crate) fn overlaps(&self, entry: &DirectoryEntry) -> bool {
        self.sub_id == entry.sub_id
            && (self.currency == entry.currency || self.currency.is_none() || entry.currency.is_none())
    }
}

/// Sub id and currency: each such pair has one owner.
pub(crate) type Slot<'a> = (Option<&'a str>, Option<Currency>);

impl DirectoryEntry {
    pub(crate) fn slot(&self) -> Slot<'_> {
        (self.sub_id.as_deref(), self.currency)
    }

    pub fn owner(&self) -> Owner {
        Owner { fsp: self.fsp, currency: self.currency, sub_id: self.sub_id.clone() }
    }
}

/// Checks whether a lookup could use an identifier that was given outside a path, decoded, by the rules for paths.
///
/// Errors: the fault, in the words of the FSPIOP checks.
pub fn check_identifier(kind: PartyIdType, id: &str, sub_id: Option<&str>) -> Result<(), String> {
    let id = encode(id);
    let sub_id = sub_id.map(encode);
    let segments = PartySegments { kind: kind.as_str(), id: &id, sub_id: sub_id.as_deref() };
    let checked = segments.check(true).and_then(|path| check_party_path(&path));
    checked.map_err(|refusal| refusal.description)
}

/// Encodes a text as one path segment (RFC 3986 §2.1).
fn encode(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' | b'+' | b'@' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_follow_the_rules_of_paths() {
        let long = "7".repeat(129);
        for (kind, id, sub_id, fits) in [
            (PartyIdType::Msisdn, "+26097", None, true),
            (PartyIdType::Msisdn, "26097", Some("shop-7"), true),
            (PartyIdType::Msisdn, "26 097", None, false),
            (PartyIdType::Msisdn, "phone", None, false),
            (PartyIdType::Msisdn, "", None, false),
            (PartyIdType::Email, "a@b.cd", None, true),
            (PartyIdType::Email, "nobody", None, false),
            (PartyIdType::AccountId, "100%", None, true),
            (PartyIdType::Alias, "café", None, true),
            (PartyIdType::Alias, "a/b", None, true),
            (PartyIdType::Alias, "../b", None, false),
            (PartyIdType::Alias, "{x}", None, false),
            (PartyIdType::Alias, "a\nb", None, false),
            (PartyIdType::Business, "acme", Some("error"), false),
            (PartyIdType::Business, "acme", Some(""), false),
            (PartyIdType::Business, &long, None, false),
        ] {
            let found = check_identifier(kind, id, sub_id);
            assert_eq!(found.is_ok(), fits, "{kind} {id} {sub_id:?}: {found:?}");
        }
    }
}
