//! What is read of a message: which quote it is about, and what the checks need of its body.

use upesi_fspiop::body::{
    parse_bulk_quote_request, parse_fx_quote_request, parse_quote_request, parse_quote_response,
    parse_transaction_request,
};
use upesi_fspiop::uri::write_path;
use upesi_fspiop::{Operation, Resource, Route, SyncError};
use upesi_relay::Received;
use upesi_types::{Currency, FspId, Timestamp};

use crate::identity::QuoteKey;

/// A message, as far as it is understood.
#[derive(Debug)]
pub(crate) struct Message {
    /// The quote that it is about; `None` for payment requests.
    pub(crate) quote: Option<QuoteKey>,
    /// The id as it stands in paths.
    pub(crate) path_id: Box<str>,
    /// What is asked.
    pub(crate) ask: Ask,
}

/// What is asked, with what the checks need.
#[derive(Debug)]
pub(crate) enum Ask {
    /// `POST /quotes`
    Quote(QuoteAsk),
    /// `POST /bulkQuotes`; the currency is that of the first quote.
    Bulk {
        /// Of what the first quote is.
        currency: Currency,
        /// Until when it is wanted.
        expires_at: Option<Timestamp>,
    },
    /// `POST /fxQuotes`
    Fx {
        /// What is sold.
        source: Currency,
        /// What is bought.
        target: Currency,
        /// Until when the terms are wanted.
        expires_at: Timestamp,
    },
    /// `PUT /quotes/{ID}`, `PUT /bulkQuotes/{ID}`, `PUT /fxQuotes/{ID}`. The currency is that in which the payee is paid;
    /// only quotes have it.
    Response(Option<Currency>),
    /// Everything else: a `GET`, an error, and all payment requests.
    PassOn,
    /// `PUT …/error` about a quote.
    Error,
}

/// `POST /quotes`
#[derive(Debug)]
pub(crate) struct QuoteAsk {
    /// The currencies that the payer says it can pay in.
    pub(crate) payer_currencies: Vec<Currency>,
    /// The DFSP that the body names for the payer.
    pub(crate) payer_fsp: Option<FspId>,
    /// The DFSP that the body names for the payee.
    pub(crate) payee_fsp: Option<FspId>,
    /// Of what the amount is.
    pub(crate) currency: Currency,
    /// Until when an answer is wanted.
    pub(crate) expires_at: Option<Timestamp>,
}

impl Ask {
    /// Until when an answer to this request is wanted.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Quote(ask) => ask.expires_at,
            Self::Bulk { expires_at, .. } => *expires_at,
            Self::Fx { expires_at, .. } => Some(*expires_at),
            Self::Response(_) | Self::PassOn | Self::Error => None,
        }
    }
}

impl Message {
    /// Reads a message. It has passed the gateway, so that an error here means that somebody forgot a check there.
    pub(crate) fn read(request: &Received) -> Result<Self, SyncError> {
        let route = Route::resolve(Some(request.method), &request.path)?;
        let Route::ById { resource, operation } = route else { return Err(SyncError::not_implemented()) };
        match operation {
            Operation::Create => Self::read_create(resource, &request.body),
            Operation::Get(id) => Self::about(resource, id, Ask::PassOn),
            Operation::Put(id) => Self::about(resource, id, read_response(resource, &request.body)?),
            Operation::PutError(id) if resource.is_quoting() => Self::about(resource, id, Ask::Error),
            Operation::PutError(id) => Self::about(resource, id, Ask::PassOn),
            Operation::Patch(_) => Err(SyncError::not_implemented()),
        }
    }

    fn about(resource: Resource, segment: &str, ask: Ask) -> Result<Self, SyncError> {
        let quote = QuoteKey::of_segment(resource, segment)?;
        Ok(Self { quote, path_id: segment.into(), ask })
    }

    fn read_create(resource: Resource, body: &[u8]) -> Result<Self, SyncError> {
        let (id, ask) = match resource {
            Resource::Quotes => {
                let quote = parse_quote_request(body)?;
                let ask = QuoteAsk {
                    payer_currencies: quote.payer.supported_currencies,
                    payer_fsp: quote.payer.id.fsp,
                    payee_fsp: quote.payee.id.fsp,
                    currency: quote.amount.currency,
                    expires_at: quote.expiration,
                };
                (quote.quote_id, Ask::Quote(ask))
            }
            Resource::BulkQuotes => {
                let bulk = parse_bulk_quote_request(body)?;
                let first = bulk.quotes.first().map(|quote| quote.amount.currency);
                let ask = match first {
                    Some(currency) => Ask::Bulk { currency, expires_at: bulk.expiration },
                    None => Ask::PassOn,
                };
                (bulk.bulk_quote_id, ask)
            }
            Resource::FxQuotes => {
                let quote = parse_fx_quote_request(body)?;
                let (source, target) = (quote.terms.source.currency, quote.terms.target.currency);
                (quote.conversion_request_id, Ask::Fx { source, target, expires_at: quote.terms.expiration })
            }
            Resource::TransactionRequests => {
                (parse_transaction_request(body)?.transaction_request_id, Ask::PassOn)
            }
            _ => return Err(SyncError::not_implemented()),
        };
        Ok(Self { quote: QuoteKey::new(resource, id), path_id: id.to_string().into(), ask })
    }

    /// Where an error about it is told.
    pub(crate) fn error_path(&self, resource: Resource) -> Box<str> {
        let mut path = String::with_capacity(64);
        write_path(resource, Some(&self.path_id), true, &mut path);
        path.into()
    }
}

fn read_response(resource: Resource, body: &[u8]) -> Result<Ask, SyncError> {
    Ok(match resource {
        Resource::Quotes => {
            let response = parse_quote_response(body)?;
            let received = response.payee_receive_amount.as_ref().unwrap_or(&response.transfer_amount);
            Ask::Response(Some(received.currency))
        }
        Resource::BulkQuotes | Resource::FxQuotes => Ask::Response(None),
        _ => Ask::PassOn,
    })
}
