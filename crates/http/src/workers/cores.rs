//! Assigns workers to cores.

use rustix::io;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Set of cores that a thread may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores(CpuSet);

impl Cores {
    /// The cores, if there are as many as workers. With fewer workers, the free core cannot be known in advance. With
    /// more workers, or if a quota grants a part of many cores, workers would only obstruct each other.
    pub(super) fn for_each_of(workers: usize) -> Option<Self> {
        Self::of_this_thread().ok().filter(|cores| cores.numbers().count() == workers)
    }

    pub(super) fn of_this_thread() -> io::Result<Self> {
        sched_getaffinity(None).map(Self)
    }

    /// Numbers of the cores, ascending.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core))
    }

    /// Binds the calling thread to the core at `index` in this set.
    pub(super) fn keep_to(&self, index: usize) {
        let Some(core) = self.numbers().nth(index) else { return };
        let mut own = CpuSet::new();
        own.set(core);
        Self(own).spread();
    }

    /// Lets the calling thread run on all cores of this set. If the system does not allow this, the worker still works.
    pub(super) fn spread(&self) {
        if let Err(error) = sched_setaffinity(None, &self.0) {
            tracing::debug!(%error, "cannot pin a worker to a core; it runs on any core");
        }
    }
}
