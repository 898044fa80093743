//! Files of the authority, which are replaced atomically.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::PkiError;

pub(crate) fn failed(file: &Path, source: std::io::Error) -> PkiError {
    PkiError::File { file: file.to_owned(), source }
}

pub(crate) fn write(file: &Path, text: &str) -> Result<(), PkiError> {
    write_with_mode(file, text, 0o644)
}

pub(crate) fn write_secret(file: &Path, text: &str) -> Result<(), PkiError> {
    write_with_mode(file, text, 0o600)
}

/// Replaces the file atomically: a hub that reads it meanwhile finds the old or the new one.
fn write_with_mode(file: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = file.with_file_name(name);
    let written = (|| {
        // A file that remained after a crash may have another mode.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&temporary, file)
    })();
    written.map_err(|source| failed(file, source))
}
