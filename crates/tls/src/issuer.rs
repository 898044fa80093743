//! The issuer of a certificate, identified by its key. An intermediate of one authority may have the name of another
//! authority.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use crate::chain::parse;
use crate::facts::{CertificateFacts, Fingerprint};

/// A trusted authority.
#[derive(Clone, Debug)]
pub(crate) struct Anchor {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) facts: CertificateFacts,
}

/// The certificates of trusted authorities.
pub(crate) fn authorities(anchors: &[Anchor]) -> Vec<CertificateFacts> {
    anchors.iter().map(|anchor| anchor.facts.clone()).collect()
}

/// The issuer of a verified certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedIssuer {
    /// SHA-256 of its public key.
    pub spki_sha256: Fingerprint,
    /// Whether the listener trusts no other authority.
    pub is_of_only_authority: bool,
    /// Whether the listener trusts it as an authority, and no other authority of that name.
    pub has_unique_name: bool,
}

impl VerifiedIssuer {
    /// The issuer of the first certificate of a verified chain. `None` if several keys have the issuer's name and it is
    /// unknown which of them signed the certificate.
    pub(crate) fn of(chain: &[CertificateDer<'static>], anchors: &[Anchor]) -> Option<Self> {
        let (own, others) = chain.split_first()?;
        let own = parse(own)?;
        let candidates = others.iter().chain(anchors.iter().map(|anchor| &anchor.certificate));
        let mut candidates: Vec<_> = candidates
            .filter_map(parse)
            .filter(|candidate| candidate.subject().as_raw() == own.issuer().as_raw())
            .collect();
        candidates.sort_unstable_by(|one, other| one.public_key().raw.cmp(other.public_key().raw));
        candidates.dedup_by(|one, other| one.public_key().raw == other.public_key().raw);
        // The chain was verified: a single candidate is the issuer.
        let issuer = match &*candidates {
            [one] => one,
            several => {
                several.iter().find(|candidate| own.verify_signature(Some(candidate.public_key())).is_ok())?
            }
        };
        let spki_sha256 = Fingerprint(Sha256::digest(issuer.public_key().raw).into());
        let is_other = |anchor: &&Anchor| anchor.facts.spki_sha256 != spki_sha256;
        let has_name = |anchor: &Anchor| {
            parse(&anchor.certificate)
                .is_some_and(|anchor| anchor.subject().as_raw() == issuer.subject().as_raw())
        };
        let is_trusted = anchors.iter().any(|anchor| !is_other(&anchor) && has_name(anchor));
        let mut keys = anchors.iter().map(|anchor| anchor.facts.spki_sha256);
        let first = keys.next()?;
        Some(Self {
            spki_sha256,
            is_of_only_authority: keys.all(|key| key == first),
            has_unique_name: is_trusted && !anchors.iter().filter(is_other).any(has_name),
        })
    }
}
