//! The tables of a scheme file, read key by key, so that one mistake does not hide another.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use upesi_process::hints::nearest;

use super::mistakes::Mistakes;

/// A table whose keys are taken one by one; the keys that remain at the end are unknown.
pub(super) struct Section<'t> {
    table: DeTable<'t>,
    /// Its beginning.
    pub(super) start: usize,
    /// The requested keys.
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    pub(super) fn new(table: DeTable<'t>, start: usize) -> Self {
        Self { table, start, known: Vec::new() }
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// The value of a key; `None` if it is absent or of another type.
    pub(super) fn optional<T: for<'de> Deserialize<'de>>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Spanned<T>> {
        let value = self.take(key)?;
        let span = value.span();
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => Some(Spanned::new(span, value)),
            Err(error) => {
                mistakes.add(span.start, format!("{key}: {}", error.message().trim_end()));
                None
            }
        }
    }

    /// The value of a required key; `None` after a mistake.
    pub(super) fn required<T: for<'de> Deserialize<'de>>(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Spanned<T>> {
        if !self.table.contains_key(key) {
            self.known.push(key);
            mistakes.add(self.start, format!("{key:?} is missing"));
            return None;
        }
        self.optional(key, mistakes)
    }

    /// A table below this one.
    pub(super) fn section(&mut self, key: &'static str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        let value = self.take(key)?;
        Self::of(value, key, mistakes)
    }

    /// A list of tables: `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str, mistakes: &mut Mistakes<'_>) -> Vec<Self> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Array(items) => {
                items.into_iter().filter_map(|item| Self::of(item, key, mistakes)).collect()
            }
            _ => {
                mistakes.add(start, format!("{key:?} is a list of tables: write [[{key}]]"));
                Vec::new()
            }
        }
    }

    /// The entries of a table whose keys are names and whose values are texts.
    pub(super) fn texts(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Vec<(String, Spanned<String>)> {
        let Some(section) = self.section(key, mistakes) else { return Vec::new() };
        let mut texts = Vec::new();
        for (name, value) in section.table {
            let span = value.span();
            match value.into_inner() {
                DeValue::String(text) => {
                    texts.push((name.into_inner().into_owned(), Spanned::new(span, text.into_owned())));
                }
                _ => mistakes.add(span.start, format!("{}: must be a string", name.get_ref())),
            }
        }
        texts
    }

    /// The entries of a table whose keys are names and whose values are tables. `None` if the table does not exist.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        mistakes: &mut Mistakes<'_>,
    ) -> Option<Vec<(String, Self)>> {
        let section = self.section(key, mistakes)?;
        let mut tables = Vec::new();
        for (name, value) in section.table {
            let name = name.into_inner().into_owned();
            if let Some(table) = Self::of(value, &name, mistakes) {
                tables.push((name, table));
            }
        }
        Some(tables)
    }

    fn of(value: Spanned<DeValue<'t>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Table(table) => Some(Self::new(table, start)),
            _ => {
                mistakes.add(start, format!("{key:?} must be a table"));
                None
            }
        }
    }

    /// Reports unknown keys.
    pub(super) fn end(self, mistakes: &mut Mistakes<'_>) {
        for (key, _) in &self.table {
            let name = key.get_ref().as_ref();
            let hint = match nearest(name, self.known.iter().copied()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("the keys are {}", self.known.join(", ")),
            };
            mistakes.add(key.span().start, format!("{name:?} is not a key here; {hint}"));
        }
    }
}

/// An amount as a string, or as an integer. Fractions must be strings, because a TOML float would be rounded.
pub(super) struct DecimalText(pub(super) String);

impl<'de> Deserialize<'de> for DecimalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DecimalVisitor;
        impl Visitor<'_> for DecimalVisitor {
            type Value = DecimalText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount: a whole number, or a string such as \"12.50\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<DecimalText, E> {
                Ok(DecimalText(number.to_string()))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DecimalText, E> {
                Ok(DecimalText(text.to_owned()))
            }
        }
        deserializer.deserialize_any(DecimalVisitor)
    }
}
