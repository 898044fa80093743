//! System calls that fail, on the shipped binary: a library that is loaded in front of the C library's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support_crash::compile;

/// What a call sets `errno` to.
pub const INPUT_OUTPUT: i32 = 5;
/// There is no room.
pub const NO_SPACE: i32 = 28;
/// A write stores its first half and says so.
pub const SHORT: i32 = 0;
/// A sync says that all is well.
pub const UNNOTICED: i32 = 0;

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The calls, as the C library names them.
    pub calls: &'static str,
    /// A part of the path of the files; of renamed ones, of the new name.
    pub path: &'static str,
    /// The first that fails, counted from the moment at which it is armed.
    pub from: u64,
    /// How many fail; 0 for all from then on.
    pub count: u64,
    /// The error.
    pub errno: i32,
    /// Whether a sync that meets the fault also loses what was written to its file since the last that did not.
    pub loses: bool,
}

impl Fault {
    /// The same, and what was not synced is lost.
    pub const fn losing(self) -> Self {
        Self { loses: true, ..self }
    }
}

/// The library, and the switch that turns faults on.
pub struct Shim {
    library: PathBuf,
    switch: PathBuf,
    met: PathBuf,
}

impl Shim {
    /// Compiles it into a directory. `None` where there is no C compiler and the test may be left out.
    pub fn build(directory: &Path) -> Option<Self> {
        let library = compile(directory, "shim", include_str!("shim.c"))?;
        Some(Self { library, switch: directory.join("armed"), met: directory.join("met") })
    }

    /// Has a command meet a fault once it is armed.
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

    /// From now on calls fail.
    pub fn arm(&self) {
        File::create(&self.switch).unwrap();
    }

    /// How many calls have met a fault, in all processes so far.
    pub fn met(&self) -> u64 {
        fs::metadata(&self.met).map_or(0, |met| met.len())
    }

    /// And now no more.
    pub fn disarm(&self) {
        fs::remove_file(&self.switch).unwrap();
    }
}
