use crate::SyncError;
use alloc::format;
use alloc::string::String;

mod answer;
mod prepare;

/// A valid body with members replaced or added, or taken away where the new text is empty.
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

/// Asserts code and description, which may end in `…` for "and so on".
fn assert_refusal(got: &(u16, String), code: u16, description: &str, what: &str) {
    assert_eq!(got.0, code, "{what}: {}", got.1);
    match description.strip_suffix('…') {
        Some(beginning) => assert!(got.1.starts_with(beginning), "{what}: {}", got.1),
        None => assert_eq!(got.1, description, "{what}"),
    }
    assert!(got.1.chars().count() <= 128, "{what}");
}
