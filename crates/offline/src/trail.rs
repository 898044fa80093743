//! `upesi trail`: prints the entries of the audit trail, and always verifies the whole chain.

mod export;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_admin::{AuditEntryView, AuditPublicKey, Checkpoint};
use upesi_engine::{DecodedRecord, follow_from_oldest};
use upesi_journal::{Disk, EmbeddedLog, SnapshotStore};
use upesi_ledger::{AuditEntry, Event, Ledger, LedgerConfig, Trail, effects_of};
use upesi_process::exit::{Exit, Failure};
use upesi_process::times::Zone;
use upesi_types::text::escape;

pub use self::export::{ExportOptions, verify_export};
use crate::directory::{follow_failure, journal_failure, open};

pub use upesi_admin::{AttemptOutcome, EntryFilter};

/// Maximum number of breaks that are described; further ones are counted.
const BREAKS_TOLD_MAX: usize = 20;
/// Maximum number of checkpoints: more than one an hour for a hundred years.
const CHECKPOINTS_MAX: usize = 1_000_000;

/// Maximum length of a line in a log with checkpoints.
const LOG_LINE_BYTES_MAX: u64 = 1 << 20;

/// Options of the output and the verification.
#[derive(Clone, Debug)]
pub struct TrailOptions {
    pub directory: PathBuf,
    /// Conditions for the printed entries.
    pub filter: EntryFilter,
    /// Maximum number of entries.
    pub limit: Option<u64>,
    /// Print no entries.
    pub verify_only: bool,
    /// One JSON object per line instead of text.
    pub json: bool,
    /// Time zone of the entries' times in text. JSON is in UTC.
    pub zone: Zone,
    /// A file with checkpoints, and the public key that verifies them.
    pub checkpoints: Option<(PathBuf, PathBuf)>,
}

/// Prints the entries of the audit trail, and verifies its chain, its end against the snapshots, and the checkpoints.
/// Writes the result as text to `tell`.
///
/// # Errors
/// 65 if the chain is broken or the journal is damaged, others as in [`open`].
pub fn trail(options: &TrailOptions, output: &mut dyn Write, tell: &mut dyn Write) -> Result<(), Failure> {
    let directory = open(&options.directory)?;
    if directory.in_use_by().is_some() {
        let _ = writeln!(tell, "a hub is using this directory: the newest entries may be missing here");
    }
    let disk = directory.disk();
    let mut verifier = Verifier::new(known_before(&disk)?);
    let checkpoints = match &options.checkpoints {
        None => 0,
        Some((file, key)) => read_checkpoints(file, key, &mut verifier)?,
    };
    let log = EmbeddedLog::for_reading(&disk);
    let mut records = follow_from_oldest(&log).map_err(follow_failure)?;
    let mut printed = 0;
    let mut left = if options.verify_only { 0 } else { options.limit.unwrap_or(u64::MAX) };
    while let Some(found) = records.next().map_err(follow_failure)? {
        let Some(entry) = verifier.take(&found) else { continue };
        if left == 0 || !options.filter.is_met_by(entry) {
            continue;
        }
        let printed_as = match options.json {
            true => escape(&json(found.seq, entry, &found.record.events)?).into_owned(),
            false => line(entry, &options.zone),
        };
        match writeln!(output, "{printed_as}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => left = 0,
            Err(error) => return Err(Failure::new(Exit::InputOutput, format!("cannot write: {error}"))),
            Ok(()) => (left, printed) = (left - 1, printed + 1),
        }
    }
    let _ = output.flush();
    verifier.finish();
    let _ = writeln!(tell, "{}", verifier.summary(Some(printed), checkpoints));
    verifier.outcome()
}

/// An entry with the events of its record.
fn json(seq: u64, entry: &AuditEntry, events: &[Event]) -> Result<String, Failure> {
    let text = serde_json::to_string(&AuditEntryView::of(seq, entry, events));
    text.map_err(|error| Failure::new(Exit::Software, error))
}

/// An entry as one line. Paths of rejected requests come from unauthenticated clients, so control characters are
/// escaped.
pub(super) fn line(entry: &AuditEntry, zone: &Zone) -> String {
    let at = zone.show_ms(entry.at);
    let AuditEntry { number, by, object, before, after, refused, .. } = entry;
    let mut known_by = by.known_by.to_string();
    if let Some(address) = &by.address {
        known_by += &format!(", {address}");
    }
    let behalf = by.on_behalf_of.as_ref().map_or(String::new(), |other| format!(" for {other}"));
    let what = match refused {
        None => format!("{object}: {before} → {after}"),
        Some(why) => format!("REFUSED {object}: {why}"),
    };
    let reason = by.reason.as_ref().map_or(String::new(), |reason| format!("; reason: {reason}"));
    let line =
        format!("{number:>8}  {at}  {} ({known_by}){behalf}  {}  {what}{reason}", by.operator, by.action);
    escape(&line).into_owned()
}

/// A chain value after an entry that is known from elsewhere.
pub(super) struct Anchor {
    chain: [u8; 32],
    /// Its name in messages about a contradiction.
    name: String,
}

/// Follows the chain, and compares it with known values.
pub(super) struct Verifier {
    anchors: BTreeMap<u64, Vec<Anchor>>,
    /// The first entry that was read, and the end.
    first: Option<u64>,
    trail: Trail,
    /// Whether the chain before the next entry is known.
    is_linked: bool,
    /// The first record that was read.
    from: Option<u64>,
    compared: u64,
    breaks: Vec<String>,
    breaks_total: u64,
    entry: Option<AuditEntry>,
}

impl Verifier {
    pub(super) fn new(anchors: BTreeMap<u64, Vec<Anchor>>) -> Self {
        Self {
            anchors,
            first: None,
            trail: Trail::default(),
            is_linked: false,
            from: None,
            compared: 0,
            breaks: Vec::new(),
            breaks_total: 0,
            entry: None,
        }
    }

    pub(super) fn breaks_at(&mut self, text: String) {
        self.breaks_total += 1;
        if self.breaks.len() < BREAKS_TOLD_MAX {
            self.breaks.push(text);
        }
    }

    /// Verifies the entry of a record, if it has one, and returns it.
    fn take(&mut self, found: &DecodedRecord<'_>) -> Option<&AuditEntry> {
        if self.from.is_none() {
            self.from = Some(found.seq);
            if found.seq == 1 {
                self.is_linked = true;
                self.compare(Trail::default());
            }
        }
        self.entry = None;
        for event in &found.record.events {
            if let Event::OperatorActed(entry) = event {
                let place = format!("record {}", found.seq);
                self.link(&place, entry, &effects_of(&found.record.events));
                self.entry = Some(AuditEntry::clone(entry));
            }
        }
        self.entry.as_ref()
    }

    /// Verifies an entry of an export that begins with entry `first`.
    pub(super) fn link_exported(&mut self, place: &str, entry: &AuditEntry, effects: &[u8; 32], first: u64) {
        if self.from.is_none() {
            self.from = Some(first);
            self.trail.count = first - 1;
            if first == 1 {
                self.is_linked = true;
                self.compare(Trail::default());
            }
        }
        self.link(place, entry, effects);
    }

    fn link(&mut self, place: &str, entry: &AuditEntry, effects: &[u8; 32]) {
        let number = entry.number;
        if self.first.is_none() && !self.is_linked {
            // Earlier records were removed; a later snapshot may know the chain.
            if self.trail.count == 0 {
                self.trail.count = number.saturating_sub(1);
            }
            if let Some(anchor) = self.anchors.get(&self.trail.count).and_then(|known| known.first()) {
                self.trail.head = anchor.chain;
                self.is_linked = true;
            }
        }
        let expected = self.trail.count + 1;
        if number != expected {
            self.breaks_at(format!(
                "{place}: found entry {number} instead of entry {expected}: entries were removed, added or \
                 moved"
            ));
        } else if self.is_linked && entry.chain != entry.chain_beside(&self.trail.head, effects) {
            self.breaks_at(format!(
                "{place}: entry {number} does not follow from the entry before it and from its own record: the \
                 entry, its effect or the entry before was changed"
            ));
        }
        self.first.get_or_insert(number);
        self.is_linked = true;
        self.trail = Trail { count: number, head: entry.chain };
        self.compare(self.trail);
    }

    /// Compares an entry's chain with known values.
    fn compare(&mut self, trail: Trail) {
        for anchor in self.anchors.remove(&trail.count).unwrap_or_default() {
            self.compared += 1;
            if anchor.chain != trail.head {
                let (count, name) = (trail.count, anchor.name);
                self.breaks_at(format!(
                    "entry {count} differs from the entry of {name}: the trail up to this entry was rewritten"
                ));
            }
        }
    }

    /// Reports known values of entries that were not found.
    pub(super) fn finish(&mut self) {
        let last = self.trail.count;
        let beyond = self.anchors.split_off(&(last + 1));
        if self.from.is_none_or(|from| from == 1) || self.first.is_some() {
            for (number, anchor) in
                beyond.into_iter().flat_map(|(number, all)| all.into_iter().map(move |one| (number, one)))
            {
                let name = anchor.name;
                self.breaks_at(format!(
                    "the trail ends with entry {last}, but {name} contains entry {number}: the end of the trail was cut off"
                ));
            }
        }
    }

    pub(super) fn summary(&self, printed: Option<u64>, checkpoints: u64) -> String {
        let chain = if self.breaks_total == 0 { "the chain is intact" } else { "the chain is BROKEN" };
        let mut text = match self.first {
            None => "the audit trail has no entries here".to_owned(),
            Some(first) => format!("entries {first} to {} of the audit trail: {chain}", self.trail.count),
        };
        if let Some(printed) = printed {
            text += &format!("; {printed} printed");
        }
        if checkpoints > 0 {
            text += &format!("; {checkpoints} checkpoints have a valid signature");
        }
        let older: usize = self.anchors.values().map(Vec::len).sum();
        text += &format!("; {} snapshots and checkpoints compared", self.compared);
        if older > 0 {
            text += &format!(", {older} belong to entries that have been removed");
        }
        text
    }

    pub(super) fn outcome(self) -> Result<(), Failure> {
        if self.breaks_total == 0 {
            return Ok(());
        }
        let more = self.breaks_total - self.breaks.len() as u64;
        let mut text = format!("the audit trail is broken:\n  {}", self.breaks.join("\n  "));
        if more > 0 {
            text += &format!("\n  and {more} more");
        }
        Err(Failure::new(Exit::Data, text))
    }
}

/// The chain values in the snapshots.
fn known_before(disk: &Arc<dyn Disk>) -> Result<BTreeMap<u64, Vec<Anchor>>, Failure> {
    let store = SnapshotStore::open_for_reading(Arc::clone(disk));
    let mut anchors = BTreeMap::<u64, Vec<Anchor>>::new();
    for info in store.list().map_err(journal_failure)? {
        // `upesi audit` reports damaged ones.
        let Ok(snapshot) = store.read(info.seq) else { continue };
        let Ok(ledger) = Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default()) else { continue };
        let trail = ledger.trail();
        let name = format!("the snapshot of record {}", info.seq);
        anchors.entry(trail.count).or_default().push(Anchor { chain: trail.head, name });
    }
    Ok(anchors)
}

/// Reads the checkpoints of a file, which may contain them in lines of a log. Each must have a valid signature.
pub(super) fn read_checkpoints(file: &Path, key: &Path, verifier: &mut Verifier) -> Result<u64, Failure> {
    let public = AuditPublicKey::load(key).map_err(|error| Failure::new(Exit::NoInput, error))?;
    let refuse = |error: io::Error| Failure::new(Exit::NoInput, format!("{}: {error}", file.display()));
    let mut count = 0;
    let mut lines = BufReader::new(File::open(file).map_err(refuse)?);
    for number in 1_u64.. {
        let mut line = String::new();
        if lines.by_ref().take(LOG_LINE_BYTES_MAX).read_line(&mut line).map_err(refuse)? == 0 {
            break;
        }
        let place = format!("line {number} of {}", file.display());
        if line.len() as u64 == LOG_LINE_BYTES_MAX && !line.ends_with('\n') {
            let text = format!("{place} is longer than {LOG_LINE_BYTES_MAX} bytes");
            return Err(Failure::new(Exit::Data, text));
        }
        let Some(found) = Checkpoint::find(&line) else { continue };
        match found.and_then(|found| found.verify(&public).map(|()| found)) {
            Err(error) => verifier.breaks_at(format!("the checkpoint in {place} {error}")),
            Ok(Checkpoint { number, at, chain, .. }) => {
                let name = format!("the checkpoint of {at} in {place}");
                verifier.anchors.entry(number).or_default().push(Anchor { chain, name });
                count += 1;
            }
        }
        if count > CHECKPOINTS_MAX as u64 {
            let text = format!("{}: more than {CHECKPOINTS_MAX} checkpoints", file.display());
            return Err(Failure::new(Exit::Data, text));
        }
    }
    if count == 0 && verifier.breaks_total == 0 {
        let text = format!("{}: contains no checkpoint", file.display());
        return Err(Failure::new(Exit::Data, text));
    }
    Ok(count)
}
