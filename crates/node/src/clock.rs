//! The hub's time, for parts that are created before the engine that provides it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use upesi_engine::{Clock, ClockState, GuardedClock};
use upesi_types::{Present, Timestamp};

/// The hub's time once there is an engine, and the machine's time before. A jump of the wall clock does not make
/// messages too old.
pub(super) struct HubClock {
    machine: Arc<dyn Clock>,
    hub: OnceLock<Arc<GuardedClock>>,
}

impl HubClock {
    pub(super) fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, hub: OnceLock::new() }
    }

    /// From now on, returns the engine's time.
    pub(super) fn follow(&self, clock: Arc<GuardedClock>) {
        let _ = self.hub.set(clock);
    }

    /// The state of the hub's time compared with the machine's clock; good before there is an engine.
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
