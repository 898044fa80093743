//! The words of the console: one file for each language. A language without one of the words does not compile.

mod english;
mod french;
#[cfg(debug_assertions)]
mod pseudo;

use axum::http::HeaderValue;

pub use english::{ENGLISH, Words};

/// Makes the type of all words, and the words of the first language.
macro_rules! words {
    ($($name:ident: $text:literal,)*) => {
        /// Every text that a page contains.
        #[derive(Debug)]
        pub struct Words {
            $(pub $name: &'static str,)*
        }

        /// The words in English.
        pub const ENGLISH: Words = Words { $($name: $text,)* };

        impl Words {
            /// All words, each with its name.
            #[cfg(debug_assertions)]
            pub fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Other words, each from its name and its text.
            #[cfg(debug_assertions)]
            pub fn changed(&self, change: impl Fn(&'static str, &'static str) -> &'static str) -> Self {
                Self { $($name: change(stringify!($name), self.$name),)* }
            }
        }
    };
}
use words;

/// Makes the words of a further language.
macro_rules! translation {
    ($language:ident: $($name:ident: $text:literal,)*) => {
        pub const $language: super::Words = super::Words { $($name: $text,)* };
    };
}
use translation;

/// Number of entries of a header that are read.
const ENTRIES_MAX: usize = 32;

impl Words {
    /// The words of the language that a browser prefers: the one with the greatest weight in its header
    /// `Accept-Language`, and English without a known one.
    pub fn of(languages: Option<&HeaderValue>) -> &'static Self {
        let header = languages.and_then(|header| header.to_str().ok()).unwrap_or_default();
        let entries = header.split(',').take(ENTRIES_MAX);
        let known = entries.filter_map(|entry| {
            let (tag, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
            Some((weight_of(weight)?, Self::of_tag(tag.trim())?))
        });
        // Of equal weights, the first counts.
        let preferred = known.reduce(|best, next| if next.0 > best.0 { next } else { best });
        preferred.map_or(&ENGLISH, |(_, words)| words)
    }

    /// The words of a language tag such as `fr-CD`.
    fn of_tag(tag: &str) -> Option<&'static Self> {
        #[cfg(debug_assertions)]
        if tag.eq_ignore_ascii_case(pseudo::TAG) {
            return Some(&pseudo::PSEUDO);
        }
        let primary = tag.split('-').next().unwrap_or_default();
        [&ENGLISH, &french::FRENCH].into_iter().find(|words| words.language.eq_ignore_ascii_case(primary))
    }
}

/// A weight such as `q=0.8` in thousandths; `None` if it is 0 or not a weight.
fn weight_of(text: &str) -> Option<u32> {
    let (whole, fraction) =
        text.trim().strip_prefix("q=")?.split_once('.').unwrap_or((text.trim().get(2..)?, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse::<u32>().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1_000),
        _ => None,
    }
    .filter(|weight| *weight > 0)
}

/// Puts values into a text with places such as `{name}`. Values are never searched for places.
pub fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) = after.split_once('}').unwrap_or((after, ""));
        let value = values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        filled.push_str(before);
        debug_assert!(value.is_some(), "no value for {name} in {text:?}");
        filled.push_str(value.unwrap_or(name));
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::french::FRENCH;
    use super::*;

    #[test]
    fn places_are_filled_once() {
        assert_eq!(fill("{a} pays {b}.", &[("a", "{b}"), ("b", "2")]), "{b} pays 2.");
        assert_eq!(fill("plain", &[]), "plain");
    }

    fn places(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect()
    }

    #[test]
    fn words_are_complete_and_have_the_same_places_in_every_language() {
        for words in [&ENGLISH, &FRENCH, &pseudo::PSEUDO] {
            for ((name, text), (_, english)) in words.all().into_iter().zip(ENGLISH.all()) {
                assert!(!text.is_empty(), "{name}");
                let may_have_spaces = ["story_one_attempt", "story_attempts", "group"].contains(&name);
                assert!(text.trim() == text || may_have_spaces, "{name}: {text:?}");
                assert_eq!(text.matches('{').count(), text.matches('}').count(), "{name}: {text:?}");
                assert_eq!(places(text), places(english), "{name}: {text:?}");
            }
        }
    }

    #[test]
    fn french_differs_from_english_wherever_it_is_a_text() {
        let same: Vec<_> =
            FRENCH.all().into_iter().zip(ENGLISH.all()).filter(|(one, other)| one.1 == other.1).collect();
        // Words that both languages share, such as names of fields and units.
        assert!(same.len() < FRENCH.all().len() / 10, "{} {same:?}", same.len());
    }

    #[test]
    fn language_is_the_known_one_with_the_greatest_weight() {
        let language = |header: &str| Words::of(Some(&HeaderValue::from_str(header).unwrap())).language;
        for (header, expected) in [
            ("fr-CD,fr;q=0.9,en;q=0.8", "fr"),
            ("sw,en;q=0.5,fr;q=0.7", "fr"),
            ("FR", "fr"),
            ("en,fr", "en"),
            ("fr;q=0.5,en;q=0.5", "fr"),
            ("fr;q=0, en", "en"),
            ("fr;q=0", "en"),
            ("fr;q=1.5", "en"),
            ("fr;q=0.12345", "en"),
            ("fr;level=1", "en"),
            ("*", "en"),
            ("", "en"),
            (";;,,q", "en"),
        ] {
            assert_eq!(language(header), expected, "{header}");
        }
        assert_eq!(Words::of(None).language, "en");
        let late = format!("{}fr", "sw,".repeat(ENTRIES_MAX));
        assert_eq!(language(&late), "en");
    }
}
