//! What the ledger's refusals are called on the wire: the error code and the words of each.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use upesi_ledger::command::{
    ACCOUNTS_MAX, AdminRefusal, ENDPOINT_VALUE_BYTES_MAX, FUNDS_TRANSFERS_MAX, LEDGER_ACCOUNT_TYPES_MAX,
    PARTICIPANTS_MAX, SETTLEMENT_ACCOUNTS_MAX, SETTLEMENT_MODELS_MAX, SETTLEMENTS_MAX, WINDOWS_MAX,
    WINDOWS_PER_SETTLEMENT_MAX,
};
use upesi_ledger::{Cause, LedgerAccountTypeId, Refusal};
use upesi_types::ErrorCode;

type Detail = Cow<'static, str>;

/// The error code of a refusal, and the detail that follows the code's own text.
pub fn refusal(refusal: &Refusal) -> (ErrorCode, Detail) {
    match refusal {
        Refusal::CurrencyUngoverned { currency } => {
            (ErrorCode::SETTLEMENT, format!("No settlement model governs {currency}").into())
        }
        Refusal::CoverShort => (ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY, "".into()),
        Refusal::CapExceeded => (ErrorCode::PAYER_LIMIT, "".into()),
        Refusal::Modified => (ErrorCode::MODIFIED_REQUEST, "".into()),
        Refusal::TransferMissing => (ErrorCode::INTERNAL, "transfer not found".into()),
        Refusal::TransferUnknown => {
            (ErrorCode::TRANSFER_NOT_FOUND, "Provided Transfer ID was not found on the server.".into())
        }
        Refusal::NotParty => (ErrorCode::CLIENT, "".into()),
        Refusal::Expired => (ErrorCode::TRANSFER_EXPIRED, "".into()),
        // Every other failure of validation has the same code (scheme practice); only the words tell them apart.
        other => (ErrorCode::VALIDATION, validation(other)),
    }
}

fn validation(refusal: &Refusal) -> Detail {
    match refusal {
        Refusal::SourceNotPayer => "FSPIOP-Source header should match Payer".into(),
        Refusal::AmountUnfit { text, error } => format!("Amount {text} {error}").into(),
        Refusal::AmountNotPositive { amount } => format!("Amount {amount} must be above zero").into(),
        Refusal::ParticipantUnknown { name } => format!("Participant {name} not found").into(),
        Refusal::ParticipantInactive { name } => format!("Participant {name} is inactive").into(),
        Refusal::DestinationNotPayee => "FSPIOP-Destination header should match Payee".into(),
        Refusal::ConditionInvalid => "Condition validation failed".into(),
        Refusal::ExpirationPassed { expires_at } => {
            format!("Expiration date {expires_at} is already in the past").into()
        }
        Refusal::ExpirationTooFar { ahead_s_max } => {
            format!("Expiration date is more than {ahead_s_max} s ahead").into()
        }
        Refusal::PartiesEqual => {
            "Payer FSP and Payee FSP should be different, unless on-us transfers are allowed by the Scheme"
                .into()
        }
        Refusal::AccountUnknown { name, currency } => {
            format!("Participant {name} {currency} account not found").into()
        }
        Refusal::AccountInactive { name, currency } => {
            format!("Participant {name} {currency} account is inactive").into()
        }
        Refusal::AccountFull { name, currency } => {
            format!("Participant {name} {currency} account cannot hold the amount").into()
        }
        Refusal::SourceNotPayee => {
            "fspiop-source does not match payee fsp on the Fulfil callback response".into()
        }
        Refusal::DestinationNotPayer => {
            "fspiop-destination does not match payer fsp on the Fulfil callback response".into()
        }
        Refusal::NotReserved => "non-RESERVED transfer state".into(),
        Refusal::FulfilmentInvalid => "invalid fulfilment".into(),
        Refusal::ReservedTooEarly => "transferState RESERVED needs version 1.1 or later".into(),
        Refusal::ReceivedNoFulfil => "transferState RECEIVED is not a fulfilment".into(),
        Refusal::AbortedNoFulfil => {
            "transferState ABORTED is not a fulfilment, use PUT /transfers/{ID}/error".into()
        }
        Refusal::ErrorCodeUndefined => "API specification undefined errorCode".into(),
        // Those have codes of their own.
        Refusal::CurrencyUngoverned { .. }
        | Refusal::CoverShort
        | Refusal::CapExceeded
        | Refusal::Modified
        | Refusal::TransferMissing
        | Refusal::TransferUnknown
        | Refusal::NotParty
        | Refusal::Expired => "".into(),
    }
}

/// `errorCode` and `errorDescription` of a cause.
pub fn cause(cause: &Cause) -> (ErrorCode, Cow<'_, str>) {
    match cause {
        Cause::Hub(reason) => {
            let (code, detail) = refusal(reason);
            (code, code.describe(&detail).into())
        }
        Cause::Payee { code, description } => (*code, Cow::Borrowed(description)),
    }
}

/// `errorCode` and `errorDescription` of an operator's command that was refused.
pub fn admin(refusal: &AdminRefusal) -> (ErrorCode, String) {
    let (code, detail) = admin_detail(refusal);
    (code, code.describe(&detail))
}

/// The error code of an operator's refusal, and the detail that follows the code's own text.
pub fn admin_detail(refusal: &AdminRefusal) -> (ErrorCode, Detail) {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantName
        | R::EndpointValue
        | R::LimitNegative
        | R::LimitOrAlarmInvalid
        | R::ModelName
        | R::SettlementTypeNotAllowed
        | R::AccountTypeName
        | R::FundsAmount => (ErrorCode::MALFORMED_SYNTAX, malformed(refusal)),
        R::HubAccountMissing { .. }
        | R::AccountTypeUnknown
        | R::HubAccountParticipantUnknown
        | R::HubAccountRegistered
        | R::HubAccountForDfsp
        | R::HubAccountTypeNotAllowed
        | R::LedgerTypeUnknown
        | R::SettlementTypeUnknown
        | R::TypeNotSettled { .. } => (ErrorCode::ADD_PARTY_INFORMATION, party_information(refusal)),
        R::ParticipantNameInOtherCase
        | R::CurrencyRegistered
        | R::ModelCombination { .. }
        | R::ModelExists
        | R::ModelGovernsAlready { .. }
        | R::AccountTypeExists => (ErrorCode::CLIENT, client(refusal)),
        R::ParticipantUnknown { .. }
        | R::PositionAccountMissing { .. }
        | R::LimitMissing { .. }
        | R::ModelUnknown { .. }
        | R::NothingParked => (ErrorCode::ID_NOT_FOUND, not_found(refusal)),
        R::ModelMissing => {
            (ErrorCode::SETTLEMENT, "Unable to find a matching or default, Settlement Model".into())
        }
        R::FundsModified => {
            (ErrorCode::MODIFIED_REQUEST, "transferId was used for another movement of funds".into())
        }
        R::FundsUnknown => {
            (ErrorCode::TRANSFER_NOT_FOUND, "This account has no such movement of funds".into())
        }
        R::TransferUnknown => (ErrorCode::TRANSFER_NOT_FOUND, "There is no such transfer".into()),
        R::WithdrawalExpired => (ErrorCode::TRANSFER_EXPIRED, "The withdrawal expired".into()),
        other => (ErrorCode::VALIDATION, admin_validation(other)),
    }
}

fn malformed(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantName => "\"name\" length must be 2 to 30 characters".into(),
        R::EndpointValue => {
            format!("\"value\" length must be 1 to {ENDPOINT_VALUE_BYTES_MAX} characters").into()
        }
        R::LimitNegative => "\"limit.value\" must not be negative".into(),
        R::LimitOrAlarmInvalid => {
            "\"limit.value\" must not be negative and \"limit.alarmPercentage\" must be 0 to 100".into()
        }
        R::ModelName => "\"name\" must be 2 to 30 alphanumeric characters".into(),
        R::SettlementTypeNotAllowed => {
            "\"settlementAccountType\" must be one of [SETTLEMENT, INTERCHANGE_FEE_SETTLEMENT]".into()
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
        R::CurrencyRegistered => "Participant currency has already been registered".into(),
        R::ModelCombination { delay, granularity, interchange } => {
            let (delay, granularity) = (delay.as_str(), granularity.as_str());
            format!("Settlement models cannot be {delay} {granularity} {}", interchange.as_str()).into()
        }
        R::ModelExists => "Settlement Model already exists".into(),
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
        R::LimitMissing { name, currency } => {
            format!("Participant '{name}' has no limit in {currency} yet: set initialPositionAndLimits first")
                .into()
        }
        R::ModelUnknown { name } => format!("Settlement Model '{name}' does not exist").into(),
        _ => "None of these callbacks is parked".into(),
    }
}

fn settlement(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::WindowUnknown { window } => format!("Window {window} does not exist").into(),
        R::WindowNotOpen { window } => format!("Window {window} is not open").into(),
        R::WindowEmpty { window } => format!("Window {window} is empty").into(),
        R::WindowsFull => format!("A hub has at most {WINDOWS_MAX} settlement windows").into(),
        R::WindowsUnsettled => {
            "Too many windows are not settled: settle some before another is closed".into()
        }
        R::SettlementModelUnknown { name } => format!("Settlement model not found: {name}").into(),
        R::SettlementModelGross => "Settlement can not be created for GROSS or IMMEDIATE models".into(),
        R::SettlementWindowsMany => {
            format!("A settlement has at most {WINDOWS_PER_SETTLEMENT_MAX} windows").into()
        }
        R::WindowsInapplicable { windows } => {
            let windows: Vec<_> = windows.iter().map(ToString::to_string).collect();
            format!("Inapplicable windows {}", windows.join(", ")).into()
        }
        R::SettlementsFull => format!(
            "A hub has at most {SETTLEMENTS_MAX} settlements, with {SETTLEMENT_ACCOUNTS_MAX} accounts"
        )
        .into(),
        R::SettlementUnknown => "Settlement not found".into(),
        R::SettlementStateChange => "State change is not allowed".into(),
        _ => "At least one settlement transfer is committed. Aborting is not allowed.".into(),
    }
}

fn admin_validation(refusal: &AdminRefusal) -> Detail {
    use AdminRefusal as R;
    match refusal {
        R::ParticipantsFull => format!("A scheme has at most {PARTICIPANTS_MAX} participants").into(),
        R::AccountsFull => format!("A scheme has at most {ACCOUNTS_MAX} accounts").into(),
        R::AccountsOpened => "Participant Limit or Initial Position already set".into(),
        R::HubSettlementAccountMissing { currency } => {
            format!("The hub has no HUB_MULTILATERAL_SETTLEMENT account in {currency}").into()
        }
        R::InitialPositionTooLarge => "The initial position is beyond what the hub's account can hold".into(),
        R::AccountUnknown => "Account not found".into(),
        R::AccountOfAnother => "Participant/account mismatch".into(),
        R::AccountNotPosition => "Only position account update is permitted".into(),
        R::AccountUnopened => "The account has no balance yet: set initialPositionAndLimits first".into(),
        R::ModelsFull => format!("A hub has at most {SETTLEMENT_MODELS_MAX} settlement models").into(),
        R::AccountTypesFull => {
            format!("A hub has at most {LEDGER_ACCOUNT_TYPES_MAX} ledger account types").into()
        }
        R::FundsAccountMismatch => "The account does not match participant or currency specified".into(),
        R::FundsParticipantInactive => "Participant is currently set inactive".into(),
        R::FundsAccountInactive => "Account is currently set inactive".into(),
        R::FundsFull => format!("A hub keeps at most {FUNDS_TRANSFERS_MAX} movements of funds").into(),
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
        R::BalanceFull => "The balance cannot hold the amount".into(),
        R::FundsFinal { state } => format!("The movement of funds is {} already", state.as_str()).into(),
        R::TransferFinal { state } => {
            format!("The transfer is final in state {state}; only a reservation can be ended").into()
        }
        // Those have codes of their own.
        _ => "".into(),
    }
}
