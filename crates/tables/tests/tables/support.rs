//! Copies of directories, and processes that are killed while they write.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a child writes.
const DIRECTORY: &str = "UPESI_TABLES_CRASH_DIRECTORY";

/// Copies a directory tree, as it lies on disk: what a process that is killed now would leave.
pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_directory(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}

/// In a child of [`run_and_kill`]: the directory to write to.
pub fn crash_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(Into::into)
}

/// In a child of [`run_and_kill`]: reports how much is durable.
pub fn report_durable(durable: u64) {
    let line = format!("durable {durable}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Runs a test of this program, one that is ignored otherwise, in a process of its own. Kills the process once it
/// has reported `at_least` durable, and returns the last number that it reported.
pub fn run_and_kill(test: &str, directory: impl AsRef<OsStr>, at_least: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reported = 0;
    let mut killed = false;
    while let Some(Ok(line)) = lines.next() {
        if let Some((_, durable)) = line.split_once("durable ") {
            reported = durable.parse().unwrap();
        }
        if reported >= at_least && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child ended by itself at {reported}");
    reported
}
