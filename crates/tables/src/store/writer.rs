//! The writer's thread: each batch of queued updates is one record of the log and one sync.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{SystemTime, UNIX_EPOCH};

use upesi_journal::{Appender, Disk, JournalError, Maintenance, delete_segments_below};

use crate::TablesError;
use crate::store::Inner;
use crate::store::loading::Loading;
use crate::store::record;
use crate::store::transaction::{Action, Batch, Transaction};

/// Answers an update once its batch is durable, or reports why it is not.
pub(crate) type Completion = Box<dyn FnOnce(Result<(), TablesError>) + Send>;

/// Runs an update, or learns that it cannot run. Returns the function that answers it.
pub(crate) type Job = Box<dyn FnOnce(Result<Transaction<'_>, TablesError>) -> Completion + Send>;

/// State of the thread.
pub(crate) struct Worker {
    pub(crate) inner: Arc<Inner>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log: Box<dyn Appender>,
    pub(crate) last_seq: u64,
    pub(crate) last_time_ns: i64,
    pub(crate) frame: upesi_journal::Batch,
}

impl Worker {
    /// Runs until all senders of `jobs` are dropped and the queue is empty.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        // Prepares a segment before the first batch.
        self.keep_house();
        let mut loading = Loading::new(Arc::clone(&self.inner));
        loop {
            let first = match loading.step() {
                Some(pause) => jobs.recv_timeout(pause),
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let first = match first {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match self.inner.ready() {
                Ok(()) => self.work(first, jobs),
                Err(error) => {
                    self.inner.updates_shed.fetch_add(1, Ordering::Relaxed);
                    first(Err(error.clone()))(Err(error));
                }
            }
        }
    }

    /// Runs the first update and the ones queued behind it, makes them durable, and answers.
    fn work(&mut self, first: Job, jobs: &Receiver<Job>) {
        let mut batch = Batch::default();
        let options = &self.inner.options;
        let update_bytes_max = options.update_bytes_max;
        let mut completions = vec![first(Ok(Transaction::new(&mut batch, update_bytes_max)))];
        while completions.len() < options.batch_updates_max
            && batch.bytes() < options.batch_bytes_max
            && let Ok(job) = jobs.try_recv()
        {
            completions.push(job(Ok(Transaction::new(&mut batch, update_bytes_max))));
        }
        let committed = self.commit(batch);
        match &committed {
            Ok(_) => self.inner.updates.fetch_add(completions.len() as u64, Ordering::Relaxed),
            Err(TablesError::DiskFull { .. }) => {
                self.inner.updates_shed.fetch_add(completions.len() as u64, Ordering::Relaxed)
            }
            Err(error) => self.inner.poison(error),
        };
        let answer = committed.map(|actions| actions.into_iter().for_each(|action| action()));
        for complete in completions {
            complete(answer.clone());
        }
        if answer.is_ok() {
            self.keep_house();
        }
    }

    /// Logs and syncs the batch, then shows it to readers. Returns the requested actions.
    fn commit(&mut self, batch: Batch) -> Result<Vec<Action>, TablesError> {
        if batch.is_empty() {
            // The values that were read are valid unless another node has written since.
            self.log.confirm().map_err(|error| self.inner.of_journal(error))?;
            return Ok(batch.show());
        }
        let (seq, time_ns) = (self.last_seq + 1, self.time_ns());
        self.frame.reset(seq);
        self.frame.push(time_ns, |buffer| record::encode(batch.tables(), buffer));
        self.log.append(&mut self.frame).map_err(|error| self.inner.of_journal(error))?;
        (self.last_seq, self.last_time_ns) = (seq, time_ns);
        self.inner.batches.fetch_add(1, Ordering::Relaxed);
        Ok(batch.show())
    }

    /// The calendar time since 1970, but always later than the last record's.
    fn time_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        now.max(self.last_time_ns.saturating_add(1))
    }

    /// Work between batches: prepares the next segment, and writes sorted tables from changes in memory.
    fn keep_house(&mut self) {
        match self.try_keep_house() {
            // The disk is too full even to remove a segment; the next sorted tables are another opportunity.
            Ok(()) | Err(TablesError::DiskFull { .. }) => {}
            Err(error) => {
                self.inner.poison(&error);
            }
        }
    }

    fn try_keep_house(&mut self) -> Result<(), TablesError> {
        let tables = &self.inner.tables;
        let of_journal = |error: JournalError| self.inner.of_journal(error);
        while self.log.maintain().map_err(of_journal)? == Maintenance::Advanced {}
        if tables.pending_bytes() < self.inner.options.pending_bytes {
            return Ok(());
        }
        let watermark = self.last_seq;
        tables.flush(watermark)?;
        delete_segments_below(&*self.disk, watermark + 1).map_err(of_journal)?;
        Ok(())
    }
}
