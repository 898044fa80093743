//! The engine's outbox, read by the lanes.

use std::sync::{Arc, OnceLock};

use upesi_engine::{EngineHandle, PendingCallback, SubmitError};
use upesi_ledger::{CallbackKey, Command, ParticipantId};

use super::reports::Reports;
use crate::lanes::{Backlog, BacklogError, BacklogFuture, LaneCapacity, OwedCallback, Page, Position};

/// The engine's outbox for lanes.
#[derive(Clone, Default)]
pub struct OutboxBacklog {
    /// Set once the engine runs.
    pub engine: Arc<OnceLock<EngineHandle>>,
    /// Receives the reports of a follower; on a leader, the engine records them itself.
    pub reports: Option<Arc<Reports>>,
}

impl OutboxBacklog {
    fn engine(&self) -> Result<&EngineHandle, BacklogError> {
        self.engine.get().ok_or_else(|| BacklogError { reason: "the engine is not running yet".to_owned() })
    }

    async fn page(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: LaneCapacity,
    ) -> Result<Page, BacklogError> {
        let failed = |error: SubmitError| BacklogError { reason: error.to_string() };
        let found =
            self.engine()?.pending_callbacks(target, after, room.items.max(1)).await.map_err(failed)?;
        let mut page =
            Page { items: Vec::with_capacity(found.callbacks.len()), more_after: found.more_after };
        let mut bytes = 0;
        for PendingCallback { key, record } in found.callbacks {
            if let Some(last) = page.items.last().filter(|_| bytes >= room.bytes) {
                page.more_after = Some(last.position());
                break;
            }
            let item = OwedCallback::new(key, &record);
            bytes += item.bytes;
            page.items.push(item);
        }
        Ok(page)
    }

    fn report(&self, command: Command) {
        if let Some(reports) = &self.reports {
            return reports.note(command);
        }
        // Lost reports leave their callbacks in the outbox; they are repeated after a start or by the next leader.
        match self.engine.get().map(|engine| engine.submit_quietly(command)) {
            None | Some(Ok(())) => {}
            Some(Err(error @ SubmitError::Stopped)) => tracing::debug!(%error, "a delivery report was lost"),
            Some(Err(error)) => tracing::warn!(%error, "a delivery report was lost"),
        }
    }
}

impl Backlog for OutboxBacklog {
    fn pending(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: LaneCapacity,
    ) -> BacklogFuture<'_, Page> {
        Box::pin(self.page(target, after, room))
    }

    fn keys(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>> {
        Box::pin(async move {
            let found = self.engine()?.pending_keys(target, after, limit).await;
            found.map_err(|error| BacklogError { reason: error.to_string() })
        })
    }

    fn load(&self, keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<OwedCallback>> {
        Box::pin(async move {
            let failed = |error: SubmitError| BacklogError { reason: error.to_string() };
            let engine = self.engine()?;
            let still_owed = move |ledger: &upesi_ledger::Ledger| {
                let is_owed =
                    |key: &CallbackKey| ledger.outbox().get(*key).is_some_and(|entry| entry.parked.is_none());
                keys.into_iter().filter(is_owed).collect()
            };
            let keys = engine.read(still_owed).await.map_err(failed)?;
            let found = engine.callbacks(keys).await.map_err(failed)?;
            Ok(found.into_iter().map(|pending| OwedCallback::new(pending.key, &pending.record)).collect())
        })
    }

    fn delivered(&self, keys: Vec<CallbackKey>) {
        self.report(Command::Delivered(keys));
    }

    fn parked(&self, key: CallbackKey, reason: String, attempts: u32) {
        self.report(Command::Park { key, attempts, reason: reason.into_boxed_str() });
    }
}
