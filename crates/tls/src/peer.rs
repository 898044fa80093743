//! The other side of a connection.

use std::fmt::Debug;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use crate::facts::CertificateFacts;
use crate::issuer::{Anchor, VerifiedIssuer};

/// A client that has proven to hold the key of a certificate that was trusted at that time.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) chain: Arc<[CertificateDer<'static>]>,
    facts: Arc<CertificateFacts>,
}

impl Peer {
    /// A peer by its verified chain, its own certificate first, and the authorities that the listener trusts. `None` if
    /// its certificate cannot be parsed.
    pub(crate) fn new(chain: &[CertificateDer<'static>], anchors: &[Anchor]) -> Option<Self> {
        let verified_issuer = VerifiedIssuer::of(chain, anchors);
        let facts = CertificateFacts { verified_issuer, ..CertificateFacts::read(chain.first()?).ok()? };
        Some(Self { chain: chain.into(), facts: Arc::new(facts) })
    }

    /// Contents of its certificate.
    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    /// Its own certificate, in DER.
    pub fn certificate(&self) -> &[u8] {
        self.chain.first().map_or(&[], |certificate| certificate)
    }
}
