//! The requests of callbacks, and the meaning of their answers.

use upesi_engine::DurableRecord;
use upesi_http::StatusCode;
use upesi_ledger::{CallbackKey, ParticipantId};

use crate::lanes::callback::{HopTiming, Refusal};
use crate::{OutgoingRequest, Unroutable};

/// Makes the request of a callback, anew at each attempt, so that a changed endpoint counts for repetitions too.
/// Headers and body must be the same each time.
pub trait Renderer: Send + Sync + 'static {
    /// The request for the callback `key` of `record`. Runs on the worker that sends: must be quick and must not block.
    fn render(&self, key: CallbackKey, record: &DurableRecord) -> Result<OutgoingRequest, Unroutable>;

    /// The name of a target, for the log.
    fn name(&self, target: ParticipantId) -> String;

    /// The meaning of an answer other than 2xx.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Refusal;

    /// The reason for which the callback `key` of `record` need not be sent any more, if any. Asked before it is
    /// repeated to a DFSP that refused it; must be quick and must not block.
    fn is_moot(&self, key: CallbackKey, record: &DurableRecord) -> Option<String>;

    /// The hop that the callback `key` of `record` ends, if it brings one party's message to the other. Asked when it
    /// has just been delivered; must be quick and must not block.
    fn hop_timing(&self, key: CallbackKey, record: &DurableRecord) -> Option<HopTiming>;
}
