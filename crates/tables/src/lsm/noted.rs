//! Versions of the lists when their owner last relied on them.
//!
//! ```text
//! noted    "UPESINOT", then for each keyspace its ID and the version of its list (u64 each), then XXH3-128 of all that
//! ```
//!
//! fjall replaces `current` as a whole, so an old copy of it is valid in itself. As long as nothing was merged, the
//! list that it names and that list's tables still exist. fjall would silently return to them, and remove newer ones.
//! Versions only increase, so a noted version is a lower bound, and later versions need no note.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::lsm::Fault;
use crate::lsm::lists::{self, CURRENT, CURRENT_BYTES_MAX, KEYSPACES};

const NOTED: &str = "noted";
const MAGIC: &[u8; 8] = b"UPESINOT";
/// The file has 16 bytes for each keyspace, so this is for 60,000 keyspaces.
const NOTED_BYTES_MAX: u64 = 1 << 20;

/// A keyspace and the version of its list.
type ListVersion = (u64, u64);

/// Notes durably the versions of the lists of the database in `path`. An opening with an older list is then rejected.
///
/// # Errors
/// A list cannot be read, or the note cannot be written; then the previous note remains.
pub fn note(path: &Path) -> io::Result<()> {
    let mut notes = Vec::new();
    for entry in fs::read_dir(path.join(KEYSPACES))? {
        let keyspace = entry?;
        let Ok(id) = keyspace.file_name().to_string_lossy().parse::<u64>() else { continue };
        if let Some(version) = version(&keyspace.path())? {
            // The file may just have received its name. It must not be younger here than after a power loss.
            File::open(keyspace.path())?.sync_all()?;
            notes.push((id, version));
        }
    }
    notes.sort_unstable();
    let unfinished = path.join("noted.new");
    let mut file = File::create(&unfinished)?;
    file.write_all(&encode(&notes))?;
    file.sync_all()?;
    fs::rename(&unfinished, path.join(NOTED))?;
    File::open(path)?.sync_all()
}

/// The last notes; none before an owner relied on the lists.
pub(crate) fn read(path: &Path) -> Result<Vec<ListVersion>, Fault> {
    let bytes = match lists::read(&path.join(NOTED), NOTED_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Err(Fault::Damaged(format!("{NOTED} is too long")));
        }
        bytes => bytes.map_err(Fault::Io)?,
    };
    decode(&bytes).ok_or_else(|| Fault::Damaged(format!("{NOTED} cannot be decoded")))
}

/// Whether every list has reached its noted version. Read the notes before the lists, because another process may be
/// writing.
pub(crate) fn check(path: &Path, notes: &[ListVersion]) -> Result<(), Fault> {
    for (id, noted) in notes {
        let keyspace = format!("{KEYSPACES}/{id}");
        let found = version(&path.join(&keyspace)).map_err(Fault::Io)?;
        if found.is_none_or(|found| found < *noted) {
            let detail = format!("{keyspace}: {CURRENT} is an older version or missing");
            return Err(Fault::Damaged(detail));
        }
    }
    Ok(())
}

/// Version of the current list; `None` if a keyspace has none, for example during its creation.
fn version(keyspace: &Path) -> io::Result<Option<u64>> {
    match lists::read(&keyspace.join(CURRENT), CURRENT_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        current => Ok(current?.first_chunk().map(|version| u64::from_le_bytes(*version))),
    }
}

fn encode(notes: &[ListVersion]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (id, version) in notes {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&version.to_le_bytes());
    }
    let checksum = xxh3_128(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<ListVersion>> {
    let (body, checksum) = bytes.split_last_chunk::<16>()?;
    if xxh3_128(body) != u128::from_le_bytes(*checksum) {
        return None;
    }
    let (numbers, rest) = body.strip_prefix(MAGIC)?.as_chunks::<8>();
    let (notes, odd) = numbers.as_chunks::<2>();
    let is_whole = rest.is_empty() && odd.is_empty();
    let note = |[id, version]: &[[u8; 8]; 2]| (u64::from_le_bytes(*id), u64::from_le_bytes(*version));
    is_whole.then(|| notes.iter().map(note).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written_or_not_at_all() {
        for notes in [vec![], vec![(0, 7)], vec![(0, 1), (1, u64::MAX), (9, 300)]] {
            let whole = encode(&notes);
            assert_eq!(decode(&whole), Some(notes));
            for bit in 0..whole.len() * 8 {
                let mut rotten = whole.clone();
                rotten[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(&rotten), None, "bit {bit}");
            }
            for length in 0..whole.len() {
                assert_eq!(decode(&whole[..length]), None, "{length} bytes");
            }
        }
    }
}
