//! Width and wording of comments and pages.

/// Longest line of a comment, in characters; code is rustfmt's, with the same width.
pub const COMMENT_WIDTH_MAX: usize = 120;
/// Longest line of prose in a page, in characters. Tables, code and lines that are one link may be longer.
pub const PROSE_WIDTH_MAX: usize = 120;

/// Phrases that this house does not use, and what it says instead.
pub const BANNED: &[(&str, &str)] = &[
    ("the reference hub", "Mojaloop"),
    ("the community's", "Mojaloop's"),
    ("/// Which.", "a noun phrase, or nothing"),
    ("/// Whose.", "a noun phrase, or nothing"),
    ("/// How.", "a noun phrase, or nothing"),
    ("/// Why.", "a noun phrase, or nothing"),
    ("TODO", "an issue"),
    ("FIXME", "an issue"),
];

/// The comment of a line of Rust, from its slashes on; `None` without one.
pub fn comment(line: &str) -> Option<&str> {
    let start = line.trim_start();
    start.starts_with("//").then_some(start)
}

/// Lines of prose of a page with their numbers: neither code, nor tables, nor a single link or path.
pub fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        let is_prose = !is_code && !fence && !line.starts_with("    ") && !line.trim_start().starts_with('|');
        let is_breakable = line.trim_start().trim_start_matches("- ").contains(' ');
        (is_prose && is_breakable).then_some((index + 1, line))
    })
}

/// The first banned phrase in a text, and what to say instead.
pub fn banned(text: &str) -> Option<(&'static str, &'static str)> {
    BANNED.iter().copied().find(|(phrase, _)| text.contains(phrase))
}
