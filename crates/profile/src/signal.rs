//! The signal handler and its timer.
//!
//! The handler may interrupt anything, an allocation or a lock included, so behind its gate it does three things
//! only: it takes the next slot by an atomic addition, stores the registers that the kernel saved, and asks the
//! kernel to copy the top of the stack into the slot. The copy is a system call, because reading beyond the end of
//! a stack would be a fault, and the call merely gives back fewer bytes.

#![allow(unsafe_code, reason = "a signal handler cannot be installed without it")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::time::Duration;

use libc::{c_int, c_void, iovec, itimerval, siginfo_t, timeval, ucontext_t};

use crate::gate::Gate;
use crate::sampler::{Buffer, Registers, STACK_BYTES_MAX};

/// The least that memory is protected by; a read within one such piece succeeds whole or fails whole.
const PAGE_BYTES: usize = 4096;
const PIECES: usize = STACK_BYTES_MAX / PAGE_BYTES;

/// Leads handlers to where samples go; closed while no profile is taken.
static GATE: Gate<Buffer> = Gate::new(AtomicPtr::new(ptr::null_mut()), AtomicUsize::new(0));

/// Sends samples into the buffer while it lives.
#[derive(Debug)]
pub(crate) struct Ticking {
    buffer: *mut Buffer,
}

impl Ticking {
    /// Begins to take samples, one for each `interval` of CPU time that the process uses. The caller sees to it that
    /// only one exists at a time.
    pub(crate) fn start(buffer: Box<Buffer>, interval: Duration) -> io::Result<Self> {
        install()?;
        let ticking = Self { buffer: Box::into_raw(buffer) };
        GATE.open(ticking.buffer);
        set_timer(interval)?;
        Ok(ticking)
    }

    /// Ends it and gives the samples.
    pub(crate) fn stop(mut self) -> Option<Box<Buffer>> {
        self.take_back()
    }

    fn take_back(&mut self) -> Option<Box<Buffer>> {
        let buffer = std::mem::replace(&mut self.buffer, ptr::null_mut());
        if buffer.is_null() {
            return None;
        }
        // Stopping a timer does not fail. A signal that is under way finds no buffer, or is waited for.
        let _ = set_timer(Duration::ZERO);
        GATE.close();
        // SAFETY: the pointer is of `Box::into_raw` in `start`, is taken back once as it was replaced above, and no
        // handler has it: those that the gate let in have left, later ones find it closed (`gate.rs`, which a model
        // runs).
        Some(unsafe { Box::from_raw(buffer) })
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

/// So many words of zero. Memory of this size comes from the kernel as zeros, and what is never written is never
/// there, which a loop that writes zeros would spoil.
pub(crate) fn zeros(words: usize) -> Box<[AtomicU64]> {
    let plain = Box::into_raw(vec![0_u64; words].into_boxed_slice());
    // SAFETY: the pointer is of `Box::into_raw`, and the two types have the same size and alignment on the processors
    // that the sampler runs on, checked below.
    unsafe { Box::from_raw(plain as *mut [AtomicU64]) }
}

const _: () =
    assert!(align_of::<u64>() == align_of::<AtomicU64>() && size_of::<u64>() == size_of::<AtomicU64>());

/// Installs the handler. It stays: a signal that arrives late would end the process otherwise.
fn install() -> io::Result<()> {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_tick;
    // SAFETY: all members of `sigaction` may be zero, and those that matter are set before it is used; both pointers
    // are valid for the calls, and the handler has the signature that SA_SIGINFO asks for.
    let result = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as *const () as usize;
        // System calls that can go on after the handler do.
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
    // SAFETY: the pointer is valid for the call; null asks for no former value.
    let result = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_tick(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let buffer = GATE.enter();
    if !buffer.is_null() {
        // SAFETY: the buffer lives until this handler leaves the gate; the kernel gives a handler with SA_SIGINFO a
        // valid `ucontext_t`; `errno` is this thread's and is put back, as the interrupted code may be about to read
        // it.
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
    // SAFETY: asks for a number, which is all that the call gives.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let bytes = copy_stack(registers.stack_pointer, buffer.stack_of(slot));
    buffer.fill(slot, &registers, i32::try_from(thread).unwrap_or(0), bytes);
}

/// Copies what lies at and above the stack pointer, at most [`STACK_BYTES_MAX`]. Gives the number of bytes.
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
    // SAFETY: `target` is a slot of STACK_BYTES_MAX bytes that this handler alone has reserved, and the pieces are not
    // longer than that together. The addresses on the other side are the kernel's to check: it stops at the first it
    // cannot read. A thread may always read its own process.
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
