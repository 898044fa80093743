//! Engine and store append in turns, one entry at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use upesi_journal::{AppendedBatch, Appender, Batch, JournalError, Maintenance};

use crate::leading::LeaderLog;

/// A fair lock: a waiting thread gets it before the thread that had it last. An ordinary lock would leave the store
/// without a turn while the engine is busy.
pub(crate) struct FairLock<T> {
    gate: Mutex<()>,
    value: Mutex<T>,
}

impl<T> FairLock<T> {
    pub const fn new(value: T) -> Self {
        Self { gate: Mutex::new(()), value: Mutex::new(value) }
    }

    /// Waits until the current append has ended.
    pub fn turn(&self) -> MutexGuard<'_, T> {
        let _next = lock(&self.gate);
        lock(&self.value)
    }
}

/// Appends the engine's records.
pub(crate) struct OfEngine(pub Arc<FairLock<LeaderLog>>);

impl Appender for OfEngine {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        self.0.turn().append(batch)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.0.turn().beat()
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.0.turn().reserve(body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        self.0.turn().copy().has_room_for(body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.0.turn().maintain()
    }

    fn hand_over(&mut self, successor: Option<u32>) -> Result<(), JournalError> {
        self.0.turn().hand_over(successor)
    }
}

/// Appends the store's records. The engine sends the heartbeats.
pub(crate) struct OfStore(pub Arc<FairLock<LeaderLog>>);

impl Appender for OfStore {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        self.0.turn().append_store(batch)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.0.turn().beat()
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.0.turn().reserve_store(body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        self.0.turn().copy().store_has_room_for(body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.0.turn().maintain_store()
    }
}

/// The guarded data is consistent after every call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Time limit for the start of a thread.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn waiting_thread_is_next() {
        let turns = Arc::new(FairLock::new(Vec::new()));
        let mut mine = turns.turn();
        let other = Arc::clone(&turns);
        let waiting = thread::spawn(move || other.turn().push("the other"));
        let until = Instant::now() + LIMIT;
        while turns.gate.try_lock().is_ok() {
            assert!(Instant::now() < until, "no thread waits at the gate");
            thread::yield_now();
        }
        mine.push("first");
        drop(mine);
        turns.turn().push("first again");
        waiting.join().expect("no panic");
        assert_eq!(*turns.turn(), ["first", "the other", "first again"]);
    }
}
