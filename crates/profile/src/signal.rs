//! The signal handler and its timer.
//!
//! The handler may interrupt any code, even an allocation or a locked section. Inside its gate, it therefore does only
//! three things. It reserves the next slot by an atomic addition, stores the registers that the kernel saved, and lets
//! the kernel copy the top of the stack into the slot. The copy is a system call, because a read beyond the end of the
//! stack would be a fault. The system call only copies fewer bytes.

#![allow(unsafe_code, reason = "a signal handler cannot be installed without it")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::time::Duration;

use libc::{c_int, c_void, iovec, itimerval, siginfo_t, timeval, ucontext_t};

use crate::gate::Gate;
use crate::sampler::{Buffer, Registers, STACK_BYTES_MAX};

/// The smallest unit of memory protection: a read within one page succeeds or fails as a whole.
const PAGE_BYTES: usize = 4096;
const PIECES: usize = STACK_BYTES_MAX / PAGE_BYTES;

/// Leads handlers to the buffer; closed while no profile is running.
static GATE: Gate<Buffer> = Gate::new(AtomicPtr::new(ptr::null_mut()), AtomicUsize::new(0));

/// Writes samples into the buffer while it exists.
#[derive(Debug)]
pub(crate) struct Ticking {
    buffer: *mut Buffer,
}

impl Ticking {
    /// Starts to take samples, one for each `interval` of CPU time that the process uses. The caller ensures that only
    /// one instance exists at a time.
    pub(crate) fn start(buffer: Box<Buffer>, interval: Duration) -> io::Result<Self> {
        install()?;
        let ticking = Self { buffer: Box::into_raw(buffer) };
        GATE.open(ticking.buffer);
        set_timer(interval)?;
        Ok(ticking)
    }

    /// Stops and returns the samples.
    pub(crate) fn stop(mut self) -> Option<Box<Buffer>> {
        self.take_back()
    }

    fn take_back(&mut self) -> Option<Box<Buffer>> {
        let buffer = std::mem::replace(&mut self.buffer, ptr::null_mut());
        if buffer.is_null() {
            return None;
        }
        // Stopping a timer does not fail. A pending signal finds no buffer, or `close` waits for its handler.
        let _ = set_timer(Duration::ZERO);
        GATE.close();
        // SAFETY: the pointer comes from `Box::into_raw` in `start`. It is taken back only once, because it was
        // replaced above. No handler has it: handlers inside the gate have left, and later ones find the gate closed
        // (`gate.rs`, checked by a model).
        Some(unsafe { Box::from_raw(buffer) })
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

/// Allocates this many zero words. The kernel provides memory of this size filled with zeros, and only when it is first
/// written. A loop that writes zeros would use all of it.
pub(crate) fn zeros(words: usize) -> Box<[AtomicU64]> {
    let plain = Box::into_raw(vec![0_u64; words].into_boxed_slice());
    // SAFETY: the pointer comes from `Box::into_raw`, and the two types have the same size and alignment on the
    // processors that the sampler supports. The assertion below checks this.
    unsafe { Box::from_raw(plain as *mut [AtomicU64]) }
}

const _: () =
    assert!(align_of::<u64>() == align_of::<AtomicU64>() && size_of::<u64>() == size_of::<AtomicU64>());

/// Installs the handler permanently: without it, a late signal would end the process.
fn install() -> io::Result<()> {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_tick;
    // SAFETY: all members of `sigaction` may be zero, and the relevant ones are set before it is used. Both pointers
    // are valid for the calls, and the handler has the signature that SA_SIGINFO requires.
    let result = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as *const () as usize;
        // The kernel restarts interrupted system calls if it can.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_timer(interval: Duration) -> io::Result<()> {
    let micros = libc::suseconds_t::from(interval.subsec_micros());
    let time = timeval { tv_sec: interval.as_secs().try_into().unwrap_or(0), tv_usec: micros };
    let timer = itimerval { it_interval: time, it_value: time };
    // SAFETY: the pointer is valid for the call; null means that the former value is not needed.
    let result = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_tick(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let buffer = GATE.enter();
    if !buffer.is_null() {
        // SAFETY: the buffer lives until this handler leaves the gate, and the kernel passes a valid `ucontext_t` to a
        // handler with SA_SIGINFO. `errno` belongs to this thread. It is restored, because the interrupted code may be
        // about to read it.
        unsafe {
            let errno = *libc::__errno_location();
            take_sample(&*buffer, &*context.cast::<ucontext_t>());
            *libc::__errno_location() = errno;
        }
    }
    GATE.leave();
}

fn take_sample(buffer: &Buffer, context: &ucontext_t) {
    let Some(slot) = buffer.reserve() else { return };
    let registers = registers(context);
    // SAFETY: the call takes no pointer and only returns a number.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let bytes = copy_stack(registers.stack_pointer, buffer.stack_of(slot));
    buffer.fill(slot, &registers, i32::try_from(thread).unwrap_or(0), bytes);
}

/// Copies at most [`STACK_BYTES_MAX`] from the stack pointer upwards. Returns the number of bytes.
fn copy_stack(stack_pointer: u64, target: *mut u8) -> usize {
    let Ok(start) = usize::try_from(stack_pointer) else { return 0 };
    let first = PAGE_BYTES - start % PAGE_BYTES;
    let mut pieces = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PIECES];
    let mut at = start;
    for (index, piece) in pieces.iter_mut().enumerate() {
        let length = if index == 0 { first } else { PAGE_BYTES };
        *piece = iovec { iov_base: ptr::without_provenance_mut(at), iov_len: length };
        at = at.wrapping_add(length);
    }
    let local = iovec { iov_base: target.cast(), iov_len: STACK_BYTES_MAX };
    // SAFETY: only this handler has reserved `target`, a slot of STACK_BYTES_MAX bytes, and the pieces together are not
    // longer. The kernel checks the addresses to read and stops at the first invalid one. A thread may always read its
    // own process.
    let copied = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const local,
            1,
            pieces.as_ptr(),
            PIECES as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn registers(context: &ucontext_t) -> Registers {
    let register = |index: c_int| {
        let value = context.uc_mcontext.gregs[usize::try_from(index).unwrap_or(0)];
        value.cast_unsigned()
    };
    Registers {
        program_counter: register(libc::REG_RIP),
        stack_pointer: register(libc::REG_RSP),
        frame_pointer: register(libc::REG_RBP),
        link: 0,
    }
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn registers(context: &ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        program_counter: machine.pc,
        stack_pointer: machine.sp,
        frame_pointer: machine.regs[29],
        link: machine.regs[30],
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn registers(_: &ucontext_t) -> Registers {
    Registers::default()
}
