//! The error codes and texts that DFSPs receive for the ledger's rejections.

use std::borrow::Cow;

use upesi_fspiop::body::CompletionFault;
use upesi_ledger::{Cause, Refusal};
use upesi_types::ErrorCode;

type Detail = Cow<'static, str>;

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

/// The error code of a rejection, and the detail that follows the code's own text.
fn refusal(refusal: &Refusal) -> (ErrorCode, Detail) {
    match refusal {
        Refusal::CurrencyUngoverned { currency } => {
            (ErrorCode::SETTLEMENT, format!("No settlement model governs {currency}").into())
        }
        Refusal::CoverShort => (ErrorCode::PAYER_INSUFFICIENT_LIQUIDITY, "".into()),
        Refusal::CapExceeded => (ErrorCode::PAYER_LIMIT, "".into()),
        Refusal::Modified => (ErrorCode::MODIFIED_REQUEST, "".into()),
        Refusal::BulkItemKnown => {
            (ErrorCode::MODIFIED_REQUEST, "Individual transfer prepare duplicate".into())
        }
        Refusal::BulkPayerUnknown { name } => {
            (ErrorCode::PAYER_FSP_NOT_FOUND, format!("Participant {name} not found").into())
        }
        Refusal::BulkPayeeUnknown { name } => {
            (ErrorCode::PAYEE_FSP_NOT_FOUND, format!("Participant {name} not found").into())
        }
        Refusal::BulkPayerInactive { name } => {
            (ErrorCode::PAYER_FSP_NOT_FOUND, format!("Participant {name} is inactive").into())
        }
        Refusal::BulkPayeeInactive { name } => {
            (ErrorCode::PAYEE_FSP_NOT_FOUND, format!("Participant {name} is inactive").into())
        }
        Refusal::BulkUnknown => (
            ErrorCode::BULK_TRANSFER_NOT_FOUND,
            "Provided Bulk Transfer ID was not found on the server.".into(),
        ),
        Refusal::TransferMissing => (ErrorCode::INTERNAL, "transfer not found".into()),
        Refusal::TransferUnknown => {
            (ErrorCode::TRANSFER_NOT_FOUND, "Provided Transfer ID was not found on the server.".into())
        }
        Refusal::FxTransferUnknown => {
            (ErrorCode::TRANSFER_NOT_FOUND, "Provided commitRequest ID was not found on the server.".into())
        }
        Refusal::FxTransferMissing => (ErrorCode::TRANSFER_NOT_FOUND, "fxTransfer not found".into()),
        Refusal::NotParty => (ErrorCode::CLIENT, "".into()),
        Refusal::Expired => (ErrorCode::TRANSFER_EXPIRED, "".into()),
        // Every other validation failure has the same code, as is usual in schemes. Only the texts distinguish them.
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
        // Rejections of FX transfers and bulk transfers. Others have their own codes.
        other => match fx_transfer(other) {
            "" => bulk(other).into(),
            text => text.into(),
        },
    }
}

/// The text for a rejected bulk transfer or item.
const fn bulk(refusal: &Refusal) -> &'static str {
    use Refusal as R;
    match refusal {
        R::BulkSourceNotPayer => "FSPIOP-Source header should match Payer FSP",
        R::BulkPartiesEqual => "Payer and Payee FSPs should be different",
        R::BulkItemConverted => "An item of a bulk transfer cannot have an FX transfer",
        R::BulkItemAlone => "The transfer is an item of a bulk transfer, which is answered as a whole",
        R::BulkNotAccepted => "non-ACCEPTED bulk transfer state",
        R::BulkDestination => {
            "fspiop-destination does not match payer fsp or the hub on the bulk transfer callback"
        }
        R::BulkStateNoAnswer => "bulkTransferState is not an answer to a bulk transfer",
        R::BulkResultInvalid => "an individual transfer result has either fulfilment or errorInformation",
        R::CompletedInFuture => CompletionFault::InFuture.as_str(),
        R::CompletedLongAgo => CompletionFault::LongAgo.as_str(),
        // Rejections of transfers and FX transfers.
        _ => "",
    }
}

/// The text for a rejected FX transfer, or for a transfer that is rejected because of its FX transfer.
const fn fx_transfer(refusal: &Refusal) -> &'static str {
    use Refusal as R;
    match refusal {
        R::DestinationNotFxp => "FSPIOP-Destination header should match counterPartyFsp",
        R::ExpirationMissing => "Expiration is required for conditional transfer",
        R::CurrenciesEqual => "sourceAmount and targetAmount must be of different currencies",
        R::DeterminingTransferMissing => "determiningTransferId is required",
        R::DeterminingTransferFinal => "The determining transfer is not RESERVED",
        R::InitiatorNotPayee => "initiatingFsp is not the payee of the determining transfer",
        R::DeterminingAmountDiffers => "sourceAmount is not the amount of the determining transfer",
        R::FxTransferInProgress => {
            "initiatingFsp has another FX Transfer in progress for the determining transfer"
        }
        R::FxTransferUnfulfilled => "Related FX Transfer is not fulfilled",
        R::FxTransferExpired => "its FX transfer has expired",
        R::FxTransferDeclined => "its FX transfer was refused or declined",
        R::FxTransferDiffers => "amount is not the targetAmount of the related FX Transfer",
        R::SourceNotFxp => "fspiop-source does not match the FXP on the Fulfil callback response",
        R::DestinationNotInitiator => {
            "fspiop-destination does not match initiatingFsp on the Fulfil callback response"
        }
        R::FxTransferNotReserved => "Non-RESERVED fxTransfer state",
        R::FxTransferReceived => "conversionState RECEIVED is not a fulfilment",
        // Rejections of transfers only.
        _ => "",
    }
}
