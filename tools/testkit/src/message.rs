//! The messages of simulated DFSPs, byte by byte as they would stand on the wire.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sha2::{Digest, Sha256};
use upesi_types::{ErrorCode, Timestamp, TransferId};

/// The scheme's only currency.
pub(crate) const CURRENCY: &str = "KES";
/// Ten-thousandths in one unit of the currency.
pub(crate) const UNITS: i128 = 10_000;

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
    pub(crate) expires_at: Timestamp,
}

impl Spec {
    /// What the payee reveals to commit.
    pub(crate) fn preimage(&self) -> [u8; 32] {
        Sha256::digest(self.id.to_bytes()).into()
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

fn headers(source: usize, destination: Option<usize>, version: &str, at: Timestamp) -> HeaderMap {
    let text = |text: String| HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("?"));
    let mut headers = HeaderMap::new();
    let kind = format!("application/vnd.interoperability.transfers+json;version={version}");
    headers.insert(http::header::CONTENT_TYPE, text(kind));
    headers.insert(http::header::DATE, text(at.http_date().to_string()));
    headers.insert(SOURCE, text(name(source)));
    if let Some(destination) = destination {
        headers.insert(DESTINATION, text(name(destination)));
    }
    headers
}

fn accepting(mut headers: HeaderMap) -> HeaderMap {
    let kind = HeaderValue::from_static("application/vnd.interoperability.transfers+json;version=1");
    headers.insert(http::header::ACCEPT, kind);
    headers
}

/// `POST /transfers` from whoever sends it, with any text for an amount.
pub(crate) fn prepare(spec: &Spec, source: usize, amount: &str, at: Timestamp) -> Arc<Request> {
    let condition = URL_SAFE_NO_PAD.encode(Sha256::digest(spec.preimage()));
    let (payer, payee) = (name(spec.payer), name(spec.payee));
    let body = format!(
        r#"{{"transferId":"{}","payerFsp":"{payer}","payeeFsp":"{payee}","amount":{{"currency":"{CURRENCY}","amount":"{amount}"}},"ilpPacket":"AAAA","condition":"{condition}","expiration":"{}"}}"#,
        spec.id, spec.expires_at
    );
    Arc::new(Request {
        method: Method::POST,
        path: "/transfers".to_owned(),
        headers: accepting(headers(source, Some(spec.payee), "1.1", at)),
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
    let (path, body) = match ending {
        Ending::Fulfil { reserves } => {
            let state = if reserves { "RESERVED" } else { "COMMITTED" };
            let fulfilment = URL_SAFE_NO_PAD.encode(preimage);
            let body = format!(
                r#"{{"fulfilment":"{fulfilment}","completedTimestamp":"{at}","transferState":"{state}"}}"#
            );
            (format!("/transfers/{id}"), body)
        }
        Ending::Abort(code) => {
            let body = format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"No"}}}}"#);
            (format!("/transfers/{id}/error"), body)
        }
    };
    let headers = headers(source, Some(destination), "1.1", at);
    Arc::new(Request { method: Method::PUT, path, headers, body: body.into() })
}

/// `GET /transfers/{ID}`.
pub(crate) fn get(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, "1.1", at));
    Arc::new(Request { method: Method::GET, path: format!("/transfers/{id}"), headers, body: Bytes::new() })
}
