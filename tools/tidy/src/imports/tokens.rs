//! Reads the declarations of a source file: its modules, items, imports and paths.

use std::collections::BTreeSet;
use std::iter::Peekable;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};

/// A path as it is written, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub segments: Vec<String>,
    pub line: usize,
}

/// An imported name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub path: Written,
    /// The name in this module; `None` for a glob.
    pub name: Option<String>,
    /// Whether it is a declaration of the module itself, and not of a function's body.
    pub is_of_module: bool,
}

/// A `mod` declaration.
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: String,
    /// The file of `#[path]`.
    pub path: Option<String>,
    /// The content of an inline module.
    pub content: Option<Content>,
}

/// The content of a module, without tests.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub modules: Vec<Declared>,
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths in code that begin with `crate`, `super` or `self`.
    pub paths: Vec<Written>,
}

/// Reads a source file.
///
/// # Panics
/// If it is not valid Rust.
pub fn read(text: &str) -> Content {
    let mut content = Content::default();
    let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{error}"));
    content.add(tokens, true);
    content
}

type Tokens = Peekable<token_stream::IntoIter>;

/// Keywords before the name of an item.
const KINDS: [&str; 9] = ["struct", "enum", "union", "trait", "fn", "const", "static", "type", "macro_rules"];

impl Content {
    /// Adds the tokens of a block. `is_of_module` is false inside of functions, types and macros.
    fn add(&mut self, tokens: TokenStream, is_of_module: bool) {
        let mut tokens = tokens.into_iter().peekable();
        // Attributes since the last token that was not one.
        let mut attributes: Vec<Group> = Vec::new();
        // Number of colons directly before the token.
        let mut colons = 0;
        while let Some(token) = tokens.next() {
            if is_punct(&token, '#') {
                // A file of tests has the attribute at its beginning.
                let is_inner = tokens.next_if(|next| is_punct(next, '!')).is_some();
                if let Some(TokenTree::Group(group)) =
                    tokens.next_if(|next| group_of(next, Delimiter::Bracket))
                {
                    if is_inner && is_of_tests(&group) {
                        return;
                    }
                    self.add(group.stream(), false);
                    attributes.extend((!is_inner).then_some(group));
                }
                continue;
            }
            if attributes.iter().any(is_of_tests) {
                skip_item(token, &mut tokens);
                attributes.clear();
                continue;
            }
            let is_inside_path = colons == 2;
            colons = if is_punct(&token, ':') { colons + 1 } else { 0 };
            // `pub(crate)` stands between an item and its attributes.
            let is_visibility = matches!(&token, TokenTree::Ident(word) if word == "pub")
                || group_of(&token, Delimiter::Parenthesis);
            match token {
                TokenTree::Group(group) => self.add(group.stream(), false),
                TokenTree::Ident(ident) if !is_inside_path => {
                    let line = ident.span().start().line;
                    self.word(&ident.to_string(), line, &mut tokens, is_of_module, &attributes);
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            if !is_visibility {
                attributes.clear();
            }
        }
    }

    /// Reads on from a word that does not follow `::`.
    fn word(
        &mut self,
        word: &str,
        line: usize,
        tokens: &mut Tokens,
        is_of_module: bool,
        attributes: &[Group],
    ) {
        match word {
            "use" => self.import(tokens, is_of_module),
            "mod" => self.module(tokens, attributes),
            "crate" | "super" | "self" => {
                let mut segments = vec![word.to_owned()];
                while let Some(segment) = next_segment(tokens) {
                    segments.push(segment);
                }
                if segments.len() > 1 {
                    self.paths.push(Written { segments, line });
                }
            }
            kind if is_of_module && KINDS.contains(&kind) => {
                tokens.next_if(|next| is_punct(next, '!'));
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    self.items.insert(name.to_string());
                }
            }
            _ => {}
        }
    }

    fn module(&mut self, tokens: &mut Tokens, attributes: &[Group]) {
        let Some(TokenTree::Ident(name)) = tokens.next_if(|next| matches!(next, TokenTree::Ident(_))) else {
            return;
        };
        let content = match tokens.next_if(|next| group_of(next, Delimiter::Brace)) {
            Some(TokenTree::Group(group)) => {
                let mut content = Self::default();
                content.add(group.stream(), true);
                Some(content)
            }
            _ => None,
        };
        let path = attributes.iter().find_map(path_of);
        self.modules.push(Declared { name: name.to_string(), path, content });
    }

    fn import(&mut self, tokens: &mut Tokens, is_of_module: bool) {
        // `impl Trait + use<'a>` imports nothing.
        if tokens.peek().is_some_and(|next| is_punct(next, '<')) {
            return;
        }
        let mut tree = Vec::new();
        for token in tokens.by_ref() {
            if is_punct(&token, ';') {
                break;
            }
            tree.push(token);
        }
        let mut imports = Vec::new();
        leaves(&[], tree.into_iter().collect(), &mut imports);
        let of = |(path, name)| Import { path, name, is_of_module };
        self.imports.extend(imports.into_iter().map(of));
    }
}

/// Adds the leaves of a tree of `use`: path, and name or `None` for a glob.
fn leaves(prefix: &[String], tree: TokenStream, found: &mut Vec<(Written, Option<String>)>) {
    let (mut segments, mut line, mut name) = (prefix.to_vec(), 0, None);
    let mut tokens = tree.into_iter().peekable();
    let mut is_done = true;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "as" => {
                name = tokens.next().map(|alias| alias.to_string());
            }
            TokenTree::Ident(ident) => {
                line = ident.span().start().line;
                segments.push(ident.to_string());
                is_done = false;
            }
            TokenTree::Group(group) => {
                leaves(&segments, group.stream(), found);
                is_done = true;
            }
            TokenTree::Punct(punct) if punct.as_char() == '*' => {
                line = punct.span().start().line;
                found.push((Written { segments: segments.clone(), line }, None));
                is_done = true;
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                leaf(&mut segments, line, &mut name, is_done, found);
                (segments, is_done) = (prefix.to_vec(), true);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    leaf(&mut segments, line, &mut name, is_done, found);
}

fn leaf(
    segments: &mut Vec<String>,
    line: usize,
    name: &mut Option<String>,
    is_done: bool,
    found: &mut Vec<(Written, Option<String>)>,
) {
    if is_done {
        return;
    }
    // `use a::b::{self}` is `use a::b`.
    if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
        segments.pop();
    }
    let name = name.take().or_else(|| segments.last().cloned());
    found.push((Written { segments: segments.clone(), line }, name));
}

/// The next segment of a path, if `::` and a name follow.
fn next_segment(tokens: &mut Tokens) -> Option<String> {
    if !tokens.peek().is_some_and(|next| is_punct(next, ':')) {
        return None;
    }
    let mut ahead = tokens.clone();
    let second = ahead.nth(1).filter(|token| is_punct(token, ':'));
    second?;
    let Some(TokenTree::Ident(name)) = ahead.next() else { return None };
    *tokens = ahead;
    Some(name.to_string())
}

pub(crate) fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

pub(crate) fn group_of(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// Whether an attribute is `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[test]` or `#[cfg(doc)]`.
pub(crate) fn is_of_tests(attribute: &Group) -> bool {
    let mut tokens = attribute.stream().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), None) => name == "test",
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(group))) => {
            name == "cfg" && requires_test(group.stream())
        }
        _ => false,
    }
}

/// Whether a condition holds only in tests or for the documentation.
fn requires_test(condition: TokenStream) -> bool {
    let mut tokens = condition.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(word) = token else { continue };
        let inside = match tokens.peek() {
            Some(TokenTree::Group(group)) => Some(group.stream()),
            _ => None,
        };
        if word == "test" || word == "doc" || (word == "all" && inside.is_some_and(requires_test)) {
            return true;
        }
    }
    false
}

/// The file of `#[path = "…"]`.
fn path_of(attribute: &Group) -> Option<String> {
    let mut tokens = attribute.stream().into_iter();
    let is_path = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "path");
    let literal = tokens.nth(1).filter(|_| is_path)?.to_string();
    Some(literal.trim_matches('"').to_owned())
}

/// Skips the rest of an item, a field, a variant or an arm that begins with this token.
fn skip_item(first: TokenTree, tokens: &mut Tokens) {
    let is_item = |word: &str| {
        KINDS.contains(&word)
            || ["pub", "use", "mod", "impl", "async", "unsafe", "extern", "let"].contains(&word)
    };
    let is_item = matches!(&first, TokenTree::Ident(word) if is_item(&word.to_string()));
    let mut token = Some(first);
    while let Some(last) = token {
        let ends =
            is_punct(&last, ';') || (is_punct(&last, ',') && !is_item) || group_of(&last, Delimiter::Brace);
        if ends {
            return;
        }
        token = tokens.next();
    }
}
