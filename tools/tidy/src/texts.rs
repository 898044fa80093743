//! The texts of a file that people read: comments, long literals of Rust, and pages without their code.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Minimum number of words in a literal that is read as a text: a message, or the help of a command.
const LITERAL_WORDS_MIN: usize = 4;
/// Keys of YAML with texts as their values.
const YAML_KEYS: [&str; 4] = ["description: ", "summary: ", "help: ", "title: "];

static LITERAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)*)""#).expect("an expression"));

/// A line of text, or a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// The number of its line, from 1.
    pub line: usize,
    /// The text without the marker of a comment, an item or a heading.
    pub words: &'a str,
}

/// The texts of a file. The ending of its name decides how it is read; other files have no texts.
pub fn texts<'a>(path: &Path, content: &'a str) -> Vec<Text<'a>> {
    let is_script = path.starts_with(".ci") || path == Path::new("Makefile");
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let mut is_fenced = false;
    let numbered = content.lines().enumerate().map(|(index, line)| (index + 1, line));
    let read = |(line, text): (usize, &'a str)| {
        let found = match ending {
            "rs" => of_rust(text),
            "md" => of_page(text, &mut is_fenced).into_iter().collect(),
            "yaml" | "yml" => of_script(text).or_else(|| of_yaml(text)).into_iter().collect(),
            "toml" | "sh" => of_script(text).into_iter().collect(),
            _ if is_script => of_script(text).into_iter().collect(),
            _ => Vec::new(),
        };
        found.into_iter().map(move |words| Text { line, words })
    };
    numbered.flat_map(read).collect()
}

fn of_rust(line: &str) -> Vec<&str> {
    if let Some(comment) = line.trim_start().strip_prefix("//") {
        let text = comment.strip_prefix(['/', '!']).unwrap_or(comment);
        return vec![text.strip_prefix(' ').unwrap_or(text)];
    }
    let literals = LITERAL.captures_iter(line).map(|found| found.get(1).expect("a group").as_str());
    literals.filter(|literal| words_in(literal) >= LITERAL_WORDS_MIN).collect()
}

/// The number of runs of two letters or more.
fn words_in(literal: &str) -> usize {
    let runs = literal.split(|letter: char| !letter.is_ascii_alphabetic());
    runs.filter(|run| run.len() >= 2).count()
}

fn of_page<'a>(line: &'a str, is_fenced: &mut bool) -> Option<&'a str> {
    let is_fence = line.trim_start().starts_with("```");
    *is_fenced ^= is_fence;
    let is_text = !*is_fenced && !is_fence && !line.starts_with("    ");
    is_text.then(|| line.trim_start_matches(['-', '*', '#', ' ', '|']).trim_end())
}

fn of_script(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix('#')?.trim_start_matches('#');
    let text = comment.strip_prefix(' ').unwrap_or(comment);
    (!text.starts_with('!')).then_some(text)
}

fn of_yaml(line: &str) -> Option<&str> {
    YAML_KEYS.into_iter().find_map(|key| line.trim_start().strip_prefix(key))
}
