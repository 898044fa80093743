//! Tokens: 256 random bits, of which the hub keeps only a digest.

use std::fmt;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// What tokens of this hub begin with, so that scanners of leaked secrets know them.
const PREFIX: &str = "upesi_";
/// What tokens of sessions and of enrolments begin with.
const SESSION: &str = "upesi_session_";
const ENROLMENT: &str = "upesi_enrol_";
/// What codes of break-glass begin with.
const BREAK_GLASS: &str = "upesi_break_";
/// Longest text that may be a token.
const TOKEN_BYTES_MAX: usize = 128;

/// A token. It prints as a mask.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// A new one; `None` if the system has no random bits.
    pub(crate) fn random() -> Option<Self> {
        Self::beginning_with(PREFIX)
    }

    /// A new one for a session.
    pub(crate) fn session() -> Option<Self> {
        Self::beginning_with(SESSION)
    }

    /// A new one by which a person enrols.
    pub(crate) fn enrolment() -> Option<Self> {
        Self::beginning_with(ENROLMENT)
    }

    /// A new code of break-glass.
    pub(crate) fn break_glass() -> Option<Self> {
        Self::beginning_with(BREAK_GLASS)
    }

    fn beginning_with(prefix: &str) -> Option<Self> {
        let mut bits = [0; 32];
        rand::fill(&mut bits).ok()?;
        Some(Self(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bits))))
    }

    /// Whether it may be that of a session.
    pub(crate) fn is_of_session(&self) -> bool {
        self.0.starts_with(SESSION)
    }

    /// What a caller sent.
    pub(crate) fn received(text: &str) -> Option<Self> {
        (text.len() <= TOKEN_BYTES_MAX && text.starts_with(PREFIX)).then(|| Self(text.to_owned()))
    }

    /// What is kept of it.
    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The token itself, for the one answer that has it.
    pub(crate) fn reveal(self) -> String {
        self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("upesi_…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_do_not_print() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one.digest(), other.digest());
        assert_eq!(format!("{one:?}"), "upesi_…");
        let text = one.clone().reveal();
        assert_eq!(text.len(), PREFIX.len() + 43);
        assert_eq!(Token::received(&text).unwrap().digest(), one.digest());
        for wrong in ["", "Upesi_x", &format!("{PREFIX}{}", "a".repeat(TOKEN_BYTES_MAX))] {
            assert_eq!(Token::received(wrong), None, "{wrong}");
        }
    }
}
