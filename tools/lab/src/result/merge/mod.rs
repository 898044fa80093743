//! One result from those of several load generators that drove the same hub at the same time.
//!
//! What becomes of each member is decided in [`rules`], one line each; a member that nobody decided about is in no merged result.

mod computed;
#[cfg(test)]
mod documented;
mod load;
mod rules;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
mod timeline;

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use upesi_types::Timestamp;

use crate::result::SCHEMA_VERSION;
use crate::result::distribution::read_histogram;
use crate::result::schema::TimelineRow;
use crate::result::statistics::latency_histogram;

/// Largest result that is read, in bytes.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// Why results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("give two or more results, each from a load generator of its own")]
    TooFew,
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is no result.
    #[error("{path} is no result of this lab: {reason}")]
    NoResult {
        /// Which.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The results are of different things.
    #[error("{path} differs from the first result in {member}: they cannot be added up")]
    Different {
        /// Which.
        path: PathBuf,
        /// In what.
        member: &'static str,
    },
    /// A result is of something that generators do not do together.
    #[error("{path} cannot be merged: {reason}")]
    NotShared {
        /// Which.
        path: PathBuf,
        /// What it is, and what to do instead.
        reason: &'static str,
    },
}

/// Merges the results in directories (or of files), as docs/lab/result.md tells of each member.
///
/// # Errors
/// When one cannot be read or they are of different things.
pub fn merge(paths: &[PathBuf]) -> Result<Value, MergeError> {
    if paths.len() < 2 {
        return Err(MergeError::TooFew);
    }
    let together = Together::read(paths)?;
    let mut merged = rules::apply(&together);
    merged["merged_from"] = together.generators.len().into();
    merged["generators"] = together.generators.iter().map(Generator::summary).collect::<Vec<_>>().into();
    merged["measured_by"] = json!({
        "hub": together.beside.map(|index| &together.generators[index].name),
        "stages": together.watching.map(|index| &together.generators[index].name),
    });
    Ok(merged)
}

/// One of the results.
struct Generator {
    path: PathBuf,
    /// What findings and processes of it are told by.
    name: String,
    value: Value,
    rows: Vec<TimelineRow>,
    /// When its load began, in milliseconds since 1970.
    began_ms: Option<i64>,
}

impl Generator {
    fn read(given: &Path) -> Result<Self, MergeError> {
        let path = if given.is_dir() { given.join("result.json") } else { given.to_owned() };
        let value = read(&path)?;
        let no_result = |reason: &str| MergeError::NoResult { path: path.clone(), reason: reason.to_owned() };
        let rows = value.pointer("/timeline/rows").cloned().unwrap_or_else(|| json!([]));
        let rows = serde_json::from_value(rows).map_err(|error| no_result(&error.to_string()))?;
        let name = match value.pointer("/options/instance").and_then(Value::as_u64) {
            Some(instance) => format!("instance {instance}"),
            None => given.display().to_string(),
        };
        Ok(Self { path, name, value, rows, began_ms: None })
    }

    fn number(&self, member: &str) -> Option<f64> {
        self.value.pointer(member)?.as_f64()
    }

    fn list(&self, member: &str) -> &[Value] {
        self.value.pointer(member).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn completed(&self) -> f64 {
        self.number("/completed").unwrap_or(0.0)
    }

    fn histogram(&self, member: &str) -> Option<Histogram<u64>> {
        read_histogram(self.value.pointer(member)?.as_str()?)
    }

    /// What a reader may want to know of it alone.
    fn summary(&self) -> Value {
        let mut summary = json!({ "name": self.name });
        for member in rules::OF_EACH {
            summary[member] = self.value[member].clone();
        }
        summary
    }
}

/// All of them.
struct Together {
    generators: Vec<Generator>,
    /// The one that ran beside the hub's process and measured it.
    beside: Option<usize>,
    /// The one whose reading of the hub's metrics is taken.
    watching: Option<usize>,
    /// The latencies of all.
    latency: Histogram<u64>,
    /// Operations that completed.
    completed: f64,
}

impl Together {
    fn read(paths: &[PathBuf]) -> Result<Self, MergeError> {
        let mut generators = paths.iter().map(|path| Generator::read(path)).collect::<Result<Vec<_>, _>>()?;
        name_apart(&mut generators);
        rules::check(&generators)?;
        note_beginnings(&mut generators);
        let mut latency = latency_histogram();
        for generator in &generators {
            let found = generator.histogram("/histogram/v2_deflate_base64");
            let reason = "its histogram is missing or cannot be read".to_owned();
            let found = found.ok_or_else(|| MergeError::NoResult { path: generator.path.clone(), reason })?;
            add(&mut latency, &found);
        }
        let place = |is: &dyn Fn(&Generator) -> bool| generators.iter().position(is);
        let beside = place(&|generator| !generator.value["hub"].is_null());
        let has_stages = |generator: &Generator| !generator.list("/stages").is_empty();
        let watching = beside.filter(|index| has_stages(&generators[*index])).or_else(|| place(&has_stages));
        let completed = generators.iter().map(Generator::completed).sum();
        Ok(Self { generators, beside, watching, latency, completed })
    }

    /// A value of every generator.
    fn values<'all>(&'all self, member: &'all str) -> impl Iterator<Item = &'all Value> {
        self.generators.iter().filter_map(move |generator| generator.value.pointer(member))
    }

    /// Whether something is true in all of them.
    fn all(&self, member: &str) -> bool {
        self.generators.iter().all(|generator| generator.value.pointer(member) == Some(&Value::Bool(true)))
    }

    /// Of one that ran beside the hub, if any did.
    fn beside(&self) -> Option<&Generator> {
        self.beside.map(|index| &self.generators[index])
    }

    /// The histograms of a member put together; `None` where one of those that must have it does not.
    fn histogram(&self, member: &str, must_have: impl Fn(&Generator) -> bool) -> Option<Histogram<u64>> {
        let mut sum = latency_histogram();
        for generator in self.generators.iter().filter(|generator| must_have(generator)) {
            add(&mut sum, &generator.histogram(member)?);
        }
        Some(sum)
    }
}

/// When the loads began; of older results, when the runs did. All by the same, since there is preparation in between.
fn note_beginnings(generators: &mut [Generator]) {
    let at = |generator: &Generator, member: &str| {
        let text = generator.value.pointer(member)?.as_str()?;
        Timestamp::parse_iso(text).map(|at| at.as_ms())
    };
    let of_all =
        |member| generators.iter().map(|generator| at(generator, member)).collect::<Option<Vec<_>>>();
    let Some(all) = of_all("/load_began_at").or_else(|| of_all("/environment/started_at")) else { return };
    for (generator, began_ms) in generators.iter_mut().zip(all) {
        generator.began_ms = Some(began_ms);
    }
}

/// Two of one name are told by their files.
fn name_apart(generators: &mut [Generator]) {
    let names: Vec<String> = generators.iter().map(|generator| generator.name.clone()).collect();
    for generator in generators {
        if names.iter().filter(|name| **name == generator.name).count() > 1 {
            generator.name = format!("{} of {}", generator.name, generator.path.display());
        }
    }
}

/// Adds counts whatever the bounds of either.
fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    for step in more.iter_recorded() {
        sum.saturating_record_n(step.value_iterated_to(), step.count_at_value());
    }
}

fn read(file: &Path) -> Result<Value, MergeError> {
    let io = |source| MergeError::Io { path: file.to_owned(), source };
    let length = std::fs::metadata(file).map_err(io)?.len();
    let no_result = |reason: String| MergeError::NoResult { path: file.to_owned(), reason };
    if length > RESULT_BYTES_MAX {
        return Err(no_result(format!("it is longer than {RESULT_BYTES_MAX} bytes")));
    }
    let value: Value = serde_json::from_slice(&std::fs::read(file).map_err(io)?)
        .map_err(|error| no_result(error.to_string()))?;
    if value["schema_version"] != SCHEMA_VERSION {
        return Err(no_result(format!("it is not of layout {SCHEMA_VERSION}")));
    }
    Ok(value)
}

fn to_value<T: serde::Serialize>(value: &T) -> Value {
    // By way of text: lists that are written on one line are raw JSON.
    serde_json::to_string(value).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
