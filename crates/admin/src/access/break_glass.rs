//! Break-glass: a code in a sealed envelope opens a token for an hour. The token allows actions that prevent damage
//! when no authorised operator is available. It moves no money and approves nothing.

use std::io;
use std::path::{Path, PathBuf};

use upesi_types::hex;

use super::Permission::*;
use super::token::{is_secret_good, now_s, read_secret, replace_private};
use super::{Permission, Token};

/// File in the data directory with the digest of the code, or of the token with its expiry.
pub const BREAK_GLASS_FILE: &str = "break-glass";
/// Lifetime of the token, in minutes.
pub const BREAK_GLASS_MINUTES: u64 = 60;
const LIFETIME_S: u64 = BREAK_GLASS_MINUTES * 60;

/// Permissions of the token: reading, blocking, disabling, removing, and redelivery of callbacks. Of the changes of
/// operators, the ledger permits only to activate an administrator again.
pub(super) const EMERGENCY: &[Permission] = &[
    ParticipantRead,
    SettlementRead,
    TransferSearch,
    TransferRead,
    DirectoryRead,
    CallbackRead,
    ProcessRead,
    ProcessMetrics,
    ApprovalRead,
    AuditRead,
    IamRead,
    ParticipantDisable,
    AccountDisable,
    BindingRemove,
    JwsRevoke,
    BlockSet,
    CallbackRedeliver,
    ProcessLog,
    IamUser,
];

/// Reason why a code was not created or used.
#[derive(Debug, thiserror::Error)]
pub enum BreakGlassError {
    /// The system returned no random bits.
    #[error("the system has no random bits")]
    Random,
    /// The file cannot be read or written.
    #[error("{}: {source}", .file.display())]
    File { file: PathBuf, source: io::Error },
    /// The code is wrong or was already used, or no code exists.
    #[error("this code is not valid: it was used, or another code has been sealed")]
    Code,
}

/// Creates a new code for the hub of a data directory and replaces an earlier one; an open token ends. The returned
/// code is stored nowhere else.
///
/// # Errors
/// The directory cannot be written to.
pub fn seal_break_glass(data: &Path) -> Result<String, BreakGlassError> {
    let code = Token::break_glass().ok_or(BreakGlassError::Random)?;
    write(data, &format!("sealed {}\n", hex(&code.digest())))?;
    Ok(code.reveal())
}

/// Exchanges the code for a token; the code becomes invalid. The returned token is stored nowhere else.
///
/// # Errors
/// The code is wrong, or the directory cannot be written to.
pub fn open_break_glass(data: &Path, code: &str) -> Result<String, BreakGlassError> {
    let code = Token::received(code.trim()).ok_or(BreakGlassError::Code)?;
    let file = data.join(BREAK_GLASS_FILE);
    let refuse = |source| BreakGlassError::File { file: file.clone(), source };
    let text = read_secret(&file).map_err(refuse)?;
    if text.trim_end() != format!("sealed {}", hex(&code.digest())) {
        return Err(BreakGlassError::Code);
    }
    let token = Token::random().ok_or(BreakGlassError::Random)?;
    write(data, &format!("open {} {}\n", hex(&token.digest()), now_s() + LIFETIME_S))?;
    Ok(token.reveal())
}

/// Whether the file contains a token that is valid now.
pub fn is_break_glass_open(file: &Path) -> bool {
    read_secret(file).is_ok_and(|text| opened(&text, now_s()).is_some())
}

/// Whether the file contains this token, and it has not expired.
pub(super) fn is_token_of(file: &Path, token: &Token) -> bool {
    read_secret(file).is_ok_and(|text| opened(&text, now_s()) == Some(hex(&token.digest()).as_str()))
}

/// The digest of the open token, if it is valid at this second.
fn opened(text: &str, now_s: u64) -> Option<&str> {
    let (digest, until_s) = text.trim_end().strip_prefix("open ")?.split_once(' ')?;
    is_secret_good(until_s, now_s, LIFETIME_S).then_some(digest)
}

/// Replaces the file.
fn write(data: &Path, text: &str) -> Result<(), BreakGlassError> {
    let file = data.join(BREAK_GLASS_FILE);
    replace_private(&file, text).map_err(|source| BreakGlassError::File { file, source })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn code_opens_one_token_for_an_hour() {
        let directory = tempfile::tempdir().unwrap();
        let (data, file) = (directory.path(), directory.path().join(BREAK_GLASS_FILE));
        let none = open_break_glass(data, &Token::break_glass().unwrap().reveal());
        assert!(matches!(none, Err(BreakGlassError::File { .. })));
        let old = seal_break_glass(data).unwrap();
        let code = seal_break_glass(data).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!is_break_glass_open(&file));
        // The code itself is not a token.
        assert!(!is_token_of(&file, &Token::received(&code).unwrap()));
        for wrong in [&*old, "", "x", &format!("{code}x")] {
            assert!(matches!(open_break_glass(data, wrong), Err(BreakGlassError::Code)), "{wrong}");
        }
        let token = Token::received(&open_break_glass(data, &format!("{code}\n")).unwrap()).unwrap();
        assert!(is_break_glass_open(&file) && is_token_of(&file, &token));
        assert!(!is_token_of(&file, &Token::random().unwrap()));
        // The code is used up.
        assert!(matches!(open_break_glass(data, &code), Err(BreakGlassError::Code)));
        assert!(is_token_of(&file, &token));
        seal_break_glass(data).unwrap();
        assert!(!is_token_of(&file, &token));
    }

    #[test]
    fn token_expires_after_an_hour_even_with_a_wrong_clock() {
        let is_good = |until_s: u64| opened(&format!("open ab {until_s}\n"), 10_000).is_some();
        let found = [9_999, 10_000, 10_001, 13_600, 13_601].map(is_good);
        assert_eq!(found, [false, false, true, true, false]);
        for text in ["", "open", "open ab", "open ab x", "sealed ab 10001"] {
            assert_eq!(opened(text, 10_000), None, "{text}");
        }
    }
}
