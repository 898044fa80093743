//! What is tried.

use crate::evidence::Subject;
use crate::tally::Tally;

/// A trial makes worlds from seeds and judges them.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The subcommand, and the name of the file with the evidence.
    pub name: &'static str,
    /// What is counted, for a table's heading: `crash images, torn writes included`.
    pub what: &'static str,
    /// How many of them one `make torture` is to reach.
    pub goal: u64,
    /// How what is tried was built; an error if that is a program of its own, and there is none.
    pub build: fn() -> Result<String, String>,
    /// Everything that one seed stands for. Panics when a promise is broken, and says which.
    pub run: fn(u64) -> Tally,
}

/// A part of what a trial counts that has a goal of its own.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The trial.
    pub of: &'static str,
    /// The count among its details.
    pub detail: &'static str,
    /// What is counted, for the table.
    pub what: &'static str,
    /// How many of them there are to be.
    pub goal: u64,
}

/// How this program was built.
///
/// # Errors
/// Never.
pub fn own_build() -> Result<String, String> {
    Ok(if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned())
}

impl Trial {
    /// What its evidence is about.
    pub fn subject(&self) -> Subject {
        let Self { name, what, goal, .. } = *self;
        Subject { name, what, goal, command: format!("torture {name} --count {goal} --report docs/evidence") }
    }
}
