//! Numbers, money, shares, instants and durations as text. Everything is computed from integers.

use upesi_types::{Amount, Currency, SCALE_DIGITS, Timestamp};

use crate::words::{Words, fill};

/// Units of an [`Amount`] in one unit of a currency.
const UNITS_PER_ONE: u128 = 10_u128.pow(SCALE_DIGITS as u32);

/// An amount with the separators of the language, and with at least the decimals of its currency. A finer amount shows
/// all its digits.
pub fn money(units: i128, currency: Currency, words: &Words) -> String {
    let (whole, fraction) = digits(units, currency);
    let mut text = if units < 0 { "−".to_owned() } else { String::new() };
    text.push_str(&grouped(&whole, words.group));
    if !fraction.is_empty() {
        text.push_str(words.decimal);
        text.push_str(&fraction);
    }
    text
}

/// The same amount for programs: a point, no groups, and a hyphen as its sign.
pub fn plain_money(units: i128, currency: Currency) -> String {
    let (whole, fraction) = digits(units, currency);
    let sign = if units < 0 { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// An amount followed by its currency.
pub fn money_of(amount: Amount, currency: Currency, words: &Words) -> String {
    format!("{} {currency}", money(i128::from(amount.units()), currency, words))
}

/// The digits before and after the decimal point.
fn digits(units: i128, currency: Currency) -> (String, String) {
    let size = units.unsigned_abs();
    let fraction = format!("{:0width$}", size % UNITS_PER_ONE, width = SCALE_DIGITS);
    let scale = currency.decimals().unwrap_or(0) as usize;
    let needed = fraction.trim_end_matches('0').len();
    let shown = fraction[..scale.max(needed).min(SCALE_DIGITS)].to_owned();
    ((size / UNITS_PER_ONE).to_string(), shown)
}

/// A count with the separators of the language.
pub fn number(count: u64, words: &Words) -> String {
    grouped(&count.to_string(), words.group)
}

fn grouped(digits: &str, separator: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push_str(separator);
        }
        text.push(digit);
    }
    text
}

/// Parts of a whole in tenths of a percent, rounded up, so that one failure in many is not shown as none.
pub fn permille(part: u64, whole: u64) -> u64 {
    part.saturating_mul(1000).div_ceil(whole.max(1))
}

/// Tenths of a percent as `12.5 %`.
pub fn share(permille: u64, words: &Words) -> String {
    match (permille / 10, permille % 10) {
        (whole, 0) => format!("{whole} %"),
        (whole, tenth) => format!("{whole}{}{tenth} %", words.decimal),
    }
}

/// A rate in tenths, such as `12.5`.
pub fn tenths(tenths: u64, words: &Words) -> String {
    format!("{}{}{}", grouped(&(tenths / 10).to_string(), words.group), words.decimal, tenths % 10)
}

/// An instant to the second, such as `2026-11-30 19:02:11`. All instants of the console are in UTC.
pub fn second(at: Timestamp, words: &Words) -> String {
    dated(&at.to_string(), 19, words)
}

/// An instant to the millisecond.
pub fn instant(at: Timestamp, words: &Words) -> String {
    dated(&at.to_string(), usize::MAX, words)
}

/// An instant by ISO 8601 with the date of the language, and with its first characters only.
fn dated(iso: &str, chars_max: usize, words: &Words) -> String {
    let iso = iso.trim_end_matches('Z');
    let iso = iso.get(..chars_max).unwrap_or(iso);
    let Some((date, time)) = iso.split_once('T') else { return iso.to_owned() };
    let mut parts = date.splitn(3, '-');
    let [year, month, day] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    fill(words.date, &[("year", year), ("month", month), ("day", day), ("time", time)])
}

/// An instant to the millisecond, with the time zone.
pub fn zoned(at: Timestamp, words: &Words) -> String {
    format!("{} {}", instant(at, words), words.time_zone)
}

/// A duration in its two largest units: `2 d 4 h`, `3 min 5 s`, `1.5 s`, `870 ms`.
pub fn duration(ms: i64, words: &Words) -> String {
    let ms = ms.max(0);
    let [seconds, minutes, hours] = [1_000, 60_000, 3_600_000];
    let (one, first, other, second) = match ms {
        0..1_000 => return format!("{ms} {}", words.unit_ms),
        1_000..10_000 => {
            return format!("{}{}{} {}", ms / seconds, words.decimal, ms % seconds / 100, words.unit_s);
        }
        10_000..60_000 => return format!("{} {}", ms / seconds, words.unit_s),
        60_000..3_600_000 => (ms / minutes, words.unit_min, ms % minutes / seconds, words.unit_s),
        3_600_000..86_400_000 => (ms / hours, words.unit_h, ms % hours / minutes, words.unit_min),
        _ => (ms / (24 * hours), words.unit_d, ms % (24 * hours) / hours, words.unit_h),
    };
    format!("{one} {first} {other} {second}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    #[test]
    fn money_has_the_scale_of_its_currency_and_keeps_every_digit() {
        for (units, currency, shown, plain) in [
            (0, "KES", "0.00", "0.00"),
            (1_255_000, "KES", "125.50", "125.50"),
            (12_345_678_901, "KES", "1,234,567.8901", "1234567.8901"),
            (-1_000, "KES", "−0.10", "-0.10"),
            (50_000_000, "UGX", "5,000", "5000"),
            (5_000, "UGX", "0.5", "0.5"),
            (10_000, "TND", "1.000", "1.000"),
        ] {
            let currency = Currency::parse(currency).unwrap();
            let expected = (shown.to_owned(), plain.to_owned());
            assert_eq!((money(units, currency, &ENGLISH), plain_money(units, currency)), expected);
        }
    }

    #[test]
    fn durations_have_two_units_and_shares_are_rounded_up() {
        for (ms, text) in [
            (-5, "0 ms"),
            (870, "870 ms"),
            (1_573, "1.5 s"),
            (12_300, "12 s"),
            (185_000, "3 min 5 s"),
            (7_260_000, "2 h 1 min"),
            (187_200_000, "2 d 4 h"),
        ] {
            assert_eq!(duration(ms, &ENGLISH), text);
        }
        assert_eq!((permille(1, 10_000), permille(0, 0), permille(3, 3)), (1, 0, 1000));
        assert_eq!(
            [share(1, &ENGLISH), share(125, &ENGLISH), share(1000, &ENGLISH)],
            ["0.1 %", "12.5 %", "100 %"]
        );
    }
}
