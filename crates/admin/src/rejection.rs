//! The texts that operators receive for their rejected commands.

use std::borrow::Cow;

use upesi_ledger::command::{AdminRefusal, ENDPOINT_VALUE_BYTES_MAX};
use upesi_ledger::{
    CHANGE_SET_BYTES_MAX, CHANGE_SET_CHANGES_MAX, CHANGE_SETS_OF_MAKER_MAX, CREDENTIALS_MAX,
    ENROLMENT_HOURS_MAX, KEY_OVERLAP_HOURS_MAX, LedgerAccountTypeId, Limits, OPERATORS_MAX,
    PROPOSAL_REASON_CHARS_MIN, PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX, SIGNATURE_KEY_BYTES_MAX,
    TOKEN_DAYS_MAX,
};
use upesi_types::FspId;

use crate::error_name::ErrorName;

/// The limits of a shipped hub, which error texts name.
const LIMITS: Limits = Limits::SHIPPED;

type Detail = Cow<'static, str>;

/// `errorDescription` of an operator's rejected command.
pub fn describe(refusal: &AdminRefusal) -> String {
    ErrorName::of_refusal(refusal).code().describe(&detail(refusal))
}

const MODEL_MISSING: &str = "Unable to find a matching or default, Settlement Model";
const USED_FOR_FUNDS: &str = "transferId was used for another movement of funds";
const USED_FOR_TRANSFER: &str = "transferId was used for a transfer";

/// The detail that follows the standard text of the code, for an operator's rejected command.
#[expect(clippy::too_many_lines, reason = "one arm per kind of refusal")]
pub fn detail(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantName
        | R::ParticipantNameUnusable
        | R::EndpointValue
        | R::BindingValue { .. }
        | R::SignatureKeyLength
        | R::SignatureKeyTimes
        | R::LimitNegative
        | R::LimitOrAlarmInvalid
        | R::ModelName
        | R::SettlementTypeNotAllowed
        | R::SettlementTypeOfAnother { .. }
        | R::AccountTypeName
        | R::FundsAmount => malformed(refusal),
        R::HubAccountMissing { .. }
        | R::AccountTypeUnknown
        | R::HubAccountParticipantUnknown
        | R::HubAccountRegistered
        | R::HubAccountForDfsp
        | R::HubAccountTypeNotAllowed
        | R::LedgerTypeUnknown
        | R::SettlementTypeUnknown
        | R::TypeNotSettled { .. } => party_information(refusal),
        R::ParticipantNameInOtherCase
        | R::BindingTaken { .. }
        | R::BindingOfGateway { .. }
        | R::SignatureKeyTaken { .. }
        | R::ProxiedIsParticipant { .. }
        | R::ProxiedByAnother { .. }
        | R::IsProxied { .. }
        | R::CurrencyRegistered
        | R::ModelCombination { .. }
        | R::ModelExists
        | R::ModelGovernsAlready { .. }
        | R::ModelStopsPositions { .. }
        | R::AccountTypeExists => client(refusal),
        R::ParticipantUnknown { .. }
        | R::BindingUnknown
        | R::BlockUnknown
        | R::ProxiedUnknown { .. }
        | R::PositionAccountMissing { .. }
        | R::LimitMissing { .. }
        | R::ModelUnknown { .. }
        | R::FeeRuleUnknown
        | R::FundsUnknown
        | R::TransferUnknown
        | R::NothingParked => not_found(refusal),
        R::ModelMissing => MODEL_MISSING.into(),
        R::FundsModified => USED_FOR_FUNDS.into(),
        R::FundsIsTransfer => USED_FOR_TRANSFER.into(),
        R::OperatorName
        | R::OperatorUnknown { .. }
        | R::CredentialLife
        | R::CredentialUnknown
        | R::CodeUsed
        | R::OperatorFixed
        | R::OperatorScope
        | R::RolesExcluded { .. }
        | R::OperatorsFull
        | R::CredentialsFull
        | R::CredentialTaken => operator(refusal),
        R::ProposalReason
        | R::PolicyInvalid
        | R::ProposalUnknown
        | R::ProposalsFull
        | R::ProposalLarge
        | R::ProposalPending { .. }
        | R::ProposalEnded { .. }
        | R::ProposalOwn
        | R::ProposalOfAnother => approval(refusal),
        R::ChangeSetChange { number, refusal } => format!("Change {number}: {}", detail(refusal)).into(),
        R::ChangeSetSize | R::ChangeSetKind | R::ChangeSetsFull | R::ChangeSetPassesOver { .. } => {
            change_set(refusal)
        }
        R::NotPermitted { .. } | R::NotInEmergency => permission(refusal),
        R::WithdrawalExpired => "The withdrawal expired".into(),
        other => validation(other),
    }
}

fn malformed(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantName => "\"name\" length must be 2 to 30 characters".into(),
        R::ParticipantNameUnusable => format!("\"name\" {}", FspId::NEW_NAME_RULE).into(),
        R::EndpointValue => {
            format!("\"value\" length must be 1 to {ENDPOINT_VALUE_BYTES_MAX} characters").into()
        }
        R::BindingValue { kind } => format!("\"value\" {}", kind.demand()).into(),
        R::SignatureKeyLength => {
            format!("\"publicKey\" length must be 1 to {SIGNATURE_KEY_BYTES_MAX} bytes").into()
        }
        R::SignatureKeyTimes => format!(
            "A key must start before its certificate ends, and may overlap with earlier keys for at most \
             {KEY_OVERLAP_HOURS_MAX} hours"
        )
        .into(),
        R::LimitNegative => "\"limit.value\" must not be negative".into(),
        R::LimitOrAlarmInvalid => {
            "\"limit.value\" must not be negative and \"limit.alarmPercentage\" must be 0 to 100".into()
        }
        R::ModelName => "\"name\" must be 2 to 30 alphanumeric characters".into(),
        R::SettlementTypeNotAllowed => {
            "\"settlementAccountType\" must be one of [SETTLEMENT, INTERCHANGE_FEE_SETTLEMENT]".into()
        }
        R::SettlementTypeOfAnother { kind, cover } => {
            format!("{kind} accounts are covered by SETTLEMENT accounts, and not by {cover}").into()
        }
        R::AccountTypeName => "\"name\" must be 2 to 30 word characters".into(),
        _ => "\"amount.amount\" must be greater than 0".into(),
    }
}

fn party_information(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::HubAccountMissing { kind } => {
            let is_reconciliation = *kind == LedgerAccountTypeId::HUB_RECONCILIATION;
            let title = if is_reconciliation { "reconciliation" } else { "multilateral net settlement" };
            format!("Hub {title} account for the specified currency does not exist").into()
        }
        R::AccountTypeUnknown => "Ledger account type was not found.".into(),
        R::HubAccountParticipantUnknown => "Participant was not found.".into(),
        R::HubAccountRegistered => "Hub account has already been registered.".into(),
        R::HubAccountForDfsp => "Endpoint is reserved for creation of Hub account types only.".into(),
        R::HubAccountTypeNotAllowed => "The requested hub operator account type is not allowed.".into(),
        R::LedgerTypeUnknown => "Ledger account type was not found".into(),
        R::TypeNotSettled { kind } => format!("Accounts of type {kind} are not settled").into(),
        _ => "Settlement account type was not found".into(),
    }
}

fn client(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantNameInOtherCase => "Participant name differs from another one in case only".into(),
        R::BindingTaken { owner } => format!("Participant '{owner}' has this binding").into(),
        R::BindingOfGateway { owner } => {
            format!("Participant '{owner}' has this certificate: it can belong either to a DFSP or to a gateway").into()
        }
        R::SignatureKeyTaken { owner } => format!("Participant '{owner}' has this signing key").into(),
        R::ProxiedIsParticipant { name } => format!("'{name}' is a participant of this scheme").into(),
        R::ProxiedByAnother { name, proxy } => format!("'{name}' is behind the proxy '{proxy}'").into(),
        R::IsProxied { name, proxy } => {
            let none = "so it has no accounts, endpoints or bindings of its own";
            format!("'{name}' is behind the proxy '{proxy}', {none}").into()
        }
        R::CurrencyRegistered => "Participant currency has already been registered".into(),
        R::ModelCombination { delay, granularity, interchange } => {
            let (delay, granularity) = (delay.as_str(), granularity.as_str());
            format!("Settlement models cannot be {delay} {granularity} {}", interchange.as_str()).into()
        }
        R::ModelExists => "Settlement Model already exists".into(),
        R::ModelStopsPositions { currency } => format!(
            "{currency} would have no model for POSITION accounts, and so no payments: the default model does not \
             govern a currency with a model of its own. First create one for POSITION accounts in {currency}"
        )
        .into(),
        R::ModelGovernsAlready { model } => {
            format!("Settlement Model '{model}' already governs this currency and account type").into()
        }
        _ => "This Ledger Account Type already exists".into(),
    }
}

fn not_found(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantUnknown { name } => format!("Participant '{name}' does not exist").into(),
        R::PositionAccountMissing { name, currency } => {
            format!("Participant '{name}' has no POSITION account in {currency}").into()
        }
        R::ProxiedUnknown { name, proxy } => format!("'{name}' is not behind the proxy '{proxy}'").into(),
        R::BlockUnknown => "This block does not exist".into(),
        R::BindingUnknown => "The participant has no such binding".into(),
        R::LimitMissing { name, currency } => {
            format!("Participant '{name}' has no limit in {currency} yet: set initialPositionAndLimits first")
                .into()
        }
        R::ModelUnknown { name } => format!("Settlement Model '{name}' does not exist").into(),
        R::FeeRuleUnknown => "This fee rule does not exist".into(),
        R::FundsUnknown => "This account has no such movement of funds".into(),
        R::TransferUnknown => "This transfer does not exist".into(),
        _ => "None of these callbacks is parked".into(),
    }
}

fn fee_rule(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::FeeRuleName => "A fee rule's name has 2 to 30 alphanumeric characters".into(),
        R::FeeRuleInvalid => "A fee is 0 to 1000000 millionths of the amount, rounded to at most 4 decimals, plus a fixed \
                              amount; a rule names at most 100 DFSPs on a side, and no maximum below its minimum"
            .into(),
        R::FeeRuleTime => "A fee rule must not begin in the past, and must end after its beginning".into(),
        R::FeeRuleExists => "A fee rule of that name exists".into(),
        R::FeeRulesFull => format!(
            "A hub has at most {} fee rules, and {} that have not ended", LIMITS.fee_rules, LIMITS.fee_rules_live
        )
        .into(),
        // Other functions define the texts of the remaining rejections.
        _ => "".into(),
    }
}

fn settlement(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::WindowUnknown { window } => format!("Window {window} does not exist").into(),
        R::WindowNotOpen { window } => format!("Window {window} is not open").into(),
        R::WindowEmpty { window } => format!("Window {window} is empty").into(),
        R::WindowsFull => format!("A hub has at most {} settlement windows", LIMITS.windows).into(),
        R::WindowsUnsettled => {
            "Too many windows are not settled: settle some before another is closed".into()
        }
        R::SettlementModelUnknown { name } => format!("Settlement model not found: {name}").into(),
        R::SettlementModelGross => "Settlement can not be created for GROSS or IMMEDIATE models".into(),
        R::SettlementWindowsMany => {
            format!("A settlement has at most {} windows", LIMITS.windows_per_settlement).into()
        }
        R::WindowsInapplicable { windows } => {
            let windows: Vec<_> = windows.iter().map(ToString::to_string).collect();
            format!("Inapplicable windows {}", windows.join(", ")).into()
        }
        R::SettlementsFull => format!(
            "A hub has at most {} settlements, with {} accounts",
            LIMITS.settlements, LIMITS.settlement_accounts
        )
        .into(),
        R::SettlementUnknown => "Settlement not found".into(),
        R::SettlementStateChange => "State change is not allowed".into(),
        _ => "At least one settlement transfer is committed. Aborting is not allowed.".into(),
    }
}

fn operator(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::OperatorName => "\"name\" must be 1 to 64 of a-z, 0-9 and . _ - @, a letter or digit first".into(),
        R::CredentialLife => {
            let days = format!("A token must expire in the future and within {TOKEN_DAYS_MAX} days");
            format!("{days}, an enrolment's within {ENROLMENT_HOURS_MAX} hours").into()
        }
        R::OperatorUnknown { name } => format!("Operator '{name}' does not exist").into(),
        R::CredentialUnknown => "The operator has no such credential".into(),
        R::CodeUsed => "The code was used before: wait for the next one".into(),
        R::OperatorFixed => "\"participant\" of an operator cannot be changed".into(),
        R::OperatorScope => "Roles of a DFSP need a participant; other roles must not have one".into(),
        R::RolesExcluded { one, other } => {
            format!("No operator has the roles {} and {} together", one.name(), other.name()).into()
        }
        R::OperatorsFull => format!("A hub has at most {OPERATORS_MAX} operators").into(),
        R::CredentialsFull => format!("An operator has at most {CREDENTIALS_MAX} credentials").into(),
        // One in 2^256, unless the digest was copied.
        _ => "Another credential has the same token".into(),
    }
}

fn approval(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ProposalReason => format!(
            "A second person must approve this: give a reason of {PROPOSAL_REASON_CHARS_MIN} or more characters \
             (Upesi-Reason)"
        )
        .into(),
        R::PolicyInvalid => "A change in the safe direction never needs a second person".into(),
        R::ProposalUnknown => "This approval does not exist, or it ended long ago".into(),
        R::ProposalsFull => {
            format!("At most {PROPOSALS_MAX} approvals can be pending, {PROPOSALS_OF_MAKER_MAX} of one operator").into()
        }
        R::ProposalLarge => "The pending approvals have reached their maximum size: have some decided first".into(),
        R::ProposalEnded { state } => {
            format!("The approval's state does not permit this: it is {}", state.as_str()).into()
        }
        R::ProposalPending { id } => format!("Approval {id} is pending for the same movement of funds").into(),
        R::ProposalOwn => "Another operator must decide about your proposal; you may withdraw it".into(),
        _ => "Only the operator who proposed it may withdraw it".into(),
    }
}

fn permission(refusal: &AdminRefusal) -> Detail {
    match refusal {
        AdminRefusal::NotPermitted { action } => format!("needs the permission {}", action.name()).into(),
        _ => "a break-glass token may only reactivate an inactive iam-admin".into(),
    }
}

fn change_set(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ChangeSetSize => {
            let kib = CHANGE_SET_BYTES_MAX / 1024;
            format!("A change set has 1 to {CHANGE_SET_CHANGES_MAX} changes and at most {kib} KiB").into()
        }
        R::ChangeSetsFull => {
            format!("At most {CHANGE_SETS_OF_MAKER_MAX} change sets of one operator can be pending").into()
        }
        R::ChangeSetPassesOver { fault } => fault.as_str().into(),
        _ => "This change cannot be part of a change set".into(),
    }
}

fn validation(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantsFull => format!("A scheme has at most {} participants", LIMITS.participants).into(),
        R::NotAProxy { name } => format!("Participant '{name}' is not a proxy").into(),
        R::BindingOfHub => "The hub cannot have bindings".into(),
        R::BlockOfHub => "The hub cannot be blocked".into(),
        R::BlocksFull => format!("A hub has at most {} blocks", LIMITS.blocks).into(),
        R::SignatureKeyOfHub => "The hub's own keys are in files".into(),
        R::SignatureKeyRevoked => "This key was revoked, which is permanent".into(),
        R::SignatureKeyNext => "Another key of the participant has not started yet".into(),
        R::SignatureKeysFull => {
            format!("A participant has at most {} keys that are not revoked or ended", LIMITS.signature_keys)
                .into()
        }
        R::RevokedKeysFull => {
            format!("At most {} revoked keys of a participant are retained", LIMITS.revoked_keys).into()
        }
        R::BindingsFull => format!("A participant has at most {} bindings", LIMITS.bindings).into(),
        R::AccountsFull => format!("A scheme has at most {} accounts", LIMITS.accounts).into(),
        R::AccountsOpened => "Participant Limit or Initial Position already set".into(),
        R::HubSettlementAccountMissing { currency } => {
            format!("The hub has no HUB_MULTILATERAL_SETTLEMENT account in {currency}").into()
        }
        R::InitialPositionBeyondCap => "The initial position exceeds the net debit cap".into(),
        R::InitialPositionTooLarge => {
            "The initial position exceeds the amount that the hub's account can hold".into()
        }
        R::AccountUnknown => "Account not found".into(),
        R::AccountOfAnother => "Participant/account mismatch".into(),
        R::AccountNotPosition => "Only position account update is permitted".into(),
        R::AccountUnopened => "The account has no balance yet: set initialPositionAndLimits first".into(),
        R::ModelsFull => format!("A hub has at most {} settlement models", LIMITS.settlement_models).into(),
        R::AccountTypesFull => {
            format!("A hub has at most {} ledger account types", LIMITS.ledger_account_types).into()
        }
        R::FundsAccountMismatch => "The account does not match participant or currency specified".into(),
        R::FundsAccountInactive => "Account is currently set inactive".into(),
        R::FundsFull => format!("A hub stores at most {} movements of funds", LIMITS.funds_transfers).into(),
        R::ReconciliationAccountMissing { currency } => {
            format!("The hub has no HUB_RECONCILIATION account in {currency}").into()
        }
        R::AccountNotSettlement => "Account is not SETTLEMENT type".into(),
        R::WindowUnknown { .. }
        | R::WindowNotOpen { .. }
        | R::WindowEmpty { .. }
        | R::WindowsFull
        | R::WindowsUnsettled
        | R::SettlementModelUnknown { .. }
        | R::SettlementModelGross
        | R::SettlementWindowsMany
        | R::WindowsInapplicable { .. }
        | R::SettlementsFull
        | R::SettlementUnknown
        | R::SettlementStateChange
        | R::SettlementCommitted => settlement(refusal),
        R::FeeRuleFiner { currency } => {
            format!("The fee rule has amounts with more decimals than {currency}").into()
        }
        R::FeeRuleName | R::FeeRuleInvalid | R::FeeRuleTime | R::FeeRuleExists | R::FeeRulesFull => {
            fee_rule(refusal)
        }
        R::BalanceFull => "The balance cannot hold the amount".into(),
        R::FundsFinal { state } => format!("The movement of funds is {} already", state.as_str()).into(),
        R::TransferFinal { state } => {
            format!("The transfer is final in state {state}; only a reservation can be ended").into()
        }
        // Other functions define the texts of refusals with codes of their own.
        _ => "".into(),
    }
}
