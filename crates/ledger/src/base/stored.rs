//! The stored form of values: one implementation per type, which the tables of events and rejections use.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, AmountError, Currency, ErrorCode, FspId, Timestamp, TransferId};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};

/// A value with a stored form.
pub trait Stored: Sized {
    /// Appends the stored form.
    fn encode(&self, encoder: &mut Encoder<'_>);

    /// Decodes the stored form.
    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self>;
}

/// Implements `Stored` for types that have their own codec function and are copied.
macro_rules! stored_by_copy {
    ($($type:ty: $name:ident),* $(,)?) => {
        $(impl Stored for $type {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.$name(*self);
            }

            fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
                decoder.$name()
            }
        })*
    };
}

stored_by_copy! {
    u8: u8, u16: u16, u32: u32, u64: u64, i64: i64, bool: bool, TransferId: transfer_id, FspId: fsp_id, Amount: amount,
    Currency: currency, Timestamp: timestamp,
}

/// Implements `Stored` for types that are stored as a number, if some numbers are invalid.
macro_rules! stored_by_number {
    ($($type:ty: $name:ident, $unknown:literal);* $(;)?) => {
        $(impl $crate::base::stored::Stored for $type {
            fn encode(&self, encoder: &mut $crate::base::codec::Encoder<'_>) {
                encoder.$name(self.number());
            }

            fn decode(decoder: &mut $crate::base::codec::Decoder<'_>) -> $crate::base::codec::Decoded<Self> {
                Self::from_number(decoder.$name()?).ok_or($crate::base::codec::DecodeError($unknown))
            }
        })*
    };
}
pub(crate) use stored_by_number;

stored_by_number! {
    ErrorCode: u16, "unknown error code";
}

/// Implements `Stored` for structs, field by field in this order.
macro_rules! stored_struct {
    ($($type:ident { $($field:ident),* $(,)? })*) => {
        $(impl $crate::base::stored::Stored for $type {
            fn encode(&self, encoder: &mut $crate::base::codec::Encoder<'_>) {
                $($crate::base::stored::Stored::encode(&self.$field, encoder);)*
            }

            fn decode(decoder: &mut $crate::base::codec::Decoder<'_>) -> $crate::base::codec::Decoded<Self> {
                Ok(Self { $($field: $crate::base::stored::Stored::decode(decoder)?),* })
            }
        })*
    };
}
pub(crate) use stored_struct;

impl Stored for AmountError {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(match self {
            Self::Syntax => 1,
            Self::Scale => 2,
            Self::Precision => 3,
            Self::Finer => 4,
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::Syntax),
            2 => Ok(Self::Scale),
            3 => Ok(Self::Precision),
            4 => Ok(Self::Finer),
            _ => Err(DecodeError("unknown fault of an amount")),
        }
    }
}

/// An enum whose values have a stored number and a name on the wire.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant = $number),* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// Finds the value with a name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }

            /// The stored number.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// Finds the value with a stored number.
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.number() == number)
            }
        }

        impl $crate::base::stored::Stored for $name {
            fn encode(&self, encoder: &mut $crate::base::codec::Encoder<'_>) {
                encoder.u8(self.number());
            }

            fn decode(decoder: &mut $crate::base::codec::Decoder<'_>) -> $crate::base::codec::Decoded<Self> {
                const UNKNOWN: &str = concat!("unknown ", stringify!($name));
                Self::from_number(decoder.u8()?).ok_or($crate::base::codec::DecodeError(UNKNOWN))
            }
        }
    };
}
pub(crate) use wire_enum;

impl<const N: usize> Stored for [u8; N] {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.raw(self);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.array()
    }
}

impl Stored for i128 {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.raw(&self.to_le_bytes());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.array().map(Self::from_le_bytes)
    }
}

impl Stored for Box<str> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.text(self);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.boxed_text()
    }
}

impl<T: Stored> Stored for Option<T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.option(self.as_ref(), |encoder, value| value.encode(encoder));
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.option(T::decode)
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.iter(), |encoder, value| value.encode(encoder));
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.list(T::decode)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.0.encode(encoder);
        self.1.encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok((A::decode(decoder)?, B::decode(decoder)?))
    }
}
