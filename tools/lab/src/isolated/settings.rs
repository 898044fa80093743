//! Reads the table of a scenario file, and names every mistake in it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use toml::{Table, Value};

use super::IsolatedError;

pub(super) struct Keys<'table> {
    kind: String,
    table: &'table Table,
    known: BTreeSet<&'static str>,
    mistakes: Vec<String>,
}

impl<'table> Keys<'table> {
    pub fn new(kind: &str, table: &'table Table) -> Self {
        Self { kind: kind.to_owned(), table, known: BTreeSet::new(), mistakes: Vec::new() }
    }

    fn value(&mut self, key: &'static str) -> Option<&'table Value> {
        self.known.insert(key);
        self.table.get(key)
    }

    fn mistake(&mut self, key: &str, wanted: impl std::fmt::Display) {
        let found = self.table.get(key).map_or_else(|| "nothing".to_owned(), Value::to_string);
        self.mistakes.push(format!("{key} of isolated kind {}: give {wanted}, not {found}", self.kind));
    }

    /// Adds a mistake that concerns several keys.
    pub fn contradiction(&mut self, text: String) {
        self.mistakes.push(text);
    }

    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>, default: u64) -> u64 {
        let Some(value) = self.value(key) else { return default };
        match integer_in(value, &range) {
            Some(number) => number,
            None => {
                self.mistake(key, format_args!("a number from {} to {}", range.start(), range.end()));
                default
            }
        }
    }

    pub fn size(&mut self, key: &'static str, range: RangeInclusive<usize>, default: usize) -> usize {
        let range = *range.start() as u64..=*range.end() as u64;
        usize::try_from(self.integer(key, range, default as u64)).unwrap_or(default)
    }

    pub fn flag(&mut self, key: &'static str, default: bool) -> bool {
        match self.value(key) {
            None => default,
            Some(Value::Boolean(flag)) => *flag,
            Some(_) => {
                self.mistake(key, "true or false");
                default
            }
        }
    }

    pub fn text(&mut self, key: &'static str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.mistake(key, "a text");
                None
            }
        }
    }

    /// One of several words; the first is the default.
    pub fn choice(&mut self, key: &'static str, words: &'static [&'static str]) -> &'static str {
        let Some(value) = self.value(key) else { return words[0] };
        match words.iter().find(|word| value.as_str() == Some(word)) {
            Some(word) => word,
            None => {
                self.mistake(key, words.join(" or "));
                words[0]
            }
        }
    }

    /// A bound, or `"natural"` for none, which is the default.
    pub fn bound(&mut self, key: &'static str, range: RangeInclusive<usize>) -> Option<usize> {
        let value = self.value(key)?;
        if value.as_str() == Some("natural") {
            return None;
        }
        let bound = integer_in(value, &(*range.start() as u64..=*range.end() as u64));
        if bound.is_none() {
            let wanted = format!("a number from {} to {}, or \"natural\"", range.start(), range.end());
            self.mistake(key, wanted);
        }
        bound.and_then(|bound| usize::try_from(bound).ok())
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Ends the reading: unknown keys are mistakes too.
    pub fn finish(self) -> Result<(), IsolatedError> {
        let mut mistakes = self.mistakes;
        for key in self.table.keys().filter(|key| !self.known.contains(key.as_str())) {
            let known: Vec<_> = self.known.iter().copied().collect();
            mistakes.push(format!(
                "{key}: isolated kind {} has no such key; it has {}",
                self.kind,
                known.join(", ")
            ));
        }
        if mistakes.is_empty() { Ok(()) } else { Err(IsolatedError::Settings(mistakes)) }
    }
}

fn integer_in(value: &Value, range: &RangeInclusive<u64>) -> Option<u64> {
    let number = u64::try_from(value.as_integer()?).ok()?;
    range.contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn every_mistake_is_named_at_once() {
        let table = table("batch = 0\ndurable = 1\nbody = 'huge'\nnonsense = 3\nstream = 7");
        let mut keys = Keys::new("position", &table);
        assert_eq!(keys.bound("batch", 1..=10), None);
        assert!(keys.flag("durable", true));
        assert_eq!(keys.choice("body", &["small", "large"]), "small");
        assert_eq!(keys.text("stream"), None);
        let Err(IsolatedError::Settings(mistakes)) = keys.finish() else { panic!("there are mistakes") };
        assert_eq!(
            mistakes,
            [
                "batch of isolated kind position: give a number from 1 to 10, or \"natural\", not 0",
                "durable of isolated kind position: give true or false, not 1",
                "body of isolated kind position: give small or large, not \"huge\"",
                "stream of isolated kind position: give a text, not 7",
                "nonsense: isolated kind position has no such key; it has batch, body, durable, stream",
            ]
        );
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let empty = Table::new();
        let mut keys = Keys::new("position", &empty);
        assert_eq!(keys.integer("messages", 1..=10, 5), 5);
        assert_eq!(keys.bound("batch", 1..=10), None);
        keys.finish().unwrap();
        let table = table("batch = 'natural'\nmessages = 9");
        let mut keys = Keys::new("position", &table);
        assert_eq!((keys.bound("batch", 1..=10), keys.integer("messages", 1..=10, 5)), (None, 9));
        keys.finish().unwrap();
    }
}
