//! Private keys (L0): one trait for keys in files and in tokens.
//!
//! - [`Key`]: signs digests, and provides its public key.
//! - [`Place`]: location of a key: a file, also of a mounted secret, or an object of a PKCS #11 token.
//! - [`Keys`]: opens keys, and tests each with a signature.
//! - [`Secret`]: bytes that are derived from a key for a purpose.
//! - [`pem_text`]: the text of a PEM file, without a byte-order mark.
//! - [`Mount`]: reads a consistent version of the files of a mounted secret.
//! - [`read_limited`]: reads a file from outside up to a limit.
//!
//! Libraries: aws-lc for keys in files, cryptoki for tokens. Reasons: `docs/decisions/0067-keys.md`.

mod file;
mod key;
mod limited;
mod pem;
mod place;
mod token;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use file::{FileKey, read_private};
pub use key::{Hash, Key, Kind, NotSigned, Scheme, Secret};
pub use limited::{OtherForm, read_limited, read_limited_text};
pub use pem::{pem_text, without_byte_order_mark};
pub use place::{Mount, NotAPlace, Place, TokenKeyName};
pub use token::{TokenSettings, Tokens, ecdsa_signature};

/// Opens keys.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    tokens: Option<Arc<Tokens>>,
}

impl Keys {
    /// Opens keys in files only.
    pub const fn in_files() -> Self {
        Self { tokens: None }
    }

    /// Opens keys in files and in the tokens of a PKCS #11 module.
    pub fn with_tokens(tokens: Tokens) -> Self {
        Self { tokens: Some(Arc::new(tokens)) }
    }

    /// Opens a key, and tests it with a signature. A key is rejected if it cannot sign, or if its public key does not
    /// verify the signature.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn open(&self, place: &Place) -> Result<Arc<dyn Key>, KeyError> {
        let key: Arc<dyn Key> = match place {
            Place::File(path) => Arc::new(FileKey::load(path)?),
            Place::Token(name) => match &self.tokens {
                Some(tokens) => Arc::new(tokens.key(name)?),
                None => return Err(KeyError::NoModule(name.clone())),
            },
        };
        match key::signs(&*key) {
            true => Ok(key),
            false => Err(KeyError::DoesNotSign(place.clone())),
        }
    }

    /// The secret that is derived from an RSA key for a purpose.
    ///
    /// # Errors
    /// The key cannot be used, or is not an RSA key.
    pub fn secret(&self, place: &Place, purpose: &str) -> Result<Secret, KeyError> {
        Secret::of(&*self.open(place)?, purpose).ok_or_else(|| KeyError::GivesNoSecret(place.clone()))
    }

    /// Number of open sessions with tokens.
    pub fn sessions(&self) -> usize {
        self.tokens.as_ref().map_or(0, |tokens| tokens.sessions())
    }

    /// Number of signatures that can be made at the same time: one with a key in a file, otherwise one for each session
    /// of the token.
    pub fn signatures_at_a_time(&self, place: &Place) -> usize {
        match (place, &self.tokens) {
            (Place::Token(_), Some(tokens)) => tokens.sessions_max(),
            _ => 1,
        }
    }
}

// Errors of keys.

/// Reason why a private key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file that is missing or unreadable.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Other users may read a private key or a PIN.
    #[error(
        "{} contains a secret that every user of this machine can read; run: chmod 600 {} (for a mounted secret: \
         defaultMode: 0400)", path.display(), path.display()
    )]
    IsPublic {
        /// The file.
        path: PathBuf,
    },
    /// The content of the file is invalid.
    #[error("{} {problem}", path.display())]
    Content {
        /// The file.
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
    GivesNoSecret(Place),
    /// The key's own public key does not verify its signature.
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
