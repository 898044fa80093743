//! What stands in bodies.

use upesi_fspiop::body::{parse_authorization_query, refusals};
use upesi_fspiop::{Resource, fingerprint, ilp};
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::{Refusals, chosen};

/// One body, read as that of every request there is, and as an error about one resource.
pub(crate) fn bodies(input: &[u8]) {
    let mut judged = Refusals::default();
    refusals(input, &[chosen(Resource::ALL, input)]).for_each(|refusal| judged.judge(refusal));
    if let Ok(query) = std::str::from_utf8(input) {
        judged.judge(parse_authorization_query(query).err());
    }
    assert_eq!(fingerprint(&[b"\n ", input].concat()), fingerprint(input), "white space does not count");
}

/// Numbers, instants, names.
pub(crate) fn amounts(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(amount) = Amount::parse_wire(text) {
        assert!(amount >= Amount::ZERO);
        assert_eq!(Amount::parse_wire(&amount.to_string()), Ok(amount), "{text}");
    }
    if let Ok(amount) = Amount::parse_decimal(text) {
        assert_eq!(Amount::parse_decimal(&amount.to_string()), Ok(amount), "{text}");
    }
    if let Some(id) = TransferId::parse(text) {
        assert_eq!(TransferId::parse(&id.to_string()), Some(id));
        assert_eq!(TransferId::from_bytes(&id.to_bytes()), Some(id));
    }
    // Instants beyond the last that can be counted are taken for that one.
    let counted = |at: &Timestamp| at.as_ns() < i64::MAX;
    if let Some(at) = Timestamp::parse_iso(text).filter(counted) {
        assert_eq!(Timestamp::parse_iso(&at.to_string()).map(Timestamp::as_ms), Some(at.as_ms()), "{text}");
    }
    if let Some(at) = Timestamp::parse_http_date(text).filter(counted) {
        assert_eq!(Timestamp::parse_http_date(&at.http_date().to_string()), Some(at), "{text}");
    }
    if let Some(currency) = Currency::parse(text) {
        assert_eq!(currency.as_str(), text);
    }
    if let Some(name) = FspId::parse(text) {
        assert_eq!(FspId::parse(name.as_str()), Some(name));
    }
}

/// A packet as it stands in a body, and a transaction to be put into one.
pub(crate) fn ilp_packet(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _refused_or_decoded = ilp::decode_transaction(text);
    let packet = ilp::encode_packet_v1(input.len() as u64, "g.dfsp", text);
    assert_eq!(ilp::decode_transaction(&packet).as_deref(), Ok(text));
}
