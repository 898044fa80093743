//! Identifies the quote of a message.

use upesi_fspiop::Resource;
use upesi_types::TransferId;

/// The kinds of quotes; each has ids of its own.
const KINDS: [(Resource, u8); 3] =
    [(Resource::Quotes, 1), (Resource::BulkQuotes, 2), (Resource::FxQuotes, 3)];

/// Identifies a quote of any kind: the kind and the id in 18 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QuoteKey([u8; Self::BYTES]);

impl QuoteKey {
    pub(crate) const BYTES: usize = 18;

    /// `None` for a resource that is not a quote.
    pub(crate) fn new(resource: Resource, id: TransferId) -> Option<Self> {
        let (_, kind) = KINDS.iter().find(|(known, _)| *known == resource)?;
        let mut key = [*kind; Self::BYTES];
        key[1..].copy_from_slice(&id.to_bytes());
        Some(Self(key))
    }

    /// All possible keys for an id.
    pub(crate) fn all_of(id: TransferId) -> impl Iterator<Item = (Resource, Self)> {
        KINDS.iter().filter_map(move |(resource, _)| Some((*resource, Self::new(*resource, id)?)))
    }

    /// The stored form.
    pub(crate) const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Reads the stored form.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}
