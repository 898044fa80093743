//! Events: what a decision changed. The state is the fold of them.
//!
//! This table is their one declaration. A row has the tag, the name, the fields and the text that `upesi journal`
//! prints; [`Ledger::evolve`](crate::Ledger::evolve) has the fold.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use crate::account::{AccountId, LedgerAccountTypeId};
use crate::callback::CallbackKey;
use crate::endpoint::EndpointType;
use crate::funds::{FundsState, FundsTransfer};
use crate::participant::ParticipantId;
use crate::refusal::Cause;
use crate::settlement::{SettlementNet, SettlementStage};
use crate::settlement_model::SettlementModel;
use crate::table::events;
use crate::transfer::{AbortKind, Fingerprint, Transfer};
use crate::window::{ContentRef, NewContent, SettlementId, WindowId};

events! {
    /// A change of state. The instant of the change is that of its journal record, or of [`Event::DecidedAt`].
    Event, "unknown event; it was written by a newer version" {
        /// A prepare was reserved, or refused (its state says which).
        1 TransferPrepared(transfer: Transfer) = "transfer {transfer}";
        /// A reserved transfer was committed.
        2 TransferCommitted {
            id as "transferId": TransferId,
            /// Preimage of the condition.
            fulfilment: [u8; 32],
            /// Fingerprint of the fulfil.
            fingerprint: Fingerprint,
            /// The fulfil's extensions.
            extensions: Option<Box<str>>,
        } = "transfer {id} COMMITTED";
        /// A reserved transfer was aborted.
        3 TransferAborted {
            id as "transferId": TransferId,
            kind: AbortKind,
            cause: Cause,
            /// Fingerprint of the PUT that did it.
            fingerprint: Option<Fingerprint>,
            /// The reason of the operator who ended it.
            operator_reason: Option<Box<str>>,
        } = "transfer {id} {kind} {cause}, operator's reason: {operator_reason}";
        /// A participant joined.
        10 ParticipantCreated {
            /// The next identifier.
            id as "number": ParticipantId,
            name: FspId,
            /// Whether it stands for other schemes.
            is_proxy: bool,
        } = "participant {name} created, proxy: {is_proxy}";
        /// A participant was activated or deactivated.
        11 ParticipantActivitySet { id as "participant": ParticipantId, is_active: bool }
            = "participant {id} active: {is_active}";
        /// An account was created.
        12 AccountCreated {
            /// The next identifier.
            id: AccountId,
            /// Owner.
            participant: ParticipantId,
            currency: Currency,
            kind as "ledgerAccountType": LedgerAccountTypeId,
            /// Whether it is active and opened at once, as hub accounts are.
            is_opened: bool,
        } = "account {id} created";
        /// An account got its balance row and became active.
        13 AccountOpened { id: AccountId } = "account {id} opened";
        /// An account was activated or deactivated.
        14 AccountActivitySet { id: AccountId, is_active: bool } = "account {id} active: {is_active}";
        /// Money moved between two accounts outside a transfer: `amount` is added to one and taken from the other.
        15 Posted {
            /// The account whose balance rises.
            debit: AccountId,
            /// The account whose balance falls.
            credit: AccountId,
            amount: Amount,
        } = "posted {amount} from {credit} to {debit}";
        /// A callback URL or address was set.
        16 EndpointSet { participant: ParticipantId, kind as "endpointType": EndpointType, value: Box<str> }
            = "endpoint {participant} {kind} = {value}";
        /// A net debit cap was set.
        17 LimitSet {
            participant: ParticipantId,
            currency: Currency,
            /// The cap.
            value: Amount,
            /// Alarm threshold in hundredths of a percent.
            alarm_basis_points: u16,
        } = "limit {participant} {currency} {value}";
        /// A settlement model was created.
        18 SettlementModelCreated(model: SettlementModel) = "settlement model {model} created";
        /// A settlement model was activated or deactivated.
        19 SettlementModelActivitySet { id: u32, is_active: bool } = "settlement model {id} active: {is_active}";
        /// A ledger account type was created.
        20 LedgerAccountTypeCreated {
            /// The next identifier.
            id: LedgerAccountTypeId,
            name: Box<str>,
            description: Box<str>,
            /// Whether it may be used.
            is_active: bool,
            /// Whether settlement models may settle it.
            is_settleable: bool,
        } = "ledger account type {name} created";
        /// Funds were deposited, or a withdrawal was reserved or refused (its state says which).
        21 FundsPrepared(funds: FundsTransfer) = "funds {funds}";
        /// A reserved withdrawal ended.
        22 FundsEnded {
            id as "transferId": TransferId,
            /// COMMITTED or ABORTED.
            state: FundsState,
            /// The operator's reason.
            reason: Box<str>,
        } = "funds {id} {state} \"{reason}\"";
        /// Callbacks were delivered.
        30 CallbacksDelivered(callbacks: Vec<CallbackKey>) = "delivered {callbacks}";
        /// A callback was given up until an operator looks.
        31 CallbackParked {
            key as "callback": CallbackKey,
            /// How often it was tried.
            attempts: u32,
            /// What went wrong last.
            reason: Box<str>,
        } = "parked {key} after {attempts} attempts: {reason}";
        /// Parked callbacks were put back into their lanes.
        32 CallbacksRedelivered(callbacks: Vec<CallbackKey>) = "to be redelivered {callbacks}";
        /// Retention removed the transfers that finished up to a record: their ids are unknown from here on.
        40 FinishedRemoved {
            /// The last of the records whose finished transfers are gone.
            to_seq: u64,
        } = "retention removed what finished up to record {to_seq}";
        /// First in a record that was decided before its own instant: the journal's time was ahead of the hub's clock.
        41 DecidedAt(at: Timestamp) = "decided at {at} by the clock";
        /// An operator accepted that the wall clock jumped.
        42 ClockAccepted {
            /// How far, in milliseconds; negative when it jumped back.
            jump_ms: i64,
            /// The operator's reason.
            reason: Box<str>,
        } = "jump of the clock by {jump_ms} ms accepted: \"{reason}\"";
        /// The open settlement window was closed and the next one opened.
        50 WindowClosed {
            id as "settlementWindowId": WindowId,
            next as "nextSettlementWindowId": WindowId,
            /// The operator's reason.
            reason: Box<str>,
            /// One per currency and ledger account type that its transfers used.
            contents: Vec<NewContent>,
        } = "window {id} closed: \"{reason}\", contents {contents}; window {next} opened";
        /// A settlement of closed windows was created.
        51 SettlementCreated {
            id as "settlementId": SettlementId,
            /// Number of the settlement model.
            model as "settlementModelId": u32,
            /// The operator's reason.
            reason: Box<str>,
            /// What it settles.
            contents: Vec<ContentRef>,
            /// What each account owes.
            accounts: Vec<SettlementNet>,
        } = "settlement {id} created by model {model}: \"{reason}\", contents {contents}, nets {accounts}";
        /// Accounts of a settlement reached their next states, or recorded theirs again. Money moves by further events.
        52 SettlementAdvanced { id as "settlementId": SettlementId, accounts: Vec<SettlementStage> }
            = "settlement {id}: {accounts}";
        /// A settlement was given up, or another reason was recorded for that. Money goes back by further events.
        53 SettlementAborted {
            id as "settlementId": SettlementId,
            /// The operator's reason.
            reason: Box<str>,
            /// The bank's reference.
            external_reference as "externalReference": Option<Box<str>>,
        } = "settlement {id} ABORTED: \"{reason}\"";
    }
}
