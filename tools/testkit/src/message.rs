//! The messages of simulated DFSPs, byte for byte as on the wire.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sha2::{Digest, Sha256};
use upesi_types::{ErrorCode, Timestamp, TransferId};

pub(crate) const CURRENCY: &str = "KES";
/// The currency that FXPs sell, in worlds with FX transfers.
pub(crate) const OTHER_CURRENCY: &str = "TZS";
/// Ten-thousandths in one unit of the currency.
pub(crate) const UNITS: i128 = 10_000;

/// A request in transit, in either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A transfer as requested by its payer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) id: TransferId,
    pub(crate) payer: usize,
    pub(crate) payee: usize,
    /// Whole units of the currency.
    pub(crate) amount: i64,
    pub(crate) currency: &'static str,
    pub(crate) expires_at: Timestamp,
}

/// An FX transfer as requested by its initiator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FxSpec {
    pub(crate) id: TransferId,
    pub(crate) transfer: TransferId,
    pub(crate) initiator: usize,
    pub(crate) fxp: usize,
    /// Amount that the initiator sells, in whole units.
    pub(crate) source: (i64, &'static str),
    /// Amount that the FXP sells for it.
    pub(crate) target: (i64, &'static str),
    pub(crate) expires_at: Timestamp,
}

/// The preimage whose fulfilment commits a transfer or an FX transfer.
pub(crate) fn preimage(id: TransferId) -> [u8; 32] {
    Sha256::digest(id.to_bytes()).into()
}

impl Spec {
    /// The preimage that the payee reveals in order to commit.
    pub(crate) fn preimage(&self) -> [u8; 32] {
        preimage(self.id)
    }
}

pub(crate) fn name(dfsp: usize) -> String {
    format!("dfsp{dfsp}")
}

/// The number of the DFSP with this name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("dfsp")?.parse().ok()
}

/// The content of a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutContent {
    /// COMMITTED or, if the payee waits for the hub's notification, RESERVED.
    Fulfil { reserves: bool },
    /// An error with this code.
    Abort(ErrorCode),
}

const SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");

const TRANSFERS: &str = "transfers+json;version=1.1";
const FX_TRANSFERS: &str = "fxTransfers+json;version=2.0";
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
    // Keeps only the major part of the version.
    if let Some((kind_of_major, _)) = kind.to_str().ok().and_then(|kind| kind.rsplit_once('.')) {
        kind = HeaderValue::from_str(kind_of_major).unwrap_or_else(|_| kind.clone());
    }
    headers.insert(http::header::ACCEPT, kind);
    headers
}

fn request(method: Method, path: impl Into<String>, headers: HeaderMap, body: Bytes) -> Arc<Request> {
    Arc::new(Request { method, path: path.into(), headers, body })
}

/// `POST /transfers` from any sender, with any text as the amount.
pub(crate) fn prepare(spec: &Spec, source: usize, amount: &str, at: Timestamp) -> Arc<Request> {
    let condition = URL_SAFE_NO_PAD.encode(Sha256::digest(spec.preimage()));
    let (payer, payee) = (name(spec.payer), name(spec.payee));
    let body = format!(
        r#"{{"transferId":"{}","payerFsp":"{payer}","payeeFsp":"{payee}","amount":{{"currency":"{}","amount":"{amount}"}},"ilpPacket":"AAAA","condition":"{condition}","expiration":"{}"}}"#,
        spec.id, spec.currency, spec.expires_at
    );
    request(
        Method::POST,
        "/transfers",
        accepting(headers(source, Some(spec.payee), TRANSFERS, at)),
        body.into(),
    )
}

/// `PUT /transfers/{ID}` or `PUT /transfers/{ID}/error`.
pub(crate) fn put(
    id: TransferId,
    source: usize,
    destination: usize,
    ending: PutContent,
    preimage: &[u8; 32],
    at: Timestamp,
) -> Arc<Request> {
    let family = EndingFamily { path: "transfers", state_name: "transferState", media: TRANSFERS };
    ending_of(family, id, source, destination, ending, preimage, at)
}

/// `PUT /fxTransfers/{ID}` or `PUT /fxTransfers/{ID}/error`.
pub(crate) fn put_fx_transfer(
    id: TransferId,
    source: usize,
    destination: usize,
    ending: PutContent,
    preimage: &[u8; 32],
    at: Timestamp,
) -> Arc<Request> {
    let family = EndingFamily { path: "fxTransfers", state_name: "conversionState", media: FX_TRANSFERS };
    ending_of(family, id, source, destination, ending, preimage, at)
}

/// The names in a `PUT` that ends a transfer or an FX transfer.
struct EndingFamily {
    path: &'static str,
    /// Name of the state in the body.
    state_name: &'static str,
    /// Name in the media type.
    media: &'static str,
}

fn ending_of(
    family: EndingFamily,
    id: TransferId,
    source: usize,
    destination: usize,
    ending: PutContent,
    preimage: &[u8; 32],
    at: Timestamp,
) -> Arc<Request> {
    let EndingFamily { path: family, state_name, media } = family;
    let (path, body) = match ending {
        PutContent::Fulfil { reserves } => {
            let state = if reserves { "RESERVED" } else { "COMMITTED" };
            let fulfilment = URL_SAFE_NO_PAD.encode(preimage);
            let body = format!(
                r#"{{"fulfilment":"{fulfilment}","completedTimestamp":"{at}","{state_name}":"{state}"}}"#
            );
            (format!("/{family}/{id}"), body)
        }
        PutContent::Abort(code) => {
            let body = format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"No"}}}}"#);
            (format!("/{family}/{id}/error"), body)
        }
    };
    let headers = headers(source, Some(destination), media, at);
    request(Method::PUT, path, headers, body.into())
}

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
    request(
        Method::POST,
        "/fxTransfers",
        accepting(headers(source, Some(spec.fxp), FX_TRANSFERS, at)),
        body.into(),
    )
}

pub(crate) fn get_fx_transfer(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, FX_TRANSFERS, at));
    request(Method::GET, format!("/fxTransfers/{id}"), headers, Bytes::new())
}

pub(crate) fn get(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, TRANSFERS, at));
    request(Method::GET, format!("/transfers/{id}"), headers, Bytes::new())
}

/// A bulk transfer as requested by its payer.
#[derive(Clone)]
pub(crate) struct BulkSpec {
    pub(crate) id: TransferId,
    pub(crate) quote: TransferId,
    pub(crate) payer: usize,
    pub(crate) payee: usize,
    pub(crate) items: Vec<Spec>,
    pub(crate) expires_at: Timestamp,
}

impl fmt::Debug for BulkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items from dfsp{} to dfsp{}", self.items.len(), self.payer, self.payee)
    }
}

/// A payee's answer to a bulk transfer.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    /// `PUT …/error` with this code, instead of everything else.
    pub(crate) error: Option<ErrorCode>,
    pub(crate) state: &'static str,
    /// The outcomes of items that it states, and whether each is right.
    pub(crate) results: Vec<(TransferId, PutContent, bool)>,
    /// The DFSP that it addresses, if not the hub.
    pub(crate) destination: Option<usize>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = self.results.iter().filter(|(.., is_right)| !is_right).count();
        let (state, results) = (self.state, self.results.len());
        write!(f, "{state}{:?}, {results} results, {wrong} wrong, to {:?}", self.error, self.destination)
    }
}

/// `POST /bulkTransfers` from any sender.
pub(crate) fn pay_in_bulk(spec: &BulkSpec, source: usize, at: Timestamp) -> Arc<Request> {
    let mut items = String::new();
    for item in &spec.items {
        let comma = if items.is_empty() { "" } else { "," };
        let condition = URL_SAFE_NO_PAD.encode(Sha256::digest(item.preimage()));
        let (id, amount, currency) = (item.id, item.amount, item.currency);
        let _ = write!(
            items,
            r#"{comma}{{"transferId":"{id}","transferAmount":{{"currency":"{currency}","amount":"{amount}"}},"ilpPacket":"AAAA","condition":"{condition}"}}"#
        );
    }
    let (payer, payee) = (name(spec.payer), name(spec.payee));
    let body = format!(
        r#"{{"bulkTransferId":"{}","bulkQuoteId":"{}","payerFsp":"{payer}","payeeFsp":"{payee}","expiration":"{}","individualTransfers":[{items}]}}"#,
        spec.id, spec.quote, spec.expires_at
    );
    request(
        Method::POST,
        "/bulkTransfers",
        accepting(headers(source, Some(spec.payee), BULKS, at)),
        body.into(),
    )
}

/// `PUT /bulkTransfers/{ID}` or `PUT /bulkTransfers/{ID}/error`.
pub(crate) fn answer_bulk(id: TransferId, source: usize, answer: &Answer, at: Timestamp) -> Arc<Request> {
    let error = |code| format!(r#""errorInformation":{{"errorCode":"{code}","errorDescription":"No"}}"#);
    let (path, body) = if let Some(code) = answer.error {
        (format!("/bulkTransfers/{id}/error"), format!("{{{}}}", error(code)))
    } else {
        let said = |(item, ending, is_right): &(TransferId, PutContent, bool)| match ending {
            PutContent::Abort(code) => format!(r#"{{"transferId":"{item}",{}}}"#, error(*code)),
            PutContent::Fulfil { .. } => {
                let mut preimage = preimage(*item);
                preimage[0] ^= u8::from(!is_right);
                let fulfilment = URL_SAFE_NO_PAD.encode(preimage);
                format!(r#"{{"transferId":"{item}","fulfilment":"{fulfilment}"}}"#)
            }
        };
        let results: Vec<_> = answer.results.iter().map(said).collect();
        let results = match results.join(",") {
            none if none.is_empty() => String::new(),
            some => format!(r#","individualTransferResults":[{some}]"#),
        };
        let state = answer.state;
        let body = format!(r#"{{"bulkTransferState":"{state}","completedTimestamp":"{at}"{results}}}"#);
        (format!("/bulkTransfers/{id}"), body)
    };
    let mut headers = headers(source, answer.destination, BULKS, at);
    headers.entry(DESTINATION).or_insert(HeaderValue::from_static("Hub"));
    request(Method::PUT, path, headers, body.into())
}

pub(crate) fn get_bulk(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, BULKS, at));
    request(Method::GET, format!("/bulkTransfers/{id}"), headers, Bytes::new())
}
