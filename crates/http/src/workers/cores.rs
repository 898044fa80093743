//! Which core a worker keeps to.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores(CpuSet);

impl Cores {
    /// The cores, if there are as many as workers. With fewer workers, which core would be free cannot be known
    /// beforehand; with more, or where a quota grants a part of many cores, they would only be in each other's way.
    pub(super) fn for_each_of(workers: usize) -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        (usize::try_from(allowed.count()) == Ok(workers)).then_some(Self(allowed))
    }

    /// Keeps the calling thread to the core at `index` among these.
    pub(super) fn keep_to(&self, index: usize) {
        let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core)).nth(index) else { return };
        let mut own = CpuSet::new();
        own.set(core);
        apply(&own);
    }

    /// Lets the calling thread run on all of these.
    pub(super) fn spread(&self) {
        apply(&self.0);
    }
}

/// The cores that the calling thread may use.
#[cfg(test)]
pub(super) fn allowed() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// A worker that is refused its core works all the same.
fn apply(cores: &CpuSet) {
    if let Err(error) = sched_setaffinity(None, cores) {
        tracing::debug!(%error, "a worker runs on any core");
    }
}
