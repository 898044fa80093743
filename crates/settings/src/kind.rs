//! Kinds of settings: how a value is parsed, described and shown.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use upesi_process::hints::nearest;

use super::raw::Raw;

/// How the values of a setting are parsed, described and shown.
pub trait Kind {
    /// The type that the code uses.
    type Value: Clone + fmt::Debug;

    /// The values in words, with an article.
    fn wanted() -> String;

    /// Parses a value. The error states what to write instead.
    fn read(raw: &Raw) -> Result<Self::Value, String>;

    /// The value as it is written in TOML.
    fn show(value: &Self::Value) -> toml::Value;
}

/// A kind whose values are written as one text.
pub trait TextKind {
    /// The type that the code uses.
    type Value: Clone + fmt::Debug;

    /// The values in words, with an article.
    fn wanted() -> String;

    /// Several values in words.
    fn wanted_list() -> String {
        format!("a list; each item is {}", Self::wanted())
    }

    /// Parses a text. The error states what to write instead.
    fn parse(text: &str) -> Result<Self::Value, String>;

    /// The value as text.
    fn show(value: &Self::Value) -> String;
}

impl<K: TextKind> Kind for K {
    type Value = <K as TextKind>::Value;

    fn wanted() -> String {
        <K as TextKind>::wanted()
    }

    fn read(raw: &Raw) -> Result<Self::Value, String> {
        <K as TextKind>::parse(raw.text(&<K as TextKind>::wanted())?)
    }

    fn show(value: &Self::Value) -> toml::Value {
        <K as TextKind>::show(value).into()
    }
}

/// The message for a text that is not a value of this kind.
pub fn refusal<K: TextKind>(text: &str) -> String {
    format!("{text:?}: give {}", <K as TextKind>::wanted())
}

/// One of a few words.
pub trait Choice: Copy + fmt::Debug + PartialEq + 'static {
    /// All words with their meaning.
    const WORDS: &'static [(&'static str, Self)];

    /// The word for this value.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, value)| *value == self);
        found.map_or_else(|| unreachable!("{self:?} has no word"), |(word, _)| word)
    }
}

impl<C: Choice> TextKind for C {
    type Value = C;

    fn wanted() -> String {
        let words: Vec<_> = C::WORDS.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    }

    fn parse(text: &str) -> Result<C, String> {
        let found = C::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let meant = nearest(text, C::WORDS.iter().map(|(word, _)| *word));
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            format!("{}{hint}", refusal::<C>(text))
        })
    }

    fn show(value: &C) -> String {
        value.word().to_owned()
    }
}

/// A whole number in a range, both ends included.
#[derive(Debug)]
pub struct Integer<const MIN: u64, const MAX: u64, T = u64>(PhantomData<T>);

impl<const MIN: u64, const MAX: u64, T> Kind for Integer<MIN, MAX, T>
where
    T: TryFrom<u64> + TryInto<i64> + Copy + fmt::Debug,
{
    type Value = T;

    fn wanted() -> String {
        whole_number(MIN, MAX)
    }

    fn read(raw: &Raw) -> Result<T, String> {
        let number = read_number(raw, MIN, MAX)?;
        T::try_from(number).map_err(|_| format!("{number} is too large for this machine"))
    }

    fn show(value: &T) -> toml::Value {
        show_number(*value)
    }
}

/// A time in a range, both ends included, as a number of units of `UNIT_US` microseconds.
#[derive(Debug)]
pub struct Time<const UNIT_US: u64, const MIN: u64, const MAX: u64>;

/// A number of microseconds.
pub type Microseconds<const MIN: u64, const MAX: u64> = Time<1, MIN, MAX>;
/// A number of milliseconds.
pub type Milliseconds<const MIN: u64, const MAX: u64> = Time<1_000, MIN, MAX>;
/// A number of seconds.
pub type Seconds<const MIN: u64, const MAX: u64> = Time<1_000_000, MIN, MAX>;
/// A number of hours.
pub type Hours<const MIN: u64, const MAX: u64> = Time<3_600_000_000, MIN, MAX>;

impl<const UNIT_US: u64, const MIN: u64, const MAX: u64> Kind for Time<UNIT_US, MIN, MAX> {
    type Value = Duration;

    fn wanted() -> String {
        whole_number(MIN, MAX)
    }

    fn read(raw: &Raw) -> Result<Duration, String> {
        const { assert!(MAX <= u64::MAX / UNIT_US) };
        read_number(raw, MIN, MAX).map(|number| Duration::from_micros(number * UNIT_US))
    }

    fn show(value: &Duration) -> toml::Value {
        show_number(value.as_micros() / u128::from(UNIT_US))
    }
}

fn whole_number(min: u64, max: u64) -> String {
    format!("a whole number from {min} to {max}")
}

fn read_number(raw: &Raw, min: u64, max: u64) -> Result<u64, String> {
    let wanted = whole_number(min, max);
    let in_range = |number: Option<u64>| number.filter(|number| (min..=max).contains(number));
    match raw {
        Raw::Integer(number) => in_range(*number).ok_or_else(|| format!("give {wanted}")),
        Raw::Plain(text) => in_range(digits(text)).ok_or_else(|| format!("{text:?}: give {wanted}")),
        Raw::Text(_) => Err(format!("give {wanted}, without quotes")),
        other => Err(other.instead_of(&wanted)),
    }
}

/// The catalogue has no limit above `i64::MAX`.
fn show_number(number: impl TryInto<i64>) -> toml::Value {
    number.try_into().unwrap_or(i64::MAX).into()
}

/// Digits, with `_` between them as in TOML.
fn digits(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    let is_plain =
        !text.starts_with('_') && !text.ends_with('_') && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

/// `true` or `false`.
#[derive(Debug)]
pub struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn wanted() -> String {
        "true or false".to_owned()
    }

    fn read(raw: &Raw) -> Result<bool, String> {
        let wanted = Self::wanted();
        match raw {
            Raw::Flag(flag) => Ok(*flag),
            Raw::Plain(text) => text.parse().map_err(|_| format!("{text:?}: give {wanted}")),
            Raw::Text(_) => Err(format!("give {wanted}, without quotes")),
            other => Err(other.instead_of(&wanted)),
        }
    }

    fn show(value: &bool) -> toml::Value {
        (*value).into()
    }
}

/// A value, or an empty text for none.
#[derive(Debug)]
pub struct Optional<K>(PhantomData<K>);

impl<K: Kind> Kind for Optional<K> {
    type Value = Option<K::Value>;

    fn wanted() -> String {
        format!("{}, or nothing", K::wanted())
    }

    fn read(raw: &Raw) -> Result<Self::Value, String> {
        match raw {
            Raw::Plain(text) | Raw::Text(text) if text.is_empty() => Ok(None),
            _ => K::read(raw).map(Some),
        }
    }

    fn show(value: &Self::Value) -> toml::Value {
        value.as_ref().map_or_else(|| "".into(), K::show)
    }
}

/// A list of at least `MIN` values: an array of texts, or one text with commas.
#[derive(Debug)]
pub struct List<K, const MIN: usize = 0>(PhantomData<K>);

impl<K: TextKind, const MIN: usize> Kind for List<K, MIN> {
    type Value = Vec<<K as TextKind>::Value>;

    fn wanted() -> String {
        K::wanted_list()
    }

    fn read(raw: &Raw) -> Result<Self::Value, String> {
        let wanted = K::wanted_list();
        let items = raw.items(&wanted)?;
        if items.len() < MIN {
            return Err(format!("give {wanted}"));
        }
        items.into_iter().map(<K as TextKind>::parse).collect()
    }

    fn show(value: &Self::Value) -> toml::Value {
        value.iter().map(<K as TextKind>::show).collect::<Vec<_>>().into()
    }
}
