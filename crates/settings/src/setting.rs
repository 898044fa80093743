//! A setting and its kind, the parser of its values, and the macro that declares the catalogue.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use upesi_fspiop::Version;
use upesi_process::values::why_no_port;
use upesi_types::FspId;

/// One setting of the catalogue.
#[derive(Debug)]
pub struct Setting {
    /// `section.name`.
    pub key: &'static str,
    /// The section of the TOML file.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// Kind and range of its values.
    pub kind: Kind,
    /// The default, in the form of an environment variable's value.
    pub default: &'static str,
    /// Its meaning, line by line.
    pub help: &'static [&'static str],
}

impl Setting {
    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("UPESI__{}__{}", self.section.to_uppercase(), self.name.to_uppercase())
    }

    /// The help as one paragraph.
    pub fn help_text(&self) -> String {
        self.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// The kinds of settings.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in a range, both ends included.
    Integer(u64, u64),
    /// `true` or `false`.
    Flag,
    /// An IP address with a port.
    Address,
    /// A path of the file system.
    Path,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// The name of a participant.
    Name,
    /// Free text of at most so many bytes.
    Text(usize),
    /// Protocol versions, separated by commas or as an array.
    Versions,
    /// One protocol version.
    Version,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::Flag => f.write_str("true or false"),
            Self::Address => f.write_str("an address with port, such as 127.0.0.1:4000 or [::1]:4000"),
            Self::Path => f.write_str("a path"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Name => f.write_str("a name of 2 to 30 printable ASCII characters"),
            Self::Text(bytes_max) => write!(f, "a text of at most {bytes_max} bytes"),
            Self::Versions => f.write_str("a list of versions, such as 1.0,1.1"),
            Self::Version => f.write_str("a version, such as 1.1"),
        }
    }
}

/// Value of a setting as a source contains it, not yet parsed.
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
    /// Any other TOML value: name of its type, with an article.
    Other(&'static str),
}

/// A parsed value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Value of [`Kind::Integer`].
    Integer(u64),
    /// Value of [`Kind::Flag`].
    Flag(bool),
    /// Value of [`Kind::Address`].
    Address(SocketAddr),
    /// Value of [`Kind::Path`].
    Path(PathBuf),
    /// Value of [`Kind::Choice`].
    Choice(&'static str),
    /// Value of [`Kind::Name`].
    Name(FspId),
    /// Value of [`Kind::Text`].
    Text(String),
    /// Value of [`Kind::Versions`].
    Versions(Vec<Version>),
    /// Value of [`Kind::Version`].
    Version(Version),
}

impl Value {
    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Integer(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Versions(versions) => versions.iter().map(ToString::to_string).collect(),
            other => other.plain().into(),
        }
    }

    /// The value in TOML syntax.
    pub fn to_toml(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Versions(versions) => {
                let quoted: Vec<_> = versions.iter().map(|version| format!("\"{version}\"")).collect();
                format!("[{}]", quoted.join(", "))
            }
            other => toml::Value::String(other.plain()).to_string(),
        }
    }

    fn plain(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Address(address) => address.to_string(),
            Self::Path(path) => path.display().to_string(),
            Self::Choice(word) => (*word).to_owned(),
            Self::Name(name) => name.to_string(),
            Self::Text(text) => text.clone(),
            Self::Versions(versions) => {
                versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            Self::Version(version) => version.to_string(),
        }
    }
}

impl Kind {
    /// Parses a value. The error states what to write instead.
    pub fn read(self, raw: &Raw) -> Result<Value, String> {
        let wanted = || format!("give {self}");
        match (self, raw) {
            (Self::Integer(min, max), Raw::Integer(number)) => in_range(*number, min, max).ok_or_else(wanted),
            (Self::Integer(..) | Self::Flag, Raw::Text(_)) => Err(format!("give {self}, without quotes")),
            (Self::Flag, Raw::Flag(flag)) => Ok(Value::Flag(*flag)),
            (Self::Versions, Raw::List(texts)) => {
                versions(texts.iter().map(String::as_str)).ok_or_else(wanted)
            }
            (kind, Raw::Text(text) | Raw::Plain(text)) => kind.read_text(text).ok_or_else(|| {
                let why = if matches!(kind, Self::Address) { why_no_port(text) } else { String::new() };
                format!("{text:?}: give {kind}{why}")
            }),
            (kind, Raw::Integer(_)) => Err(format!("give {kind}, not a number")),
            (kind, Raw::Flag(_)) => Err(format!("give {kind}, not a boolean")),
            (kind, Raw::List(_)) => Err(format!("give {kind}, not an array")),
            (kind, Raw::Other(name)) => Err(format!("give {kind}, not {name}")),
        }
    }

    fn read_text(self, text: &str) -> Option<Value> {
        match self {
            Self::Integer(min, max) => in_range(integer(text), min, max),
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Address => text.parse().ok().map(Value::Address),
            Self::Path => (!text.is_empty()).then(|| Value::Path(text.into())),
            Self::Choice(words) => words.iter().find(|word| **word == text).map(|word| Value::Choice(word)),
            Self::Name => FspId::parse(text).filter(|_| (2..=30).contains(&text.len())).map(Value::Name),
            Self::Text(bytes_max) => (text.len() <= bytes_max).then(|| Value::Text(text.to_owned())),
            Self::Versions => versions(text.split(',').map(str::trim)),
            Self::Version => Version::parse(text).map(Value::Version),
        }
    }
}

/// Digits, with `_` between them as in TOML.
fn integer(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    let plain =
        !text.starts_with('_') && !text.ends_with('_') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

fn in_range(number: Option<u64>, min: u64, max: u64) -> Option<Value> {
    number.filter(|number| (min..=max).contains(number)).map(Value::Integer)
}

fn versions<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Value> {
    let versions: Vec<Version> = texts.map(Version::parse).collect::<Option<_>>()?;
    (!versions.is_empty()).then_some(Value::Versions(versions))
}

/// The values of all settings, from which the typed tree is filled. The macro requests only keys that the catalogue
/// declares, so a missing key is a bug of the macro.
pub(super) struct Values<'a>(pub &'a BTreeMap<&'static str, Value>);

macro_rules! getters {
    ($($name:ident: $variant:ident -> $type:ty;)+) => {
        impl Values<'_> {
            $(pub(super) fn $name(&self, key: &str) -> $type {
                match self.0.get(key) {
                    Some(Value::$variant(value)) => value.clone(),
                    other => unreachable!("{key} has the value {other:?}"),
                }
            })+
        }
    };
}

getters! {
    integer: Integer -> u64;
    flag: Flag -> bool;
    address: Address -> SocketAddr;
    path: Path -> PathBuf;
    choice: Choice -> &'static str;
    name: Name -> FspId;
    text: Text -> String;
    versions: Versions -> Vec<Version>;
    version: Version -> Version;
}

macro_rules! field_type {
    (integer) => { u64 };
    (flag) => { bool };
    (address) => { ::std::net::SocketAddr };
    (path) => { ::std::path::PathBuf };
    (choice) => { &'static str };
    (name) => { ::upesi_types::FspId };
    (text) => { String };
    (versions) => { Vec<::upesi_fspiop::Version> };
    (version) => { ::upesi_fspiop::Version };
}

macro_rules! field_kind {
    (integer, $min:expr, $max:expr) => { $crate::setting::Kind::Integer($min, $max) };
    (flag) => { $crate::setting::Kind::Flag };
    (address) => { $crate::setting::Kind::Address };
    (path) => { $crate::setting::Kind::Path };
    (choice, $($word:literal),+) => { $crate::setting::Kind::Choice(&[$($word),+]) };
    (name) => { $crate::setting::Kind::Name };
    (text, $bytes_max:expr) => { $crate::setting::Kind::Text($bytes_max) };
    (versions) => { $crate::setting::Kind::Versions };
    (version) => { $crate::setting::Kind::Version };
}

/// Declares every setting once. The typed tree, its documentation and the catalogue are generated from the same lines.
macro_rules! settings {
    ($(
        $(#[doc = $section_help:literal])+
        $section:ident: $Section:ident {
            $($(#[doc = $help:literal])+ $name:ident: $kind:ident $(($($argument:expr),+))? = $default:literal,)+
        }
    )+) => {
        $(
            $(#[doc = $section_help])+
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $Section {
                $($(#[doc = $help])+ pub $name: field_type!($kind),)+
            }
        )+

        /// Every setting of the hub, typed and validated.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $section_help])+ pub $section: $Section,)+
        }

        impl Settings {
            pub(super) fn from_values(values: &Values<'_>) -> Self {
                Self {
                    $($section: $Section {
                        $($name: values.$kind(concat!(stringify!($section), ".", stringify!($name))),)+
                    },)+
                }
            }
        }

        /// The sections with their descriptions, in the order of the documentation.
        pub const SECTIONS: &[(&str, &[&str])] = &[$((stringify!($section), &[$($section_help),+]),)+];

        /// Every setting, in the order of the documentation.
        pub const CATALOGUE: &[Setting] = &[
            $($(Setting {
                key: concat!(stringify!($section), ".", stringify!($name)),
                section: stringify!($section),
                name: stringify!($name),
                kind: field_kind!($kind $(, $($argument),+)?),
                default: $default,
                help: &[$($help),+],
            },)+)+
        ];
    };
}

pub(super) use {field_kind, field_type, settings};
