//! Reasons why the ledger rejects DFSPs' requests. The FSPIOP layer maps them to error codes and texts.

use alloc::boxed::Box;

use upesi_types::{Amount, AmountError, Currency, ErrorCode, FspId, Timestamp};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::stored::{Stored, wire_enum};
use crate::base::stored_enum::stored_enum;

wire_enum! {
    /// The kind of an abort. Operators see these names; DFSPs see ABORTED.
    AbortKind {
        /// Rejected at prepare by a validation rule.
        Invalid = 1 "INVALID",
        /// Rejected at prepare because of insufficient cover or the net debit cap.
        Rejected = 2 "ABORTED_REJECTED",
        /// Aborted by the payee.
        ByPayee = 3 "ABORTED_ERROR",
        /// The payee's fulfil was invalid.
        InvalidFulfil = 4 "ABORTED_INVALID_FULFIL",
        /// The payee's abort was invalid.
        InvalidAbort = 5 "ABORTED_INVALID_ABORT",
        /// The deadline passed, or an operator expired the transfer.
        Expired = 6 "EXPIRED_RESERVED",
    }
}

stored_enum! {
    /// The reason why a DFSP's request was rejected or its transfer ended. It is stored, so tags are never reused.
    Refusal, "unknown refusal; it was written by a newer version" {
        /// The sender of a prepare is not its payer.
        1 SourceNotPayer;
        /// The ledger cannot represent the amount as written.
        2 AmountUnfit { text: Box<str>, error: AmountError };
        /// The amount is not positive.
        3 AmountNotPositive { amount: Amount };
        /// The participant is unknown.
        4 ParticipantUnknown { name: FspId };
        /// The participant is inactive.
        5 ParticipantInactive { name: FspId };
        /// The destination of a prepare is not its payee.
        6 DestinationNotPayee;
        /// The condition is not 32 bytes.
        7 ConditionInvalid;
        /// The expiration has passed.
        8 ExpirationPassed { expires_at: Timestamp };
        /// The expiration is further ahead than the scheme allows.
        9 ExpirationTooFar { ahead_s_max: i64 };
        /// Payer and payee are the same.
        10 PartiesEqual;
        /// The participant has no position account in the currency.
        11 AccountUnknown { name: FspId, currency: Currency };
        /// The position account is inactive.
        12 AccountInactive { name: FspId, currency: Currency };
        /// No settlement model governs the currency.
        13 CurrencyUngoverned { currency: Currency };
        /// The payer's liquidity cover is insufficient.
        14 CoverShort;
        /// The payer's net debit cap would be exceeded.
        15 CapExceeded;
        /// The position would leave the range of amounts.
        16 AccountFull { name: FspId, currency: Currency };
        /// The id was already used for another request.
        20 Modified;
        /// The sender of a fulfil or abort is not the payee.
        21 SourceNotPayee;
        /// The destination of a fulfil or abort is not the payer.
        22 DestinationNotPayer;
        /// The transfer is final.
        23 NotReserved;
        /// The fulfilment does not match the condition.
        24 FulfilmentInvalid;
        /// A fulfil with the state RESERVED in an API version without that state.
        25 ReservedTooEarly;
        /// A fulfil with the state RECEIVED.
        26 ReceivedNoFulfil;
        /// A fulfil with the state ABORTED.
        27 AbortedNoFulfil;
        /// An abort with an error code that the API does not define.
        28 ErrorCodeUndefined;
        /// A fulfil or abort of an unknown transfer, if the scheme treats it as an internal error.
        30 TransferMissing;
        /// The transfer is unknown.
        31 TransferUnknown;
        /// The sender of the query is not a party of the transfer.
        32 NotParty;
        /// The deadline passed, or an operator expired the transfer.
        40 Expired;
        /// The destination of an FX transfer is not its FXP.
        50 DestinationNotFxp;
        /// An FX transfer has no expiration.
        51 ExpirationMissing;
        /// An FX transfer has the same source and target currency.
        52 CurrenciesEqual;
        /// An FX transfer names no determining transfer.
        53 DeterminingTransferMissing;
        /// The determining transfer of an FX transfer is final.
        54 DeterminingTransferFinal;
        /// The initiator of an FX transfer for a reserved transfer is not the payee of that transfer.
        55 InitiatorNotPayee;
        /// An FX transfer sells another amount or currency than its reserved transfer provides.
        56 DeterminingAmountDiffers;
        /// The initiator has another live FX transfer for the transfer.
        57 FxTransferInProgress;
        /// The FXP has not fulfilled the transfer's FX transfer.
        60 FxTransferUnfulfilled;
        /// The transfer has another amount or currency than its FX transfer buys.
        61 FxTransferDiffers;
        /// The FX transfer is unknown.
        62 FxTransferUnknown;
        /// A fulfil or abort of an unknown FX transfer.
        63 FxTransferMissing;
        /// The sender of a fulfil or abort of an FX transfer is not its FXP.
        64 SourceNotFxp;
        /// The destination of a fulfil or abort of an FX transfer is not its initiator.
        65 DestinationNotInitiator;
        /// The FX transfer is already fulfilled or final.
        66 FxTransferNotReserved;
        /// A fulfil of an FX transfer with the state RECEIVED.
        67 FxTransferReceived;
        /// The transfer's FX transfer expired before the transfer arrived.
        68 FxTransferExpired;
        /// The transfer's FX transfer was rejected, or declined by the FXP, before the transfer arrived.
        69 FxTransferDeclined;
        /// The payer of a bulk transfer is unknown.
        70 BulkPayerUnknown { name: FspId };
        /// The payee of a bulk transfer is unknown.
        71 BulkPayeeUnknown { name: FspId };
        /// Payer and payee of a bulk transfer are the same.
        72 BulkPartiesEqual;
        /// The id of an item was already used.
        73 BulkItemKnown;
        /// The payer has an FX transfer for an item.
        74 BulkItemConverted;
        /// A request about a transfer that is an item of a bulk transfer.
        75 BulkItemAlone;
        /// The bulk transfer is unknown.
        76 BulkUnknown;
        /// The bulk transfer was already answered, or cannot be answered yet.
        77 BulkNotAccepted;
        /// The destination of a PUT about a bulk transfer is neither its payer nor the hub.
        78 BulkDestination;
        /// A PUT about a bulk transfer has a state that is not an answer.
        79 BulkStateNoAnswer;
        /// The result for an item contains both a fulfilment and an error, or neither.
        80 BulkResultInvalid;
        /// The `completedTimestamp` of the answer to a bulk transfer is in the future.
        81 CompletedInFuture;
        /// The `completedTimestamp` of the answer to a bulk transfer is too old.
        82 CompletedLongAgo;
        /// The payer of a bulk transfer is inactive.
        90 BulkPayerInactive { name: FspId };
        /// The payee of a bulk transfer is inactive.
        91 BulkPayeeInactive { name: FspId };
        /// The sender of a bulk transfer is not its payer.
        92 BulkSourceNotPayer;
    }
}

impl Refusal {
    /// The abort kind of a prepare that is rejected for this reason.
    pub(crate) const fn kind(&self) -> AbortKind {
        match self {
            Self::CurrencyUngoverned { .. } | Self::CoverShort | Self::CapExceeded => AbortKind::Rejected,
            _ => AbortKind::Invalid,
        }
    }
}

/// The cause of an aborted transfer, which is also the content of the error callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The hub rejected the transfer.
    Hub(Refusal),
    /// The payee declined; code and description are the payee's.
    Payee { code: ErrorCode, description: Box<str> },
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        Self::Hub(refusal)
    }
}

impl Stored for Cause {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Hub(refusal) => {
                encoder.u8(0);
                refusal.encode(encoder);
            }
            Self::Payee { code, description } => {
                encoder.u8(1);
                code.encode(encoder);
                description.encode(encoder);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            0 => Refusal::decode(decoder).map(Self::Hub),
            1 => Ok(Self::Payee { code: Stored::decode(decoder)?, description: Stored::decode(decoder)? }),
            _ => Err(DecodeError("unknown cause")),
        }
    }
}
