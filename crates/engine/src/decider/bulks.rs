//! Steps of bulk transfers, which are processed between the requests of other DFSPs.

use upesi_journal::JournalError;
use upesi_ledger::command::BulkCommand;
use upesi_ledger::{Archived, Command};

use super::Decider;
use crate::commit_thread::CommitThread;
use crate::record::Payload;

/// Maximum number of steps of bulk transfers between two checks of the queue. They take about as long as deciding the
/// same number of prepares.
const STEPS_PER_TURN_MAX: usize = 64;

impl<H: CommitThread> Decider<H> {
    /// Whether a bulk transfer has a step to take, and the disk had space at the last check.
    pub(super) fn has_bulk_to_step(&self) -> bool {
        !self.stalls_bulks && self.ledger.next_bulk_step_bytes().is_some()
    }

    /// Whether a command is a new bulk transfer that memory has no space for.
    pub(super) fn is_full_of_bulks(&self, command: &Command) -> bool {
        matches!(command, Command::Bulk(BulkCommand::Prepare(_)))
            && self.ledger.bulk_bytes_held() > self.options.bulk_bytes_max
    }

    /// Takes some steps of bulk transfers. Each is a record; a large one gets its own batch.
    pub(super) fn step_bulks(&mut self) -> Result<(), JournalError> {
        self.stalls_bulks = false;
        for _ in 0..STEPS_PER_TURN_MAX {
            let Some(bytes) = self.ledger.next_bulk_step_bytes() else { return Ok(()) };
            let is_full = self.open.batch.len() >= self.options.batch_commands_max
                || self.open.batch.bytes() + bytes > self.options.batch_bytes_max;
            if is_full {
                self.commit()?;
                if !self.has_room(bytes)? {
                    self.stalls_bulks = true;
                    return Ok(());
                }
            }
            self.decide(&Command::StepBulk, &Archived::Absent, Payload::default());
        }
        Ok(())
    }
}
