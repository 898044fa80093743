//! Why a key cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::place::{Place, TokenKeyName};

/// Why a private key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file that is missing or unreadable.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A private key, or a PIN, that others may read.
    #[error(
        "{} holds a secret that every user of this machine may read; run: chmod 600 {} (of a mounted secret: \
         defaultMode: 0400)", path.display(), path.display()
    )]
    IsPublic {
        /// The file.
        path: PathBuf,
    },
    /// A file without what it is for.
    #[error("{} {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A key of a token, and no module to reach it.
    #[error("{0} needs the PKCS #11 module of its token: set pkcs11.module and pkcs11.pin_file")]
    NoModule(TokenKeyName),
    /// A module or token that does not do what it should.
    #[error("{what}: {problem}")]
    Token {
        /// The module, the token or the key.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// A key whose signatures differ each time.
    #[error("{0} is no RSA key: only these give a secret that stays the same")]
    GivesNoSecret(Place),
    /// A key whose signature its own public key does not verify.
    #[error("{0} did not sign a trial message, or signed it as another key; see the token's log")]
    DoesNotSign(Place),
}

impl KeyError {
    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
