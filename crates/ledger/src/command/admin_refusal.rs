//! Why the ledger refuses operators' commands. The wire has the codes and the words.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Currency, FspId};

use crate::account::LedgerAccountTypeId;
use crate::approval::ProposalState;
use crate::binding::BindingKind;
use crate::funds::FundsState;
use crate::operator::Role;
use crate::settlement_model::{Delay, Granularity, Interchange};
use crate::window::WindowId;

/// Why an operator's command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named by what they are")]
pub enum AdminRefusal {
    /// There is no such participant.
    ParticipantUnknown { name: FspId },
    /// A participant's name has not 2 to 30 characters.
    ParticipantName,
    /// The hub lacks an account that a currency needs.
    HubAccountMissing { kind: LedgerAccountTypeId },
    /// Another participant has the name in another case.
    ParticipantNameInOtherCase,
    /// The participant has the currency.
    CurrencyRegistered,
    /// No settlement model governs the currency, by itself or by default.
    ModelMissing,
    /// The scheme has as many participants as a scheme can have.
    ParticipantsFull,
    /// The scheme has as many accounts as a scheme can have.
    AccountsFull,
    /// An endpoint's value is empty or too long.
    EndpointValue,
    /// The hub calls, and is not called as a participant.
    BindingOfHub,
    /// A binding's value is no value of its kind.
    BindingValue { kind: BindingKind },
    /// Another participant has the binding.
    BindingTaken { owner: FspId },
    /// A certificate would be a participant's own and that of a gateway.
    BindingOfGateway { owner: FspId },
    /// The participant has as many bindings as a participant can have.
    BindingsFull,
    /// The participant has no such binding.
    BindingUnknown,
    /// The hub's keys are in files.
    SignatureKeyOfHub,
    /// A public key is empty, or too long.
    SignatureKeyLength,
    /// A key ends before it starts, or overlaps with those before it for too long.
    SignatureKeyTimes,
    /// Another participant signs by the key.
    SignatureKeyTaken { owner: FspId },
    /// The key was revoked, by whom ever it was used.
    SignatureKeyRevoked,
    /// Another key of the participant has not started yet.
    SignatureKeyNext,
    /// The participant has as many keys as a participant can have.
    SignatureKeysFull,
    /// As many keys of the participant were revoked as can be.
    RevokedKeysFull,
    /// The hub is no caller.
    BlockOfHub,
    /// The hub has as many blocks as a hub can have.
    BlocksFull,
    /// Nothing of that is blocked.
    BlockUnknown,
    /// A participant that is no proxy stands for nobody else.
    NotAProxy { name: FspId },
    /// The DFSP takes part itself, with accounts or bindings of its own, or is the hub.
    ProxiedIsParticipant { name: FspId },
    /// The DFSP is behind another proxy.
    ProxiedByAnother { name: FspId, proxy: FspId },
    /// The DFSP is not behind this proxy.
    ProxiedUnknown { name: FspId, proxy: FspId },
    /// The DFSP is behind a proxy, whose accounts, endpoints and bindings count for it.
    IsProxied { name: FspId, proxy: FspId },
    /// The participant has no POSITION account in the currency.
    PositionAccountMissing { name: FspId, currency: Currency },
    /// The accounts have their first limit and position.
    AccountsOpened,
    /// A net debit cap is negative.
    LimitNegative,
    /// The hub has no HUB_MULTILATERAL_SETTLEMENT account in the currency.
    HubSettlementAccountMissing { currency: Currency },
    /// The hub's account cannot hold the initial position.
    InitialPositionTooLarge,
    /// The participant has no limit in the currency.
    LimitMissing { name: FspId, currency: Currency },
    /// A net debit cap is negative, or an alarm threshold is not 0 to 100 %.
    LimitOrAlarmInvalid,
    /// There is no such ledger account type.
    AccountTypeUnknown,
    /// A hub account is wanted for an unknown participant.
    HubAccountParticipantUnknown,
    /// The hub has the account.
    HubAccountRegistered,
    /// A hub account is wanted for a DFSP.
    HubAccountForDfsp,
    /// The hub may have no account of the type.
    HubAccountTypeNotAllowed,
    /// There is no such account.
    AccountUnknown,
    /// The account is another participant's.
    AccountOfAnother,
    /// Only position accounts can be activated and deactivated.
    AccountNotPosition,
    /// The account has no balance yet.
    AccountUnopened,
    /// A settlement model's name is not 2 to 30 alphanumeric characters.
    ModelName,
    /// Settlement models cannot be of this kind.
    ModelCombination { delay: Delay, granularity: Granularity, interchange: Interchange },
    /// The type that a settlement model settles is unknown or inactive.
    LedgerTypeUnknown,
    /// The type that a settlement model takes cover from is unknown or inactive.
    SettlementTypeUnknown,
    /// Accounts of the type are not settled.
    TypeNotSettled { kind: Box<str> },
    /// The type gives no cover.
    SettlementTypeNotAllowed,
    /// The settlement model's name is taken.
    ModelExists,
    /// Another model governs the currency and account type.
    ModelGovernsAlready { model: Box<str> },
    /// The hub has as many settlement models as a hub can have.
    ModelsFull,
    /// There is no such settlement model.
    ModelUnknown { name: Box<str> },
    /// A ledger account type's name is not 2 to 30 word characters.
    AccountTypeName,
    /// The ledger account type's name is taken.
    AccountTypeExists,
    /// The hub has as many ledger account types as a hub can have.
    AccountTypesFull,
    /// The account does not match participant or currency.
    FundsAccountMismatch,
    /// The id was used for another movement of funds.
    FundsModified,
    /// The participant is inactive.
    FundsParticipantInactive,
    /// The account is inactive.
    FundsAccountInactive,
    /// The amount is not above zero.
    FundsAmount,
    /// The hub keeps as many movements of funds as a hub can keep.
    FundsFull,
    /// The hub has no HUB_RECONCILIATION account in the currency.
    ReconciliationAccountMissing { currency: Currency },
    /// The account is not of type SETTLEMENT.
    AccountNotSettlement,
    /// The balance cannot hold the amount.
    BalanceFull,
    /// The account has no such movement of funds.
    FundsUnknown,
    /// The movement of funds has ended.
    FundsFinal { state: FundsState },
    /// The withdrawal expired.
    WithdrawalExpired,
    /// There is no such transfer.
    TransferUnknown,
    /// Only a reservation can be ended.
    TransferFinal { state: &'static str },
    /// There is no such settlement window.
    WindowUnknown { window: WindowId },
    /// The settlement window was closed before.
    WindowNotOpen { window: WindowId },
    /// No transfer was committed in the settlement window.
    WindowEmpty { window: WindowId },
    /// The hub has as many settlement windows as a hub can have.
    WindowsFull,
    /// The windows that are not settled hold as many sums as windows may hold.
    WindowsUnsettled,
    /// There is no such settlement model, or it is inactive.
    SettlementModelUnknown { name: Box<str> },
    /// The model settles transfers one by one.
    SettlementModelGross,
    /// A settlement is wanted of too many windows.
    SettlementWindowsMany,
    /// The windows hold nothing that the model could settle now.
    WindowsInapplicable { windows: Vec<WindowId> },
    /// The hub has as many settlements, or accounts in them, as a hub can have.
    SettlementsFull,
    /// There is no such settlement.
    SettlementUnknown,
    /// The settlement cannot be aborted any more.
    SettlementStateChange,
    /// An account of the settlement is committed.
    SettlementCommitted,
    /// The name of a fee rule is not 2 to 30 alphanumeric characters.
    FeeRuleName,
    /// A fee rule charges nothing or more than the whole amount, or its limits contradict each other.
    FeeRuleInvalid,
    /// A fee rule would change what was charged, or ends before it begins.
    FeeRuleTime,
    /// The fee rule's name is taken.
    FeeRuleExists,
    /// There is no such fee rule.
    FeeRuleUnknown,
    /// The hub has as many fee rules as a hub can have.
    FeeRulesFull,
    /// None of the callbacks is parked.
    NothingParked,
    /// An operator's name is not 1 to 64 lower-case letters, digits and `. _ - @`.
    OperatorName,
    /// There is no such operator.
    OperatorUnknown { name: Box<str> },
    /// The hub's operator does not become a DFSP's.
    OperatorFixed,
    /// The roles of a DFSP's operators need a DFSP, and no other roles have one.
    OperatorScope,
    /// No operator has both roles.
    RolesExcluded { one: Role, other: Role },
    /// The hub has as many operators as a hub can have.
    OperatorsFull,
    /// A token ends in the future, and within so many days.
    CredentialLife,
    /// The operator has as many credentials as an operator can have.
    CredentialsFull,
    /// Another credential has the same token.
    CredentialTaken,
    /// The operator has no such credential.
    CredentialUnknown,
    /// The code of a second factor, or a later one, was used before.
    CodeUsed,
    /// A change that needs a second person comes with a reason that this person can judge.
    ProposalReason,
    /// So many changes wait for a second person, or so many of this operator.
    ProposalsFull,
    /// The changes that wait for a second person take up too much.
    ProposalLarge,
    /// There is no such proposal, or it ended long ago.
    ProposalUnknown,
    /// The proposal waits for nobody.
    ProposalEnded { state: ProposalState },
    /// Nobody approves or rejects what they proposed.
    ProposalOwn,
    /// Only its maker takes a proposal back.
    ProposalOfAnother,
    /// A policy names an action that one person may always take, or too many currencies.
    PolicyInvalid,
}
