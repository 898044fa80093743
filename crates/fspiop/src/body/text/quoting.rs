//! Scalar rules that only lookup and quoting use.

use alloc::borrow::Cow;

use upesi_types::{ErrorCode, Timestamp};

use super::names;
use crate::body::schema::Value;
use crate::party::PARTY_ID_TYPES;
use crate::{PartyIdType, SyncError};

const PERSON_NAME_RULE: &str = "letters, digits, blanks and . , ' - _";
const DATE_RULE: &str = "a date that exists, such as 1966-06-16";
const DEGREES_RULE: &str = "degrees in range, with up to 6 decimals";
const UNDEFINED_ENUM_RULE: &str = "1 to 32 capital letters and _";
const QUOTING_CODE_RULE: &str = "a code of 10xx, 20xx, 30xx-34xx, 40xx-44xx or 50xx-54xx";

impl<'a> Value<'a, '_> {
    /// A text that `matches` accepts. `rule` describes the condition in words.
    pub(crate) fn matching(
        &self,
        rule: &str,
        matches: impl FnOnce(&str) -> bool,
    ) -> Result<Cow<'a, str>, SyncError> {
        let text = self.text()?;
        if matches(&text) { Ok(text) } else { Err(self.pattern(rule)) }
    }

    /// The value of one of these texts.
    pub(crate) fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<T, SyncError> {
        let text = self.text()?;
        let found = values.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| self.not_allowed(&names(values)))
    }

    /// Checks that the value is one of these texts.
    pub(crate) fn any_of(&self, values: &[&str]) -> Result<(), SyncError> {
        if values.contains(&&*self.text()?) { Ok(()) } else { Err(self.not_allowed(&values.join(", "))) }
    }

    /// A type of identifier. Extended types are allowed everywhere in bodies.
    pub(crate) fn party_id_type(&self) -> Result<PartyIdType, SyncError> {
        PartyIdType::parse(&self.text()?).ok_or_else(|| self.not_allowed(PARTY_ID_TYPES))
    }

    /// A name of a person. Beyond ASCII only control characters and white space are rejected, because many scripts use
    /// joining characters that are not letters.
    pub(crate) fn person_name(&self) -> Result<(), SyncError> {
        let text = self.bounded_text(1, 128)?;
        let is_fit = |character: char| match character {
            ' ' | '.' | ',' | '\'' | '-' | '_' => true,
            _ if character.is_ascii() => character.is_ascii_alphanumeric(),
            _ => !character.is_control() && !character.is_whitespace(),
        };
        if text.chars().all(is_fit) && !text.trim().is_empty() {
            return Ok(());
        }
        Err(self.pattern(PERSON_NAME_RULE))
    }

    /// An existing date, from the year 1000 on.
    pub(crate) fn date(&self) -> Result<(), SyncError> {
        self.matching(DATE_RULE, is_date).map(|_| ())
    }

    /// Degrees from `-max` to `max`, with up to six decimals.
    pub(crate) fn degrees(&self, max: u16) -> Result<(), SyncError> {
        self.matching(DEGREES_RULE, |text| is_degrees(text, max)).map(|_| ())
    }

    /// A value of an enumeration that each scheme defines itself.
    pub(crate) fn undefined_enum(&self) -> Result<(), SyncError> {
        let is_name = |text: &str| {
            (1..=32).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        self.matching(UNDEFINED_ENUM_RULE, is_name).map(|_| ())
    }

    /// An error code of the classes that quoting allows.
    pub(crate) fn quoting_error_code(&self) -> Result<ErrorCode, SyncError> {
        let code = self.error_code()?;
        if matches!(code.number() / 100, 10 | 20 | 30..=34 | 40..=44 | 50..=54) {
            return Ok(code);
        }
        Err(self.pattern(QUOTING_CODE_RULE))
    }
}

pub(crate) fn are_digits(text: &str, min: usize, max: usize) -> bool {
    (min..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_date(text: &str) -> bool {
    const MIDNIGHT: &[u8; 14] = b"T00:00:00.000Z";
    let mut instant = [0; 24];
    if text.len() != 10 || !text.starts_with(|first: char| ('1'..='9').contains(&first)) {
        return false;
    }
    instant[..10].copy_from_slice(text.as_bytes());
    instant[10..].copy_from_slice(MIDNIGHT);
    core::str::from_utf8(&instant).ok().and_then(Timestamp::parse_iso).is_some()
}

fn is_degrees(text: &str, max: u16) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (integer, fraction) = match unsigned.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (unsigned, None),
    };
    let is_canonical = are_digits(integer, 1, 3) && (integer == "0" || !integer.starts_with('0'));
    let Some(degrees) = integer.parse::<u16>().ok().filter(|_| is_canonical) else { return false };
    let has_fraction = fraction.is_some_and(|digits| digits.bytes().any(|digit| digit != b'0'));
    fraction.is_none_or(|digits| are_digits(digits, 1, 6))
        && (degrees < max || (degrees == max && !has_fraction))
}
