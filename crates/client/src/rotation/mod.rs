//! `upesi dfsp rotate-certificate` and `upesi dfsp signing-key`: replace a DFSP's key by another. Both are valid until
//! the DFSP has changed over.

mod certificate;
mod signing_key;

pub use certificate::{CertificateRotation, RotatedCertificate};
pub use signing_key::{SigningKeyRotation, SigningKeys};
pub use upesi_ledger::KEY_OVERLAP_HOURS_MAX;
