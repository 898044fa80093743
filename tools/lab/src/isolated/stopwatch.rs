//! Times numbered things from one thread to another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::measurement::{nanosecond_histogram, record};

/// When each of so many things began, and how long they took. What is not numbered among them is not timed.
pub(super) struct Stopwatch {
    epoch: Instant,
    /// In nanoseconds since the epoch; 0 where it has not begun.
    begun_ns: Vec<AtomicU64>,
    taken_ns: Mutex<Histogram<u64>>,
}

impl Stopwatch {
    pub fn new(numbers: usize) -> Self {
        Self {
            epoch: Instant::now(),
            begun_ns: (0..numbers).map(|_| AtomicU64::new(0)).collect(),
            taken_ns: Mutex::new(nanosecond_histogram()),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    pub fn begin(&self, number: usize) {
        if let Some(begun) = self.begun_ns.get(number) {
            begun.store(self.now_ns(), Ordering::Release);
        }
    }

    pub fn end(&self, number: usize) {
        let begun_ns = self.begun_ns.get(number).map_or(0, |begun| begun.load(Ordering::Acquire));
        if begun_ns > 0 {
            let taken = Duration::from_nanos(self.now_ns().saturating_sub(begun_ns));
            record(&mut self.taken_ns.lock().unwrap_or_else(PoisonError::into_inner), taken);
        }
    }

    /// The times noted since this was last called.
    pub fn take(&self) -> Histogram<u64> {
        let mut taken_ns = self.taken_ns.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut taken_ns, nanosecond_histogram())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_ended_is_timed_and_nothing_else() {
        let watch = Stopwatch::new(2);
        watch.begin(0);
        watch.begin(7);
        [0, 1, 7].into_iter().for_each(|number| watch.end(number));
        let times = watch.take();
        assert_eq!(times.len(), 1, "1 never began, and there is no 7");
        assert!(times.min() > 0);
        assert_eq!(watch.take().len(), 0);
    }
}
