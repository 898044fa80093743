//! Runs a small journal from a seeded script and checks its content afterwards. A failed check panics.

use std::sync::Arc;

use super::{Random, SimDisk};
use crate::{Batch, Disk, END, JournalError, Maintenance, Options, Reader, RecoveredJournal, Writer, open};

/// Batches to append, generated from a seed.
#[derive(Debug)]
pub struct Script {
    pub seed: u64,
    /// The options for opening the journal.
    pub options: Options,
    /// The number of records of each batch.
    batches: Vec<u64>,
}

/// The progress of a script.
#[derive(Debug, Default)]
pub struct Progress {
    /// The last acknowledged record.
    pub acknowledged: u64,
    /// The last record of the last attempted batch.
    pub attempted: u64,
    /// The error that stopped the script, if any.
    pub error: Option<JournalError>,
}

impl Script {
    /// Creates the script of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let batches = (0..8 + random.below(8)).map(|_| 1 + random.below(4)).collect();
        let options = Options {
            segment_bytes: if random.one_in(3) { 2048 + random.below(4) * 1024 } else { 12 * 1024 },
            zero_ahead: random.one_in(2),
            identity: random.bits(),
            ..Options::default()
        };
        Self { seed, options, batches }
    }

    /// The last record's sequence number after the whole script has been appended.
    pub fn last_seq(&self) -> u64 {
        self.batches.iter().sum()
    }

    /// Opens the journal and appends the records that it does not contain yet, until the end or the first error.
    pub fn run(&self, disk: &SimDisk) -> Progress {
        let mut progress = Progress::default();
        match open(dynamic(disk), self.options.clone()) {
            Ok(mut opened) => {
                progress.acknowledged = opened.recovered.last_seq;
                progress.attempted = progress.acknowledged;
                progress.error = self.append_rest(&mut opened.writer, &mut progress).err();
            }
            Err(error) => progress.error = Some(error),
        }
        progress
    }

    fn append_rest(&self, writer: &mut Writer, progress: &mut Progress) -> Result<(), JournalError> {
        let mut batch = Batch::new(1);
        let mut first_seq = 1;
        for records in &self.batches {
            let next = first_seq + records;
            if first_seq == writer.next_seq() {
                self.fill(&mut batch, first_seq, *records);
                progress.attempted = next - 1;
                writer.append(&mut batch)?;
                progress.acknowledged = next - 1;
                while writer.maintain()? == Maintenance::Advanced {}
            }
            first_seq = next;
        }
        Ok(())
    }

    /// Puts the script's records into a batch.
    pub fn fill(&self, batch: &mut Batch, first_seq: u64, records: u64) {
        batch.reset(first_seq);
        for seq in first_seq..first_seq + records {
            assert_eq!(batch.push(time(seq), |buffer| buffer.extend(payload(self.seed, seq))), seq);
        }
    }

    /// Opens the journal after a failure. Checks that it contains all acknowledged records, possibly the batch in
    /// flight, and no others.
    pub fn expect_recovered(&self, disk: &SimDisk, progress: &Progress) -> RecoveredJournal {
        let recovered = open(dynamic(disk), self.options.clone()).expect("recovers").recovered;
        let whole = [progress.acknowledged, progress.attempted];
        assert!(whole.contains(&recovered.last_seq), "{} is not in {whole:?}", recovered.last_seq);
        self.expect_records(disk, recovered.last_seq);
        recovered
    }

    /// Checks that the journal contains exactly the records up to `last_seq`.
    pub fn expect_records(&self, disk: &SimDisk, last_seq: u64) {
        assert_eq!(self.read(disk).expect("reads"), last_seq);
        let verified = crate::verify(dynamic(disk)).expect("verifies");
        assert_eq!((verified.last_seq, verified.torn), (last_seq, None));
    }

    /// Reads to the end, checks that every record equals the appended one, and returns the last sequence number.
    pub fn read(&self, disk: &SimDisk) -> Result<u64, JournalError> {
        let mut reader = Reader::new(dynamic(disk), 1);
        let mut last_seq = 0;
        while let Some(record) = reader.next_record(END)? {
            last_seq += 1;
            assert_eq!((record.seq, record.time_ns), (last_seq, time(last_seq)));
            assert!(record.bytes == payload(self.seed, last_seq), "record {last_seq} was altered");
        }
        Ok(last_seq)
    }
}

/// The disk as the trait object that the journal takes.
pub fn dynamic(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// The time of a record.
pub fn time(seq: u64) -> i64 {
    1_000 + seq as i64 * 7
}

/// The content of a record: text, nothing, zeros, data that looks like a frame, or more than a segment.
pub fn payload(seed: u64, seq: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ seq.wrapping_mul(0x1234_5678_9abc_def1));
    match random.below(12) {
        0 => Vec::new(),
        1 => vec![0; 400 + random.below(1_400) as usize],
        2 => pretended_frame(seq),
        3 if random.one_in(4) => (0..7_000).map(|_| random.bits() as u8).collect(),
        _ => (0..random.below(900)).map(|_| b' ' + random.below(95) as u8).collect(),
    }
}

/// Sectors of a real frame from another journal, with sequence numbers that could come next here.
fn pretended_frame(seq: u64) -> Vec<u8> {
    let mut batch = Batch::new(seq + 1);
    batch.push(time(seq + 1), |buffer| buffer.extend([b'x'; 700]));
    batch.seal(0, 0);
    let mut bytes = batch.frame().to_vec();
    bytes.extend_from_within(..);
    bytes
}
