//! The fields of forms, and the check of what an operator typed.

use upesi_types::{Amount, Currency};

use crate::words::Words;

/// Maximum length of a reason, a reference and a comment, in characters. The operations check their own maximum.
const TEXT_CHARS_MAX: usize = 256;

/// A field that an operator fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Money above 0, with at most the decimals of its currency.
    Amount,
    /// A net debit cap: money from 0 on.
    Limit,
    /// A share in percent, with at most two decimals.
    Alarm,
    /// The bank's reference.
    Reference,
    Reason,
    /// A comment that may be empty.
    Comment,
}

impl Field {
    /// Its name in the form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amount => "amount",
            Self::Limit => "limit",
            Self::Alarm => "alarm",
            Self::Reference => "reference",
            Self::Reason => "reason",
            Self::Comment => "comment",
        }
    }

    /// The text beside the field.
    pub const fn label(self, words: &Words) -> &'static str {
        match self {
            Self::Amount => words.field_amount,
            Self::Limit => words.field_limit,
            Self::Alarm => words.field_alarm,
            Self::Reference => words.field_reference,
            Self::Reason => words.field_reason,
            Self::Comment => words.field_comment,
        }
    }

    /// How to fill it in.
    pub const fn hint(self, words: &Words) -> &'static str {
        match self {
            Self::Amount | Self::Limit => words.hint_amount,
            Self::Alarm => words.hint_alarm,
            Self::Reference => words.hint_reference,
            Self::Reason => words.hint_reason,
            Self::Comment => words.hint_comment,
        }
    }

    pub const fn is_number(self) -> bool {
        matches!(self, Self::Amount | Self::Limit | Self::Alarm)
    }

    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Comment)
    }

    /// Checks a text. Returns what is wrong with it.
    pub fn check(self, text: &str, currency: Option<Currency>, words: &Words) -> Result<(), &'static str> {
        if text.is_empty() {
            return if self.is_optional() { Ok(()) } else { Err(words.wrong_missing) };
        }
        match self {
            Self::Amount | Self::Limit => {
                let amount = money(text, currency, words)?;
                if self == Self::Amount && amount == Amount::ZERO { Err(words.wrong_zero) } else { Ok(()) }
            }
            Self::Alarm => {
                let is_share = money(text, None, words).is_ok_and(|share| share.units() <= 100 * 10_000);
                let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                if is_share && decimals <= 2 { Ok(()) } else { Err(words.wrong_share) }
            }
            Self::Reference | Self::Reason | Self::Comment => {
                if text.chars().count() > TEXT_CHARS_MAX {
                    Err(words.wrong_long)
                } else {
                    Ok(())
                }
            }
        }
    }
}

/// Money as an operator writes it: digits, and perhaps a point with decimals.
pub fn money(text: &str, currency: Option<Currency>, words: &Words) -> Result<Amount, &'static str> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(words.wrong_amount);
    }
    let amount = Amount::parse_decimal(text).map_err(|_| words.wrong_amount)?;
    if currency.is_some_and(|currency| !currency.has(amount)) {
        return Err(words.wrong_decimals);
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    #[test]
    fn amounts_are_plain_decimals_that_the_currency_can_hold() {
        let words = &ENGLISH;
        for (text, currency, expected) in [
            ("1250.50", "KES", Ok(())),
            ("5000", "UGX", Ok(())),
            ("1.005", "TND", Ok(())),
            ("1250.505", "KES", Err(words.wrong_decimals)),
            ("0.5", "UGX", Err(words.wrong_decimals)),
            ("0", "KES", Err(words.wrong_zero)),
            ("0.00", "KES", Err(words.wrong_zero)),
            ("", "KES", Err(words.wrong_missing)),
            ("1e5", "KES", Err(words.wrong_amount)),
            ("-5", "KES", Err(words.wrong_amount)),
            ("+5", "KES", Err(words.wrong_amount)),
            ("1,250.50", "KES", Err(words.wrong_amount)),
            ("1250,50", "KES", Err(words.wrong_amount)),
            ("1.2.3", "KES", Err(words.wrong_amount)),
            (".", "KES", Err(words.wrong_amount)),
            ("99999999999999999999", "KES", Err(words.wrong_amount)),
            ("\u{0661}", "KES", Err(words.wrong_amount)),
        ] {
            assert_eq!(Field::Amount.check(text, Currency::parse(currency), words), expected, "{text:?}");
        }
        assert_eq!(Field::Limit.check("0", Currency::parse("KES"), words), Ok(()));
    }

    #[test]
    fn shares_and_texts_are_bounded() {
        let words = &ENGLISH;
        for (text, is_share) in [
            ("90", true),
            ("92.55", true),
            ("100", true),
            ("100.01", false),
            ("5.125", false),
            ("90%", false),
        ] {
            assert_eq!(Field::Alarm.check(text, None, words).is_ok(), is_share, "{text}");
        }
        assert_eq!(Field::Comment.check("", None, words), Ok(()));
        assert_eq!(Field::Reason.check(&"é".repeat(256), None, words), Ok(()));
        assert_eq!(Field::Reason.check(&"é".repeat(257), None, words), Err(words.wrong_long));
    }
}
