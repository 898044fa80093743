//! The gate to the profiler's memory: whoever is led there finds it made, and nobody is there any more when it is
//! given back.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicPtr, AtomicUsize};

use crate::check;
use crate::gate::Gate;

/// Stands for the memory of one profile, of which the gate knows the address only. Nothing here is ordered but by the
/// gate.
struct Buffer {
    is_made: AtomicUsize,
    samples: AtomicUsize,
}

/// The gate, and the memory of the profiles that are taken one after the other.
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

    /// What the handler does; tells into which buffer it put a sample.
    fn tick(&self) -> Option<usize> {
        let number = self.gate.enter().addr().checked_sub(1);
        if let Some(number) = number {
            let buffer = &self.buffers[number];
            assert_eq!(buffer.is_made.load(Ordering::Relaxed), 1, "led to what is not there yet");
            buffer.samples.fetch_add(1, Ordering::Relaxed);
        }
        self.gate.leave();
        number
    }

    /// What a profile does; gives the samples that the buffer had when it was given back.
    fn take(&self, number: usize) -> usize {
        let buffer = &self.buffers[number];
        buffer.is_made.store(1, Ordering::Relaxed);
        self.gate.open(ptr::without_provenance_mut(number + 1));
        self.gate.close();
        buffer.samples.load(Ordering::Relaxed)
    }
}

/// One profile after the other while threads are interrupted. A sample that comes after its buffer was given back, or
/// is not seen by then, is missing in what was taken.
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
fn memory_is_given_back_when_no_handler_is_inside() {
    check(3, || profiles(1, 1, 1));
    check(2, || profiles(1, 2, 1));
}

#[test]
fn a_late_handler_finds_the_next_profile_or_none() {
    check(2, || profiles(2, 1, 2));
}
