//! Settlement models: the accounts that a currency uses, and how they are settled.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use core::fmt::{self, Formatter};

use upesi_types::{Currency, Timestamp};

use crate::base::ids::LedgerAccountTypeId;
use crate::base::show::{Names, PrintedValue, Show, shown_as_word};
use crate::base::stored::{stored_struct, wire_enum};

wire_enum! {
    /// Whether obligations are settled individually or netted.
    Granularity {
        /// Settled individually.
        Gross = 1 "GROSS",
        /// Netted.
        Net = 2 "NET",
    }
}

wire_enum! {
    /// The parties between which obligations are netted.
    Interchange {
        /// Between pairs of participants.
        Bilateral = 1 "BILATERAL",
        /// Between each participant and the hub.
        Multilateral = 2 "MULTILATERAL",
    }
}

wire_enum! {
    /// The time when obligations are settled.
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
    /// Whether the model is in force.
    pub is_active: bool,
    /// Gross or net.
    pub granularity: Granularity,
    /// Bilateral or multilateral.
    pub interchange: Interchange,
    /// Immediate or deferred.
    pub delay: Delay,
    /// The currency that the model governs. `None` for a default model, which governs currencies without their own
    /// model.
    pub currency: Option<Currency>,
    /// Whether liquidity must be checked (always checked for POSITION).
    pub require_liquidity_check: bool,
    /// The type of the accounts whose obligations the model settles.
    pub ledger_account_type: LedgerAccountTypeId,
    /// The type of the accounts that provide cover.
    pub settlement_account_type: LedgerAccountTypeId,
    /// Whether positions are reset when a settlement completes.
    pub auto_position_reset: bool,
    pub created_at: Timestamp,
}

impl SettlementModel {
    /// Whether the model is in force and settles each transfer when it is committed.
    pub fn settles_commits(&self) -> bool {
        self.is_active && self.granularity == Granularity::Gross
    }

    /// Whether the combination of delay, granularity and interchange is allowed.
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

shown_as_word!(Granularity: as_str, Interchange: as_str, Delay: as_str);

impl Show for SettlementModel {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("id", self.id.show()),
            ("name", self.name.show()),
            ("settlementGranularity", PrintedValue::Text(Cow::Borrowed(self.granularity.as_str()))),
            ("settlementInterchange", PrintedValue::Text(Cow::Borrowed(self.interchange.as_str()))),
            ("settlementDelay", PrintedValue::Text(Cow::Borrowed(self.delay.as_str()))),
            ("currency", self.currency.show()),
            ("requireLiquidityCheck", self.require_liquidity_check.show()),
            ("ledgerAccountType", self.ledger_account_type.show()),
            ("settlementAccountType", self.settlement_account_type.show()),
            ("autoPositionReset", self.auto_position_reset.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
