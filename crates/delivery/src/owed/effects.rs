//! The connection from the engine to the lanes.

use std::sync::Arc;

use upesi_engine::{AnswerListener, DurableRecord, Effects, Participants, SharedParticipants};
use upesi_ledger::CallbackKey;

use crate::lanes::{Courier, LaneDispatcher, OwedCallback};

/// Passes callbacks to the lanes as soon as the engine releases them.
pub struct CourierEffects {
    /// Sends callbacks again that operators redeliver.
    pub courier: Courier,
    /// Receives callbacks that have become durable.
    pub outlet: LaneDispatcher,
    /// Updated by the engine's changes of participants.
    pub participants: SharedParticipants,
}

impl Effects for CourierEffects {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        for key in record.keys() {
            self.outlet.offer(OwedCallback::new(key, record));
        }
    }

    fn redeliver(&mut self, keys: &[CallbackKey]) {
        self.courier.redeliver(keys);
    }

    fn flush(&mut self) {
        self.outlet.flush();
    }

    fn participants(&mut self, participants: Arc<Participants>) {
        self.participants.set(participants);
    }

    fn answers(&self) -> Option<Arc<dyn AnswerListener>> {
        Some(Arc::new(Answers(self.courier.clone())))
    }
}

/// Releases callbacks whose targets have their answers.
struct Answers(Courier);

impl AnswerListener for Answers {
    fn answered(&self, records: &[Arc<DurableRecord>]) {
        self.0.answered(records.iter().flat_map(|record| to_asker(record)));
    }
}

/// The callbacks of a record that wait for the answer to the request that it records.
pub fn to_asker(record: &DurableRecord) -> impl Iterator<Item = CallbackKey> {
    record.keys().filter(|key| record.asker == Some(key.target))
}
