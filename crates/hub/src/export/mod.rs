//! Finished transfers as a table for other tools: CSV, JSON Lines or Parquet.

mod columns;
mod row;
#[cfg(test)]
mod tests;
mod text;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use upesi_engine::Fold;
use upesi_journal::{Access, Disk, EmbeddedLog, SnapshotStore, durable};
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Ledger, LedgerConfig, Stored as _, Transfer};
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_types::Timestamp;

pub use row::COLUMNS;

use crate::backup::{Staging, check_apart};
use crate::exit::{Exit, Failure};
use crate::inspect::journal_failure;
use crate::inspect::names::Names;
use columns::ParquetTable;
use row::Row;
pub(crate) use text::push_csv;

/// What an export looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line of names, then a line per transfer (RFC 4180).
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// Typed, compressed columns, for DuckDB, pandas, Spark and others.
    Parquet,
}

impl Format {
    /// How its files end.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }

    /// The format whose files end so.
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
    /// Only transfers that finished before this time, such as 2031-04-01T00:00:00.000Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub before: Option<Timestamp>,
    /// Only transfers that finished at this time or later.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Output format.
    #[arg(long, value_enum, default_value = "csv")]
    pub format: Format,
    /// The file to write; it must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso(text).ok_or_else(|| "write it like 2031-04-01T00:00:00.000Z".to_owned())
}

/// Exports the finished transfers of a data directory, as it is at this moment; gives how many.
///
/// # Errors
/// See [`crate::backup::backup`]; 64 where the file would lie in the data directory; 73 where the file exists or cannot
/// be written.
pub fn export(arguments: &ExportArguments) -> Result<u64, Failure> {
    check_apart(&arguments.data, &arguments.out)?;
    let staging = Staging::take(&arguments.data)?;
    let damaged = |error: TablesError| Failure::new(Exit::Data, error);
    let archive =
        FjallArchive::open(staging.path.join("archive"), &ArchiveOptions::default()).map_err(damaged)?;
    let (names, tail) = names_and_tail(&staging.path, archive.watermark())?;
    let cannot =
        |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", arguments.out.display()));
    let mut table = Table::create(&arguments.out, arguments.format).map_err(cannot)?;
    let is_asked = |transfer: &Transfer| {
        transfer.completed_at().is_some_and(|at| {
            arguments.before.is_none_or(|before| at < before) && arguments.from.is_none_or(|from| at >= from)
        })
    };
    let mut outcome = Ok(());
    let visited = archive.for_each(&mut |id, bytes| {
        if !id.is_transfer() {
            return ControlFlow::Continue(());
        }
        outcome = add(&mut table, bytes, &names, &is_asked);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    visited.map_err(damaged)?;
    outcome?;
    for transfer in tail.iter().filter(|transfer| is_asked(transfer)) {
        table.add(transfer, &names).map_err(cannot)?;
    }
    table.finish().map_err(cannot)
}

fn add(
    table: &mut Table,
    bytes: &[u8],
    names: &Names,
    is_asked: &dyn Fn(&Transfer) -> bool,
) -> Result<(), Failure> {
    let transfer = Transfer::decode(&mut Decoder(bytes)).map_err(|error| Failure::new(Exit::Data, error))?;
    if is_asked(&transfer) {
        table.add(&transfer, names).map_err(|error| Failure::new(Exit::InputOutput, error))?;
    }
    Ok(())
}

/// Who is who, and the transfers that finished behind the archive's watermark.
fn names_and_tail(data: &Path, watermark: u64) -> Result<(Names, Vec<Transfer>), Failure> {
    let disk: Arc<dyn Disk> = Arc::new(upesi_journal::RealDisk::new(data, Access::Read));
    let latest = SnapshotStore::open_for_reading(Arc::clone(&disk)).latest().map_err(journal_failure)?;
    let snapshot = match latest.snapshot {
        None => Ledger::new(LedgerConfig::default()),
        Some(snapshot) => Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default())
            .map_err(|error| Failure::new(Exit::Data, error))?,
    };
    let mut ledger = Fold::once(&EmbeddedLog::for_reading(&disk), snapshot, watermark)
        .finish()
        .map_err(|error| Failure::new(crate::hub::exit_of(&error), error))?;
    let names = Names::of(&ledger);
    Ok((names, ledger.drain_finished(u64::MAX).collect()))
}

/// A file that gets its name when it is whole and durable.
pub struct Table {
    writer: TableWriter,
    unfinished: PathBuf,
    path: PathBuf,
    count: u64,
}

enum TableWriter {
    /// Line by line, by this function.
    Lines {
        file: BufWriter<File>,
        line: String,
        write: fn(Row<'_>, &mut String),
    },
    Parquet(Box<ParquetTable>),
}

impl Table {
    /// Begins a file, which must not exist.
    pub fn create(path: &Path, format: Format) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished)?;
        let lines =
            |file, write| TableWriter::Lines { file: BufWriter::new(file), line: String::new(), write };
        let mut writer = match format {
            Format::Csv => lines(file, text::write_csv),
            Format::Jsonl => lines(file, text::write_json),
            Format::Parquet => TableWriter::Parquet(Box::new(ParquetTable::new(file)?)),
        };
        if let (Format::Csv, TableWriter::Lines { file, .. }) = (format, &mut writer) {
            file.write_all(text::header().as_bytes())?;
        }
        Ok(Self { writer, unfinished, path: path.to_owned(), count: 0 })
    }

    /// Adds a transfer.
    pub fn add(&mut self, transfer: &Transfer, names: &Names) -> io::Result<()> {
        self.count += 1;
        let row = Row::of(transfer, names);
        match &mut self.writer {
            TableWriter::Lines { file, line, write } => {
                line.clear();
                write(row, line);
                file.write_all(line.as_bytes())
            }
            TableWriter::Parquet(table) => table.add(row),
        }
    }

    /// Makes the file durable and gives it its name; tells how many transfers it has.
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

/// Writes one division of an archive; gives how many transfers it has.
pub(crate) fn export_division(
    archive: &dyn Archive,
    first_seq: u64,
    names: &Names,
    path: &Path,
    format: Format,
) -> Result<u64, String> {
    let mut table = Table::create(path, format).map_err(|error| error.to_string())?;
    let mut outcome = Ok(());
    let visited = archive.for_each_in(first_seq, &mut |id, bytes| {
        if !id.is_transfer() {
            return ControlFlow::Continue(());
        }
        outcome = Transfer::decode(&mut Decoder(bytes))
            .map_err(|error| format!("transfer {id}: {error}"))
            .and_then(|transfer| table.add(&transfer, names).map_err(|error| error.to_string()));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    visited.map_err(|error| error.to_string())?;
    outcome?;
    table.finish().map_err(|error| error.to_string())
}
