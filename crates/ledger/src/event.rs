//! Events: what a decision changed. The state is the fold of them.
//!
//! This table is their one declaration. A row has the tag, the name, the fields and the text that `upesi journal`
//! prints; [`Ledger::evolve`](crate::Ledger::evolve) has the fold.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{Amount, BulkId, ConversionId, Currency, FspId, Timestamp, TransferId};

use crate::account::{AccountId, LedgerAccountTypeId};
use crate::approval::{ApprovalPolicy, Proposal, ProposalState};
use crate::binding::BindingKind;
use crate::block::Block;
use crate::bulk::{Bulk, BulkAnswer, ItemResult};
use crate::callback::CallbackKey;
use crate::conversion::{Conversion, ConversionAnswer};
use crate::endpoint::EndpointType;
use crate::fee::{FeeRule, NoFee};
use crate::funds::{FundsState, FundsTransfer};
use crate::operator::{Credential, Person, Roles};
use crate::participant::ParticipantId;
use crate::refusal::Cause;
use crate::settlement::{CarriedRemainder, SettlementNet, SettlementStage};
use crate::settlement_model::SettlementModel;
use crate::signature_key::SignatureKey;
use crate::table::events;
use crate::trail::AuditEntry;
use crate::transfer::{AbortKind, Fingerprint, Settled, Transfer};
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
            /// What the amount was added to.
            settled as "settledAtOnce": Settled,
        } = "transfer {id} COMMITTED{settled}";
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
        /// A caller is this participant if its certificate has the value.
        23 BindingAdded { participant: ParticipantId, kind: BindingKind, value: Box<str> }
            = "binding {participant} {kind}:{value} added";
        /// A caller is not this participant any more, whatever its certificate.
        24 BindingRemoved { participant: ParticipantId, kind: BindingKind, value: Box<str> }
            = "binding {participant} {kind}:{value} removed";
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
        /// Other nodes of a cluster deliver callbacks from here on.
        33 CouriersSet {
            /// Their numbers, in order.
            nodes: Vec<u32>,
        } = "couriers are nodes {nodes}";
        /// Retention removed the transfers that finished up to a record: their ids are unknown from here on.
        40 FinishedRemoved {
            /// The last of the records whose finished transfers are gone.
            to_seq: u64,
        } = "retention removed what finished up to record {to_seq}";
        /// A division of the archive ends with what finished up to this record, on every node.
        43 ArchiveDivided = "a division of the archive ends here";
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
        /// The liquidity check of a settlement raised the net debit cap of an account's owner.
        54 CapRaised {
            id as "settlementId": SettlementId,
            account: AccountId,
            /// By how much.
            amount: Amount,
        } = "settlement {id}: net debit cap of account {account} raised by {amount}";
        /// An aborted settlement lowers a net debit cap by the amount of its raise.
        55 CapReturned { id as "settlementId": SettlementId, account: AccountId, amount: Amount }
            = "settlement {id}: net debit cap of account {account} lowered by {amount}";
        /// A movement of funds settles an account's net. The movement is earlier in the record, or in an earlier
        /// record.
        56 CoverMoved {
            id as "settlementId": SettlementId,
            account: AccountId,
            funds as "transferId": TransferId,
        } = "settlement {id}: cover of account {account} moved by {funds}";
        /// A settlement takes over what earlier ones left over and leaves something over itself; it follows the
        /// creation in its record.
        57 RemaindersCarried { id as "settlementId": SettlementId, accounts: Vec<CarriedRemainder> }
            = "settlement {id}: remainders {accounts}";
        /// The hub first started, and the first window opened. The first record of a journal has it; journals of
        /// earlier versions lack it.
        58 FirstWindowOpened(at: Timestamp) = "window 1 opened at {at}";
        /// A rule for interchange fees was created.
        60 FeeRuleCreated(rule: FeeRule) = "fee rule {rule} created";
        /// The end of a rule for interchange fees was set.
        61 FeeRuleEnded {
            id as "feeRuleId": u32,
            /// First instant that it does not apply to any more.
            until: Timestamp,
        } = "fee rule {id} ends at {until}";
        /// A committed transfer owes a fee; it follows the commit in its record.
        62 FeeCharged {
            transfer as "transferId": TransferId,
            /// Number of the rule.
            rule as "feeRuleId": u32,
            /// The account that owes the fee.
            payer as "payerAccount": AccountId,
            /// The account that is owed it.
            payee as "payeeAccount": AccountId,
            amount: Amount,
        } = "fee of transfer {transfer} by rule {rule}: {amount} from {payer} to {payee}";
        /// A rule applies to a committed transfer, and yet nothing is owed; it follows the commit in its record.
        63 FeeNotCharged {
            transfer as "transferId": TransferId,
            /// Number of the rule.
            rule as "feeRuleId": u32,
            /// What the rule would have charged.
            amount: Amount,
            /// Why it is not charged.
            reason: NoFee,
        } = "fee of transfer {transfer} by rule {rule}: {amount} not charged, {reason}";
        /// A conversion was reserved, or refused (its state says which).
        70 ConversionPrepared(conversion: Box<Conversion>) = "conversion {conversion}";
        /// The FXP fulfilled a conversion: its transfer decides.
        71 ConversionFulfilled {
            id as "commitRequestId": ConversionId,
            /// Preimage of the condition.
            fulfilment: [u8; 32],
            /// The FXP's PUT.
            answer: ConversionAnswer,
        } = "conversion {id} fulfilled";
        /// A conversion was committed with its transfer.
        72 ConversionCommitted {
            id as "commitRequestId": ConversionId,
            /// What the reserved amount was added to.
            settled as "settledAtOnce": Settled,
            /// The same of what the payee passes on to the FXP; absent on the payer's side.
            further as "passedOnAtOnce": Option<Settled>,
        } = "conversion {id} COMMITTED{settled}";
        /// A conversion was aborted, by itself or with its transfer.
        73 ConversionAborted {
            id as "commitRequestId": ConversionId,
            kind: AbortKind,
            cause: Cause,
            /// The FXP's PUT that did it.
            answer: Option<ConversionAnswer>,
        } = "conversion {id} {kind} {cause}";
        /// A bulk was taken, or refused as a whole (its state says which).
        80 BulkReceived(bulk: Box<Bulk>) = "bulk {bulk}";
        /// The next item of a bulk was decided: its transfer stands before this in the record, unless its id was known.
        81 BulkItemDecided {
            id as "bulkTransferId": BulkId,
            /// Among the items, from 0.
            place as "item": u32,
            /// Why it was not reserved; absent when it was.
            refused: Option<Cause>,
        } = "item {place} of bulk {id} decided, refused: {refused}";
        /// All items of a bulk are decided, and the payee was asked for those that are reserved.
        82 BulkAccepted { id as "bulkTransferId": BulkId } = "bulk {id} ACCEPTED";
        /// The payee's PUT was taken. Its results take effect by further records.
        83 BulkAnswered {
            id as "bulkTransferId": BulkId,
            /// The payee's PUT.
            answer: BulkAnswer,
            /// What is to become of the items, by their place.
            results: BTreeMap<u32, ItemResult>,
            /// Results that count for nothing: of transfers that are not in the bulk, or not open.
            ignored: u32,
        } = "bulk {id} answered: {results}; ignored: {ignored}";
        /// Nothing of a bulk is left to decide: it is COMPLETED if an item was committed, and else REJECTED.
        84 BulkEnded {
            id as "bulkTransferId": BulkId,
            /// Why the payee refused it as a whole.
            cause: Option<Cause>,
        } = "bulk {id} ended, refused: {cause}";
        /// A DFSP of another scheme is reached through a proxy, whose accounts carry what it sends and receives.
        87 ProxiedAdded { participant: ParticipantId, proxy: ParticipantId }
            = "participant {participant} behind proxy {proxy}";
        /// A DFSP is not reached through its proxy any more.
        88 ProxiedRemoved { participant: ParticipantId, proxy: ParticipantId }
            = "participant {participant} no longer behind proxy {proxy}";
        /// An operator's change, or a refusal of one; it is the last event of its record.
        92 OperatorActed(entry: Box<AuditEntry>) = "{entry}";
        /// An operator was created or changed.
        93 OperatorSet {
            name as "operator": Box<str>,
            roles: Roles,
            /// The DFSP whose operator it is.
            participant: Option<ParticipantId>,
            is_active: bool,
        } = "operator {name}: {roles}, active: {is_active}";
        /// An operator has a further credential.
        94 CredentialAdded { name as "operator": Box<str>, credential: Credential }
            = "operator {name} has {credential}";
        /// A credential is refused from here on.
        95 CredentialRemoved { name as "operator": Box<str>, credential as "credentialId": u32 }
            = "operator {name} lost credential {credential}";
        /// A change waits for a second person.
        96 ProposalMade(proposal: Box<Proposal>) = "{proposal}";
        /// A proposal ended. If it was executed, the change stands before this in the record.
        97 ProposalEnded {
            id as "approvalId": u64,
            state: ProposalState,
            /// Who decided; absent if time did.
            by: Option<Box<str>>,
            comment: Option<Box<str>>,
            /// What came of the change, or why it failed.
            result: Option<Box<str>>,
        } = "approval {id} {state} by {by}, comment: {comment}, result: {result}";
        /// Other changes need a second person from here on.
        98 ApprovalPolicySet(policy: ApprovalPolicy) = "approval policy: {policy}";
        /// A person has a password and a second factor, in place of earlier ones.
        99 PersonSet { name as "operator": Box<str>, person: Person } = "operator {name} has {person}";
        /// A person used the code of an interval of its second factor.
        100 CodeUsed { name as "operator": Box<str>, code_step: u64 } = "operator {name} used code {code_step}";
        /// A change set was approved, and is applied from here on.
        101 ChangeSetApproved {
            id as "approvalId": u64,
            /// Who approved it, how they were known, and from where.
            operator: Box<str>,
            known_by as "knownBy": Box<str>,
            address: Option<Box<str>>,
            comment: Option<Box<str>>,
        } = "approval {id} is applied, approved by {operator} ({known_by}, {address}), comment: {comment}";
        /// A change of a set was made; its own events stand before this in the record.
        102 ChangeSetStepped { id as "approvalId": u64, number: u32 } = "change {number} of approval {id}";
        /// The rules refused a change of a set, in whole or for some accounts.
        103 ChangeSetStopped { id as "approvalId": u64, number: u32, why: Box<str> }
            = "approval {id} stopped at change {number}: {why}";
        /// A participant has a further key by which it signs, or other times for one.
        110 SignatureKeyAdded {
            participant: ParticipantId,
            key: SignatureKey,
            /// When those that have started by then end.
            others_end_at: Timestamp,
        } = "participant {participant} signs by {key}; its other keys end at {others_end_at}";
        /// A key is refused from here on, and for good.
        111 SignatureKeyRevoked { participant: ParticipantId, sha256: [u8; 32] }
            = "key {sha256} of participant {participant} revoked";
        /// Callers that this names are refused from here on.
        112 BlockSet { block: Block } = "{block} blocked";
        /// They are let in again.
        113 BlockLifted { block: Block } = "block of {block} lifted";
    }
}

impl Event {
    /// The transfer that begins or ends with it.
    pub const fn transfer_id(&self) -> Option<TransferId> {
        match self {
            Self::TransferPrepared(transfer) => Some(transfer.id),
            Self::TransferCommitted { id, .. } | Self::TransferAborted { id, .. } => Some(*id),
            _ => None,
        }
    }
}
