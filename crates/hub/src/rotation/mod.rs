//! `upesi dfsp rotate-certificate` and `upesi dfsp signing-key`: a DFSP's key is replaced by another, and both are
//! valid until the DFSP has changed over.

mod certificate;
mod signing_key;

use std::path::Path;

use upesi_keys::read_limited_text;

use crate::exit::{Exit, Failure};

pub use certificate::{CertificateRotation, RotatedCertificate};
pub use signing_key::{SigningKeyRotation, SigningKeys};
pub use upesi_ledger::KEY_OVERLAP_HOURS_MAX;

/// The text of a file that an operator names.
///
/// # Errors
/// 66 if it cannot be read, 65 if it is larger than such a file.
fn read(file: &Path, bytes_max: u64) -> Result<String, Failure> {
    read_limited_text(file, bytes_max).map_err(|error| {
        let is_wrong =
            matches!(error.kind(), std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::InvalidData);
        let exit = if is_wrong { Exit::Data } else { Exit::NoInput };
        Failure::new(exit, format!("{}: {error}", file.display()))
    })
}
