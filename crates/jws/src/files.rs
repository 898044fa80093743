//! Keys in PEM files, as written by the tools of participants.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::{PemObject, SectionKind};
use upesi_keys::{pem_text, read_limited};

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Reason why a file of keys cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyFileError {
    /// A file or directory that is missing or unreadable.
    #[error("{path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        source: Arc<io::Error>,
    },
    #[error("{path} {problem}")]
    Content {
        path: PathBuf,
        /// Description of the fault.
        problem: String,
    },
}

impl KeyFileError {
    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source: Arc::new(source) }
    }
}

/// A section of a PEM file that may be a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// `PUBLIC KEY` (X.509), or `RSA PUBLIC KEY` (PKCS #1).
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

/// Reads a file up to its size limit.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    read_limited(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            KeyFileError::content(path, format!("is larger than {FILE_BYTES_MAX} bytes"))
        }
        _ => KeyFileError::read(path)(error),
    })
}

/// The label of a public key in PKCS #1, which the PEM reader does not know, and a label that it knows.
const RSA_PUBLIC: &str = "RSA PUBLIC KEY-----";
const PUBLIC: &str = "PUBLIC KEY-----";

pub(crate) fn sections(path: &Path, bytes: &[u8]) -> Result<Vec<Section>, KeyFileError> {
    let text = pem_text(bytes).replace(RSA_PUBLIC, PUBLIC);
    let found = Section::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    found.map_err(|error| KeyFileError::content(path, format!("is not valid PEM: {error:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_byte_order_marks_and_pem_labels_are_accepted() {
        let pem = "-----BEGIN PUBLIC KEY-----\nAQID\n-----END PUBLIC KEY-----\n";
        let utf16: Vec<u8> = pem.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for written in [
            pem.as_bytes().to_vec(),
            pem.replace('\n', "\r\n").into_bytes(),
            pem.replace('\n', "\\r\\n").into_bytes(),
            [b"\xef\xbb\xbf", pem.as_bytes()].concat(),
            [b"\xff\xfe", &*utf16].concat(),
            pem.replace("PUBLIC", "RSA PUBLIC").into_bytes(),
        ] {
            let sections = sections(Path::new("key.pem"), &written).unwrap();
            assert_eq!(sections, [Section::Public(vec![1, 2, 3])], "{}", written.escape_ascii());
        }
    }
}
