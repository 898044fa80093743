//! Keys for signing messages.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ED25519};

use crate::PkiError;
use crate::authority::{check_name, new_key};
use crate::files::{failed, write, write_secret};
use crate::order::KeyKind;

/// The files of a new signing key.
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// The private key, readable by its owner only.
    pub key_file: PathBuf,
    pub public_file: PathBuf,
}

impl SigningKey {
    /// Creates a key as `NAME.key` and `NAME.pem` in a directory, which is created if missing. Existing files are not
    /// overwritten.
    pub fn make(directory: &Path, name: &str, kind: KeyKind) -> Result<Self, PkiError> {
        Self::write_new(directory, name, || new_key(kind))
    }

    /// Creates an Ed25519 key for checkpoints of the audit trail.
    pub fn make_for_audit(directory: &Path, name: &str) -> Result<Self, PkiError> {
        Self::write_new(directory, name, || Ok(KeyPair::generate_for(&PKCS_ED25519)?))
    }

    fn write_new(
        directory: &Path,
        name: &str,
        make: impl FnOnce() -> Result<KeyPair, PkiError>,
    ) -> Result<Self, PkiError> {
        let [key_file, public_file] = free_files(directory, name, ["key", "pem"])?;
        let pair = make()?;
        write_secret(&key_file, &pair.serialize_pem())?;
        write(&public_file, &pair.public_key_pem())?;
        Ok(Self { key_file, public_file })
    }
}

/// Paths for files with a name, in a directory that is created if missing. An error if a file exists.
fn free_files(directory: &Path, name: &str, endings: [&str; 2]) -> Result<[PathBuf; 2], PkiError> {
    check_name(name)?;
    fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    let files = endings.map(|ending| directory.join(format!("{name}.{ending}")));
    match files.iter().find(|file| file.exists()) {
        Some(file) => Err(PkiError::KeyExists(file.clone())),
        None => Ok(files),
    }
}

/// The files of a new key with a signing request for an authority.
#[derive(Clone, Debug)]
pub struct KeyWithRequest {
    /// The private key, readable by its owner only.
    pub key_file: PathBuf,
    /// The signing request in PEM (PKCS#10).
    pub request_file: PathBuf,
}

impl KeyWithRequest {
    /// Creates a key and a request as `NAME.key` and `NAME.csr` in a directory, which is created if missing. Existing
    /// files are not overwritten.
    pub fn make(directory: &Path, name: &str, kind: KeyKind) -> Result<Self, PkiError> {
        let [key_file, request_file] = free_files(directory, name, ["key", "csr"])?;
        let pair = new_key(kind)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, name);
        let request = params.serialize_request(&pair)?.pem()?;
        write_secret(&key_file, &pair.serialize_pem())?;
        write(&request_file, &request)?;
        Ok(Self { key_file, request_file })
    }
}
