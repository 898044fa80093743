//! Checks the dependencies between crates: `cargo metadata` against the map of ARCHITECTURE.md.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::tree;

/// The tool that the tests of every crate may use. Only tests use it.
const OF_TESTS: &str = "testsupport";

/// A crate's layer in the map of ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// A floor of `crates/`, counted from 0.
    Floor(u8),
    /// The command, the only crate of `crates/` that may use `tools/`.
    Command,
    /// A crate of `tools/`.
    Tools,
}

/// A crate of Cargo's metadata.
#[derive(Debug)]
pub struct Package {
    /// The name without the prefix `upesi-`.
    pub name: String,
    /// Whether it is in `crates/`.
    pub ships: bool,
    /// The workspace's crates that it uses, also in its build script.
    pub uses: Vec<String>,
    /// The crates that only its tests use. They may be above it. Crates on a floor use no tool except [`OF_TESTS`].
    pub tests_use: Vec<String>,
}

/// The layers of a page's map: a list of layers, each with a list of its crates.
///
/// # Panics
/// If a layer cannot be read.
pub fn declared(page: &str) -> BTreeMap<String, Layer> {
    let map = page.lines().skip_while(|line| *line != "## The map").skip(1);
    let (mut layers, mut current) = (BTreeMap::new(), None);
    for line in map.take_while(|line| !line.starts_with("## ")) {
        if let Some(layer) = line.strip_prefix("- ") {
            current = Some(match layer {
                "command" => Layer::Command,
                "tools" => Layer::Tools,
                floor => Layer::Floor(floor.trim_start_matches('L').parse().expect("L and a number")),
            });
        } else if let Some(crate_) = line.strip_prefix("  - `") {
            let path = crate_.split('`').next().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default();
            layers.insert(name.to_owned(), current.expect("a crate stands below its layer"));
        }
    }
    layers
}

/// The crates of the workspace.
///
/// # Panics
/// If cargo fails.
pub fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(tree::root()).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").iter().map(package).collect()
}

fn package(value: &Value) -> Package {
    let short = |name: &str| name.strip_prefix("upesi-").unwrap_or(name).to_owned();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let manifest = text(&value["manifest_path"]);
    let dependencies = value["dependencies"].as_array().expect("dependencies");
    let own = |of_tests: bool| {
        let own = dependencies.iter().filter(|dependency| dependency["path"].is_string());
        let wanted = own.filter(|dependency| (dependency["kind"] == "dev") == of_tests);
        wanted.map(|dependency| short(&text(&dependency["name"]))).collect()
    };
    Package {
        name: short(&text(&value["name"])),
        ships: manifest.contains("/crates/"),
        uses: own(false),
        tests_use: own(true),
    }
}

/// All mistakes: dependencies that point upwards or sideways, dependencies of shipped crates on tools, dependencies on
/// [`OF_TESTS`] outside tests, and crates without a layer.
pub fn mistakes(layers: &BTreeMap<String, Layer>, packages: &[Package]) -> Vec<String> {
    let mut mistakes: Vec<String> = packages
        .iter()
        .filter(|package| !layers.contains_key(&package.name))
        .map(|package| format!("{} has no line in ARCHITECTURE.md", package.name))
        .collect();
    let gone = layers.keys().filter(|name| packages.iter().all(|package| package.name != **name));
    mistakes.extend(gone.map(|name| format!("{name} has a line in ARCHITECTURE.md, but it is not a crate")));
    for package in packages {
        let Some(layer) = layers.get(&package.name) else { continue };
        if package.ships == (*layer == Layer::Tools) {
            mistakes.push(format!("{} is in the wrong folder for {layer:?}", package.name));
        }
        let is_tool = |name: &&String| layers.get(*name) == Some(&Layer::Tools) && *name != OF_TESTS;
        if matches!(layer, Layer::Floor(_)) {
            let tools = package.tests_use.iter().filter(is_tool);
            mistakes.extend(tools.map(|tool| format!("tests of {} use the tool {tool}", package.name)));
        }
        for used in &package.uses {
            let Some(below) = layers.get(used) else { continue };
            let may = match (layer, below) {
                (Layer::Floor(floor), Layer::Floor(other)) => other < floor,
                (Layer::Floor(_), _) => false,
                (Layer::Command | Layer::Tools, below) => *below != Layer::Command,
            };
            if !may || used == OF_TESTS {
                mistakes.push(format!("{} ({layer:?}) uses {used} ({below:?})", package.name));
            }
        }
    }
    mistakes
}
