//! Reads records of the journal in order or one by one.

use std::sync::Arc;

use crate::cursor::{Cursor, CursorContent};
use crate::disk::{Access, Disk};
use crate::error::{Damage, JournalError};
use crate::segment;
use crate::tail::{self, TornTail};

/// Durable sequence number of a journal without a writer: everything in it is read.
pub const END: u64 = u64::MAX;

/// A record as it was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The sequence number.
    pub seq: u64,
    /// Time when the command was accepted, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The encoded content.
    pub bytes: &'a [u8],
}

/// Reads a journal from a sequence number on and verifies checksums, chain, sequence and times. It never reads beyond
/// the sequence number that its caller knows to be durable, so it can follow a journal that is being written.
#[derive(Debug)]
pub struct Reader {
    disk: Arc<dyn Disk>,
    access: Access,
    cursor: Option<Cursor>,
    next_seq: u64,
    torn: Option<TornTail>,
}

/// The outcome of an attempt to reach a record.
enum SeekOutcome {
    Yes,
    /// The journal ends before the record. Occurs only when reading to the [`END`].
    AtEnd,
}

impl Reader {
    /// Creates a reader whose first record is `from_seq`. Nothing is read yet.
    pub fn new(disk: Arc<dyn Disk>, from_seq: u64) -> Self {
        Self { disk, access: Access::Read, cursor: None, next_seq: from_seq.max(1), torn: None }
    }

    /// Like [`Self::new`], for a reader that reads the journal once and should not displace data in the page cache.
    pub fn once(disk: Arc<dyn Disk>, from_seq: u64) -> Self {
        Self { access: Access::ReadOnce, ..Self::new(disk, from_seq) }
    }

    /// The sequence number of the record that [`next_record`](Reader::next_record) will return.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Continues at record `seq`.
    pub fn seek(&mut self, seq: u64) {
        self.next_seq = seq.max(1);
    }

    /// The remains of an unacknowledged batch at the end of the journal. Known after the journal was read to its
    /// [`END`].
    pub fn torn(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// The next record, or `None` if it is beyond `durable_seq`. Pass [`END`] for a journal without a writer; free
    /// space in closed segments is then verified too.
    pub fn next_record(&mut self, durable_seq: u64) -> Result<Option<Record<'_>>, JournalError> {
        if self.next_seq > durable_seq {
            return Ok(None);
        }
        match self.reach(self.next_seq, durable_seq == END)? {
            SeekOutcome::AtEnd => Ok(None),
            SeekOutcome::Yes => {
                self.next_seq += 1;
                Ok(self.loaded(self.next_seq - 1))
            }
        }
    }

    /// Reads one record, which must be durable. Ascending and nearby reads are cheap. Sequential reading continues
    /// after it.
    pub fn read_record(&mut self, seq: u64) -> Result<Record<'_>, JournalError> {
        if seq == 0 || matches!(self.reach(seq, false)?, SeekOutcome::AtEnd) {
            return Err(self.no_such_record(seq));
        }
        self.next_seq = seq + 1;
        self.loaded(seq).ok_or(JournalError::NoSuchRecord { seq, oldest: 0 })
    }

    fn loaded(&self, seq: u64) -> Option<Record<'_>> {
        let cursor = self.cursor.as_ref()?;
        let entry = cursor.entry(seq)?;
        Some(Record { seq, time_ns: entry.time_ns, bytes: cursor.record(entry) })
    }

    /// Loads the frame that contains `seq`.
    fn reach(&mut self, seq: u64, to_end: bool) -> Result<SeekOutcome, JournalError> {
        if self.cursor.as_ref().is_some_and(|cursor| cursor.entry(seq).is_some()) {
            return Ok(SeekOutcome::Yes);
        }
        let Some(mut cursor) = self.cursor_towards(seq)? else {
            return Ok(SeekOutcome::AtEnd);
        };
        let result = self.walk(&mut cursor, seq, to_end);
        self.cursor = Some(cursor);
        result
    }

    /// A cursor whose forward walk reaches `seq`. Returns `None` if the journal is empty and `seq` is its first
    /// record.
    fn cursor_towards(&mut self, seq: u64) -> Result<Option<Cursor>, JournalError> {
        if let Some(mut cursor) = self.cursor.take().filter(|cursor| seq >= cursor.header.first_seq) {
            cursor.rewind(seq);
            return self.skip_segments(cursor, seq).map(Some);
        }
        let starts = segment::list(&*self.disk)?;
        match starts[..starts.partition_point(|start| *start <= seq)].last() {
            Some(start) => Cursor::open(&*self.disk, *start, self.access).map(Some),
            None if starts.is_empty() && seq == 1 => Ok(None),
            None => Err(self.no_such_record(seq)),
        }
    }

    /// For a record far ahead, opens its segment instead of walking through the segments before it.
    fn skip_segments(&self, mut cursor: Cursor, seq: u64) -> Result<Cursor, JournalError> {
        if seq == cursor.next_seq() {
            return Ok(cursor);
        }
        let starts = segment::list(&*self.disk)?;
        match starts[..starts.partition_point(|start| *start <= seq)].last() {
            Some(start) if *start > cursor.header.first_seq => cursor.open_another(&*self.disk, *start),
            _ => Ok(cursor),
        }
    }

    fn walk(&mut self, cursor: &mut Cursor, seq: u64, to_end: bool) -> Result<SeekOutcome, JournalError> {
        let mut fresh = false;
        loop {
            let damage = match cursor.peek()? {
                CursorContent::Frame(header) if header.next_seq() <= seq => {
                    cursor.skip(&header);
                    continue;
                }
                CursorContent::Frame(header) => match cursor.load(&header)? {
                    None => return Ok(SeekOutcome::Yes),
                    Some(damage) => Some(damage),
                },
                CursorContent::Nothing => None,
                CursorContent::Invalid(damage) => Some(damage),
            };
            if !fresh {
                // Bytes that were read ahead may be older than data that has become durable since.
                cursor.forget_window();
                fresh = true;
                continue;
            }
            if !self.enter_next(cursor, to_end)? {
                return self.end(cursor, seq, damage, to_end);
            }
            fresh = false;
        }
    }

    /// Moves into the segment that continues this one, which proves that no record is missing between them. Returns
    /// false after the last segment.
    fn enter_next(&self, cursor: &mut Cursor, to_end: bool) -> Result<bool, JournalError> {
        let first_seq = cursor.next_seq();
        if first_seq == cursor.header.first_seq {
            return Ok(false);
        }
        let next = match cursor.open_another(&*self.disk, first_seq) {
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(false);
            }
            other => other?,
        };
        if to_end {
            tail::expect_zeros(cursor)?;
        }
        let (found, expected) = (&next.header, &cursor.header);
        if (found.identity, found.previous_chain, found.previous_time_ns)
            != (expected.identity, cursor.chain(), cursor.last_time_ns())
        {
            return Err(JournalError::damaged(&next.path, 0, Damage::Chain));
        }
        *cursor = next;
        Ok(true)
    }

    /// Handles the end of the journal: no further frame and no further segment.
    fn end(
        &mut self,
        cursor: &Cursor,
        seq: u64,
        damage: Option<Damage>,
        to_end: bool,
    ) -> Result<SeekOutcome, JournalError> {
        let is_last = segment::list(&*self.disk)?.last() == Some(&cursor.header.first_seq);
        if to_end && is_last {
            self.torn = tail::judge(cursor, damage)?;
            if seq == cursor.next_seq() {
                return Ok(SeekOutcome::AtEnd);
            }
            return Err(self.no_such_record(seq));
        }
        let reason = damage.unwrap_or(Damage::Missing(cursor.next_seq()));
        Err(JournalError::damaged(&cursor.path, cursor.offset(), reason))
    }

    fn no_such_record(&self, seq: u64) -> JournalError {
        let oldest = segment::list(&*self.disk).ok().and_then(|starts| starts.first().copied());
        JournalError::NoSuchRecord { seq, oldest: oldest.unwrap_or(0) }
    }
}
