//! The actor that caused a record.

use upesi_types::FspId;

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::stored::Stored;

/// The actor that caused a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Actor {
    /// A DFSP, through its request.
    Dfsp(FspId),
    /// An operator, through the admin API or a command.
    Operator,
    /// The hub, because a deadline passed.
    #[default]
    Clock,
    /// The hub, because a callback was delivered or given up.
    Delivery,
    /// The hub, because finished transfers are old enough to leave the ledger.
    Retention,
    /// The hub, because a bulk transfer takes its next step.
    Bulks,
}

impl Actor {
    /// The name of the actor's kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Dfsp(_) => "dfsp",
            Self::Operator => "operator",
            Self::Clock => "clock",
            Self::Delivery => "delivery",
            Self::Retention => "retention",
            Self::Bulks => "bulks",
        }
    }
}

impl core::fmt::Display for Actor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Dfsp(name) => f.write_str(name.as_str()),
            Self::Operator => f.write_str("an operator"),
            Self::Clock => f.write_str("the hub's clock"),
            Self::Delivery => f.write_str("the hub's delivery"),
            Self::Retention => f.write_str("the hub's retention"),
            Self::Bulks => f.write_str("the hub's bulks"),
        }
    }
}

impl Stored for Actor {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Dfsp(name) => {
                encoder.u8(1);
                encoder.fsp_id(*name);
            }
            Self::Operator => encoder.u8(2),
            Self::Clock => encoder.u8(3),
            Self::Delivery => encoder.u8(4),
            Self::Retention => encoder.u8(5),
            Self::Bulks => encoder.u8(6),
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::Dfsp(decoder.fsp_id()?)),
            2 => Ok(Self::Operator),
            3 => Ok(Self::Clock),
            4 => Ok(Self::Delivery),
            5 => Ok(Self::Retention),
            6 => Ok(Self::Bulks),
            _ => Err(DecodeError("unknown actor")),
        }
    }
}
