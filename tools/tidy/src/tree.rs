//! The files of the tree, including the search for dead files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// The text of a file below the root.
pub fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files that belong to the tree, sorted by name. Outside a git checkout, the files on disk are used.
pub fn tracked() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let mut found: Vec<PathBuf> = match listed {
        Ok(output) if output.status.success() => {
            let names = String::from_utf8(output.stdout).expect("names in UTF-8");
            names.split_terminator('\0').map(PathBuf::from).collect()
        }
        _ => walk(&root()).iter().map(|path| path.strip_prefix(root()).expect("below").to_owned()).collect(),
    };
    found.retain(|path| root().join(path).is_file());
    found.sort();
    found
}

/// Files with one of these endings, sorted by name.
pub fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = tracked();
    found
        .retain(|path| path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted)));
    found
}

/// Whether a file is a copy of another project's.
pub fn is_foreign(path: &Path) -> bool {
    path.iter().any(|part| part == "vendor" || part == "node_modules")
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_source = |path: &PathBuf| !path.ends_with("target") && !path.ends_with("out");
    let listed = |path: PathBuf| if path.is_dir() { walk(&path) } else { vec![path] };
    entries.filter(is_source).flat_map(listed).collect()
}

/// Source files of a crate that no `mod`, `#[path]` or `include!` in these sources names.
pub fn dead_modules(sources: &[(PathBuf, String)]) -> Vec<PathBuf> {
    let named: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| modules_named(text)).collect();
    let is_dead = |path: &&PathBuf| {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let Some(at) = parts.iter().position(|part| part == "src" || part == "tests") else { return false };
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let is_root = match (&*parts[at], parts.len() - at) {
            ("src", 2) => matches!(&*stem, "lib" | "main"),
            ("src", _) => parts[at + 1] == "bin",
            (_, 2) => true,
            (_, _) => stem == "main",
        };
        let name = if stem == "mod" { parts[parts.len() - 2].clone() } else { stem };
        !is_root && !named.contains(&*name)
    };
    sources.iter().map(|(path, _)| path).filter(is_dead).cloned().collect()
}

/// Source files with tests that Cargo does not compile, because the manifest of their target has `test = false`.
pub fn tests_that_never_run(
    manifests: &[(PathBuf, String)],
    sources: &[(PathBuf, String)],
) -> BTreeSet<PathBuf> {
    let has_test = |text: &str| text.lines().any(|line| line.trim() == "#[test]");
    let mut found = BTreeSet::new();
    for (manifest, text) in manifests {
        let folder = manifest.parent().expect("a manifest is in a folder");
        for section in text.split("\n[").filter(|section| section.lines().any(|line| line == "test = false"))
        {
            let is_library = section.starts_with("lib]");
            let path = section.lines().find_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
            let program = path.map(|path| folder.join(path));
            let is_silent = |(path, text): &&(PathBuf, String)| match &program {
                Some(program) => path == program && (has_test(text) || modules_named(text).next().is_some()),
                None => is_library && path.starts_with(folder.join("src")) && has_test(text),
            };
            found.extend(sources.iter().filter(is_silent).map(|(path, _)| path.clone()));
        }
    }
    found
}

/// Names of modules that a source file declares; for a `#[path]`, the stem of the file.
fn modules_named(text: &str) -> impl Iterator<Item = &str> {
    let declared = text.lines().filter_map(|line| {
        let (before, after) = line.trim().split_once("mod ")?;
        let is_item = before.is_empty() || before.starts_with("pub") || before.starts_with("#[");
        is_item.then(|| after.split_once(';').map(|(name, _)| name))?
    });
    // A path may also depend on a condition: `#[cfg_attr(not(feature = "x"), path = "no_x.rs")]`.
    let attributes = ["#[path = \"", ", path = \""];
    let placed =
        attributes.into_iter().flat_map(|attribute| text.split(attribute).skip(1)).filter_map(|rest| {
            let file = rest.split_once(".rs\"")?.0;
            Some(file.rsplit('/').next().unwrap_or(file))
        });
    declared.chain(placed)
}

/// Targets of a Markdown page's links into the tree, without anchors.
pub fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with(['#', '<']));
    local.map(|target| target.split('#').next().unwrap_or(target).to_owned()).collect()
}
