//! The messages of simulated DFSPs, byte by byte as they would stand on the wire.

mod bulk;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sha2::{Digest, Sha256};
use upesi_types::{ErrorCode, Timestamp, TransferId};

/// The scheme's currency.
pub(crate) const CURRENCY: &str = "KES";
/// The one that FXPs sell for it, in worlds with conversions.
pub(crate) const OTHER_CURRENCY: &str = "TZS";
/// Ten-thousandths in one unit of the currency.
pub(crate) const UNITS: i128 = 10_000;

pub(crate) use self::bulk::{Answer, BulkSpec, answer_bulk, get_bulk, pay_in_bulk};

/// A request on its way, in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A transfer as its payer means it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) id: TransferId,
    /// Number of the DFSP that pays.
    pub(crate) payer: usize,
    /// Number of the DFSP that is paid.
    pub(crate) payee: usize,
    /// Whole units of the currency.
    pub(crate) amount: i64,
    pub(crate) currency: &'static str,
    pub(crate) expires_at: Timestamp,
}

/// A conversion as its initiator means it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FxSpec {
    pub(crate) id: TransferId,
    /// The transfer that determines it.
    pub(crate) transfer: TransferId,
    pub(crate) initiator: usize,
    pub(crate) fxp: usize,
    /// What the initiator sells, in whole units.
    pub(crate) source: (i64, &'static str),
    /// What the FXP gives for it.
    pub(crate) target: (i64, &'static str),
    pub(crate) expires_at: Timestamp,
}

/// What reveals that a transfer or a conversion is fulfilled.
pub(crate) fn preimage(id: TransferId) -> [u8; 32] {
    Sha256::digest(id.to_bytes()).into()
}

impl Spec {
    /// What the payee reveals to commit.
    pub(crate) fn preimage(&self) -> [u8; 32] {
        preimage(self.id)
    }
}

/// The name of a DFSP.
pub(crate) fn name(dfsp: usize) -> String {
    format!("dfsp{dfsp}")
}

/// The number of the DFSP with this name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("dfsp")?.parse().ok()
}

/// What a PUT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// COMMITTED or, where the payee waits for the hub's word, RESERVED.
    Fulfil { reserves: bool },
    /// An error with this code.
    Abort(ErrorCode),
}

const SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");

const TRANSFERS: &str = "transfers+json;version=1.1";
const CONVERSIONS: &str = "fxTransfers+json;version=2.0";
pub(crate) const BULKS: &str = "bulkTransfers+json;version=1.1";

fn headers(source: usize, destination: Option<usize>, kind: &str, at: Timestamp) -> HeaderMap {
    let text = |text: String| HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("?"));
    let mut headers = HeaderMap::new();
    let kind = format!("application/vnd.interoperability.{kind}");
    headers.insert(http::header::CONTENT_TYPE, text(kind));
    headers.insert(http::header::DATE, text(at.http_date().to_string()));
    headers.insert(SOURCE, text(name(source)));
    if let Some(destination) = destination {
        headers.insert(DESTINATION, text(name(destination)));
    }
    headers
}

fn accepting(mut headers: HeaderMap) -> HeaderMap {
    let mut kind = headers[http::header::CONTENT_TYPE].clone();
    // Of the version, its first number.
    if let Some((kind_of_major, _)) = kind.to_str().ok().and_then(|kind| kind.rsplit_once('.')) {
        kind = HeaderValue::from_str(kind_of_major).unwrap_or_else(|_| kind.clone());
    }
    headers.insert(http::header::ACCEPT, kind);
    headers
}

/// `POST /transfers` from whoever sends it, with any text for an amount.
pub(crate) fn prepare(spec: &Spec, source: usize, amount: &str, at: Timestamp) -> Arc<Request> {
    let condition = URL_SAFE_NO_PAD.encode(Sha256::digest(spec.preimage()));
    let (payer, payee) = (name(spec.payer), name(spec.payee));
    let body = format!(
        r#"{{"transferId":"{}","payerFsp":"{payer}","payeeFsp":"{payee}","amount":{{"currency":"{}","amount":"{amount}"}},"ilpPacket":"AAAA","condition":"{condition}","expiration":"{}"}}"#,
        spec.id, spec.currency, spec.expires_at
    );
    Arc::new(Request {
        method: Method::POST,
        path: "/transfers".to_owned(),
        headers: accepting(headers(source, Some(spec.payee), TRANSFERS, at)),
        body: body.into(),
    })
}

/// `PUT /transfers/{ID}` or `PUT /transfers/{ID}/error`.
pub(crate) fn put(
    id: TransferId,
    (source, destination): (usize, usize),
    ending: Ending,
    preimage: &[u8; 32],
    at: Timestamp,
) -> Arc<Request> {
    ending_of(("transfers", "transferState", TRANSFERS), id, (source, destination), ending, preimage, at)
}

/// `PUT /fxTransfers/{ID}` or `PUT /fxTransfers/{ID}/error`.
pub(crate) fn put_conversion(
    id: TransferId,
    parties: (usize, usize),
    ending: Ending,
    preimage: &[u8; 32],
    at: Timestamp,
) -> Arc<Request> {
    ending_of(("fxTransfers", "conversionState", CONVERSIONS), id, parties, ending, preimage, at)
}

fn ending_of(
    (family, state_name, kind): (&str, &str, &str),
    id: TransferId,
    (source, destination): (usize, usize),
    ending: Ending,
    preimage: &[u8; 32],
    at: Timestamp,
) -> Arc<Request> {
    let (path, body) = match ending {
        Ending::Fulfil { reserves } => {
            let state = if reserves { "RESERVED" } else { "COMMITTED" };
            let fulfilment = URL_SAFE_NO_PAD.encode(preimage);
            let body = format!(
                r#"{{"fulfilment":"{fulfilment}","completedTimestamp":"{at}","{state_name}":"{state}"}}"#
            );
            (format!("/{family}/{id}"), body)
        }
        Ending::Abort(code) => {
            let body = format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"No"}}}}"#);
            (format!("/{family}/{id}/error"), body)
        }
    };
    let headers = headers(source, Some(destination), kind, at);
    Arc::new(Request { method: Method::PUT, path, headers, body: body.into() })
}

/// `POST /fxTransfers` from whoever sends it.
pub(crate) fn convert(spec: &FxSpec, source: usize, at: Timestamp) -> Arc<Request> {
    let condition = URL_SAFE_NO_PAD.encode(Sha256::digest(preimage(spec.id)));
    let (initiator, fxp) = (name(spec.initiator), name(spec.fxp));
    let money =
        |(amount, currency): (i64, &str)| format!(r#"{{"currency":"{currency}","amount":"{amount}"}}"#);
    let body = format!(
        r#"{{"commitRequestId":"{}","determiningTransferId":"{}","initiatingFsp":"{initiator}","counterPartyFsp":"{fxp}","sourceAmount":{},"targetAmount":{},"condition":"{condition}","expiration":"{}"}}"#,
        spec.id,
        spec.transfer,
        money(spec.source),
        money(spec.target),
        spec.expires_at
    );
    Arc::new(Request {
        method: Method::POST,
        path: "/fxTransfers".to_owned(),
        headers: accepting(headers(source, Some(spec.fxp), CONVERSIONS, at)),
        body: body.into(),
    })
}

/// `GET /fxTransfers/{ID}`.
pub(crate) fn get_conversion(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, CONVERSIONS, at));
    Arc::new(Request { method: Method::GET, path: format!("/fxTransfers/{id}"), headers, body: Bytes::new() })
}

/// `GET /transfers/{ID}`.
pub(crate) fn get(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, TRANSFERS, at));
    Arc::new(Request { method: Method::GET, path: format!("/transfers/{id}"), headers, body: Bytes::new() })
}
