//! Reads the tables of a file key by key, and notes every mistake instead of stopping at the first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;
use crate::plan::parameter::Parameter;

pub(crate) type Mistakes = RefCell<Vec<Mistake>>;

/// A table that is being read. When it is dropped, it reports the keys that were not read.
pub(crate) struct Section<'file> {
    /// A name such as `load`, for messages; empty for the file itself.
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

    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub const fn is_given(&self) -> bool {
        self.node.is_some()
    }

    pub fn line(&self) -> usize {
        self.node.map_or(0, |node| node.line)
    }

    pub fn has(&self, key: &str) -> bool {
        self.node.is_some_and(|node| node.get(key).is_some())
    }

    /// Notes a mistake that concerns several keys.
    pub fn mistake(&self, text: impl Into<String>) {
        self.mistake_at(self.line(), text);
    }

    pub fn mistake_at(&self, line: usize, text: impl Into<String>) {
        self.mistakes.borrow_mut().push(Mistake { line, text: text.into() });
    }

    /// The node of a key, which then counts as read.
    pub fn node(&mut self, key: &'static str) -> Option<&'file Node> {
        self.known.push(key);
        self.node?.get(key)
    }

    fn wrong(&self, key: &str, node: &Node, wanted: impl std::fmt::Display) {
        let dot = if self.name.is_empty() { "" } else { "." };
        self.mistake_at(node.line, format!("{}{dot}{key}: give {wanted}", self.name));
    }

    /// The value of a key, if it has the form `wanted`.
    fn read<T>(
        &mut self,
        key: &'static str,
        wanted: impl std::fmt::Display,
        of: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let node = self.node(key)?;
        let found = of(&node.value);
        if found.is_none() {
            self.wrong(key, node, wanted);
        }
        found
    }

    /// The table of a key, as a section with a name for messages.
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
        self.read(key, "a text in quotes", Value::text)
    }

    /// The text of a key that must be present.
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

    /// The index of the key's value among several words.
    pub fn choice(&mut self, key: &'static str, words: &[&str]) -> Option<usize> {
        let place = |value: &Value| words.iter().position(|word| value.text().as_deref() == Some(word));
        self.read(key, format_args!("one of {}", words.join(", ")), place)
    }

    /// The key's value, if it is a value of the flag of the same name.
    pub fn value<T: ValueEnum>(&mut self, key: &'static str) -> Option<T> {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        let words: Vec<&str> = names.iter().map(String::as_str).collect();
        self.choice(key, &words).map(|place| T::value_variants()[place].clone())
    }

    /// A whole number within a range.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        self.read(key, wanted, |value| value.integer().filter(|number| range.contains(number)))
    }

    /// A whole number within a range, as a size.
    pub fn size(&mut self, key: &'static str, range: RangeInclusive<usize>) -> Option<usize> {
        let range = *range.start() as u64..=*range.end() as u64;
        self.integer(key, range).and_then(|number| usize::try_from(number).ok())
    }

    pub fn small<T: TryFrom<u64>>(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<T> {
        self.integer(key, range).and_then(|number| T::try_from(number).ok())
    }

    /// A number that may have a fraction, not negative.
    pub fn number(&mut self, key: &'static str) -> Option<f64> {
        self.read(key, "a number of zero or more", |value| match value {
            Value::Integer(number) => u32::try_from(*number).ok().map(f64::from),
            Value::Fraction(number) => Some(*number).filter(|number| number.is_finite() && *number >= 0.0),
            _ => None,
        })
    }

    /// True or false.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(
            key,
            "true or false",
            |value| if let Value::Flag(flag) = value { Some(*flag) } else { None },
        )
    }

    /// A duration as a text: `500ms`, `20s`, `5m`, `1h`.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let wanted = "a time with its unit, such as \"500ms\", \"20s\", \"5m\" or \"1h\"";
        self.read(key, wanted, |value| duration_of(&value.text()?))
    }

    /// A list of whole numbers.
    pub fn integers(&mut self, key: &'static str) -> Option<Vec<u64>> {
        let wanted = "a list of whole numbers, such as [70, 10, 10, 10]";
        self.read(key, wanted, |value| value.list(Value::integer))
    }

    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.read(key, "a list of texts, such as [\"forwarder\"]", |value| value.list(Value::text))
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let Some(node) = self.node else { return };
        for (key, value) in node.entries().filter(|(key, _)| !self.known.contains(&key.as_str())) {
            let known = self.known.join(", ");
            self.mistake_at(
                value.line,
                format!("{key:?} is unknown{}; the known ones are {known}", self.within()),
            );
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

/// A value with its line, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

/// A value of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Fraction(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    /// A date, or a number that does not fit.
    Other,
}

impl Value {
    fn text(&self) -> Option<String> {
        if let Self::Text(text) = self { Some(text.clone()) } else { None }
    }

    fn integer(&self) -> Option<u64> {
        if let Self::Integer(number) = self { u64::try_from(*number).ok() } else { None }
    }

    fn list<T>(&self, of: fn(&Self) -> Option<T>) -> Option<Vec<T>> {
        if let Self::List(list) = self { list.iter().map(|node| of(&node.value)).collect() } else { None }
    }
}

impl Node {
    /// Reads a file. Returns everything that could be read, and the mistakes in the rest.
    pub fn parse(text: &str) -> (Self, Vec<Mistake>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        let mistake = |error: toml::de::Error| Mistake {
            line: error.span().map_or(0, |span| line_of(span.start)),
            text: error.message().trim_end().to_owned(),
        };
        let value = convert_table(table.get_ref(), &line_of);
        (Self { line: 1, value }, errors.into_iter().map(mistake).collect())
    }

    /// The table's entries; nothing if it is not a table.
    pub fn entries(&self) -> impl Iterator<Item = (&String, &Self)> {
        match &self.value {
            Value::Table(table) => Some(table.iter()),
            _ => None,
        }
        .into_iter()
        .flatten()
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        if let Value::Table(table) = &self.value { table.get(key) } else { None }
    }

    pub fn take(&mut self, key: &str) -> Option<Self> {
        if let Value::Table(table) = &mut self.value { table.remove(key) } else { None }
    }

    /// Puts a value at a path such as `load.users`, and creates the tables on the way. Returns false if a value that is
    /// not a table is in the way. Below `hub.settings` and `sweep` the rest of the path is one key with dots.
    pub fn set(&mut self, path: &str, node: Self) -> bool {
        if let Some(setting) = path.strip_prefix("hub.settings.") {
            return self.set_at(&["hub", "settings", setting], node);
        }
        if let Some(axis) = path.strip_prefix("sweep.") {
            return self.set_at(&["sweep", axis], node);
        }
        self.set_at(&path.split('.').collect::<Vec<_>>(), node)
    }

    fn set_at(&mut self, path: &[&str], node: Self) -> bool {
        let (Value::Table(table), Some((first, rest))) = (&mut self.value, path.split_first()) else {
            return false;
        };
        if rest.is_empty() {
            table.insert((*first).to_owned(), node);
            return true;
        }
        let empty = Self { line: node.line, value: Value::Table(BTreeMap::new()) };
        table.entry((*first).to_owned()).or_insert(empty).set_at(rest, node)
    }

    /// The value in the form of results.
    pub fn parameter(&self) -> Parameter {
        match &self.value {
            Value::Integer(number) => Parameter::Number(*number),
            _ => Parameter::Text(self.plain().unwrap_or_else(|| "several".to_owned())),
        }
    }

    /// The value as the text of a hub's setting or of a label; `None` for lists and tables.
    pub fn plain(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Fraction(number) => Some(number.to_string()),
            Value::Flag(flag) => Some(flag.to_string()),
            Value::List(_) | Value::Table(_) | Value::Other => None,
        }
    }
}

fn convert_table(table: &DeTable<'_>, line_of: &dyn Fn(usize) -> usize) -> Value {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        let line = line_of(key.span().start);
        (name.clone().into_owned(), Node { line, value: convert(value.get_ref(), line_of) })
    };
    Value::Table(table.iter().map(entry).collect())
}

fn convert(value: &DeValue<'_>, line_of: &dyn Fn(usize) -> usize) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Other, Value::Integer)
        }
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Other, Value::Fraction),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => {
            let item = |item: &Spanned<DeValue<'_>>| Node {
                line: line_of(item.span().start),
                value: convert(item.get_ref(), line_of),
            };
            Value::List(items.iter().map(item).collect())
        }
        DeValue::Table(table) => convert_table(table, line_of),
        DeValue::Datetime(_) => Value::Other,
    }
}
