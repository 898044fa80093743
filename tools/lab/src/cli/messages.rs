//! Prints the messages of simulated DFSPs for an engineer who follows a payment.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use upesi_http::Bytes;
use upesi_sim::{Direction, SeenMessage};

/// The headers that are shown. Messages have others, too.
const SHOWN: [&str; 4] = ["fspiop-source", "fspiop-destination", "content-type", "traceparent"];
/// Maximum length of a value, if values are shortened.
const VALUE_CHARS_MAX: usize = 90;
/// After this silence, times are counted from zero again.
const SILENCE: Duration = Duration::from_secs(1);

/// Prints numbered messages, each with the time since the first, below a heading for each resource.
#[derive(Debug)]
pub struct MessagePrinter {
    value_chars_max: usize,
    number: usize,
    /// Time of the first message of the current exchange, and time of the last message.
    began: Option<(Instant, Instant)>,
    heading: &'static str,
    body_before: Bytes,
}

impl MessagePrinter {
    /// Cuts long values.
    pub fn shortening() -> Self {
        Self::with(VALUE_CHARS_MAX)
    }

    /// Shows whole bodies, so that they can be copied.
    pub fn verbatim() -> Self {
        Self::with(usize::MAX)
    }

    fn with(value_chars_max: usize) -> Self {
        Self { value_chars_max, number: 0, began: None, heading: "", body_before: Bytes::new() }
    }

    /// Sorts messages by the time at which they were sent, and returns their text.
    pub fn tell(&mut self, messages: &mut [SeenMessage]) -> String {
        messages.sort_by_key(|message| message.at);
        messages.iter().map(|message| self.tell_one(message)).collect()
    }

    fn tell_one(&mut self, message: &SeenMessage) -> String {
        let mut text = String::new();
        let began = match self.began {
            Some((began, last)) if message.at.saturating_duration_since(last) < SILENCE => began,
            _ => {
                self.heading = "";
                message.at
            }
        };
        self.began = Some((began, message.at));
        let about = heading(&message.path);
        if about != self.heading {
            self.heading = about;
            // Writing into a String does not fail, here and below.
            let _ = writeln!(text, "  {about}\n");
        }
        self.number += 1;
        let (number, after) = (self.number, millis(message.at.saturating_duration_since(began)));
        let arrow = match message.direction {
            Direction::Sent => format!("{} ──▶ hub", message.dfsp),
            Direction::Received => format!("hub ──▶ {}", message.dfsp),
        };
        let status =
            message.status.map_or_else(|| "no answer".to_owned(), |status| status.as_u16().to_string());
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
        if !message.body.is_empty() && message.body == self.body_before {
            let _ = writeln!(text, "         (the same body, byte for byte)\n");
        } else {
            let _ = writeln!(text, "{}", self.body(&message.body));
        }
        self.body_before = message.body.clone();
        text
    }

    /// The members of a JSON object, one per line.
    fn body(&self, bytes: &[u8]) -> String {
        let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(bytes) else {
            return String::new();
        };
        let line = |(name, value): (&String, &serde_json::Value)| {
            let value = value.to_string();
            let shown: String = value.chars().take(self.value_chars_max).collect();
            let cut = if shown.len() < value.len() { "…" } else { "" };
            format!("         {name}: {shown}{cut}\n")
        };
        members.iter().map(line).collect()
    }
}

/// The purpose of the messages about a resource.
fn heading(path: &str) -> &'static str {
    match path.split('/').nth(1) {
        Some("participants") => "Registration: a DFSP registers the party in the hub's directory",
        Some("parties") => {
            "Discovery: the directory names the DFSP of this number, and the DFSP names the party"
        }
        Some("quotes") => "Agreement: the payee's DFSP sets the cost, the other terms and a condition",
        Some("transfers") => {
            "Transfer: the hub reserves the payer's cover, and the fulfilment moves the money"
        }
        _ => "Other messages",
    }
}

/// Milliseconds with two decimals, rounded down.
pub fn millis(duration: Duration) -> String {
    let us = duration.as_micros();
    format!("{}.{:02}", us / 1000, us % 1000 / 10)
}

#[cfg(test)]
mod tests {
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
    fn messages_are_printed_in_order_with_their_members() {
        let start = Instant::now();
        let later = |us| start + Duration::from_micros(us);
        let quote = r#"{"amount":{"amount":"2","currency":"KES"},"quoteId":"a"}"#;
        let mut messages = [
            message(later(1_234), Direction::Received, "/transfers", "not json"),
            message(start, Direction::Sent, "/quotes", quote),
            message(later(999), Direction::Received, "/quotes", quote),
        ];
        let expected = concat!(
            "  Agreement: the payee's DFSP sets the cost, the other terms and a condition\n",
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
        assert_eq!(MessagePrinter::shortening().tell(&mut messages), expected);
    }

    #[test]
    fn silence_starts_the_time_again_and_keeps_the_numbering() {
        let start = Instant::now();
        let long = format!(r#"{{"ilpPacket":"{}"}}"#, "A".repeat(500));
        let mut teller = MessagePrinter::verbatim();
        let packet = Bytes::from(long);
        let at = |at, body: &Bytes| SeenMessage {
            body: body.clone(),
            ..message(at, Direction::Received, "/quotes", "")
        };
        let first = teller.tell(&mut [at(start, &packet)]);
        assert!(first.contains(&format!("ilpPacket: \"{}\"\n", "A".repeat(500))), "{first}");
        let soon = teller.tell(&mut [at(start + SILENCE / 2, &Bytes::new())]);
        assert!(soon.starts_with("   2.  500.00 ms"), "{soon}");
        let later = teller.tell(&mut [at(start + 2 * SILENCE, &Bytes::new())]);
        assert!(later.starts_with("  Agreement") && later.contains("   3.    0.00 ms"), "{later}");
    }
}
