//! The query of `GET /authorizations/{ID}`.

use upesi_fspiop::uri::{decode_segment, encode_component};

/// Rewrites a query: decodes and encodes every name and value, so that the forwarded query has one form, whatever the
/// sender's. In queries a plus sign is a blank. Parts that cannot be decoded remain unchanged.
pub(crate) fn reencode_query(query: &str) -> String {
    let mut out = String::with_capacity(query.len());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        if !out.is_empty() {
            out.push('&');
        }
        match pair.split_once('=') {
            Some((name, value)) => {
                reencode_part(name, &mut out);
                out.push('=');
                reencode_part(value, &mut out);
            }
            None => reencode_part(pair, &mut out),
        }
    }
    out
}

fn reencode_part(part: &str, out: &mut String) {
    match decode_segment(&part.replace('+', " ")) {
        Some(decoded) => encode_component(&decoded, out),
        None => out.push_str(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_normalized() {
        for (query, expected) in [
            (
                "authenticationType=OTP&retriesLeft=2&amount=12.5&currency=USD",
                "authenticationType=OTP&retriesLeft=2&amount=12.5&currency=USD",
            ),
            ("a=%41%2b&b=x+y", "a=A%2B&b=x%20y"),
            ("a=b=c", "a=b%3Dc"),
            ("&&a&", "a"),
            ("a=%zz", "a=%zz"),
            ("a=%26%3D%0d%0A", "a=%26%3D%0D%0A"),
            ("", ""),
        ] {
            assert_eq!(reencode_query(query), expected);
            assert_eq!(reencode_query(&reencode_query(query)), expected, "again");
        }
    }
}
