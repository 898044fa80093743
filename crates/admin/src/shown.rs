//! Text from outside for log and audit trail: shortened, and without characters that control terminals.

use upesi_types::text::escape;

/// Maximum number of characters of a path.
const PATH_CHARS_MAX: usize = 128;

/// The path of a request.
pub(crate) fn shown(path: &str) -> String {
    match path.char_indices().nth(PATH_CHARS_MAX) {
        None => escape(path).into_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", escape(&path[..end]), path.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_truncated_and_hidden_characters_escaped() {
        assert_eq!(shown("/participants/green"), "/participants/green");
        assert_eq!(shown("/a\u{1b}[2J\u{202e}ü"), "/a\\u001b[2J\\u202eü");
        let exact = format!("/{}", "x".repeat(127));
        assert_eq!(shown(&exact), exact);
        let long = format!("/{}", "x".repeat(60_000));
        assert_eq!(shown(&long), format!("{exact}… (60001 bytes)"));
        assert!(shown(&"\u{10ffff}".repeat(1_000)).len() < 2_000);
    }
}
