//! What lets a person log in at the hub itself: a password, and a second factor that is sealed under it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec;
use core::fmt::{self, Debug, Formatter};

use upesi_types::{Timestamp, hex};

use crate::show::{Names, Show, Shown};
use crate::stored::stored_struct;

/// Bytes of the secret of a second factor.
pub const SEED_BYTES: usize = 20;
/// Bytes of that secret once it is sealed: it, and the tag.
pub const SEALED_BYTES: usize = SEED_BYTES + 16;

/// The secret of a second factor, sealed under a password. Whoever reads it has neither of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// What the password is hashed with. Each sealing has a new one.
    pub salt: [u8; 16],
    /// Memory that the hash takes, in KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// The secret under the key that the hash is, with a tag that holds for no other password.
    pub secret: [u8; SEALED_BYTES],
}

/// A person's password and second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    /// Its number among the credentials of the operator.
    pub id: u32,
    /// The second factor under the password.
    pub sealed: Sealed,
    /// When both were set.
    pub set_at: Timestamp,
    /// The last interval whose code was used: codes of it and of those before it are refused.
    pub code_step: u64,
}

stored_struct! {
    Sealed { salt, memory_kib, passes, secret }
    Person { id, sealed, set_at, code_step }
}

impl Sealed {
    /// What tells it from others: the beginning of the salt.
    fn fingerprint(&self) -> String {
        hex(&self.salt[..4])
    }
}

impl Debug for Sealed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "password {}", self.fingerprint())
    }
}

impl Show for Person {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![
            ("credentialId", self.id.show()),
            ("kind", Shown::Text(Cow::Borrowed("password"))),
            ("fingerprint", Shown::Text(Cow::Owned(self.sealed.fingerprint()))),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "password {} {}", self.id, self.sealed.fingerprint())
    }
}
