//! Finds misspelt words by a list of common misspellings, which the project `typos` maintains.
//!
//! The list in `vendor/` has the misspellings of the words that the tree uses. As a dependency, the whole list would
//! take half a minute to compile.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

/// Minimum length of a checked word. Shorter ones are mostly abbreviations.
const WORD_LENGTH_MIN: usize = 4;

/// A word of the tree in each line, a colon, and its misspellings. Lines with `#` are comments.
const LIST: &str = include_str!("../vendor/misspellings.txt");

/// Words of the list of misspellings that the tree may have, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("anothers", "the name of a function, without its apostrophe"),
    ("confg", "a mistake that a test makes"),
    ("deliverys", "a mistake that a test makes"),
    ("enigne", "a mistake that a test makes"),
    ("extendible", "extendible hashing, a term"),
    ("fals", "the beginning of `false`"),
    ("flate", "the crate flate2"),
    ("ines", "the name of an operator in tests"),
    ("nmae", "a mistake that a test makes"),
    ("stik", "a part of a key"),
];

/// The right spellings of each misspelling.
static RIGHT: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut right: HashMap<&str, Vec<&str>> = HashMap::new();
    for (word, misspellings) in LIST.lines().filter_map(|line| line.split_once(": ")) {
        for misspelling in misspellings.split(' ').filter(|_| !word.starts_with('#')) {
            right.entry(misspelling).or_default().push(word);
        }
    }
    right
});

/// The misspelt words of a line, each with the right spellings. Names in code are split into their words.
pub fn misspelt(line: &str) -> Vec<(&str, &'static [&'static str])> {
    let is_allowed = |word: &str| ALLOWED.iter().any(|(allowed, _)| word.eq_ignore_ascii_case(allowed));
    let look_up = |word| Some((word, RIGHT.get(&*str::to_ascii_lowercase(word))?.as_slice()));
    checked_words(line).filter_map(look_up).filter(|(word, _)| !is_allowed(word)).collect()
}

/// The list for a tree that uses some words, from the source of the crate `typos-dict`.
pub fn list(used: &BTreeSet<String>, source: &str) -> String {
    let entry = Regex::new(r#"Ascii\("([^"]*)"\),\s*&\[([^\]]*)\]"#).expect("an expression");
    let mut misspellings: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for found in entry.captures_iter(source) {
        let (_, [misspelling, right]) = found.extract();
        for right in right.split('"').filter(|right| used.contains(*right)) {
            if misspelling.len() >= WORD_LENGTH_MIN {
                misspellings.entry(right).or_default().insert(misspelling);
            }
        }
    }
    let mut list = LIST
        .lines()
        .take_while(|line| line.starts_with('#'))
        .fold(String::new(), |list, line| list + line + "\n");
    for (word, misspellings) in misspellings {
        let _ = writeln!(list, "{word}: {}", misspellings.into_iter().collect::<Vec<_>>().join(" "));
    }
    list
}

/// The words of a line that are long enough.
pub fn checked_words(line: &str) -> impl Iterator<Item = &str> {
    words(line).into_iter().filter(|word| word.len() >= WORD_LENGTH_MIN)
}

/// The words of a line: `endOfWord`, `end_of_word` and `END_OF_WORD` have three. The letter of an escape such as `\n`
/// is not part of a word.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let bytes = line.as_bytes();
    let mut start = None;
    let mut is_escaped = false;
    for (index, byte) in bytes.iter().enumerate() {
        let is_letter = byte.is_ascii_alphabetic() && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        let before = index.checked_sub(1).map(|before| bytes[before]);
        let is_hump = byte.is_ascii_uppercase() && before.is_some_and(|before| before.is_ascii_lowercase());
        let after = bytes.get(index + 1);
        let ends_acronym = byte.is_ascii_uppercase() && after.is_some_and(u8::is_ascii_lowercase);
        if let Some(first) = start.filter(|_| !is_letter || is_hump || ends_acronym) {
            words.push(&line[first..index]);
            start = None;
        }
        if is_letter && start.is_none() {
            start = Some(index);
        }
    }
    words.extend(start.map(|first| &line[first..]));
    words
}
