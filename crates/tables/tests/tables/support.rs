//! Copies of directories, and processes that are killed while they write.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of a child process.
const DIRECTORY: &str = "UPESI_TABLES_CRASH_DIRECTORY";

/// Copies a directory tree as it is on disk at one moment, as after a kill. Begins again if files were added or removed
/// meanwhile, as they are while a store merges.
pub fn copy_directory(from: &Path, to: &Path) {
    for _ in 0..1_000 {
        match copy_once(from, to) {
            Ok(true) => return,
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{}: {error}", from.display()),
            _ => std::fs::remove_dir_all(to).unwrap(),
        }
    }
    panic!("files come and go in {}", from.display());
}

/// Whether the same files existed before and after.
fn copy_once(from: &Path, to: &Path) -> io::Result<bool> {
    std::fs::create_dir_all(to)?;
    let before = names_below(from)?;
    for (name, is_directory) in &before {
        if *is_directory {
            std::fs::create_dir(to.join(name))?;
        } else {
            std::fs::copy(from.join(name), to.join(name))?;
        }
    }
    Ok(names_below(from)? == before)
}

/// All entries below a directory, each directory before its files, and whether it is a directory.
fn names_below(directory: &Path) -> io::Result<BTreeMap<PathBuf, bool>> {
    let mut names = BTreeMap::new();
    for file in std::fs::read_dir(directory)? {
        let file = file?;
        let (name, is_directory) = (PathBuf::from(file.file_name()), file.file_type()?.is_dir());
        if is_directory {
            let below = names_below(&file.path())?.into_iter();
            names.extend(below.map(|(each, is_directory)| (name.join(each), is_directory)));
        }
        names.insert(name, is_directory);
    }
    Ok(names)
}

/// In a child of [`run_and_kill`]: the directory for its files.
pub fn crash_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(Into::into)
}

/// In a child of [`run_and_kill`]: reports the durable number.
pub fn report_durable(durable: u64) {
    let line = format!("durable {durable}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Runs an otherwise ignored test of this program in its own process. Kills the process when it has reported
/// `at_least`, and returns the last number that it reported.
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
