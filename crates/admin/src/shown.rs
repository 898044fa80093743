//! Text from outside as log and audit trail keep it: bounded, and without characters that a terminal obeys.

/// Characters of a path that are kept.
const PATH_CHARS_MAX: usize = 128;

/// The path of a request.
pub(crate) fn shown(path: &str) -> String {
    let mut text = String::with_capacity(path.len().min(PATH_CHARS_MAX));
    for letter in path.chars().take(PATH_CHARS_MAX) {
        match letter {
            ' '..='~' => text.push(letter),
            _ => text.extend(letter.escape_unicode()),
        }
    }
    if path.chars().nth(PATH_CHARS_MAX).is_some() {
        text.push_str(&format!("… ({} bytes)", path.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_and_odd_characters_are_escaped() {
        assert_eq!(shown("/participants/green"), "/participants/green");
        assert_eq!(shown("/a\u{1b}[2J\u{202e}ü"), "/a\\u{1b}[2J\\u{202e}\\u{fc}");
        let exact = format!("/{}", "x".repeat(127));
        assert_eq!(shown(&exact), exact);
        let long = format!("/{}", "x".repeat(60_000));
        assert_eq!(shown(&long), format!("{exact}… (60001 bytes)"));
        assert!(shown(&"\u{10ffff}".repeat(1_000)).len() < 2_000);
    }
}
