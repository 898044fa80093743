//! Takes samples for a while, and holds their memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ProfileError;
use crate::signal::{Ticking, zeros};

/// Size of the copied part of a stack, in bytes. Deeper frames are lost.
pub(crate) const STACK_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of samples of a profile. Together with their stacks, they need 64 MiB. The kernel provides only the
/// part that is written, and gets it back at the end of the profile.
const SAMPLES_MAX: usize = 4096;
/// Maximum number of samples per second of CPU time. The number does not divide the usual rates of timers. Otherwise,
/// work that a timer starts would be in every sample or in none.
const HERTZ_MAX: u64 = 199;
const HERTZ_MIN: u64 = 19;
/// Interval between the checks whether the profile is still wanted.
const GLANCE_INTERVAL: Duration = Duration::from_millis(100);

const SUPPORTED: bool = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));

/// Held while a profile is running, because only one can run at a time.
static TAKING: Mutex<()> = Mutex::new(());

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) program_counter: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) frame_pointer: u64,
    /// The link register, on processors that have one.
    pub(crate) link: u64,
}

#[derive(Debug, Default)]
struct Slot {
    program_counter: AtomicU64,
    stack_pointer: AtomicU64,
    frame_pointer: AtomicU64,
    link: AtomicU64,
    thread: AtomicI32,
    /// Size of the stack in bytes, plus 1; 0 until the slot is filled.
    filled: AtomicU32,
}

/// Memory to which the handler writes samples.
#[derive(Debug)]
pub(crate) struct Buffer {
    next: AtomicUsize,
    slots: Box<[Slot]>,
    stacks: Box<[AtomicU64]>,
}

/// A sample in its raw form.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) registers: Registers,
    pub(crate) thread: i32,
    /// Words of the stack, upwards from the stack pointer.
    pub(crate) stack: Vec<u64>,
}

/// All samples of a profile.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) samples: Vec<Sample>,
    /// Ticks whose sample did not fit into the buffer.
    pub(crate) lost: usize,
    pub(crate) hertz: u64,
    pub(crate) duration: Duration,
}

impl Buffer {
    fn new(samples_max: usize) -> Self {
        let slots = (0..samples_max).map(|_| Slot::default()).collect();
        let words = samples_max * STACK_BYTES_MAX / size_of::<u64>();
        Self { next: AtomicUsize::new(0), slots, stacks: zeros(words) }
    }

    /// Reserves a slot for the caller; `None` if all are reserved.
    pub(crate) fn reserve(&self) -> Option<usize> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        (slot < self.slots.len()).then_some(slot)
    }

    /// Address of the [`STACK_BYTES_MAX`] bytes of a slot.
    pub(crate) fn stack_of(&self, slot: usize) -> *mut u8 {
        let words = STACK_BYTES_MAX / size_of::<u64>();
        self.stacks[slot * words..(slot + 1) * words].as_ptr().cast_mut().cast()
    }

    pub(crate) fn fill(&self, slot: usize, registers: &Registers, thread: i32, bytes: usize) {
        let Some(slot) = self.slots.get(slot) else { return };
        slot.program_counter.store(registers.program_counter, Ordering::Relaxed);
        slot.stack_pointer.store(registers.stack_pointer, Ordering::Relaxed);
        slot.frame_pointer.store(registers.frame_pointer, Ordering::Relaxed);
        slot.link.store(registers.link, Ordering::Relaxed);
        slot.thread.store(thread, Ordering::Relaxed);
        slot.filled.store(u32::try_from(bytes).unwrap_or(0) + 1, Ordering::Release);
    }

    fn samples(&self) -> Vec<Sample> {
        let words_per_slot = STACK_BYTES_MAX / size_of::<u64>();
        let taken = self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let bytes = slot.filled.load(Ordering::Acquire).checked_sub(1)? as usize;
            let words = &self.stacks[index * words_per_slot..][..bytes.min(STACK_BYTES_MAX) / 8];
            Some(Sample {
                registers: Registers {
                    program_counter: slot.program_counter.load(Ordering::Relaxed),
                    stack_pointer: slot.stack_pointer.load(Ordering::Relaxed),
                    frame_pointer: slot.frame_pointer.load(Ordering::Relaxed),
                    link: slot.link.load(Ordering::Relaxed),
                },
                thread: slot.thread.load(Ordering::Relaxed),
                stack: words.iter().map(|word| word.load(Ordering::Relaxed)).collect(),
            })
        });
        taken.collect()
    }

    fn lost(&self) -> usize {
        self.next.load(Ordering::Relaxed).saturating_sub(self.slots.len())
    }
}

/// The highest rate at which the samples fit into the buffer if all cores are busy for the whole time.
fn hertz(seconds: u64, cores: u64) -> u64 {
    (SAMPLES_MAX as u64 / (seconds.max(1) * cores.max(1))).clamp(HERTZ_MIN, HERTZ_MAX)
}

/// Takes samples for this long, or until the profile is no longer wanted.
pub(crate) fn sample(duration: Duration, is_wanted: impl Fn() -> bool) -> Result<Samples, ProfileError> {
    if !SUPPORTED {
        return Err(ProfileError::Unsupported);
    }
    let _taking = TAKING.try_lock().map_err(|_| ProfileError::Busy)?;
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let hertz = hertz(duration.as_secs(), cores);
    let start = Instant::now();
    let interval = Duration::from_micros(1_000_000 / hertz);
    let ticking =
        Ticking::start(Box::new(Buffer::new(SAMPLES_MAX)), interval).map_err(ProfileError::Kernel)?;
    while let Some(left) = duration.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        if !is_wanted() {
            return Err(ProfileError::Abandoned);
        }
        thread::sleep(left.min(GLANCE_INTERVAL));
    }
    let duration = start.elapsed();
    let Some(buffer) = ticking.stop() else { return Err(ProfileError::Busy) };
    Ok(Samples { samples: buffer.samples(), lost: buffer.lost(), hertz, duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hertz_is_as_high_as_the_buffer_allows() {
        for (seconds, cores, expected) in [(1, 1, 199), (10, 2, 199), (30, 4, 34), (60, 2, 34), (60, 64, 19)]
        {
            assert_eq!(hertz(seconds, cores), expected, "{seconds} s on {cores} cores");
        }
    }

    #[test]
    fn buffer_that_is_full_counts_lost_samples() {
        let buffer = Buffer::new(2);
        assert_eq!((buffer.reserve(), buffer.reserve(), buffer.reserve()), (Some(0), Some(1), None));
        let registers = Registers { program_counter: 7, ..Registers::default() };
        buffer.fill(1, &registers, 42, 24);
        let samples = buffer.samples();
        // A slot that was reserved and never filled is not a sample.
        assert_eq!((samples.len(), buffer.lost()), (1, 1));
        assert_eq!((samples[0].registers.program_counter, samples[0].thread), (7, 42));
        assert_eq!(samples[0].stack, [0, 0, 0]);
    }
}
