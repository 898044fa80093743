//! The hub's time, for parts that outlive the engine that provides it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use upesi_engine::{Clock, ClockState, GuardedClock};
use upesi_types::{Present, Timestamp};

/// The time of the engine, or of the machine while no engine exists. A jump of the wall clock does not make messages
/// too old.
pub(super) struct HubClock {
    machine: Arc<dyn Clock>,
    hub: RwLock<Option<Arc<GuardedClock>>>,
}

impl HubClock {
    pub(super) fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, hub: RwLock::default() }
    }

    pub(super) fn machine(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.machine)
    }

    /// From now on, returns the time of this engine.
    pub(super) fn follow(&self, clock: Arc<GuardedClock>) {
        *self.hub.write().unwrap_or_else(PoisonError::into_inner) = Some(clock);
    }

    /// The state of the hub's time compared with the machine's clock. Without an engine it is good.
    pub(super) fn state(&self) -> ClockState {
        let hub = self.hub.read().unwrap_or_else(PoisonError::into_inner);
        hub.as_ref().map(|clock| clock.state()).unwrap_or_default()
    }

    fn read<T>(&self, read: impl FnOnce(&dyn Clock) -> T) -> T {
        match &*self.hub.read().unwrap_or_else(PoisonError::into_inner) {
            Some(clock) => read(&**clock),
            None => read(&*self.machine),
        }
    }
}

impl Clock for HubClock {
    fn now(&self) -> Timestamp {
        self.read(|clock| clock.now())
    }

    fn monotonic(&self) -> Duration {
        self.read(|clock| clock.monotonic())
    }

    fn present(&self) -> Present {
        self.read(|clock| clock.present())
    }
}
