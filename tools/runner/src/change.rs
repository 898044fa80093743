//! The crates of a change, and the crates that depend on them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{cargo, root};

/// A crate of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The name without the prefix `upesi-`.
    pub name: String,
    /// Its folder below the root.
    pub folder: PathBuf,
    /// The crates of the workspace that it uses.
    pub uses: BTreeSet<String>,
    /// The crates of the workspace that only its tests use.
    pub tests_use: BTreeSet<String>,
    /// Its library, its programs and its test programs.
    pub targets: BTreeSet<String>,
}

/// The crates of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// The crates with changed files, by name.
    pub changed: Vec<String>,
    /// The crates that depend on the changed ones, the nearest first. Crates that only use them in tests come last.
    pub dependants: Vec<String>,
    /// The changed files that belong to no crate.
    pub others: Vec<PathBuf>,
}

impl Affected {
    /// The crates that these files affect.
    pub fn by(files: &[PathBuf], packages: &[Package]) -> Self {
        let owner = |file: &PathBuf| packages.iter().find(|package| file.starts_with(&package.folder));
        let others = files.iter().filter(|file| owner(file).is_none()).cloned().collect();
        let changed: BTreeSet<String> =
            files.iter().filter_map(owner).map(|package| package.name.clone()).collect();
        let mut known = changed.clone();
        let mut dependants = Vec::new();
        loop {
            let uses_known = |package: &&Package| {
                !known.contains(&package.name) && package.uses.iter().any(|used| known.contains(used))
            };
            let next: Vec<String> =
                packages.iter().filter(uses_known).map(|package| package.name.clone()).collect();
            if next.is_empty() {
                break;
            }
            known.extend(next.iter().cloned());
            dependants.extend(next);
        }
        let in_tests = |package: &&Package| {
            !known.contains(&package.name) && package.tests_use.iter().any(|used| changed.contains(used))
        };
        dependants.extend(packages.iter().filter(in_tests).map(|package| package.name.clone()));
        Self { changed: changed.into_iter().collect(), dependants, others }
    }
}

/// The crates of the workspace.
///
/// # Errors
/// If Cargo fails.
pub fn packages() -> Result<Vec<Package>, String> {
    let arguments = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let metadata = output(cargo().args(arguments))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo: {error}"))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(packages.iter().filter_map(package).collect())
}

fn package(value: &Value) -> Option<Package> {
    let short = |name: &str| name.strip_prefix("upesi-").unwrap_or(name).to_owned();
    let manifest = Path::new(value["manifest_path"].as_str()?);
    let dependencies = value["dependencies"].as_array()?;
    let own = |of_tests: bool| {
        let own = dependencies.iter().filter(|dependency| dependency["path"].is_string());
        let wanted = own.filter(|dependency| (dependency["kind"] == "dev") == of_tests);
        wanted.filter_map(|dependency| dependency["name"].as_str()).map(short).collect()
    };
    Some(Package {
        name: short(value["name"].as_str()?),
        folder: manifest.parent()?.strip_prefix(root()).ok()?.to_owned(),
        uses: own(false),
        tests_use: own(true),
        targets: value["targets"]
            .as_array()?
            .iter()
            .filter_map(|target| target["name"].as_str())
            .map(str::to_owned)
            .collect(),
    })
}

/// The files that differ from a revision, including new ones.
///
/// # Errors
/// If git fails.
pub fn files(revision: &str) -> Result<Vec<PathBuf>, String> {
    let changed = git(&["diff", "--name-only", "-z", revision, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let names: BTreeSet<&str> = changed.split('\0').chain(new.split('\0')).collect();
    Ok(names.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

/// The last commit that the current branch shares with the server's main branch, or with the local one if the server is
/// unknown.
///
/// # Errors
/// If git knows no main branch.
pub fn main_branch() -> Result<String, String> {
    let bases = ["origin/main", "main"].map(|branch| git(&["merge-base", "HEAD", branch]));
    let [of_server, own] = bases;
    of_server.or(own).map(|commit| commit.trim().to_owned())
}

fn git(arguments: &[&str]) -> Result<String, String> {
    output(Command::new("git").args(arguments).current_dir(root()))
}

fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}
