//! Finds the few members that a simulator needs in a JSON body, without parsing the body.
//!
//! Simulators must cost less than the hub they load. Bodies come from a hub that has validated them, so looking for a
//! quoted name and the text value behind it is enough; a member that is not found counts as absent.

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

/// What a payee must know of a `POST /transfers` body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepare<'body> {
    pub transfer_id: &'body [u8],
    pub condition: &'body [u8],
    pub currency: &'body [u8],
    pub amount: &'body [u8],
}

/// Reads the members of a prepare that the payee's books need; `None` when one is absent.
pub(crate) fn prepare(body: &[u8]) -> Option<Prepare<'_>> {
    Some(Prepare {
        transfer_id: text_member(body, b"\"transferId\"")?,
        condition: text_member(body, b"\"condition\"")?,
        currency: text_member(body, b"\"currency\"")?,
        amount: text_member(body, b"\"amount\"")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_their_order_and_blanks() {
        for body in [
            r#"{"transferId":"a","amount":{"currency":"KES","amount":"12.5"},"condition":"c"}"#,
            r#"{ "condition" : "c", "amount" : { "amount" : "12.5", "currency" : "KES" }, "transferId"
                : "a" }"#,
        ] {
            let found = prepare(body.as_bytes()).expect(body);
            let expected = Prepare { transfer_id: b"a", condition: b"c", currency: b"KES", amount: b"12.5" };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn absent_and_odd_members_are_absent() {
        for body in ["", "{}", r#"{"transferState":1}"#, r#"{"transferState":"#, r#"{"transferState":"COMM"#]
        {
            assert_eq!(text_member(body.as_bytes(), b"\"transferState\""), None, "{body}");
        }
        assert_eq!(text_member(br#"{"a":"x\"y"}"#, b"\"a\""), None);
    }
}
