//! Currency codes.

use core::fmt;

use crate::amount::{Amount, SCALE_DIGITS};

/// A currency that the FSPIOP schema allows.
///
/// The code is an ISO 4217 alphabetic code, including `XXX` and the test code `XTS`. The codes of FSPIOP API v1.1
/// §7.5.5 that ISO 4217 never had or no longer has, such as `JEP`, `STD` and `ZWD`, are also allowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// Every allowed code, sorted.
    pub fn all() -> impl Iterator<Item = Self> {
        CODES.as_bytes().chunks(4).map(|chunk| Self([chunk[0], chunk[1], chunk[2]]))
    }

    /// Reads a three-letter upper-case code. Returns `None` if the code is not allowed.
    pub fn parse(text: &str) -> Option<Self> {
        let code: [u8; 3] = text.as_bytes().try_into().ok()?;
        let (mut low, mut high) = (0, CODES.len() / 4 + 1);
        while low < high {
            let middle = (low + high) / 2;
            let candidate = &CODES.as_bytes()[middle * 4..middle * 4 + 3];
            match candidate.cmp(&code[..]) {
                core::cmp::Ordering::Equal => return Some(Self(code)),
                core::cmp::Ordering::Less => low = middle + 1,
                core::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The three letters.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or("XXX")
    }

    /// Decimals of the currency's smallest unit (ISO 4217). `None` for codes without one, such as gold and the test
    /// code.
    pub fn decimals(self) -> Option<u32> {
        let is_among = |codes: &str| codes.as_bytes().chunks(4).any(|code| code.starts_with(&self.0));
        if is_among(WITHOUT_DECIMALS) {
            Some(0)
        } else if is_among(THREE_DECIMALS) {
            Some(3)
        } else if is_among(FOUR_DECIMALS) {
            Some(4)
        } else if is_among(WITHOUT_UNIT) {
            None
        } else {
            Some(2)
        }
    }

    /// The currency's smallest unit in ten-thousandths. `None` for codes without one.
    pub fn smallest_unit(self) -> Option<i64> {
        Some(10_i64.pow((SCALE_DIGITS as u32).saturating_sub(self.decimals()?)))
    }

    /// Whether an amount has at most as many decimals as the currency, so that a bank can hold and move it. Every
    /// amount fits a code without a smallest unit.
    pub fn has(self, amount: Amount) -> bool {
        self.smallest_unit().is_none_or(|unit| amount.units() % unit == 0)
    }

    /// The three letters as bytes, for storage.
    pub const fn to_bytes(self) -> [u8; 3] {
        self.0
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Currencies that do not have two decimals (ISO 4217, table A.1), grouped by the decimals of their smallest unit.
const WITHOUT_DECIMALS: &str = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF";
const THREE_DECIMALS: &str = "BHD IQD JOD KWD LYD OMR TND";
const FOUR_DECIMALS: &str = "CLF UYW";
const WITHOUT_UNIT: &str = "XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX";

const CODES: &str = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV \
                     BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUC CUP CVE \
                     CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GGP GHS GIP GMD GNF GTQ GYD \
                     HKD HNL HRK HTG HUF IDR ILS IMP INR IQD IRR ISK JEP JMD JOD JPY KES KGS KHR KMF \
                     KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRO MRU \
                     MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN \
                     PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SPL SRD SSP STD \
                     STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TVD TWD TZS UAH UGX USD USN UYI UYU \
                     UYW UZS VED VEF VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD \
                     XPF XPT XSU XTS XUA XXX YER ZAR ZMW ZWD ZWG ZWL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_code_is_found() {
        let mut previous = None;
        for currency in Currency::all() {
            assert!(previous < Some(currency), "{currency} is out of order");
            assert_eq!(Currency::parse(currency.as_str()), Some(currency));
            previous = Some(currency);
        }
        assert!(Currency::all().count() > 170);
    }

    /// The enumeration of FSPIOP API v1.1 §7.5.5.
    const FSPIOP_CODES: &str = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN \
          BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CUC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR \
          FJD FKP GBP GEL GGP GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS IMP INR IQD IRR \
          ISK JEP JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL \
          MGA MKD MMK MNT MOP MRO MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK \
          PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLL SOS SPL SRD STD SVC \
          SYP SZL THB TJS TMT TND TOP TRY TTD TVD TWD TZS UAH UGX USD UYU UZS VEF VND VUV WST XAF \
          XCD XDR XOF XPF XTS XXX YER ZAR ZMW ZWD";

    #[test]
    fn every_code_of_the_api_is_accepted() {
        let codes: alloc::vec::Vec<_> = FSPIOP_CODES.split(' ').collect();
        assert_eq!(codes.len(), 164);
        for code in codes {
            assert_eq!(Currency::parse(code).as_ref().map(Currency::as_str), Some(code));
        }
    }

    #[test]
    fn decimals_are_those_of_iso_4217() {
        for (code, expected) in [
            ("KES", Some(2)),
            ("UGX", Some(0)),
            ("KWD", Some(3)),
            ("CLF", Some(4)),
            ("XTS", None),
            ("XAF", Some(0)),
        ] {
            assert_eq!(Currency::parse(code).unwrap().decimals(), expected, "{code}");
        }
        let lists = [WITHOUT_DECIMALS, THREE_DECIMALS, FOUR_DECIMALS, WITHOUT_UNIT];
        let mut listed = lists.iter().flat_map(|list| list.split(' '));
        assert!(listed.all(|code| Currency::parse(code).is_some()));
        assert_eq!(Currency::all().filter(|code| code.decimals() != Some(2)).count(), 17 + 7 + 2 + 13);
    }

    #[test]
    fn amounts_with_too_many_decimals_do_not_fit_the_currency() {
        for (code, amount, expected) in [
            ("KES", "0.01", true),
            ("KES", "0.001", false),
            ("KES", "12.3456", false),
            ("UGX", "5", true),
            ("UGX", "0.5", false),
            ("KWD", "0.001", true),
            ("KWD", "0.0001", false),
            ("CLF", "0.0001", true),
            ("XTS", "0.0001", true),
        ] {
            let currency = Currency::parse(code).unwrap();
            assert_eq!(currency.has(Amount::parse_decimal(amount).unwrap()), expected, "{code} {amount}");
        }
        assert!(!Currency::parse("KES").unwrap().has(Amount::parse_decimal("0.001").unwrap().negated()));
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in ["", "KE", "kes", "KESX", "ABC", "ZZZ", "AAA", "€€"] {
            assert_eq!(Currency::parse(text), None, "{text}");
        }
    }
}
