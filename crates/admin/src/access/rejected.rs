//! Counts of rejected credentials, by kind.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// A token that the hub issued: an operator's, the bootstrap token or the break-glass token.
    Token,
    /// A token of a session.
    Session,
    /// A token that a provider may have issued.
    Provider,
    /// A name with password and code, at a login.
    Password,
    /// Anything else.
    Unknown,
}

impl CredentialKind {
    const ALL: [Self; 5] = [Self::Token, Self::Session, Self::Provider, Self::Password, Self::Unknown];

    const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Session => "session",
            Self::Provider => "provider",
            Self::Password => "password",
            Self::Unknown => "unknown",
        }
    }
}

/// The counts since the start.
#[derive(Debug, Default)]
pub(super) struct RejectionCounts([AtomicU64; CredentialKind::ALL.len()]);

impl RejectionCounts {
    pub(super) fn count(&self, kind: CredentialKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        CredentialKind::ALL.iter().map(|kind| (kind.name(), self.0[*kind as usize].load(Ordering::Relaxed)))
    }
}
