//! The gate to the profiler's memory: a thread that enters finds the memory initialised, and no thread is inside when
//! it is released.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicPtr, AtomicUsize};

use crate::check;
use crate::gate::Gate;

/// Stands for the memory of one profile. The gate knows only its address, and only the gate orders accesses to it.
struct Buffer {
    is_made: AtomicUsize,
    samples: AtomicUsize,
}

/// The gate, and the memory of consecutive profiles.
struct Profiler {
    gate: Gate<()>,
    buffers: Vec<Buffer>,
}

impl Profiler {
    fn new(profiles: usize) -> Arc<Self> {
        let buffer = |_| Buffer { is_made: AtomicUsize::new(0), samples: AtomicUsize::new(0) };
        let gate = Gate::new(AtomicPtr::new(ptr::null_mut()), AtomicUsize::new(0));
        Arc::new(Self { gate, buffers: (0..profiles).map(buffer).collect() })
    }

    /// The work of the signal handler. Returns the index of the buffer that received a sample.
    fn tick(&self) -> Option<usize> {
        let number = self.gate.enter().addr().checked_sub(1);
        if let Some(number) = number {
            let buffer = &self.buffers[number];
            assert_eq!(buffer.is_made.load(Ordering::Relaxed), 1, "the gate led to uninitialised memory");
            buffer.samples.fetch_add(1, Ordering::Relaxed);
        }
        self.gate.leave();
        number
    }

    /// The work of a profile. Returns the number of samples in the buffer at its release.
    fn take(&self, number: usize) -> usize {
        let buffer = &self.buffers[number];
        buffer.is_made.store(1, Ordering::Relaxed);
        self.gate.open(ptr::without_provenance_mut(number + 1));
        self.gate.close();
        buffer.samples.load(Ordering::Relaxed)
    }
}

/// Takes one profile after the other while threads are interrupted. A sample that arrives after the release of its
/// buffer, or is not visible by then, is missing in the count.
fn profiles(profiles: usize, threads: usize, ticks: usize) {
    let profiler = Profiler::new(profiles);
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let profiler = Arc::clone(&profiler);
            loom::thread::spawn(move || (0..ticks).filter_map(|_| profiler.tick()).collect::<Vec<_>>())
        })
        .collect();
    let taken: Vec<_> = (0..profiles).map(|number| profiler.take(number)).collect();
    let mut put = vec![0; profiles];
    for thread in threads {
        thread.join().unwrap().into_iter().for_each(|number| put[number] += 1);
    }
    assert_eq!(taken, put);
}

#[test]
fn memory_is_released_when_no_handler_is_inside() {
    check(3, || profiles(1, 1, 1));
    check(2, || profiles(1, 2, 1));
}

#[test]
fn late_handler_finds_the_next_profile_or_none() {
    check(2, || profiles(2, 1, 2));
}
