//! The measurements of the engine's thread.

use std::collections::VecDeque;

use upesi_ledger::{AbortKind, Event, FxTransferState, Ledger};
use upesi_types::Timestamp;

use super::Decider;
use crate::commit_thread::CommitThread;
use crate::metrics::{RequestKind, Response, ResponseOutcome, ResponseTimes};
use crate::queue::Submission;

/// Minimum time between two log lines about ignored results, in milliseconds.
const IGNORED_LOG_INTERVAL_MS: i64 = 60_000;

/// The number of logged results in payees' answers that named no open item of their bulk transfer.
pub(super) struct IgnoredResults {
    logged: u64,
    at: Option<Timestamp>,
}

impl IgnoredResults {
    /// Starts with the number of results that were ignored before this start.
    pub(super) const fn new(logged: u64) -> Self {
        Self { logged, at: None }
    }

    /// The number of results to log now, if any.
    fn due(&mut self, total: u64, now: Timestamp) -> Option<u64> {
        let is_soon = self.at.is_some_and(|at| now.ms_since(at) < IGNORED_LOG_INTERVAL_MS);
        if total <= self.logged || is_soon {
            return None;
        }
        self.at = Some(now);
        Some(total - std::mem::replace(&mut self.logged, total))
    }
}

/// Counts the response time of a transfer's payee or an FX transfer's FXP, or the missing response. Call this before
/// the event is applied to the ledger. A transfer that an operator expires is not counted.
pub(super) fn observe_response(ledger: &Ledger, event: &Event, now: Timestamp, responses: &ResponseTimes) {
    let (parties, prepared_at, aborted) = match event {
        Event::TransferAborted { operator_reason: Some(_), .. } => return,
        Event::TransferCommitted { id, .. } | Event::TransferAborted { id, .. } => {
            let Some(transfer) = ledger.transfer(*id).filter(|_| ledger.bulk_of(*id).is_none()) else {
                return;
            };
            let kind = if let Event::TransferAborted { kind, .. } = event { Some(*kind) } else { None };
            ((transfer.payer, transfer.payee), transfer.prepared_at, kind)
        }
        Event::FxTransferFulfilled { id, .. } | Event::FxTransferAborted { id, .. } => {
            let is_open = |state: &FxTransferState| *state == FxTransferState::Reserved;
            let Some(fx_transfer) = ledger.fx_transfer(*id).filter(|one| is_open(&one.state)) else { return };
            let kind = match event {
                Event::FxTransferAborted { kind, answer, .. } => {
                    // The FX transfer ended with its transfer, before the FXP's deadline.
                    if answer.is_none() && *kind != AbortKind::Expired {
                        return;
                    }
                    Some(*kind)
                }
                _ => None,
            };
            ((fx_transfer.initiator, fx_transfer.fxp), fx_transfer.prepared_at, kind)
        }
        _ => return,
    };
    let (asker, Some(asked)) = parties else { return };
    let took = now.since(prepared_at);
    let outcome = match aborted {
        None => ResponseOutcome::Answered(took),
        Some(AbortKind::Expired) => ResponseOutcome::Unanswered,
        Some(_) => ResponseOutcome::Failed(took),
    };
    responses.observe(&Response { asker, asked, kind: RequestKind::Transfer, outcome }, now);
}

impl<H: CommitThread> Decider<H> {
    /// Records the waiting time of a turn's first command, which is the longest of the turn.
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

    /// Logs ignored results at most once a minute, because a payee can send any number of them. The journal's records
    /// identify them.
    fn log_ignored_results(&mut self) {
        let total = self.ledger.bulk_totals().results_ignored;
        if let Some(count) = self.ignored_results.due(total, self.ledger.last_time()) {
            tracing::warn!(
                count,
                "payees' answers to bulk transfers contained results for transfers that are not open items (3100); these results were ignored"
            );
        }
    }

    pub(super) fn observe(&mut self) {
        self.log_ignored_results();
        let (ledger, metrics) = (&self.ledger, &self.metrics);
        let totals = ledger.totals();
        metrics.queue_depth.set(self.shared.queue.len() as i64);
        metrics.transfers_reserved.set(ledger.reserved_len() as i64);
        metrics.transfers_finished_in_memory.set(ledger.finished_len() as i64);
        metrics.transfers_committed.set(totals.committed as i64);
        metrics.transfers_aborted.set(totals.aborted as i64);
        metrics.transfers_expired.set(totals.expired as i64);
        metrics.prepares_refused.set(totals.refused as i64);
        metrics.fees_charged.set(totals.fees as i64);
        metrics.fees_not_charged.set(totals.fees_not_charged as i64);
        let fx_transfers = ledger.fx_transfer_totals();
        metrics.fx_transfers_live.set(ledger.live_fx_transfers_len() as i64);
        metrics.fx_transfers_committed.set(fx_transfers.committed as i64);
        metrics.fx_transfers_aborted.set(fx_transfers.aborted as i64);
        metrics.fx_transfers_expired.set(fx_transfers.expired as i64);
        metrics.fx_transfers_refused.set(fx_transfers.refused as i64);
        let bulks = ledger.bulk_totals();
        metrics.bulks_live.set(ledger.live_bulks_len() as i64);
        metrics.bulks_completed.set(bulks.completed as i64);
        metrics.bulks_rejected.set(bulks.rejected as i64);
        metrics.bulks_refused.set(bulks.refused as i64);
        metrics.bulk_items.set(bulks.items as i64);
        metrics.bulk_items_committed.set(bulks.items_committed as i64);
        metrics.bulk_results_ignored.set(bulks.results_ignored as i64);
        metrics.bulk_bytes.set(ledger.bulk_bytes_held() as i64);
        metrics.callbacks_undelivered.set(ledger.outbox().len() as i64);
        metrics.callbacks_parked.set(ledger.outbox().parked_len() as i64);
        metrics.journal_seq.set(ledger.last_seq() as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_results_are_logged_once_a_minute() {
        let mut log = IgnoredResults::new(7);
        let mut due = |total, at_ms| log.due(total, Timestamp::from_ms(at_ms));
        assert_eq!(due(7, 0), None, "results from before the start were logged");
        assert_eq!(due(9, 1_000), Some(2));
        assert_eq!(due(12, 60_999), None);
        assert_eq!(due(15, 61_000), Some(6));
        assert_eq!(due(15, 200_000), None);
    }
}
