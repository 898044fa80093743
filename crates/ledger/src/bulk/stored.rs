//! The stored forms of bulks.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use upesi_types::{Amount, AmountError, BulkId};

use super::{
    AskedItem, Bulk, BulkAnswer, BulkItem, BulkRequest, BulkState, BulkView, ItemOutcome, ItemResult,
    ItemState,
};
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::stored::{Stored, stored_struct};

impl Stored for BulkId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.transfer_id().map(Self::new)
    }
}

/// Enums whose variants have a tag and fields that are stored in order.
macro_rules! stored_variants {
    ($type:ident, $unknown:literal {
        $($tag:literal $variant:ident $(($value:ident))? $({ $($field:ident),* })?;)*
    }) => {
        impl Stored for $type {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                match self {
                    $(Self::$variant $(($value))? $({ $($field),* })? => {
                        encoder.u8($tag);
                        $($value.encode(encoder);)?
                        $($($field.encode(encoder);)*)?
                    })*
                }
            }

            fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
                Ok(match decoder.u8()? {
                    $($tag => {
                        $(let $value = Stored::decode(decoder)?;)?
                        $($(let $field = Stored::decode(decoder)?;)*)?
                        Self::$variant $(($value))? $({ $($field),* })?
                    })*
                    _ => return Err(DecodeError($unknown)),
                })
            }
        }
    };
}

stored_variants! {
    BulkState, "unknown state of a bulk" {
        0 Received;
        1 Accepted;
        2 Processing;
        3 Completed { at };
        4 Rejected { cause, at };
    }
}

stored_variants! {
    ItemState, "unknown state of an item" {
        0 Waiting;
        1 Refused(cause);
        2 Accepted;
        3 Committed { fulfilment, extensions };
        4 Aborted(cause);
    }
}

stored_variants! {
    ItemResult, "unknown result of an item" {
        0 Fulfil { fulfilment, extensions };
        1 Abort(cause);
    }
}

stored_variants! {
    ItemOutcome, "unknown outcome of an item" {
        0 Open;
        1 Fulfilled { fulfilment, extensions };
        2 Failed(cause);
    }
}

/// An amount, or the text that is none.
impl Stored for Result<Amount, (AmountError, Box<str>)> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Ok(amount) => {
                encoder.u8(0);
                amount.encode(encoder);
            }
            Err((error, text)) => {
                encoder.u8(1);
                error.encode(encoder);
                text.encode(encoder);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            0 => Stored::decode(decoder).map(Ok),
            1 => Ok(Err((Stored::decode(decoder)?, Stored::decode(decoder)?))),
            _ => Err(DecodeError("unknown form of an amount")),
        }
    }
}

impl Stored for BTreeMap<u32, ItemResult> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.iter(), |encoder, (place, result)| {
            encoder.u32(*place);
            result.encode(encoder);
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(decoder.list(<(u32, ItemResult)>::decode)?.into_iter().collect())
    }
}

/// Values that are kept boxed, so that what holds them stays small.
macro_rules! stored_boxed {
    ($($type:ty),*) => {
        $(impl Stored for Box<$type> {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                (**self).encode(encoder);
            }

            fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
                <$type>::decode(decoder).map(Self::new)
            }
        })*
    };
}

stored_boxed!(Bulk, AskedItem, BulkRequest, BulkView);

stored_struct! {
    AskedItem { amount, currency, ilp_packet, condition, extensions }
    BulkItem { transfer, asked, state }
    BulkAnswer { is_error, fingerprint, extensions, cause }
    BulkRequest { quote, payer, payee, expires_at, items, extensions }
    BulkView { state, completed_at, items, extensions }
    Bulk {
        id, quote, payer, payee, expires_at, received_at, prepare_seq, prepare_fingerprint, extensions, items, answer,
        results, state,
    }
}
