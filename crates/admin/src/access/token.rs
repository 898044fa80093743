//! Tokens: 256 random bits, stored only as a digest. And files with such digests.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Prefix of this hub's tokens, so that scanners for leaked secrets recognise them.
const PREFIX: &str = "upesi_";
/// Prefix of the tokens of sessions and enrolments.
const SESSION: &str = "upesi_session_";
const ENROLMENT: &str = "upesi_enrol_";
/// Prefix of break-glass codes.
const BREAK_GLASS: &str = "upesi_break_";
/// Maximum length of a token.
const TOKEN_BYTES_MAX: usize = 128;

/// A token. It prints as a mask.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// A new token; `None` if the system returned no random bits.
    pub(crate) fn random() -> Option<Self> {
        Self::beginning_with(PREFIX)
    }

    /// A new token of a session.
    pub(crate) fn session() -> Option<Self> {
        Self::beginning_with(SESSION)
    }

    /// A new token of an enrolment.
    pub(crate) fn enrolment() -> Option<Self> {
        Self::beginning_with(ENROLMENT)
    }

    /// A new break-glass code.
    pub(crate) fn break_glass() -> Option<Self> {
        Self::beginning_with(BREAK_GLASS)
    }

    fn beginning_with(prefix: &str) -> Option<Self> {
        let mut bits = [0; 32];
        rand::fill(&mut bits).ok()?;
        Some(Self(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bits))))
    }

    /// Whether it may be the token of a session.
    pub(crate) fn is_of_session(&self) -> bool {
        self.0.starts_with(SESSION)
    }

    /// A token from a request.
    pub(crate) fn received(text: &str) -> Option<Self> {
        (text.len() <= TOKEN_BYTES_MAX && text.starts_with(PREFIX)).then(|| Self(text.to_owned()))
    }

    /// The stored digest.
    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The token itself, for the only answer that contains it.
    pub(crate) fn reveal(self) -> String {
        self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("upesi_…")
    }
}

// Files of the data directory with the digest of a secret. A user who can write to this directory controls the hub
// anyway.

/// Maximum size of such a file.
const FILE_BYTES_MAX: u64 = 256;

/// The text of such a file.
pub(super) fn read_secret(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file that only its owner may read. The file has either the old or the new text.
///
/// # Errors
/// Its directory cannot be written to.
pub fn replace_private(file: &Path, text: &str) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    fs::rename(&beside, file)
}

/// Whether a secret is valid now, given its expiry in seconds as text. If the expiry is further ahead than the
/// lifetime, the clock was wrong then or is wrong now.
pub(super) fn is_secret_good(until_s: &str, now_s: u64, lifetime_s: u64) -> bool {
    let left_s = until_s.parse().ok().and_then(|until_s: u64| until_s.checked_sub(now_s));
    left_s.is_some_and(|left_s| (1..=lifetime_s).contains(&left_s))
}

/// Seconds since 1970 by the machine's clock, because the commands that write such files run without a hub.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
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
