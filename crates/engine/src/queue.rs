//! The bounded queue between the edges and the engine's thread.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use upesi_ledger::command::OperatorAction;
use upesi_ledger::{AdminCommand, Archived, CHANGE_SET_BYTES_MAX, Command, Ledger, Reply};
use upesi_types::TransferId;

use crate::error::SubmitError;
use crate::record::Payload;
use crate::reply_batcher::ReplyBatcher;
use crate::sync::{Condvar, Mutex, MutexGuard, yield_now};

/// The result that the sender of a command waits for.
pub(crate) type Answer = Result<CommandOutcome, SubmitError>;

/// The outcome of a command.
pub(crate) enum CommandOutcome {
    /// The command is decided, and the decision is durable.
    Decided(Reply),
    /// The decision needs the archive. Contains the command, its payload, and the id of the transfer to look up, if
    /// any.
    LookUp(Box<Command>, Payload, Option<TransferId>),
}

/// Sends the answer to a query, once everything that it saw is durable.
pub(crate) type Completion = Box<dyn FnOnce(Result<(), SubmitError>) + Send>;

/// A query: reads the ledger and returns a function that sends the answer.
pub(crate) type LedgerQuery = Box<dyn FnOnce(&Ledger) -> Completion + Send>;

/// A work item for the engine's thread.
pub(crate) enum Submission {
    /// A command to decide and answer.
    Command {
        command: Command,
        payload: Payload,
        /// The archive's answer about the command's transfer.
        archived: Archived,
        archive_epoch: u64,
        /// Time of submission, for measuring.
        arrived: Instant,
        answer: oneshot::Sender<Answer>,
        /// Sends the reply. Without a batcher, the committing thread sends it immediately.
        batcher: Option<Arc<ReplyBatcher>>,
    },
    /// A command without a waiting sender, such as the courier's reports. It is decided from memory alone.
    Quiet(Command),
    /// A query to answer.
    Question(LedgerQuery),
}

/// Reports that the queue accepts beyond its limit for commands. A lost report leaves its callbacks, and the journal
/// segments that they need, in place until the next start. The number of reports is bounded, because lanes contain a
/// bounded number of callbacks.
pub(crate) const REPORTS_MAX: usize = 65_536;

/// Length of a callback's key in a record.
const CALLBACK_KEY_BYTES: usize = 16;

impl Submission {
    /// The transfer that the submission concerns.
    pub(crate) fn transfer_id(&self) -> Option<TransferId> {
        match self {
            Self::Command { command, .. } | Self::Quiet(command) => command.transfer_id(),
            Self::Question(_) => None,
        }
    }

    /// Approximate bytes of its record, without the bytes that the ledger adds.
    pub(crate) fn bytes(&self) -> usize {
        let keys = |command: &Command| match command {
            Command::Delivered(keys) | Command::Redeliver(keys) => keys.len() * CALLBACK_KEY_BYTES,
            // The record contains the changes, which are not in the payload.
            Command::Audited(act)
                if matches!(act.action, OperatorAction::Change(AdminCommand::ChangeSet(_))) =>
            {
                CHANGE_SET_BYTES_MAX
            }
            _ => 0,
        };
        match self {
            Self::Command { command, payload, .. } => {
                // The content of a bulk transfer's body is also in the record as events.
                let copies = if matches!(command, Command::Bulk(_)) { 3 } else { 1 };
                payload.headers.len() + copies * payload.body.len() + keys(command)
            }
            Self::Quiet(command) => keys(command),
            Self::Question(_) => 0,
        }
    }
}

#[derive(Default)]
struct State {
    submissions: VecDeque<Submission>,
    is_waiting: bool,
    is_nudged: bool,
    is_closed: bool,
}

/// A queue with many producers and one consumer, which takes all entries at once.
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    submissions_max: usize,
}

impl Queue {
    pub(crate) fn new(submissions_max: usize) -> Self {
        Self { state: Mutex::new(State::default()), arrived: Condvar::new(), submissions_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a submission, or returns the reason why it is rejected.
    pub(crate) fn push(&self, submission: Submission) -> Result<(), SubmitError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(SubmitError::Stopped);
        }
        // No sender waits for a quiet command, so it is processed with the next submission or the next tick.
        let wakes = !matches!(submission, Submission::Quiet(_));
        let bound = self.submissions_max + if wakes { 0 } else { REPORTS_MAX };
        if state.submissions.len() >= bound {
            return Err(SubmitError::Busy);
        }
        state.submissions.push_back(submission);
        if wakes && mem::take(&mut state.is_waiting) {
            drop(state);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits until there are submissions, the time is up, or the queue is closed or nudged. Swaps all submissions into
    /// `into`, which must be empty. Returns false when the queue is closed and empty.
    pub(crate) fn take_all(&self, into: &mut VecDeque<Submission>, patience: Duration) -> bool {
        debug_assert!(into.is_empty());
        let mut state = self.lock();
        if state.submissions.is_empty() && !state.is_closed && !state.is_nudged {
            state.is_waiting = true;
            state = self.arrived.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
            state.is_waiting = false;
        }
        if !state.submissions.is_empty() {
            // If all cores are busy, senders that are about to submit run first and share the batch. Otherwise this
            // returns immediately.
            drop(state);
            yield_now();
            state = self.lock();
        }
        state.is_nudged = false;
        mem::swap(&mut state.submissions, into);
        !(state.is_closed && into.is_empty())
    }

    /// Like [`Self::take_all`], without waiting.
    pub(crate) fn take_now(&self, into: &mut VecDeque<Submission>) -> bool {
        let mut state = self.lock();
        state.is_nudged = false;
        mem::swap(&mut state.submissions, into);
        !(state.is_closed && into.is_empty())
    }

    /// Ends the consumer's wait, now or the next time.
    pub(crate) fn nudge(&self) {
        let mut state = self.lock();
        state.is_nudged = true;
        if mem::take(&mut state.is_waiting) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Rejects further submissions. Existing ones can still be taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().submissions.len()
    }
}
