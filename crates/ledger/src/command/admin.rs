//! Operators' changes.

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
    /// An operator's change. Participants are named as operators name them.
    AdminCommand, "unknown change; it was written by a newer version" {
        /// `POST /participants`: a new DFSP, or a new currency for one.
        1 CreateParticipant {
            /// Name, 2–30 characters.
            name: FspId,
            currency: Currency,
            /// Whether it stands for other schemes.
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
            /// The part of the caller's certificate.
            kind: BindingKind,
            /// What must stand there.
            value: Box<str>,
        };
        /// `DELETE /participants/{name}/bindings`.
        5 RemoveBinding {
            name: FspId,
            /// The part of the caller's certificate.
            kind: BindingKind,
            /// What no longer suffices.
            value: Box<str>,
        };
        /// `POST /participants/{proxy}/proxied`.
        6 AddProxied {
            proxy: FspId,
            /// The DFSP behind it.
            name: FspId,
        };
        /// `DELETE /participants/{proxy}/proxied/{name}`.
        7 RemoveProxied {
            proxy: FspId,
            /// The DFSP that was behind it.
            name: FspId,
        };
        /// `POST /participants/{name}/initialPositionAndLimits`.
        8 OpenAccounts {
            name: FspId,
            currency: Currency,
            net_debit_cap: Amount,
            /// Position to begin with.
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
        /// `POST /clock/accept`: the wall clock is right, although it jumped.
        14 AcceptClock {
            /// Why, in the operator's words.
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
        /// A new rule for interchange fees.
        21 CreateFeeRule(rule: NewFeeRule);
        /// The end of a rule for interchange fees.
        22 EndFeeRule {
            name: Box<str>,
            /// First instant that it does not apply to any more; now, if not given.
            until: Option<Timestamp>,
        };
        /// `POST /ledgerAccountTypes`.
        23 CreateLedgerAccountType {
            /// Name, 2–30 word characters.
            name: Box<str>,
            /// Free text.
            description: Box<str>,
            /// Whether it may be used.
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
        /// `POST /participants/{name}/accounts/SETTLEMENT`: funds in, to an account that is found when this is decided.
        29 Deposit(deposit: Deposit);
        /// `PUT /participants/{name}/endpoints`: several endpoints of one participant.
        30 SetEndpoints { name: FspId, endpoints: Vec<EndpointValue> };
        /// `POST /changeSets`: changes that are approved together. It is applied change by change.
        31 ChangeSet(set: ChangeSet);
        /// `POST /participants/{name}/signatureKeys`.
        40 AddSignatureKey(key: NewSignatureKey);
        /// `DELETE /participants/{name}/signatureKeys/{sha256}`: refused from now on, and for good.
        41 RevokeSignatureKey {
            name: FspId,
            /// SHA-256 over the key.
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

    /// The id of the movement of funds that it begins.
    pub(super) fn new_funds(&self) -> Option<TransferId> {
        match self {
            Self::PrepareFunds(funds) => Some(funds.id),
            Self::Deposit(deposit) => Some(deposit.id),
            _ => None,
        }
    }

    /// Why it is wanted, if it says so itself.
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

/// What came of an operator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminOutcome {
    /// It was made.
    Done,
    /// It had been made before; nothing changed.
    AlreadyDone,
    /// A movement of funds now stands there.
    Funds(TransferId, FundsState),
    /// So many parked callbacks are owed again.
    Redelivered(usize),
    /// A window was closed; this one is open now.
    WindowOpened(WindowId),
    /// A settlement was created.
    SettlementCreated(SettlementId),
    /// It waits for a second person, as this proposal.
    Proposed(u64),
    /// A proposal ended, or a change set is applied from here on. A single change that was made has its outcome.
    ProposalEnded(u64, ProposalState, Option<Box<Self>>),
    /// The state of a change set after a change, with the outcome of a change that was not refused.
    SetStepped(ProposalState, Option<Box<Self>>),
    /// Accounts of a settlement advanced, except those with a fault: by their place in the command, from 0.
    SettlementAdvanced {
        /// The faults.
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
            // A set is proposed, and its changes are decided one by one.
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

// Why the ledger refuses operators' commands. The wire has the codes and the words.

/// Why an operator's command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named by what they are")]
pub enum AdminRefusal {
    /// There is no such participant.
    ParticipantUnknown { name: FspId },
    /// A participant's name has not 2 to 30 characters.
    ParticipantName,
    /// A new participant has a name that cannot stand everywhere as it is.
    ParticipantNameUnusable,
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
    /// The initial position is beyond the net debit cap.
    InitialPositionBeyondCap,
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
    /// Accounts of the type have cover of another type.
    SettlementTypeOfAnother { kind: Box<str>, cover: Box<str> },
    /// The currency would have models of its own, and none of positions.
    ModelStopsPositions { currency: Currency },
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
    /// The id of a movement of funds was used for a transfer.
    FundsIsTransfer,
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
    /// A fee rule has amounts with more decimals than its currency.
    FeeRuleFiner { currency: Currency },
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
    /// Another proposal with the id of this movement of funds waits.
    ProposalPending { id: u64 },
    /// There is no such proposal, or it ended long ago.
    ProposalUnknown,
    /// The proposal waits for nobody.
    ProposalEnded { state: ProposalState },
    /// Nobody approves or rejects what they proposed.
    ProposalOwn,
    /// Only its maker takes a proposal back.
    ProposalOfAnother,
    /// A change set has no changes, too many, or too many bytes.
    ChangeSetSize,
    /// The change is none that a change set takes, or the set is not proposed.
    ChangeSetKind,
    /// Too many change sets of this operator wait.
    ChangeSetsFull,
    /// An account of a settlement would be passed over.
    ChangeSetPassesOver { fault: AdvanceFault },
    /// A change of a set is refused.
    ChangeSetChange { number: u32, refusal: Box<Self> },
    /// A policy names an action that one person may always take, or too many currencies.
    PolicyInvalid,
}
