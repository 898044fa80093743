//! The leader's journal, as its engine sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use upesi_journal::{Appender, ClaimedLog, Disk, EmbeddedLog, JournalError, Log, LogReader};

use crate::leading::LeaderLog;
use crate::shared::{FairLock, OfEngine, OfStore};

/// Interval between checks of the due heartbeat until an engine claims the log.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Parts for the engine, until it claims them.
struct UnclaimedLog {
    leading: Mutex<Option<Arc<FairLock<LeaderLog>>>>,
    taken: Condvar,
}

impl UnclaimedLog {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<FairLock<LeaderLog>>>> {
        self.leading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leader's journal. Records are read from its copy; a batch is appended to the log first.
///
/// Until an engine claims it, a thread sends the heartbeats, because a recovery may take longer than the election
/// timeout.
pub struct ReplicatedLog {
    disk: Arc<dyn Disk>,
    copy: Arc<dyn Log>,
    waiting: Arc<UnclaimedLog>,
    was_called: bool,
    is_held_up: Arc<AtomicBool>,
}

impl ReplicatedLog {
    pub(crate) fn new(leading: LeaderLog, was_called: bool) -> Self {
        let (disk, is_held_up) = (Arc::clone(leading.copy().disk()), Arc::clone(&leading.is_held_up));
        let leading = Some(Arc::new(FairLock::new(leading)));
        let waiting = Arc::new(UnclaimedLog { leading: Mutex::new(leading), taken: Condvar::new() });
        let beating = Arc::clone(&waiting);
        // Without this thread, a slow recovery may lose the leadership, and nothing else.
        let _ = thread::Builder::new()
            .name("upesi-log-beat".to_owned())
            .spawn(move || beat_until_taken(&beating));
        Self { copy: EmbeddedLog::for_reading(&disk), disk, waiting, was_called, is_held_up }
    }

    /// Whether the former leader handed over to this node, instead of falling silent.
    pub const fn was_called(&self) -> bool {
        self.was_called
    }

    /// The journal of this node's store. Call it once, before an engine claims the log.
    ///
    /// # Errors
    /// An engine has already claimed it.
    pub fn store(&self) -> Result<StoreLog, JournalError> {
        let waiting = self.waiting.lock();
        let leading = waiting.as_ref().ok_or_else(|| JournalError::Superseded { by: String::new() })?;
        let (last_seq, last_time_ns) = leading.turn().copy().store_end();
        Ok(StoreLog { appender: Box::new(OfStore(Arc::clone(leading))), last_seq, last_time_ns })
    }
}

/// Appends changes of the store to the log, and to this node's copy of them.
pub struct StoreLog {
    /// The right to append.
    pub appender: Box<dyn Appender>,
    /// The last record; 0 before the first.
    pub last_seq: u64,
    /// Its time, in nanoseconds since 1970.
    pub last_time_ns: i64,
}

/// Sends heartbeats until the leadership was claimed or lost.
fn beat_until_taken(waiting: &UnclaimedLog) {
    let mut leading = waiting.lock();
    while leading.as_ref().is_some_and(|leading| leading.turn().beat_if_due().is_ok()) {
        leading = waiting.taken.wait_timeout(leading, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Log for ReplicatedLog {
    /// May succeed once: a node that lost the leadership must stand by again.
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError> {
        let mut waiting = self.waiting.lock();
        let leading = waiting.clone().ok_or_else(|| JournalError::Superseded { by: String::new() })?;
        let last_seq = leading.turn().expect_record(known_durable_seq)?;
        *waiting = None;
        self.waiting.taken.notify_all();
        Ok(ClaimedLog { appender: Box::new(OfEngine(leading)), last_seq, torn: None })
    }

    fn oldest_seq(&self) -> Result<Option<u64>, JournalError> {
        self.copy.oldest_seq()
    }

    fn read_from(&self, seq: u64) -> Box<dyn LogReader> {
        self.copy.read_from(seq)
    }

    fn read_once_from(&self, seq: u64) -> Box<dyn LogReader> {
        self.copy.read_once_from(seq)
    }

    fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::Acquire)
    }

    fn trim(&self, seq: u64) -> Result<usize, JournalError> {
        upesi_journal::delete_segments_below(&*self.disk, seq)
    }
}
