//! The search box: its text, understood as filters, and whether the text may stand in a URL.
//!
//! Browsers, proxies and logs store URLs, so a URL has no personal identifiers. A telephone number can look like an
//! amount, or like several. A text therefore stands in a URL only if each word has another meaning, and if its amount
//! has few digits. All other texts are sent in the body of a request.

use upesi_types::text::escape;
use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::words::{Words, fill};

/// A bare number with this many digits is a telephone number or an account, and not an amount.
const PERSONAL_DIGITS: usize = 8;
/// A word with this many digits in a row may contain a telephone number or an account. So may an amount with this many
/// digits.
const PERSONAL_RUN: usize = 7;
/// Maximum number of digits in a time before now, such as `24h`.
const AGE_DIGITS_MAX: usize = 4;
/// The keys that the console can search.
const KEYS: [&str; 10] = ["payer", "payee", "dfsp", "fsp", "amount", "currency", "state", "from", "to", "id"];
/// The states, in lower case.
const STATES: [&str; 5] = ["reserved", "committed", "aborted", "expired", "rejected"];

/// A text of the search box, understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sought {
    /// A transfer, if the text is its identifier.
    pub(super) transfer: Option<TransferId>,
    /// Parameters of `GET /transfers`.
    pub(super) filters: Vec<(&'static str, String)>,
    /// The words without a key, each with its assumed meaning.
    pub(super) assumed: Vec<(String, &'static str)>,
    /// The words that cannot be searched, each with the reason.
    pub(super) not_searched: Vec<(String, &'static str)>,
    /// Whether a word is the identifier of a party. The text is then not repeated in the page.
    pub(super) is_personal: bool,
    /// Whether a filter has a value that its key does not know.
    has_unknown_value: bool,
    /// Number of digits of the amount.
    amount_digits: usize,
}

/// Splits a text at spaces. Quotes keep a value with spaces together; a doubled quote is a quote.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                word.push('"');
            }
            '"' => is_quoted = !is_quoted,
            char if char.is_whitespace() && !is_quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            char => word.push(char),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// A key and its value as the search box reads them.
pub(super) fn term(key: &str, value: &str) -> String {
    if value.contains([' ', '"']) {
        return format!("{key}:\"{}\"", value.replace('"', "\"\""));
    }
    format!("{key}:{value}")
}

impl Sought {
    pub(super) fn read(text: &str, now: Timestamp, is_dfsp: impl Fn(&str) -> bool, words: &Words) -> Self {
        let mut sought = Self::default();
        for word in split(text) {
            sought.add(&word, now, &is_dfsp, words);
        }
        sought
    }

    /// A text that is not searched, because it is too long.
    pub(super) fn too_long(words: &Words) -> Self {
        Self { not_searched: vec![("…".to_owned(), words.find_too_long)], ..Self::default() }
    }

    /// Whether the text may be a part of a URL.
    pub(super) fn may_be_in_url(&self) -> bool {
        self.not_searched.is_empty() && !self.has_unknown_value && self.amount_digits < PERSONAL_RUN
    }

    fn add(&mut self, word: &str, now: Timestamp, is_dfsp: impl Fn(&str) -> bool, words: &Words) {
        let Some((key, value)) = word.split_once(':') else { return self.add_bare(word, is_dfsp, words) };
        let key = key.to_lowercase();
        let is_known = is_known_value(&key, value, now, &is_dfsp);
        if !is_known && is_personal(value) {
            return self.add_personal(word, words);
        }
        let filter = match (&*key, value) {
            (key, "") if KEYS.contains(&key) => return,
            ("payer", name) => ("payer", name.to_owned()),
            ("payee", name) => ("payee", name.to_owned()),
            ("dfsp" | "fsp", name) => ("fsp", name.to_owned()),
            ("amount", amount) => ("amount", amount.replace(',', "")),
            ("currency", code) => ("currency", code.to_uppercase()),
            ("state", state) => ("state", state_name(state)),
            ("from", time) => ("from", time_of(time, now)),
            ("to", time) => ("to", time_of(time, now)),
            ("id" | "transfer", id) => return self.add_bare(id, is_dfsp, words),
            ("window" | "settlement" | "code" | "quote" | "slower", _) => {
                return self.not_searched.push((word.to_owned(), words.find_no_index));
            }
            ("party" | "phone" | "msisdn", _) => return self.add_personal(word, words),
            _ => return self.add_bare(word, is_dfsp, words),
        };
        self.has_unknown_value |= !is_known;
        self.add_filter(filter, word, words);
    }

    /// Adds a filter, unless another word has already set it. Returns whether it was added.
    fn add_filter(&mut self, (key, value): (&'static str, String), word: &str, words: &Words) -> bool {
        if self.filters.iter().any(|(known, _)| *known == key) {
            self.not_searched.push((word.to_owned(), words.find_twice));
            return false;
        }
        if key == "amount" {
            self.amount_digits += digits(&value);
        }
        self.filters.push((key, value));
        true
    }

    /// Adds a word without a key. Its form determines its meaning.
    fn add_bare(&mut self, word: &str, is_dfsp: impl Fn(&str) -> bool, words: &Words) {
        let without_commas = word.replace(',', "");
        let (filter, meaning) = if let Some(id) = TransferId::parse(word) {
            self.transfer = Some(id);
            return;
        } else if is_dfsp(word) {
            (("fsp", word.to_owned()), words.find_is_dfsp)
        } else if is_party(word) {
            return self.add_personal(word, words);
        } else if Amount::parse_decimal(&without_commas).is_ok() {
            (("amount", without_commas), words.find_is_amount)
        } else if let Some(currency) = Currency::parse(&word.to_uppercase()) {
            (("currency", currency.to_string()), words.find_is_currency)
        } else if STATES.contains(&&*word.to_lowercase()) {
            (("state", state_name(word)), words.find_is_state)
        } else if is_personal(word) {
            return self.add_personal(word, words);
        } else {
            return self.not_searched.push((word.to_owned(), words.find_unknown));
        };
        if self.add_filter(filter, word, words) {
            self.assumed.push((word.to_owned(), meaning));
        }
    }

    fn add_personal(&mut self, word: &str, words: &Words) {
        self.is_personal = true;
        // The identifier itself is not repeated.
        let last: Vec<char> = word.chars().rev().take(3).collect();
        let masked: String = "•••".chars().chain(last.into_iter().rev()).collect();
        self.not_searched.push((masked, words.find_no_party_index));
    }
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

/// Whether a word may identify a party: a telephone number, an account or an address.
fn is_party(word: &str) -> bool {
    let is_number = word.chars().all(|char| char.is_ascii_digit() || "+-() ".contains(char));
    let is_iban = digits(word) >= PERSONAL_DIGITS
        && word.len() >= 15
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && word.bytes().take(2).all(|byte| byte.is_ascii_alphabetic());
    is_number && (digits(word) >= PERSONAL_DIGITS || word.starts_with('+')) || word.contains('@') || is_iban
}

/// Whether a text may contain the identifier of a party.
fn is_personal(text: &str) -> bool {
    let has_run = text.split(|char: char| !char.is_ascii_digit()).any(|run| run.len() >= PERSONAL_RUN);
    has_run || is_party(text)
}

/// Whether the value of a key is of the kind that its key says.
fn is_known_value(key: &str, value: &str, now: Timestamp, is_dfsp: impl Fn(&str) -> bool) -> bool {
    match key {
        "payer" | "payee" | "dfsp" | "fsp" => is_dfsp(value),
        "amount" => Amount::parse_decimal(&value.replace(',', "")).is_ok(),
        "currency" => Currency::parse(&value.to_uppercase()).is_some(),
        "state" => STATES.contains(&&*value.to_lowercase()),
        "from" | "to" => Timestamp::parse_rfc3339(&time_of(value, now)).is_some(),
        "id" | "transfer" => TransferId::parse(value).is_some(),
        _ => false,
    }
}

/// The state as `GET /transfers` names it.
fn state_name(text: &str) -> String {
    match text.to_lowercase().as_str() {
        "expired" => "EXPIRED_RESERVED".to_owned(),
        "rejected" => "ABORTED_REJECTED".to_owned(),
        _ => text.to_uppercase(),
    }
}

/// A date, an instant, or a time before now such as `2h`, as an instant. Other texts stay, and are rejected later.
fn time_of(text: &str, now: Timestamp) -> String {
    let before = text.split_at_checked(text.len().saturating_sub(1)).and_then(|(count, unit)| {
        let minutes = match unit {
            "m" => 1,
            "h" => 60,
            "d" => 24 * 60,
            _ => return None,
        };
        if count.len() > AGE_DIGITS_MAX {
            return None;
        }
        count.parse::<u32>().ok().map(|count| i64::from(count) * minutes * 60_000)
    });
    match before {
        Some(ms) => now.plus_ms(-ms).to_string(),
        None if text.len() == 10 => format!("{text}T00:00:00Z"),
        None if text.len() == 16 => format!("{text}:00Z"),
        None => text.to_owned(),
    }
}

/// What the page says about a word.
pub(super) fn explained((word, meaning): &(String, &'static str)) -> String {
    fill(meaning, &[("word", &escape(word))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    fn read(text: &str) -> Sought {
        let now = Timestamp::parse_iso("2031-04-01T10:00:00.000Z").unwrap();
        Sought::read(text, now, |name| name == "greenbank" || name == "Blue Wallet", &ENGLISH)
    }

    fn filters(text: &str) -> Vec<String> {
        let sought = read(text);
        assert!(sought.not_searched.is_empty(), "{sought:?}");
        sought.filters.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn search_box_understands_keys_and_bare_words() {
        for (text, expected) in [
            ("", &[][..]),
            ("amount:100 state:aborted", &["amount=100", "state=ABORTED"]),
            ("1,250.00 kes expired", &["amount=1250.00", "currency=KES", "state=EXPIRED_RESERVED"]),
            ("greenbank", &["fsp=greenbank"]),
            ("payer:greenbank payee:\"Blue Wallet\"", &["payer=greenbank", "payee=Blue Wallet"]),
            ("amount:12345678", &["amount=12345678"]),
            ("from:2h", &["from=2031-04-01T08:00:00.000Z"]),
            (
                "from:2031-03-31 to:2031-04-01T09:30",
                &["from=2031-03-31T00:00:00Z", "to=2031-04-01T09:30:00Z"],
            ),
        ] {
            assert_eq!(filters(text), expected, "{text}");
        }
        let id = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
        assert_eq!(read(id).transfer.unwrap().to_string(), id);
        assert_eq!(term("payee", "a \"b\""), "payee:\"a \"\"b\"\"\"");
        assert_eq!(filters(&term("payee", "a \"b\"")), ["payee=a \"b\""]);
    }

    #[test]
    fn search_box_says_what_it_cannot_search_and_masks_parties() {
        for personal in [
            "260001000000001",
            "+260-001",
            "amina@example.org",
            "party:MSISDN/12",
            "KE12345678901234",
            "payer:+260001000000001",
            "payee:260001000000001",
            "tel:+260001000000001",
            "id:+260001000000001",
            "window:+260001000000001",
            "amount:+260001000000001",
            "from:260001000000001",
            "tel:msisdn:+260001000000001",
            "tel2600010",
            "payer:tel2600010",
            "dfsp:2600010",
            "from:26000100m",
            "state:26000100",
            "currency:2600010",
            "amount:tel2600010",
            "window:tel2600010",
            "colour:2600010",
        ] {
            let sought = read(personal);
            assert!(sought.is_personal && sought.filters.is_empty(), "{sought:?}");
            let shown = explained(&sought.not_searched[0]);
            assert!(!shown.contains(personal) && shown.contains("•••"), "{shown}");
        }
        for (text, reason) in [
            ("window:3", ENGLISH.find_no_index),
            ("purple", ENGLISH.find_unknown),
            ("colour:red", ENGLISH.find_unknown),
            ("tel260001", ENGLISH.find_unknown),
        ] {
            assert_eq!(read(text).not_searched, [(text.to_owned(), reason)]);
            assert!(!read(text).is_personal, "{text}");
        }
    }
    /// A search with one of two amounts would find too much.
    #[test]
    fn second_value_of_a_filter_is_not_searched() {
        for (text, second) in [
            ("amount:5 amount:6", "amount:6"),
            ("5 6", "6"),
            ("payer:greenbank payer:a", "payer:a"),
            ("kes UGX", "UGX"),
        ] {
            assert_eq!(read(text).not_searched, [(second.to_owned(), ENGLISH.find_twice)], "{text}");
        }
    }

    #[test]
    fn text_stands_in_a_url_only_if_no_part_of_it_can_be_personal() {
        for (text, may_be_in_url) in [
            ("amount:100 state:aborted", true),
            ("1,250.00 kes expired", true),
            ("amount:999999", true),
            ("greenbank currency:KES", true),
            ("payer:greenbank payee:\"Blue Wallet\"", true),
            ("from:2h to:5m", true),
            ("from:2031-03-31 to:2031-04-01T09:30", true),
            ("from:2031-04-01T09:30:00.000Z 5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", true),
            ("id:01ARZ3NDEKTSV4RRFFQ69G5FAV", true),
            ("amount:260001000000001", false),
            ("amount:26000100", false),
            ("amount:2,600,010", false),
            ("amount:260001.0001", false),
            ("2600010", false),
            ("260 001 000 001", false),
            ("amount:260 amount:0010", false),
            ("0260001 kes", false),
            ("payer:tel2600010", false),
            ("payer:amina", false),
            ("payee:amina@example.org", false),
            ("dfsp:260001000000001", false),
            ("state:amina", false),
            ("currency:amina", false),
            ("from:26000100m", false),
            ("to:amina", false),
            ("greenbank tel:+260001", false),
            ("2600010: kes", false),
            ("amina: kes", false),
            ("amount: kes", true),
            ("id:2600010", false),
            ("window:3", false),
            ("purple", false),
        ] {
            assert_eq!(read(text).may_be_in_url(), may_be_in_url, "{text}");
        }
    }
}
