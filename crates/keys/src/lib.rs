//! Private keys (L0): one trait for all of them, wherever they are.
//!
//! - [`Key`]: signs digests, and says which public key verifies them.
//! - [`Place`]: where a key is: a file, also of a mounted secret, or an object of a PKCS #11 token.
//! - [`Keys`]: opens places, and lets a key sign once before it counts.
//! - [`Secret`]: bytes that a key gives for a purpose.
//! - [`pem_text`]: the text of a PEM file, without a byte-order mark.
//! - [`Mount`]: reads the files of a mounted secret as they were at one moment.
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

    /// Opens a key, and has it sign something. One is refused that cannot sign, or whose public key does not
    /// verify it.
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

    /// The secret that an RSA key gives for a purpose.
    ///
    /// # Errors
    /// The key cannot be used, or is none of RSA.
    pub fn secret(&self, place: &Place, purpose: &str) -> Result<Secret, KeyError> {
        Secret::of(&*self.open(place)?, purpose).ok_or_else(|| KeyError::GivesNoSecret(place.clone()))
    }

    /// Sessions with tokens that are open.
    pub fn sessions(&self) -> usize {
        self.tokens.as_ref().map_or(0, |tokens| tokens.sessions())
    }

    /// Signatures that can be made at a time: those in files by one thread, those of a token by one for each of its
    /// sessions.
    pub fn signatures_at_a_time(&self, place: &Place) -> usize {
        match (place, &self.tokens) {
            (Place::Token(_), Some(tokens)) => tokens.sessions_max(),
            _ => 1,
        }
    }
}

// Why a key cannot be used.

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
        "{} contains a secret that every user of this machine can read; run: chmod 600 {} (for a mounted secret: \
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
    #[error("{0} is not an RSA key; a deterministic secret requires RSA")]
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
