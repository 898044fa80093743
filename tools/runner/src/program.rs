//! The programs with tests, as Cargo builds them.

use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo;
use crate::hang::{self, MARK};

/// The time between two looks at a build.
const TICK: Duration = Duration::from_millis(50);

/// A program with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// The folder of its crate. Its tests run there.
    pub folder: PathBuf,
    /// Its crate, without the prefix `upesi-`.
    pub package: String,
    /// Its name in the crate.
    pub target: String,
}

impl Program {
    /// Whether it is in a list of crates and targets.
    pub fn is_one_of(&self, list: &[(&str, &str)]) -> bool {
        list.iter().any(|(package, target)| self.package == *package && self.target == *target)
    }

    /// The name in reports: crate and target.
    pub fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }
}

/// Builds the programs that `cargo test` builds for these arguments, and lists them. Returns `None` if the build does
/// not finish before `end`. Cargo prints its messages.
///
/// # Errors
/// If the build fails.
pub fn build(selection: &[&str], end: Option<Instant>) -> Result<Option<Vec<Program>>, String> {
    let mark = format!("{}-build", std::process::id());
    let arguments = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    let mut command = cargo();
    command.args(arguments).args(selection).env(MARK, &mark).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cargo: {error}"))?;
    let mut output = child.stdout.take().expect("it is piped");
    let messages = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("cargo: {error}"))? {
            break status;
        }
        if end.is_some_and(|end| Instant::now() > end) {
            // Complete crates need not be built again.
            hang::kill(&mark);
            let _ = child.wait();
            return Ok(None);
        }
        thread::sleep(TICK);
    };
    let messages =
        messages.join().expect("the reader does not panic").map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the test programs were not built".to_owned());
    }
    Ok(Some(messages.lines().filter_map(program).collect()))
}

/// The program of a message of Cargo; `None` if the message is about something else.
pub fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = message["executable"].as_str()?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?.to_owned();
    Some(Program { path: path.into(), folder, package, target })
}
