//! Failing system calls, with the shipped binary, by a library that is loaded before the C library.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support_crash::compile;

/// The value of `errno` after a call.
pub const INPUT_OUTPUT: i32 = 5;
/// The disk is full.
pub const NO_SPACE: i32 = 28;
/// A write stores its first half and reports this.
pub const SHORT: i32 = 0;
/// A sync reports success.
pub const UNNOTICED: i32 = 0;

/// The calls that fail, and the error.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The calls, with their names in the C library.
    pub calls: &'static str,
    /// A part of the files' path. For renames it is a part of the new name.
    pub path: &'static str,
    /// The first call that fails, counted from the arming of the fault.
    pub from: u64,
    /// Number of calls that fail; 0 for all from then on.
    pub count: u64,
    pub errno: i32,
    /// Whether a failed sync also loses the data that was written to its file since the last successful one.
    pub loses: bool,
}

impl Fault {
    /// The same fault, which also loses unsynced data.
    pub const fn losing(self) -> Self {
        Self { loses: true, ..self }
    }
}

/// The library, and the switch that arms faults.
pub struct Shim {
    library: PathBuf,
    switch: PathBuf,
    met: PathBuf,
}

impl Shim {
    /// Compiles the library into a directory. `None` if there is no C compiler and the test may be skipped.
    pub fn build(directory: &Path) -> Option<Self> {
        let library = compile(directory, "shim", include_str!("shim.c"))?;
        Some(Self { library, switch: directory.join("armed"), met: directory.join("met") })
    }

    /// Adds a fault to a command. Calls fail when the fault is armed.
    pub fn load(&self, command: &mut Command, fault: Fault) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAULT_ARMED", &self.switch)
            .env("FAULT_MET", &self.met)
            .env("FAULT_CALLS", fault.calls)
            .env("FAULT_PATH", fault.path)
            .env("FAULT_FROM", fault.from.to_string())
            .env("FAULT_COUNT", fault.count.to_string())
            .env("FAULT_ERRNO", fault.errno.to_string())
            .env("FAULT_LOSES", if fault.loses { "1" } else { "0" });
    }

    /// Arms the fault: from now on calls fail.
    pub fn arm(&self) {
        File::create(&self.switch).unwrap();
    }

    /// Number of calls that failed, in all processes so far.
    pub fn met(&self) -> u64 {
        fs::metadata(&self.met).map_or(0, |met| met.len())
    }

    /// Disarms the fault.
    pub fn disarm(&self) {
        fs::remove_file(&self.switch).unwrap();
    }
}
