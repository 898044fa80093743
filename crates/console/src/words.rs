//! The words of the console: one file for each language. A language without one of the words does not compile.

mod english;

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
            #[cfg(test)]
            pub fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}
use words;

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
    use super::*;

    #[test]
    fn places_are_filled_once() {
        assert_eq!(fill("{a} pays {b}.", &[("a", "{b}"), ("b", "2")]), "{b} pays 2.");
        assert_eq!(fill("plain", &[]), "plain");
    }

    #[test]
    fn words_are_complete_and_without_spaces_at_their_ends() {
        for (name, text) in ENGLISH.all() {
            assert!(!text.is_empty(), "{name}");
            let may_begin_with_space = ["story_one_attempt", "story_attempts"].contains(&name);
            assert!(text.trim() == text || may_begin_with_space, "{name}: {text:?}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{name}: {text:?}");
        }
    }
}
