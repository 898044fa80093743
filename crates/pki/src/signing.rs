//! Keys by which messages are signed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::PkiError;
use crate::authority::{check_name, failed, new_key, write, write_secret};
use crate::request::KeyKind;

/// The files of a new signing key.
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// Its private part, readable by its owner only.
    pub key_file: PathBuf,
    /// Its public part, for those who verify.
    pub public_file: PathBuf,
}

impl SigningKey {
    /// Makes a key as `NAME.key` and `NAME.pem` in a directory, which is made if missing. Files that are there stay.
    pub fn make(directory: &Path, name: &str, kind: KeyKind) -> Result<Self, PkiError> {
        check_name(name)?;
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        let made = Self { key_file: file("key"), public_file: file("pem") };
        if let Some(file) = [&made.key_file, &made.public_file].into_iter().find(|file| file.exists()) {
            return Err(PkiError::KeyExists(file.clone()));
        }
        let pair = new_key(kind)?;
        write_secret(&made.key_file, &pair.serialize_pem())?;
        write(&made.public_file, &pair.public_key_pem())?;
        Ok(made)
    }
}
