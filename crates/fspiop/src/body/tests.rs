mod bulk_transfer;
mod lookup;
mod objects;
mod payment_request;
mod prepare;
mod quoting;

use alloc::format;
use alloc::string::{String, ToString};

use crate::SyncError;

/// A body with a replaced or added value at this JSON pointer. An empty text removes the value.
fn changed(body: &str, pointer: &str, json: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(body).expect("a valid body");
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    match value.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}")) {
        serde_json::Value::Object(object) => {
            object.remove(name);
            if !json.is_empty() {
                object.insert(name.into(), serde_json::from_str(json).expect("valid JSON"));
            }
        }
        serde_json::Value::Array(array) => {
            array[name.parse::<usize>().expect("an index")] = serde_json::from_str(json).expect("valid JSON");
        }
        _ => panic!("no container at {parent}"),
    }
    value.to_string()
}

type Outcome = Result<(), (u16, String)>;

fn outcome<T>(result: Result<T, SyncError>) -> Outcome {
    result.map(|_| ()).map_err(|error| {
        assert_eq!(error.status, 400);
        (error.code.number(), error.description)
    })
}

/// Lines of `pointer ⇒ JSON ⇒ verdict`. Without JSON the value is removed. The verdict is `ok`, or a code and the text
/// after the standard one, which may end in `…`. A pointer in the text stands for its target.
fn assert_table(body: &str, parse: impl Fn(&[u8]) -> Outcome, table: &str) {
    assert_eq!(parse(body.as_bytes()), Ok(()), "the body that the table changes");
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: alloc::vec::Vec<&str> = line.split('⇒').map(str::trim).collect();
        let [pointer, json, verdict] = parts[..] else { panic!("no row: {line}") };
        let got = parse(changed(body, pointer, json).as_bytes());
        if verdict == "ok" {
            assert_eq!(got, Ok(()), "{line}");
            continue;
        }
        let (code, text) = verdict.split_once(' ').expect("a code and a text");
        let code = code.parse().expect("a code");
        let standard = upesi_types::ErrorCode::from_number(code).and_then(upesi_types::ErrorCode::text);
        let text = format!("{} - /requestBody{text}", standard.expect("a listed code"));
        assert_refusal(&got.expect_err(line), code, &text, line);
    }
}

/// Asserts that each of these properties is required, and that the error names the first missing one.
fn assert_required(body: &str, parse: impl Fn(&[u8]) -> Outcome, object: &str, names: &[&str]) {
    let mut rest: String = body.into();
    for name in names.iter().rev() {
        rest = changed(&rest, &format!("{object}/{name}"), "");
        let text =
            format!("Missing mandatory element - /requestBody{object} must have required property '{name}'");
        assert_eq!(parse(rest.as_bytes()), Err((3102, text.chars().take(128).collect())));
    }
}

/// A valid body with replaced or added members. An empty text removes a member.
fn with(members: &[(&str, &str)], changes: &[(&str, &str)]) -> String {
    let mut all: alloc::vec::Vec<(&str, &str)> = members.to_vec();
    for &(name, json) in changes {
        all.retain(|(key, _)| *key != name);
        if !json.is_empty() {
            all.push((name, json));
        }
    }
    let members: alloc::vec::Vec<String> =
        all.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
    format!("{{{}}}", members.join(","))
}

fn refusal<T: core::fmt::Debug>(result: Result<T, SyncError>) -> (u16, String) {
    let error = result.unwrap_err();
    assert_eq!(error.status, 400);
    assert_eq!(error.supported_versions, None);
    (error.code.number(), error.description)
}

/// Asserts code and description. The description may end in `…` for any further text.
fn assert_refusal(got: &(u16, String), code: u16, description: &str, what: &str) {
    assert_eq!(got.0, code, "{what}: {}", got.1);
    match description.strip_suffix('…') {
        Some(beginning) => assert!(got.1.starts_with(beginning), "{what}: {}", got.1),
        None => assert_eq!(got.1, description, "{what}"),
    }
    assert!(got.1.chars().count() <= 128, "{what}");
}
