//! Settlement models: which accounts a currency uses and how they are settled.

use alloc::boxed::Box;

use upesi_types::{Currency, Timestamp};

use crate::account::LedgerAccountTypeId;
use crate::stored::stored_struct;

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

            /// Reads the name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }

            /// The stored number.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// From the stored number.
            pub fn from_number(number: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.number() == number)
            }
        }

        impl $crate::stored::Stored for $name {
            fn encode(&self, encoder: &mut $crate::codec::Encoder<'_>) {
                encoder.u8(self.number());
            }

            fn decode(decoder: &mut $crate::codec::Decoder<'_>) -> $crate::codec::Decoded<Self> {
                const UNKNOWN: &str = concat!("unknown ", stringify!($name));
                Self::from_number(decoder.u8()?).ok_or($crate::codec::DecodeError(UNKNOWN))
            }
        }
    };
}
pub(crate) use wire_enum;

wire_enum! {
    /// Whether obligations are settled one by one or netted.
    Granularity {
        /// One by one.
        Gross = 1 "GROSS",
        /// Netted.
        Net = 2 "NET",
    }
}

wire_enum! {
    /// Between whom obligations are netted.
    Interchange {
        /// Pair by pair.
        Bilateral = 1 "BILATERAL",
        /// Against the hub.
        Multilateral = 2 "MULTILATERAL",
    }
}

wire_enum! {
    /// When obligations are settled.
    Delay {
        /// At commit.
        Immediate = 1 "IMMEDIATE",
        /// When windows are settled.
        Deferred = 2 "DEFERRED",
    }
}

/// A settlement model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementModel {
    /// Identifier, from 1.
    pub id: u32,
    /// Name, alphanumeric, 2–30 characters.
    pub name: Box<str>,
    /// Whether it is in force.
    pub is_active: bool,
    /// Gross or net.
    pub granularity: Granularity,
    /// Bilateral or multilateral.
    pub interchange: Interchange,
    /// Immediate or deferred.
    pub delay: Delay,
    /// Currency it governs; without one it is the default for currencies that have no model of their own.
    pub currency: Option<Currency>,
    /// Whether liquidity must be checked (always done for POSITION).
    pub require_liquidity_check: bool,
    /// Type of the account whose obligations it settles.
    pub ledger_account_type: LedgerAccountTypeId,
    /// Type of the account that gives cover.
    pub settlement_account_type: LedgerAccountTypeId,
    /// Whether positions are reset when a settlement completes.
    pub auto_position_reset: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

impl SettlementModel {
    /// Whether it is in force and settles each transfer by its commit.
    pub fn settles_commits(&self) -> bool {
        self.is_active && self.granularity == Granularity::Gross
    }

    /// Whether the combination of delay, granularity and interchange is one that schemes allow.
    pub const fn is_combination_allowed(
        granularity: Granularity,
        interchange: Interchange,
        delay: Delay,
    ) -> bool {
        matches!(
            (delay, granularity, interchange),
            (Delay::Immediate, Granularity::Gross, Interchange::Bilateral)
                | (Delay::Deferred, Granularity::Gross, Interchange::Bilateral)
                | (Delay::Deferred, Granularity::Net, _)
        )
    }
}

stored_struct! {
    SettlementModel {
        id, name, is_active, granularity, interchange, delay, currency, require_liquidity_check, ledger_account_type,
        settlement_account_type, auto_position_reset, created_at,
    }
}
