//! The endpoints for operators: what is served, whether it works.

use std::fmt::Write;

use bytes::Bytes;
use http::StatusCode;
use upesi_engine::{EngineStatus, Serving};
use upesi_types::Timestamp;

use crate::answer::{self, Answer};
use crate::config::GatewayConfig;

/// What `GET /` lists: path templates and their methods.
const DIRECTORY: [(&str, &str); 32] = [
    ("/participants", "POST"),
    ("/participants/{Type}/{ID}", "GET, POST, PUT, DELETE"),
    ("/participants/{Type}/{ID}/error", "PUT"),
    ("/participants/{Type}/{ID}/{SubId}", "GET, POST, PUT, DELETE"),
    ("/participants/{Type}/{ID}/{SubId}/error", "PUT"),
    ("/parties/{Type}/{ID}", "GET, PUT"),
    ("/parties/{Type}/{ID}/error", "PUT"),
    ("/parties/{Type}/{ID}/{SubId}", "GET, PUT"),
    ("/parties/{Type}/{ID}/{SubId}/error", "PUT"),
    ("/quotes", "POST"),
    ("/quotes/{ID}", "GET, PUT"),
    ("/quotes/{ID}/error", "PUT"),
    ("/bulkQuotes", "POST"),
    ("/bulkQuotes/{ID}", "GET, PUT"),
    ("/bulkQuotes/{ID}/error", "PUT"),
    ("/fxQuotes", "POST"),
    ("/fxQuotes/{ID}", "GET, PUT"),
    ("/fxQuotes/{ID}/error", "PUT"),
    ("/transactionRequests", "POST"),
    ("/transactionRequests/{ID}", "GET, PUT"),
    ("/transactionRequests/{ID}/error", "PUT"),
    ("/authorizations/{ID}", "GET, PUT"),
    ("/authorizations/{ID}/error", "PUT"),
    ("/transfers", "POST"),
    ("/transfers/{ID}", "GET, PUT"),
    ("/transfers/{ID}/error", "PUT"),
    ("/health", "GET"),
    ("/live", "GET"),
    ("/endpointcache", "DELETE"),
    ("/openapi.yaml", "GET"),
    ("/docs", "GET"),
    ("/", "GET"),
];

/// The body of `GET /`.
pub(crate) fn metadata(config: &GatewayConfig) -> Bytes {
    let mut text = format!(
        r#"{{"name":"upesi","versionNumber":"{}","hubName":{},"protocolVersions":["#,
        env!("CARGO_PKG_VERSION"),
        json_text(config.hub_name.as_str()),
    );
    // Writing to a `String` cannot fail.
    for (index, version) in config.headers.versions.accepted.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}"{version}""#);
    }
    text.push_str(r#"],"directory":{"#);
    for (index, (path, methods)) in DIRECTORY.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}"{path}":"{methods}""#);
    }
    text.push_str("}}");
    Bytes::from(text)
}

/// A JSON string of a text of printable ASCII characters, which a name is.
fn json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The answer to `GET /health`: 200 while transfers are taken, else 502, the status that reference hubs use.
pub(crate) fn health(status: &EngineStatus, started_at: Timestamp, now: Timestamp) -> Answer {
    let (code, body) = health_text(status, started_at, now);
    answer::json(code, body)
}

fn health_text(status: &EngineStatus, started_at: Timestamp, now: Timestamp) -> (StatusCode, String) {
    let (code, overall, ledger, journal) = match status.serving {
        Serving::Yes => (StatusCode::OK, "OK", "OK", "OK"),
        // No room on the disk: nothing can be taken until there is.
        Serving::ReadOnly => (StatusCode::BAD_GATEWAY, "DOWN", "OK", "DOWN"),
        Serving::Stopped(_) => (StatusCode::BAD_GATEWAY, "DOWN", "DOWN", "DOWN"),
    };
    let body = format!(
        concat!(
            r#"{{"status":"{}","uptime":{},"startTime":"{}","versionNumber":"{}","services":["#,
            r#"{{"name":"ledger","status":"{ledger}"}},{{"name":"journal","status":"{journal}"}},"#,
            r#"{{"name":"clock","status":"{clock}"}},"#,
            // The same under the names that monitors of reference hubs look for.
            r#"{{"name":"broker","status":"{ledger}"}},{{"name":"datastore","status":"{journal}"}}]}}"#
        ),
        overall,
        now.ms_since(started_at).max(0) / 1000,
        started_at,
        env!("CARGO_PKG_VERSION"),
        ledger = ledger,
        journal = journal,
        // Payments are taken all the same.
        clock = if status.clock.is_good() { "OK" } else { "DOWN" },
    );
    (code, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_engine::{ClockState, StopReason};
    use upesi_types::FspId;

    #[test]
    fn health_follows_the_engine() {
        for (serving, code, states) in [
            (Serving::Yes, 200, ["OK", "OK"]),
            (Serving::ReadOnly, 502, ["OK", "DOWN"]),
            (Serving::Stopped(StopReason::Journal("disk".into())), 502, ["DOWN", "DOWN"]),
        ] {
            for clock in [ClockState::default(), ClockState { jump_ms: 86_400_000, ahead_ms: 0 }] {
                let is_good = clock.is_good();
                let status = EngineStatus {
                    serving: serving.clone(),
                    queue_depth: 0,
                    durable_seq: 1,
                    archived_seq: 0,
                    is_durable: true,
                    clock,
                };
                let (found, body) = health_text(&status, Timestamp::EPOCH, Timestamp::from_ms(61_500));
                assert_eq!(found.as_u16(), code);
                let [engine, journal] = states;
                for (name, state) in [
                    ("ledger", engine),
                    ("broker", engine),
                    ("journal", journal),
                    ("datastore", journal),
                    ("clock", if is_good { "OK" } else { "DOWN" }),
                ] {
                    let service = format!(r#"{{"name":"{name}","status":"{state}"}}"#);
                    assert!(body.contains(&service), "{service}: {body}");
                }
            }
        }
    }

    #[test]
    fn names_are_quoted() {
        let config = GatewayConfig { hub_name: FspId::parse(r#"a"b\c"#).unwrap(), ..Default::default() };
        let text = String::from_utf8(metadata(&config).to_vec()).unwrap();
        assert!(text.contains(r#""hubName":"a\"b\\c","protocolVersions":["1.0","1.1","2.0"]"#), "{text}");
    }
}
