//! `upesi journal`: prints records as text or JSON.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use upesi_delivery::rejection;
use upesi_engine::{FollowError, follow};
use upesi_journal::{Disk, EmbeddedLog, JournalError, Log, SnapshotStore};
use upesi_ledger::{Actor, Callback, CallbackContent, Cause, Event, Ledger, LedgerConfig, Record, Shown};
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_process::times::Zone;
use upesi_types::Timestamp;
use upesi_types::text::escape;

use super::filter::{Filter, Sieve};
use crate::directory::{follow_failure, journal_failure, open};
use crate::names::Names;

/// Options of the output.
#[derive(Clone, Debug)]
pub struct PrintOptions {
    /// The data directory.
    pub directory: PathBuf,
    /// The first record; `None` for the oldest one.
    pub from_seq: Option<u64>,
    /// Conditions for the records.
    pub filter: Filter,
    /// Maximum number of records.
    pub limit: Option<u64>,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// With JSON: also print the request's headers and body.
    pub payload: bool,
    /// Time zone of the records' times in text. Times inside a record's text, and JSON, are in UTC.
    pub zone: Zone,
}

/// Prints the records of a data directory. If a hub is using it, the end may change, and `warn` gets a note.
///
/// # Errors
/// See [`open`]; 65 for damage, 74 if the output cannot be written. A closed pipe is not an error.
pub fn print(options: &PrintOptions, output: &mut dyn Write, warn: &mut dyn Write) -> Outcome {
    let directory = open(&options.directory)?;
    if directory.in_use_by().is_some() {
        let _ = writeln!(
            warn,
            "a hub is using this directory: the last records may not have been synced to disk yet"
        );
    }
    let disk = directory.disk();
    let log = EmbeddedLog::for_reading(&disk);
    let oldest = log.oldest_seq().map_err(journal_failure)?.unwrap_or(1);
    let from = options.from_seq.unwrap_or(oldest).max(1);
    let mut names = names_before(&disk, &log, from, oldest)?;
    let mut records = follow(&log, from);
    let mut sieve = Sieve::new(options.filter.clone());
    let mut left = options.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(found) = records.next().map_err(follow_failure)? else { break };
        if sieve.is_over(found.time) {
            break;
        }
        let record = found.record;
        record.events.iter().for_each(|event| names.learn(event));
        if !sieve.passes(found.seq, found.time, &record, &names) {
            continue;
        }
        let line = if options.json {
            record_json(found.seq, found.time, &record, &names, options.payload).to_string()
        } else {
            describe((found.seq, &options.zone.show_ms(found.time)), &record, &names)
        };
        match writeln!(output, "{}", escape(&line)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => {
                other.map_err(|error| Failure::new(Exit::InputOutput, format!("cannot write: {error}")))?
            }
        }
        left -= 1;
    }
    if let Some(torn) = records.torn() {
        let _ = writeln!(
            warn,
            "{} ends with {} bytes of a batch that was never acknowledged, at byte {}",
            torn.file, torn.bytes, torn.offset
        );
    }
    Ok(())
}

/// The names before a record: those of the newest snapshot, and of the records between it and the first printed one.
/// Names never change, so a later snapshot also serves.
fn names_before(disk: &Arc<dyn Disk>, log: &Arc<dyn Log>, from: u64, oldest: u64) -> Result<Names, Failure> {
    let snapshots = SnapshotStore::open_for_reading(Arc::clone(disk));
    let snapshot = snapshots.latest().map_err(journal_failure)?.snapshot;
    let known = snapshot.and_then(|snapshot| {
        let ledger = Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default()).ok()?;
        Some((snapshot.seq, Names::of(&ledger)))
    });
    let (known_seq, mut names) =
        known.unwrap_or_else(|| (0, Names::of(&Ledger::new(LedgerConfig::default()))));
    let mut records = follow(log, (known_seq + 1).max(oldest));
    while records.next_seq() < from {
        let found = match records.next() {
            Ok(Some(found)) => found,
            Ok(None)
            | Err(FollowError::Gone { .. } | FollowError::Journal(JournalError::NoSuchRecord { .. })) => {
                break;
            }
            Err(error) => return Err(follow_failure(error)),
        };
        found.record.events.iter().for_each(|event| names.learn(event));
    }
    Ok(names)
}

// Journal records as text, one line each.

/// A record as one line: sequence, time, actor, changes, receivers of callbacks, size of the request.
pub fn describe((seq, time): (u64, &str), record: &Record<'_>, names: &Names) -> String {
    let mut parts: Vec<String> =
        record.events.iter().map(|event| Described(event, names).to_string()).collect();
    parts.extend(record.callbacks.iter().map(|callback| describe_callback(callback, names)));
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    let bytes = record.payload.headers.len() + record.payload.body.len();
    let payload = if bytes == 0 { String::new() } else { format!(" ({bytes} bytes)") };
    format!("{seq:>8}  {time}  {}: {}{payload}", record.actor, parts.join("; "))
}

struct Described<'a>(&'a Event, &'a Names);

impl Display for Described<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.describe(self.1, f)
    }
}

fn describe_callback(callback: &Callback, names: &Names) -> String {
    let target = names.participant(callback.target);
    let what = match &callback.content {
        CallbackContent::ForwardPrepare | CallbackContent::ForwardFulfil | CallbackContent::ForwardAbort => {
            "forwarded".to_owned()
        }
        CallbackContent::ConfirmFulfil | CallbackContent::ConfirmAbort => "confirmed".to_owned(),
        CallbackContent::State(_, view) => view.state.as_str().to_owned(),
        CallbackContent::BulkRequest(request) => format!("a bulk of {} items", request.items.len()),
        CallbackContent::BulkState(view) => {
            format!("{} with {} items", view.state.as_str(), view.items.len())
        }
        CallbackContent::Error(cause) => format!("error {}", rejection::cause(cause).0),
    };
    format!("tell {target} {} {what}", callback.content.method())
}

// Journal records as JSON, one object each. Amounts are strings, as on the wire, so that no reader rounds them.

/// A record as a JSON object. `with_payload` adds the request's headers and body, which contain personal data.
pub fn record_json(
    seq: u64,
    time: Timestamp,
    record: &Record<'_>,
    names: &Names,
    with_payload: bool,
) -> Value {
    let mut object = json!({
        "seq": seq,
        "time": time.to_string(),
        "timeNs": time.as_ns(),
        "actor": actor_json(record.actor),
        "events": record.events.iter().map(|event| event_json(event, names)).collect::<Vec<_>>(),
        "callbacks": record.callbacks.iter().map(|callback| callback_json(callback, names)).collect::<Vec<_>>(),
        "payload": {
            "headerBytes": record.payload.headers.len(),
            "bodyBytes": record.payload.body.len(),
        },
    });
    if with_payload {
        object["payload"]["headers"] = String::from_utf8_lossy(record.payload.headers).into();
        object["payload"]["body"] = String::from_utf8_lossy(record.payload.body).into();
    }
    object
}

fn actor_json(actor: Actor) -> Value {
    match actor {
        Actor::Dfsp(name) => json!({"kind": actor.kind(), "name": name.as_str()}),
        _ => json!({"kind": actor.kind()}),
    }
}

fn event_json(event: &Event, names: &Names) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), camel_case(event.name()).into());
    add(&mut object, event.fields(), names);
    Value::Object(object)
}

/// Adds fields. A cause becomes an error code and a description.
fn add(object: &mut Map<String, Value>, fields: Vec<(&'static str, Shown<'_>)>, names: &Names) {
    for (name, shown) in fields {
        match shown {
            Shown::Cause(cause) => add_cause(object, cause),
            shown => {
                object.insert(camel_case(name), shown_json(shown, names));
            }
        }
    }
}

fn add_cause(object: &mut Map<String, Value>, cause: &Cause) {
    let (code, description) = rejection::cause(cause);
    object.insert("errorCode".to_owned(), code.to_string().into());
    object.insert("errorDescription".to_owned(), (*description).into());
}

fn shown_json(shown: Shown<'_>, names: &Names) -> Value {
    match shown {
        Shown::Absent => Value::Null,
        Shown::Flag(flag) => flag.into(),
        Shown::Number(number) => i64::try_from(number)
            .map(Value::from)
            .or_else(|_| u64::try_from(number).map(Value::from))
            .unwrap_or_else(|_| number.to_string().into()),
        Shown::Text(text) => text.into_owned().into(),
        Shown::Participant(id) => names.participant(id).into(),
        Shown::Account(id) => id.number().into(),
        Shown::AccountType(id) => names.account_type(id).into(),
        Shown::Callback(key) => {
            json!({"target": names.participant(key.target), "seq": key.seq, "index": key.index})
        }
        Shown::List(items) => items.into_iter().map(|item| shown_json(item, names)).collect(),
        Shown::Cause(cause) => {
            let mut object = Map::new();
            add_cause(&mut object, cause);
            Value::Object(object)
        }
        Shown::Fields(fields) => {
            let mut object = Map::new();
            add(&mut object, fields, names);
            Value::Object(object)
        }
    }
}

/// Converts `SomeName` and `some_name` to `someName`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_next_upper = false;
    for character in name.chars() {
        match character {
            '_' => is_next_upper = true,
            _ if text.is_empty() => text.push(character.to_ascii_lowercase()),
            _ if is_next_upper => {
                text.push(character.to_ascii_uppercase());
                is_next_upper = false;
            }
            _ => text.push(character),
        }
    }
    text
}

fn callback_json(callback: &Callback, names: &Names) -> Value {
    let mut object = json!({
        "target": names.participant(callback.target),
        "resource": callback.subject.resource.as_str(),
        "id": callback.subject.id.to_string(),
        "method": callback.content.method(),
        "endpointType": callback.endpoint_type().name(),
        "isForwarded": callback.content.is_forwarded(),
    });
    match &callback.content {
        CallbackContent::State(_, view) => object["transferState"] = view.state.as_str().into(),
        CallbackContent::Error(cause) => {
            let (code, description) = rejection::cause(cause);
            object["errorCode"] = code.to_string().into();
            object["errorDescription"] = (*description).into();
        }
        _ => {}
    }
    object
}
