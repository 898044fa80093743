//! Exports of archive divisions, before these leave.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use upesi_journal::durable;
use upesi_tables::archive::{Archive, Division};

use super::{Archived, Format, Stored, Table};
use crate::inspect::names::Names;

/// Writes what one division of an archive has into a directory, a file per kind. Of FX transfers and bulks there is
/// none if the division has none. What is there already is whole, and stays.
pub(crate) fn export_division(
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
    // That of transfers comes last: where it is, the others are.
    if path_of(Archived::Transfers).try_exists().map_err(told)? {
        // It has its name only since it is whole; a crash may have come before that was durable.
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
        tracing::info!(count, path = %path.display(), "old {} were exported", kind.kind().noun());
    }
    Ok(())
}

/// Where the file of a kind stands.
enum State {
    /// It is not begun.
    Absent(PathBuf),
    Open(Table),
    /// An earlier attempt has written it.
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
        outcome = Stored::decode(kind, bytes)
            .map_err(|error| format!("{key}: {error}"))
            .and_then(|stored| add(state, &stored, names, format).map_err(|error| error.to_string()));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    visited.map_err(|error| error.to_string())?;
    outcome
}

fn add(state: &mut State, stored: &Stored, names: &Names, format: Format) -> io::Result<()> {
    if let State::Absent(path) = state {
        *state = State::Open(Table::create(path, stored.kind().kind(), format)?);
    }
    match state {
        State::Open(table) => table.add(stored.as_finished(), names),
        State::Absent(_) | State::Written => Ok(()),
    }
}
