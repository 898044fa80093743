//! How simulated DFSPs behave, as flags.

use clap::{Args, ValueEnum};
use upesi_sim::{DfspSettings, FX_RATE_PER_MILLE_USUAL, Flavour};

/// What a payee answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlavourArgument {
    /// COMMITTED: the payee takes its own answer as final.
    Committed,
    /// RESERVED: the payee waits for the hub's PATCH.
    Reserved,
}

/// Delays and faults of simulated payees. Rates are in per mille of messages; questions are transfers, quotes,
/// lookups and so on.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Behaviour of the simulated DFSPs")]
pub struct BehaviourArguments {
    /// What payees answer.
    #[arg(long, value_enum, default_value = "committed")]
    pub flavour: FlavourArgument,
    /// Time between the arrival of a question and its answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u32,
    /// Questions that are accepted and never answered.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub drop_per_mille: u16,
    /// Answers that are sent twice.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub duplicate_per_mille: u16,
    /// Prepares that DFSPs send twice as payers, the same bytes: half of them again at once, half after half a second.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub repeat_prepare_per_mille: u16,
    /// Fulfilments that are wrong.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub wrong_fulfilment_per_mille: u16,
    /// Questions that are answered with an error.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub abort_per_mille: u16,
    /// Messages that are answered with an HTTP error.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub http_error_per_mille: u16,
    /// The status of those answers.
    #[arg(long, value_name = "STATUS", default_value_t = 503)]
    pub http_error_status: u16,
    /// Messages that are taken in slowly.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub slow_read_per_mille: u16,
    /// How long such a message takes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub slow_read_ms: u32,
    /// The fee that payees ask for in their quotes, in per mille of the amount.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub fee_per_mille: u16,
    /// What one unit of any currency is worth in any other where DFSPs are asked to convert, in thousandths.
    #[arg(long, value_name = "RATE", default_value_t = FX_RATE_PER_MILLE_USUAL)]
    pub fx_rate_per_mille: u32,
    /// DFSPs claim every party that they are asked about, not only MSISDNs with their prefix (260000 for the first,
    /// 260001 for the second and so on, and nine digits more).
    #[arg(long)]
    pub owns_every_party: bool,
}

impl BehaviourArguments {
    /// What no flag at all means.
    pub fn usual() -> DfspSettings {
        DfspSettings {
            http_error_status: 503,
            slow_read_ms: 1000,
            fx_rate_per_mille: FX_RATE_PER_MILLE_USUAL,
            ..DfspSettings::default()
        }
    }

    /// As the simulators want them; their ranges are checked there.
    pub fn settings(&self) -> DfspSettings {
        DfspSettings {
            flavour: match self.flavour {
                FlavourArgument::Committed => Flavour::Committed,
                FlavourArgument::Reserved => Flavour::Reserved,
            },
            delay_ms: self.delay_ms,
            drop_per_mille: self.drop_per_mille,
            duplicate_per_mille: self.duplicate_per_mille,
            repeat_prepare_per_mille: self.repeat_prepare_per_mille,
            wrong_fulfilment_per_mille: self.wrong_fulfilment_per_mille,
            abort_per_mille: self.abort_per_mille,
            http_error_per_mille: self.http_error_per_mille,
            http_error_status: self.http_error_status,
            slow_read_per_mille: self.slow_read_per_mille,
            slow_read_ms: self.slow_read_ms,
            fee_per_mille: self.fee_per_mille,
            fx_rate_per_mille: self.fx_rate_per_mille,
            owns_every_party: self.owns_every_party,
        }
    }
}
