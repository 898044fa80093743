//! A simulated log for the engine: in memory, with faults on demand. Several nodes share it, and one of them at a time
//! may append.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use upesi_journal::{
    AppendedBatch, Appender, Batch, ClaimedLog, Damage, END, JournalError, Log, LogReader, Maintenance,
    Record, TornTail,
};

/// The name of the log in errors.
const FILE: &str = "the simulated log";

/// A fault of the next append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// The batch never arrives.
    Lost,
    /// The batch is recorded, and its acknowledgement is lost.
    Unacknowledged,
}

#[derive(Debug, Default)]
struct State {
    /// The time of each record, in nanoseconds since 1970, and its bytes.
    records: VecDeque<(i64, Vec<u8>)>,
    /// Number of records that were trimmed at the beginning.
    trimmed: u64,
    /// Number of claims so far.
    epoch: u64,
    /// The node that claimed last.
    appender: String,
    fault: Option<AppendFault>,
    is_full: bool,
}

impl State {
    fn last_seq(&self) -> u64 {
        self.trimmed + self.records.len() as u64
    }

    fn last_time_ns(&self) -> i64 {
        self.records.back().map_or(0, |(time_ns, _)| *time_ns)
    }

    fn get(&self, seq: u64) -> Option<&(i64, Vec<u8>)> {
        let index = seq.checked_sub(self.trimmed + 1)?;
        self.records.get(usize::try_from(index).ok()?)
    }
}

/// A log that several nodes share. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimLog {
    state: Arc<Mutex<State>>,
}

impl SimLog {
    pub fn node(&self, name: &str) -> Arc<dyn Log> {
        Arc::new(Node { log: self.clone(), name: name.to_owned() })
    }

    pub fn fail_next(&self, fault: AppendFault) {
        self.state().fault = Some(fault);
    }

    /// Fills the log, or frees space in it again.
    pub fn set_full(&self, is_full: bool) {
        self.state().is_full = is_full;
    }

    /// The last durable record.
    pub fn last_seq(&self) -> u64 {
        self.state().last_seq()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Node {
    log: SimLog,
    name: String,
}

impl Log for Node {
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError> {
        let mut state = self.log.state();
        if state.last_seq() < known_durable_seq {
            let reason = Damage::Missing(state.last_seq() + 1);
            return Err(JournalError::Damaged { file: FILE.to_owned(), offset: 0, reason });
        }
        state.epoch += 1;
        state.appender.clone_from(&self.name);
        let appender = SimAppender { log: self.log.clone(), epoch: state.epoch, is_poisoned: false };
        Ok(ClaimedLog { appender: Box::new(appender), last_seq: state.last_seq(), torn: None })
    }

    fn oldest_seq(&self) -> Result<Option<u64>, JournalError> {
        let state = self.log.state();
        Ok((!state.records.is_empty()).then_some(state.trimmed + 1))
    }

    fn read_from(&self, seq: u64) -> Box<dyn LogReader> {
        Box::new(SimReader { log: self.log.clone(), next: seq.max(1), bytes: Vec::new() })
    }

    /// The last record stays, as a journal's last segment does.
    fn trim(&self, seq: u64) -> Result<usize, JournalError> {
        let mut state = self.log.state();
        let freed = seq.min(state.last_seq()).saturating_sub(state.trimmed + 1);
        state.trimmed += freed;
        Ok(state.records.drain(..freed as usize).count())
    }
}

/// Appends until a later claim is made.
struct SimAppender {
    log: SimLog,
    epoch: u64,
    is_poisoned: bool,
}

impl SimAppender {
    /// The state of the log, if this appender may still append.
    fn claimed(&self) -> Result<MutexGuard<'_, State>, JournalError> {
        let state = self.log.state();
        if self.is_poisoned {
            return Err(JournalError::Poisoned);
        }
        if state.epoch != self.epoch {
            return Err(JournalError::Superseded { by: state.appender.clone() });
        }
        Ok(state)
    }
}

impl Appender for SimAppender {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        let mut state = self.claimed()?;
        if state.is_full {
            return Err(JournalError::DiskFull { file: FILE.to_owned() });
        }
        assert_eq!(batch.first_seq(), state.last_seq() + 1, "a batch must continue the sequence");
        let fault = state.fault.take();
        let mut bytes = 0;
        if fault != Some(AppendFault::Lost) {
            for record in batch.records() {
                assert!(record.time_ns > state.last_time_ns(), "record times must strictly increase");
                bytes += record.bytes.len() as u64;
                state.records.push_back((record.time_ns, record.bytes.to_vec()));
            }
        }
        let last_seq = state.last_seq();
        drop(state);
        if fault.is_some() {
            self.is_poisoned = true;
            let source = io::Error::from(io::ErrorKind::TimedOut);
            return Err(JournalError::Io { operation: "append to", file: FILE.to_owned(), source });
        }
        let first_seq = batch.first_seq();
        Ok(AppendedBatch {
            first_seq,
            last_seq,
            bytes,
            accepted_ns: 0,
            write_ns: 0,
            sync_ns: 0,
            rolled: false,
        })
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.claimed().map(drop)
    }

    fn reserve(&mut self, _body_bytes: u64) -> Result<(), JournalError> {
        if self.log.state().is_full {
            return Err(JournalError::DiskFull { file: FILE.to_owned() });
        }
        Ok(())
    }

    fn has_room_for(&self, _body_bytes: u64) -> bool {
        !self.log.state().is_full
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        Ok(Maintenance::Idle)
    }
}

struct SimReader {
    log: SimLog,
    next: u64,
    bytes: Vec<u8>,
}

impl SimReader {
    fn load(&mut self, seq: u64) -> Result<Record<'_>, JournalError> {
        let state = self.log.state();
        let Some((time_ns, bytes)) = state.get(seq) else {
            let oldest = if state.records.is_empty() { 0 } else { state.trimmed + 1 };
            return Err(JournalError::NoSuchRecord { seq, oldest });
        };
        let time_ns = *time_ns;
        self.bytes.clone_from(bytes);
        drop(state);
        self.next = seq + 1;
        Ok(Record { seq, time_ns, bytes: &self.bytes })
    }
}

impl LogReader for SimReader {
    fn next_record(&mut self, durable_seq: u64) -> Result<Option<Record<'_>>, JournalError> {
        let is_at_end = durable_seq == END && self.next == self.log.last_seq() + 1;
        if self.next > durable_seq || is_at_end {
            return Ok(None);
        }
        self.load(self.next).map(Some)
    }

    fn read_record(&mut self, seq: u64) -> Result<Record<'_>, JournalError> {
        self.load(seq)
    }

    fn next_seq(&self) -> u64 {
        self.next
    }

    fn torn(&self) -> Option<&TornTail> {
        None
    }
}
