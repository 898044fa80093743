//! The words of a line. Quotes keep blanks together; options are found by their keyword.

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

pub type Parsed<T> = Result<T, String>;

#[derive(Clone)]
pub struct Words(Vec<String>);

impl Words {
    pub fn split(line: &str) -> Self {
        let mut words = vec![];
        let mut quoted = false;
        let mut current = String::new();
        let mut is_word = false;
        for character in line.chars() {
            match character {
                '"' => (quoted, is_word) = (!quoted, true),
                blank if blank.is_whitespace() && !quoted => {
                    if std::mem::take(&mut is_word) {
                        words.push(std::mem::take(&mut current));
                    }
                }
                other => {
                    is_word = true;
                    current.push(other);
                }
            }
        }
        if is_word {
            words.push(current);
        }
        Self(words)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn next(&mut self, what: &str) -> Parsed<String> {
        if self.0.is_empty() { Err(format!("{what} is missing")) } else { Ok(self.0.remove(0)) }
    }

    /// Takes the next word if it is this one.
    pub fn next_if(&mut self, word: &str) -> bool {
        let is_next = self.0.first().is_some_and(|first| first == word);
        if is_next {
            self.0.remove(0);
        }
        is_next
    }

    /// The words up to the next semicolon; `None` if no word is left.
    pub fn next_step(&mut self) -> Option<Self> {
        let end = self.0.iter().position(|word| word == ";").unwrap_or(self.0.len());
        let step: Vec<_> = self.0.drain(..end).collect();
        self.next_if(";");
        (!step.is_empty()).then_some(Self(step))
    }

    /// Two consecutive words, wherever they are.
    pub fn flag(&mut self, first: &str, second: &str) -> bool {
        let at = self.0.windows(2).position(|pair| pair[0] == first && pair[1] == second);
        if let Some(at) = at {
            self.0.drain(at..at + 2);
        }
        at.is_some()
    }

    /// The word after a keyword, wherever it is.
    pub fn option(&mut self, keyword: &str) -> Parsed<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == keyword) else { return Ok(None) };
        self.0.remove(at);
        if at < self.0.len() {
            Ok(Some(self.0.remove(at)))
        } else {
            Err(format!("a word is missing behind \"{keyword}\""))
        }
    }

    pub fn name(&mut self) -> Parsed<FspId> {
        name(&self.next("a participant")?)
    }

    pub fn amount(&mut self) -> Parsed<Amount> {
        amount(&self.next("an amount")?)
    }

    /// A currency; KES if none is given.
    pub fn currency(&mut self) -> Parsed<Currency> {
        let code = if self.is_empty() { "KES".to_owned() } else { self.next("a currency")? };
        Currency::parse(&code).ok_or_else(|| format!("\"{code}\" is not a currency"))
    }

    pub fn finish(self) -> Parsed<()> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("not understood: \"{}\"", self.0.join(" "))) }
    }
}

pub fn name(text: &str) -> Parsed<FspId> {
    FspId::parse(text).ok_or_else(|| format!("\"{text}\" is not a participant name"))
}

pub fn amount(text: &str) -> Parsed<Amount> {
    Amount::parse_decimal(text).map_err(|error| format!("\"{text}\" {error}"))
}

/// `12:00:30` or `12:00:30.250`, on the day of the stories.
pub fn instant(text: &str) -> Parsed<Timestamp> {
    let ms = if text.contains('.') { "" } else { ".000" };
    let iso = format!("2031-04-01T{text}{ms}Z");
    Timestamp::parse_iso(&iso).ok_or_else(|| format!("\"{text}\" is not a time of day"))
}

/// The inverse of [`instant`].
pub fn time_of_day(instant: Timestamp) -> String {
    let text = instant.to_string();
    let time = text.strip_prefix("2031-04-01T").unwrap_or(&text);
    time.trim_end_matches('Z').trim_end_matches(".000").to_owned()
}

/// A name such as `t1` is the same id in every story.
pub fn transfer_id(text: &str) -> TransferId {
    TransferId::parse(text).unwrap_or_else(|| TransferId::from_random_bytes(digest(text)))
}

/// Half a SHA-256, for ids and fingerprints.
pub fn digest(text: &str) -> [u8; 16] {
    use sha2::{Digest, Sha256};
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(text)[..16]);
    half
}
