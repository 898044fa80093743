//! A filter in a file, so that a start need not read a whole division to build it.
//!
//! A filter with a missing bit would let a duplicate pass as new. So the file contains the identity of its division,
//! and a checksum of everything. If anything is wrong, the filter is built from the tables instead.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use upesi_journal::durable;

use crate::archive::filter::Filter;
use crate::beside::with_suffix;

const MAGIC: &[u8; 8] = b"UPESIFLT";
/// Also covers the hash and the layout of the blocks: a filter of another version is not loaded.
const VERSION: u64 = 1;
const BUFFER_WORDS: usize = 64 * 1024;

/// The division state that a filter belongs to. Any other state has a different identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// First record and watermark of the division.
    pub(crate) first_seq: u64,
    pub(crate) watermark: u64,
    /// Entries and bytes in its tables, for a division that may still grow; 0 for a closed one.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Identity {
    fn numbers(self) -> [u64; 4] {
        [self.first_seq, self.watermark, self.entries, self.bytes]
    }
}

/// Writes the filter; it is complete and durable when this returns `Ok`.
pub(crate) fn save(path: &Path, identity: Identity, filter: &Filter) -> io::Result<()> {
    let unfinished = with_suffix(path, ".new");
    let mut sink = Sink { file: BufWriter::new(File::create(&unfinished)?), crc: 0 };
    sink.put(MAGIC)?;
    let lengths: Vec<u64> = filter.segments().map(|words| words.len() as u64).collect();
    let header = [VERSION]
        .into_iter()
        .chain(identity.numbers())
        .chain([filter.room_left(), lengths.len() as u64])
        .chain(lengths);
    for number in header {
        sink.put(&number.to_le_bytes())?;
    }
    let mut bytes = Vec::with_capacity(BUFFER_WORDS * 4);
    for words in filter.segments() {
        for chunk in words.chunks(BUFFER_WORDS) {
            bytes.clear();
            bytes
                .extend(chunk.iter().flat_map(|word: &AtomicU32| word.load(Ordering::Relaxed).to_le_bytes()));
            sink.put(&bytes)?;
        }
    }
    let crc = sink.crc;
    sink.file.write_all(&crc.to_le_bytes())?;
    sink.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    durable::sync_parent(path)
}

/// Reads a filter of this identity; `None` if there is none, or it is damaged.
pub(crate) fn load(path: &Path, identity: Identity) -> Option<Filter> {
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut source = Source { file: BufReader::new(file), crc: 0 };
    let mut magic = [0; 8];
    source.take(&mut magic)?;
    if &magic != MAGIC || source.number()? != VERSION {
        return None;
    }
    for expected in identity.numbers() {
        if source.number()? != expected {
            return None;
        }
    }
    let (room, segments) = (source.number()?, source.number()?);
    let lengths = (0..segments).map(|_| source.number()).collect::<Option<Vec<_>>>()?;
    let words = lengths.iter().try_fold(0_u64, |sum, words| sum.checked_add(*words))?;
    // Checked before memory is allocated, because a length may be damaged.
    let header_bytes = 8 * (8 + segments);
    if words.checked_mul(4)?.checked_add(header_bytes + 4)? != length {
        return None;
    }
    let segments =
        lengths.into_iter().map(|words| source.words(words as usize)).collect::<Option<Vec<_>>>()?;
    let expected = source.crc;
    let mut crc = [0; 4];
    source.take(&mut crc)?;
    (u32::from_le_bytes(crc) == expected).then(|| Filter::from_segments(segments, room))?
}

struct Sink {
    file: BufWriter<File>,
    crc: u32,
}

impl Sink {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.file.write_all(bytes)
    }
}

struct Source {
    file: BufReader<File>,
    crc: u32,
}

impl Source {
    fn take(&mut self, bytes: &mut [u8]) -> Option<()> {
        self.file.read_exact(bytes).ok()?;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    fn words(&mut self, count: usize) -> Option<Vec<u32>> {
        let mut words = Vec::with_capacity(count);
        let mut bytes = vec![0; BUFFER_WORDS * 4];
        while words.len() < count {
            let chunk = &mut bytes[..(count - words.len()).min(BUFFER_WORDS) * 4];
            self.take(chunk)?;
            words.extend(chunk.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_types::TransferId;

    const IDENTITY: Identity = Identity { first_seq: 1, watermark: 500, entries: 0, bytes: 0 };

    fn id(index: u128) -> TransferId {
        TransferId::from_random_bytes(
            index.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes(),
        )
    }

    fn saved(path: &Path) -> Filter {
        let filter = Filter::with_capacity(500);
        filter.insert(&(0..500).map(id).collect::<Vec<_>>());
        save(path, IDENTITY, &filter).unwrap();
        filter
    }

    #[test]
    fn a_saved_filter_passes_the_same_ids() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("filter");
        let filter = saved(&path);
        let loaded = load(&path, IDENTITY).unwrap();
        assert!((0..500).all(|index| loaded.may_contain(&id(index))));
        assert!((500..50_000).all(|index| loaded.may_contain(&id(index)) == filter.may_contain(&id(index))));
    }

    #[test]
    fn saved_filter_keeps_all_segments_and_free_space() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("filter");
        // Several portions of words, the last one not full, and a second segment.
        let filter = Filter::with_capacity(200_000);
        filter.insert(&(0..200_300).map(id).collect::<Vec<_>>());
        save(&path, IDENTITY, &filter).unwrap();
        let loaded = load(&path, IDENTITY).unwrap();
        let words = |filter: &Filter| -> Vec<Vec<u32>> {
            let of = |words: &[AtomicU32]| words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            filter.segments().map(of).collect()
        };
        assert_eq!(words(&loaded).iter().map(Vec::len).collect::<Vec<_>>(), [100_000, 100_000]);
        assert!(words(&loaded) == words(&filter));
        assert_eq!((loaded.room_left(), filter.room_left()), (199_700, 199_700));
    }

    #[test]
    fn filter_with_another_identity_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("filter");
        saved(&path);
        for other in [
            Identity { first_seq: 2, ..IDENTITY },
            Identity { watermark: 501, ..IDENTITY },
            Identity { entries: 1, ..IDENTITY },
            Identity { bytes: 1, ..IDENTITY },
        ] {
            assert!(load(&path, other).is_none(), "{other:?}");
        }
        assert!(load(&directory.path().join("none"), IDENTITY).is_none());
    }

    #[test]
    fn damaged_filter_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("filter");
        saved(&path);
        let whole = std::fs::read(&path).unwrap();
        // Every byte of the header and of the checksum, and some between.
        let ends = (0..80).chain(whole.len() - 8..whole.len());
        let within = (1..20).map(|step| whole.len() * step / 20);
        for at in ends.chain(within) {
            let mut hurt = whole.clone();
            hurt[at] ^= 1 << (at % 8);
            std::fs::write(&path, &hurt).unwrap();
            assert!(load(&path, IDENTITY).is_none(), "a flipped bit of byte {at}");
        }
        for length in [0, 7, 8, 60, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(load(&path, IDENTITY).is_none(), "cut at {length}");
        }
        std::fs::write(&path, [&*whole, &[0]].concat()).unwrap();
        assert!(load(&path, IDENTITY).is_none(), "longer");
    }
}
