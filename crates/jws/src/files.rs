//! Keys as files: PEM, however the tools of participants wrote it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::{PemObject, SectionKind};
use upesi_keys::read_limited;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// A file or directory that is missing or unreadable.
    #[error("{path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file without what it is for.
    #[error("{path} {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl KeyFileError {
    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}

/// A section of a PEM file that can be a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// `PUBLIC KEY` (X.509).
    Public(Vec<u8>),
    /// `CERTIFICATE`.
    Certificate(Vec<u8>),
    /// `PRIVATE KEY` (PKCS #8).
    Private(Vec<u8>),
    /// `RSA PRIVATE KEY` (PKCS #1).
    RsaPrivate(Vec<u8>),
}

impl PemObject for Section {
    fn from_pem(kind: SectionKind, der: Vec<u8>) -> Option<Self> {
        match kind {
            SectionKind::PublicKey => Some(Self::Public(der)),
            SectionKind::Certificate => Some(Self::Certificate(der)),
            SectionKind::PrivateKey => Some(Self::Private(der)),
            SectionKind::RsaPrivateKey => Some(Self::RsaPrivate(der)),
            _ => None,
        }
    }
}

/// Reads a file that must not be large.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    read_limited(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            KeyFileError::content(path, format!("is larger than {FILE_BYTES_MAX} bytes"))
        }
        _ => KeyFileError::read(path)(error),
    })
}

/// The sections of a PEM file. Tools that pass keys on as JSON leave line ends as `\r\n` or `\n` in letters.
pub(crate) fn sections(path: &Path, bytes: &[u8]) -> Result<Vec<Section>, KeyFileError> {
    let text = String::from_utf8_lossy(bytes).replace("\\r", "").replace("\\n", "\n");
    let found = Section::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    found.map_err(|error| KeyFileError::content(path, format!("is no sound PEM: {error:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_of_any_kind_are_taken() {
        let pem = "-----BEGIN PUBLIC KEY-----\nAQID\n-----END PUBLIC KEY-----\n";
        for written in [pem.to_owned(), pem.replace('\n', "\r\n"), pem.replace('\n', "\\r\\n")] {
            let sections = sections(Path::new("key.pem"), written.as_bytes()).unwrap();
            assert_eq!(sections, [Section::Public(vec![1, 2, 3])], "{written}");
        }
    }
}
