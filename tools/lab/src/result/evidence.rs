//! What measurements of the lab add to the evidence: one JSON file for each, with an entry for every run.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use crate::Environment;
use crate::result::schema::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use upesi_engine::{Clock, SystemClock};

use upesi_hub::exit::{Exit, Failure, Outcome};

/// What a file of evidence is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    /// The name of the file, without its ending.
    pub(crate) name: &'static str,
    /// What is measured.
    pub(crate) what: &'static str,
    /// The command that adds to the file.
    pub(crate) command: &'static str,
}

/// With what, where and when something was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// The commit that was measured; a `+` says that sources differed from it.
    pub commit: String,
    /// Processor, cores, kernel.
    pub machine: String,
    /// `debug` or `release`. Figures of a debug build say nothing.
    pub build: Name,
    /// When it ended, ISO 8601.
    pub date: String,
    /// Duration in seconds.
    pub duration_s: u64,
    /// What was run, with its arguments.
    pub command: String,
}

impl Provenance {
    /// Of what this process has done since `started`.
    pub(crate) fn since(started: Instant) -> Self {
        let environment = Environment::detect(None, String::new(), Path::new("."));
        Self {
            commit: upesi_hub::version::commit().unwrap_or("unknown").to_owned(),
            machine: environment.machine(),
            build: environment.build.profile,
            date: SystemClock.now().to_string(),
            duration_s: started.elapsed().as_secs().max(1),
            command: Environment::command(),
        }
    }
}

#[derive(Default, Deserialize, Serialize)]
struct Evidence {
    name: String,
    what: String,
    command: String,
    /// Oldest first.
    runs: Vec<Value>,
}

/// Adds a run to the file about a subject, which need not be there yet. The file is replaced at once.
pub(crate) fn add(directory: &Path, subject: &Subject, run: Value) -> Outcome {
    let path = directory.join(format!("{}.json", subject.name));
    let failed = |error: io::Error| Failure::new(Exit::InputOutput, format!("{}: {error}", path.display()));
    let mut evidence: Evidence = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            Failure::new(Exit::Data, format!("{} is no evidence: {error}", path.display()))
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Evidence::default(),
        Err(error) => return Err(failed(error)),
    };
    subject.name.clone_into(&mut evidence.name);
    subject.what.clone_into(&mut evidence.what);
    subject.command.clone_into(&mut evidence.command);
    evidence.runs.push(run);
    let text =
        serde_json::to_string_pretty(&evidence).map_err(|error| Failure::new(Exit::Software, error))?;
    let beside = path.with_extension("json.tmp");
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&beside, text + "\n"))
        .and_then(|()| fs::rename(&beside, &path))
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SUBJECT: Subject = Subject { name: "some", what: "something", command: "make some" };

    #[test]
    fn runs_are_added_to_those_before() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("evidence");
        for number in 1..=2 {
            add(&place, &SUBJECT, json!({"seed": number})).unwrap();
        }
        let bytes = fs::read(place.join("some.json")).unwrap();
        let evidence: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&evidence["name"], &evidence["command"]), (&json!("some"), &json!("make some")));
        assert_eq!(evidence["runs"], json!([{"seed": 1}, {"seed": 2}]));
        // What is there and is none is left alone.
        fs::write(place.join("some.json"), "[]").unwrap();
        assert_eq!(add(&place, &SUBJECT, json!({})).unwrap_err().exit, Exit::Data);
        assert_eq!(fs::read(place.join("some.json")).unwrap(), b"[]");
    }

    #[test]
    fn a_run_says_where_it_was() {
        let provenance = Provenance::since(Instant::now());
        assert!(provenance.machine.contains(" cores, Linux ") && !provenance.commit.is_empty());
        assert!(provenance.date.ends_with('Z') && provenance.duration_s == 1, "{provenance:?}");
        assert!(!provenance.command.starts_with('/'), "{provenance:?}");
    }
}
