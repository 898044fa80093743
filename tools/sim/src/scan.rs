//! Finds the few members that a simulator needs in a JSON body, without parsing the body.
//!
//! Simulators must cost less than the hub under load. Bodies come from a hub that has validated them, so it is enough
//! to look for a quoted name and the text value behind it. A member that is not found counts as absent.

use memchr::memmem;

/// The text value of the first member called `name` whose value is a text without escapes.
///
/// `quoted_name` is the name with its quotes, for example `"transferState"`.
pub(crate) fn text_member<'body>(body: &'body [u8], quoted_name: &[u8]) -> Option<&'body [u8]> {
    let mut rest = body;
    while let Some(at) = memmem::find(rest, quoted_name) {
        rest = &rest[at + quoted_name.len()..];
        if let Some(value) = text_value(rest) {
            return Some(value);
        }
    }
    None
}

fn text_value(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    (rest[end] == b'"').then(|| &rest[..end])
}

/// The raw value of the member called `name` of the object in `body`, at its top level only.
pub(crate) fn member<'body>(body: &'body [u8], name: &[u8]) -> Option<&'body [u8]> {
    members(body).find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// The members of the object in `body`: names without quotes, and raw values. Ends at the first byte that does not
/// belong to an object.
pub(crate) fn members(body: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = body.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    std::iter::from_fn(move || {
        let (name, after) = string(rest.trim_ascii_start())?;
        let (value, after) = value(after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())?;
        rest = after.trim_ascii_start().strip_prefix(b",").unwrap_or_default();
        Some((&name[1..name.len() - 1], value))
    })
}

/// The raw values of the array in `body`.
pub(crate) fn elements(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body.trim_ascii_start().strip_prefix(b"[").unwrap_or_default();
    std::iter::from_fn(move || {
        let (value, after) = value(rest.trim_ascii_start())?;
        rest = after.trim_ascii_start().strip_prefix(b",").unwrap_or_default();
        Some(value)
    })
}

/// The text of a raw value that is a text without escapes.
pub(crate) fn text(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"").filter(|text| !text.contains(&b'\\'))
}

/// Splits a string with its quotes off the front.
fn string(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    if rest.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', &rest[at..])?;
        if rest[at] == b'"' {
            return Some(rest.split_at(at + 1));
        }
        at += 2;
        if at >= rest.len() {
            return None;
        }
    }
}

/// Splits a value off the front.
fn value(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    match rest.first()? {
        b'"' => string(rest),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, 0);
            loop {
                match rest.get(at)? {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    b'"' => at += string(&rest[at..])?.0.len() - 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(rest.split_at(at));
                }
            }
        }
        _ => {
            let end = rest.iter().position(|byte| b",]} \t\r\n".contains(byte)).unwrap_or(rest.len());
            (end > 0).then(|| rest.split_at(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn member_is_found_in_any_order_and_spacing() {
        for body in [
            r#"{"transferId":"a","amount":{"currency":"KES","amount":"12.5"},"condition":"c"}"#,
            r#"{ "condition" : "c", "amount" : { "amount" : "12.5", "currency" : "KES" }, "transferId"
                : "a" }"#,
        ] {
            let names: [&[u8]; 4] = [b"\"transferId\"", b"\"condition\"", b"\"currency\"", b"\"amount\""];
            let found = names.map(|name| text_member(body.as_bytes(), name).expect(body));
            assert_eq!(found, [&b"a"[..], b"c", b"KES", b"12.5"]);
        }
    }

    #[test]
    fn members_and_elements_are_split_at_the_top_level_only() {
        let body = br#" { "a" : {"b":"}\"]"} , "b":[1,[2,"x,"],{}], "c":-1.5,"d":"","e":null}"#;
        let found: Vec<_> = members(body)
            .map(|(name, value)| (std::str::from_utf8(name).unwrap(), std::str::from_utf8(value).unwrap()))
            .collect();
        let expected = [
            ("a", r#"{"b":"}\"]"}"#),
            ("b", r#"[1,[2,"x,"],{}]"#),
            ("c", "-1.5"),
            ("d", r#""""#),
            ("e", "null"),
        ];
        assert_eq!(found, expected);
        assert_eq!(member(body, b"b").map(|array| elements(array).count()), Some(3));
        assert_eq!(elements(b"[ 1 , \"a]\" ]").collect::<Vec<_>>(), [&b"1"[..], b"\"a]\""]);
        assert_eq!((text(b"\"x\""), text(b"\"a\\n\""), text(b"1")), (Some(&b"x"[..]), None, None));
    }

    #[test]
    fn truncated_text_ends_early_without_a_panic() {
        let body = br#"{"a":{"b":["c\"",{}]},"d":[1,2],"e":"f"}"#;
        for end in 0..body.len() {
            assert!(members(&body[..end]).count() <= 3);
            assert!(elements(&body[..end]).count() == 0);
        }
        for odd in [&b"}"[..], b"{]", b"{\"a\":]", b"{\"a\":}", b"[}", b"{\"a\\", b"{\"a\":[}]}"] {
            assert!(members(odd).count() + elements(odd).count() <= 1, "{odd:?}");
        }
    }

    #[test]
    fn absent_and_malformed_members_are_absent() {
        for body in ["", "{}", r#"{"transferState":1}"#, r#"{"transferState":"#, r#"{"transferState":"COMM"#]
        {
            assert_eq!(text_member(body.as_bytes(), b"\"transferState\""), None, "{body}");
        }
        assert_eq!(text_member(br#"{"a":"x\"y"}"#, b"\"a\""), None);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            ".{0,6}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn members_and_elements_equal_a_parsers(
            whole in prop::collection::btree_map("[a-z]{1,4}", json(), 0..5),
            pretty in any::<bool>(),
        ) {
            let value: serde_json::Value = whole.clone().into_iter().collect();
            let print = if pretty { serde_json::to_vec_pretty } else { serde_json::to_vec };
            let body = print(&value).unwrap();
            let parse = |raw: &[u8]| serde_json::from_slice::<serde_json::Value>(raw).unwrap();
            let found: BTreeMap<_, _> = members(&body)
                .map(|(name, value)| (String::from_utf8(name.to_vec()).unwrap(), parse(value)))
                .collect();
            prop_assert_eq!(&found, &whole);
            for (name, value) in &whole {
                if let Some(array) = value.as_array() {
                    let raw = member(&body, name.as_bytes()).unwrap();
                    prop_assert_eq!(&elements(raw).map(parse).collect::<Vec<_>>(), array);
                }
            }
        }

        #[test]
        fn any_bytes_are_scanned_without_a_panic(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b','), Just(b':'), Just(b'\\'), any::<u8>()], 0..64)) {
            prop_assert!(members(&bytes).count() + elements(&bytes).count() <= bytes.len());
            let _ = (text(&bytes), text_member(&bytes, b"\"a\""));
        }
    }
}
