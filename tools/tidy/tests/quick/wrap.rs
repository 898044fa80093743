//! The formatter wraps lines that are too wide, and changes nothing else.

use std::path::PathBuf;

use upesi_tidy::{tree, wrap};

/// Words of a text without the markers of comments, in order.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| !["//", "///", "//!"].contains(word)).collect()
}

#[test]
fn paragraph_is_wrapped_from_its_first_wide_line() {
    let before = "    /// A short line.\n    /// A second line that is certainly too wide\n    /// for it.\n    ///\n    /// Short.\n    fn f() {}\n";
    let after = "    /// A short line.\n    /// A second line that is\n    /// certainly too wide for it.\n    ///\n    /// Short.\n    fn f() {}\n";
    assert_eq!(wrap::source(before, 34), after);
    assert_eq!(wrap::source(after, 34), after);
}

#[test]
fn items_keep_their_indentation() {
    let before =
        "- an item that is too wide for a line\n- another\n  1. nested and much too wide\n     for it\n\nend";
    let after = "- an item that is\n  too wide for a\n  line\n- another\n  1. nested and much\n     too wide for it\n\nend";
    assert_eq!(wrap::page(before, 20), after);
}

#[test]
fn code_tables_headings_and_long_words_are_not_wrapped() {
    let page = "# A heading that is too wide\n\n| a table | that is too wide |\n\n    code that is too wide\n\n```\nfenced and too wide too\n```\n\n[link]: https://example.org/too/wide\nhttps://example.org/too/wide\n\ncolumns   that are   aligned\n";
    assert_eq!(wrap::page(page, 16), page);
    let literal = "const PAGE: &str = r\"\n// no comment, and too wide\n\";\n";
    assert_eq!(wrap::source(literal, 16), literal);
    let broken = "fn f( {\n// a comment in a source with a mistake\n";
    assert_eq!(wrap::source(broken, 16), broken);
}

#[test]
fn wrapped_line_does_not_begin_with_markup() {
    assert_eq!(wrap::page("the sum of a + b is never\n", 12), "the sum of a +\nb is never\n");
    assert_eq!(wrap::page("it was in the year 1999. Then\n", 18), "it was in the year 1999.\nThen\n");
}

/// In a narrower width nearly all paragraphs are wrapped.
#[test]
fn wrapping_keeps_all_words_and_is_idempotent() {
    let is_sample =
        |path: &PathBuf| path.starts_with("crates/ledger") || path.extension() == Some("md".as_ref());
    let mut changed = 0;
    for path in tree::files(&["rs", "md"]).into_iter().filter(is_sample) {
        let text = tree::read(&path);
        let format = if path.extension() == Some("md".as_ref()) { wrap::page } else { wrap::source };
        let wrapped = format(&text, 70);
        assert_eq!(words(&wrapped), words(&text), "{}", path.display());
        assert_eq!(format(&wrapped, 70), wrapped, "{}", path.display());
        changed += usize::from(wrapped != text);
    }
    assert!(changed > 100, "{changed}");
}
