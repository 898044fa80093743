//! The reasons why operators' changes are rejected. The admin API defines their codes and texts.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Currency, FspId};

use crate::base::ids::{LedgerAccountTypeId, WindowId};
use crate::money::funds::FundsState;
use crate::operators::action::AdminAction;
use crate::operators::operator::OperatorRole;
use crate::operators::proposal_state::ProposalState;
use crate::scheme::binding::BindingKind;
use crate::settlement::changes::AdvanceFault;
use crate::settlement::model::{Delay, Granularity, Interchange};

/// The reason why an operator's command was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminRefusal {
    /// The participant is unknown.
    ParticipantUnknown { name: FspId },
    /// A participant's name does not have 2 to 30 characters.
    ParticipantName,
    /// A new participant's name contains characters that would need escaping.
    ParticipantNameUnusable,
    /// The hub lacks an account that a currency needs.
    HubAccountMissing { kind: LedgerAccountTypeId },
    /// Another participant has the same name in different case.
    ParticipantNameInOtherCase,
    /// The participant already has the currency.
    CurrencyRegistered,
    /// No settlement model governs the currency, directly or by default.
    ModelMissing,
    /// The maximum number of participants is reached.
    ParticipantsFull,
    /// The maximum number of accounts is reached.
    AccountsFull,
    /// An endpoint's value is empty or too long.
    EndpointValue,
    /// The hub has no bindings, because it never calls as a participant.
    BindingOfHub,
    /// A binding's value is invalid for its kind.
    BindingValue { kind: BindingKind },
    /// Another participant has the binding.
    BindingTaken { owner: FspId },
    /// The certificate would belong to both a participant and a gateway.
    BindingOfGateway { owner: FspId },
    /// The participant has the maximum number of bindings.
    BindingsFull,
    /// The participant has no such binding.
    BindingUnknown,
    /// The hub's own keys are in files.
    SignatureKeyOfHub,
    /// A public key is empty or too long.
    SignatureKeyLength,
    /// A key ends before it starts, or overlaps for too long with earlier keys.
    SignatureKeyTimes,
    /// Another participant signs with the key.
    SignatureKeyTaken { owner: FspId },
    /// The key was revoked, for this or another participant.
    SignatureKeyRevoked,
    /// Another key of the participant has not started yet.
    SignatureKeyNext,
    /// The participant has the maximum number of keys.
    SignatureKeysFull,
    /// The participant has the maximum number of revoked keys.
    RevokedKeysFull,
    /// The hub never calls as a participant.
    BlockOfHub,
    /// The maximum number of blocks is reached.
    BlocksFull,
    /// The block is not set.
    BlockUnknown,
    /// Only a proxy can represent other DFSPs.
    NotAProxy { name: FspId },
    /// The DFSP participates directly, with accounts or bindings of its own, or it is the hub.
    ProxiedIsParticipant { name: FspId },
    /// The DFSP is behind another proxy.
    ProxiedByAnother { name: FspId, proxy: FspId },
    /// The DFSP is not behind this proxy.
    ProxiedUnknown { name: FspId, proxy: FspId },
    /// The DFSP is behind a proxy and uses the proxy's accounts, endpoints and bindings.
    IsProxied { name: FspId, proxy: FspId },
    /// The participant has no POSITION account in the currency.
    PositionAccountMissing { name: FspId, currency: Currency },
    /// The accounts already have their first limit and position.
    AccountsOpened,
    /// A net debit cap is negative.
    LimitNegative,
    /// The hub has no HUB_MULTILATERAL_SETTLEMENT account in the currency.
    HubSettlementAccountMissing { currency: Currency },
    /// The hub's account cannot hold the initial position.
    InitialPositionTooLarge,
    /// The initial position exceeds the net debit cap.
    InitialPositionBeyondCap,
    /// The participant has no limit in the currency.
    LimitMissing { name: FspId, currency: Currency },
    /// A net debit cap is negative, or an alarm threshold is not 0 to 100 %.
    LimitOrAlarmInvalid,
    /// The ledger account type is unknown.
    AccountTypeUnknown,
    /// The participant named for a hub account is unknown.
    HubAccountParticipantUnknown,
    /// The hub already has the account.
    HubAccountRegistered,
    /// The participant named for a hub account is a DFSP.
    HubAccountForDfsp,
    /// The hub cannot have an account of this type.
    HubAccountTypeNotAllowed,
    /// The account is unknown.
    AccountUnknown,
    /// The account belongs to another participant.
    AccountOfAnother,
    /// Only position accounts can be activated and deactivated.
    AccountNotPosition,
    /// The account has no balance yet.
    AccountUnopened,
    /// A settlement model's name is not 2 to 30 alphanumeric characters.
    ModelName,
    /// This combination is not allowed for settlement models.
    ModelCombination { delay: Delay, granularity: Granularity, interchange: Interchange },
    /// The type that the settlement model settles is unknown or inactive.
    LedgerTypeUnknown,
    /// The account type that provides the settlement model's cover is unknown or inactive.
    SettlementTypeUnknown,
    /// Accounts of the type are not settled.
    TypeNotSettled { kind: Box<str> },
    /// The type does not provide cover.
    SettlementTypeNotAllowed,
    /// Accounts of the type take cover from another type.
    SettlementTypeOfAnother { kind: Box<str>, cover: Box<str> },
    /// The currency would have its own models, but none for positions.
    ModelStopsPositions { currency: Currency },
    /// The settlement model's name is taken.
    ModelExists,
    /// Another model already governs the currency and account type.
    ModelGovernsAlready { model: Box<str> },
    /// The maximum number of settlement models is reached.
    ModelsFull,
    /// The settlement model is unknown.
    ModelUnknown { name: Box<str> },
    /// A ledger account type's name is not 2 to 30 word characters.
    AccountTypeName,
    /// The ledger account type's name is taken.
    AccountTypeExists,
    /// The maximum number of ledger account types is reached.
    AccountTypesFull,
    /// The account does not belong to this participant and currency.
    FundsAccountMismatch,
    /// The id was already used for another movement of funds.
    FundsModified,
    /// The id was already used for a transfer.
    FundsIsTransfer,
    /// The account is inactive.
    FundsAccountInactive,
    /// The amount is not positive.
    FundsAmount,
    /// The maximum number of movements of funds is reached.
    FundsFull,
    /// The hub has no HUB_RECONCILIATION account in the currency.
    ReconciliationAccountMissing { currency: Currency },
    /// The account is not of type SETTLEMENT.
    AccountNotSettlement,
    /// The amount would exceed the range of the balance.
    BalanceFull,
    /// The account has no such movement of funds.
    FundsUnknown,
    /// The movement of funds has ended.
    FundsFinal { state: FundsState },
    /// The withdrawal expired.
    WithdrawalExpired,
    /// The transfer is unknown.
    TransferUnknown,
    /// The transfer is not reserved, so it cannot be expired.
    TransferFinal { state: &'static str },
    /// The settlement window is unknown.
    WindowUnknown { window: WindowId },
    /// The settlement window is already closed.
    WindowNotOpen { window: WindowId },
    /// The settlement window contains no committed transfer.
    WindowEmpty { window: WindowId },
    /// The maximum number of settlement windows is reached.
    WindowsFull,
    /// The unsettled windows contain the maximum number of sums.
    WindowsUnsettled,
    /// The settlement model is unknown or inactive.
    SettlementModelUnknown { name: Box<str> },
    /// The model settles transfers individually.
    SettlementModelGross,
    /// The settlement would include too many windows.
    SettlementWindowsMany,
    /// The windows contain nothing that the model can settle now.
    WindowsInapplicable { windows: Vec<WindowId> },
    /// The maximum number of settlements, or of accounts in them, is reached.
    SettlementsFull,
    /// The settlement is unknown.
    SettlementUnknown,
    /// The settlement can no longer be aborted.
    SettlementStateChange,
    /// An account of the settlement is already committed.
    SettlementCommitted,
    /// The name of a fee rule is not 2 to 30 alphanumeric characters.
    FeeRuleName,
    /// A fee rule charges nothing or more than the whole amount, or its limits contradict each other.
    FeeRuleInvalid,
    /// A fee rule contains amounts with more decimals than its currency.
    FeeRuleFiner { currency: Currency },
    /// A fee rule would change fees that were already charged, or ends before it begins.
    FeeRuleTime,
    /// The fee rule's name is taken.
    FeeRuleExists,
    /// The fee rule is unknown.
    FeeRuleUnknown,
    /// The maximum number of fee rules is reached.
    FeeRulesFull,
    /// None of the callbacks is parked.
    NothingParked,
    /// An operator's name is not 1 to 64 lower-case letters, digits and `. _ - @`.
    OperatorName,
    /// The operator is unknown.
    OperatorUnknown { name: Box<str> },
    /// An operator of the hub cannot become an operator of a DFSP.
    OperatorFixed,
    /// Roles for operators of a DFSP require a DFSP, and other roles must not have one.
    OperatorScope,
    /// An operator cannot have both roles.
    RolesExcluded { one: OperatorRole, other: OperatorRole },
    /// The maximum number of operators is reached.
    OperatorsFull,
    /// A token must expire in the future and within the maximum number of days.
    CredentialLife,
    /// The operator has the maximum number of credentials.
    CredentialsFull,
    /// Another credential has the same token.
    CredentialTaken,
    /// The operator has no such credential.
    CredentialUnknown,
    /// This code of the second factor, or a later one, was already used.
    CodeUsed,
    /// A change that needs a second person must have a sufficient reason, because that person decides by it.
    ProposalReason,
    /// The maximum number of pending proposals is reached, in total or for this operator.
    ProposalsFull,
    /// The pending changes exceed the maximum size.
    ProposalLarge,
    /// Another pending proposal has the id of this movement of funds.
    ProposalPending { id: u64 },
    /// The proposal is unknown, or it ended long ago.
    ProposalUnknown,
    /// The proposal no longer waits for a decision.
    ProposalEnded { state: ProposalState },
    /// Operators cannot approve or reject their own proposals.
    ProposalOwn,
    /// Only the maker can withdraw a proposal.
    ProposalOfAnother,
    /// A change set has no changes, too many changes, or too many bytes.
    ChangeSetSize,
    /// The change cannot be part of a set, or the set is not submitted as a proposal.
    ChangeSetKind,
    /// The operator has too many pending change sets.
    ChangeSetsFull,
    /// The change set would skip an account of a settlement.
    ChangeSetPassesOver { fault: AdvanceFault },
    /// A change of the set is rejected.
    ChangeSetChange { number: u32, refusal: Box<Self> },
    /// A policy names an action that one person may always take, or too many currencies.
    PolicyInvalid,
    /// The operator may not perform the action.
    NotPermitted { action: AdminAction },
    /// An operator with the break-glass token may only activate an administrator again.
    NotInEmergency,
}
