//! `upesi journal`: prints records as text or JSON.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use upesi_engine::{FollowError, follow};
use upesi_journal::{Disk, EmbeddedLog, JournalError, Log, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig};
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_process::times::Zone;
use upesi_types::text::escape;

use super::filter::{Filter, RecordFilter};
use crate::directory::{follow_failure, journal_failure, open};
use crate::journal::json::record_json;
use crate::journal::text::describe;
use crate::names::Names;

/// Options of the output.
#[derive(Clone, Debug)]
pub struct PrintOptions {
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
    let mut sieve = RecordFilter::new(options.filter.clone());
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
            describe(found.seq, &options.zone.show_ms(found.time), &record, &names)
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

/// The names before a record: the names in the newest snapshot, and in the records between it and the first printed
/// record. Names never change, so a later snapshot also serves.
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
