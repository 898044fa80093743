//! The engine processes commands (queue → decide → journal → evolve → effects) and recovers its state after a restart.
//!
//! One thread owns the ledger and the journal's writer. It takes everything in the queue, decides each command, and
//! appends the batch with one write and one sync. Only then does it release replies and callbacks. The commit thread
//! writes large batches while the first thread decides the next batch. A third thread, the archivist, applies the
//! journal afterwards to the archive of finished transfers and to snapshots.

mod answering;
mod archivist;
mod backlog;
mod clock;
mod commit_thread;
mod committer;
mod decider;
mod durable_seq;
mod engine;
mod error;
mod find;
mod fold;
mod follow;
mod handle;
mod held;
mod metrics;
mod options;
mod participants;
mod pending_batch;
mod progress;
mod queue;
mod record;
mod recovery;
mod reply_batcher;
mod shared;
mod stepped;
mod sync;
mod trim;

pub use answering::AnsweringStandby;
pub use backlog::{PendingCallback, PendingPage};
pub use clock::{Clock, ClockState, GuardedClock, SystemClock};
pub use engine::Engine;
pub use error::{StartError, StopReason, SubmitError};
pub use find::{NewestPosition, Search, SearchPosition, SearchResult, TransferFilter};
pub use fold::LedgerFold;
pub use follow::{DecodedRecord, Follow, FollowError, follow, follow_from_oldest, follow_once};
pub use handle::EngineHandle;
pub use metrics::{
    Counts, DfspSummary, EngineMetrics, KindSummary, MOJALOOP_SECONDS, PairSummary, RequestKind, Response,
    ResponseOutcome, ResponseTimes, ShareHistogram,
};
pub use options::{EngineOptions, Storage};
pub use participants::{Participants, SharedParticipants};
pub use record::{AnswerListener, DurableRecord, Effects, NoEffects, Payload};
pub use recovery::{Rehearsal, StandbyEngine, rehearse};
pub use reply_batcher::{ANSWER_TAKES, ReplyTo};
pub use shared::{Availability, EngineStatus};
pub use stepped::{DecisionFault, SteppedEngine};
pub use trim::first_needed_record;
pub use upesi_tables::archive::ArchivePosition;
