//! Errors of keys.

use std::io;
use std::path::{Path, PathBuf};

use crate::location::{PrivateKeyLocation, TokenKeyName};

/// Reason why a private key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file that is missing or unreadable.
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Other users may read a private key or a PIN.
    #[error(
        "{} contains a secret that every user of this machine can read; run: chmod 600 {} (for a mounted secret: \
         defaultMode: 0400)", path.display(), path.display()
    )]
    IsPublic { path: PathBuf },
    /// The content of the file is invalid.
    #[error("{} {problem}", path.display())]
    Content {
        path: PathBuf,
        /// Description of the fault.
        problem: String,
    },
    /// A key of a token, but no module is configured.
    #[error("{0} needs the PKCS #11 module of its token: set pkcs11.module and pkcs11.pin_file")]
    NoModule(TokenKeyName),
    /// A module or token failed.
    #[error("{what}: {problem}")]
    Token {
        /// The module, the token or the key.
        what: String,
        /// Description of the failure.
        problem: String,
    },
    /// The signatures of the key are not deterministic.
    #[error("{0} is not an RSA key; a deterministic secret requires RSA")]
    GivesNoSecret(PrivateKeyLocation),
    /// The key's own public key does not verify its signature.
    #[error("{0} did not sign a trial message, or signed it as another key; see the token's log")]
    DoesNotSign(PrivateKeyLocation),
}

impl KeyError {
    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
