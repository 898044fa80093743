//! Scalar rules of the schema: a value of the body in, what it stands for or the violated rule out.

use alloc::borrow::Cow;

use upesi_types::{Currency, ErrorCode, FspId, Timestamp, TransferId};

use super::json::{Kind, unescape, unquote};
use super::schema::Value;
use crate::SyncError;

pub(crate) const ID_PATTERN: &str =
    "^[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$|^[0-9A-HJKMNP-TV-Z]{26}$";
const NAME_PATTERN: &str = "^[ -~]{1,32}$";
pub(crate) const AMOUNT_PATTERN: &str = "^([0]|([1-9][0-9]{0,17}))([.][0-9]{0,3}[1-9])?$";
const PACKET_PATTERN: &str = "^[A-Za-z0-9-_]+[=]{0,2}$";
const OCTETS_PATTERN: &str = "^[A-Za-z0-9-_]{43}$";
const DATE_TIME_PATTERN: &str =
    r"^[1-9]\d{3}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}(Z|[+-][01]\d:[0-5]\d)$";
const CODE_PATTERN: &str = r"^[1-9]\d{3}$";

const PACKET_CHARS_MAX: usize = 32_768;
const OCTETS_CHARS_MAX: usize = 48;
const INTEGER_DIGITS_MAX: usize = 18;
const FRACTION_DIGITS_MAX: usize = 4;

impl<'a> Value<'a, '_> {
    pub(crate) fn pattern(&self, pattern: &str) -> SyncError {
        self.refuse(ErrorCode::VALIDATION, format_args!("must match pattern \"{pattern}\""))
    }

    /// The text, where numbers and literals count as what they are written with.
    pub(crate) fn text(&self) -> Result<Cow<'a, str>, SyncError> {
        let json = self.json();
        match self.kind() {
            Kind::Object | Kind::Array => Err(self.refuse(ErrorCode::MALFORMED_SYNTAX, "must be string")),
            Kind::Null => Ok(Cow::Borrowed("")),
            Kind::Text => Ok(Cow::Borrowed(unquote(json))),
            Kind::EscapedText => unescape(json).map(Cow::Owned).map_err(|error| {
                self.refuse(ErrorCode::MALFORMED_SYNTAX, format_args!("is not a valid text: {error}"))
            }),
            Kind::Bare => Ok(Cow::Borrowed(json)),
        }
    }

    /// A text of `min` to `max` characters.
    pub(crate) fn bounded_text(&self, min: usize, max: usize) -> Result<Cow<'a, str>, SyncError> {
        let text = self.text()?;
        // A text has at most as many characters as bytes, so that counting is needed for long ones only.
        let too_long = text.len() > max && text.chars().count() > max;
        if too_long {
            return Err(
                self.refuse(ErrorCode::VALIDATION, format_args!("must NOT have more than {max} characters"))
            );
        }
        if text.chars().take(min).count() < min {
            return Err(
                self.refuse(ErrorCode::VALIDATION, format_args!("must NOT have fewer than {min} characters"))
            );
        }
        Ok(text)
    }

    pub(crate) fn transfer_id(&self) -> Result<TransferId, SyncError> {
        TransferId::parse(&self.text()?).ok_or_else(|| self.pattern(ID_PATTERN))
    }

    pub(crate) fn name(&self) -> Result<FspId, SyncError> {
        FspId::parse(&self.bounded_text(1, 32)?).ok_or_else(|| self.pattern(NAME_PATTERN))
    }

    pub(crate) fn currency(&self) -> Result<Currency, SyncError> {
        Currency::parse(&self.text()?).ok_or_else(|| self.not_allowed())
    }

    pub(crate) fn not_allowed(&self) -> SyncError {
        self.refuse(ErrorCode::VALIDATION, "must be equal to one of the allowed values")
    }

    /// A decimal text in the wire form, up to 18 digits before the point.
    pub(crate) fn amount(&self) -> Result<Cow<'a, str>, SyncError> {
        let text = self.text()?;
        if is_amount(&text) { Ok(text) } else { Err(self.pattern(AMOUNT_PATTERN)) }
    }

    pub(crate) fn packet(&self) -> Result<Cow<'a, str>, SyncError> {
        let text = self.bounded_text(1, PACKET_CHARS_MAX)?;
        let unpadded = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(&text);
        if unpadded.is_empty() || !all_base64url(unpadded) {
            return Err(self.pattern(PACKET_PATTERN));
        }
        Ok(text)
    }

    /// The text of a condition or fulfilment.
    pub(crate) fn octets(&self) -> Result<Cow<'a, str>, SyncError> {
        let text = self.bounded_text(0, OCTETS_CHARS_MAX)?;
        if text.len() != crate::octets::TEXT_BYTES || !all_base64url(&text) {
            return Err(self.pattern(OCTETS_PATTERN));
        }
        Ok(text)
    }

    pub(crate) fn date_time(&self) -> Result<Timestamp, SyncError> {
        let text = self.text()?;
        // The schema asks for years from 1000 and offsets below 20 hours, which an instant as such does not need.
        let in_schema = matches!(
            text.as_bytes(),
            [b'1'..=b'9', .., b'Z'] | [b'1'..=b'9', .., b'0' | b'1', _, b':', _, _]
        );
        let parsed = if in_schema { Timestamp::parse_iso(&text) } else { None };
        parsed.ok_or_else(|| self.pattern(DATE_TIME_PATTERN))
    }

    pub(crate) fn error_code(&self) -> Result<ErrorCode, SyncError> {
        let text = self.text()?;
        let plain = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if plain { text.parse().ok() } else { None };
        number.and_then(ErrorCode::from_number).ok_or_else(|| self.pattern(CODE_PATTERN))
    }
}

/// Looks at every character even after a wrong one: without an early end the loop works on many at a time, and packets
/// are by far the longest texts.
fn all_base64url(text: &str) -> bool {
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() | (byte == b'-') | (byte == b'_');
    text.bytes().fold(true, |all, byte| all & is_base64url(byte))
}

pub(crate) fn is_amount(text: &str) -> bool {
    let (integer, fraction) = match text.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (text, None),
    };
    let digits = |part: &str, max: usize| {
        (1..=max).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    digits(integer, INTEGER_DIGITS_MAX)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(|part| digits(part, FRACTION_DIGITS_MAX) && !part.ends_with('0'))
}
