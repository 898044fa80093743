//! Events: the state changes of a decision. The state is the fold over all events.
//!
//! This table is the only declaration of events. A row contains the tag, the name, the fields and the text that `upesi
//! journal` prints. [`Ledger::evolve`](crate::Ledger::evolve) contains the fold.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{Amount, BulkId, Currency, FspId, FxTransferId, Timestamp, TransferId};

use crate::base::ids::{AccountId, CallbackKey, LedgerAccountTypeId, ParticipantId, SettlementId, WindowId};
use crate::base::refusal::{AbortKind, Cause};
use crate::base::table::events;
use crate::money::bulk::{Bulk, BulkAnswer, ItemResult};
use crate::money::fee::{FeeRule, NoFee};
use crate::money::funds::{FundsState, FundsTransfer};
use crate::money::fx_transfer::{FxTransfer, FxTransferAnswer};
use crate::money::transfer::{Fingerprint, SettlementMode, Transfer};
use crate::operators::operator::{Credential, OperatorRoles};
use crate::operators::policy::ApprovalPolicy;
use crate::operators::proposal::Proposal;
use crate::operators::proposal_state::ProposalState;
use crate::operators::trail::AuditEntry;
use crate::operators::user_credential::UserCredential;
use crate::scheme::binding::BindingKind;
use crate::scheme::block::Block;
use crate::scheme::endpoint::EndpointType;
use crate::scheme::signature_key::SignatureKey;
use crate::settlement::model::SettlementModel;
use crate::settlement::settlements::{CarriedRemainder, SettlementNet, SettlementStage};
use crate::settlement::window::{ContentRef, NewContent};

events! {
    /// A change of state. Its time is the time of its journal record, or of [`Event::DecidedAt`].
    Event, "unknown event; it was written by a newer version" {
        /// A prepare was reserved or rejected; the transfer's state shows which.
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
            /// Whether the amount was added to a settlement window or settled immediately.
            settled as "settledAtOnce": SettlementMode,
        } = "transfer {id} COMMITTED{settled}";
        /// A reserved transfer was aborted.
        3 TransferAborted {
            id as "transferId": TransferId,
            kind: AbortKind,
            cause: Cause,
            /// Fingerprint of the PUT that caused the abort.
            fingerprint: Option<Fingerprint>,
            /// The reason of the operator who ended it.
            operator_reason: Option<Box<str>>,
        } = "transfer {id} {kind} {cause}, operator's reason: {operator_reason}";
        /// A participant joined.
        10 ParticipantCreated {
            /// The next identifier.
            id as "number": ParticipantId,
            name: FspId,
            /// Whether the participant represents other schemes.
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
            /// Whether the account is active and opened immediately, as hub accounts are.
            is_opened: bool,
        } = "account {id} created";
        /// An account got its balance row and became active.
        13 AccountOpened { id: AccountId } = "account {id} opened";
        /// An account was activated or deactivated.
        14 AccountActivitySet { id: AccountId, is_active: bool } = "account {id} active: {is_active}";
        /// Money moved between two accounts outside a transfer: `amount` is added to one and subtracted from the other.
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
            /// Whether the type may be used.
            is_active: bool,
            /// Whether settlement models may settle it.
            is_settleable: bool,
        } = "ledger account type {name} created";
        /// Funds were deposited, or a withdrawal was reserved or rejected; the state shows which.
        21 FundsPrepared(funds: FundsTransfer) = "funds {funds}";
        /// A reserved withdrawal ended.
        22 FundsEnded {
            id as "transferId": TransferId,
            /// COMMITTED or ABORTED.
            state: FundsState,
            reason: Box<str>,
        } = "funds {id} {state} \"{reason}\"";
        /// A client is this participant if it has the credential.
        23 BindingAdded { participant: ParticipantId, kind: BindingKind, value: Box<str> }
            = "binding {participant} {kind}:{value} added";
        /// A credential no longer identifies this participant.
        24 BindingRemoved { participant: ParticipantId, kind: BindingKind, value: Box<str> }
            = "binding {participant} {kind}:{value} removed";
        /// Callbacks were delivered.
        30 CallbacksDelivered(callbacks: Vec<CallbackKey>) = "delivered {callbacks}";
        /// Delivery of a callback was given up until an operator intervenes.
        31 CallbackParked {
            key as "callback": CallbackKey,
            /// Number of delivery attempts.
            attempts: u32,
            /// The last error.
            reason: Box<str>,
        } = "parked {key} after {attempts} attempts: {reason}";
        /// Parked callbacks were put back into their lanes.
        32 CallbacksRedelivered(callbacks: Vec<CallbackKey>) = "to be redelivered {callbacks}";
        /// The nodes of a cluster that deliver callbacks from now on.
        33 CouriersSet {
            /// Numbers of the nodes, in order.
            nodes: Vec<u32>,
        } = "couriers are nodes {nodes}";
        /// Retention removed the transfers that finished up to a record. Their ids are unknown from now on.
        40 FinishedRemoved {
            /// The last record whose finished transfers were removed.
            to_seq: u64,
        } = "retention removed the transfers that finished up to record {to_seq}";
        /// A division of the archive ends, on every node, with the transfers that finished up to this record.
        43 ArchiveDivided = "a division of the archive ends here";
        /// First event of a record that was decided before the record's own time, because journal time was ahead of the
        /// hub's clock.
        41 DecidedAt(at: Timestamp) = "decided at {at} by the clock";
        /// An operator accepted that the wall clock jumped.
        42 ClockAccepted {
            /// Size of the jump in milliseconds; negative if the clock jumped back.
            jump_ms: i64,
            reason: Box<str>,
        } = "jump of the clock by {jump_ms} ms accepted: \"{reason}\"";
        /// The open settlement window was closed and the next one opened.
        50 WindowClosed {
            id as "settlementWindowId": WindowId,
            next as "nextSettlementWindowId": WindowId,
            reason: Box<str>,
            /// One for each currency and ledger account type that its transfers used.
            contents: Vec<NewContent>,
        } = "window {id} closed: \"{reason}\", contents {contents}; window {next} opened";
        /// A settlement of closed windows was created.
        51 SettlementCreated {
            id as "settlementId": SettlementId,
            /// Number of the settlement model.
            model as "settlementModelId": u32,
            reason: Box<str>,
            /// The window contents that it settles.
            contents: Vec<ContentRef>,
            /// The net amount of each account.
            accounts: Vec<SettlementNet>,
        } = "settlement {id} created by model {model}: \"{reason}\", contents {contents}, nets {accounts}";
        /// Accounts of a settlement reached their next states, or recorded their current states again. Further events
        /// move the money.
        52 SettlementAdvanced { id as "settlementId": SettlementId, accounts: Vec<SettlementStage> }
            = "settlement {id}: {accounts}";
        /// A settlement was aborted, or another reason for the abort was recorded. Further events return the money.
        53 SettlementAborted {
            id as "settlementId": SettlementId,
            reason: Box<str>,
            /// The bank's reference.
            external_reference as "externalReference": Option<Box<str>>,
        } = "settlement {id} ABORTED: \"{reason}\"";
        /// The liquidity check of a settlement raised the net debit cap of an account's owner.
        54 CapRaised {
            id as "settlementId": SettlementId,
            account: AccountId,
            /// The amount of the increase.
            amount: Amount,
        } = "settlement {id}: net debit cap of account {account} raised by {amount}";
        /// An aborted settlement lowers a net debit cap by the amount of its earlier increase.
        55 CapReturned { id as "settlementId": SettlementId, account: AccountId, amount: Amount }
            = "settlement {id}: net debit cap of account {account} lowered by {amount}";
        /// A movement of funds settles an account's net amount. The movement is earlier in the same record, or in an
        /// earlier record.
        56 CoverMoved {
            id as "settlementId": SettlementId,
            account: AccountId,
            funds as "transferId": TransferId,
        } = "settlement {id}: cover of account {account} moved by {funds}";
        /// A settlement takes over remainders of earlier settlements and leaves new ones. The event follows the
        /// creation in the same record.
        57 RemaindersCarried { id as "settlementId": SettlementId, accounts: Vec<CarriedRemainder> }
            = "settlement {id}: remainders {accounts}";
        /// The hub started for the first time and the first window opened. The event is in the first record of a
        /// journal; journals of earlier versions do not have it.
        58 FirstWindowOpened(at: Timestamp) = "window 1 opened at {at}";
        /// An interchange fee rule was created.
        60 FeeRuleCreated(rule: FeeRule) = "fee rule {rule} created";
        /// The end of an interchange fee rule was set.
        61 FeeRuleEnded {
            id as "feeRuleId": u32,
            /// The end of the rule: it no longer applies from this instant on.
            until: Timestamp,
        } = "fee rule {id} ends at {until}";
        /// A committed transfer owes a fee. The event follows the commit in the same record.
        62 FeeCharged {
            transfer as "transferId": TransferId,
            /// Number of the rule.
            rule as "feeRuleId": u32,
            /// The account that owes the fee.
            payer as "payerAccount": AccountId,
            /// The account that the fee is owed to.
            payee as "payeeAccount": AccountId,
            amount: Amount,
        } = "fee of transfer {transfer} by rule {rule}: {amount} from {payer} to {payee}";
        /// A rule applies to a committed transfer, but no fee is owed. The event follows the commit in the same record.
        63 FeeNotCharged {
            transfer as "transferId": TransferId,
            /// Number of the rule.
            rule as "feeRuleId": u32,
            /// The amount that the rule would have charged.
            amount: Amount,
            /// The reason why nothing is charged.
            reason: NoFee,
        } = "fee of transfer {transfer} by rule {rule}: {amount} not charged, {reason}";
        /// An FX transfer was reserved or rejected; its state shows which.
        70 FxTransferPrepared as "ConversionPrepared" (fx_transfer: Box<FxTransfer>) = "FX transfer {fx_transfer}";
        /// The FXP fulfilled an FX transfer. Its outcome now depends on its transfer.
        71 FxTransferFulfilled as "ConversionFulfilled" {
            id as "commitRequestId": FxTransferId,
            /// Preimage of the condition.
            fulfilment: [u8; 32],
            /// The FXP's PUT.
            answer: FxTransferAnswer,
        } = "FX transfer {id} fulfilled";
        /// An FX transfer was committed with its transfer.
        72 FxTransferCommitted as "ConversionCommitted" {
            id as "commitRequestId": FxTransferId,
            /// Whether the reserved amount was added to a settlement window or settled immediately.
            settled as "settledAtOnce": SettlementMode,
            /// How the amount that the payee passes on to the FXP is settled; absent on the payer's side.
            further as "passedOnAtOnce": Option<SettlementMode>,
        } = "FX transfer {id} COMMITTED{settled}";
        /// An FX transfer was aborted, alone or with its transfer.
        73 FxTransferAborted as "ConversionAborted" {
            id as "commitRequestId": FxTransferId,
            kind: AbortKind,
            cause: Cause,
            /// The FXP's PUT that caused the abort.
            answer: Option<FxTransferAnswer>,
        } = "FX transfer {id} {kind} {cause}";
        /// A bulk transfer was accepted, or rejected as a whole; its state shows which.
        80 BulkReceived(bulk: Box<Bulk>) = "bulk transfer {bulk}";
        /// The next item of a bulk transfer was decided. The event of its transfer precedes this event in the record,
        /// unless the id was already used.
        81 BulkItemDecided {
            id as "bulkTransferId": BulkId,
            /// Position of the item, from 0.
            place as "item": u32,
            /// The reason why the item was not reserved; absent if it was reserved.
            refused: Option<Cause>,
        } = "item {place} of bulk transfer {id} decided, refused: {refused}";
        /// All items of a bulk transfer are decided, and the request with the reserved items was sent to the payee.
        82 BulkAccepted { id as "bulkTransferId": BulkId } = "bulk transfer {id} ACCEPTED";
        /// The payee's PUT was accepted. Its results take effect through further records.
        83 BulkAnswered {
            id as "bulkTransferId": BulkId,
            /// The payee's PUT.
            answer: BulkAnswer,
            /// The results for the items, by position.
            results: BTreeMap<u32, ItemResult>,
            /// Number of ignored results: their transfers are not in the bulk transfer, or not open.
            ignored: u32,
        } = "bulk transfer {id} answered: {results}; ignored: {ignored}";
        /// All items of a bulk transfer are decided. The bulk transfer is COMPLETED if an item was committed, otherwise
        /// REJECTED.
        84 BulkEnded {
            id as "bulkTransferId": BulkId,
            /// The payee's reason for rejecting the bulk transfer as a whole.
            cause: Option<Cause>,
        } = "bulk transfer {id} ended, refused: {cause}";
        /// A DFSP of another scheme is reached through a proxy. The proxy's accounts carry the DFSP's payments.
        87 ProxiedAdded { participant: ParticipantId, proxy: ParticipantId }
            = "participant {participant} behind proxy {proxy}";
        /// A DFSP is no longer reached through its proxy.
        88 ProxiedRemoved { participant: ParticipantId, proxy: ParticipantId }
            = "participant {participant} no longer behind proxy {proxy}";
        /// An operator's change or a rejected attempt. It is the last event of its record.
        92 OperatorActed(entry: Box<AuditEntry>) = "{entry}";
        /// An operator was created or changed.
        93 OperatorSet {
            name as "operator": Box<str>,
            roles: OperatorRoles,
            /// The DFSP that the operator belongs to.
            participant: Option<ParticipantId>,
            is_active: bool,
        } = "operator {name}: {roles}, active: {is_active}";
        /// An operator has an additional credential.
        94 CredentialAdded { name as "operator": Box<str>, credential: Credential }
            = "operator {name} has {credential}";
        /// A credential is rejected from now on.
        95 CredentialRemoved { name as "operator": Box<str>, credential as "credentialId": u32 }
            = "credential {credential} of operator {name} removed";
        /// A change waits for a second person.
        96 ProposalMade(proposal: Box<Proposal>) = "{proposal}";
        /// A proposal ended. If it was executed, the events of the change precede this event in the record.
        97 ProposalEnded {
            id as "approvalId": u64,
            state: ProposalState,
            /// The operator who decided; absent if the proposal expired.
            by: Option<Box<str>>,
            comment: Option<Box<str>>,
            /// The outcome of the change, or the reason why it failed.
            result: Option<Box<str>>,
        } = "approval {id} {state} by {by}, comment: {comment}, result: {result}";
        /// The approval policy was changed.
        98 ApprovalPolicySet(policy: ApprovalPolicy) = "approval policy: {policy}";
        /// A user has a password and a second factor, replacing earlier ones.
        99 PersonSet { name as "operator": Box<str>, person: UserCredential } = "operator {name} has {person}";
        /// A user used the code of a time step of its second factor.
        100 CodeUsed { name as "operator": Box<str>, code_step: u64 } = "operator {name} used code {code_step}";
        /// A change set was approved and is applied from now on.
        101 ChangeSetApproved {
            id as "approvalId": u64,
            /// The operator who approved it, followed by the authentication and the address.
            operator: Box<str>,
            known_by as "knownBy": Box<str>,
            address: Option<Box<str>>,
            comment: Option<Box<str>>,
        } = "approval {id} is applied, approved by {operator} ({known_by}, {address}), comment: {comment}";
        /// A change of a set was made. Its own events precede this event in the record.
        102 ChangeSetStepped { id as "approvalId": u64, number: u32 } = "change {number} of approval {id}";
        /// The rules rejected a change of a set, completely or for some accounts.
        103 ChangeSetStopped { id as "approvalId": u64, number: u32, why: Box<str> }
            = "approval {id} stopped at change {number}: {why}";
        /// A participant has an additional key for signing, or new times for a known key.
        110 SignatureKeyAdded {
            participant: ParticipantId,
            key: SignatureKey,
            /// Time when the other keys that have started by then end.
            others_end_at: Timestamp,
        } = "participant {participant} signs by {key}; its other keys end at {others_end_at}";
        /// A key is permanently rejected from now on.
        111 SignatureKeyRevoked { participant: ParticipantId, sha256: [u8; 32] }
            = "key {sha256} of participant {participant} revoked";
        /// Clients that the block names are rejected from now on.
        112 BlockSet { block: Block } = "{block} blocked";
        /// A block was lifted.
        113 BlockLifted { block: Block } = "block of {block} lifted";
    }
}

impl Event {
    /// The transfer that the event begins or ends.
    pub const fn transfer_id(&self) -> Option<TransferId> {
        match self {
            Self::TransferPrepared(transfer) => Some(transfer.id),
            Self::TransferCommitted { id, .. } | Self::TransferAborted { id, .. } => Some(*id),
            _ => None,
        }
    }
}
