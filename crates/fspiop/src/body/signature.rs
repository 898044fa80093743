//! Checks the form of `FSPIOP-Signature`: a JSON object with two texts (FSPIOP API v1.1, Signature).

use super::json::{Document, Kind, unquote};

/// Whether a value has the form of a signature object. The signature itself is verified elsewhere.
pub(crate) fn is_signature_object(value: &[u8]) -> bool {
    let document = core::str::from_utf8(value).ok().and_then(Document::parse);
    let Some(document) = document.filter(|document| document.kind(Document::ROOT) == Kind::Object) else {
        return false;
    };
    let mut seen = [false; 2];
    let mut children = document.children(Document::ROOT);
    while let (Some(name), Some(value)) = (children.next(), children.next()) {
        let member = match unquote(document.json(name)) {
            "signature" => 0,
            "protectedHeader" => 1,
            _ => return false,
        };
        let is_text = matches!(document.kind(value), Kind::Text | Kind::EscapedText);
        if !is_text || seen[member] {
            return false;
        }
        seen[member] = true;
    }
    seen == [true; 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_an_object_of_two_texts() {
        for (value, expected) in [
            (r#"{"signature":"a","protectedHeader":"b"}"#, true),
            (r#" { "protectedHeader" : "" , "signature" : "" } "#, true),
            (r#"{"signature":"a","protectedHeader":"b","more":"c"}"#, false),
            (r#"{"signature":"a","signature":"a","protectedHeader":"b"}"#, false),
            (r#"{"signature":"a","protectedHeader":1}"#, false),
            (r#"{"signature":"a"}"#, false),
            ("{}", false),
            ("[]", false),
            (r#""signature""#, false),
            ("unsigned", false),
            ("", false),
        ] {
            assert_eq!(is_signature_object(value.as_bytes()), expected, "{value}");
        }
        assert!(!is_signature_object(b"\xff"));
    }
}
