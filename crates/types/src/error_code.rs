//! The FSPIOP error catalogue: codes, standard texts, and the HTTP status of a synchronous error response.

use alloc::string::String;
use core::fmt;

/// Longest `errorDescription` that the FSPIOP schema allows, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 128;

/// A four-digit FSPIOP error code (FSPIOP API v1.1 §7.6, and the catalogue that hubs use).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(u16);

macro_rules! catalogue {
    ($($name:ident = $code:literal, $status:literal, $text:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $text] pub const $name: Self = Self($code);)*

            /// The standard text of a code. Returns `None` if the code is not in the catalogue.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 { $($code => Some($text),)* _ => None }
            }

            /// The HTTP status if this code is answered synchronously.
            pub const fn http_status(self) -> u16 {
                match self.0 { $($code => $status,)* 1000..=1999 => 503, 2000..=2999 => 500, _ => 400 }
            }

            /// Every code of the catalogue, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

catalogue! {
    COMMUNICATION = 1000, 503, "Communication error";
    DESTINATION_COMMUNICATION = 1001, 503, "Destination communication error";
    SERVER = 2000, 500, "Generic server error";
    INTERNAL = 2001, 500, "Internal server error";
    NOT_IMPLEMENTED = 2002, 501, "Not implemented";
    UNAVAILABLE = 2003, 503, "Service currently unavailable";
    SERVER_TIMED_OUT = 2004, 500, "Server timed out";
    SERVER_BUSY = 2005, 503, "Server busy";
    PARTY_RESOLUTION_FAILED = 2006, 503, "Temporary party resolution failed, try again";
    CLIENT = 3000, 400, "Generic client error";
    UNACCEPTABLE_VERSION = 3001, 406, "Unacceptable version requested";
    UNKNOWN_URI = 3002, 404, "Unknown URI";
    ADD_PARTY_INFORMATION = 3003, 400, "Add Party information error";
    DELETE_PARTY_INFORMATION = 3040, 400, "Delete Party information error";
    VALIDATION = 3100, 400, "Generic validation error";
    MALFORMED_SYNTAX = 3101, 400, "Malformed syntax";
    MISSING_ELEMENT = 3102, 400, "Missing mandatory element";
    TOO_MANY_ELEMENTS = 3103, 400, "Too many elements";
    TOO_LARGE_PAYLOAD = 3104, 400, "Too large payload";
    INVALID_SIGNATURE = 3105, 400, "Invalid signature";
    MODIFIED_REQUEST = 3106, 400, "Modified request";
    MISSING_EXTENSION = 3107, 400, "Missing mandatory extension parameter";
    ID_NOT_FOUND = 3200, 400, "Generic ID not found";
    DESTINATION_FSP = 3201, 400, "Destination FSP Error";
    PAYER_FSP_NOT_FOUND = 3202, 400, "Payer FSP ID not found";
    PAYEE_FSP_NOT_FOUND = 3203, 400, "Payee FSP ID not found";
    PARTY_NOT_FOUND = 3204, 400, "Party not found";
    QUOTE_NOT_FOUND = 3205, 400, "Quote ID not found";
    TRANSACTION_REQUEST_NOT_FOUND = 3206, 400, "Transaction request ID not found";
    TRANSACTION_NOT_FOUND = 3207, 400, "Transaction ID not found";
    TRANSFER_NOT_FOUND = 3208, 400, "Transfer ID not found";
    BULK_QUOTE_NOT_FOUND = 3209, 400, "Bulk quote ID not found";
    BULK_TRANSFER_NOT_FOUND = 3210, 400, "Bulk transfer ID not found";
    EXPIRED = 3300, 400, "Generic expired error";
    TRANSACTION_REQUEST_EXPIRED = 3301, 400, "Transaction request expired";
    QUOTE_EXPIRED = 3302, 400, "Quote expired";
    TRANSFER_EXPIRED = 3303, 400, "Transfer expired";
    PAYER = 4000, 400, "Generic Payer error";
    PAYER_INSUFFICIENT_LIQUIDITY = 4001, 400, "Payer FSP insufficient liquidity";
    PAYER_REJECTION = 4100, 400, "Generic Payer rejection";
    PAYER_REJECTED_REQUEST = 4101, 400, "Payer rejected transaction request";
    PAYER_UNSUPPORTED_TYPE = 4102, 400, "Payer FSP unsupported transaction type";
    PAYER_UNSUPPORTED_CURRENCY = 4103, 400, "Payer unsupported currency";
    PAYER_LIMIT = 4200, 400, "Payer limit error";
    PAYER_PERMISSION = 4300, 400, "Payer permission error";
    PAYER_BLOCKED = 4400, 400, "Generic Payer blocked error";
    PAYEE = 5000, 400, "Generic Payee error";
    PAYEE_INSUFFICIENT_LIQUIDITY = 5001, 400, "Payee FSP insufficient liquidity";
    PAYEE_REJECTION = 5100, 400, "Generic Payee rejection";
    PAYEE_REJECTED_QUOTE = 5101, 400, "Payee rejected quote";
    PAYEE_UNSUPPORTED_TYPE = 5102, 400, "Payee FSP unsupported transaction type";
    PAYEE_FSP_REJECTED_QUOTE = 5103, 400, "Payee FSP rejected quote";
    PAYEE_REJECTED_TRANSACTION = 5104, 400, "Payee rejected transaction";
    PAYEE_FSP_REJECTED_TRANSACTION = 5105, 400, "Payee FSP rejected transaction";
    PAYEE_UNSUPPORTED_CURRENCY = 5106, 400, "Payee unsupported currency";
    PAYEE_IDENTIFIER_INVALID = 5107, 400, "Payee identifier no-longer valid";
    PAYEE_LIMIT = 5200, 400, "Payee limit error";
    PAYEE_PERMISSION = 5300, 400, "Payee permission error";
    PAYEE_BLOCKED = 5400, 400, "Generic Payee blocked error";
    SETTLEMENT = 6000, 400, "Generic Settlement Error";
}

impl ErrorCode {
    /// Reads a code from the wire; it need not be in the catalogue. Returns `None` outside 1000–9999.
    pub const fn from_number(number: u16) -> Option<Self> {
        if number >= 1000 && number <= 9999 { Some(Self(number)) } else { None }
    }

    /// The four digits as a number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Whether a DFSP may send this code in an abort: it is in the catalogue or belongs to a known family such as 51xx.
    pub const fn is_known_to_api(self) -> bool {
        self.text().is_some() || matches!(self.0 / 100, 10 | 20 | 30 | 31 | 32 | 33 | 40..=44 | 50..=54 | 60)
    }

    /// The `errorDescription` for this code: its standard text, `" - "` and the detail. The FSPIOP API allows 128
    /// characters. A longer text is cut before a word and ends with an ellipsis.
    pub fn describe(self, detail: &str) -> String {
        self.describe_within(detail, DESCRIPTION_CHARS_MAX)
    }

    /// The detail of a description of this code, without the standard text.
    pub fn detail_of(self, description: &str) -> &str {
        let rest = self.text().and_then(|text| description.strip_prefix(text));
        rest.and_then(|rest| rest.strip_prefix(" - ")).unwrap_or(description)
    }

    /// Like [`Self::describe`], with another limit.
    pub fn describe_within(self, detail: &str, chars_max: usize) -> String {
        let text = self.text().unwrap_or("Error");
        let separator = if detail.is_empty() { "" } else { " - " };
        let whole = [text, separator, detail].concat();
        if whole.chars().nth(chars_max).is_none() {
            return whole;
        }
        // The ellipsis takes the last place, unless a word ends just before it.
        let places = || whole.char_indices().map(|(at, _)| at).skip(chars_max - 1);
        let room = places().next().unwrap_or(whole.len());
        let last_blank = whole[..places().nth(1).unwrap_or(whole.len())].rfind(' ');
        // If the detail is one long word, it is cut inside that word.
        let end = last_blank.filter(|end| *end >= text.len() + separator.len()).unwrap_or(room);
        let kept = whole[..end].trim_end_matches([' ', ',', ';', ':', '-', '(', '"', '\'']);
        [kept, "…"].concat()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_descriptions_are_cut_between_words() {
        let code = ErrorCode::VALIDATION;
        let start = "Generic validation error - ";
        let words = |count: usize| "twelve-chars ".repeat(count);
        // 27 + 101 characters fit exactly; one more does not.
        let exact = "x".repeat(101);
        assert_eq!(code.describe(&exact), [start, &exact].concat());
        let cut = code.describe(&"x".repeat(102));
        assert_eq!(cut, [start, &"x".repeat(100), "…"].concat());
        assert_eq!(cut.chars().count(), DESCRIPTION_CHARS_MAX);
        let cut = code.describe(&words(9));
        assert_eq!(cut, [start, words(7).trim_end(), "…"].concat());
        // A word that ends where the room ends stays; what would lead on to the next does not.
        let fitting = [&*"y".repeat(100), " z"].concat();
        assert_eq!(code.describe(&fitting), [start, &"y".repeat(100), "…"].concat());
        let listed = [&*"y".repeat(90), ": zzzzzzzzzzzzzz"].concat();
        assert_eq!(code.describe(&listed), [start, &"y".repeat(90), "…"].concat());
        let wide = "é".repeat(200);
        assert_eq!(code.describe(&wide), [start, &"é".repeat(100), "…"].concat());
        assert_eq!(code.describe(""), "Generic validation error");
    }

    #[test]
    fn listed_codes_are_sorted_and_have_a_text_and_a_status() {
        assert!(ErrorCode::ALL.is_sorted());
        for code in ErrorCode::ALL {
            assert!(code.text().is_some_and(|text| text.len() <= DESCRIPTION_CHARS_MAX));
            assert!((400..=599).contains(&code.http_status()));
        }
    }

    #[test]
    fn descriptions_are_cut_at_128_characters() {
        assert_eq!(ErrorCode::TRANSFER_EXPIRED.describe(""), "Transfer expired");
        assert_eq!(ErrorCode::VALIDATION.describe("x"), "Generic validation error - x");
        let long = "é".repeat(200);
        assert_eq!(ErrorCode::VALIDATION.describe(&long).chars().count(), 128);
    }

    #[test]
    fn the_detail_of_a_description_is_the_text_that_it_was_made_of() {
        for detail in ["x", "a - b", "Generic validation error - "] {
            assert_eq!(ErrorCode::VALIDATION.detail_of(&ErrorCode::VALIDATION.describe(detail)), detail);
        }
        for other in ["Generic validation error", "Transfer expired - x", ""] {
            assert_eq!(ErrorCode::VALIDATION.detail_of(other), other);
        }
    }

    #[test]
    fn families_of_codes_are_known() {
        for (number, known) in
            [(5104, true), (5199, true), (3303, true), (7000, false), (1100, false), (6001, true)]
        {
            assert_eq!(ErrorCode::from_number(number).unwrap().is_known_to_api(), known, "{number}");
        }
        assert_eq!(ErrorCode::from_number(999), None);
    }
}
