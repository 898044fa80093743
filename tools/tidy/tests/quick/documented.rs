//! Public functions, types and traits have a doc comment, and each missing one is found.

use std::path::Path;

use upesi_tidy::documented::{applies, examples, undocumented};
use upesi_tidy::tree;

#[test]
fn public_items_of_the_tree_have_a_comment() {
    let mut mistakes = Vec::new();
    for path in tree::files(&["rs"]).into_iter().filter(|path| applies(path)) {
        let found = undocumented(&tree::read(&path));
        let at = |line| format!("{}:{line}", path.display());
        mistakes.extend(found.iter().map(|one| format!("{}: {} has no doc comment", at(one.line), one.item)));
    }
    assert!(mistakes.is_empty(), "{} mistakes:\n{}", mistakes.len(), mistakes.join("\n"));
}

#[test]
fn comments_of_the_tree_contain_no_examples() {
    let files = tree::files(&["rs"]);
    let mistakes = files.iter().flat_map(|path| {
        let lines = examples(&tree::read(path));
        lines
            .into_iter()
            .map(move |line| format!("{}:{line}: a test should hold the example", path.display()))
    });
    let mistakes: Vec<String> = mistakes.collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn example_in_a_comment_is_found() {
    let source =
        "//! ```json\n//! {}\n//! ```\n//! ```\n//! run();\n//! ```\n    /// ```no_run\nlet a = \"```\";\n";
    assert_eq!(examples(source), [4, 7]);
}

/// The items without a comment, as `line: item`.
fn found(source: &str) -> Vec<String> {
    undocumented(source).iter().map(|one| format!("{}: {}", one.line, one.item)).collect()
}

const LONG: &str = "{\n    let a = 1;\n    a\n}\n";

#[test]
fn public_item_without_comment_is_found() {
    for (declaration, item) in [
        (format!("pub fn read() -> u8 {LONG}"), "fn read"),
        (format!("pub const fn read() -> u8 {LONG}"), "fn read"),
        (format!("pub async fn read() -> u8 {LONG}"), "fn read"),
        (format!("#[must_use]\npub fn read() -> u8 {LONG}"), "fn read"),
        ("pub struct Kind;".to_owned(), "struct Kind"),
        ("pub struct Kind(pub u8);".to_owned(), "struct Kind"),
        ("pub enum Kind {\n    One,\n}".to_owned(), "enum Kind"),
        ("pub trait Kind {}".to_owned(), "trait Kind"),
        ("pub type Kind = u8;".to_owned(), "type Kind"),
    ] {
        let line = 1 + usize::from(declaration.starts_with('#'));
        assert_eq!(found(&declaration), [format!("{line}: {item}")], "{declaration}");
        assert_eq!(found(&format!("// Not a doc comment.\n{declaration}")).len(), 1, "{declaration}");
        assert!(found(&format!("/// It is described.\n{declaration}")).is_empty(), "{declaration}");
        let restricted = declaration.replacen("pub ", "pub(crate) ", 1);
        assert!(found(&restricted).is_empty(), "{restricted}");
        assert!(found(&declaration.replacen("pub ", "", 1)).is_empty(), "{declaration}");
        let inside = format!("/// A module.\nmod inside {{\n{declaration}\n}}\n");
        assert_eq!(found(&inside), [format!("{}: {item}", line + 2)], "{inside}");
    }
}

#[test]
fn function_of_an_impl_or_a_trait_is_found() {
    let methods = format!("struct Kind;\nimpl<T: Fn(u8)> From<T> for Kind {{\n    pub fn read() {LONG}}}\n");
    assert_eq!(found(&methods), ["3: fn read"]);
    let functions =
        "    fn read(&self) -> u8;\n    fn one(&self) -> u8 {\n        1\n    }\n    type Item;\n";
    let named = ["3: fn read", "4: fn one"];
    assert_eq!(found(&format!("/// A trait.\npub trait Kind {{\n{functions}}}\n")), named);
    assert!(found(&format!("/// A trait.\ntrait Kind {{\n{functions}}}\n")).is_empty());
}

#[test]
fn item_that_needs_no_comment_is_not_found() {
    for source in [
        "/// A type.\npub struct Kind {\n    pub one: u8,\n    pub two: fn(u8) -> u8,\n}\n".to_owned(),
        "/// A type.\npub enum Kind {\n    One { two: u8 },\n}\n".to_owned(),
        "pub const READ: fn() -> u8 = || 1;\npub static ONE: u8 = 1;\npub use a::{b, c};\npub mod d;\n".to_owned(),
        "impl Kind {\n    pub fn one(&self) -> u8 {\n        1\n    }\n    pub fn two(&self) -> u8 { 2 }\n}\n".to_owned(),
        format!("impl Kind {{\n    pub fn new() -> Self {LONG}}}\n"),
        format!("fn outer() {{\n    pub fn inner() -> u8 {LONG}}}\n"),
        format!("#[cfg(test)]\nmod tests {{\n    pub fn read() -> u8 {LONG}}}\n"),
        format!("#![cfg(test)]\npub fn read() -> u8 {LONG}"),
        "macro_rules! kind {\n    ($name:ident) => {\n        pub struct $name;\n    };\n}\n".to_owned(),
        "kinds! {\n    pub struct Kind {}\n}\nother!(pub struct Kind;);\n".to_owned(),
    ] {
        assert!(found(&source).is_empty(), "{source}: {:?}", found(&source));
    }
    // The items after them are read again.
    let after = "pub const ONE: [u8; 1] = [1];\nkinds! { pub struct Kind; }\npub static TWO: u8 = { 2 };\npub struct Three;\n";
    assert_eq!(found(after), ["4: struct Three"]);
}

#[test]
fn rule_applies_to_libraries_and_programs_only() {
    for (path, expected) in [
        ("crates/a/src/lib.rs", true),
        ("crates/a/src/b/c.rs", true),
        ("crates/tests_of/src/b.rs", true),
        ("crates/a/src/tests.rs", false),
        ("crates/a/src/b/merge_tests.rs", false),
        ("crates/a/src/tests/b.rs", false),
        ("crates/a/tests/b.rs", false),
        ("crates/a/benches/b.rs", false),
        ("crates/a/build.rs", false),
    ] {
        assert_eq!(applies(Path::new(path)), expected, "{path}");
    }
}
