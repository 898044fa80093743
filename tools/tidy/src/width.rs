//! The width of comments and pages.

/// Maximum length of a comment's line, in characters. The width of code is in `rustfmt.toml`.
pub const COMMENT_WIDTH_MAX: usize = 120;
/// Maximum length of a line of prose in a page, in characters. Tables, code and lines that are one link may be longer.
pub const PROSE_WIDTH_MAX: usize = 120;

/// The comment of a line of Rust, including its slashes; `None` if there is none.
pub fn comment(line: &str) -> Option<&str> {
    let start = line.trim_start();
    start.starts_with("//").then_some(start)
}

/// Lines of prose of a page with their numbers: without code, tables, and lines that are one link or path.
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
