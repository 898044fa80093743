//! The first administrator: write access to the data directory is sufficient to create one.

use std::io;
use std::path::{Path, PathBuf};

use upesi_types::hex;

use super::Token;
use super::token::{is_secret_good, now_s, read_secret, replace_private};

/// File in the data directory with the digest of the token and its expiry.
pub const BOOTSTRAP_FILE: &str = "bootstrap";
/// Lifetime of the token, in minutes.
pub const BOOTSTRAP_MINUTES: u64 = 15;
const LIFETIME_S: u64 = BOOTSTRAP_MINUTES * 60;

/// Reason why no token was created.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The system returned no random bits.
    #[error("the system has no random bits")]
    Random,
    /// The file cannot be written.
    #[error("{}: {source}", .file.display())]
    Write { file: PathBuf, source: io::Error },
}

/// Creates a token for the hub of a data directory and replaces an earlier one. The returned token is stored nowhere
/// else.
///
/// # Errors
/// The directory cannot be written to.
pub fn make_bootstrap(data: &Path) -> Result<String, BootstrapError> {
    let token = Token::random().ok_or(BootstrapError::Random)?;
    let file = data.join(BOOTSTRAP_FILE);
    let text = format!("{} {}\n", hex(&token.digest()), now_s() + LIFETIME_S);
    replace_private(&file, &text).map_err(|source| BootstrapError::Write { file, source })?;
    Ok(token.reveal())
}

/// Whether the file contains this token, and it has not expired.
pub(super) fn is_token_of(file: &Path, token: &Token) -> bool {
    read_secret(file).is_ok_and(|text| is_token_at(&text, token, now_s()))
}

fn is_token_at(text: &str, token: &Token, now_s: u64) -> bool {
    let Some((digest, until_s)) = text.trim_end().split_once(' ') else { return false };
    digest == hex(&token.digest()) && is_secret_good(until_s, now_s, LIFETIME_S)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn bootstrap_token_is_valid_until_the_next_one_or_its_expiry() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(BOOTSTRAP_FILE);
        let first = Token::received(&make_bootstrap(directory.path()).unwrap()).unwrap();
        let second = Token::received(&make_bootstrap(directory.path()).unwrap()).unwrap();
        assert!(is_token_of(&file, &second) && !is_token_of(&file, &first));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!is_token_of(&directory.path().join("other"), &second));
        let at =
            |until_s: u64| is_token_at(&format!("{} {until_s}\n", hex(&second.digest())), &second, 10_000);
        assert_eq!([9_999, 10_000, 10_001, 10_900, 10_901].map(at), [false, false, true, true, false]);
        for text in ["", "x", &hex(&second.digest()), &format!("{} x", hex(&second.digest()))] {
            assert!(!is_token_at(text, &second, 10_000), "{text}");
        }
    }
}
