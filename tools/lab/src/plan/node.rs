//! A TOML file whose every value knows its line, so that mistakes can be told, also after a sweep has put other values
//! in.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Mistake;

/// A value with the line it stands on, from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub line: usize,
    pub value: Value,
}

/// What TOML knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Fraction(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    /// A date, or a number that does not fit.
    Other,
}

impl Node {
    /// Reads a file; gives everything that could be read, and what is wrong with the rest.
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

    /// The table's entries; nothing where it is none.
    pub fn entries(&self) -> impl Iterator<Item = (&String, &Self)> {
        match &self.value {
            Value::Table(table) => Some(table.iter()),
            _ => None,
        }
        .into_iter()
        .flatten()
    }

    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(key),
            _ => None,
        }
    }

    /// Removes an entry.
    pub fn take(&mut self, key: &str) -> Option<Self> {
        match &mut self.value {
            Value::Table(table) => table.remove(key),
            _ => None,
        }
    }

    /// Puts a value at a path such as `load.users`, making the tables on the way. Gives false when something else than
    /// a table is in the way. Below `hub.settings` and `sweep` the rest of the path is one key: it has dots of its own.
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

    /// Without lines, as the `toml` crate has it; what it cannot hold is left out.
    pub fn to_toml(&self) -> Option<toml::Value> {
        Some(match &self.value {
            Value::Text(text) => toml::Value::String(text.clone()),
            Value::Integer(number) => toml::Value::Integer(*number),
            Value::Fraction(number) => toml::Value::Float(*number),
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            Value::List(list) => toml::Value::Array(list.iter().filter_map(Self::to_toml).collect()),
            Value::Table(_) => toml::Value::Table(self.to_table()),
            Value::Other => return None,
        })
    }

    /// The table, without lines.
    pub fn to_table(&self) -> toml::Table {
        self.entries().filter_map(|(key, node)| Some((key.clone(), node.to_toml()?))).collect()
    }

    /// As a setting of the hub or a label reads it; `None` for lists and tables.
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
