//! Exports archive divisions before they are removed.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use upesi_journal::durable;
use upesi_tables::archive::{Archive, Division};

use super::kind::Archived;
use super::{FinishedEntry, Format, Table};
use crate::names::Names;

/// Writes the entries of one division of an archive into a directory, one file per kind. A kind of FX transfers or bulk
/// transfers without entries has no file. Existing files are complete, and are left unchanged.
pub fn export_division(
    archive: &dyn Archive,
    division: &Division,
    names: &Names,
    directory: &Path,
    format: Format,
) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", directory.display());
    durable::create_directory(directory).map_err(told)?;
    let path_of = |kind: Archived| {
        let (prefix, ending) = (kind.kind().file_prefix(), format.ending());
        directory.join(format!("{prefix}-{:020}-{:020}.{ending}", division.first_seq, division.watermark))
    };
    // The file of transfers is written last: if it exists, the others do.
    if path_of(Archived::Transfers).try_exists().map_err(told)? {
        // The file received its name when it was complete, but a crash may have happened before the name was durable.
        return durable::sync_directory(directory).map_err(told);
    }
    let mut tables = Vec::new();
    for kind in Archived::ALL {
        let path = path_of(kind);
        let is_there = path.try_exists().map_err(told)?;
        let state = if is_there { State::Written } else { State::Absent(path) };
        tables.push((kind, state));
    }
    add_all(archive, division.first_seq, names, format, &mut tables)?;
    while let Some((kind, state)) = tables.pop() {
        let table = match state {
            State::Open(table) => table,
            State::Absent(path) if kind == Archived::Transfers => {
                Table::create(&path, kind.kind(), format).map_err(told)?
            }
            State::Absent(_) | State::Written => continue,
        };
        let path = table.path.clone();
        let count = table.finish().map_err(told)?;
        tracing::info!(count, path = %path.display(), "old {} were exported before their removal", kind.kind().noun());
    }
    Ok(())
}

/// State of the file of a kind.
enum State {
    /// Not begun.
    Absent(PathBuf),
    Open(Table),
    /// Written by an earlier attempt.
    Written,
}

fn add_all(
    archive: &dyn Archive,
    first_seq: u64,
    names: &Names,
    format: Format,
    tables: &mut [(Archived, State)],
) -> Result<(), String> {
    let mut outcome = Ok(());
    let visited = archive.for_each_in(first_seq, &mut |key, bytes| {
        let kind = Archived::of_key(key);
        let Some((_, state)) = tables.iter_mut().find(|(table, _)| *table == kind) else {
            return ControlFlow::Continue(());
        };
        outcome = FinishedEntry::decode(kind, bytes)
            .map_err(|error| format!("{key}: {error}"))
            .and_then(|stored| add(state, &stored, names, format).map_err(|error| error.to_string()));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    visited.map_err(|error| error.to_string())?;
    outcome
}

fn add(state: &mut State, stored: &FinishedEntry, names: &Names, format: Format) -> io::Result<()> {
    if let State::Absent(path) = state {
        *state = State::Open(Table::create(path, stored.kind().kind(), format)?);
    }
    match state {
        State::Open(table) => table.add(stored.as_finished(), names),
        State::Absent(_) | State::Written => Ok(()),
    }
}
