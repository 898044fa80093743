//! Exact decimal money: a signed 64-bit count of ten-thousandths.

use alloc::boxed::Box;
use core::fmt;

use crate::Currency;

/// Decimal places that an amount can carry on the wire and in the ledger.
pub const SCALE_DIGITS: usize = 4;
const UNITS_PER_ONE: i64 = 10_000;
const INTEGER_DIGITS_MAX: usize = 14;

/// A signed quantity of money in ten-thousandths of the currency's unit (`12.5` is `125_000`).
///
/// The range is ±99 999 999 999 999.9999, as in `DECIMAL(18,4)`. All arithmetic is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

/// An amount in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Money {
    pub amount: Amount,
    pub currency: Currency,
}

/// An amount of a message that does not fit [`Amount`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitAmount {
    pub error: AmountError,
    /// The amount as it was written.
    pub text: Box<str>,
}

/// The reason why a decimal text is not an [`Amount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountError {
    /// The text is not a decimal number in the form of FSPIOP API v1.1 §7.1.5: no sign, no leading or trailing zeros.
    Syntax,
    /// More than four decimal places.
    Scale,
    /// More digits than `DECIMAL(18,4)` holds.
    Precision,
    /// More decimals than the currency has, if the scheme rejects such amounts.
    Finer,
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "is not a decimal number",
            Self::Scale => "exceeds allowed scale of 4",
            Self::Precision => "exceeds allowed precision of 18",
            Self::Finer => "has more decimals than its currency",
        })
    }
}

impl core::error::Error for AmountError {}

impl Amount {
    pub const ZERO: Self = Self(0);
    /// The largest amount, 99 999 999 999 999.9999.
    pub const MAX: Self = Self(999_999_999_999_999_999);

    /// Creates an amount from a count of ten-thousandths. Returns `None` outside the range.
    pub const fn from_units(units: i64) -> Option<Self> {
        if units > Self::MAX.0 || units < -Self::MAX.0 { None } else { Some(Self(units)) }
    }

    /// This amount as a count of ten-thousandths.
    pub const fn units(self) -> i64 {
        self.0
    }

    /// Reads the FSPIOP wire form, which is unsigned and canonical: `0`, `100`, `12.5`, never `012`, `1.50`, `-1`.
    pub fn parse_wire(text: &str) -> Result<Self, AmountError> {
        let (integer, fraction) = split_decimal(text)?;
        if integer.len() > 1 && integer.starts_with('0') {
            return Err(AmountError::Syntax);
        }
        if fraction.is_some_and(|digits| digits.is_empty() || digits.ends_with('0')) {
            return Err(AmountError::Syntax);
        }
        Self::assemble(integer, fraction.unwrap_or(""))
    }

    /// Reads any plain decimal text, as operators write it: optional sign, leading and trailing zeros allowed.
    pub fn parse_decimal(text: &str) -> Result<Self, AmountError> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (integer, fraction) = split_decimal(text)?;
        let integer = integer.trim_start_matches('0');
        let magnitude = Self::assemble(integer, fraction.unwrap_or("").trim_end_matches('0'))?;
        Ok(if negative { Self(-magnitude.0) } else { magnitude })
    }

    fn assemble(integer: &str, fraction: &str) -> Result<Self, AmountError> {
        if fraction.len() > SCALE_DIGITS {
            return Err(AmountError::Scale);
        }
        if integer.len() > INTEGER_DIGITS_MAX {
            return Err(AmountError::Precision);
        }
        let digits = |text: &str| text.bytes().fold(0_i64, |sum, byte| sum * 10 + i64::from(byte - b'0'));
        let padding = 10_i64.pow((SCALE_DIGITS - fraction.len()) as u32);
        Ok(Self(digits(integer) * UNITS_PER_ONE + digits(fraction) * padding))
    }

    /// Returns the sum, or `None` outside the range.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        // Two in-range values cannot overflow an i64: 2 × 10^18 < 9.2 × 10^18.
        Self::from_units(self.0 + other.0)
    }

    /// Returns the difference, or `None` outside the range.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        Self::from_units(self.0 - other.0)
    }

    /// The same magnitude with the other sign.
    pub const fn negated(self) -> Self {
        Self(-self.0)
    }

    /// Whether the amount is below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

fn split_decimal(text: &str) -> Result<(&str, Option<&str>), AmountError> {
    let (integer, fraction) = match text.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (text, None),
    };
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if integer.is_empty() || !all_digits(integer) || !fraction.is_none_or(all_digits) {
        return Err(AmountError::Syntax);
    }
    Ok((integer, fraction))
}

impl fmt::Display for Amount {
    /// The shortest exact decimal text: `12.5`, `-0.0001`, `100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (integer, fraction) = (magnitude / UNITS_PER_ONE as u64, magnitude % UNITS_PER_ONE as u64);
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{integer}")?;
        match fraction {
            0 => Ok(()),
            n if n % 1000 == 0 => write!(f, ".{}", n / 1000),
            n if n % 100 == 0 => write!(f, ".{:02}", n / 100),
            n if n % 10 == 0 => write!(f, ".{:03}", n / 10),
            n => write!(f, ".{n:04}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn wire_amounts_round_trip_exactly() {
        for (text, units) in [
            ("0", 0),
            ("1", 10_000),
            ("12.5", 125_000),
            ("0.0001", 1),
            ("0.01", 100),
            ("0.123", 1_230),
            ("99999999999999.9999", 999_999_999_999_999_999),
        ] {
            let amount = Amount::parse_wire(text).unwrap();
            assert_eq!(amount.units(), units, "{text}");
            assert_eq!(amount.to_string(), text);
        }
    }

    #[test]
    fn malformed_wire_amounts_are_rejected() {
        for (text, error) in [
            ("", AmountError::Syntax),
            ("01", AmountError::Syntax),
            ("1.", AmountError::Syntax),
            (".5", AmountError::Syntax),
            ("1.50", AmountError::Syntax),
            ("1.0", AmountError::Syntax),
            ("-1", AmountError::Syntax),
            ("+1", AmountError::Syntax),
            ("1e3", AmountError::Syntax),
            ("1 ", AmountError::Syntax),
            ("1.2.3", AmountError::Syntax),
            ("１", AmountError::Syntax),
            ("1.00001", AmountError::Scale),
            ("100000000000000", AmountError::Precision),
        ] {
            assert_eq!(Amount::parse_wire(text), Err(error), "{text}");
        }
    }

    #[test]
    fn operator_amounts_may_have_signs_and_extra_zeros() {
        for (text, units) in
            [("-3000", -30_000_000), ("007.50", 75_000), ("0.0000", 0), ("-0", 0), ("1.000000", 10_000)]
        {
            assert_eq!(Amount::parse_decimal(text).unwrap().units(), units, "{text}");
        }
    }

    #[test]
    fn arithmetic_fails_outside_the_range() {
        let one = Amount::from_units(1).unwrap();
        assert_eq!(Amount::MAX.checked_add(one), None);
        assert_eq!(Amount::MAX.negated().checked_sub(one), None);
        assert_eq!(Amount::MAX.checked_sub(one).unwrap().to_string(), "99999999999999.9998");
    }
}
