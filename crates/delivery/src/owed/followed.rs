//! Callbacks of a follower: from the records that it reads to the lanes.

use std::mem;
use std::sync::Arc;

use tokio::time::sleep;
use upesi_engine::{ANSWER_TAKES, DecodedRecord, DurableRecord, Follow, FollowError, SharedParticipants};
use upesi_http::WorkerHandle;
use upesi_ledger::{Actor, CallbackKey, Event, ParticipantId};

use super::effects::to_asker;
use crate::lanes::{Courier, LaneDispatcher, OwedCallback};

/// Passes callbacks to the lanes of one node.
pub struct FollowedCallbacks {
    courier: Courier,
    outlet: LaneDispatcher,
    participants: SharedParticipants,
    /// Runs the delays of callbacks.
    worker: WorkerHandle,
    /// Callbacks that wait for an answer, of the records since the last flush.
    to_askers: Vec<CallbackKey>,
}

impl FollowedCallbacks {
    /// Passes callbacks to the lanes of this courier.
    pub fn new(courier: Courier, participants: SharedParticipants, worker: WorkerHandle) -> Self {
        Self { outlet: courier.outlet(), courier, participants, worker, to_askers: Vec::new() }
    }

    /// Passes the callbacks of the records to the lanes as they become durable, until the engine has stopped. Blocks
    /// the thread.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn run(mut self, mut records: Follow) -> Result<(), FollowError> {
        while let Some(first) = records.wait_next()? {
            self.take(first);
            while let Some(next) = records.next()? {
                self.take(next);
            }
            self.flush();
        }
        Ok(())
    }

    fn take(&mut self, followed: DecodedRecord<'_>) {
        for event in &followed.record.events {
            if let Event::CallbacksRedelivered(keys) = event {
                let ours: Vec<_> =
                    keys.iter().copied().filter(|key| self.outlet.is_ours(key.target)).collect();
                self.courier.redeliver(&ours);
            }
        }
        if !followed.record.callbacks.iter().any(|callback| self.outlet.is_ours(callback.target)) {
            return;
        }
        let asker = self.asker(followed.record.actor);
        let record = DurableRecord { asker, ..followed.into_durable() };
        let record = Arc::new(record);
        self.to_askers.extend(to_asker(&record));
        for key in record.keys() {
            self.outlet.offer(OwedCallback::new(key, &record));
        }
    }

    fn asker(&self, actor: Actor) -> Option<ParticipantId> {
        let Actor::Dfsp(source) = actor else { return None };
        self.participants.get().named_in_any_case(&source).map(|asker| asker.id)
    }

    fn flush(&mut self) {
        self.outlet.flush();
        if !self.to_askers.is_empty() {
            let (courier, keys) = (self.courier.clone(), mem::take(&mut self.to_askers));
            self.worker.spawn(async move {
                // The answer comes from the leader, through the node that received the request.
                sleep(ANSWER_TAKES).await;
                courier.answered(keys);
            });
        }
    }
}
