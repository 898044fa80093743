//! Entries of the audit trail for programs, and filters for them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use upesi_ledger::{AuditActor, AuditEntry, Event, effects_of};
use upesi_types::{Timestamp, hex, unhex};

use crate::json::Instant;

/// Nanoseconds of a millisecond.
const NS_PER_MS: i64 = 1_000_000;

/// An entry as JSON, in `GET /audit` and in `upesi trail --json`. Reading it requires each member exactly once,
/// and no others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditEntryView {
    pub number: u64,
    /// The record of the journal with the entry and its effect.
    pub record: u64,
    pub at: Instant,
    /// Nanoseconds within the millisecond of `at`.
    pub nanoseconds: u32,
    pub operator: Box<str>,
    pub known_by: Box<str>,
    pub address: Option<Box<str>>,
    pub on_behalf_of: Option<Box<str>>,
    pub action: Box<str>,
    pub reason: Option<Box<str>>,
    pub object: Box<str>,
    pub before: Box<str>,
    pub after: Box<str>,
    pub outcome: AttemptOutcome,
    pub refused: Option<Box<str>>,
    /// Digest of the record's other events; it binds the entry to them.
    pub effects: String,
    pub chain: String,
}

impl AuditEntryView {
    /// An entry of a record with these events.
    pub fn of(record: u64, entry: &AuditEntry, events: &[Event]) -> Self {
        let AuditEntry { number, at, by, object, before, after, refused, chain } = entry.clone();
        Self {
            number,
            record,
            at: Instant(at),
            nanoseconds: u32::try_from(at.as_ns().rem_euclid(NS_PER_MS)).unwrap_or(0),
            operator: by.operator,
            known_by: by.known_by,
            address: by.address,
            on_behalf_of: by.on_behalf_of,
            action: by.action,
            reason: by.reason,
            object,
            before,
            after,
            outcome: AttemptOutcome::of(entry),
            refused,
            effects: hex(&effects_of(events)),
            chain: hex(&chain),
        }
    }
}

/// A line of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedEntry {
    /// The record of the journal that contained it.
    pub record: u64,
    pub entry: AuditEntry,
    /// Digest of the record's other events.
    pub effects: [u8; 32],
}

impl ExportedEntry {
    /// Parses a line.
    ///
    /// # Errors
    /// Description of the fault.
    pub fn parse(line: &str) -> Result<Self, String> {
        let row: AuditEntryView = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if i64::from(row.nanoseconds) >= NS_PER_MS {
            return Err("\"nanoseconds\" exceed a millisecond".to_owned());
        }
        let digest =
            |name: &str, text: &str| unhex(text).ok_or_else(|| format!("\"{name}\" is not a digest"));
        let entry = AuditEntry {
            number: row.number,
            at: Timestamp::from_ns(row.at.0.as_ns() + i64::from(row.nanoseconds)),
            by: AuditActor {
                operator: row.operator,
                known_by: row.known_by,
                address: row.address,
                on_behalf_of: row.on_behalf_of,
                action: row.action,
                reason: row.reason,
            },
            object: row.object,
            before: row.before,
            after: row.after,
            refused: row.refused,
            chain: digest("chain", &row.chain)?,
        };
        if AttemptOutcome::of(&entry) != row.outcome {
            return Err("\"outcome\" contradicts \"refused\"".to_owned());
        }
        Ok(Self { record: row.record, effects: digest("effects", &row.effects)?, entry })
    }
}

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The action was performed.
    Done,
    /// The action was rejected.
    Refused,
}

impl AttemptOutcome {
    pub fn of(entry: &AuditEntry) -> Self {
        if entry.refused.is_some() { Self::Refused } else { Self::Done }
    }

    /// The outcome with this name.
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

impl Serialize for AttemptOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for AttemptOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(format_args!("{text:?} is not an outcome")))
    }
}

/// Conditions for entries; absent ones match all.
#[derive(Clone, Debug, Default)]
pub struct EntryFilter {
    /// Entries of this operator, or on its behalf.
    pub operator: Option<Box<str>>,
    /// Entries of this permission (`limit.raise`) or area (`limit`).
    pub action: Option<Box<str>>,
    /// Entries whose object contains this text.
    pub object: Option<Box<str>>,
    pub outcome: Option<AttemptOutcome>,
    /// Entries from this instant on.
    pub since: Option<Timestamp>,
    /// Entries before this instant.
    pub until: Option<Timestamp>,
}

impl EntryFilter {
    /// Whether an entry matches all conditions.
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
            && self.outcome.is_none_or(|wanted| AttemptOutcome::of(entry) == wanted)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn entry() -> AuditEntry {
        let by = AuditActor {
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

    /// A written line can be read back. A line that could be read in two ways is rejected.
    #[test]
    fn line_round_trips_and_ambiguous_lines_are_rejected() {
        let events = [Event::FinishedRemoved { to_seq: 4 }];
        let one = AuditEntry { at: Timestamp::from_ns(1_925_000_000_123_456_789), ..entry() };
        let line = serde_json::to_string(&AuditEntryView::of(7, &one, &events)).unwrap();
        let read = ExportedEntry::parse(&line).unwrap();
        assert_eq!(read, ExportedEntry { record: 7, entry: one, effects: effects_of(&events) });
        for (from, to) in [
            (",\"object\"", ",\"more\":1,\"object\""),
            (",\"object\"", ",\"number\":1,\"object\""),
            ("\"nanoseconds\":456789", "\"nanoseconds\":1456789"),
            ("\"outcome\":\"done\"", "\"outcome\":\"refused\""),
            (".123Z", ".123+00:00"),
            ("\"chain\":\"ab", "\"chain\":\"AB"),
            ("\"chain\":\"ab", "\"chain\":\"a"),
        ] {
            let changed = line.replacen(from, to, 1);
            assert_ne!(changed, line, "{from}");
            assert!(ExportedEntry::parse(&changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn filter_requires_all_conditions() {
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
            |filter| filter.outcome = Some(AttemptOutcome::Done),
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
            |filter| filter.outcome = Some(AttemptOutcome::Refused),
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
