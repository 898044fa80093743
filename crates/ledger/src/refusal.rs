//! Why the ledger refuses requests. The wire has the codes and the words.

use alloc::boxed::Box;

use upesi_types::{Amount, AmountError, Currency, ErrorCode, FspId, Timestamp};

use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::stored::Stored;
use crate::table::stored_enum;
use crate::transfer::AbortKind;

stored_enum! {
    /// Why a DFSP's request was refused or its transfer ended. It is stored, so tags are never used again.
    Refusal, "unknown refusal; it was written by a newer version" {
        /// A prepare does not come from its payer.
        1 SourceNotPayer;
        /// The ledger cannot hold the amount as it is written.
        2 AmountUnfit { text: Box<str>, error: AmountError };
        /// The amount is not above zero.
        3 AmountNotPositive { amount: Amount };
        /// There is no such participant.
        4 ParticipantUnknown { name: FspId };
        /// The participant is inactive.
        5 ParticipantInactive { name: FspId };
        /// A prepare is not addressed to its payee.
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
        /// The payer's cover does not suffice.
        14 CoverShort;
        /// The payer's net debit cap would be exceeded.
        15 CapExceeded;
        /// The position would leave the range of amounts.
        16 AccountFull { name: FspId, currency: Currency };
        /// The id was used for another request.
        20 Modified;
        /// A fulfil or abort does not come from the payee.
        21 SourceNotPayee;
        /// A fulfil or abort is not addressed to the payer.
        22 DestinationNotPayer;
        /// The transfer is final.
        23 NotReserved;
        /// The fulfilment does not match the condition.
        24 FulfilmentInvalid;
        /// A fulfil with RESERVED in a version without it.
        25 ReservedTooEarly;
        /// A fulfil with RECEIVED.
        26 ReceivedNoFulfil;
        /// A fulfil with ABORTED.
        27 AbortedNoFulfil;
        /// An abort with an error code that the API does not define.
        28 ErrorCodeUndefined;
        /// A fulfil or abort of an unknown transfer, if the scheme calls that an internal error.
        30 TransferMissing;
        /// The transfer is unknown.
        31 TransferUnknown;
        /// The requester is no party of the transfer.
        32 NotParty;
        /// The deadline passed, or an operator ended the transfer by the same rules.
        40 Expired;
        /// A conversion is not addressed to its FXP.
        50 DestinationNotFxp;
        /// A conversion has no expiration.
        51 ExpirationMissing;
        /// A conversion from a currency to itself.
        52 CurrenciesEqual;
        /// A conversion names no transfer that determines it.
        53 DeterminingTransferMissing;
        /// The transfer of a conversion is final.
        54 DeterminingTransferFinal;
        /// A conversion of a reserved transfer does not come from its payee.
        55 InitiatorNotPayee;
        /// A conversion of a reserved transfer sells another amount or currency than the transfer brings.
        56 DeterminingAmountDiffers;
        /// The initiator has another live conversion for the transfer.
        57 ConversionInProgress;
        /// A transfer whose conversion the FXP has not fulfilled.
        60 ConversionUnfulfilled;
        /// A transfer of another amount or currency than its conversion buys.
        61 ConversionDiffers;
        /// The conversion is unknown.
        62 ConversionUnknown;
        /// A fulfil or abort of an unknown conversion.
        63 ConversionMissing;
        /// A fulfil or abort of a conversion does not come from its FXP.
        64 SourceNotFxp;
        /// A fulfil or abort of a conversion is not addressed to its initiator.
        65 DestinationNotInitiator;
        /// The conversion is fulfilled or final.
        66 ConversionNotReserved;
        /// A fulfil of a conversion with RECEIVED.
        67 ConversionReceived;
        /// A transfer whose conversion expired before it.
        68 ConversionExpired;
        /// A transfer whose conversion was refused, or declined by the FXP, before it.
        69 ConversionDeclined;
        /// The payer of a bulk is unknown.
        70 BulkPayerUnknown { name: FspId };
        /// The payee of a bulk is unknown.
        71 BulkPayeeUnknown { name: FspId };
        /// Payer and payee of a bulk are the same.
        72 BulkPartiesEqual;
        /// The id of an item was used before.
        73 BulkItemKnown;
        /// The payer has a conversion for an item.
        74 BulkItemConverted;
        /// A request about a transfer that is an item of a bulk.
        75 BulkItemAlone;
        /// The bulk is unknown.
        76 BulkUnknown;
        /// The bulk was answered, or is not there to be answered yet.
        77 BulkNotAccepted;
        /// A PUT about a bulk that is not addressed to its payer or the hub.
        78 BulkDestination;
        /// A PUT about a bulk whose state is no answer.
        79 BulkStateNoAnswer;
        /// An item's result has a fulfilment and an error, or neither.
        80 BulkResultInvalid;
        /// The `completedTimestamp` of a bulk's answer is in the future.
        81 CompletedInFuture;
        /// The `completedTimestamp` of a bulk's answer is too old.
        82 CompletedLongAgo;
        /// The payer of a bulk is inactive.
        90 BulkPayerInactive { name: FspId };
        /// The payee of a bulk is inactive.
        91 BulkPayeeInactive { name: FspId };
        /// A bulk does not come from its payer.
        92 BulkSourceNotPayer;
    }
}

impl Refusal {
    /// How a prepare that is refused for this is listed.
    pub(crate) const fn kind(&self) -> AbortKind {
        match self {
            Self::CurrencyUngoverned { .. } | Self::CoverShort | Self::CapExceeded => AbortKind::Rejected,
            _ => AbortKind::Invalid,
        }
    }
}

/// Why a transfer was aborted, and what an error callback says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The hub refused it.
    Hub(Refusal),
    /// The payee declined, in its own words.
    Payee {
        /// Its error code.
        code: ErrorCode,
        /// Its description.
        description: Box<str>,
    },
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
