//! The messages that simulated DFSPs send: header maps from prepared values, bodies from pieces.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
pub(crate) use upesi_fspiop::Resource as Family;
use upesi_fspiop::Version;
use upesi_fspiop::headers::write_content_type;
use upesi_http::{HeaderMap, HeaderName, HeaderValue, header};
use upesi_types::{FspId, Money, Timestamp, TransferId};

use crate::condition::Text;
use crate::settings::Flavour;

pub(crate) const SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
pub(crate) const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The resource family of a path. The path has no slash before it.
pub(crate) fn family_of(path: &str) -> Option<Family> {
    Family::parse(path.split('/').next()?)
}

/// The media type of version 1.1, which every hub accepts, or of the version that introduced the family.
fn media_type(family: Family) -> HeaderValue {
    static ALL: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
        let of = |family: &Family| {
            let mut text = Vec::with_capacity(72);
            write_content_type(&mut text, *family, family.since().max(Version::V1_1));
            HeaderValue::try_from(text).unwrap_or_else(|_| unreachable!("media types are ASCII"))
        };
        Family::ALL.iter().map(of).collect()
    });
    ALL[family as usize].clone()
}

/// The current time of this process.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

/// The trace id of a W3C `traceparent`.
pub(crate) fn trace_of(traceparent: &HeaderValue) -> Option<u128> {
    u128::from_str_radix(traceparent.to_str().ok()?.split('-').nth(1)?, 16).ok()
}

/// A name as a header value. Names are printable ASCII, so this cannot fail.
pub(crate) fn name_value(name: &FspId) -> HeaderValue {
    HeaderValue::from_str(name.as_str()).unwrap_or_else(|_| HeaderValue::from_static("invalid"))
}

thread_local! {
    static DATE: RefCell<(i64, HeaderValue)> = const { RefCell::new((-1, HeaderValue::from_static(""))) };
}

/// The `Date` header of an instant, rendered once per second and thread.
fn date_value(at: Timestamp) -> HeaderValue {
    let second = at.as_ms() / 1000;
    DATE.with_borrow_mut(|(cached_second, value)| {
        if *cached_second != second {
            *cached_second = second;
            *value = HeaderValue::from_str(&at.http_date().to_string()).unwrap_or_else(|_| value.clone());
        }
        value.clone()
    })
}

/// The headers of a request that expects an answer: a POST or a GET (FSPIOP API v1.1 §3.2.1).
pub(crate) fn request_headers(
    family: Family,
    source: &HeaderValue,
    destination: Option<&HeaderValue>,
    at: Timestamp,
) -> HeaderMap {
    let mut headers = common_headers(family, source, at);
    headers.insert(header::ACCEPT, media_type(family));
    if let Some(destination) = destination {
        headers.insert(DESTINATION, destination.clone());
    }
    headers
}

/// The headers of an answer: a PUT or its error form.
pub(crate) fn answer_headers(
    family: Family,
    source: &HeaderValue,
    destination: &HeaderValue,
    at: Timestamp,
) -> HeaderMap {
    let mut headers = common_headers(family, source, at);
    headers.insert(DESTINATION, destination.clone());
    headers
}

fn common_headers(family: Family, source: &HeaderValue, at: Timestamp) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(10);
    headers.insert(header::CONTENT_TYPE, media_type(family));
    headers.insert(header::DATE, date_value(at));
    headers.insert(SOURCE, source.clone());
    headers
}

/// The body of a prepare. All prepares of a run share `terms`: the amount, the packet, and the name of the condition's
/// member.
pub(crate) fn prepare_body(
    id: &TransferId,
    payer: &FspId,
    payee: &FspId,
    terms: &[u8],
    condition: &Text,
    expiration: Timestamp,
) -> Bytes {
    let id = id.to_string();
    let pieces = [
        &b"{\"transferId\":\""[..],
        id.as_bytes(),
        b"\",\"payerFsp\":\"",
        payer.as_str().as_bytes(),
        b"\",\"payeeFsp\":\"",
        payee.as_str().as_bytes(),
        terms,
        condition,
        b"\",\"expiration\":\"",
    ];
    expiring(&pieces, expiration)
}

/// Joins the pieces of a body. The last piece starts the member of the expiration.
fn expiring(pieces: &[&[u8]], expiration: Timestamp) -> Bytes {
    let mut body = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum::<usize>() + 32);
    pieces.iter().for_each(|piece| body.extend_from_slice(piece));
    push_instant(&mut body, expiration);
    body.extend_from_slice(b"\"}");
    body.into()
}

/// The part of a prepare, or of a bulk transfer's item, between the previous member and the condition's value. `name`
/// is the name of the amount's member.
pub(crate) fn terms(name: &str, money: Money, packet: &str) -> Vec<u8> {
    let Money { amount, currency } = money;
    format!(
        "\",\"{name}\":{{\"currency\":\"{currency}\",\"amount\":\"{amount}\"}},\"ilpPacket\":\"{packet}\",\"condition\":\""
    )
    .into_bytes()
}

/// The body of a `POST /fxTransfers`. All FX transfers of a run share `terms`: both amounts and the name of the
/// condition's member.
pub(crate) fn convert_body(
    id: &TransferId,
    transfer: &TransferId,
    initiator: &FspId,
    fxp: &FspId,
    terms: &[u8],
    condition: &Text,
    expiration: Timestamp,
) -> Bytes {
    let (id, transfer) = (id.to_string(), transfer.to_string());
    let pieces = [
        &b"{\"commitRequestId\":\""[..],
        id.as_bytes(),
        b"\",\"determiningTransferId\":\"",
        transfer.as_bytes(),
        b"\",\"initiatingFsp\":\"",
        initiator.as_str().as_bytes(),
        b"\",\"counterPartyFsp\":\"",
        fxp.as_str().as_bytes(),
        terms,
        condition,
        b"\",\"expiration\":\"",
    ];
    expiring(&pieces, expiration)
}

/// The body of a message about a bulk transfer, written item by item (FSPIOP API v1.1 §6.10.3, §6.10.4).
pub(crate) struct BulkText {
    body: Vec<u8>,
    has_items: bool,
}

impl BulkText {
    /// Starts a `POST /bulkTransfers`. The bulk quote has the same number.
    pub fn request(id: &TransferId, payer: &FspId, payee: &FspId, expiration: Timestamp) -> Self {
        let id = id.to_string();
        let pieces = [
            &b"{\"bulkTransferId\":\""[..],
            id.as_bytes(),
            b"\",\"bulkQuoteId\":\"",
            id.as_bytes(),
            b"\",\"payerFsp\":\"",
            payer.as_str().as_bytes(),
            b"\",\"payeeFsp\":\"",
            payee.as_str().as_bytes(),
            b"\",\"expiration\":\"",
        ];
        Self::begin(&pieces, expiration, b"\",\"individualTransfers\":[")
    }

    /// Starts a payee's `PUT /bulkTransfers/{ID}`.
    pub fn answer(at: Timestamp) -> Self {
        let pieces = [&b"{\"bulkTransferState\":\"COMPLETED\",\"completedTimestamp\":\""[..]];
        Self::begin(&pieces, at, b"\",\"individualTransferResults\":[")
    }

    fn begin(pieces: &[&[u8]], at: Timestamp, list: &[u8]) -> Self {
        let mut body = pieces.concat();
        push_instant(&mut body, at);
        body.extend_from_slice(list);
        Self { body, has_items: false }
    }

    fn push(&mut self, pieces: &[&[u8]]) {
        if std::mem::replace(&mut self.has_items, true) {
            self.body.push(b',');
        }
        self.body.extend_from_slice(b"{\"transferId\":\"");
        pieces.iter().for_each(|piece| self.body.extend_from_slice(piece));
    }

    /// Adds a requested transfer.
    pub fn item(&mut self, id: &TransferId, terms: &[u8], condition: &Text) {
        self.push(&[id.to_string().as_bytes(), terms, condition, b"\"}"]);
    }

    /// Adds a transfer that its payee accepts.
    pub fn fulfilled(&mut self, id: &TransferId, fulfilment: &Text) {
        self.push(&[id.to_string().as_bytes(), b"\",\"fulfilment\":\"", fulfilment, b"\"}"]);
    }

    /// Adds a transfer that its payee rejects.
    pub fn aborted(&mut self, id: &TransferId) {
        // The members of the error, without the brace before them.
        self.push(&[id.to_string().as_bytes(), b"\",", &ABORT_BODY[1..]]);
    }

    /// Ends the body.
    pub fn end(mut self) -> Bytes {
        self.body.extend_from_slice(b"]}");
        self.body.into()
    }
}

/// The body of a fulfilment (FSPIOP API v1.1 §6.7.4). An FXP sends RESERVED, because the transfer determines the
/// outcome.
pub(crate) fn fulfil_body(family: Family, fulfilment: &Text, at: Timestamp, flavour: Flavour) -> Bytes {
    let mut body = Vec::with_capacity(160);
    body.extend_from_slice(b"{\"fulfilment\":\"");
    body.extend_from_slice(fulfilment);
    body.extend_from_slice(b"\",\"completedTimestamp\":\"");
    push_instant(&mut body, at);
    body.extend_from_slice(match (family, flavour) {
        (Family::FxTransfers, _) => b"\",\"conversionState\":\"RESERVED\"}",
        (_, Flavour::Committed) => b"\",\"transferState\":\"COMMITTED\"}",
        (_, Flavour::Reserved) => b"\",\"transferState\":\"RESERVED\"}",
    });
    body.into()
}

/// The body of a rejection by the payee.
pub(crate) const ABORT_BODY: &[u8] =
    br#"{"errorInformation":{"errorCode":"5104","errorDescription":"Payee rejected transaction"}}"#;

pub(crate) fn push_instant(body: &mut Vec<u8>, at: Timestamp) {
    use std::io::Write as _;
    // Writing into a Vec cannot fail.
    let _ = write!(body, "{at}");
}

/// Ten-thousandths as an exact decimal text: `-12.5`.
pub fn units_text(units: i128) -> String {
    let (sign, magnitude) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
    let (integer, fraction) = (magnitude / 10_000, magnitude % 10_000);
    if fraction == 0 {
        return format!("{sign}{integer}");
    }
    let fraction = format!("{fraction:04}");
    format!("{sign}{integer}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use upesi_types::{Amount, Currency};

    use super::*;

    #[test]
    fn bodies_are_valid_json() {
        let id = TransferId::parse("5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d").unwrap();
        let (payer, payee) = (FspId::parse("greenbank").unwrap(), FspId::parse("bluewallet").unwrap());
        let at = Timestamp::parse_iso("2031-04-01T12:00:30.000Z").unwrap();
        let amount = Amount::parse_wire("125.5").unwrap();
        let money = Money { amount, currency: Currency::parse("KES").unwrap() };
        let terms = terms("amount", money, "AYIC");
        let body = prepare_body(&id, &payer, &payee, &terms, &[b'c'; 43], at);
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let expected = serde_json::json!({
            "transferId": "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", "payerFsp": "greenbank", "payeeFsp": "bluewallet",
            "amount": {"currency": "KES", "amount": "125.5"}, "ilpPacket": "AYIC", "condition": "c".repeat(43),
            "expiration": "2031-04-01T12:00:30.000Z"});
        assert_eq!(json, expected);
        let json: serde_json::Value =
            serde_json::from_slice(&fulfil_body(Family::Transfers, &[b'f'; 43], at, Flavour::Reserved))
                .unwrap();
        let expected = serde_json::json!({"fulfilment": "f".repeat(43), "completedTimestamp":
            "2031-04-01T12:00:30.000Z", "transferState": "RESERVED"});
        assert_eq!(json, expected);
        let fulfil = fulfil_body(Family::FxTransfers, &[b'f'; 43], at, Flavour::Committed);
        assert!(fulfil.ends_with(b"\",\"conversionState\":\"RESERVED\"}"), "{fulfil:?}");
    }

    #[test]
    fn family_is_read_from_the_path() {
        for (path, family) in [
            ("transfers", Some(Family::Transfers)),
            ("transfers/x/error", Some(Family::Transfers)),
            ("bulkQuotes/x", Some(Family::BulkQuotes)),
            ("authorizations/x", Some(Family::Authorizations)),
            ("fxTransfers/x", Some(Family::FxTransfers)),
            ("bulkTransfers/x", Some(Family::BulkTransfers)),
            ("bulk/x", None),
            ("/quotes", None),
            ("", None),
        ] {
            assert_eq!(family_of(path), family, "{path}");
        }
    }

    #[test]
    fn units_are_printed_exactly() {
        for (units, text) in
            [(0, "0"), (125_000, "12.5"), (-1, "-0.0001"), (10_000, "1"), (-25_010, "-2.501")]
        {
            assert_eq!(units_text(units), text);
        }
    }

    #[test]
    fn date_header_follows_the_clock() {
        let at = Timestamp::parse_iso("2031-04-01T12:00:00.999Z").unwrap();
        assert_eq!(date_value(at), "Tue, 01 Apr 2031 12:00:00 GMT");
        assert_eq!(date_value(at.plus_ms(1)), "Tue, 01 Apr 2031 12:00:01 GMT");
    }
}
