//! Private keys (L0): one trait for keys in files and in tokens.
//!
//! - [`Key`]: signs digests, and provides its public key.
//! - [`PrivateKeyLocation`]: location of a key: a file, also of a mounted secret, or an object of a PKCS #11 token.
//! - [`Keys`]: opens keys, and tests each with a signature.
//! - [`Secret`]: bytes that are derived from a key for a purpose.
//! - [`pem_text`]: the text of a PEM file, without a byte-order mark.
//! - [`Mount`]: reads a consistent version of the files of a mounted secret.
//! - [`read_limited`]: reads a file from outside up to a limit.
//!
//! Libraries: aws-lc for keys in files, cryptoki for tokens. Reasons: `docs/decisions/0067-keys.md`.

mod error;
mod file;
mod key;
mod limited;
mod location;
mod mount;
mod pem;
mod secret;
mod token;

use std::sync::Arc;

pub use file::{FileKey, read_private};
pub use key::{Hash, Key, KeyFamily, NotSigned, Scheme};
pub use limited::{OtherForm, read_limited, read_limited_text};
pub use location::{NotALocation, PrivateKeyLocation, TokenKeyName};
pub use mount::Mount;
pub use pem::{pem_text, without_byte_order_mark};
pub use secret::Secret;
pub use token::{TokenSettings, Tokens, ecdsa_signature};

pub use self::error::KeyError;

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
    pub fn open(&self, place: &PrivateKeyLocation) -> Result<Arc<dyn Key>, KeyError> {
        let key: Arc<dyn Key> = match place {
            PrivateKeyLocation::File(path) => Arc::new(FileKey::load(path)?),
            PrivateKeyLocation::Token(name) => match &self.tokens {
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
    pub fn secret(&self, place: &PrivateKeyLocation, purpose: &str) -> Result<Secret, KeyError> {
        Secret::of(&*self.open(place)?, purpose).ok_or_else(|| KeyError::GivesNoSecret(place.clone()))
    }

    /// Number of open sessions with tokens.
    pub fn sessions(&self) -> usize {
        self.tokens.as_ref().map_or(0, |tokens| tokens.sessions())
    }

    /// Number of signatures that can be made at the same time: one with a key in a file, otherwise one for each session
    /// of the token.
    pub fn signatures_at_a_time(&self, place: &PrivateKeyLocation) -> usize {
        match (place, &self.tokens) {
            (PrivateKeyLocation::Token(_), Some(tokens)) => tokens.sessions_max(),
            _ => 1,
        }
    }
}
