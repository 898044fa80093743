//! A program whose test hangs: its processes, their stacks, and their end.
//!
//! Each program has a mark in its environment. Its processes inherit the mark, so that all of them are found. This
//! includes processes that have lost their parent, such as brokers.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::root;

/// The variable with the mark.
pub const MARK: &str = "TEST_PROGRAM";
/// Number of attempts, because a process may start others while it is being ended.
const ROUNDS: u32 = 10;

/// The processes with a mark. On systems without `/proc` there are none.
pub fn processes(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_mark = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    names.filter(has_mark).collect()
}

/// The stacks of all threads of the processes with a mark.
pub fn stacks(mark: &str) -> String {
    let numbers = processes(mark).into_iter().map(|process| process.to_string());
    match Command::new(root().join(".ci/stacks")).args(numbers).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!(".ci/stacks: {error}"),
    }
}

/// Kills all processes with a mark.
pub fn kill(mark: &str) {
    for _ in 0..ROUNDS {
        let running = processes(mark);
        if running.is_empty() {
            return;
        }
        for process in running.into_iter().filter_map(Pid::from_raw) {
            // An error means that the process has ended in the meantime.
            let _ = kill_process(process, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
