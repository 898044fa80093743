//! The id in a path.

use upesi_fspiop::SyncError;
use upesi_ledger::TransferRef;
use upesi_types::{ErrorCode, TransferId};

/// Longest id in a path, in characters as they are written there.
pub(crate) const PATH_ID_CHARS_MAX: usize = 128;

/// Reads the id of a path. FSPIOP has no pattern for it, so what is no transfer id is kept as it was written, to be
/// answered by an error callback under that very path.
///
/// A percent-encoded transfer id is the id. Any other text stays encoded: it goes into headers and URLs of callbacks,
/// where a decoded line break or slash would change their meaning.
///
/// Errors: 400 with 3100 for an id that is too long or that no path should carry.
pub(crate) fn parse_path_id(segment: &str) -> Result<TransferRef, SyncError> {
    if let Some(id) = TransferId::parse(segment) {
        return Ok(id.into());
    }
    if segment.chars().nth(PATH_ID_CHARS_MAX).is_some() {
        return Err(refuse(&format!("must NOT have more than {PATH_ID_CHARS_MAX} characters")));
    }
    if !segment.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse("must be ASCII, percent-encoded where it is not"));
    }
    let decoded = decode(segment).ok_or_else(|| refuse("is not percent-encoded UTF-8"))?;
    if decoded.chars().any(char::is_control) || matches!(decoded.as_str(), "." | "..") {
        return Err(refuse("must be an identifier"));
    }
    Ok(TransferId::parse(&decoded).map_or_else(|| TransferRef::Text(segment.into()), TransferRef::Id))
}

fn refuse(violation: &str) -> SyncError {
    SyncError::new(ErrorCode::VALIDATION, &format!("/path/ID {violation}"))
}

fn decode(segment: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    loop {
        match rest {
            [] => return String::from_utf8(decoded).ok(),
            [b'%', high, low, after @ ..] => {
                decoded.push(hex(*high)? << 4 | hex(*low)?);
                rest = after;
            }
            [b'%', ..] => return None,
            [byte, after @ ..] => {
                decoded.push(*byte);
                rest = after;
            }
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    #[test]
    fn ids_are_ids_however_they_are_encoded() {
        let id = TransferRef::Id(TransferId::parse(ID).unwrap());
        assert_eq!(parse_path_id(ID), Ok(id.clone()));
        assert_eq!(parse_path_id(&ID.replacen('5', "%35", 1)), Ok(id.clone()));
        assert_eq!(parse_path_id(&ID.replace('d', "%64")), Ok(id.clone()));
        let whole: String = ID.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(parse_path_id(&whole), Ok(id));
    }

    #[test]
    fn other_texts_stay_as_written() {
        for text in ["x", "any%20text", "a%2Fb", "caf%C3%A9", "...", "5B1C7D0E", &"x".repeat(128)] {
            assert_eq!(parse_path_id(text), Ok(TransferRef::Text(text.into())), "{text}");
        }
    }

    #[test]
    fn texts_that_no_path_should_carry_are_refused() {
        for (text, detail) in [
            (&*"x".repeat(129), "/path/ID must NOT have more than 128 characters"),
            ("café", "/path/ID must be ASCII"),
            ("a b", "/path/ID must be ASCII"),
            ("%", "/path/ID is not percent-encoded UTF-8"),
            ("%4", "/path/ID is not percent-encoded UTF-8"),
            ("%+4", "/path/ID is not percent-encoded UTF-8"),
            ("%zz", "/path/ID is not percent-encoded UTF-8"),
            ("%ff", "/path/ID is not percent-encoded UTF-8"),
            ("a%00b", "/path/ID must be an identifier"),
            ("a%0d%0ax-evil:%201", "/path/ID must be an identifier"),
            (".", "/path/ID must be an identifier"),
            ("..", "/path/ID must be an identifier"),
            ("%2e%2E", "/path/ID must be an identifier"),
        ] {
            let error = parse_path_id(text).unwrap_err();
            assert_eq!((error.status, error.code), (400, ErrorCode::VALIDATION), "{text}");
            assert!(error.description.contains(detail), "{text}: {}", error.description);
        }
    }
}
