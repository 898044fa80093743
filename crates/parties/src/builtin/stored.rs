//! Storage of a party: one key for the identifier, one value with all its owners.
//!
//! All owners of an identifier are in one value, so a lookup is one point read. The store answers it from its filters
//! and at most one block, however many parties there are. Owners are ordered by registration. Older versions of the hub
//! ordered them by sub id and currency.

use upesi_types::{Currency, FspId};

use super::OWNERS_MAX;
use crate::party::{Owner, PartyIdType};

/// Numbers of the types on disk; they never change.
const KIND_TAGS: [(PartyIdType, u8); 10] = [
    (PartyIdType::Msisdn, 1),
    (PartyIdType::Email, 2),
    (PartyIdType::PersonalId, 3),
    (PartyIdType::Business, 4),
    (PartyIdType::Device, 5),
    (PartyIdType::AccountId, 6),
    (PartyIdType::Iban, 7),
    (PartyIdType::Alias, 8),
    (PartyIdType::Consent, 9),
    (PartyIdType::ThirdPartyLink, 10),
];

const HAS_CURRENCY: u8 = 1;
const HAS_SUB_ID: u8 = 2;

/// The key: the type's number and the identifier, byte by byte as given.
pub(crate) fn key(kind: PartyIdType, id: &str) -> Vec<u8> {
    let tag = KIND_TAGS.iter().find(|(of, _)| *of == kind).map_or(0, |(_, tag)| *tag);
    let mut key = Vec::with_capacity(1 + id.len());
    key.push(tag);
    key.extend_from_slice(id.as_bytes());
    key
}

/// The value: for each owner a byte of flags, the DFSP's name, the currency and the sub id.
pub(crate) fn encode(owners: &[Owner]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(owners.len() * 24);
    for owner in owners {
        let flags = if owner.currency.is_some() { HAS_CURRENCY } else { 0 }
            | if owner.sub_id.is_some() { HAS_SUB_ID } else { 0 };
        bytes.push(flags);
        push_text(&mut bytes, owner.fsp.as_str());
        if let Some(currency) = owner.currency {
            bytes.extend_from_slice(&currency.to_bytes());
        }
        if let Some(sub_id) = &owner.sub_id {
            push_text(&mut bytes, sub_id);
        }
    }
    bytes
}

/// The owners in a value; `None` if [`encode`] did not create it.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Owner>> {
    let mut owners = Vec::with_capacity(1);
    while let Some((flags, rest)) = bytes.split_first() {
        bytes = rest;
        if flags & !(HAS_CURRENCY | HAS_SUB_ID) != 0 || owners.len() == OWNERS_MAX {
            return None;
        }
        let fsp = FspId::parse(take_text(&mut bytes)?)?;
        let currency = match flags & HAS_CURRENCY {
            0 => None,
            _ => Some(Currency::parse(std::str::from_utf8(take(&mut bytes, 3)?).ok()?)?),
        };
        let sub_id = match flags & HAS_SUB_ID {
            0 => None,
            _ => Some(take_text(&mut bytes)?.into()),
        };
        owners.push(Owner { fsp, currency, sub_id });
    }
    Some(owners)
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    // Names have at most 32 characters and sub ids 128, which is checked at input; so texts have at most 512 bytes.
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = take(bytes, 2)?;
    let length = u16::from_le_bytes([length[0], length[1]]);
    std::str::from_utf8(take(bytes, usize::from(length))?).ok()
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_unique_number() {
        assert_eq!(KIND_TAGS.len(), PartyIdType::ALL.len());
        for kind in PartyIdType::ALL {
            assert_ne!(key(*kind, "x")[0], 0, "{kind} has no number");
        }
        let mut tags: Vec<_> = KIND_TAGS.iter().map(|(_, tag)| *tag).collect();
        tags.dedup();
        assert_eq!(tags, (1..=10).collect::<Vec<u8>>());
    }

    #[test]
    fn owners_round_trip() {
        let fsp = |name| FspId::parse(name).unwrap();
        let owners = vec![
            Owner { fsp: fsp("greenbank"), currency: None, sub_id: None },
            Owner { fsp: fsp("bluebank"), currency: Currency::parse("USD"), sub_id: None },
            Owner { fsp: fsp("a"), currency: Currency::parse("KES"), sub_id: Some("café-7".into()) },
            Owner { fsp: fsp("greenbank"), currency: None, sub_id: Some("shop".into()) },
        ];
        let bytes = encode(&owners);
        assert_eq!(decode(&bytes), Some(owners));
        assert_eq!(decode(&[]), Some(Vec::new()));
        for cut in 1..bytes.len() {
            // A truncated value is rejected, or it is truncated between two owners.
            assert!(decode(&bytes[..cut]).is_none_or(|owners| owners.len() < 4));
        }
        assert_eq!(decode(&[4, 1, 0, b'a']), None, "unknown flag");
        assert_eq!(decode(&[HAS_CURRENCY, 1, 0, b'a', b'u', b's', b'd']), None, "no currency");
    }
}
