//! `upesi audit`: replays a data directory and proves or disproves its correctness.

mod archive;
mod bodies;
mod books;
mod bulks;
mod entry;
mod fees;
mod findings;
mod fx_transfers;
mod judge;
mod operators;
mod rehearsal;
mod replay;
mod report;
mod request;
mod scheme;
mod settlements;
mod snapshots;
mod steps;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use books::{Books, RecordFaults};
use replay::Replay;
use upesi_engine::{DecodedRecord, Follow, FollowError, follow, follow_once};
use upesi_journal::{Disk, EmbeddedLog, JournalError, Log, SegmentInfo};
use upesi_ledger::{Ledger, LedgerConfig, Record};
use upesi_process::exit::{Exit, Failure};
use upesi_process::progress::Progress;
use upesi_types::Timestamp;

use self::archive::ArchiveComparison;
use self::findings::{Findings, note_damage};
use self::snapshots::Snapshots;
use crate::directory::open;

pub use archive::ArchiveResult;
pub use books::Counts;
pub use findings::FINDINGS_KEPT_MAX;
pub use report::{AuditReport, JournalState, to_json, to_text};
pub use steps::StepAudit;
pub use store::StoreResult;

/// All invariants are checked after each such number of replayed records, and at the end.
const CHECK_EVERY_RECORDS: u64 = 65_536;
const PROGRESS_EVERY_RECORDS: u64 = 1_024;

/// Options of an audit.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub directory: PathBuf,
    /// Whether a directory in use by a hub may be audited; its archive is then left out.
    pub allow_live: bool,
    /// Whether the archive is compared, and the store read.
    pub with_archive: bool,
}

/// An audit of a running hub: every record is checked as it arrives, and every invariant after it.
#[derive(Debug)]
pub struct LiveAudit {
    ledger: Ledger,
    books: Books,
}

impl Default for LiveAudit {
    fn default() -> Self {
        let ledger = Ledger::new(LedgerConfig::default());
        Self { books: Books::of(&ledger), ledger }
    }
}

impl LiveAudit {
    /// The last record that was entered.
    pub fn last_seq(&self) -> u64 {
        self.ledger.last_seq()
    }

    /// Enters the next record. Returns findings as sentences. After a contradiction the audit cannot continue.
    pub fn enter(&mut self, seq: u64, time: Timestamp, record: Record<'_>) -> Vec<String> {
        let mut noticed = RecordFaults::default();
        let entered = self.books.enter(seq, time, &record, &mut noticed);
        let RecordFaults { rules: mut findings, faults } = noticed;
        findings.extend(faults);
        if let Err(contradiction) = entered {
            findings.push(contradiction);
            return findings;
        }
        self.ledger.evolve(seq, time, record.events, &record.callbacks);
        findings.extend(upesi_ledger::audit::check(&self.ledger));
        self.books.compare(&self.ledger, &mut findings);
        findings
    }
}

/// Audits a data directory.
///
/// # Errors
/// See [`crate::directory::open`]; 75 if a hub is using it and that is not allowed; 74 if the disk fails. Damage is not
/// an error but a finding of the report.
pub fn audit(options: &AuditOptions) -> Result<AuditReport, Failure> {
    let directory = open(&options.directory)?;
    let is_live = directory.in_use_by();
    if let Some(pid) = is_live.filter(|_| !options.allow_live) {
        return Err(in_use(&options.directory, pid));
    }
    let not_requested = (!options.with_archive).then_some("not requested");
    let left_out = is_live.map(|_| "a hub is using it").or(not_requested);
    let disk = directory.disk();
    let mut findings = Findings::default();
    let segments = segments(&*disk, &mut findings)?;
    let first_seq = segments.first().map_or(0, |info| info.first_seq);
    let journal = if is_live.is_some() { JournalState::InUse } else { verify(&disk, &mut findings)? };
    let mut snapshots = Snapshots::read(&disk, &mut findings)?;
    let (ledger, started_from) = starting_state(first_seq, &mut snapshots).unwrap_or_else(|| {
        findings.add(format!("the journal begins with record {first_seq}, but no valid snapshot reaches it"));
        (Ledger::new(LedgerConfig::default()), None)
    });
    let archive = ArchiveComparison::open_unless(left_out, &options.directory, &mut findings);
    let log = EmbeddedLog::for_reading(&disk);
    let early_records = match started_from {
        Some(seq) => read_early(&log, first_seq..=seq, is_live.is_some(), &mut findings)?,
        None => 0,
    };
    let mut replay = Replay::new(ledger, snapshots, archive);
    if started_from.is_some() {
        // Its earlier records no longer exist, but it must be consistent in itself.
        replay.check(&mut findings);
    }
    let mut records = follow(&log, replay.ledger.last_seq() + 1);
    if first_seq <= replay.ledger.last_seq() + 1 {
        run(&mut records, &mut replay, journal.last_seq(first_seq), &mut findings)?;
    }
    let torn = records.torn().cloned();
    let mut is_rehearsed = false;
    if let (0, Some(archive)) = (findings.total, replay.archive_of_start()) {
        // A contradiction would stop a start, and so stops this rehearsal.
        let _progress = Progress::unknown("rehearsing a start");
        rehearsal::rehearse_start(
            &options.directory,
            directory.disk(),
            archive,
            &replay.ledger,
            &mut findings,
        );
        is_rehearsed = true;
    }
    let archive = replay.finish(started_from.is_none(), &mut findings);
    let store = store::read_store_unless(left_out, &options.directory, &mut findings);
    Ok(AuditReport {
        directory: options.directory.clone(),
        first_seq,
        last_seq: replay.ledger.last_seq(),
        segments: segments.len(),
        journal,
        started_from,
        early_records,
        counts: replay.books.counts(),
        totals: replay.ledger.totals(),
        snapshots: replay.compared,
        archive,
        store,
        is_rehearsed,
        torn,
        rule_findings: findings.rules_kept.len(),
        findings_total: findings.total + findings.rules_total,
        rule_findings_total: findings.rules_total,
        findings: [findings.kept, findings.rules_kept].concat(),
        ledger: replay.ledger,
    })
}

/// The segments of the journal; none if damage keeps them from being listed.
fn segments(disk: &dyn Disk, findings: &mut Findings) -> Result<Vec<SegmentInfo>, Failure> {
    upesi_journal::segments(disk).or_else(|error| note_damage(error, findings).map(|()| Vec::new()))
}

fn in_use(directory: &Path, pid: u32) -> Failure {
    let user = if pid == 0 { "another process".to_owned() } else { format!("process {pid}") };
    let path = directory.display();
    Failure::new(
        Exit::Temporary,
        format!(
            "{path} is in use by {user}: stop that hub first, audit a copy, or use --allow-live to audit the records written so far"
        ),
    )
}

/// Verifies all files that are not being written before the replay, because the replay may begin late, or end early.
fn verify(disk: &Arc<dyn Disk>, findings: &mut Findings) -> Result<JournalState, Failure> {
    let _progress = Progress::unknown("reading the journal");
    match upesi_journal::verify(Arc::clone(disk)) {
        Ok(found) => {
            let records = if found.first_seq == 0 { 0 } else { found.last_seq + 1 - found.first_seq };
            Ok(JournalState::Verified(records))
        }
        Err(error) => note_damage(error, findings).map(|()| JournalState::Damaged),
    }
}

/// Reads the existing records before the replay's start. Returns their number.
fn read_early(
    log: &Arc<dyn Log>,
    range: std::ops::RangeInclusive<u64>,
    is_live: bool,
    findings: &mut Findings,
) -> Result<u64, Failure> {
    let mut records = follow_once(log, *range.start());
    let mut count = 0;
    while range.contains(&records.next_seq()) {
        match records.next() {
            Ok(Some(_)) => count += 1,
            Err(error @ FollowError::Record { .. }) => {
                count += 1;
                findings.add(error.to_string());
            }
            Ok(None) => break,
            // The hub that is using it has deleted these meanwhile.
            Err(error) if is_live && has_left(&error) => break,
            Err(error) => {
                note_unreadable(error, findings)?;
                break;
            }
        }
    }
    Ok(count)
}

fn has_left(error: &FollowError) -> bool {
    match error {
        FollowError::Gone { .. } => true,
        FollowError::Journal(error) => {
            error.is_not_found() || matches!(error, JournalError::NoSuchRecord { .. })
        }
        FollowError::Record { .. } => false,
    }
}

/// The state from which the replay starts: an empty ledger if the journal is complete, otherwise the oldest snapshot
/// that reaches the journal's first record.
fn starting_state(first_seq: u64, snapshots: &mut Snapshots) -> Option<(Ledger, Option<u64>)> {
    if first_seq <= 1 {
        return Some((Ledger::new(LedgerConfig::default()), None));
    }
    let mut start = snapshots.take_first_from(first_seq - 1)?;
    // The finished transfers in the snapshot's memory precede the journal.
    let _ = start.drain_finished(u64::MAX).count();
    let _ = start.take_finished_fx_transfers(u64::MAX).count();
    let _ = start.take_finished_bulks(u64::MAX).count();
    let seq = start.last_seq();
    Some((start, Some(seq)))
}

fn run(
    records: &mut Follow,
    replay: &mut Replay,
    last_seq: Option<u64>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let what = "replaying records";
    let progress = last_seq.map_or_else(|| Progress::unknown(what), |last| Progress::count(what, last));
    loop {
        if replay.ledger.last_seq().is_multiple_of(PROGRESS_EVERY_RECORDS) {
            progress.at(replay.ledger.last_seq());
        }
        let DecodedRecord { seq, time, record, .. } = match records.next() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(error) if replay.ledger.last_seq() == 0 && is_absent(&error) => return Ok(()),
            Err(error) => return note_unreadable(error, findings),
        };
        if let Err(contradiction) = replay.step(seq, time, record, findings) {
            findings.add(format!("record {seq}: {contradiction}; the records after it were not replayed"));
            return Ok(());
        }
        if found_is_due(replay.ledger.last_seq()) {
            replay.check(findings);
        }
    }
}

fn found_is_due(seq: u64) -> bool {
    seq.is_multiple_of(CHECK_EVERY_RECORDS)
}

const fn is_absent(error: &FollowError) -> bool {
    matches!(error, FollowError::Gone { .. } | FollowError::Journal(JournalError::NoSuchRecord { .. }))
}

/// A damaged, missing or unreadable record is a finding.
fn note_unreadable(error: FollowError, findings: &mut Findings) -> Result<(), Failure> {
    match error {
        FollowError::Journal(error) => note_damage(error, findings),
        FollowError::Gone { seq, oldest } => {
            note_damage(JournalError::NoSuchRecord { seq, oldest }, findings)
        }
        FollowError::Record { .. } => {
            findings.add(error.to_string());
            Ok(())
        }
    }
}
