//! Entries of the audit trail as programs read them, and which of them are asked for.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use upesi_ledger::AuditEntry;
use upesi_types::Timestamp;

use crate::json::Instant;

/// An entry as JSON, in `GET /audit` and in `upesi audit trail --json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryView {
    number: u64,
    /// The record of the journal that it is in, with its effect.
    record: u64,
    at: Instant,
    operator: Box<str>,
    known_by: Box<str>,
    address: Option<Box<str>>,
    on_behalf_of: Option<Box<str>>,
    action: Box<str>,
    reason: Option<Box<str>>,
    object: Box<str>,
    before: Box<str>,
    after: Box<str>,
    outcome: Outcome,
    refused: Option<Box<str>>,
    chain: String,
}

impl AuditEntryView {
    /// An entry of a record.
    pub fn of(record: u64, entry: &AuditEntry) -> Self {
        let AuditEntry { number, at, by, object, before, after, refused, chain } = entry.clone();
        Self {
            number,
            record,
            at: Instant(at),
            operator: by.operator,
            known_by: by.known_by,
            address: by.address,
            on_behalf_of: by.on_behalf_of,
            action: by.action,
            reason: by.reason,
            object,
            before,
            after,
            outcome: Outcome::of(entry),
            refused,
            chain: hex(&chain),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was refused.
    Refused,
}

impl Outcome {
    /// That of an entry.
    pub fn of(entry: &AuditEntry) -> Self {
        if entry.refused.is_some() { Self::Refused } else { Self::Done }
    }

    /// The outcome of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Done, Self::Refused].into_iter().find(|outcome| outcome.name() == text)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Which entries are asked for. What is absent is not asked about.
#[derive(Clone, Debug, Default)]
pub struct EntryFilter {
    /// Of this operator, or on its behalf.
    pub operator: Option<Box<str>>,
    /// Of this permission (`limit.raise`) or of this area (`limit`).
    pub action: Option<Box<str>>,
    /// Whose object has this text in it.
    pub object: Option<Box<str>>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// From this instant on.
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
}

impl EntryFilter {
    /// Whether an entry is asked for.
    pub fn is_met_by(&self, entry: &AuditEntry) -> bool {
        let is_of = |name: &str| {
            *entry.by.operator == *name || entry.by.on_behalf_of.as_deref().is_some_and(|other| other == name)
        };
        let is_action = |wanted: &str| {
            let rest = entry.by.action.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.operator.as_deref().is_none_or(is_of)
            && self.action.as_deref().is_none_or(is_action)
            && self.object.as_deref().is_none_or(|wanted| entry.object.contains(wanted))
            && self.outcome.is_none_or(|wanted| Outcome::of(entry) == wanted)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_ledger::Attribution;

    fn entry() -> AuditEntry {
        let by = Attribution {
            operator: "amina".into(),
            known_by: "token 1".into(),
            address: None,
            on_behalf_of: Some("brian".into()),
            action: "limit.raise".into(),
            reason: None,
        };
        AuditEntry {
            number: 1,
            at: Timestamp::from_ms(5),
            by,
            object: "net debit cap of greenbank in KES".into(),
            before: "1".into(),
            after: "2".into(),
            refused: None,
            chain: [0xab; 32],
        }
    }

    #[test]
    fn every_part_of_a_filter_counts() {
        let met = |change: fn(&mut EntryFilter)| {
            let mut filter = EntryFilter::default();
            change(&mut filter);
            filter.is_met_by(&entry())
        };
        for (index, wanted) in [
            (|_| {}) as fn(&mut EntryFilter),
            |filter| filter.operator = Some("amina".into()),
            |filter| filter.operator = Some("brian".into()),
            |filter| filter.action = Some("limit".into()),
            |filter| filter.action = Some("limit.raise".into()),
            |filter| filter.object = Some("greenbank".into()),
            |filter| filter.outcome = Some(Outcome::Done),
            |filter| filter.since = Some(Timestamp::from_ms(5)),
            |filter| filter.until = Some(Timestamp::from_ms(6)),
        ]
        .into_iter()
        .enumerate()
        {
            assert!(met(wanted), "wanted {index}");
        }
        for (index, other) in [
            (|filter| filter.operator = Some("ami".into())) as fn(&mut EntryFilter),
            |filter| filter.action = Some("limi".into()),
            |filter| filter.action = Some("limit.lower".into()),
            |filter| filter.object = Some("bluebank".into()),
            |filter| filter.outcome = Some(Outcome::Refused),
            |filter| filter.since = Some(Timestamp::from_ms(6)),
            |filter| filter.until = Some(Timestamp::from_ms(5)),
        ]
        .into_iter()
        .enumerate()
        {
            assert!(!met(other), "other {index}");
        }
    }
}
