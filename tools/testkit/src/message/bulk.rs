//! Messages about bulks.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Method};
use sha2::{Digest, Sha256};
use upesi_types::{ErrorCode, Timestamp, TransferId};

use super::{BULKS, DESTINATION, Ending, Request, Spec, accepting, headers, name, preimage};

/// A bulk as its payer means it.
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

/// What a payee says of a bulk.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    /// `PUT …/error` with this code, instead of all else.
    pub(crate) error: Option<ErrorCode>,
    pub(crate) state: &'static str,
    /// What it says of items, and whether that is right.
    pub(crate) results: Vec<(TransferId, Ending, bool)>,
    /// Whom it addresses, if not the hub.
    pub(crate) destination: Option<usize>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = self.results.iter().filter(|(.., is_right)| !is_right).count();
        let (state, results) = (self.state, self.results.len());
        write!(f, "{state}{:?}, {results} results, {wrong} wrong, to {:?}", self.error, self.destination)
    }
}

/// `POST /bulkTransfers` from whoever sends it.
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
    Arc::new(Request {
        method: Method::POST,
        path: "/bulkTransfers".to_owned(),
        headers: accepting(headers(source, Some(spec.payee), BULKS, at)),
        body: body.into(),
    })
}

/// `PUT /bulkTransfers/{ID}` or `PUT /bulkTransfers/{ID}/error`.
pub(crate) fn answer_bulk(id: TransferId, source: usize, answer: &Answer, at: Timestamp) -> Arc<Request> {
    let error = |code| format!(r#""errorInformation":{{"errorCode":"{code}","errorDescription":"No"}}"#);
    let (path, body) = if let Some(code) = answer.error {
        (format!("/bulkTransfers/{id}/error"), format!("{{{}}}", error(code)))
    } else {
        let said = |(item, ending, is_right): &(TransferId, Ending, bool)| match ending {
            Ending::Abort(code) => format!(r#"{{"transferId":"{item}",{}}}"#, error(*code)),
            Ending::Fulfil { .. } => {
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
    Arc::new(Request { method: Method::PUT, path, headers, body: body.into() })
}

/// `GET /bulkTransfers/{ID}`.
pub(crate) fn get_bulk(id: TransferId, source: usize, at: Timestamp) -> Arc<Request> {
    let headers = accepting(headers(source, None, BULKS, at));
    Arc::new(Request {
        method: Method::GET,
        path: format!("/bulkTransfers/{id}"),
        headers,
        body: Bytes::new(),
    })
}
