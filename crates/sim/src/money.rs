//! Amounts as DFSPs calculate with them: in the smallest unit of their currency.

use upesi_types::{Amount, Currency};

/// The digits after the decimal point that a currency has (ISO 4217).
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

/// An amount in the smallest unit of its currency, cut where it has more digits; zero where it is negative.
pub(crate) fn minor_units(amount: Amount, currency: Currency) -> u64 {
    u64::try_from(amount.units() / step(currency)).unwrap_or(0)
}

/// The fee of an amount, rounded down to the smallest unit of the currency.
pub(crate) fn fee(amount: Amount, per_mille: u16, currency: Currency) -> Amount {
    let step = i128::from(step(currency));
    let exact = i128::from(amount.units()) * i128::from(per_mille) / 1000;
    i64::try_from(exact / step * step).ok().and_then(Amount::from_units).unwrap_or(Amount::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_count_in_the_smallest_unit_of_the_currency() {
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
}
