//! Commands: what the outside asks of the ledger, one file per kind of decision.

mod abort;
mod admin;
mod callbacks;
mod expire;
mod fulfil;
mod funds;
mod get;
mod participants;
mod prepare;
mod put;
mod removal;
mod settlement_models;
mod tick;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::{ErrorCode, FspId, Present};

pub use abort::Abort;
pub use admin::{AdminCommand, AdminOutcome};
pub use expire::Expire;
pub use fulfil::{Fulfil, FulfilState, Fulfilment};
pub use funds::{FundsAction, FundsEnd, FundsPrepare};
pub use get::Get;
pub use participants::ENDPOINT_VALUE_BYTES_MAX;
pub use prepare::Prepare;
pub use settlement_models::NewSettlementModel;
pub use tick::EXPIRIES_PER_TICK_MAX;

use crate::Ledger;
use crate::callback::{Callback, CallbackContent, CallbackKey, TransferRef};
use crate::event::Event;
use crate::participant::ParticipantId;
use crate::transfer::Transfer;

/// What the outside asks of the ledger.
#[derive(Clone, Debug)]
pub enum Command {
    /// `POST /transfers`.
    Prepare(Prepare),
    /// `PUT /transfers/{ID}`.
    Fulfil(Fulfil),
    /// `PUT /transfers/{ID}/error`.
    Abort(Abort),
    /// `GET /transfers/{ID}`.
    Get(Get),
    /// Time has passed: expire what is due.
    Tick,
    /// An operator ends a reservation.
    Expire(Expire),
    /// The courier delivered these callbacks.
    Delivered(Vec<CallbackKey>),
    /// The courier gave a callback up.
    Park {
        /// Which.
        key: CallbackKey,
        /// How often it was tried.
        attempts: u32,
        /// What went wrong last.
        reason: Box<str>,
    },
    /// An operator wants parked callbacks tried again.
    Redeliver(Vec<CallbackKey>),
    /// Retention is about to remove the transfers that finished up to this record from the archive.
    RemoveFinished {
        /// The last record.
        to_seq: u64,
    },
    /// An operator's change.
    Admin(AdminCommand),
}

/// What is known of a transfer id beyond the ledger's memory.
#[derive(Clone, Debug, Default)]
pub enum Archived {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// The archive does not hold it.
    Absent,
    /// The archive holds it.
    Found(Box<Transfer>),
}

/// What came of a command. Reused from command to command, so that deciding allocates little.
#[derive(Debug, Default)]
pub struct Decision {
    /// What changes.
    pub events: Vec<Event>,
    /// Which callbacks are owed.
    pub callbacks: Vec<Callback>,
    /// What the caller is told once the record is durable.
    pub reply: Reply,
}

/// What the caller of a command is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// Taken: whatever is to be said follows by callback.
    #[default]
    Accepted,
    /// The sender is no participant, so that nobody could be told anything later: refused at once, nothing was decided.
    UnknownSender(FspId),
    /// The id is not in memory: look into the archive, set [`Archived`] and submit again. Nothing was decided.
    NeedsArchive,
    /// An operator's change was made or refused.
    Admin(Result<AdminOutcome, Refusal>),
}

/// Why an operator's command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// FSPIOP error code; its HTTP status is that of the answer.
    pub code: ErrorCode,
    /// What was wrong, for people.
    pub detail: Box<str>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into().into_boxed_str() }
    }

    pub(crate) fn validation(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::VALIDATION, detail)
    }

    pub(crate) fn unknown_participant(name: &str) -> Self {
        Self::new(ErrorCode::ID_NOT_FOUND, format!("Participant '{name}' does not exist"))
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.code.describe(&self.detail))
    }
}

impl core::error::Error for Refusal {}

impl Decision {
    /// Empties it for the next command.
    pub fn clear(&mut self) {
        self.events.clear();
        self.callbacks.clear();
        self.reply = Reply::Accepted;
    }

    /// Whether anything must be journalled.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.callbacks.is_empty()
    }

    pub(crate) fn tell(
        &mut self,
        target: ParticipantId,
        transfer: impl Into<TransferRef>,
        content: CallbackContent,
    ) {
        self.callbacks.push(Callback { target, transfer: transfer.into(), content });
    }

    pub(crate) fn tell_error(
        &mut self,
        target: ParticipantId,
        transfer: impl Into<TransferRef>,
        code: ErrorCode,
        detail: &str,
    ) {
        self.tell(target, transfer, CallbackContent::Error(code, code.describe(detail).into_boxed_str()));
    }
}

impl Ledger {
    /// Decides a command at an instant, without changing anything. `out` must be empty.
    ///
    /// The decision takes effect through [`Ledger::evolve`], after it is in the journal's next batch.
    pub fn decide(&self, command: &Command, present: impl Into<Present>, out: &mut Decision) {
        debug_assert!(out.is_empty(), "the decision is reused without clearing it");
        let present: Present = present.into();
        let now = present.at;
        match command {
            Command::Prepare(prepare) => self.decide_prepare(prepare, present, out),
            Command::Fulfil(fulfil) => self.decide_fulfil(fulfil, now, out),
            Command::Abort(abort) => self.decide_abort(abort, now, out),
            Command::Get(get) => self.decide_get(get, out),
            Command::Tick => self.decide_tick(now, out),
            Command::Expire(expire) => self.decide_expire(expire, now, out),
            Command::Delivered(keys) => self.decide_delivered(keys, out),
            Command::Park { key, attempts, reason } => self.decide_park(*key, *attempts, reason, out),
            Command::Redeliver(keys) => self.decide_redeliver(keys, out),
            Command::RemoveFinished { to_seq } => self.decide_removal(*to_seq, out),
            Command::Admin(command) => {
                let reply = self.decide_admin(command, now, out);
                if reply.is_err() {
                    out.clear();
                }
                out.reply = Reply::Admin(reply);
            }
        }
    }

    /// Finds a transfer in memory or in what was fetched from the archive; `Err` when nobody has looked there yet.
    fn find<'a>(
        &'a self,
        transfer: &TransferRef,
        archived: &'a Archived,
    ) -> Result<Option<&'a Transfer>, MustLook> {
        let Some(id) = transfer.id() else { return Ok(None) };
        if let Some(transfer) = self.transfer(id) {
            return Ok(Some(transfer));
        }
        match archived {
            Archived::Unknown => Err(MustLook),
            Archived::Absent => Ok(None),
            Archived::Found(transfer) => {
                debug_assert_eq!(transfer.id, id);
                Ok(Some(transfer))
            }
        }
    }
}

/// The archive must be asked before this can be decided.
struct MustLook;
