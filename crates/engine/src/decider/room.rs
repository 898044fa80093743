//! Checks for space: on the disk for the next batches, and in memory for finished transfers.

use upesi_journal::JournalError;

use super::{DECISION_BYTES_MAX, Decider, refuse};
use crate::commit_thread::CommitThread;
use crate::error::SubmitError;
use crate::queue::{REPORTS_MAX, Submission};
use crate::shared::Availability;

impl<H: CommitThread> Decider<H> {
    pub(super) fn take_without_room(&mut self, submission: Submission) {
        match submission {
            Submission::Quiet(command) if self.held_back.len() < REPORTS_MAX => {
                self.held_back.push_back(command);
            }
            Submission::Question(_) => self.take(submission),
            refused => {
                self.metrics.refused_full.inc();
                refuse(refused, &SubmitError::Full);
            }
        }
    }

    /// Reserves disk space before anything is decided. The space suffices for the next batch, which has the maximum
    /// size or one command of `bytes`. It also suffices for the batch after it, which may be decided before this one is
    /// written.
    pub(super) fn has_room(&mut self, bytes: usize) -> Result<bool, JournalError> {
        if self.committer.is_none() && bytes <= self.options.batch_bytes_max {
            // The space for this batch was reserved when the previous one was passed to the commit thread.
            return Ok(true);
        }
        let mut committer = self.committer()?;
        let batch_bytes = bytes.max(self.options.batch_bytes_max) + DECISION_BYTES_MAX;
        let room = committer.reserve(2 * batch_bytes);
        self.committer = Some(committer);
        let room = room?;
        let serving = if room { Availability::Yes } else { Availability::ReadOnly };
        let mut present = self.shared.serving();
        // A stopped engine does not serve again.
        if *present != serving && !matches!(*present, Availability::Stopped(_)) {
            match serving {
                Availability::Yes => {
                    tracing::warn!("the disk has free space again; the hub accepts commands")
                }
                _ => tracing::warn!("the disk is full: the hub answers queries and rejects commands"),
            }
            *present = serving;
        }
        Ok(room)
    }

    pub(super) fn is_archive_behind(&self) -> bool {
        let others = self.ledger.finished_fx_transfers_len() + self.ledger.finished_bulks_len();
        self.ledger.finished_len() + others >= self.options.finished_transfers_max
    }

    /// Drops finished transfers from memory that every look-up now finds in the archive.
    pub(super) fn evict(&mut self) {
        if let Some(due) = self.eviction.due(&self.shared.archive) {
            self.ledger.drain_finished(due.forget_to).for_each(drop);
            self.ledger.take_finished_fx_transfers(due.forget_to).for_each(drop);
            self.ledger.take_finished_bulks(due.forget_to).for_each(drop);
            self.metrics.archived_seq.set(due.watermark as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use upesi_ledger::command::{AbortBulk, BulkCommand};
    use upesi_ledger::{Archived, CallbackKey, Command, ParticipantId};
    use upesi_types::ErrorCode;

    use super::*;
    use crate::record::Payload;

    fn bytes_of(command: Command) -> usize {
        let payload = Payload { headers: "0123456789".into(), body: "x".repeat(1_000).into() };
        let (answer, _) = tokio::sync::oneshot::channel();
        let (archived, archive_epoch, arrived) = (Archived::Unknown, 0, Instant::now());
        let batcher = None;
        Submission::Command { command, payload, archived, archive_epoch, arrived, answer, batcher }.bytes()
    }

    #[test]
    fn reservation_includes_requests_and_keys_of_reports() {
        let key = CallbackKey { target: ParticipantId::HUB, seq: 1, index: 0 };
        let keys = || vec![key; 100];
        for report in [Command::Delivered, Command::Redeliver] {
            assert_eq!((bytes_of(report(keys())), Submission::Quiet(report(keys())).bytes()), (2_610, 1_600));
        }
        let bulk = Command::Bulk(BulkCommand::Abort(AbortBulk {
            bulk: upesi_ledger::ResourceId::from(upesi_types::TransferId::from_random_bytes([1; 16])),
            source: upesi_types::FspId::parse("greenbank").unwrap(),
            destination: None,
            code: ErrorCode::PAYEE_REJECTION,
            description: "no".into(),
            fingerprint: [4; 16],
        }));
        assert_eq!((bytes_of(Command::Tick), bytes_of(bulk)), (1_010, 3_010));
        assert_eq!(Submission::Quiet(Command::Tick).bytes(), 0);
    }
}
