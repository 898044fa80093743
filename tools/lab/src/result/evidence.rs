//! The evidence of measurements and trials: one JSON file for each, with an entry for every run.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use upesi_engine::{Clock, SystemClock};
use upesi_process::exit::{Exit, Failure};

use crate::result::environment::Environment;

/// Evidence that cannot be read or extended.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not evidence: {source}", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("seeds from {from} on are in the evidence already: leave out --from, or choose {next} or more")]
    Overlap { from: u64, next: u64 },
}

impl From<EvidenceError> for Failure {
    fn from(error: EvidenceError) -> Self {
        let exit = match error {
            EvidenceError::Io { .. } => Exit::InputOutput,
            EvidenceError::Malformed { .. } => Exit::Data,
            EvidenceError::Overlap { .. } => Exit::Usage,
        };
        Self::new(exit, error)
    }
}

/// The subject of a file of evidence.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The name of the file, without its ending.
    pub name: &'static str,
    pub what: &'static str,
    /// The command that adds to the file.
    pub command: &'static str,
}

/// Program, place and time of a trial or measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The commit under test, with a `+` if sources differed from it.
    pub commit: String,
    pub machine: String,
    /// `debug` or `release`; empty in runs before this was recorded. Figures of a debug build are meaningless.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The command with its arguments; empty in runs before this was recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Time of the end, ISO 8601.
    pub date: String,
    pub duration_s: u64,
}

impl Provenance {
    /// The provenance of a run by this process that has just ended.
    pub fn now(duration: Duration) -> Self {
        let environment = Environment::detect(None, String::new(), Path::new("."));
        Self {
            commit: upesi_process::version::commit().unwrap_or("unknown").to_owned(),
            machine: environment.machine(),
            build: environment.build.profile.into_owned(),
            command: Environment::command(),
            date: SystemClock.now().to_string(),
            duration_s: duration.as_secs().max(1),
        }
    }
}

/// The contents of a file of evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence<R> {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub what: String,
    #[serde(default)]
    pub command: String,
    /// Oldest first.
    pub runs: Vec<R>,
}

impl<R: Serialize + DeserializeOwned> Evidence<R> {
    /// Reads the evidence in a directory; without a file it is empty. Fails if the file cannot be read.
    pub fn read(directory: &Path, name: &str) -> Result<Self, EvidenceError> {
        let nothing =
            Self { name: String::new(), what: String::new(), command: String::new(), runs: Vec::new() };
        Ok(read_file(directory, name)?.unwrap_or(nothing))
    }

    /// Adds a run to the file about a subject. The file need not exist. Fails if the file cannot be read or written.
    pub fn add(directory: &Path, subject: &Subject, run: R) -> Result<(), EvidenceError> {
        let mut runs = Self::read(directory, subject.name)?.runs;
        runs.push(run);
        let [name, what, command] = [subject.name, subject.what, subject.command].map(str::to_owned);
        write_file(directory, subject.name, &Self { name, what, command, runs })
    }
}

fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

/// The contents of a file of evidence; `None` if there is none. Fails if the file cannot be read.
pub fn read_file<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<Option<T>, EvidenceError> {
    let path = path(directory, name);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| EvidenceError::Malformed { path, source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(EvidenceError::Io { path, source }),
    }
}

/// Writes a file of evidence, replacing it atomically. Fails if the file cannot be written.
pub fn write_file(directory: &Path, name: &str, contents: &impl Serialize) -> Result<(), EvidenceError> {
    let path = path(directory, name);
    let beside = path.with_extension("json.tmp");
    let text = match serde_json::to_string_pretty(contents) {
        Ok(text) => text + "\n",
        Err(source) => return Err(EvidenceError::Malformed { path, source }),
    };
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&beside, text))
        .and_then(|()| fs::rename(&beside, &path))
        .map_err(|source| EvidenceError::Io { path, source })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SUBJECT: Subject = Subject { name: "some", what: "something", command: "make some" };

    #[test]
    fn run_is_added_to_earlier_ones() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("evidence");
        for number in 1..=2 {
            Evidence::add(&place, &SUBJECT, json!({"seed": number})).unwrap();
        }
        let bytes = fs::read(place.join("some.json")).unwrap();
        let evidence: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&evidence["name"], &evidence["command"]), (&json!("some"), &json!("make some")));
        assert_eq!(evidence["runs"], json!([{"seed": 1}, {"seed": 2}]));
        // An existing file that is not evidence is not changed.
        fs::write(place.join("some.json"), "[]").unwrap();
        let refused = Evidence::add(&place, &SUBJECT, json!({})).unwrap_err();
        assert_eq!(Failure::from(refused).exit, Exit::Data);
        assert_eq!(fs::read(place.join("some.json")).unwrap(), b"[]");
    }

    #[test]
    fn run_records_its_machine() {
        let provenance = Provenance::now(Duration::ZERO);
        assert!(provenance.machine.contains(" cores, Linux ") && !provenance.commit.is_empty());
        assert!(provenance.date.ends_with('Z') && provenance.duration_s == 1, "{provenance:?}");
        assert!(!provenance.command.starts_with('/'), "{provenance:?}");
    }
}
