//! The operation that a run repeats: a transfer, a lookup, a quote, a whole payment, an FX transfer with the transfer
//! that it pays, a bulk transfer, or several of these at the same time.

use serde::{Deserialize, Serialize};
use upesi_sim::Phase;

/// The operation of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// `POST /transfers` until `PUT /transfers`, with a condition that the payee knows.
    #[default]
    Transfers,
    /// `GET /parties` until `PUT /parties`, without the name of the payee's DFSP.
    Lookups,
    /// `POST /quotes` until `PUT /quotes`.
    Quotes,
    /// A lookup, a quote from the DFSP that it found, and the transfer with these terms.
    Payments,
    /// `POST /fxTransfers` until the FXP's fulfilment, and then the transfer in the bought currency.
    #[serde(rename = "converted-transfers")]
    ConvertedTransfers,
    /// `POST /bulkTransfers` until the payer has the outcome of every transfer in it.
    Bulks,
    /// Several of these at the same time, each with its own load: see [`crate::Load::Parallel`].
    Parallel,
}

/// The name of a phase in results: `discovery`, `agreement`, `conversion` or `transfer`.
pub const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Lookup => "discovery",
        Phase::Quote => "agreement",
        Phase::FxTransfer => "conversion",
        Phase::Transfer => "transfer",
    }
}

impl Scenario {
    pub const ALL: [Self; 6] =
        [Self::Transfers, Self::Lookups, Self::Quotes, Self::Payments, Self::ConvertedTransfers, Self::Bulks];

    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Lookups => "lookups",
            Self::Quotes => "quotes",
            Self::Payments => "payments",
            Self::ConvertedTransfers => "converted-transfers",
            Self::Bulks => "bulks",
            Self::Parallel => "parallel",
        }
    }

    /// The name of one operation in sentences.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Parallel => "operation",
            kind => kind.name().trim_end_matches('s'),
        }
    }

    /// The phases of one operation, in order. Empty only if the operations differ: see [`crate::RunOptions::phases`].
    pub const fn phases(self) -> &'static [Phase] {
        match self {
            Self::Transfers | Self::Bulks => &[Phase::Transfer],
            Self::Lookups => &[Phase::Lookup],
            Self::Quotes => &[Phase::Quote],
            Self::Payments => &Phase::OF_PAYMENT,
            Self::ConvertedTransfers => &[Phase::FxTransfer, Phase::Transfer],
            Self::Parallel => &[],
        }
    }

    /// Whether parties are looked up, so that a directory must know them.
    pub const fn looks_up(self) -> bool {
        matches!(self, Self::Lookups | Self::Payments)
    }

    /// Whether FXPs convert for payers.
    pub const fn converts(self) -> bool {
        matches!(self, Self::ConvertedTransfers)
    }

    /// Whether each completed operation is a transfer, or a bulk transfer.
    pub const fn moves_money(self) -> bool {
        matches!(self, Self::Transfers | Self::Payments | Self::ConvertedTransfers | Self::Bulks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_knows_its_phases() {
        for scenario in Scenario::ALL {
            let phases = scenario.phases();
            assert!(phases.is_sorted() && !phases.is_empty());
            assert_eq!(phases.contains(&Phase::Lookup), scenario.looks_up());
            assert_eq!(phases.last() == Some(&Phase::Transfer), scenario.moves_money());
            assert_eq!(serde_json::to_value(scenario).unwrap(), scenario.name());
            assert_eq!(format!("{}s", scenario.operation()), scenario.name());
        }
    }
}
