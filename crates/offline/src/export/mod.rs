//! Export of finished transfers, FX transfers, items of bulk transfers, obligations or accounts in settlements as a
//! table for other tools, in CSV, JSON Lines or Parquet.

#[cfg_attr(not(feature = "parquet"), path = "no_columns.rs")]
mod columns;
mod division;
mod kind;
mod line;
mod row;
mod settlements;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use columns::ParquetTable;
use kind::Archived;
use upesi_engine::LedgerFold;
use upesi_journal::{Access, Disk, EmbeddedLog, SnapshotStore, durable};
use upesi_ledger::codec::{DecodeError, Decoder};
use upesi_ledger::{
    Bulk, FxTransfer, Ledger, LedgerAccountTypeId, LedgerConfig, Stored as _, Sum, Transfer, WindowId,
    WindowState,
};
use upesi_process::exit::{Exit, Failure};
use upesi_process::progress::Progress;
use upesi_process::times::{ParsedTime, ZoneArguments, when};
use upesi_process::values::dfsp_name;
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive as _, ArchiveOptions, FjallArchive};
use upesi_types::{Currency, FspId, Timestamp};

pub use self::division::export_division;
use self::row::ExportSelection;
use self::value::{Row, Value};
use crate::apart::check_apart;
use crate::backup::Staging;
use crate::directory::{journal_failure, start_exit};
use crate::names::Names;

pub use kind::Kind;
pub use row::Finished;

const PROGRESS_EVERY_ENTRIES: u64 = 1_024;

/// Format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A header line, then a line per row (RFC 4180).
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// Typed, compressed columns, for DuckDB, pandas, Spark and others.
    Parquet,
}

impl Format {
    /// The extension of its files.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }

    /// The format of files with this extension.
    pub fn of_ending(ending: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|format| format.ending() == ending)
    }
}

/// Arguments of `upesi export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArguments {
    /// The data directory; a hub may be using it.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Kind of rows to export.
    #[arg(long, value_enum, default_value = "transfers")]
    pub kind: Kind,
    /// Only rows that finished before this time, such as 2031-04-01, 2031-04-01T09:00 or yesterday.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub before: Option<ParsedTime>,
    /// Only rows that finished at this time or later.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub from: Option<ParsedTime>,
    /// Time zone of the given times.
    #[command(flatten)]
    pub zone: ZoneArguments,
    /// Only rows of this settlement window. Not for items of bulk transfers, which are exported as transfers.
    #[arg(long, value_name = "WINDOW")]
    pub window: Option<u32>,
    /// Only rows of this DFSP. With --window: the rows on its own accounts, for itself or as a proxy, which add up to
    /// its net. Without --window: also the rows with it as payer or payee.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    /// Output format.
    #[arg(long, value_enum, default_value = "csv")]
    pub format: Format,
    /// Output file, which must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Exports the finished rows of a data directory as of now; returns the number of rows.
///
/// # Errors
/// See [`crate::backup::backup`]; 64 if the file would be in the data directory, or if rows of this kind have no window
/// or DFSP; 1 if the DFSP or the window is unknown, and, with the file written, if retention has removed wanted rows;
/// 73 if the file exists or cannot be written.
pub fn export(arguments: &ExportArguments) -> Result<u64, Failure> {
    check_apart(&arguments.data, &arguments.out)?;
    let period = arguments.period();
    arguments.check()?;
    let staging = Staging::take(&arguments.data)?;
    let damaged = |error: TablesError| Failure::new(Exit::Data, error);
    let archive =
        FjallArchive::open(staging.path.join("archive"), &ArchiveOptions::default()).map_err(damaged)?;
    let mut tail = tail(&staging.path, archive.watermark())?;
    let names = Names::of(&tail);
    let party = match arguments.dfsp {
        None => None,
        Some(name) => Some(names.id_of(name).ok_or_else(|| unknown(name))?),
    };
    if let Some(window) = arguments.window.filter(|window| tail.window(WindowId(*window)).is_none()) {
        return Err(Failure::new(Exit::Failure, format!("settlement window {window} does not exist")));
    }
    let cannot =
        |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", arguments.out.display()));
    let mut table = Table::create(&arguments.out, arguments.kind, arguments.format).map_err(cannot)?;
    let kinds = arguments.kind.archived();
    if kinds.is_empty() {
        return settlements::export(&tail, arguments.window, period, party, table).map_err(cannot);
    }
    let wanted = ExportSelection { window: arguments.window, party };
    let mut found = ExportedRange::default();
    let mut take = |stored: &FinishedEntry| {
        let finished = stored.as_finished();
        found.note(finished, arguments.window, &names);
        let is_asked =
            kinds.contains(&stored.kind()) && finished.completed_at().is_some_and(|at| period.contains(at));
        match arguments.kind {
            _ if !is_asked => Ok(()),
            Kind::Obligations => finished.obligation_rows(wanted, &names, |row| table.add_row(row)),
            _ if finished.is_of(wanted, &names) => table.add(finished, &names),
            _ => Ok(()),
        }
    };
    let mut outcome = Ok(());
    let mut note_entry = progress_through(&archive);
    let visited = archive.for_each(&mut |key, bytes| {
        note_entry();
        let kind = Archived::of_key(key);
        // For a window, transfers and FX transfers are summed up for each kind of export.
        if !kinds.contains(&kind) && (arguments.window.is_none() || kind == Archived::BulkItems) {
            return ControlFlow::Continue(());
        }
        outcome = FinishedEntry::decode(kind, bytes)
            .map_err(|error| Failure::new(Exit::Data, error))
            .and_then(|stored| take(&stored).map_err(|error| Failure::new(Exit::InputOutput, error)));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    visited.map_err(damaged)?;
    outcome?;
    for kind in Archived::ALL {
        for stored in FinishedEntry::of_tail(&mut tail, kind) {
            take(&stored).map_err(cannot)?;
        }
    }
    let count = table.finish().map_err(cannot)?;
    match found.lacking(&tail, arguments.window, period) {
        None => Ok(count),
        Some(lacking) => {
            let (noun, out) = (arguments.kind.noun(), arguments.out.display());
            Err(Failure::new(
                Exit::Failure,
                format!("{count} {noun} exported to {out}, but some are missing: {lacking}"),
            ))
        }
    }
}

/// Shows the progress through an archive; call it for each entry.
fn progress_through(archive: &FjallArchive) -> impl FnMut() + use<> {
    let progress = Progress::count("exporting", archive.stats().transfers_estimate);
    let mut read = 0;
    move || {
        read += 1;
        if read % PROGRESS_EVERY_ENTRIES == 0 {
            progress.at(read);
        }
    }
}

/// The range of the archive and the journal, to detect removed rows.
#[derive(Default)]
struct ExportedRange {
    /// The obligations of the requested window, by currency and type of their accounts.
    sums: BTreeMap<(Currency, LedgerAccountTypeId), Sum>,
    /// Time of the end of the oldest entry.
    oldest: Option<Timestamp>,
}

impl ExportedRange {
    fn note(&mut self, finished: Finished<'_>, window: Option<u32>, names: &Names) {
        self.oldest = [self.oldest, finished.completed_at()].into_iter().flatten().min();
        let Some(window) = window else { return };
        for obligation in finished.obligations().iter().filter(|one| one.window.0 == window) {
            let Some(content) = names.content_of(obligation.debtor) else { continue };
            let sum = self.sums.entry(content).or_default();
            sum.units += i128::from(obligation.amount.units());
            sum.transfers += 1;
        }
    }

    /// Description of the requested rows that are missing; `None` if there are none.
    fn lacking(&self, ledger: &Ledger, window: Option<u32>, period: Period) -> Option<String> {
        let Some(window) = window else { return self.removed(ledger, period) };
        let expected = expected_in(ledger, WindowId(window));
        let differs = expected.iter().filter_map(|(content, expected)| {
            let found = self.sums.get(content).copied().unwrap_or_default();
            let (currency, kind) = (content.0, ledger.account_type_name(content.1));
            (found != *expected).then(|| {
                format!(
                    "window {window} has {} of {} obligations in {currency} {kind}, {found} of {expected}",
                    found.transfers, expected.transfers
                )
            })
        });
        let differs: Vec<_> = differs.collect();
        let why = "the others were removed by retention, or are FX transfers and fees that an earlier version stored \
                   without their window";
        (!differs.is_empty()).then(|| format!("{}; {why}", differs.join("; ")))
    }

    /// Description of rows that retention removed, for exports without a window.
    fn removed(&self, ledger: &Ledger, period: Period) -> Option<String> {
        let removed_to = ledger.removed_to();
        let is_left_out = self.oldest.is_some_and(|oldest| period.from.is_some_and(|from| from >= oldest));
        if removed_to == 0 || is_left_out {
            return None;
        }
        let since =
            self.oldest.map_or_else(String::new, |oldest| format!("; exclude them with --from {oldest}"));
        Some(format!(
            "rows up to record {removed_to} were removed by retention (archive.keep_days), see its exports in \
             archive.export_dir{since}"
        ))
    }
}

/// The sums of a window, by currency and type of the accounts.
fn expected_in(ledger: &Ledger, id: WindowId) -> BTreeMap<(Currency, LedgerAccountTypeId), Sum> {
    let Some(window) = ledger.window(id) else { return BTreeMap::new() };
    if window.state != WindowState::Open {
        return window.contents.iter().map(|one| ((one.currency, one.kind), one.sum)).collect();
    }
    let mut sums = BTreeMap::<_, Sum>::new();
    for pair in ledger.window_pairs(window).as_deref().unwrap_or_default() {
        let Some(account) = ledger.account(pair.payer) else { continue };
        let sum = sums.entry((account.currency, account.kind)).or_default();
        sum.units += pair.sum.units;
        sum.transfers += pair.sum.transfers;
    }
    sums
}

fn unknown(name: FspId) -> Failure {
    Failure::new(Exit::Failure, format!("participant {name} does not exist"))
}

impl ExportArguments {
    fn check(&self) -> Result<(), Failure> {
        let is_narrowed = self.window.is_some() || self.dfsp.is_some();
        if is_narrowed && self.kind == Kind::BulkItems {
            return Err(Failure::new(
                Exit::Usage,
                "--window and --dfsp cannot be used for items of bulk transfers",
            ));
        }
        Ok(())
    }

    fn period(&self) -> Period {
        let instant = |when: Option<ParsedTime>| when.map(|when| self.zone.instant(when));
        Period { from: instant(self.from), before: instant(self.before) }
    }
}

/// Period of the end or change of the requested rows.
#[derive(Clone, Copy)]
struct Period {
    from: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl Period {
    fn contains(&self, at: Timestamp) -> bool {
        self.before.is_none_or(|before| at < before) && self.from.is_none_or(|from| at >= from)
    }
}

/// The state at the end of the journal: the participants, and entries that finished after the archive's watermark.
fn tail(data: &Path, watermark: u64) -> Result<Ledger, Failure> {
    let disk: Arc<dyn Disk> = Arc::new(upesi_journal::RealDisk::new(data, Access::Read));
    let latest = SnapshotStore::open_for_reading(Arc::clone(&disk)).latest().map_err(journal_failure)?;
    let snapshot = match latest.snapshot {
        None => Ledger::new(LedgerConfig::default()),
        Some(snapshot) => Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default())
            .map_err(|error| Failure::new(Exit::Data, error))?,
    };
    LedgerFold::once(&EmbeddedLog::for_reading(&disk), snapshot, watermark)
        .finish()
        .map_err(|error| Failure::new(start_exit(&error), error))
}

/// A finished entry from the archive or from the end of the journal.
enum FinishedEntry {
    Transfer(Box<Transfer>),
    FxTransfer(Box<FxTransfer>),
    Bulk(Box<Bulk>),
}

impl FinishedEntry {
    fn decode(kind: Archived, bytes: &[u8]) -> Result<Self, DecodeError> {
        let decoder = &mut Decoder(bytes);
        Ok(match kind {
            Archived::Transfers => Self::Transfer(Box::new(Transfer::decode(decoder)?)),
            Archived::FxTransfers => Self::FxTransfer(Box::new(FxTransfer::decode(decoder)?)),
            Archived::BulkItems => Self::Bulk(Box::new(Bulk::decode(decoder)?)),
        })
    }

    fn of_tail(ledger: &mut Ledger, kind: Archived) -> Vec<Self> {
        match kind {
            Archived::Transfers => {
                ledger.drain_finished(u64::MAX).map(Box::new).map(Self::Transfer).collect()
            }
            Archived::FxTransfers => {
                let ended = ledger.take_finished_fx_transfers(u64::MAX);
                ended.map(|(_, fx_transfer)| Self::FxTransfer(fx_transfer)).collect()
            }
            Archived::BulkItems => {
                ledger.take_finished_bulks(u64::MAX).map(|(_, bulk)| Self::Bulk(bulk)).collect()
            }
        }
    }

    const fn kind(&self) -> Archived {
        match self {
            Self::Transfer(_) => Archived::Transfers,
            Self::FxTransfer(_) => Archived::FxTransfers,
            Self::Bulk(_) => Archived::BulkItems,
        }
    }

    fn as_finished(&self) -> Finished<'_> {
        match self {
            Self::Transfer(transfer) => Finished::Transfer(transfer),
            Self::FxTransfer(fx_transfer) => Finished::FxTransfer(fx_transfer),
            Self::Bulk(bulk) => Finished::Bulk(bulk),
        }
    }
}

/// A file that gets its name when it is complete and durable.
pub struct Table {
    writer: TableWriter,
    kind: Kind,
    unfinished: PathBuf,
    path: PathBuf,
    count: u64,
}

enum TableWriter {
    /// Lines, written by this function.
    Lines {
        file: BufWriter<File>,
        line: String,
        write: fn(Kind, &[Value<'_>], &mut String),
    },
    Parquet(Box<ParquetTable>),
}

impl Table {
    /// Begins a file, which must not exist.
    pub fn create(path: &Path, kind: Kind, format: Format) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        // The remains of an interrupted export.
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        let file = File::create_new(&unfinished)?;
        let lines =
            |file, write| TableWriter::Lines { file: BufWriter::new(file), line: String::new(), write };
        let mut writer = match format {
            Format::Csv => lines(file, line::push_csv_line),
            Format::Jsonl => lines(file, line::push_json_line),
            Format::Parquet => TableWriter::Parquet(Box::new(ParquetTable::new(file, kind)?)),
        };
        if let (Format::Csv, TableWriter::Lines { file, .. }) = (format, &mut writer) {
            file.write_all(line::header_line(kind).as_bytes())?;
        }
        Ok(Self { writer, kind, unfinished, path: path.to_owned(), count: 0 })
    }

    /// Adds the rows of an entry, if it is of the table's kind.
    pub fn add(&mut self, finished: Finished<'_>, names: &Names) -> io::Result<()> {
        finished.rows(names, |row| self.add_row(row))
    }

    fn add_row(&mut self, row: Row<'_>) -> io::Result<()> {
        self.count += 1;
        match &mut self.writer {
            TableWriter::Lines { file, line, write } => {
                line.clear();
                write(self.kind, &row, line);
                file.write_all(line.as_bytes())
            }
            TableWriter::Parquet(table) => table.add(row),
        }
    }

    /// Makes the file durable and renames it to its final name; returns the number of rows.
    pub fn finish(self) -> io::Result<u64> {
        let file = match self.writer {
            TableWriter::Lines { file, .. } => file.into_inner().map_err(io::IntoInnerError::into_error)?,
            TableWriter::Parquet(table) => table.finish()?,
        };
        file.sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        durable::sync_parent(&self.path)?;
        Ok(self.count)
    }
}
