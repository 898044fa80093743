//! The quote that a message is about, and what the checks need of its body.

use upesi_delivery::Request;
use upesi_fspiop::message::QuoteContent;
use upesi_fspiop::{Action, Ids, Message, PathId, PathNames, Resource, SyncError};
use upesi_types::{Currency, Timestamp, TransferId};

use crate::identity::QuoteKey;

/// What a message is about, and what it asks.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The quote; `None` for payment requests.
    pub(crate) quote: Option<QuoteKey>,
    /// The id as it stands in paths.
    pub(crate) path_id: PathId,
    /// What is asked.
    pub(crate) ask: Ask,
}

/// What is asked, with what the checks need.
#[derive(Debug)]
pub(crate) enum Ask {
    /// `POST /quotes`
    Quote(QuoteContent),
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
    /// `PUT /quotes/{ID}`, `PUT /bulkQuotes/{ID}`, `PUT /fxQuotes/{ID}`. The currency is that in which the payee is
    /// paid; only quotes have it.
    Response(Option<Currency>),
    /// Everything else: a `GET`, an error, and all payment requests.
    PassOn,
    /// `PUT …/error` about a quote.
    Error,
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

impl Reading {
    /// Reads a request, and takes its message.
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

    /// The path of the error callback about it.
    pub(crate) fn error_path(&self, resource: Resource) -> Box<str> {
        let mut path = String::with_capacity(64);
        self.path_id.write_path(resource, true, &mut path);
        path.into()
    }
}
