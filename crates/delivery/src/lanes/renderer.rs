//! The requests of callbacks, and the meaning of their answers.

use upesi_engine::DurableRecord;
use upesi_http::StatusCode;
use upesi_ledger::{CallbackKey, ParticipantId};

use crate::lanes::callback::{HopTiming, Refusal};
use crate::{OutgoingRequest, Unroutable};

/// Renders the request of a callback again for each attempt, so that a changed endpoint also applies to repetitions.
/// Headers and body must be the same each time.
pub trait Renderer: Send + Sync + 'static {
    /// The request for the callback `key` of `record`. Runs on the sending worker: it must be quick and must not block.
    fn render(&self, key: CallbackKey, record: &DurableRecord) -> Result<OutgoingRequest, Unroutable>;

    /// The name of a target, for the log.
    fn name(&self, target: ParticipantId) -> String;

    /// The meaning of an answer other than 2xx.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Refusal;

    /// The reason why the callback `key` of `record` need not be sent any longer, if there is one. Called before a
    /// repetition to a DFSP that rejected it; must be quick and must not block.
    fn is_moot(&self, key: CallbackKey, record: &DurableRecord) -> Option<String>;

    /// The hop that the callback `key` of `record` completes, if it brings one party's message to the other. Called
    /// when it has just been delivered; must be quick and must not block.
    fn hop_timing(&self, key: CallbackKey, record: &DurableRecord) -> Option<HopTiming>;
}
