//! Memory for samples, and the time in which they are taken.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ProfileError;
use crate::signal::{Ticking, zeros};

/// How much of a stack is kept, in bytes; what lies deeper is not seen.
pub(crate) const STACK_BYTES_MAX: usize = 16 * 1024;
/// Samples of one profile. Together with the stacks, 64 MiB, used only as far as samples come, and given back at its
/// end.
const SAMPLES_MAX: usize = 4096;
/// Samples per second of CPU time. Not a divisor of usual timers' rates, so that work done by a timer is neither always
/// seen nor never.
const HERTZ_MAX: u64 = 199;
const HERTZ_MIN: u64 = 19;
/// How often it is asked whether the profile is still wanted.
const GLANCE_INTERVAL: Duration = Duration::from_millis(100);

const SUPPORTED: bool = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));

/// One at a time.
static TAKING: Mutex<()> = Mutex::new(());

/// The registers that unwinding begins with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) program_counter: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) frame_pointer: u64,
    /// The link register, where there is one.
    pub(crate) link: u64,
}

#[derive(Debug, Default)]
struct Slot {
    program_counter: AtomicU64,
    stack_pointer: AtomicU64,
    frame_pointer: AtomicU64,
    link: AtomicU64,
    thread: AtomicI32,
    /// Bytes of stack, and 1; 0 until the slot is filled.
    filled: AtomicU32,
}

/// Where the handler puts samples.
#[derive(Debug)]
pub(crate) struct Buffer {
    next: AtomicUsize,
    slots: Box<[Slot]>,
    stacks: Box<[AtomicU64]>,
}

/// A sample as it was taken.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) registers: Registers,
    pub(crate) thread: i32,
    /// The words of the stack, from the stack pointer up.
    pub(crate) stack: Vec<u64>,
}

/// All samples of a profile.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) samples: Vec<Sample>,
    /// Ticks for which there was no room.
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

    /// A slot for the caller alone; `None` when all are taken.
    pub(crate) fn reserve(&self) -> Option<usize> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        (slot < self.slots.len()).then_some(slot)
    }

    /// The [`STACK_BYTES_MAX`] bytes of a slot.
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

/// As often as the memory allows when all cores are busy for the whole time.
fn hertz(seconds: u64, cores: u64) -> u64 {
    (SAMPLES_MAX as u64 / (seconds.max(1) * cores.max(1))).clamp(HERTZ_MIN, HERTZ_MAX)
}

/// Takes samples for this long, or until they are not wanted any more.
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
    fn a_profile_fits_its_memory_where_it_can() {
        for (seconds, cores, expected) in [(1, 1, 199), (10, 2, 199), (30, 4, 34), (60, 2, 34), (60, 64, 19)]
        {
            assert_eq!(hertz(seconds, cores), expected, "{seconds} s on {cores} cores");
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let buffer = Buffer::new(2);
        assert_eq!((buffer.reserve(), buffer.reserve(), buffer.reserve()), (Some(0), Some(1), None));
        let registers = Registers { program_counter: 7, ..Registers::default() };
        buffer.fill(1, &registers, 42, 24);
        let samples = buffer.samples();
        // A slot that was reserved and never filled is no sample.
        assert_eq!((samples.len(), buffer.lost()), (1, 1));
        assert_eq!((samples[0].registers.program_counter, samples[0].thread), (7, 42));
        assert_eq!(samples[0].stack, [0, 0, 0]);
    }
}
