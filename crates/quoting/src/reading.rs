//! What is read of a message: which quote it is about, and what the checks need of its body.

use upesi_delivery::relayed::{Content, QuoteContent, Received};
use upesi_fspiop::uri::write_path;
use upesi_fspiop::{Action, Resource, Route, Segments, SyncError, Unroutable};
use upesi_types::{Currency, Timestamp, TransferId};

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
    /// `PUT /quotes/{ID}`, `PUT /bulkQuotes/{ID}`, `PUT /fxQuotes/{ID}`. The currency is that in which the payee is paid;
    /// only quotes have it.
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

impl Message {
    /// Reads a message, and takes its content. It has passed the gateway, so that an error here means that somebody forgot a
    /// check there.
    pub(crate) fn read(request: &mut Received) -> Result<Self, SyncError> {
        let content = std::mem::take(&mut request.content);
        let route = Route::resolve(Some(request.method), &request.path).map_err(Unroutable::to_error)?;
        let resource = route.resource();
        let Segments::Id(id) = route.segments else { return Self::create(resource, content) };
        match route.operation.action() {
            Action::Put if resource.is_quoting() => {
                let currency = match content {
                    Content::QuoteAnswer { currency } => Some(currency),
                    _ => None,
                };
                Self::about(resource, id, Ask::Response(currency))
            }
            Action::PutError if resource.is_quoting() => Self::about(resource, id, Ask::Error),
            _ => Self::about(resource, id, Ask::PassOn),
        }
    }

    fn about(resource: Resource, segment: &str, ask: Ask) -> Result<Self, SyncError> {
        let quote = QuoteKey::of_segment(resource, segment)?;
        Ok(Self { quote, path_id: segment.into(), ask })
    }

    fn create(resource: Resource, content: Content) -> Result<Self, SyncError> {
        let (id, ask): (TransferId, Ask) = match content {
            Content::Quote(quote) => (quote.id, Ask::Quote(quote)),
            Content::BulkQuote { id, currency: Some(currency), expires_at } => {
                (id, Ask::Bulk { currency, expires_at })
            }
            Content::BulkQuote { id, currency: None, .. } => (id, Ask::PassOn),
            Content::FxQuote { id, source, target, expires_at } => {
                (id, Ask::Fx { source, target, expires_at })
            }
            Content::TransactionRequest { id } => (id, Ask::PassOn),
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
