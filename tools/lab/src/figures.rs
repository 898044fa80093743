//! Figures in reports: with grouped digits, only meaningful digits, and always with their unit.
#![expect(clippy::float_arithmetic, reason = "units of measurements; no money")]

use serde_json::Value;

/// The text for a figure that was not measured.
pub(crate) const ABSENT: &str = "–";

pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    let zero = text.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    if value < 0.0 && !zero {
        grouped.push('−');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// A number with about three digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        magnitude if magnitude >= 99.95 || magnitude == 0.0 => 0,
        magnitude if magnitude >= 9.995 => 1,
        magnitude if magnitude >= 0.01 => 2,
        _ => 4,
    };
    grouped(value, decimals)
}

/// A whole number with commas between its thousands.
pub fn count(value: u64) -> String {
    grouped(value as f64, 0)
}

/// A time given in milliseconds, in a suitable unit.
pub(crate) fn milliseconds(value: f64) -> String {
    match value.abs() {
        magnitude if !magnitude.is_finite() => ABSENT.to_owned(),
        0.0 => "0 ms".to_owned(),
        magnitude if magnitude < 0.1 => format!("{} µs", number(value * 1e3)),
        magnitude if magnitude < 1_000.0 => format!("{} ms", number(value)),
        magnitude if magnitude < 120_000.0 => format!("{} s", number(value / 1e3)),
        _ => format!("{} min", number(value / 60e3)),
    }
}

pub(crate) fn microseconds(value: f64) -> String {
    if value.abs() < 1_000.0 { format!("{} µs", number(value)) } else { milliseconds(value / 1e3) }
}

/// A share of one, as a percentage without a sign.
pub(crate) fn percent(share: f64) -> String {
    let percentage = share.abs() * 100.0;
    let decimals = if percentage >= 9.95 || percentage == 0.0 {
        0
    } else if percentage >= 0.095 {
        1
    } else {
        3
    };
    format!("{} %", grouped(percentage, decimals))
}

/// A relative difference with its sign.
pub(crate) fn signed_percent(share: f64) -> String {
    let magnitude = percent(share);
    if share == 0.0 || magnitude.starts_with("0 ") || magnitude.starts_with("0.000") {
        return "0 %".to_owned();
    }
    format!("{}{magnitude}", if share < 0.0 { "−" } else { "+" })
}

/// A value that may be absent, formatted.
pub(crate) fn or_absent(value: Option<f64>, format: fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| ABSENT.to_owned(), format)
}

/// The minute of an ISO 8601 time: `2026-11-22 01:55 UTC`.
pub(crate) fn minute(moment: &str) -> String {
    let minute: String = moment.chars().take(16).collect();
    format!("{} UTC", minute.replace('T', " "))
}

/// A text with its first letter in upper case.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A JSON value in a report: no quotes, members as `name value`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| format!("{name} {}", plain(value));
            members.iter().filter(|(_, value)| !value.is_null()).map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_grouped_digits_and_a_suitable_unit() {
        for (value, expected) in [
            (0.0, "0"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (999.4, "999"),
            (1_234.0, "1,234"),
            (1_234_567.8, "1,234,568"),
            (-1_234.0, "−1,234"),
            (0.004, "0.0040"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
        assert_eq!(grouped(-0.001, 2), "0.00", "zero has no sign");
        for (value, expected) in [
            (0.0, "0 ms"),
            (0.043, "43.0 µs"),
            (0.35, "0.35 ms"),
            (15.759, "15.8 ms"),
            (1_454.0, "1.45 s"),
            (600_000.0, "10.0 min"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(milliseconds(value), expected, "{value}");
        }
        assert_eq!(microseconds(121.5), "122 µs");
        assert_eq!(microseconds(22_000.0), "22.0 ms");
    }

    #[test]
    fn percentages_keep_two_digits_and_a_sign() {
        for (value, expected) in [
            (0.0, "0 %"),
            (0.123, "+12 %"),
            (-0.0123, "−1.2 %"),
            (1.5, "+150 %"),
            (0.0003, "+0.030 %"),
            (-0.000_000_1, "0 %"),
        ] {
            assert_eq!(signed_percent(value), expected, "{value}");
        }
        assert_eq!(minute("2026-11-22T01:55:03.123Z"), "2026-11-22 01:55 UTC");
        assert_eq!(capitalised("éa"), "Éa");
        assert_eq!(capitalised(""), "");
    }
}
