use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

/// Whether serde_json takes a text and this reader does, which has a limit of depth that other one does not count
/// alike.
fn verdicts(text: &str) -> (bool, bool) {
    (serde_json::from_str::<IgnoredAny>(text).is_ok(), Document::parse(text).is_some())
}

/// Renders a document from its values, so that it can be read by another reader.
fn render(document: &Document<'_>, position: usize, out: &mut String) {
    match document.kind(position) {
        Kind::Object => {
            let members = document.names(position).map(|name| {
                let mut member = format!("{}:", document.json(name));
                render(document, name + 1, &mut member);
                member
            });
            out.push_str(&format!("{{{}}}", members.collect::<Vec<_>>().join(",")));
        }
        Kind::Array => {
            let items = document.children(position).map(|item| {
                let mut text = String::new();
                render(document, item, &mut text);
                text
            });
            out.push_str(&format!("[{}]", items.collect::<Vec<_>>().join(",")));
        }
        _ => out.push_str(document.json(position)),
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn the_grammar_is_that_of_serde_json() {
    for text in [
        "",
        " ",
        "{}",
        "[]",
        " { } ",
        "[ ]",
        "{",
        "}",
        "[",
        "]",
        "[}",
        "{]",
        "[,]",
        "[1,]",
        "[1 2]",
        "[1,,2]",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a" 1}"#,
        r#"{a:1}"#,
        r#"{1:1}"#,
        r#"{"a":1 "b":2}"#,
        r#"{"a":1}x"#,
        "0",
        "-0",
        "00",
        "01",
        "-",
        "-01",
        "1.",
        ".1",
        "1.0",
        "1.e1",
        "1e",
        "1e+",
        "1e+1",
        "1E-01",
        "+1",
        "1e999",
        "- 1",
        "0x1",
        "1_0",
        "٣",
        "null",
        "nul",
        "nullx",
        "true",
        "tru",
        "false",
        "fals",
        "True",
        "NaN",
        "Infinity",
        "\u{feff}1",
        "\u{b}1",
        "\u{c}1",
        "\u{a0}1",
        "\t\r\n 1 \n",
        "\"",
        "\"a",
        "\"a\"",
        "\"\\\"",
        "\"\\\\\"",
        "\"\\x\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u00e9\"",
        "\"\\uD800\"",
        "\"\\uDFFF\\uD800\"",
        "\"\\/\\b\\f\\n\\r\\t\"",
        "\"\\'\"",
        "\"\u{1f}\"",
        "\"\n\"",
        "\"\u{0}\"",
        "\"\u{7f}\"",
        "\"€\u{85}\"",
        "\"12345678\n\"",
        "\"1234567\\u0041\"",
        "'a'",
    ] {
        let (theirs, ours) = verdicts(text);
        assert_eq!(ours, theirs, "{text:?}");
    }
}

#[test]
fn nesting_ends_at_the_limit() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert!(Document::parse(&nested(JSON_DEPTH_MAX)).is_some());
        assert!(Document::parse(&nested(JSON_DEPTH_MAX + 1)).is_none());
        assert!(Document::parse(&open.repeat(1_000_000)).is_none());
    }
}

#[test]
fn plain_text_ends_at_every_special_byte_and_at_no_other() {
    for length in 0..20 {
        for byte in 0..=u8::MAX {
            let mut bytes = [b'\x80'; 40];
            bytes[length] = byte;
            bytes[length + 1] = b'"';
            let special = matches!(byte, b'"' | b'\\' | ..0x20);
            assert_eq!(
                end_of_plain(&bytes[..length + 2], 0),
                length + usize::from(!special),
                "{byte} at {length}"
            );
            assert_eq!(end_of_plain(&bytes, 0), length + usize::from(!special), "{byte} at {length}");
            assert_eq!(end_of_plain(&bytes[..length], 0), length);
        }
    }
}

const MESSAGE: &str = r#"{"a": [1, -2.5e+7, true ,null],"b\u0041":{"c":"text\n\\\"","é":{},"d":[[],{"e":false}]} , "condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s"}"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_takes_what_serde_json_takes(text in "[\\[\\]{}:,\"\\\\ \n\t0-9.eE+\\-truefalsn\u{1}é]{0,40}") {
        let (theirs, ours) = verdicts(&text);
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn it_takes_any_text_that_serde_json_takes(text in any::<String>()) {
        let (theirs, ours) = verdicts(&text);
        prop_assert_eq!(ours, theirs);
        let (theirs, ours) = verdicts(&format!("\"{text}\""));
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn it_takes_damaged_messages_as_serde_json_does(
        at in 0..MESSAGE.len(),
        length in 0..6_usize,
        patch in "[\\[\\]{}:,\"\\\\ \n0-9.eE+\\-u]{0,4}",
    ) {
        let mut bytes = MESSAGE.as_bytes().to_vec();
        bytes.splice(at..(at + length).min(MESSAGE.len()), patch.bytes());
        if let Ok(text) = String::from_utf8(bytes) {
            let (theirs, ours) = verdicts(&text);
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }

    #[test]
    fn values_are_where_they_are(patch in "[0-9a-z ]{0,12}", at in 0..MESSAGE.len()) {
        let mut text = MESSAGE.to_string();
        if text.is_char_boundary(at) {
            text.insert_str(at, &patch);
        }
        // It refuses numbers beyond the range of floats, which for schemas are texts like others.
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        if let (Some(document), Ok(theirs)) = (Document::parse(&text), theirs) {
            let mut out = String::new();
            render(&document, Document::ROOT, &mut out);
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), theirs);
        }
    }
}
