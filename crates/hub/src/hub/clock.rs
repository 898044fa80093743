//! The hub's time, for what is made before the engine that keeps it.

use std::sync::{Arc, OnceLock};

use upesi_engine::Clock;
use upesi_types::Timestamp;

/// The hub's time once there is an engine that keeps it, the machine's before. A wall clock that jumped makes no
/// message too old.
pub(super) struct HubClock {
    machine: Arc<dyn Clock>,
    hub: OnceLock<Arc<dyn Clock>>,
}

impl HubClock {
    pub(super) fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, hub: OnceLock::new() }
    }

    /// From now on time is what the engine keeps.
    pub(super) fn follow(&self, clock: Arc<dyn Clock>) {
        let _ = self.hub.set(clock);
    }
}

impl Clock for HubClock {
    fn now(&self) -> Timestamp {
        self.hub.get().unwrap_or(&self.machine).now()
    }
}
