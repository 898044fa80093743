//! The hub's time, for what is made before the engine that keeps it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use upesi_engine::{Clock, ClockState, GuardedClock};
use upesi_types::{Present, Timestamp};

/// The hub's time once there is an engine that keeps it, the machine's before. A wall clock that jumped makes no
/// message too old.
pub(super) struct HubClock {
    machine: Arc<dyn Clock>,
    hub: OnceLock<Arc<GuardedClock>>,
}

impl HubClock {
    pub(super) fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, hub: OnceLock::new() }
    }

    /// From now on time is what the engine keeps.
    pub(super) fn follow(&self, clock: Arc<GuardedClock>) {
        let _ = self.hub.set(clock);
    }

    /// How it stands to the machine's; good before there is an engine.
    pub(super) fn state(&self) -> ClockState {
        self.hub.get().map(|clock| clock.state()).unwrap_or_default()
    }

    fn clock(&self) -> &dyn Clock {
        self.hub.get().map_or(&*self.machine, |clock| &**clock)
    }
}

impl Clock for HubClock {
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn monotonic(&self) -> Duration {
        self.clock().monotonic()
    }

    fn present(&self) -> Present {
        self.clock().present()
    }
}
