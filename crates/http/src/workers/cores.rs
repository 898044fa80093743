//! Which core a worker keeps to.

use rustix::io;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores that a thread may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores(CpuSet);

impl Cores {
    /// The cores, if there are as many as workers. With fewer workers, which core would be free cannot be known
    /// beforehand; with more, or where a quota grants a part of many cores, they would only be in each other's way.
    pub(super) fn for_each_of(workers: usize) -> Option<Self> {
        Self::of_this_thread().ok().filter(|cores| cores.numbers().count() == workers)
    }

    pub(super) fn of_this_thread() -> io::Result<Self> {
        sched_getaffinity(None).map(Self)
    }

    /// Their numbers, ascending.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core))
    }

    /// Keeps the calling thread to the core at `index` among these.
    pub(super) fn keep_to(&self, index: usize) {
        let Some(core) = self.numbers().nth(index) else { return };
        let mut own = CpuSet::new();
        own.set(core);
        Self(own).spread();
    }

    /// Lets the calling thread run on all of these. A worker that is refused them works all the same.
    pub(super) fn spread(&self) {
        if let Err(error) = sched_setaffinity(None, &self.0) {
            tracing::debug!(%error, "a worker runs on any core");
        }
    }
}
