//! The money rules: one deterministic state machine for participants, accounts, limits and transfers.
//!
//! [`Ledger::decide`] turns a [`Command`] into a [`Decision`]: events, callbacks owed and a reply. [`Ledger::evolve`]
//! folds a recorded decision into the state. Replaying the journal through `evolve` rebuilds the state exactly, and
//! nothing is decided twice. The crate has no IO, clock, randomness or floats: time is an argument.
#![no_std]

extern crate alloc;

mod account;
mod actor;
mod approval;
pub mod audit;
mod binding;
mod block;
mod bulk;
mod callback;
mod change;
mod change_set;
pub mod codec;
pub mod command;
mod conversion;
mod courier;
mod endpoint;
mod event;
mod facts;
mod fee;
mod funds;
mod index;
mod limits;
mod obligation;
mod operator;
mod outbox;
mod participant;
mod query;
mod record;
mod refusal;
mod remainder;
mod settlement;
mod settlement_model;
mod show;
mod signature_key;
mod snapshot;
mod state;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod trail;
mod transfer;
mod transfer_table;
mod window;

pub use account::{Account, AccountId, LedgerAccountType, LedgerAccountTypeId};
pub use actor::Actor;
pub use approval::{
    AdminAction, ApprovalPolicy, Approvals, Area, PROPOSAL_REASON_CHARS_MIN, PROPOSALS_ENDED_MAX,
    PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX, Proposal, ProposalEnd, ProposalState, WAIVERS_MAX,
};
pub use binding::{Binding, BindingKind};
pub use block::Block;
pub use bulk::{
    AskedItem, BULK_ITEMS_MAX, Bulk, BulkAnswer, BulkItem, BulkRequest, BulkState, BulkTotals, BulkView,
    ItemOutcome, ItemResult, ItemState, ItemsFault, NewItems, PublicBulkState,
};
pub use callback::{
    Callback, CallbackContent, CallbackKey, ResourceId, ResourceKind, StateMethod, Subject, TransferView,
};
pub use change::Change;
pub use change_set::{
    CHANGE_SET_BYTES_MAX, CHANGE_SET_CHANGES_MAX, CHANGE_SETS_OF_MAKER_MAX, ChangeSet, Progress, SetChange,
};
pub use command::{AdminCommand, AdminOutcome, AdminRefusal, Command, Decision, Reply};
pub use conversion::{
    Conversion, ConversionAccounts, ConversionAnswer, ConversionLeg, ConversionSide, ConversionState,
    ConversionTotals, LegWindows,
};
pub use courier::courier_of;
pub use endpoint::EndpointType;
pub use event::Event;
pub use facts::{Archived, Facts};
pub use fee::{FEE_DECIMALS_MAX, FeePayer, FeeRule, FeeTerms, NoFee, RATE_WHOLE};
pub use funds::{FundsDirection, FundsState, FundsTransfer};
pub use limits::{CALLBACKS_PER_RECORD_MAX, FundsOutGuard, LedgerConfig, Limits, UnknownTransfer};
pub use obligation::{Obligation, ObligationKind};
pub use operator::{
    CREDENTIALS_MAX, Credential, ENROLMENT_HOURS_MAX, EXCLUSIONS, OPERATOR_NAME_BYTES_MAX, OPERATORS_MAX,
    Operator, Operators, Person, Role, Roles, SEALED_BYTES, SEED_BYTES, Sealed, Secret, TOKEN_DAYS_MAX,
};
pub use outbox::{Outbox, OutboxEntry, Parked};
pub use participant::{AccountRef, Limit, Participant, ParticipantId};
pub use record::{Payload, Record};
pub use refusal::{Cause, Refusal};
pub use settlement::{
    CarriedRemainder, Settlement, SettlementAccount, SettlementNet, SettlementStage, SettlementState,
};
pub use settlement_model::{Delay, Granularity, Interchange, SettlementModel};
pub use show::{Names, Show, Shown};
pub use signature_key::{
    KEY_OVERLAP_HOURS, KEY_OVERLAP_HOURS_MAX, ParticipantKeys, PublicKeyDer, RevokedKey,
    SIGNATURE_KEY_BYTES_MAX, SignatureKey, SignatureKeyState, SignatureKeys,
};
pub use snapshot::SnapshotError;
pub use state::{Ledger, Totals};
pub use stored::Stored;
pub use trail::{AUDIT_TEXT_BYTES_MAX, Attribution, AuditEntry, Trail, effects_of};
pub use transfer::{
    AbortKind, Aborted, ChargedFee, Committed, Fingerprint, PublicState, Settled, Transfer, TransferState,
};
pub use window::{
    Content, ContentId, ContentRef, Net, NewContent, Pair, SettlementId, Sum, Window, WindowId, WindowState,
};
