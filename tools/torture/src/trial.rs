//! What is tried.

use crate::evidence::Subject;
use crate::machine;
use crate::tally::Tally;

/// Makes worlds from seeds and judges them.
pub trait Trial: Sync {
    /// The subcommand, and the name of the file with the evidence.
    fn name(&self) -> &'static str;

    /// What is counted, for a table's heading: `crash images, torn writes included`.
    fn what(&self) -> &'static str;

    /// How many of them one `make torture` is to reach.
    fn goal(&self) -> u64;

    /// Everything that one seed stands for. Panics where a promise is broken, and says which.
    fn run(&self, seed: u64) -> Tally;

    /// How what is tried was built.
    ///
    /// # Errors
    /// When that is a program of its own, and there is none.
    fn build(&self) -> Result<String, String> {
        Ok(machine::build().to_owned())
    }

    /// What its evidence is about.
    fn subject(&self) -> Subject {
        let (name, goal) = (self.name(), self.goal());
        let command = format!("torture {name} --count {goal} --report docs/evidence");
        Subject { name, what: self.what(), goal, command }
    }
}
