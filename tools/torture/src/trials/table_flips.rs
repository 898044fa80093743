//! Rot in the sorted tables of the archive of finished transfers and of the store.

use std::fs;
use std::ops::{ControlFlow, Range};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use tempfile::TempDir;
use upesi_journal::sim_disk::Random;
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveOptions, FjallArchive};
use upesi_tables::store::{Store, StoreOptions};
use upesi_types::TransferId;

use super::Tally;
use super::bit_flips::Change;
use crate::real_files::{copy_directory, directory_in_memory, files_below};

/// One seed in this many runs this trial, because it uses real files, which take time.
const STRIDE: u64 = 8;
/// Flips, or changes of a sector, in the directory of one seed.
const FLIPS: u64 = 16;
/// Random numbers of a flip: a file, a byte, a bit.
const NUMBERS_OF_A_FLIP: u64 = 3;
const HARMLESS: &str = "harmless";
/// The exit code of a program that panics, and the signal of one that aborts.
const PANICKED: i32 = 101;
const ABORTED: i32 = 6;
const TRANSFERS: u64 = 400;
/// Transfers of one table, if there are several.
const TABLE_TRANSFERS: u64 = 100;
const KEYS: u64 = 300;
/// Number of tables before a merge, so large that no merge takes place: tables and lists of tables must exist until the
/// end.
const UNMERGED: u8 = 100;
/// The sorted tables of the store. The store's log is a journal, which has its own trials. Data that nothing else
/// refers to, such as the log's last updates, can be lost without a trace.
const STORE_TABLES: &str = "tables";

/// The tables of the archive or of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    Archive,
    /// The store beside the journal, with its log.
    Store,
}

/// The result of reading a whole directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Exactly the written data were read.
    Harmless,
    Detected,
    /// The data that were read differ from the written data, or the error has no content.
    Wrong(String),
}

impl Tables {
    pub const ALL: [Self; 2] = [Self::Archive, Self::Store];

    /// The name as an argument, and in the evidence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Store => "store",
        }
    }

    /// The place in the evidence.
    const fn place(self) -> &'static str {
        match self {
            Self::Archive => "in the archive",
            Self::Store => "in the store",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tables| tables.name() == name)
    }

    /// Creates the tables in a new directory, and closes them.
    pub fn fill(self, path: &Path) {
        match self {
            Self::Archive => fill_archive(path),
            Self::Store => fill_store(path),
        }
    }

    /// Creates the tables in a new directory, copies them to another one halfway, and closes them. Nothing is merged,
    /// so that the tables of the halfway copy can still be read.
    pub fn live(self, path: &Path, halfway: &Path) {
        match self {
            Self::Archive => live_archive(path, halfway),
            Self::Store => live_store(path, halfway),
        }
    }

    /// Whether this trial also changes sectors of a file.
    fn has_sectors(self, file: &Path) -> bool {
        match self {
            Self::Archive => true,
            Self::Store => file.starts_with(STORE_TABLES),
        }
    }

    /// Reads everything. May panic or abort, because the embedded store does so if its own files are inconsistent.
    pub fn judge(self, path: &Path) -> Judgement {
        let read = match self {
            Self::Archive => read_archive(path),
            Self::Store => read_store(path),
        };
        read.unwrap_or_else(|error| match error {
            TablesError::Damaged { .. } | TablesError::Format { .. } => Judgement::Detected,
            error => Judgement::Wrong(format!("an error without a reason: {error}")),
        })
    }
}

impl Judgement {
    const HARMLESS: u8 = 0;
    const DETECTED: u8 = 10;
    const WRONG: u8 = 11;

    /// The exit code of the process that judged.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Harmless => Self::HARMLESS,
            Self::Detected => Self::DETECTED,
            Self::Wrong(_) => Self::WRONG,
        }
    }
}

/// Flips bits of a closed archive and of a closed store. With every other seed, also changes their sectors. Only the
/// `torture` command can do this, because a separate process must judge the result.
pub fn run(seed: u64, random: &mut Random, tally: &mut Tally) {
    let program =
        std::env::current_exe().ok().filter(|path| path.file_name().is_some_and(|name| name == "torture"));
    let Some(program) = program.filter(|_| seed.is_multiple_of(STRIDE)) else { return };
    for tables in Tables::ALL {
        let damaging = Damaging { seed, tables, program: &program, directory: directory_in_memory() };
        if (seed / STRIDE).is_multiple_of(2) {
            flip(&damaging, random, tally);
        } else {
            change(&damaging, tally);
            // Evidence refers to seeds, so the following draws of a seed must stay the same.
            for _ in 0..FLIPS * NUMBERS_OF_A_FLIP {
                random.bits();
            }
        }
    }
}

/// Undamaged tables, and a place for a damaged copy of them.
struct Damaging<'a> {
    seed: u64,
    tables: Tables,
    /// The program of the judging process.
    program: &'a Path,
    directory: TempDir,
}

impl Damaging<'_> {
    fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Lets a process judge a copy in which at most one file is changed. Panics if the result is wrong.
    fn judge(&self, damage: Option<(&Path, &[u8])>, what: &str) -> &'static str {
        let (Self { seed, tables, program, .. }, rotten) = (self, self.place("rotten"));
        copy_directory(&self.place("whole"), &rotten).expect("a copy");
        if let Some((file, bytes)) = damage {
            fs::write(rotten.join(file), bytes).expect("a file");
        }
        let kind = judged(program, *tables, &rotten)
            .unwrap_or_else(|wrong| panic!("seed {seed}, {tables:?}, {what}: {wrong}"));
        fs::remove_dir_all(&rotten).expect("a directory that was made");
        kind
    }

    /// Checks that undamaged tables are readable. Otherwise the rejection of damaged tables would prove nothing.
    fn expect_whole(&self) {
        let kind = self.judge(None, "nothing changed");
        assert_eq!(kind, HARMLESS, "seed {}, {:?}, nothing changed", self.seed, self.tables);
    }
}

fn flip(damaging: &Damaging<'_>, random: &mut Random, tally: &mut Tally) {
    let whole = damaging.place("whole");
    damaging.tables.fill(&whole);
    damaging.expect_whole();
    let files = files_below(&whole).expect("files");
    for _ in 0..FLIPS {
        let file = &files[random.below(files.len() as u64) as usize];
        let mut bytes = fs::read(whole.join(file)).expect("a file");
        let (at, bit) = (random.below(bytes.len() as u64) as usize, random.below(8));
        bytes[at] ^= 1 << bit;
        let what = format!("bit {bit} of byte {at} of {}", file.display());
        let kind = damaging.judge(Some((file, &bytes)), &what);
        tally.unit("one bit");
        tally.add_all([(damaging.tables.place(), 1), (kind, 1)]);
    }
}

/// Applies the kinds of [`Change`] that are larger than a bit.
fn change(damaging: &Damaging<'_>, tally: &mut Tally) {
    let (mut random, tables) = (Random::new(damaging.seed ^ 0x7365_6374), damaging.tables);
    let [whole, halfway] = ["whole", "halfway"].map(|name| damaging.place(name));
    tables.live(&whole, &halfway);
    damaging.expect_whole();
    let (files, early) = (contents(tables, &whole), contents(tables, &halfway));
    let early_of = |file: &Path| early.iter().find(|(name, _)| name == file).map(|(_, bytes)| &bytes[..]);
    // Most files are written only once. The files with an old copy have changed since.
    let overwritten: Vec<usize> = (0..files.len())
        .filter(|place| early_of(&files[*place].0).is_some_and(|early| early != files[*place].1))
        .collect();
    for _ in 0..FLIPS {
        let change = Change::LARGER[random.below(Change::LARGER.len() as u64) as usize];
        let place = match change {
            Change::Stale => overwritten[random.below(overwritten.len() as u64) as usize],
            _ => random.below(files.len() as u64) as usize,
        };
        let (file, bytes) = &files[place];
        let Some(changed) = change.apply(bytes, early_of(file), &files, &mut random) else { continue };
        let what = format!("{} in {}", change.name(), file.display());
        let kind = damaging.judge(Some((file, &changed)), &what);
        tally.unit(change.name());
        tally.add_all([(tables.place(), 1), ("sectors of tables", 1), (kind, 1)]);
    }
}

/// The files whose sectors are changed, with their contents.
fn contents(tables: Tables, directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files_below(directory).expect("files").into_iter().filter(|file| tables.has_sectors(file));
    files.map(|file| (file.clone(), fs::read(directory.join(file)).expect("a file"))).collect()
}

/// Lets a separate process judge tables. Returns the outcome as an error if it is not allowed.
fn judged(program: &Path, tables: Tables, directory: &Path) -> Result<&'static str, String> {
    let output = Command::new(program).args(["judge-tables", tables.name()]).arg(directory).output();
    let output = output.expect("this program can be run");
    let said = || {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        format!("{}{}", out.trim(), err.trim())
    };
    kind(&output.status).ok_or_else(|| format!("{}: {}", output.status, said()))
}

/// The meaning of the judging process's exit status; `None` if it is wrong. If its own files are inconsistent, the
/// embedded store panics, with exit code 101. It aborts with SIGABRT if it is built to do so, or if it panics while
/// unwinding. A start of the hub treats neither as valid data and exits with 65 (`crates/process/src/panics.rs`). Any
/// other status is not a judgement: a wrong command line, a lack of memory, an invalid access.
fn kind(status: &ExitStatus) -> Option<&'static str> {
    match (status.code(), status.signal()) {
        (Some(code), _) if code == i32::from(Judgement::HARMLESS) => Some(HARMLESS),
        (Some(code), _) if code == i32::from(Judgement::DETECTED) => Some("detected"),
        (Some(PANICKED), _) | (None, Some(ABORTED)) => Some("ended the process"),
        _ => None,
    }
}

fn transfer(index: u64) -> ArchiveEntry {
    let mixed = (u128::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let id = TransferId::from_random_bytes((mixed ^ (mixed >> 64)).to_be_bytes());
    (id, format!("outcome of transfer {index} {}", "x".repeat(index as usize % 150)).into_bytes())
}

fn archive_options() -> ArchiveOptions {
    ArchiveOptions {
        pending_transfers: 100,
        table_bytes: 64 << 10,
        unmerged_tables: 4,
        cache_bytes: 1 << 20,
        ..ArchiveOptions::default()
    }
}

fn fill_archive(path: &Path) {
    let archive = FjallArchive::open(path, &archive_options()).expect("opens");
    let entries: Vec<_> = (0..TRANSFERS).map(transfer).collect();
    archive.apply(&entries, TRANSFERS).expect("applies");
    archive.sync().expect("syncs");
}

/// Creates a table for each portion, one after the other.
fn live_archive(path: &Path, halfway: &Path) {
    let options = ArchiveOptions { unmerged_tables: UNMERGED, ..archive_options() };
    let archive = FjallArchive::open(path, &options).expect("opens");
    for from in (0..TRANSFERS).step_by(TABLE_TRANSFERS as usize) {
        let end = from + TABLE_TRANSFERS;
        let entries: Vec<_> = (from..end).map(transfer).collect();
        archive.apply(&entries, end).expect("applies");
        archive.sync().expect("syncs");
        if end == TRANSFERS / 2 {
            copy_directory(path, halfway).expect("a copy");
        }
    }
}

/// Checks that everything up to the watermark is present and right. A lower watermark makes the hub read the journal
/// again from there.
fn read_archive(path: &Path) -> Result<Judgement, TablesError> {
    let archive = FjallArchive::open(path, &archive_options())?;
    let watermark = archive.watermark();
    if watermark > TRANSFERS {
        return Ok(Judgement::Wrong(format!("a watermark of {watermark}")));
    }
    let mut seen = 0;
    archive.for_each(&mut |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    })?;
    if seen < watermark {
        return Ok(Judgement::Wrong(format!("a scan sees {seen} of {watermark}")));
    }
    for (id, value) in (0..watermark).map(transfer) {
        if !archive.may_contain(&id) || archive.get(&id)?.as_ref() != Some(&value) {
            return Ok(Judgement::Wrong(format!("{id} differs from the written data")));
        }
    }
    Ok(if watermark < TRANSFERS { Judgement::Detected } else { Judgement::Harmless })
}

pub(super) fn store_options() -> StoreOptions {
    StoreOptions {
        pending_bytes: 16 << 10,
        segment_bytes: 16 << 10,
        table_bytes: 32 << 10,
        unmerged_tables: 4,
        cache_bytes: 1 << 20,
        free_bytes_min: 0,
        ..StoreOptions::default()
    }
}

fn key(index: u64) -> [u8; 8] {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(index: u64) -> Vec<u8> {
    format!("owner of {index} {}", "y".repeat(index as usize % 200)).into_bytes()
}

fn fill_store(path: &Path) {
    let store = Store::open(path, &store_options()).expect("opens");
    put(&store, 0..KEYS);
    store.close();
}

fn put(store: &Store, indexes: Range<u64>) {
    let table = store.table("counted").expect("a table");
    for index in indexes {
        let table = table.clone();
        let put =
            store.update_blocking(move |transaction| transaction.put(&table, &key(index), &value(index)));
        put.expect("an update");
    }
}

fn live_store(path: &Path, halfway: &Path) {
    let options = StoreOptions {
        pending_bytes: 4 << 10,
        segment_bytes: 4 << 10,
        unmerged_tables: UNMERGED,
        ..store_options()
    };
    let store = Store::open(path, &options).expect("opens");
    put(&store, 0..KEYS / 2);
    // An empty update, after the tables of the last update.
    store.update_blocking(|_| Ok(())).expect("an update of nothing");
    copy_directory(&path.join(STORE_TABLES), &halfway.join(STORE_TABLES)).expect("a copy");
    put(&store, KEYS / 2..KEYS);
    store.close();
}

fn read_store(path: &Path) -> Result<Judgement, TablesError> {
    let store = Store::open(path, &store_options())?;
    let table = store.table("counted")?;
    for index in 0..KEYS {
        if table.get(&key(index))?.as_deref() != Some(&value(index)[..]) {
            return Ok(Judgement::Wrong(format!("key {index} differs from the written data")));
        }
    }
    match table.scan(&[], None, usize::MAX)?.len() as u64 {
        KEYS => Ok(Judgement::Harmless),
        entries => Ok(Judgement::Wrong(format!("a scan sees {entries} of {KEYS}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statuses as `wait` returns them: an exit code in the second byte, or a signal in the first.
    #[test]
    fn only_known_exit_statuses_are_judgements() {
        for (raw, expected) in [
            (0, Some(HARMLESS)),
            (10 << 8, Some("detected")),
            (101 << 8, Some("ended the process")),
            (6, Some("ended the process")),
            // The process ended with a core dump, which the kernel marks in the status.
            (6 | 0x80, Some("ended the process")),
            // Wrong; failed; a wrong command line; killed, perhaps for lack of memory; an invalid access.
            (11 << 8, None),
            (1 << 8, None),
            (2 << 8, None),
            (9, None),
            (11, None),
        ] {
            assert_eq!(kind(&ExitStatus::from_raw(raw)), expected, "{raw}");
        }
    }
}
