//! The money rules: one deterministic state machine for participants, accounts, limits and transfers.
//!
//! [`Ledger::decide`] turns a [`Command`] into a [`Decision`]: events, callbacks owed and a reply.
//! [`Ledger::evolve`] folds a recorded decision into the state. Replaying the journal through `evolve` rebuilds the
//! state exactly; nothing is ever decided twice. No IO, clock, randomness or floats: time arrives as an argument.
#![no_std]

extern crate alloc;

mod account;
mod actor;
pub mod audit;
mod callback;
pub mod codec;
pub mod command;
mod config;
mod endpoint;
mod event;
mod facts;
mod funds;
mod limits;
mod outbox;
mod participant;
mod query;
mod record;
mod refusal;
mod settlement;
mod settlement_model;
mod show;
mod snapshot;
mod state;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod transfer;
mod transfer_table;
mod window;

pub use account::{Account, AccountId, LedgerAccountType, LedgerAccountTypeId};
pub use actor::Actor;
pub use callback::{
    Callback, CallbackContent, CallbackKey, ResourceId, ResourceKind, StateMethod, Subject, TransferView,
};
pub use command::{AdminCommand, AdminOutcome, AdminRefusal, Command, Decision, Reply};
pub use config::{FundsOutGuard, LedgerConfig, UnknownTransfer};
pub use endpoint::EndpointType;
pub use event::Event;
pub use facts::{Archived, Facts};
pub use funds::{FundsDirection, FundsState, FundsTransfer};
pub use limits::CALLBACKS_PER_RECORD_MAX;
pub use outbox::{Outbox, OutboxEntry, Parked};
pub use participant::{AccountRef, Limit, Participant, ParticipantId};
pub use record::{Payload, Record};
pub use refusal::{Cause, Refusal};
pub use settlement::{Settlement, SettlementAccount, SettlementNet, SettlementStage, SettlementState};
pub use settlement_model::{Delay, Granularity, Interchange, SettlementModel};
pub use show::{Names, Show, Shown};
pub use snapshot::SnapshotError;
pub use state::{Ledger, Totals};
pub use stored::Stored;
pub use transfer::{AbortKind, Fingerprint, PublicState, Transfer, TransferState};
pub use window::{
    Content, ContentId, ContentRef, Net, NewContent, Pair, SettlementId, Sum, Window, WindowId, WindowState,
};
