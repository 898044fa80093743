//! Behaviour of a simulated DFSP: the form of its fulfilments, and its faults.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// A thousand per mille: the fault happens every time.
pub const PER_MILLE_MAX: u16 = 1000;
/// Longest artificial delay, in milliseconds.
pub const DELAY_MS_MAX: u32 = 600_000;
/// 3 for 2, as Mojaloop's load scripts expect for 2 XXX in XTS.
pub const FX_RATE_PER_MILLE_USUAL: u32 = 1500;

/// `transferState` in a payee's fulfilment (FSPIOP API v1.1 §6.7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "UPPERCASE")]
pub enum Flavour {
    /// COMMITTED: the payee treats its own answer as final.
    #[default]
    Committed,
    /// RESERVED: the payee waits for the hub's PATCH before it treats the transfer as complete.
    Reserved,
}

/// Behaviour of one DFSP, which can be changed while it runs. By default it behaves correctly.
///
/// Rates are per mille of the affected messages. The simulator's seed and the id of a transfer or quote decide whether
/// it is affected, so that a run can be repeated. Lookups have no id, so each of them is decided at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "Behaviour of the simulated DFSPs")]
#[serde(default, deny_unknown_fields)]
pub struct DfspSettings {
    /// `transferState` of the payee's fulfilments.
    #[arg(long, value_enum, default_value = "committed")]
    pub flavour: Flavour,
    /// Delay in milliseconds between the arrival of a request (a transfer, a quote, a lookup and so on) and the answer.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u32,
    /// Requests that are accepted and never answered, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub drop_per_mille: u16,
    /// Answers that are sent twice, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub duplicate_per_mille: u16,
    /// Prepares that the DFSP as payer sends twice, with the same bytes, per mille: half of them again immediately,
    /// half after half a second.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub repeat_prepare_per_mille: u16,
    /// Fulfilments whose hash does not equal the condition, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub wrong_fulfilment_per_mille: u16,
    /// Requests that are answered with an error, per mille: 5104 to transfers, 5101 to quotes of all kinds, 5000 to
    /// lookups, 4101 to transaction requests and authorizations.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub abort_per_mille: u16,
    /// Messages that are answered with `http_error_status` and otherwise ignored, per mille.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub http_error_per_mille: u16,
    /// HTTP status of such answers; 0 means 503.
    #[arg(long, value_name = "STATUS", default_value_t = 503)]
    pub http_error_status: u16,
    /// Messages that are received slowly, per mille: the HTTP response waits for `slow_read_ms`.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub slow_read_per_mille: u16,
    /// Delay of such a response, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub slow_read_ms: u32,
    /// Fee in the payee's quotes, per mille of the amount, rounded down to whole smallest units.
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    pub fee_per_mille: u16,
    /// Exchange rate of any currency to any other when the DFSP converts, in thousandths; 0 means 1500. Amounts are
    /// rounded to whole smallest units, in the DFSP's favour.
    #[arg(long, value_name = "RATE", default_value_t = FX_RATE_PER_MILLE_USUAL)]
    pub fx_rate_per_mille: u32,
    /// Whether the DFSP claims every party in a lookup, instead of its parties by [`crate::owner_of`].
    #[arg(long)]
    pub owns_every_party: bool,
}

/// A setting is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{0} is a rate in per mille: give a number from 0 to {PER_MILLE_MAX}")]
    Rate(&'static str),
    #[error("{0} is a delay in milliseconds: give a number from 0 to {DELAY_MS_MAX}")]
    Delay(&'static str),
    #[error("http_error_status must be 0 (for 503) or a status from 400 to 599")]
    Status,
}

impl DfspSettings {
    /// The behaviour without any flag.
    pub fn usual() -> Self {
        Self {
            http_error_status: 503,
            slow_read_ms: 1000,
            fx_rate_per_mille: FX_RATE_PER_MILLE_USUAL,
            ..Self::default()
        }
    }

    /// The exchange rate, in thousandths.
    pub(crate) const fn fx_rate(&self) -> u32 {
        if self.fx_rate_per_mille == 0 { FX_RATE_PER_MILLE_USUAL } else { self.fx_rate_per_mille }
    }

    /// Checks the range of every setting. Errors: the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let rates = [
            ("drop_per_mille", self.drop_per_mille),
            ("duplicate_per_mille", self.duplicate_per_mille),
            ("repeat_prepare_per_mille", self.repeat_prepare_per_mille),
            ("wrong_fulfilment_per_mille", self.wrong_fulfilment_per_mille),
            ("abort_per_mille", self.abort_per_mille),
            ("http_error_per_mille", self.http_error_per_mille),
            ("slow_read_per_mille", self.slow_read_per_mille),
            ("fee_per_mille", self.fee_per_mille),
        ];
        check(&rates, &[("delay_ms", self.delay_ms), ("slow_read_ms", self.slow_read_ms)])?;
        match self.http_error_status {
            0 | 400..=599 => Ok(()),
            _ => Err(SettingsError::Status),
        }
    }
}

/// Errors: the first rate or delay that is out of its range.
pub(crate) fn check(
    rates: &[(&'static str, u16)],
    delays: &[(&'static str, u32)],
) -> Result<(), SettingsError> {
    if let Some((name, _)) = rates.iter().find(|(_, rate)| *rate > PER_MILLE_MAX) {
        return Err(SettingsError::Rate(name));
    }
    match delays.iter().find(|(_, delay)| *delay > DELAY_MS_MAX) {
        Some((name, _)) => Err(SettingsError::Delay(name)),
        None => Ok(()),
    }
}

/// The faults that are drawn per message. The number separates the draws of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Fault {
    Drop = 1,
    Duplicate = 2,
    WrongFulfilment = 3,
    Abort = 4,
    HttpError = 5,
    SlowRead = 6,
    Hang = 7,
    NotFound = 8,
    ServerError = 9,
    Unavailable = 10,
    Garbage = 11,
    SeveralOwners = 12,
    UnknownDfsp = 13,
    RepeatPrepare = 14,
    RepeatLater = 15,
}

/// Whether `fault` affects the message with this `key` under `seed`: a pure function, uniform over keys.
pub(crate) fn hits(fault: Fault, per_mille: u16, seed: u64, key: u64) -> bool {
    if per_mille == 0 {
        return false;
    }
    let drawn = mix(mix(seed ^ (fault as u64) << 56) ^ key);
    drawn % u64::from(PER_MILLE_MAX) < u64::from(per_mille)
}

/// The SplitMix64 finaliser: turns counters and keys into well-spread numbers.
pub const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_draws_repeat_and_follow_the_rate() {
        for rate in [0_u16, 1, 50, 500, 999, 1000] {
            let count = |seed| (0..100_000).filter(|key| hits(Fault::Drop, rate, seed, *key)).count();
            assert_eq!(count(7), count(7), "the same seed draws the same");
            let expected = usize::from(rate) * 100;
            assert!(count(7).abs_diff(expected) <= 600, "rate {rate}: {} of 100000, seed 7", count(7));
        }
    }

    #[test]
    fn faults_are_drawn_independently() {
        let both = (0..100_000)
            .filter(|key| hits(Fault::Drop, 500, 1, *key) && hits(Fault::Abort, 500, 1, *key))
            .count();
        assert!(both.abs_diff(25_000) < 1_000, "{both}");
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        let ok = DfspSettings::default();
        assert_eq!(ok.validate(), Ok(()));
        for (settings, error) in [
            (DfspSettings { drop_per_mille: 1001, ..ok }, SettingsError::Rate("drop_per_mille")),
            (
                DfspSettings { repeat_prepare_per_mille: 1001, ..ok },
                SettingsError::Rate("repeat_prepare_per_mille"),
            ),
            (DfspSettings { delay_ms: DELAY_MS_MAX + 1, ..ok }, SettingsError::Delay("delay_ms")),
            (DfspSettings { http_error_status: 200, ..ok }, SettingsError::Status),
        ] {
            assert_eq!(settings.validate(), Err(error));
        }
    }

    #[test]
    fn settings_accept_partial_json_and_reject_unknown_names() {
        let settings: DfspSettings = serde_json::from_str(r#"{"flavour":"RESERVED","delay_ms":5}"#).unwrap();
        assert_eq!(settings, DfspSettings { flavour: Flavour::Reserved, delay_ms: 5, ..Default::default() });
        assert!(serde_json::from_str::<DfspSettings>(r#"{"delay":5}"#).is_err());
    }
}
