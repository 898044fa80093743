//! A language for tests: English with accents, in brackets, from right to left. A text of a page without brackets does
//! not come from [`Words`].

use std::sync::LazyLock;

use super::{ENGLISH, Words};

/// Its language tag. Browsers use it for tests of right-to-left pages.
pub const TAG: &str = "ar-XB";

pub static PSEUDO: LazyLock<Words> = LazyLock::new(|| ENGLISH.changed(changed));

fn changed(name: &'static str, text: &'static str) -> &'static str {
    match name {
        "language" => TAG,
        "direction" => "rtl",
        "group" | "decimal" | "date" => text,
        _ => format!("⟦{}⟧", accented(text)).leak(),
    }
}

/// The text with other vowels, except in its places.
fn accented(text: &str) -> String {
    let mut is_place = false;
    let other = |char: char| {
        is_place = char == '{' || (is_place && char != '}');
        match char {
            _ if is_place => char,
            'a' => 'á',
            'e' => 'é',
            'i' => 'í',
            'o' => 'ó',
            'u' => 'ú',
            _ => char,
        }
    };
    text.chars().map(other).collect()
}
