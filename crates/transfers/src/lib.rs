#![doc = include_str!("../README.md")]

mod answer;
mod command;

use futures_util::FutureExt as _;
use futures_util::future::{Either, ready};
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::EngineHandle;
use upesi_fspiop::{Resource, SyncError};

pub use answer::outcome;
pub use command::into_command;

/// Handles requests about transfers, FX transfers and bulk transfers. Cheap to clone.
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

    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send {
        let to = request.reply_to;
        // The future holds only the command, not the request that it came from.
        match into_command(request) {
            Ok((command, payload)) => Either::Left(self.engine.submit_for(to, command, payload).map(outcome)),
            Err(error) => Either::Right(ready(Err(error))),
        }
    }
}
