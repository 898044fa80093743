//! Shows the messages of a payment as an engineer would want to read them.

use std::fmt::Write as _;
use std::time::Duration;

use upesi_http::Bytes;
use upesi_sim::{Direction, SeenMessage};

/// Headers that tell the story; the others are on the wire as well.
const SHOWN: [&str; 4] = ["fspiop-source", "fspiop-destination", "content-type", "traceparent"];
/// Longest value that is shown whole.
const VALUE_CHARS_MAX: usize = 90;

/// The messages in the order in which they were sent, with the time since the first, below a heading for each resource.
pub fn describe(messages: &mut [SeenMessage]) -> String {
    messages.sort_by_key(|message| message.at);
    let Some(first) = messages.first().map(|message| message.at) else { return String::new() };
    let (mut text, mut shown, mut body_before) = (String::new(), "", &Bytes::new());
    for (index, message) in messages.iter().enumerate() {
        let about = heading(&message.path);
        if about != shown {
            shown = about;
            // Writing into a String does not fail, here and below.
            let _ = writeln!(text, "  {about}\n");
        }
        let after = millis(message.at.duration_since(first));
        let arrow = match message.direction {
            Direction::Sent => format!("{} ──▶ hub", message.dfsp),
            Direction::Received => format!("hub ──▶ {}", message.dfsp),
        };
        let status =
            message.status.map_or_else(|| "no answer".to_owned(), |status| status.as_u16().to_string());
        let number = index + 1;
        let _ = writeln!(
            text,
            "  {number:>2}. {after:>7} ms  {arrow}   {} {}   ◀ {status}",
            message.method, message.path
        );
        for name in SHOWN {
            if let Some(value) = message.headers.get(name).and_then(|value| value.to_str().ok()) {
                let _ = writeln!(text, "       {name}: {value}");
            }
        }
        if !message.body.is_empty() && message.body == *body_before {
            let _ = writeln!(text, "         (the same body, byte for byte)\n");
        } else {
            let _ = writeln!(text, "{}", body(&message.body));
        }
        body_before = &message.body;
    }
    text
}

/// What the messages about a resource are for.
fn heading(path: &str) -> &'static str {
    match path.split('/').nth(1) {
        Some("participants") => "Registration: a DFSP tells the hub's directory whose party this is",
        Some("parties") => "Discovery: who has this number? The directory knows the DFSP, the DFSP the name",
        Some("quotes") => "Agreement: what will it cost? The payee's DFSP sets the terms and a condition",
        Some("transfers") => {
            "Transfer: the hub reserves the payer's cover, and the fulfilment moves the money"
        }
        _ => "Other messages",
    }
}

/// The members of a JSON object, one per line, long values cut.
fn body(bytes: &[u8]) -> String {
    let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(bytes) else {
        return String::new();
    };
    let line = |(name, value): (&String, &serde_json::Value)| {
        let value = value.to_string();
        let shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
        let cut = if shown.len() < value.len() { "…" } else { "" };
        format!("         {name}: {shown}{cut}\n")
    };
    members.iter().map(line).collect()
}

/// Milliseconds with two decimals, without rounding up.
pub fn millis(duration: Duration) -> String {
    let us = duration.as_micros();
    format!("{}.{:02}", us / 1000, us % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use upesi_http::{HeaderMap, HeaderValue, Method, StatusCode};
    use upesi_types::FspId;

    use super::*;

    fn message(at: Instant, direction: Direction, path: &str, body: &'static str) -> SeenMessage {
        let mut headers = HeaderMap::new();
        headers.insert("fspiop-source", HeaderValue::from_static("dfsp-1"));
        headers.insert("x-other", HeaderValue::from_static("not shown"));
        SeenMessage {
            at,
            dfsp: FspId::parse("dfsp-1").unwrap(),
            direction,
            method: Method::POST,
            path: path.to_owned(),
            headers,
            body: Bytes::from_static(body.as_bytes()),
            status: Some(StatusCode::ACCEPTED),
        }
    }

    #[test]
    fn messages_are_told_in_order_with_their_members() {
        let start = Instant::now();
        let later = |us| start + Duration::from_micros(us);
        let quote = r#"{"amount":{"amount":"2","currency":"KES"},"quoteId":"a"}"#;
        let mut messages = [
            message(later(1_234), Direction::Received, "/transfers", "not json"),
            message(start, Direction::Sent, "/quotes", quote),
            message(later(999), Direction::Received, "/quotes", quote),
        ];
        let expected = concat!(
            "  Agreement: what will it cost? The payee's DFSP sets the terms and a condition\n",
            "\n",
            "   1.    0.00 ms  dfsp-1 ──▶ hub   POST /quotes   ◀ 202\n",
            "       fspiop-source: dfsp-1\n",
            "         amount: {\"amount\":\"2\",\"currency\":\"KES\"}\n",
            "         quoteId: \"a\"\n",
            "\n",
            "   2.    0.99 ms  hub ──▶ dfsp-1   POST /quotes   ◀ 202\n",
            "       fspiop-source: dfsp-1\n",
            "         (the same body, byte for byte)\n",
            "\n",
            "  Transfer: the hub reserves the payer's cover, and the fulfilment moves the money\n",
            "\n",
            "   3.    1.23 ms  hub ──▶ dfsp-1   POST /transfers   ◀ 202\n",
            "       fspiop-source: dfsp-1\n",
            "\n",
        );
        assert_eq!(describe(&mut messages), expected);
    }
}
