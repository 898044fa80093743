//! What stands in bodies.

use upesi_fspiop::body::{
    parse_authorization, parse_authorization_query, parse_bulk_quote_request, parse_bulk_quote_response,
    parse_error_body, parse_error_body_of, parse_fulfil, parse_fx_quote_request, parse_fx_quote_response,
    parse_participant_post, parse_participant_put, parse_participants_batch, parse_party, parse_prepare,
    parse_quote_request, parse_quote_response, parse_transaction_request, parse_transaction_request_response,
};
use upesi_fspiop::{Resource, fingerprint, ilp};
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::assert_valid_refusal;

/// One body, read as that of every request there is.
pub(crate) fn bodies(input: &[u8]) {
    let mut refusals = vec![
        parse_prepare(input).err(),
        parse_fulfil(input).err(),
        parse_error_body(input).err(),
        parse_participant_post(input).err(),
        parse_participant_put(input).err(),
        parse_participants_batch(input).err(),
        parse_party(input).err(),
        parse_quote_request(input).err(),
        parse_quote_response(input).err(),
        parse_bulk_quote_request(input).err(),
        parse_bulk_quote_response(input).err(),
        parse_fx_quote_request(input).err(),
        parse_fx_quote_response(input).err(),
        parse_transaction_request(input).err(),
        parse_transaction_request_response(input).err(),
        parse_authorization(input).err(),
    ];
    refusals.extend(Resource::ALL.iter().map(|&resource| parse_error_body_of(resource, input).err()));
    if let Ok(query) = std::str::from_utf8(input) {
        refusals.push(parse_authorization_query(query).err());
    }
    refusals.iter().flatten().for_each(assert_valid_refusal);
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
