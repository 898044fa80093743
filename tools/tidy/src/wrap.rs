//! The formatter of comments and pages: it wraps lines that are too wide.
//!
//! A paragraph is wrapped from its first line that is too wide to its end. All other lines stay as they are. These also
//! stay as they are: code, tables, headings, definitions of links, paragraphs with columns, and words that are wider
//! than a line.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

/// The markers of a comment in Rust, the longest first.
const MARKERS: [&str; 3] = ["///", "//!", "//"];
/// The indentation of code in Markdown.
const CODE_INDENTATION: usize = 4;

/// A source of Rust with its comments wrapped. A source that cannot be parsed is returned unchanged.
pub fn source(text: &str, width_max: usize) -> String {
    let is_wide = |line: &str| prefix(line).is_some() && line.chars().count() > width_max;
    let literals = if text.lines().any(is_wide) { lines_inside_literals(text) } else { None };
    let Some(literals) = literals else { return text.to_owned() };
    let prefixes: Vec<Option<&str>> = text
        .lines()
        .enumerate()
        .map(|(index, line)| prefix(line).filter(|_| !literals.contains(&(index + 1))))
        .collect();
    let lines: Vec<&str> = text.lines().collect();
    let (mut wrapped, mut index) = (Vec::new(), 0);
    while index < lines.len() {
        let Some(prefix) = prefixes[index] else {
            wrapped.push(lines[index].to_owned());
            index += 1;
            continue;
        };
        let length = prefixes[index..].iter().take_while(|other| **other == Some(prefix)).count();
        let block = &lines[index..index + length];
        let contents: Vec<&str> =
            block.iter().map(|line| line[prefix.len()..].strip_prefix(' ').unwrap_or("")).collect();
        let width = width_max.saturating_sub(prefix.chars().count() + 1);
        let commented = |content: String| format!("{prefix} {content}").trim_end().to_owned();
        wrapped.extend(wrap(&contents, width).into_iter().map(commented));
        index += length;
    }
    join(&wrapped, text)
}

/// A page of Markdown with its paragraphs wrapped.
pub fn page(text: &str, width_max: usize) -> String {
    join(&wrap(&text.lines().collect::<Vec<_>>(), width_max), text)
}

fn join(lines: &[String], original: &str) -> String {
    let end = if original.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// The indentation and the marker of a line that is a comment; `None` if no blank separates the marker from the text.
fn prefix(line: &str) -> Option<&str> {
    let start = line.trim_start();
    let marker = MARKERS.into_iter().find(|marker| start.starts_with(marker))?;
    let (prefix, content) = line.split_at(line.len() - start.len() + marker.len());
    (content.is_empty() || content.starts_with(' ')).then_some(prefix)
}

/// The numbers of the lines that continue a literal, from 1; `None` if the source cannot be parsed.
fn lines_inside_literals(text: &str) -> Option<BTreeSet<usize>> {
    let mut lines = BTreeSet::new();
    let mut streams: Vec<TokenStream> = vec![text.parse().ok()?];
    while let Some(stream) = streams.pop() {
        for token in stream {
            match token {
                TokenTree::Group(group) => streams.push(group.stream()),
                TokenTree::Literal(literal) => {
                    let span = literal.span();
                    lines.extend(span.start().line + 1..=span.end().line);
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
    Some(lines)
}

/// Lines of Markdown with their paragraphs wrapped.
fn wrap(lines: &[&str], width: usize) -> Vec<String> {
    let (mut wrapped, mut index) = (Vec::new(), 0);
    let (mut is_fenced, mut hanging) = (false, 0);
    while let Some(line) = lines.get(index) {
        let is_fence = is_fence(line);
        is_fenced ^= is_fence;
        if line.is_empty() {
            hanging = 0;
        } else if let Some(lead) = lead_of_item(line) {
            hanging = lead;
        }
        let is_code = is_fenced || is_fence || is_code(line, hanging);
        let mut length = 1;
        if line.chars().count() > width && !is_code && !is_special(line) {
            let more = lines[index + 1..].iter();
            length += more.take_while(|next| continues(next, hanging.max(indentation(line)))).count();
            wrapped.extend(fill(&lines[index..index + length], width));
        } else {
            wrapped.push((*line).to_owned());
        }
        index += length;
    }
    wrapped
}

/// The lines of a paragraph, as many words in each as fit.
fn fill(paragraph: &[&str], width: usize) -> Vec<String> {
    let unchanged = || paragraph.iter().map(|line| (*line).to_owned()).collect();
    if paragraph.iter().any(|line| line.trim().contains("  ")) {
        return unchanged();
    }
    let lead = lead_of_item(paragraph[0]).unwrap_or_else(|| indentation(paragraph[0]));
    let hanging = " ".repeat(paragraph.get(1).map_or(lead, |next| indentation(next)));
    let rest = paragraph[1..].iter().flat_map(|line| line.split_whitespace());
    let mut lines = vec![paragraph[0][..lead].to_owned()];
    let mut is_empty = true;
    for word in paragraph[0][lead..].split_whitespace().chain(rest) {
        let line = lines.last_mut().expect("at least one line");
        if is_empty || is_markup(word) || line.chars().count() + 1 + word.chars().count() <= width {
            line.push_str(if is_empty { "" } else { " " });
            line.push_str(word);
        } else {
            lines.push(format!("{hanging}{word}"));
        }
        is_empty = false;
    }
    lines
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Whether an indented line is code, and not the text of a list item with this hanging indentation.
fn is_code(line: &str, hanging: usize) -> bool {
    let indentation = indentation(line);
    indentation >= CODE_INDENTATION && indentation != hanging && lead_of_item(line).is_none()
}

/// The length of a list item's indentation and marker; `None` if the line does not begin an item.
fn lead_of_item(line: &str) -> Option<usize> {
    let start = line.trim_start_matches(' ');
    let marker = start.split(' ').next()?;
    let is_item = start.len() > marker.len() && (["-", "*", "+"].contains(&marker) || is_number(marker));
    is_item.then_some(line.len() - start.len() + marker.len() + 1)
}

/// Whether a word is the marker of a numbered item: `1.` or `1)`.
fn is_number(word: &str) -> bool {
    let digits = word.trim_end_matches(['.', ')']);
    digits.len() + 1 == word.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a line cannot be broken, or is not a sentence: a table, a heading, the definition of a link, HTML, a
/// quotation.
fn is_special(line: &str) -> bool {
    let start = line.trim_start();
    start.starts_with(['|', '#', '<', '>']) || (start.starts_with('[') && start.contains("]: "))
}

/// Whether a line continues the paragraph of the line before it.
fn continues(line: &str, hanging: usize) -> bool {
    let is_text = !line.is_empty() && !is_fence(line) && !is_special(line) && lead_of_item(line).is_none();
    is_text && indentation(line) <= hanging
}

/// Whether a word would be markup at the beginning of a line.
fn is_markup(word: &str) -> bool {
    let is_rule = |byte: u8| b"-=*+#".contains(&byte);
    word.bytes().all(is_rule) || word.starts_with(['|', '>', '#', '<']) || is_fence(word) || is_number(word)
}
