#![doc = include_str!("../README.md")]

mod bulk;
mod command;
mod conversion;
mod outcome;

use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::EngineHandle;
use upesi_fspiop::{Resource, SyncError};

pub use command::into_command;
pub use outcome::outcome;

/// Takes requests about transfers, conversions and bulks. Cheap to clone.
#[derive(Clone)]
pub struct Transfers {
    engine: EngineHandle,
}

impl Transfers {
    /// Submits commands to this engine.
    pub const fn new(engine: EngineHandle) -> Self {
        Self { engine }
    }
}

impl Handler for Transfers {
    fn serves(&self, resource: Resource) -> bool {
        matches!(resource, Resource::Transfers | Resource::FxTransfers | Resource::BulkTransfers)
    }

    async fn handle(&self, request: Request) -> Result<Accepted, SyncError> {
        let (command, payload) = into_command(request)?;
        outcome(self.engine.submit(command, payload).await)
    }
}
