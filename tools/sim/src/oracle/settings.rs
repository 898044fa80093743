//! How a simulated oracle behaves.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::settings::{DELAY_MS_MAX, PER_MILLE_MAX, SettingsError};

/// The behaviour of an oracle, changeable while it runs. The default is a well-behaved one. Rates are in per mille of
/// requests; a request suffers the first fault that hits it, in the order below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "Behaviour of the simulated oracle")]
#[serde(default, deny_unknown_fields)]
pub struct OracleSettings {
    /// Time between a request and its answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u32,
    /// Requests that are never answered, which is to say not within two minutes.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub hang_per_mille: u16,
    /// Requests answered with 404 and no body.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub not_found_per_mille: u16,
    /// Requests answered with 500 and no body.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub server_error_per_mille: u16,
    /// Requests answered with 503 and an error object with code 2003.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub unavailable_per_mille: u16,
    /// Requests answered with 200 and a body that is not JSON.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub garbage_per_mille: u16,
    /// Lookups whose answer names another DFSP beside the owner; none where only one DFSP is known.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub several_owners_per_mille: u16,
    /// Lookups whose answer names a DFSP that does not exist.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub unknown_dfsp_per_mille: u16,
}

impl OracleSettings {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let rates = [
            ("hang_per_mille", self.hang_per_mille),
            ("not_found_per_mille", self.not_found_per_mille),
            ("server_error_per_mille", self.server_error_per_mille),
            ("unavailable_per_mille", self.unavailable_per_mille),
            ("garbage_per_mille", self.garbage_per_mille),
            ("several_owners_per_mille", self.several_owners_per_mille),
            ("unknown_dfsp_per_mille", self.unknown_dfsp_per_mille),
        ];
        if let Some((name, _)) = rates.iter().find(|(_, rate)| *rate > PER_MILLE_MAX) {
            return Err(SettingsError::Rate(name));
        }
        if self.delay_ms > DELAY_MS_MAX {
            return Err(SettingsError::Delay("delay_ms"));
        }
        Ok(())
    }
}
