//! Answers of external oracles.

use std::collections::BTreeMap;

use upesi_directory::oracle::external::{OWNERS_MAX, read_batch, read_owners};
use upesi_directory::oracle::{Operation, OracleFailure};
use upesi_parties::party::{DirectoryEntry, Owner, PartyIdType};
use upesi_types::{Currency, ErrorCode, FspId};

use super::assert_can_be_told;

/// One body, read as the answer to a lookup and as the answer to a batch.
pub(crate) fn oracle(input: &[u8]) {
    lookup(input);
    batch(input);
}

fn lookup(body: &[u8]) {
    let owners = match read_owners(body) {
        Ok(owners) => owners,
        Err(failure) => return assert_not_understood(&failure, Operation::Find),
    };
    assert!(owners.len() <= OWNERS_MAX, "{} owners", owners.len());
    assert!(owners.iter().all(|owner| owner.sub_id.as_deref() != Some("")), "{owners:?}");
    assert!(stand_in_order(body, &owners), "{owners:?}");
    let written = partylist(&owners);
    assert_eq!(read_owners(written.as_bytes()).as_ref(), Ok(&owners), "{written}");
}

fn batch(body: &[u8]) {
    let mut entries = entries();
    let outcomes = match read_batch(body, &entries) {
        Ok(outcomes) => outcomes,
        Err(failure) => return assert_not_understood(&failure, Operation::RegisterBatch),
    };
    assert_eq!(outcomes.len(), entries.len(), "one outcome for each entry");
    for (entry, outcome) in entries.iter().zip(&outcomes) {
        match outcome {
            Ok(()) => assert!(may_name(body, &entry.id), "registered, but not named: {entry:?}"),
            Err(error) => assert_can_be_told(error),
        }
    }
    // The result of an entry does not depend on its place.
    entries.reverse();
    let mut reversed = read_batch(body, &entries).expect("a parsed answer can be parsed again");
    reversed.reverse();
    assert_eq!(reversed, outcomes);
}

/// A lookup gets 1001, a registration 3003. Only the operator sees the reason.
fn assert_not_understood(failure: &OracleFailure, operation: Operation) {
    assert!(matches!(failure, OracleFailure::NotUnderstood { .. }), "{failure:?}");
    let error = failure.to_error(operation);
    let is_lookup = operation == Operation::Find;
    let code =
        if is_lookup { ErrorCode::DESTINATION_COMMUNICATION } else { ErrorCode::ADD_PARTY_INFORMATION };
    assert_eq!(error.code, code);
    assert_can_be_told(&error);
}

/// Entries that differ in kind, in identifier, and in the presence of a sub-identifier.
fn entries() -> Vec<DirectoryEntry> {
    let fsp = FspId::parse("greenbank").expect("a name");
    let entry = |kind, id: &str, sub_id: Option<&str>| DirectoryEntry {
        kind,
        id: id.into(),
        sub_id: sub_id.map(Into::into),
        currency: None,
        fsp,
    };
    vec![
        entry(PartyIdType::Msisdn, "26097", None),
        entry(PartyIdType::Email, "a@b.cd", None),
        entry(PartyIdType::Business, "acme", Some("till-1")),
        entry(PartyIdType::Business, "acme", None),
    ]
}

/// Whether the names of the owners are in the body in this order. An escape may hide any of them.
fn stand_in_order(body: &[u8], owners: &[Owner]) -> bool {
    let mut rest = body;
    has_escapes(body)
        || owners.iter().all(|owner| {
            let name = owner.fsp.as_str().as_bytes();
            let Some(at) = rest.windows(name.len()).position(|bytes| bytes == name) else { return false };
            rest = &rest[at + name.len()..];
            true
        })
}

fn may_name(body: &[u8], id: &str) -> bool {
    has_escapes(body) || body.windows(id.len()).any(|bytes| bytes == id.as_bytes())
}

fn has_escapes(body: &[u8]) -> bool {
    body.contains(&b'\\')
}

fn members(owner: &Owner) -> BTreeMap<&str, &str> {
    let members = [
        ("fspId", Some(owner.fsp.as_str())),
        ("currency", owner.currency.as_ref().map(Currency::as_str)),
        ("partySubIdOrType", owner.sub_id.as_deref()),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The answer of an oracle that knows these owners.
fn partylist(owners: &[Owner]) -> String {
    serde_json::json!({"partyList": owners.iter().map(members).collect::<Vec<_>>()}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, times: usize) -> String {
        let owners = vec![format!(r#"{{"fspId":"{name}"}}"#); times];
        format!(r#"{{"partyList":[{}]}}"#, owners.join(","))
    }

    #[test]
    fn owners_above_the_limit_are_not_read() {
        let body = answer("a", OWNERS_MAX + 1);
        oracle(body.as_bytes());
        assert_eq!(read_owners(body.as_bytes()).map(|owners| owners.len()), Ok(OWNERS_MAX));
    }

    #[test]
    fn planted_mistakes_are_found() {
        let body = answer("green", 1) + &answer("blue", 1);
        let owner = |name| Owner { fsp: FspId::parse(name).expect("a name"), currency: None, sub_id: None };
        assert!(stand_in_order(body.as_bytes(), &[owner("green"), owner("blue")]));
        assert!(!stand_in_order(body.as_bytes(), &[owner("blue"), owner("green")]), "another order");
        assert!(!stand_in_order(body.as_bytes(), &[owner("red")]), "the answer does not name it");
        assert!(may_name(body.as_bytes(), "green") && !may_name(body.as_bytes(), "red"));
    }

    #[test]
    fn owners_are_written_as_oracles_write_them() {
        let sub_id = Some("a\"b\\c\nd".into());
        let fsp = FspId::parse("green").expect("a name");
        let written = partylist(&[Owner { fsp, currency: None, sub_id }]);
        let expected = r#"{"partyList":[{"fspId":"green","partySubIdOrType":"a\"b\\c\nd"}]}"#;
        assert_eq!(written, expected);
    }
}
