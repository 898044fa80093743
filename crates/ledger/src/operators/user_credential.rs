//! Login at the hub itself: a password, and a second factor that is encrypted with it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec;
use core::fmt::{self, Debug, Formatter};

use upesi_types::{Timestamp, hex};

use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::stored_struct;

/// Length of a second factor's secret, in bytes.
pub const SEED_BYTES: usize = 20;
/// Length of the encrypted secret in bytes, including its authentication tag.
pub const SEALED_BYTES: usize = SEED_BYTES + 16;

/// The secret of a second factor, encrypted with a key from the password. A reader of this value learns neither of
/// them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealedSecret {
    /// Salt of the password hash. Each encryption has a new one.
    pub salt: [u8; 16],
    /// Memory that the hash uses, in KiB.
    pub memory_kib: u32,
    /// Number of passes over that memory.
    pub passes: u32,
    /// The secret, encrypted with the hash as key, and a tag that is valid only for this password.
    pub secret: [u8; SEALED_BYTES],
}

/// A user's password and second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserCredential {
    /// The number among the credentials of the operator.
    pub id: u32,
    /// The second factor, encrypted with the password.
    pub sealed: SealedSecret,
    /// Time when both were set.
    pub set_at: Timestamp,
    /// The last time step whose code was used. Codes of this and earlier steps are rejected.
    pub code_step: u64,
}

stored_struct! {
    SealedSecret { salt, memory_kib, passes, secret }
    UserCredential { id, sealed, set_at, code_step }
}

impl SealedSecret {
    /// The beginning of the salt, which identifies the password in output.
    fn fingerprint(&self) -> String {
        hex(&self.salt[..4])
    }
}

impl Debug for SealedSecret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "password {}", self.fingerprint())
    }
}

impl Show for UserCredential {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("credentialId", self.id.show()),
            ("kind", PrintedValue::Text(Cow::Borrowed("password"))),
            ("fingerprint", PrintedValue::Text(Cow::Owned(self.sealed.fingerprint()))),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "password {} {}", self.id, self.sealed.fingerprint())
    }
}
