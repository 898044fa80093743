//! What the engine's thread measures.

use std::collections::VecDeque;

use super::Decider;
use crate::commit_thread::CommitThread;
use crate::queue::Submission;

impl<H: CommitThread> Decider<H> {
    /// How long the first command of a turn has waited: the longest of them.
    pub(super) fn observe_wait(&self, submissions: &VecDeque<Submission>) {
        if !self.metrics.records_metrics {
            return;
        }
        let arrived = submissions.iter().find_map(|submission| match submission {
            Submission::Command { arrived, .. } => Some(arrived),
            Submission::Quiet(_) | Submission::Question(_) => None,
        });
        if let Some(arrived) = arrived {
            self.metrics.wait_seconds.observe(arrived.elapsed().as_secs_f64());
        }
    }

    pub(super) fn observe(&self) {
        let (ledger, metrics) = (&self.ledger, &self.metrics);
        let totals = ledger.totals();
        metrics.queue_depth.set(self.shared.queue.len() as i64);
        metrics.transfers_reserved.set(ledger.reserved_len() as i64);
        metrics.transfers_finished_in_memory.set(ledger.finished_len() as i64);
        metrics.transfers_committed.set(totals.committed as i64);
        metrics.transfers_aborted.set(totals.aborted as i64);
        metrics.transfers_expired.set(totals.expired as i64);
        metrics.prepares_refused.set(totals.refused as i64);
        let conversions = ledger.conversion_totals();
        metrics.conversions_live.set(ledger.live_conversions_len() as i64);
        metrics.conversions_committed.set(conversions.committed as i64);
        metrics.conversions_aborted.set(conversions.aborted as i64);
        metrics.conversions_expired.set(conversions.expired as i64);
        metrics.conversions_refused.set(conversions.refused as i64);
        let bulks = ledger.bulk_totals();
        metrics.bulks_live.set(ledger.live_bulks_len() as i64);
        metrics.bulks_completed.set(bulks.completed as i64);
        metrics.bulks_rejected.set(bulks.rejected as i64);
        metrics.bulks_refused.set(bulks.refused as i64);
        metrics.bulk_items.set(bulks.items as i64);
        metrics.bulk_items_committed.set(bulks.items_committed as i64);
        metrics.bulk_bytes.set(ledger.bulk_bytes_held() as i64);
        metrics.callbacks_undelivered.set(ledger.outbox().len() as i64);
        metrics.callbacks_parked.set(ledger.outbox().parked_len() as i64);
        metrics.journal_seq.set(ledger.last_seq() as i64);
    }
}
