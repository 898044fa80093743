//! The money rules of a scheme: one deterministic state machine for participants, transfers, settlement and operators.
//!
//! [`Ledger::decide`] turns a [`Command`] into a [`Decision`]: events, callbacks owed and a reply. [`Ledger::evolve`]
//! folds a recorded decision into the state. Replaying the journal through `evolve` rebuilds the state exactly, and
//! nothing is decided twice. The crate has no IO, clock, randomness or floats: time is an argument.
#![no_std]

extern crate alloc;

pub mod audit;
mod base;
mod core;
mod money;
mod operators;
mod rules;
mod scheme;
mod settlement;
#[cfg(test)]
mod tests;

pub use crate::base::codec;
pub use crate::base::ids::{
    AccountId, CallbackKey, ContentId, LedgerAccountTypeId, ParticipantId, SettlementId, WindowId,
};
pub use crate::base::refusal::{AbortKind, Cause, Refusal};
pub use crate::base::show::{Names, PrintedValue, Show};
pub use crate::base::stored::Stored;
pub use crate::core::actor::Actor;
pub use crate::core::callback::{Callback, CallbackContent, ResourceId, ResourceKind, StateMethod, Subject};
pub use crate::core::config::{FundsOutGuard, LedgerConfig, UnknownTransfer};
pub use crate::core::courier::courier_of;
pub use crate::core::decision::{AuditedReply, Decision, Reply};
pub use crate::core::effects::effects_of;
pub use crate::core::event::Event;
pub use crate::core::facts::{Archived, DecisionInput};
pub use crate::core::limits::{CALLBACKS_PER_RECORD_MAX, Limits};
pub use crate::core::outbox::{Outbox, OutboxEntry, Parked};
pub use crate::core::record::{Payload, Record};
pub use crate::core::snapshot::SnapshotError;
pub use crate::core::state::{Ledger, Totals};
pub use crate::money::account::{Account, LedgerAccountType};
pub use crate::money::bulk::table::BulkTotals;
pub use crate::money::bulk::{
    AskedItem, BULK_ITEMS_MAX, Bulk, BulkAnswer, BulkItem, BulkRequest, BulkState, BulkView, ItemOutcome,
    ItemResult, ItemState, ItemsFault, NewItems, PublicBulkState,
};
pub use crate::money::fee::{FEE_DECIMALS_MAX, FeePayer, FeeRule, FeeTerms, NoFee, RATE_WHOLE};
pub use crate::money::funds::{FundsDirection, FundsState, FundsTransfer};
pub use crate::money::fx_transfer::table::FxTransferTotals;
pub use crate::money::fx_transfer::{
    FxTransfer, FxTransferAccounts, FxTransferAnswer, FxTransferLeg, FxTransferSide, FxTransferState,
    LegWindows,
};
pub use crate::money::obligation::{Obligation, ObligationKind};
pub use crate::money::transfer::{
    Aborted, ChargedFee, Committed, Fingerprint, PublicState, SettlementMode, Transfer, TransferState,
    TransferView,
};
pub use crate::operators::action::{AdminAction, AdminActions, Area};
pub use crate::operators::admin_command::{AdminCommand, ChangeSet, SetChange};
pub use crate::operators::approvals::{
    Approvals, PROPOSALS_ENDED_MAX, PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX,
};
pub use crate::operators::change_set::{
    CHANGE_SET_BYTES_MAX, CHANGE_SET_CHANGES_MAX, CHANGE_SETS_OF_MAKER_MAX, ChangeSetProgress,
};
pub use crate::operators::operator::{
    CREDENTIALS_MAX, Credential, ENROLMENT_HOURS_MAX, EXCLUSIONS, OPERATOR_NAME_BYTES_MAX, OPERATORS_MAX,
    Operator, OperatorRole, OperatorRoles, Operators, Secret, TOKEN_DAYS_MAX,
};
pub use crate::operators::outcome::AdminOutcome;
pub use crate::operators::policy::{ApprovalPolicy, WAIVERS_MAX};
pub use crate::operators::proposal::{PROPOSAL_REASON_CHARS_MIN, Proposal, ProposalEnd};
pub use crate::operators::proposal_state::ProposalState;
pub use crate::operators::refusal::AdminRefusal;
pub use crate::operators::trail::{AUDIT_TEXT_BYTES_MAX, AuditActor, AuditEntry, Trail};
pub use crate::operators::user_credential::{SEALED_BYTES, SEED_BYTES, SealedSecret, UserCredential};
pub use crate::rules::command;
pub use crate::rules::command::Command;
pub use crate::rules::operators::change::Change;
pub use crate::scheme::binding::{Binding, BindingKind};
pub use crate::scheme::block::Block;
pub use crate::scheme::endpoint::EndpointType;
pub use crate::scheme::participant::{AccountRef, Limit, Participant};
pub use crate::scheme::signature_key::{
    KEY_OVERLAP_HOURS, KEY_OVERLAP_HOURS_MAX, ParticipantKeys, PublicKeyDer, RevokedKey,
    SIGNATURE_KEY_BYTES_MAX, SignatureKey, SignatureKeyState, SignatureKeys,
};
pub use crate::settlement::model::{Delay, Granularity, Interchange, SettlementModel};
pub use crate::settlement::settlements::{
    CarriedRemainder, Settlement, SettlementAccount, SettlementNet, SettlementStage, SettlementState,
};
pub use crate::settlement::window::{
    Content, ContentRef, Net, NewContent, PairSum, Sum, Window, WindowState,
};
