//! The bounded queue between the edges and the engine's thread.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use upesi_ledger::command::Deed;
use upesi_ledger::{AdminCommand, Archived, CHANGE_SET_BYTES_MAX, Command, Ledger, Reply};
use upesi_types::TransferId;

use crate::error::SubmitError;
use crate::record::Payload;
use crate::reply_batcher::ReplyBatcher;
use crate::sync::{Condvar, Mutex, MutexGuard, yield_now};

/// What a caller waits for.
pub(crate) type Answer = Result<Verdict, SubmitError>;

/// What became of a command.
pub(crate) enum Verdict {
    /// It is decided, and the decision is durable.
    Decided(Reply),
    /// The decision needs the archive: the command, its payload, and the id of the transfer to look up, if there is
    /// one.
    LookUp(Box<Command>, Payload, Option<TransferId>),
}

/// Sends the answer of a question off, once what it saw is durable.
pub(crate) type Completion = Box<dyn FnOnce(Result<(), SubmitError>) + Send>;

/// A question: looks at the ledger, and gives back how to answer.
pub(crate) type Question = Box<dyn FnOnce(&Ledger) -> Completion + Send>;

/// Something for the engine's thread to do.
pub(crate) enum Submission {
    /// Decide a command and answer.
    Command {
        command: Command,
        payload: Payload,
        /// What the archive said of the command's transfer.
        archived: Archived,
        /// The archive's epoch when it said so.
        archive_epoch: u64,
        /// When it was handed in, for measuring.
        arrived: Instant,
        answer: oneshot::Sender<Answer>,
        /// Sends the reply; without one it is sent at once, by the committing thread.
        batcher: Option<Arc<ReplyBatcher>>,
    },
    /// Decide a command that nobody waits for, such as the courier's reports, by memory alone.
    Quiet(Command),
    /// Answer a question.
    Question(Question),
}

/// Reports that the queue holds beyond its bound for commands. A report that is lost leaves its callbacks in the outbox
/// until the next start, and with them their journal segments; and reports come in bounded numbers, since lanes hold
/// bounded numbers of callbacks.
pub(crate) const REPORTS_MAX: usize = 65_536;

/// A callback's key in a record.
const CALLBACK_KEY_BYTES: usize = 16;

impl Submission {
    /// The transfer that it is about.
    pub(crate) fn transfer_id(&self) -> Option<TransferId> {
        match self {
            Self::Command { command, .. } | Self::Quiet(command) => command.transfer_id(),
            Self::Question(_) => None,
        }
    }

    /// About what its record will take, beyond what the ledger adds, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let keys = |command: &Command| match command {
            Command::Delivered(keys) | Command::Redeliver(keys) => keys.len() * CALLBACK_KEY_BYTES,
            // The record has the changes, which are not in the payload.
            Command::Act(act) if matches!(act.deed, Deed::Change(AdminCommand::ChangeSet(_))) => {
                CHANGE_SET_BYTES_MAX
            }
            _ => 0,
        };
        match self {
            Self::Command { command, payload, .. } => {
                // What the body of a bulk says is in the record a second time, as its events.
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

/// A queue with many producers and one consumer, which takes all there is at once.
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

    /// Adds a submission, or tells why not.
    pub(crate) fn push(&self, submission: Submission) -> Result<(), SubmitError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(SubmitError::Stopped);
        }
        // Nobody waits for a quiet command: it goes with the next one, or with the next tick.
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

    /// Waits until something is there, the time is up, or the queue is closed or nudged; swaps all there is into
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
            // Where the cores are all busy, those who are about to submit run first and share the batch; where they are
            // not, this returns at once.
            drop(state);
            yield_now();
            state = self.lock();
        }
        state.is_nudged = false;
        mem::swap(&mut state.submissions, into);
        !(state.is_closed && into.is_empty())
    }

    /// The same without waiting for anybody.
    pub(crate) fn take_now(&self, into: &mut VecDeque<Submission>) -> bool {
        let mut state = self.lock();
        state.is_nudged = false;
        mem::swap(&mut state.submissions, into);
        !(state.is_closed && into.is_empty())
    }

    /// Ends the consumer's waiting, now or the next time.
    pub(crate) fn nudge(&self) {
        let mut state = self.lock();
        state.is_nudged = true;
        if mem::take(&mut state.is_waiting) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Lets nothing more in; what is there is still taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().submissions.len()
    }
}
