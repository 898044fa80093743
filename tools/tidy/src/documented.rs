//! Checks that public functions, types and traits have a doc comment. Fields, variants and constants need none.
//!
//! A public function needs none if it is called `new`, or if its body has a single line: the code then says as much as
//! a comment could. Functions of a public trait always need one, because a caller does not see their code. Tests, and
//! items inside functions and macros, are not checked.
//!
//! Doc comments contain no examples in Rust: rustdoc would compile each crate again to find and test them.

use std::iter::Peekable;
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};

use crate::imports::tokens::{group_of, is_of_tests, is_punct};

/// Maximum number of lines of a function's body without a comment.
const BODY_LINES_MAX: usize = 1;

/// A public item without a doc comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undocumented {
    /// The line of its name, from 1.
    pub line: usize,
    /// Its kind and its name, such as `fn read`.
    pub item: String,
}

/// Whether the rule applies to a source file: it belongs to a library or a program, and not to its tests.
pub fn applies(path: &Path) -> bool {
    let is_of_tests = |name: &str| name == "tests" || name.ends_with("_tests");
    let mut names = path.iter().map(|part| part.to_string_lossy());
    names.any(|name| name == "src") && !names.any(|name| is_of_tests(name.trim_end_matches(".rs")))
}

/// The public items of a source file that have no doc comment but need one.
///
/// # Panics
/// If it is not valid Rust.
pub fn undocumented(source: &str) -> Vec<Undocumented> {
    let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{error}"));
    let mut found = Vec::new();
    check_items(tokens, false, &mut found);
    found
}

/// The lines, from 1, where a doc comment begins an example that rustdoc would compile.
pub fn examples(source: &str) -> Vec<usize> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(text) = ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark)) else {
            is_inside = false;
            continue;
        };
        let Some(language) = text.trim_start().strip_prefix("```") else { continue };
        is_inside = !is_inside;
        let is_rust = ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language.trim());
        if is_inside && is_rust {
            found.push(index + 1);
        }
    }
    found
}

type Tokens = Peekable<token_stream::IntoIter>;

/// Checks the items of a module or an `impl`, or the functions of a public trait.
fn check_items(tokens: TokenStream, is_public_trait: bool, found: &mut Vec<Undocumented>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut attributes: Vec<Group> = Vec::new();
    while let Some(token) = tokens.next() {
        if is_punct(&token, '#') {
            let is_inner = tokens.next_if(|next| is_punct(next, '!')).is_some();
            if let Some(TokenTree::Group(group)) = tokens.next_if(|next| group_of(next, Delimiter::Bracket)) {
                if is_inner && is_of_tests(&group) {
                    return;
                }
                attributes.extend((!is_inner).then_some(group));
            }
            continue;
        }
        let item = Item::read(token, &mut tokens);
        if !attributes.iter().any(is_of_tests) {
            if item.needs_comment(is_public_trait) && !attributes.iter().any(is_doc) {
                found.push(Undocumented { line: item.line, item: format!("{} {}", item.kind, item.name) });
            }
            if let Some(body) = item.body.filter(|_| ["mod", "impl", "trait"].contains(&&*item.kind)) {
                check_items(body.stream(), item.is_public && item.kind == "trait", found);
            }
        }
        attributes.clear();
    }
}

/// An item, as far as the rule needs it.
#[derive(Default)]
struct Item {
    is_public: bool,
    /// The keyword before its name; empty for a macro.
    kind: String,
    name: String,
    line: usize,
    /// The content of its braces.
    body: Option<Group>,
}

impl Item {
    /// Reads an item from its first token to its body or its semicolon.
    fn read(first: TokenTree, tokens: &mut Tokens) -> Self {
        let mut item = Self::default();
        let mut token = Some(first);
        while let Some(next) = token {
            match next {
                TokenTree::Ident(word) if item.kind.is_empty() => item.word(&word.to_string(), tokens),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    item.body = Some(group);
                    return item;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => return item,
                TokenTree::Ident(_) | TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            token = tokens.next();
        }
        item
    }

    /// Reads a word before the kind is known.
    fn word(&mut self, word: &str, tokens: &mut Tokens) {
        let next = match tokens.peek() {
            Some(TokenTree::Ident(next)) => Some((next.to_string(), next.span().start().line)),
            _ => None,
        };
        match word {
            "pub" => {
                self.is_public = tokens.next_if(|next| group_of(next, Delimiter::Parenthesis)).is_none();
            }
            // `const fn` is a function.
            "const"
                if next
                    .as_ref()
                    .is_some_and(|(next, _)| ["fn", "async", "unsafe", "extern"].contains(&&**next)) => {}
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "mod" | "impl" | "const" | "static"
            | "use" => {
                self.kind = word.to_owned();
                (self.name, self.line) = next.unwrap_or_default();
            }
            _ => {}
        }
    }

    fn needs_comment(&self, is_in_public_trait: bool) -> bool {
        match &*self.kind {
            "fn" if is_in_public_trait => true,
            "fn" => self.is_public && self.name != "new" && !self.is_short(),
            "struct" | "enum" | "union" | "trait" | "type" => self.is_public,
            _ => false,
        }
    }

    /// Whether the body has at most [`BODY_LINES_MAX`] lines between its braces.
    fn is_short(&self) -> bool {
        self.body.as_ref().is_some_and(|body| {
            body.span_close().start().line - body.span_open().start().line <= BODY_LINES_MAX + 1
        })
    }
}

fn is_doc(attribute: &Group) -> bool {
    matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}
