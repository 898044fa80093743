//! The lines that a change adds to the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree;

/// The numbers of added lines by file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change(BTreeMap<PathBuf, BTreeSet<usize>>);

impl Change {
    /// The lines of the working tree that a revision does not have.
    ///
    /// # Errors
    /// The message of git, for example about an unknown revision.
    pub fn since(revision: &str) -> Result<Self, String> {
        let arguments = ["diff", "--unified=0", "--no-color", "--no-ext-diff", "--end-of-options", revision];
        let output = Command::new("git").args(arguments).current_dir(tree::root()).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(Self::read(&String::from_utf8_lossy(&output.stdout)))
    }

    /// The added lines of a unified diff without context.
    pub fn read(diff: &str) -> Self {
        let mut added: BTreeMap<PathBuf, BTreeSet<usize>> = BTreeMap::new();
        let (mut path, mut number) = (None, 0);
        for line in diff.lines() {
            if let Some(name) = line.strip_prefix("+++ ") {
                path = name.strip_prefix("b/").map(PathBuf::from);
            } else if let Some(hunk) = line.strip_prefix("@@ ") {
                let after = hunk.split_once('+').map_or("", |(_, after)| after);
                let digits = after.split(|letter: char| !letter.is_ascii_digit()).next();
                number = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
            } else if let Some(path) = path.as_ref().filter(|_| line.starts_with('+')) {
                added.entry(path.clone()).or_default().insert(number);
                number += 1;
            }
        }
        Self(added)
    }

    /// Whether the change added a line of a file.
    pub fn contains(&self, path: &Path, line: usize) -> bool {
        self.0.get(path).is_some_and(|lines| lines.contains(&line))
    }
}
