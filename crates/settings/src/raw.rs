//! The value of a setting as a source contains it, before its kind parses it.

/// A value that is not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Value of an environment variable or a flag.
    Plain(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer; `None` if it is negative or does not fit into 64 bits.
    Integer(Option<u64>),
    /// A TOML boolean.
    Flag(bool),
    /// A TOML array of strings.
    List(Vec<String>),
    /// A TOML table. Each value is a string or an array of strings.
    Table(Vec<(String, Vec<String>)>),
    /// Any other TOML value: name of its type, with an article.
    Other(&'static str),
}

impl Raw {
    /// The text of a value that must be a text.
    pub fn text(&self, wanted: &str) -> Result<&str, String> {
        match self {
            Self::Plain(text) | Self::Text(text) => Ok(text),
            other => Err(other.instead_of(wanted)),
        }
    }

    /// The items of a list: an array, or a text with commas.
    pub fn items(&self, wanted: &str) -> Result<Vec<&str>, String> {
        match self {
            Self::Plain(text) | Self::Text(text) => Ok(split(text).collect()),
            Self::List(items) => Ok(items.iter().map(String::as_str).collect()),
            other => Err(other.instead_of(wanted)),
        }
    }

    /// The pairs of a map: a table, or a text such as `a=x, b=y`. A key may occur more than once.
    pub fn pairs(&self, wanted: &str) -> Result<Vec<(&str, &str)>, String> {
        match self {
            Self::Plain(text) | Self::Text(text) => split(text).map(|item| pair(item, wanted)).collect(),
            Self::Table(entries) => {
                let pairs =
                    entries.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
                Ok(pairs.map(|(key, value)| (key.as_str(), value.as_str())).collect())
            }
            other => Err(other.instead_of(wanted)),
        }
    }

    /// The message for a value of another type.
    pub fn instead_of(&self, wanted: &str) -> String {
        let found = match self {
            Self::Plain(_) | Self::Text(_) => "a text",
            Self::Integer(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
            Self::Other(name) => name,
        };
        format!("give {wanted}, not {found}")
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn pair<'a>(item: &'a str, wanted: &str) -> Result<(&'a str, &'a str), String> {
    let pair = item.rsplit_once('=').map(|(key, value)| (key.trim(), value.trim()));
    pair.filter(|(key, _)| !key.is_empty()).ok_or_else(|| format!("{item:?}: give {wanted}"))
}
