//! Amounts of money in bodies, and the calculations of DFSPs in the smallest unit of their currency. Rates are exact,
//! in thousandths.

use std::io::Write as _;

use upesi_types::{Amount, Currency};

use crate::scan;

pub(crate) fn currency_of(money: &[u8]) -> Option<Currency> {
    Currency::parse(std::str::from_utf8(scan::text(scan::member(money, b"currency")?)?).ok()?)
}

pub(crate) fn amount_of(money: &[u8]) -> Option<Amount> {
    Amount::parse_wire(std::str::from_utf8(scan::text(scan::member(money, b"amount")?)?).ok()?).ok()
}

/// Writes a money object after `before`.
pub(crate) fn push_amount(out: &mut Vec<u8>, before: &str, amount: Amount, currency: Currency) {
    let _ = write!(out, "{before}{{\"amount\":\"{amount}\",\"currency\":\"{currency}\"}}");
}

/// The number of digits after the decimal point of a currency (ISO 4217).
const fn decimals(currency: Currency) -> u32 {
    match &currency.to_bytes() {
        b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG" | b"RWF" | b"UGX"
        | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
        b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
        b"CLF" | b"UYW" => 4,
        _ => 2,
    }
}

/// Ten-thousandths in the smallest unit of a currency.
const fn step(currency: Currency) -> i64 {
    10_i64.pow(4 - decimals(currency))
}

/// An amount in the smallest unit of its currency. Further digits are cut off, and a negative amount becomes zero.
pub(crate) fn minor_units(amount: Amount, currency: Currency) -> u64 {
    u64::try_from(amount.units() / step(currency)).unwrap_or(0)
}

/// The fee of an amount, rounded down to the smallest unit of the currency.
pub(crate) fn fee(amount: Amount, per_mille: u16, currency: Currency) -> Amount {
    bought(amount, per_mille.into(), currency).unwrap_or(Amount::ZERO)
}

/// The amount that can be bought in a currency, rounded down to its smallest unit; `None` if it is too large.
pub(crate) fn bought(sold: Amount, rate_per_mille: u32, currency: Currency) -> Option<Amount> {
    let step = i128::from(step(currency));
    let exact = i128::from(sold.units()) * i128::from(rate_per_mille) / 1000;
    in_range(exact / step * step)
}

/// The price of an amount in a currency, rounded up to its smallest unit; `None` if it is too large, or the rate is 0.
pub(crate) fn price(bought: Amount, rate_per_mille: u32, currency: Currency) -> Option<Amount> {
    let step = i128::from(step(currency));
    let (wanted, worth_of_step) = (i128::from(bought.units()) * 1000, i128::from(rate_per_mille) * step);
    in_range((wanted + worth_of_step - 1).checked_div(worth_of_step)? * step)
}

fn in_range(units: i128) -> Option<Amount> {
    Amount::from_units(i64::try_from(units).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_converted_to_the_smallest_unit() {
        for (amount, currency, minor, fee_of_1_percent) in [
            ("12.5", "USD", 1250, "0.12"),
            ("0.9999", "USD", 99, "0"),
            ("12.5", "KWD", 12_500, "0.125"),
            ("1234", "JPY", 1234, "12"),
            ("12.5", "CLF", 125_000, "0.125"),
            ("99.99", "XXX", 9_999, "0.99"),
        ] {
            let (amount, currency) =
                (Amount::parse_wire(amount).unwrap(), Currency::parse(currency).unwrap());
            assert_eq!(minor_units(amount, currency), minor, "{amount} {currency}");
            assert_eq!(fee(amount, 10, currency).to_string(), fee_of_1_percent, "{amount} {currency}");
            assert_eq!(fee(amount, 0, currency), Amount::ZERO);
            assert_eq!(fee(amount, 1000, currency).units(), i64::try_from(minor).unwrap() * step(currency));
        }
    }

    #[test]
    fn fx_amounts_are_rounded_in_the_fxps_favour() {
        for (amount, rate_per_mille, currency, worth, cost) in [
            ("2", 1500, "XTS", Some("3"), Some("1.34")),
            ("3", 1500, "XXX", Some("4.5"), Some("2")),
            ("125.5", 28_600, "UGX", Some("3589"), Some("5")),
            ("1", 7, "USD", Some("0"), Some("142.86")),
            ("1", 7, "KWD", Some("0.007"), Some("142.858")),
            ("0", 1500, "XTS", Some("0"), Some("0")),
            ("99999999999999.9999", 1000, "CLF", Some("99999999999999.9999"), Some("99999999999999.9999")),
            ("99999999999999.9999", 1001, "CLF", None, Some("99900099900099.9")),
            ("99999999999999.9999", u32::MAX, "XTS", None, Some("23283064.38")),
            ("99999999999999.9999", 1, "XTS", Some("99999999999.99"), None),
            ("1", 0, "XTS", Some("0"), None),
        ] {
            let (amount, currency) =
                (Amount::parse_wire(amount).unwrap(), Currency::parse(currency).unwrap());
            let found = [bought, price].map(|convert| convert(amount, rate_per_mille, currency));
            let found = found.map(|converted| converted.map(|converted| converted.to_string()));
            let expected = [worth, cost].map(|text| text.map(str::to_owned));
            assert_eq!(found, expected, "{amount} at {rate_per_mille} in {currency}");
        }
    }
}
