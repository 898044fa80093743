//! Bulk import of parties from a file, by operators. The file is sent in chunks; one durable batch contains a chunk and
//! the progress of the import. So an interrupted import continues at [`Progress::next_line`], and a chunk whose answer
//! was lost can be sent again.

mod line;

#[cfg(test)]
mod tests;

use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table, Transaction};
use upesi_types::FspId;

pub use self::line::{COLUMNS, Columns, LINE_BYTES_MAX};
use super::builtin::owners;
use crate::builtin::{BuiltInDirectory, RegisterError, change_in};
use crate::party::DirectoryEntry;

/// Maximum number of lines in a chunk. A chunk occupies the writer of the store for some tens of milliseconds.
pub const CHUNK_LINES_MAX: usize = 10_000;
/// Maximum number of rejected lines that an answer lists; it counts all of them.
pub const REFUSALS_LISTED_MAX: usize = 100;
/// Longest name of an import, in characters.
pub const IMPORT_ID_CHARS_MAX: usize = 64;

pub(crate) const TABLE: &str = "imports";

/// Name of an import, chosen by its user. The same file should always have the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImportId(Box<str>);

impl ImportId {
    /// A name of 1 to 64 letters, digits, `-` and `_`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = (1..=IMPORT_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        fits.then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The next line of the file, counted from 1.
    pub next_line: u64,
    /// Lines that were accepted.
    pub taken: u64,
    /// Lines that were rejected.
    pub refused: u64,
}

/// Handling of a line if another DFSP is registered for its party.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// The line is rejected.
    #[default]
    Refuse,
    /// The line replaces the registration.
    Replace,
}

/// Some lines of a file, parsed and checked.
#[derive(Clone, Debug)]
pub struct Chunk {
    from: u64,
    /// `None` for a blank line.
    lines: Vec<Option<Result<DirectoryEntry, String>>>,
    conflict: Conflict,
}

/// A rejected line and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLine {
    /// Its number in the file.
    pub line: u64,
    pub reason: String,
}

/// Outcome of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkOutcome {
    /// Progress of the import, including this chunk.
    pub progress: Progress,
    /// Accepted lines of this chunk, which are registered.
    pub taken: usize,
    /// Rejected lines of this chunk.
    pub refused: usize,
    /// The first rejected lines.
    pub refusals: Vec<RefusedLine>,
}

/// Reason why a whole chunk was rejected. None of its lines was stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Lines are missing between the accepted lines and this chunk.
    #[error("the import continues at line {next_line}")]
    Gap { next_line: u64 },
    /// A chunk must have at least one line and at most [`CHUNK_LINES_MAX`].
    #[error("a chunk has 1 to {CHUNK_LINES_MAX} lines, this one has {lines}")]
    Size {
        /// Number of its lines.
        lines: usize,
    },
    /// The store failed or was busy.
    #[error(transparent)]
    Store(#[from] TablesError),
}

impl Chunk {
    /// Parses the lines of a chunk whose first line is line `from` of the file, counted from 1. `is_known` returns
    /// whether there is such a DFSP.
    ///
    /// Errors: [`ImportError::Size`]. Invalid lines are rejected one by one when the chunk is imported.
    pub fn read(
        bytes: &[u8],
        from: u64,
        columns: &Columns,
        conflict: Conflict,
        is_known: impl Fn(&FspId) -> bool,
    ) -> Result<Self, ImportError> {
        if bytes.is_empty() {
            return Err(ImportError::Size { lines: 0 });
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let count = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        if count > CHUNK_LINES_MAX {
            return Err(ImportError::Size { lines: count });
        }
        let read = |line: &[u8]| {
            let Ok(line) = std::str::from_utf8(line) else {
                return Some(Err("the line is not UTF-8".to_owned()));
            };
            let entry = columns.entry(line)?;
            Some(entry.and_then(|entry| match is_known(&entry.fsp) {
                true => Ok(entry),
                false => Err(format!("fspId {:?} is not a participant", entry.fsp.as_str())),
            }))
        };
        let lines = bytes.split(|byte| *byte == b'\n').map(read).collect();
        Ok(Self { from, lines, conflict })
    }
}

/// The imports into a built-in directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Imports {
    store: Store,
    parties: Table,
    imports: Table,
}

impl Imports {
    /// The imports into this directory.
    pub fn open(directory: &BuiltInDirectory) -> Result<Self, TablesError> {
        let store = directory.store().clone();
        let imports = store.table(TABLE)?;
        Ok(Self { parties: directory.parties().clone(), imports, store })
    }

    /// Progress of an import; `None` if it has not begun.
    pub fn progress(&self, id: &ImportId) -> Result<Option<Progress>, TablesError> {
        self.imports.get(id.as_str().as_bytes())?.map(|value| Progress::decode(&value)).transpose()
    }

    /// Registers the lines of a chunk and advances the import, in one durable batch.
    ///
    /// Lines before the import's next line are not registered again, so that removed entries do not reappear. They are
    /// only checked again, so that the lost answer is repeated.
    ///
    /// Errors: [`ImportError::Gap`] if the chunk begins after the import's next line.
    pub async fn take(&self, id: &ImportId, chunk: Chunk) -> Result<ChunkOutcome, ImportError> {
        let (parties, imports, key) = (self.parties.clone(), self.imports.clone(), id.0.clone());
        let taken = self.store.update(move |transaction| {
            let before = transaction.get(&imports, key.as_bytes())?;
            let before = before.map(|value| Progress::decode(&value)).transpose()?;
            let before = before.unwrap_or(Progress { next_line: chunk.from, ..Progress::default() });
            if chunk.from > before.next_line {
                return Ok(Err(ImportError::Gap { next_line: before.next_line }));
            }
            let outcome = register(transaction, &parties, chunk, before)?;
            transaction.put(&imports, key.as_bytes(), &outcome.progress.encode())?;
            Ok(Ok(outcome))
        });
        taken.await?
    }
}

fn register(
    transaction: &mut Transaction<'_>,
    parties: &Table,
    chunk: Chunk,
    before: Progress,
) -> Result<ChunkOutcome, TablesError> {
    let mut outcome = ChunkOutcome { progress: before, taken: 0, refused: 0, refusals: Vec::new() };
    let mut number = chunk.from;
    for line in chunk.lines {
        let is_new = number >= before.next_line;
        let refused = match line {
            None => None,
            Some(Err(reason)) => Some(Err(reason)),
            Some(Ok(entry)) => Some(register_line(transaction, parties, &entry, chunk.conflict, is_new)?),
        };
        match refused {
            None => {}
            Some(Ok(())) => {
                outcome.taken += 1;
                outcome.progress.taken += u64::from(is_new);
            }
            Some(Err(reason)) => {
                outcome.refused += 1;
                outcome.progress.refused += u64::from(is_new);
                if outcome.refusals.len() < REFUSALS_LISTED_MAX {
                    outcome.refusals.push(RefusedLine { line: number, reason });
                }
            }
        }
        number += 1;
    }
    outcome.progress.next_line = before.next_line.max(number);
    Ok(outcome)
}

/// Registers a line, or only checks whether it would be rejected.
fn register_line(
    transaction: &mut Transaction<'_>,
    parties: &Table,
    entry: &DirectoryEntry,
    conflict: Conflict,
    is_new: bool,
) -> Result<Result<(), String>, TablesError> {
    let rule = match conflict {
        Conflict::Refuse => owners::register,
        Conflict::Replace => owners::put,
    };
    let registered = change_in(transaction, parties, entry.kind, &entry.id, |owners| match is_new {
        true => rule(owners, entry),
        false => rule(&mut owners.clone(), entry).map(|_| false),
    })?;
    Ok(match registered {
        Ok(_) => Ok(()),
        Err(RegisterError::AlreadyRegistered { fsp, .. }) => Err(format!("the party is registered by {fsp}")),
        Err(refusal) => Err(refusal.to_string()),
    })
}

impl Progress {
    fn encode(self) -> Vec<u8> {
        [self.next_line, self.taken, self.refused].iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Result<Self, TablesError> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        match (numbers, rest) {
            ([next_line, taken, refused], []) => Ok(Self {
                next_line: u64::from_le_bytes(*next_line),
                taken: u64::from_le_bytes(*taken),
                refused: u64::from_le_bytes(*refused),
            }),
            _ => Err(TablesError::content("the progress of an import")),
        }
    }
}
