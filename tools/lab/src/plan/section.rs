//! Reads the tables of a file key by key, and notes every mistake instead of ending at the first.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Mistake;
use super::node::{Node, Value};

/// Where mistakes are gathered.
pub(crate) type Mistakes = RefCell<Vec<Mistake>>;

/// A table that is being read. Dropping it notes the keys that nobody asked for.
pub(crate) struct Section<'file> {
    /// Such as `load`, for messages; empty for the file itself.
    name: &'static str,
    node: Option<&'file Node>,
    known: Vec<&'static str>,
    mistakes: &'file Mistakes,
}

impl<'file> Section<'file> {
    /// The file itself, or the section of a name that may be missing.
    pub fn new(name: &'static str, node: Option<&'file Node>, mistakes: &'file Mistakes) -> Self {
        let mut section = Self { name, node, known: Vec::new(), mistakes };
        if let Some(node) = node
            && !matches!(node.value, Value::Table(_))
        {
            section
                .mistake_at(node.line, format!("{name} is a section: write [{name}] on a line of its own"));
            section.node = None;
        }
        section
    }

    /// Its name, for messages.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the file has the section at all.
    pub const fn is_given(&self) -> bool {
        self.node.is_some()
    }

    /// The line it begins on.
    pub fn line(&self) -> usize {
        self.node.map_or(0, |node| node.line)
    }

    /// Notes a mistake.
    pub fn mistake_at(&self, line: usize, text: impl Into<String>) {
        self.mistakes.borrow_mut().push(Mistake { line, text: text.into() });
    }

    /// The value of a key.
    pub fn node(&mut self, key: &'static str) -> Option<&'file Node> {
        self.known.push(key);
        self.node?.get(key)
    }

    fn wrong(&self, key: &str, node: &Node, wanted: impl std::fmt::Display) {
        let dot = if self.name.is_empty() { "" } else { "." };
        self.mistake_at(node.line, format!("{}{dot}{key}: give {wanted}", self.name));
    }

    /// A section within this one.
    pub fn section(&mut self, key: &'static str, name: &'static str) -> Self {
        let node = self.node(key);
        Section::new(name, node, self.mistakes)
    }

    /// The tables of `[[key]]`.
    pub fn tables(&mut self, key: &'static str, name: &'static str) -> Vec<Section<'file>> {
        match self.node(key) {
            None => Vec::new(),
            Some(Node { value: Value::List(list), .. }) => {
                list.iter().map(|node| Section::new(name, Some(node), self.mistakes)).collect()
            }
            Some(node) => {
                self.wrong(key, node, format_args!("tables: write [[{name}]]"));
                Vec::new()
            }
        }
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        let node = self.node(key)?;
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => {
                self.wrong(key, node, "a text in quotes");
                None
            }
        }
    }

    /// A text that must be there.
    pub fn text_required(&mut self, key: &'static str) -> String {
        if self.node.is_none_or(|node| node.get(key).is_none()) {
            let line = self.line();
            self.mistake_at(line, format!("{key} is missing{}", self.within()));
        }
        self.text(key).unwrap_or_default()
    }

    fn within(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" in [{}]", self.name) }
    }

    /// One of several words, by its place.
    pub fn choice(&mut self, key: &'static str, words: &[&str]) -> Option<usize> {
        let node = self.node(key)?;
        let found = match &node.value {
            Value::Text(text) => words.iter().position(|word| word == text),
            _ => None,
        };
        if found.is_none() {
            self.wrong(key, node, format_args!("one of {}", words.join(", ")));
        }
        found
    }

    /// A whole number in a range.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let node = self.node(key)?;
        let found = match &node.value {
            Value::Integer(number) => u64::try_from(*number).ok().filter(|number| range.contains(number)),
            _ => None,
        };
        if found.is_none() {
            self.wrong(key, node, format_args!("a whole number from {} to {}", range.start(), range.end()));
        }
        found
    }

    /// The same, for numbers of things.
    pub fn size(&mut self, key: &'static str, range: RangeInclusive<usize>) -> Option<usize> {
        let range = *range.start() as u64..=*range.end() as u64;
        self.integer(key, range).and_then(|number| usize::try_from(number).ok())
    }

    /// The same, for smaller numbers.
    pub fn small<T: TryFrom<u64>>(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<T> {
        self.integer(key, range).and_then(|number| T::try_from(number).ok())
    }

    /// A number that may have a fraction, not negative.
    pub fn number(&mut self, key: &'static str) -> Option<f64> {
        let node = self.node(key)?;
        let found = match &node.value {
            Value::Integer(number) => u32::try_from(*number).ok().map(f64::from),
            Value::Fraction(number) => Some(*number).filter(|number| number.is_finite() && *number >= 0.0),
            _ => None,
        };
        if found.is_none() {
            self.wrong(key, node, "a number that is not negative");
        }
        found
    }

    /// True or false.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let node = self.node(key)?;
        match &node.value {
            Value::Flag(flag) => Some(*flag),
            _ => {
                self.wrong(key, node, "true or false");
                None
            }
        }
    }

    /// A length of time as a text: `500ms`, `20s`, `5m`, `1h`.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let node = self.node(key)?;
        let found = match &node.value {
            Value::Text(text) => duration_of(text),
            _ => None,
        };
        if found.is_none() {
            self.wrong(key, node, "a time with its unit, such as \"500ms\", \"20s\", \"5m\" or \"1h\"");
        }
        found
    }

    /// A list of whole numbers.
    pub fn integers(&mut self, key: &'static str) -> Option<Vec<u64>> {
        let node = self.node(key)?;
        let number = |item: &Node| match item.value {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let found = match &node.value {
            Value::List(list) => list.iter().map(number).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        if found.is_none() {
            self.wrong(key, node, "a list of whole numbers, such as [70, 10, 10, 10]");
        }
        found
    }

    /// A list of texts.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let node = self.node(key)?;
        let text = |item: &Node| match &item.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        let found = match &node.value {
            Value::List(list) => list.iter().map(text).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        if found.is_none() {
            self.wrong(key, node, "a list of texts, such as [\"forwarder\"]");
        }
        found
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let Some(node) = self.node else { return };
        for (key, value) in node.entries().filter(|(key, _)| !self.known.contains(&key.as_str())) {
            let known = self.known.join(", ");
            self.mistake_at(value.line, format!("{key:?} is unknown{}; there are {known}", self.within()));
        }
    }
}

/// `20s`, `500ms`, `5m` or `1h`.
pub fn duration_of(text: &str) -> Option<Duration> {
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let ms_per_unit: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(ms_per_unit).map(Duration::from_millis)
}
