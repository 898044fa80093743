//! Reads the parts of a message that the checks need: its quote, and data of its body.

use upesi_delivery::Request;
use upesi_delivery::relayed::Address;
use upesi_fspiop::message::QuoteContent;
use upesi_fspiop::{Action, Ids, Message, PathId, PathNames, Resource, SyncError};
use upesi_ledger::EndpointType;
use upesi_types::{Currency, Timestamp, TransferId};

use crate::quote_key::QuoteKey;

/// Subject and content of a message.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The quote; `None` for payment requests.
    pub(crate) quote: Option<QuoteKey>,
    /// The id as written in paths.
    pub(crate) path_id: PathId,
    /// Content of the message.
    pub(crate) ask: Ask,
}

/// Content of a message, as far as the checks need it.
#[derive(Debug)]
pub(crate) enum Ask {
    /// `POST /quotes`
    Quote(QuoteContent),
    /// `POST /bulkQuotes`
    Bulk {
        /// Currency of the first quote.
        currency: Currency,
        /// Expiration of the answer.
        expires_at: Option<Timestamp>,
    },
    /// `POST /fxQuotes`
    Fx {
        /// Currency to sell.
        source: Currency,
        /// Currency to buy.
        target: Currency,
        /// Expiration of the terms.
        expires_at: Timestamp,
    },
    /// `PUT /quotes/{ID}`, `PUT /bulkQuotes/{ID}`, `PUT /fxQuotes/{ID}`. The currency of the payee's amount;
    /// only quotes have one.
    Response(Option<Currency>),
    /// Any other message: a `GET`, an error, and all payment requests.
    PassOn,
    /// `PUT …/error` about a quote.
    Error,
}

impl Ask {
    /// Expiration of the answer to this request.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Quote(ask) => ask.expires_at,
            Self::Bulk { expires_at, .. } => *expires_at,
            Self::Fx { expires_at, .. } => Some(*expires_at),
            Self::Response(_) | Self::PassOn | Self::Error => None,
        }
    }
}

impl Reading {
    /// Reads a request, and takes its message out.
    pub(crate) fn of(request: &mut Request) -> Result<Self, SyncError> {
        let (resource, action) = (request.resource(), request.action());
        let message = std::mem::take(&mut request.message);
        let Ids::Id(path_id) = &request.ids else { return Self::of_post(resource, message) };
        let ask = match (action, message) {
            (Action::Put, Message::QuoteAnswer { currency }) => Ask::Response(Some(currency)),
            (Action::Put, _) if resource.is_quoting() => Ask::Response(None),
            (Action::PutError, _) if resource.is_quoting() => Ask::Error,
            _ => Ask::PassOn,
        };
        let quote = path_id.id().and_then(|id| QuoteKey::new(resource, id));
        Ok(Self { quote, path_id: path_id.clone(), ask })
    }

    fn of_post(resource: Resource, message: Message) -> Result<Self, SyncError> {
        let (id, ask): (TransferId, Ask) = match message {
            Message::Quote(quote) => (quote.id, Ask::Quote(quote)),
            Message::BulkQuote { id, currency: Some(currency), expires_at } => {
                (id, Ask::Bulk { currency, expires_at })
            }
            Message::BulkQuote { id, currency: None, .. } => (id, Ask::PassOn),
            Message::FxQuote { id, source, target, expires_at } => {
                (id, Ask::Fx { source, target, expires_at })
            }
            Message::TransactionRequest { id } => (id, Ask::PassOn),
            _ => return Err(SyncError::not_implemented()),
        };
        Ok(Self { quote: QuoteKey::new(resource, id), path_id: PathId::Plain(id), ask })
    }

    pub(crate) fn error_path(&self, resource: Resource) -> Box<str> {
        let mut path = String::with_capacity(64);
        self.path_id.write_path(resource, true, &mut path);
        path.into()
    }
}

/// The address of messages of a resource; `None` for a resource that is not served here.
pub(crate) const fn address(resource: Resource) -> Option<Address> {
    Some(Address::Base(match resource {
        Resource::Quotes => EndpointType::QUOTES,
        Resource::BulkQuotes => EndpointType::BULK_QUOTES,
        Resource::FxQuotes => EndpointType::FX_QUOTES,
        Resource::TransactionRequests => EndpointType::TRX_REQ_SERVICE,
        Resource::Authorizations => EndpointType::AUTHORIZATIONS,
        _ => return None,
    }))
}

/// Name of a message in texts for DFSPs.
pub(crate) const fn noun(resource: Resource) -> &'static str {
    match resource {
        Resource::TransactionRequests => "transaction request",
        Resource::Authorizations => "authorization",
        _ => "quote",
    }
}
