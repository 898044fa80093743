//! The ids of participants, accounts, windows, settlements and callbacks.

use core::fmt;
use core::num::NonZeroU32;

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::stored::{Stored, stored_struct};

/// Identifies a participant; the hub is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantId(pub NonZeroU32);

impl ParticipantId {
    /// The hub itself.
    pub const HUB: Self = Self(NonZeroU32::MIN);

    /// Creates an id from a stored integer. Returns `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The integer.
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    pub(crate) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Identifies an account; the integer that the admin API shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub NonZeroU32);

impl AccountId {
    /// Creates an id from the integer of the admin API. Returns `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    pub const fn number(self) -> u32 {
        self.0.get()
    }

    pub(crate) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Identifies a ledger account type. Types 1–6 exist from the start; operators may add more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerAccountTypeId(pub u8);

impl LedgerAccountTypeId {
    /// Net obligation of a DFSP in the current settlement cycle.
    pub const POSITION: Self = Self(1);
    /// Mirror of the funds that a DFSP holds at the settlement bank.
    pub const SETTLEMENT: Self = Self(2);
    /// The hub's counter-account for funds in and out.
    pub const HUB_RECONCILIATION: Self = Self(3);
    /// The hub's counter-account for net settlement.
    pub const HUB_MULTILATERAL_SETTLEMENT: Self = Self(4);
    /// Fee obligations of a DFSP.
    pub const INTERCHANGE_FEE: Self = Self(5);
    /// Mirror of the funds for fee settlement.
    pub const INTERCHANGE_FEE_SETTLEMENT: Self = Self(6);
    /// Name of the type that hub operators may add for fees.
    pub const HUB_FEE_NAME: &'static str = "HUB_FEE";
}

macro_rules! numbered {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub struct $name(pub u32);

            impl $name {
                pub(crate) const fn index(self) -> usize {
                    (self.0 as usize).wrapping_sub(1)
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.fmt(f)
                }
            }

            impl Stored for $name {
                fn encode(&self, encoder: &mut Encoder<'_>) {
                    encoder.u32(self.0);
                }

                fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
                    decoder.u32().map(Self)
                }
            }
        )*
    };
}

numbered! {
    /// Identifies a window; the first is 1.
    WindowId;
    /// Identifies a content of a window, unique across windows.
    ContentId;
    /// Identifies a settlement; the first is 1.
    SettlementId;
}

/// Identifies a callback permanently: its target, and its place in the journal. Keys are ordered
/// by target, then time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallbackKey {
    pub target: ParticipantId,
    /// Journal sequence number of the record that owes the callback.
    pub seq: u64,
    /// Index among the callbacks of that record.
    pub index: u8,
}

impl CallbackKey {
    /// The callback's position in the order of its target's callbacks.
    pub const fn age(self) -> (u64, u8) {
        (self.seq, self.index)
    }
}

stored_struct! {
    CallbackKey { target, seq, index }
}

impl Stored for ParticipantId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.number());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Self::new(decoder.u32()?).ok_or(DecodeError("participant 0"))
    }
}

impl Stored for AccountId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.number());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Self::new(decoder.u32()?).ok_or(DecodeError("account 0"))
    }
}

impl Stored for LedgerAccountTypeId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(self.0);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.u8().map(Self)
    }
}
