//! Private keys (L0): one trait for all of them, wherever they are.
//!
//! - [`Key`]: signs digests, and says which public key verifies them.
//! - [`Place`]: where a key is: a file, also of a mounted secret, or an object of a PKCS #11 token.
//! - [`Keys`]: opens places, and lets a key sign once before it counts.
//! - [`Secret`]: bytes that a key gives for a purpose.
//! - [`Mount`]: reads the files of a mounted secret as they were at one moment.
//!
//! Libraries: aws-lc for keys in files, cryptoki for tokens. Reasons: `docs/decisions/0067-keys.md`.

mod der;
mod error;
mod file;
mod key;
mod mount;
mod place;
mod secret;
mod token;

pub use der::ecdsa_signature;
pub use error::KeyError;
pub use file::{FileKey, read_private};
pub use key::{Hash, Key, Kind, NotSigned, Scheme};
pub use mount::Mount;
pub use place::{NotAPlace, Place, TokenKeyName};
pub use secret::Secret;
pub use token::{TokenSettings, Tokens};

use std::sync::Arc;

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
