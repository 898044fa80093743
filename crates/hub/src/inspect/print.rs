//! `upesi journal`: prints records for people or for programs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use upesi_engine::{FollowError, follow};
use upesi_journal::{Disk, EmbeddedLog, JournalError, Log, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig};

use super::filter::{Filter, Sieve};
use super::names::Names;
use super::{describe, follow_failure, journal_failure, json, open};
use crate::exit::{Exit, Failure, Outcome};

/// What to print.
#[derive(Clone, Debug)]
pub struct PrintOptions {
    /// The data directory.
    pub directory: PathBuf,
    /// The first record; `None` begins with the oldest there is.
    pub from_seq: Option<u64>,
    /// Which of them.
    pub filter: Filter,
    /// How many records at most.
    pub limit: Option<u64>,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// With JSON: the request's headers and body too.
    pub payload: bool,
}

/// Prints the records of a data directory. A hub may be using it: then its end is a moving target, which `warn` is
/// told.
///
/// # Errors
/// See [`super::open`]; 65 for damage, 74 when the output cannot be written. A closed pipe is no error.
pub fn print(options: &PrintOptions, output: &mut dyn Write, warn: &mut dyn Write) -> Outcome {
    let directory = open(&options.directory)?;
    if directory.in_use_by().is_some() {
        let _ = writeln!(
            warn,
            "a hub is using this directory: records at the end may still be on their way to the disk"
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
            json::record(found.seq, found.time, &record, &names, options.payload).to_string()
        } else {
            describe::line(found.seq, found.time, &record, &names)
        };
        match writeln!(output, "{line}") {
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

/// The names that are known before a record: those of the newest snapshot, and of the records between it and the first
/// one printed. Names never change, so a snapshot from later serves as well.
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
