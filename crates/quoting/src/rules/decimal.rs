//! Compares decimal numbers as texts, exactly and of any length.

use std::cmp::Ordering;

/// Maximum number of digits of an exponent; larger ones are not realistic.
const EXPONENT_DIGITS_MAX: usize = 6;

/// A number as `0.digits × 10^exponent`, the first and the last digit not zero; zero has no digits.
struct Decimal {
    is_negative: bool,
    exponent: i64,
    digits: Vec<u8>,
}

/// Whether a text is a decimal number: an optional minus sign, digits, an optional fraction and an optional exponent.
pub(super) fn is_decimal(text: &str) -> bool {
    read(text).is_some()
}

/// Compares two numbers; `None` if one of the texts is not a number.
pub(super) fn compare_decimals(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (read(left)?, read(right)?);
    Some(match (left.sign(), right.sign()) {
        (1, 1) => left.compare_magnitude(&right),
        (-1, -1) => right.compare_magnitude(&left),
        (left, right) => left.cmp(&right),
    })
}

impl Decimal {
    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits))
    }
}

fn read(text: &str) -> Option<Decimal> {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, power) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], read_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (mantissa, ""),
    };
    if integer.is_empty() || !integer.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut digits: Vec<u8> = integer.bytes().chain(fraction.bytes()).collect();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    let leading_zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.drain(..leading_zeros);
    let exponent = integer.len() as i64 - leading_zeros as i64 + power;
    Some(Decimal { is_negative, exponent, digits })
}

fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain =
        (1..=EXPONENT_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value: i64 = if plain { digits.parse().ok()? } else { return None };
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_compare_by_value() {
        for (left, right, order) in [
            ("0", "-0.00", Ordering::Equal),
            ("10", "9", Ordering::Greater),
            ("10", "10.0", Ordering::Equal),
            ("0.1", "0.09", Ordering::Greater),
            ("-2", "-3", Ordering::Greater),
            ("-2", "1", Ordering::Less),
            ("0", "0.0001", Ordering::Less),
            ("1e3", "1000", Ordering::Equal),
            ("12.5e-1", "1.25", Ordering::Equal),
            ("007", "7", Ordering::Equal),
            ("999999999999999999.9999", "1000000000000000000", Ordering::Less),
            ("0.10000000000000000001", "0.1", Ordering::Greater),
        ] {
            assert_eq!(compare_decimals(left, right), Some(order), "{left} and {right}");
            assert_eq!(compare_decimals(right, left), Some(order.reverse()), "{right} and {left}");
        }
    }

    #[test]
    fn other_texts_are_not_numbers() {
        for text in ["", "-", ".5", "5.", "1.2.3", "+1", "1e", "1e1234567", "0x1", "1 ", "１", "NaN", "e1"] {
            assert_eq!(compare_decimals(text, "1"), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_integers(left in any::<i64>(), right in any::<i64>(), places in 0_u32..6) {
            let text = |number: i64| {
                let unit = 10_u64.pow(places);
                let sign = if number < 0 { "-" } else { "" };
                let (integer, fraction) = (number.unsigned_abs() / unit, number.unsigned_abs() % unit);
                match places {
                    0 => format!("{sign}{integer}"),
                    _ => format!("{sign}{integer}.{fraction:0width$}", width = places as usize),
                }
            };
            prop_assert_eq!(compare_decimals(&text(left), &text(right)), Some(left.cmp(&right)));
        }
    }
}
