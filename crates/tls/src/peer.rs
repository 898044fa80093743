//! The other side of a connection.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use crate::facts::Facts;

/// A caller that has proven to hold the key of a certificate which was trusted at the time.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) chain: Arc<[CertificateDer<'static>]>,
    facts: Arc<Facts>,
}

impl Peer {
    /// A peer by the chain that it sent, its own certificate first; `None` if that cannot be read.
    pub fn new(chain: &[CertificateDer<'static>]) -> Option<Self> {
        let facts = Facts::read(chain.first()?).ok()?;
        Some(Self { chain: chain.into(), facts: Arc::new(facts) })
    }

    /// What its certificate says.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its own certificate, in DER.
    pub fn certificate(&self) -> &[u8] {
        self.chain.first().map_or(&[], |certificate| certificate)
    }
}
