//! Operators' changes of the ledger, and the reasons for rejecting them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::Decision;
use super::cover::SettlementCover;
use super::fees::NewFeeRule;
use super::funds::{Deposit, FundsEnd, FundsPrepare};
use super::operators::{NewCredential, NewOperator};
use super::participants::EndpointValue;
use super::settlement_models::NewSettlementModel;
use super::settlements::{AdvanceFault, NewSettlement, SettlementAbort, SettlementAdvance};
use super::signature_keys::NewSignatureKey;
use crate::Ledger;
use crate::account::{AccountId, LedgerAccountTypeId};
use crate::approval::{ApprovalPolicy, ProposalState};
use crate::binding::BindingKind;
use crate::block::Block;
use crate::change_set::ChangeSet;
use crate::endpoint::EndpointType;
use crate::event::Event;
use crate::facts::Facts;
use crate::funds::FundsState;
use crate::operator::Role;
use crate::settlement_model::{Delay, Granularity, Interchange};
use crate::table::stored_enum;
use crate::window::{SettlementId, WindowId};

stored_enum! {
    /// An operator's change. Names of participants are written as operators write them.
    AdminCommand, "unknown change; it was written by a newer version" {
        /// `POST /participants`: a new DFSP, or a new currency for one.
        1 CreateParticipant {
            /// Name, 2–30 characters.
            name: FspId,
            currency: Currency,
            /// Whether the participant represents other schemes.
            is_proxy: bool,
        };
        /// `PUT /participants/{name}`.
        2 SetParticipantActivity { name: FspId, is_active: bool };
        /// `POST /participants/{name}/endpoints`.
        3 SetEndpoint {
            name: FspId,
            kind as "endpointType": EndpointType,
            /// URL template or address.
            value: Box<str>,
        };
        /// `POST /participants/{name}/bindings`.
        4 AddBinding {
            name: FspId,
            /// The property that the binding checks.
            kind: BindingKind,
            /// The value that it must have.
            value: Box<str>,
        };
        /// `DELETE /participants/{name}/bindings`.
        5 RemoveBinding {
            name: FspId,
            /// The property that the binding checks.
            kind: BindingKind,
            /// The value that it no longer accepts.
            value: Box<str>,
        };
        /// `POST /participants/{proxy}/proxied`.
        6 AddProxied {
            proxy: FspId,
            /// The DFSP behind the proxy.
            name: FspId,
        };
        /// `DELETE /participants/{proxy}/proxied/{name}`.
        7 RemoveProxied {
            proxy: FspId,
            /// The DFSP that was behind the proxy.
            name: FspId,
        };
        /// `POST /participants/{name}/initialPositionAndLimits`.
        8 OpenAccounts {
            name: FspId,
            currency: Currency,
            net_debit_cap: Amount,
            /// The initial position.
            initial_position: Amount,
        };
        /// `PUT /participants/{name}/limits`.
        9 SetLimit {
            name: FspId,
            currency: Currency,
            net_debit_cap: Amount,
            /// Alarm threshold in hundredths of a percent.
            alarm_basis_points: u16,
        };
        /// `POST /participants/{hub}/accounts`.
        10 CreateHubAccount {
            /// Must be the hub.
            name: FspId,
            currency: Currency,
            /// Name of the ledger account type.
            kind as "ledgerAccountType": Box<str>,
        };
        /// `PUT /participants/{name}/accounts/{id}`.
        11 SetAccountActivity { name: FspId, account: AccountId, is_active: bool };
        /// `POST /participants/{name}/accounts/{id}`: funds in, or the first step of funds out.
        12 PrepareFunds(funds: FundsPrepare);
        /// `PUT /participants/{name}/accounts/{id}/transfers/{transferId}`: the second step of funds out.
        13 EndFunds(end: FundsEnd);
        /// `POST /clock/accept`: confirms that the wall clock is correct although it jumped.
        14 AcceptClock {
            /// The operator's reason.
            reason: Box<str>,
        };
        /// `POST /settlementModels`.
        15 CreateSettlementModel(model: NewSettlementModel);
        /// `PUT /settlementModels/{name}`.
        16 SetSettlementModelActivity { name: Box<str>, is_active: bool };
        /// `POST /settlementWindows/{id}`: closes the open window and opens the next one.
        17 CloseWindow {
            /// The open window.
            id as "settlementWindowId": WindowId,
            /// The operator's reason.
            reason: Box<str>,
        };
        /// `POST /settlements`.
        18 CreateSettlement(settlement: NewSettlement);
        /// `PUT /settlements/{id}` with accounts.
        19 AdvanceSettlement(advance: SettlementAdvance);
        /// `PUT /settlements/{id}` with the state ABORTED.
        20 AbortSettlement(abort: SettlementAbort);
        /// Creates an interchange fee rule.
        21 CreateFeeRule(rule: NewFeeRule);
        /// Ends an interchange fee rule.
        22 EndFeeRule {
            name: Box<str>,
            /// The first instant at which the rule no longer applies. If absent, the rule ends now.
            until: Option<Timestamp>,
        };
        /// `POST /ledgerAccountTypes`.
        23 CreateLedgerAccountType {
            /// Name, 2–30 word characters.
            name: Box<str>,
            /// Free text.
            description: Box<str>,
            /// Whether the type may be used.
            is_active: bool,
            /// Whether settlement models may settle it.
            is_settleable: bool,
        };
        /// `POST /operators`, `PUT /operators/{name}`.
        24 SetOperator(operator: NewOperator);
        /// `POST /operators/{name}/tokens`.
        25 AddCredential(credential: NewCredential);
        /// `DELETE /operators/{name}/credentials/{id}`.
        26 RemoveCredential {
            name as "operator": Box<str>,
            id as "credentialId": u32,
        };
        /// `PUT /approvals/policy`.
        27 SetApprovalPolicy(policy: ApprovalPolicy);
        /// `PUT /settlements/{id}/cover`: accounts become COMMITTED and their cover moves, in one record.
        28 MoveCover(cover: SettlementCover);
        /// `POST /participants/{name}/accounts/SETTLEMENT`: funds in, to an account that is determined when this is
        /// decided.
        29 Deposit(deposit: Deposit);
        /// `PUT /participants/{name}/endpoints`: several endpoints of one participant.
        30 SetEndpoints { name: FspId, endpoints: Vec<EndpointValue> };
        /// `POST /changeSets`: changes that are approved together. They are applied one by one.
        31 ChangeSet(set: ChangeSet);
        /// `POST /participants/{name}/signatureKeys`.
        40 AddSignatureKey(key: NewSignatureKey);
        /// `DELETE /participants/{name}/signatureKeys/{sha256}`: the key is permanently rejected from now on.
        41 RevokeSignatureKey {
            name: FspId,
            /// SHA-256 of the key.
            sha256: [u8; 32],
        };
        /// `POST /blocks`.
        42 SetBlock { block: Block };
        /// `DELETE /blocks`.
        43 LiftBlock { block: Block };
    }
}

impl AdminCommand {
    /// The stored number of change sets.
    pub(crate) const CHANGE_SET_TAG: u8 = 31;

    /// The id of the movement of funds that the command begins.
    pub(super) fn new_funds(&self) -> Option<TransferId> {
        match self {
            Self::PrepareFunds(funds) => Some(funds.id),
            Self::Deposit(deposit) => Some(deposit.id),
            _ => None,
        }
    }

    /// The command's reason, if it contains one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::PrepareFunds(funds) => Some(&funds.reason),
            Self::Deposit(deposit) => Some(&deposit.reason),
            Self::EndFunds(end) => Some(&end.reason),
            Self::AcceptClock { reason } | Self::CloseWindow { reason, .. } => Some(reason),
            Self::CreateSettlement(new) => Some(&new.reason),
            Self::AbortSettlement(abort) => Some(&abort.reason),
            Self::AdvanceSettlement(advance) => advance.items.first().map(|item| &*item.reason),
            Self::MoveCover(cover) => cover.items.first().map(|item| &*item.reason),
            _ => None,
        }
    }
}

/// The outcome of an operator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminOutcome {
    /// The change was made.
    Done,
    /// The change had already been made; nothing changed.
    AlreadyDone,
    /// The movement of funds with this id now has this state.
    Funds(TransferId, FundsState),
    /// Number of parked callbacks that are owed again.
    Redelivered(usize),
    /// A window was closed, and this window is now open.
    WindowOpened(WindowId),
    /// A settlement was created.
    SettlementCreated(SettlementId),
    /// The change waits for a second person, as the proposal with this number.
    Proposed(u64),
    /// A proposal ended, or a change set starts to be applied. If a single change was made, its outcome is included.
    ProposalEnded(u64, ProposalState, Option<Box<Self>>),
    /// The state of a change set after a step, with the outcome of the change unless it was rejected.
    SetStepped(ProposalState, Option<Box<Self>>),
    /// Accounts of a settlement advanced, except those with a fault.
    SettlementAdvanced {
        /// The faults, by index of the account in the command, from 0.
        faults: Vec<(u32, AdvanceFault)>,
    },
}

impl Ledger {
    pub(super) fn decide_admin(
        &self,
        command: &AdminCommand,
        facts: &Facts<'_>,
        out: &mut Decision,
    ) -> Result<AdminOutcome, AdminRefusal> {
        match command {
            AdminCommand::CreateParticipant { name, currency, is_proxy } => {
                self.decide_create_participant(*name, *currency, *is_proxy, out)
            }
            AdminCommand::SetParticipantActivity { name, is_active } => {
                self.decide_participant_activity(name, *is_active, out)
            }
            AdminCommand::SetEndpoint { name, kind, value } => {
                self.decide_set_endpoint(name, *kind, value, out)
            }
            AdminCommand::SetEndpoints { name, endpoints } => self.decide_set_endpoints(name, endpoints, out),
            // A change set is proposed as a whole, and its changes are decided one by one.
            AdminCommand::ChangeSet(_) => Err(AdminRefusal::ChangeSetKind),
            AdminCommand::AddBinding { name, kind, value } => {
                self.decide_add_binding(name, *kind, value, out)
            }
            AdminCommand::RemoveBinding { name, kind, value } => {
                self.decide_remove_binding(name, *kind, value, out)
            }
            AdminCommand::AddProxied { proxy, name } => self.decide_add_proxied(proxy, name, out),
            AdminCommand::RemoveProxied { proxy, name } => self.decide_remove_proxied(proxy, name, out),
            AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position } => {
                self.decide_open_accounts(name, *currency, *net_debit_cap, *initial_position, out)
            }
            AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points } => {
                self.decide_set_limit(name, *currency, *net_debit_cap, *alarm_basis_points, out)
            }
            AdminCommand::CreateHubAccount { name, currency, kind } => {
                self.decide_create_hub_account(name, *currency, kind, out)
            }
            AdminCommand::SetAccountActivity { name, account, is_active } => {
                self.decide_account_activity(name, *account, *is_active, out)
            }
            AdminCommand::PrepareFunds(funds) => self.decide_prepare_funds(funds, facts, out),
            AdminCommand::Deposit(deposit) => self.decide_deposit(deposit, facts, out),
            AdminCommand::EndFunds(end) => self.decide_end_funds(end, facts.now(), out),
            AdminCommand::AcceptClock { .. } if facts.clock_jump_ms == 0 => Ok(AdminOutcome::AlreadyDone),
            AdminCommand::AcceptClock { reason } => {
                let jump_ms = facts.clock_jump_ms;
                out.events.push(Event::ClockAccepted { jump_ms, reason: reason.clone() });
                Ok(AdminOutcome::Done)
            }
            AdminCommand::CreateSettlementModel(model) => self.decide_create_model(model, facts.now(), out),
            AdminCommand::SetSettlementModelActivity { name, is_active } => {
                self.decide_model_activity(name, *is_active, out)
            }
            AdminCommand::CloseWindow { id, reason } => self.decide_close_window(*id, reason, out),
            AdminCommand::CreateSettlement(new) => self.decide_create_settlement(new, out),
            AdminCommand::AdvanceSettlement(advance) => self.decide_advance_settlement(advance, out),
            AdminCommand::AbortSettlement(abort) => self.decide_abort_settlement(abort, out),
            AdminCommand::MoveCover(cover) => self.decide_move_cover(cover, facts.now(), out),
            AdminCommand::CreateFeeRule(new) => self.decide_create_fee_rule(new, facts.now(), out),
            AdminCommand::EndFeeRule { name, until } => {
                self.decide_end_fee_rule(name, *until, facts.now(), out)
            }
            AdminCommand::CreateLedgerAccountType { name, description, is_active, is_settleable } => {
                self.decide_create_account_type(name, description, *is_active, *is_settleable, out)
            }
            AdminCommand::SetOperator(new) => self.decide_set_operator(new, out),
            AdminCommand::AddCredential(new) => self.decide_add_credential(new, facts.now(), out),
            AdminCommand::RemoveCredential { name, id } => self.decide_remove_credential(name, *id, out),
            AdminCommand::SetApprovalPolicy(policy) => self.decide_set_policy(policy, out),
            AdminCommand::AddSignatureKey(new) => self.decide_add_signature_key(new, facts.now(), out),
            AdminCommand::RevokeSignatureKey { name, sha256 } => {
                self.decide_revoke_signature_key(name, *sha256, out)
            }
            AdminCommand::SetBlock { block } => self.decide_set_block(*block, out),
            AdminCommand::LiftBlock { block } => self.decide_lift_block(*block, out),
        }
    }
}

// Rejections of operators' commands. The admin API defines their codes and texts.

/// The reason why an operator's command was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named by what they are")]
pub enum AdminRefusal {
    /// There is no such participant.
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
    /// There is no such block.
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
    /// There is no such ledger account type.
    AccountTypeUnknown,
    /// The participant named for a hub account is unknown.
    HubAccountParticipantUnknown,
    /// The hub already has the account.
    HubAccountRegistered,
    /// The participant named for a hub account is a DFSP.
    HubAccountForDfsp,
    /// The hub cannot have an account of this type.
    HubAccountTypeNotAllowed,
    /// There is no such account.
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
    /// The type from which the settlement model takes cover is unknown or inactive.
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
    /// There is no such settlement model.
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
    /// There is no such transfer.
    TransferUnknown,
    /// The transfer is not reserved, so it cannot be expired.
    TransferFinal { state: &'static str },
    /// There is no such settlement window.
    WindowUnknown { window: WindowId },
    /// The settlement window is already closed.
    WindowNotOpen { window: WindowId },
    /// The settlement window contains no committed transfer.
    WindowEmpty { window: WindowId },
    /// The maximum number of settlement windows is reached.
    WindowsFull,
    /// The unsettled windows contain the maximum number of sums.
    WindowsUnsettled,
    /// There is no such settlement model, or it is inactive.
    SettlementModelUnknown { name: Box<str> },
    /// The model settles transfers individually.
    SettlementModelGross,
    /// The settlement would include too many windows.
    SettlementWindowsMany,
    /// The windows contain nothing that the model can settle now.
    WindowsInapplicable { windows: Vec<WindowId> },
    /// The maximum number of settlements, or of accounts in them, is reached.
    SettlementsFull,
    /// There is no such settlement.
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
    /// There is no such fee rule.
    FeeRuleUnknown,
    /// The maximum number of fee rules is reached.
    FeeRulesFull,
    /// None of the callbacks is parked.
    NothingParked,
    /// An operator's name is not 1 to 64 lower-case letters, digits and `. _ - @`.
    OperatorName,
    /// There is no such operator.
    OperatorUnknown { name: Box<str> },
    /// An operator of the hub cannot become an operator of a DFSP.
    OperatorFixed,
    /// Roles for operators of a DFSP require a DFSP, and other roles must not have one.
    OperatorScope,
    /// An operator cannot have both roles.
    RolesExcluded { one: Role, other: Role },
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
    /// A change that needs a second person must have a reason on which that person can decide.
    ProposalReason,
    /// The maximum number of pending proposals is reached, in total or for this operator.
    ProposalsFull,
    /// The pending changes exceed the maximum size.
    ProposalLarge,
    /// Another pending proposal has the id of this movement of funds.
    ProposalPending { id: u64 },
    /// There is no such proposal, or it ended long ago.
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
}
