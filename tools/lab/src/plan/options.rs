//! The options of a run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use upesi_http::available_cores;
use upesi_sim::{BULK_ITEMS_MAX, DfspSettings, PARTIES_PER_DFSP};
use upesi_types::{Amount, Currency};

use crate::plan::load_profile::{LOADS_MAX, Load};
use crate::plan::pairs::PairChoice;
use crate::plan::parameter::Parameter;
use crate::plan::scenario::Scenario;
use crate::plan::security::Security;
use crate::plan::target::TargetHub;
use crate::plan::targets::Target;

/// Maximum number of virtual users, and of outstanding operations in an open loop.
pub const OUTSTANDING_MAX: usize = 100_000;
pub const RATE_PER_S_MAX: u32 = 1_000_000;
pub const DFSPS_MAX: usize = 1_000;
pub const FXPS_MAX: usize = 100;
/// Minimum interval of settlements, in milliseconds.
pub const SETTLEMENT_MS_MIN: u64 = 100;
pub const STAGES_MAX: usize = 1_000;
pub const SLICES_MAX: usize = 100;
/// Maximum number of generators that drive a hub at the same time.
pub const INSTANCES_MAX: u32 = 100;
/// Number of each DFSP's parties that belong to one of several generators.
pub const PARTIES_PER_INSTANCE: u64 = PARTIES_PER_DFSP / INSTANCES_MAX as u64;

/// The baselines of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Payers and payees talk to each other without a hub.
    SimsOnly,
    /// A process that makes the same HTTP exchanges as a hub and parses the JSON, and does nothing else.
    Forwarder,
}

impl Baseline {
    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SimsOnly => "sims-only",
            Self::Forwarder => "forwarder",
        }
    }
}

/// The role of this process in generating the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// All of it.
    #[default]
    Whole,
    /// A part; other machines drive the same hub with DFSPs of their own. `upesi lab merge` adds the results up.
    Load,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub scenario: Scenario,
    pub dfsps: usize,
    /// Number of parties of each DFSP over which lookups are spread.
    pub parties: u64,
    /// Whether the DFSPs register these parties before the load. If not, the hub's directory must already have them.
    pub register: bool,
    pub load: Load,
    /// In a suite: the arrivals are this percentage of the highest rate that an earlier breakpoint search found.
    pub percent_of_breakpoint: Option<u32>,
    /// Measured time of the hub, all slices together.
    pub duration: Duration,
    /// Unmeasured time before the first slice.
    pub warm_up: Duration,
    pub cool_down: Duration,
    /// Number of alternating slices; `None` selects it automatically.
    pub slices: Option<usize>,
    /// Determines the pairs, the parties, and the operations that faults affect.
    pub seed: u64,
    /// Amount of each transfer and of each quote.
    pub amount: Amount,
    pub currency: Currency,
    /// Approximate length of the bodies of transfers; `None` for their minimum.
    pub body_bytes: Option<usize>,
    pub pairs: PairChoice,
    /// Number of FXPs beside the DFSPs, if operations convert; they behave like the DFSPs.
    pub fxps: usize,
    pub payees_convert: bool,
    /// Number of transfers in each bulk transfer.
    pub bulk_items: usize,
    pub settlement: Settlement,
    /// Behaviour of the DFSPs: flavour, delays and faults of payees, and the share of prepares that payers send twice.
    pub behaviour: DfspSettings,
    pub trace: bool,
    /// Directory for `result.json` and logs; `None` writes nothing.
    pub out: Option<PathBuf>,
    pub baselines: Vec<Baseline>,
    /// A running hub; `None` starts one.
    pub target: Option<TargetHub>,
    /// The `upesi` binary that is started as hub and as forwarder; `None` is this program itself.
    pub binary: Option<PathBuf>,
    pub hub_arguments: Vec<String>,
    /// Number of finished transfers that the started hub already has.
    pub existing_transfers: u64,
    /// Whether to keep the data directory of the started hub, below `out`. The data of a run that did not pass are
    /// always kept.
    pub keep_data: bool,
    /// Measures a baseline alone, without a hub: the limit of load generator and DFSPs.
    pub alone: Option<Baseline>,
    /// Address for the simulators' ports. A hub on another machine must be able to reach it.
    pub sim_address: IpAddr,
    /// Connections of the DFSPs to the hub, all together; `None` for twice the number of outstanding operations.
    pub connections_max: Option<usize>,
    /// Threads of simulators and load generator; `None` for one per core, at most four.
    pub workers: Option<usize>,
    /// Maximum time that a virtual user waits for a callback.
    pub callback_timeout: Duration,
    /// Maximum time that the end of the run waits for operations in progress.
    pub quiesce_timeout: Duration,
    pub expiry: Duration,
    /// The commit this program was built from, if known.
    pub commit: Option<String>,
    /// The name of the run, and its targets.
    pub identity: Identity,
    /// Duration of a profile of the hub under the same load, after the measurement. It is kept in `out`.
    pub profile: Option<Duration>,
    pub role: Role,
    /// Number of this generator among several, from 1; each has its own parties. `None` if it is the only one.
    pub instance: Option<u32>,
    /// Prefix of the DFSPs' names, before `-1` and so on.
    pub dfsp_prefix: String,
    /// Authentication of hub, DFSPs and baselines.
    pub security: Security,
    /// The keys of a running hub and of its DFSPs; without them, a run makes its own.
    pub trial: Option<PathBuf>,
}

/// The settlements of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settlement {
    /// Whether commits settle gross, under a model that is created before the DFSPs join.
    pub gross: bool,
    /// Interval between settlements in milliseconds. At each, the window is closed and settled. Absent: no settlement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
}

/// The name of a run, the parameters of a sweep, and the targets.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub name: Option<String>,
    pub title: String,
    pub description: String,
    pub parameters: BTreeMap<String, Parameter>,
    pub targets: Vec<Target>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            scenario: Scenario::Transfers,
            dfsps: 8,
            parties: 2_000,
            register: true,
            load: Load::Closed { users: 32 },
            percent_of_breakpoint: None,
            duration: Duration::from_secs(20),
            warm_up: Duration::from_secs(2),
            cool_down: Duration::ZERO,
            slices: None,
            seed: 1,
            amount: Amount::parse_wire("2").unwrap_or_default(),
            currency: Currency::parse("XXX").unwrap_or_else(|| unreachable!("XXX is in the list")),
            body_bytes: None,
            pairs: PairChoice::Uniform,
            fxps: 2,
            payees_convert: false,
            bulk_items: 100,
            settlement: Settlement::default(),
            behaviour: DfspSettings::default(),
            trace: true,
            out: None,
            baselines: Vec::new(),
            target: None,
            binary: None,
            hub_arguments: Vec::new(),
            existing_transfers: 0,
            keep_data: false,
            alone: None,
            sim_address: IpAddr::from([127, 0, 0, 1]),
            connections_max: None,
            workers: None,
            callback_timeout: Duration::from_secs(30),
            quiesce_timeout: Duration::from_secs(30),
            expiry: Duration::from_secs(60),
            commit: None,
            identity: Identity::default(),
            profile: None,
            role: Role::Whole,
            instance: None,
            dfsp_prefix: "dfsp".to_owned(),
            security: Security::default(),
            trial: None,
        }
    }
}

/// Options that contradict each other, or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("give 2 to {DFSPS_MAX} DFSPs")]
    Dfsps,
    #[error("give 1 to {PARTIES_PER_DFSP} parties for each DFSP")]
    Parties,
    #[error("give 1 to {OUTSTANDING_MAX} virtual users or outstanding operations")]
    Outstanding,
    #[error("give a rate of 1 to {RATE_PER_S_MAX} operations per second")]
    Rate,
    #[error("measure for at least 100 milliseconds")]
    Duration,
    #[error(
        "cut the run into 1 to {SLICES_MAX} slices of at least 100 milliseconds, and a load with stages into one"
    )]
    Slices,
    #[error(
        "give one weight above zero for each DFSP, a share of at most 1000 per mille, or pairs of two different DFSPs with \
         weights above zero"
    )]
    Pairs,
    #[error("a baseline that is measured alone has no hub, and no other baseline to compare with")]
    Alone,
    #[error("the DFSPs' names must begin with 1 to 24 printable characters")]
    DfspPrefix,
    #[error(
        "give an instance of 1 to {INSTANCES_MAX}, and at most {PARTIES_PER_INSTANCE} parties for each DFSP"
    )]
    Instance,
    #[error(
        "loads in parallel are 2 to {LOADS_MAX} open loops, each of transfers, lookups, quotes or payments, and come from a \
         file: --vus and --rate have no effect on them"
    )]
    Parallel,
    #[error("give 1 to {STAGES_MAX} stages, and no baselines with them: baselines need slices")]
    Stages,
    #[error("the amount must be above zero, and small enough for the currency")]
    Amount,
    #[error("a running hub has its own keys: name their directory with --trial")]
    Keys,
    #[error("the forwarder does not support FX transfers and bulk transfers; use sims-only")]
    Forwarder,
    #[error(
        "payees that convert need a hub, which reports the outcome to them: leave out baselines, and runs without \
         a hub"
    )]
    PayeesConvert,
    #[error("give 1 to {FXPS_MAX} FXPs")]
    Fxps,
    #[error("give 1 to {BULK_ITEMS_MAX} transfers for each bulk")]
    BulkItems,
    #[error(
        "settle at intervals of {SETTLEMENT_MS_MIN} milliseconds or more, and not at all if commits settle"
    )]
    Settlement,
    #[error(transparent)]
    Behaviour(#[from] upesi_sim::SettingsError),
}

/// The setting that makes a hub answer before records are durable.
const NOT_DURABLE: &str = "engine.durable=false";
const SLICE_MIN: Duration = Duration::from_millis(100);
/// Duration of a slice if the number of slices is not given.
const SLICE_USUAL: Duration = Duration::from_secs(4);

impl RunOptions {
    /// Checks that the run makes sense. Fails with the first option that does not.
    pub fn validate(&self) -> Result<(), OptionsError> {
        use OptionsError as Wrong;
        let is_one_of_many =
            |instance: u32| (1..=INSTANCES_MAX).contains(&instance) && self.parties <= PARTIES_PER_INSTANCE;
        let stages = self.load.stages();
        let is_compared = !self.baselines.is_empty();
        let has_forwarder = self.baselines.iter().chain(&self.alone).any(|one| *one == Baseline::Forwarder);
        let slices = self.slice_count();
        let is_cut_badly = !(1..=SLICES_MAX).contains(&slices) || self.duration / (slices as u32) < SLICE_MIN;
        let rate = self.load.rate_per_s_max();
        let Settlement { gross, every_ms } = self.settlement;
        let mistakes = [
            (!(2..=DFSPS_MAX).contains(&self.dfsps), Wrong::Dfsps),
            (!(1..=24).contains(&self.dfsp_prefix.len()), Wrong::DfspPrefix),
            (!(1..=PARTIES_PER_DFSP).contains(&self.parties), Wrong::Parties),
            (!self.instance.is_none_or(is_one_of_many), Wrong::Instance),
            (!self.is_parallel_right(), Wrong::Parallel),
            (!(1..=OUTSTANDING_MAX).contains(&self.load.outstanding_max()), Wrong::Outstanding),
            (rate.is_some_and(|rate| !(1..=RATE_PER_S_MAX).contains(&rate)), Wrong::Rate),
            (stages.len() > STAGES_MAX || (!stages.is_empty() && is_compared), Wrong::Stages),
            (self.alone.is_some() && (self.target.is_some() || is_compared), Wrong::Alone),
            ((self.converts() || self.has_bulks()) && has_forwarder, Wrong::Forwarder),
            (self.payees_convert && (is_compared || self.alone.is_some()), Wrong::PayeesConvert),
            (!self.pairs.fits(self.dfsps), Wrong::Pairs),
            (self.duration < SLICE_MIN, Wrong::Duration),
            (is_cut_badly || (!stages.is_empty() && slices != 1), Wrong::Slices),
            (self.security.needs_keys() && self.target.is_some() && self.trial.is_none(), Wrong::Keys),
            (self.amount <= Amount::ZERO, Wrong::Amount),
            (!(1..=FXPS_MAX).contains(&self.fxps), Wrong::Fxps),
            (!(1..=BULK_ITEMS_MAX).contains(&self.bulk_items), Wrong::BulkItems),
            (every_ms.is_some_and(|every| gross || every < SETTLEMENT_MS_MIN), Wrong::Settlement),
        ];
        if let Some((_, mistake)) = mistakes.into_iter().find(|(is_made, _)| *is_made) {
            return Err(mistake);
        }
        Ok(self.behaviour.validate()?)
    }

    /// The number of slices of the run. A run without a baseline has slices, too: they show how much the machine's
    /// noise moves the figures.
    pub fn slice_count(&self) -> usize {
        if !self.load.stages().is_empty() {
            return self.slices.unwrap_or(1);
        }
        let usual = self.duration.as_millis() / SLICE_USUAL.as_millis();
        self.slices.unwrap_or_else(|| usize::try_from(usual).unwrap_or(SLICES_MAX).clamp(1, 5))
    }

    /// The names of the DFSPs, and then of the FXPs.
    pub fn dfsp_names(&self) -> Vec<String> {
        let fxps = if self.converts() { self.fxps } else { 0 };
        let names = (1..=self.dfsps).map(|number| format!("{}-{number}", self.dfsp_prefix));
        names.chain((1..=fxps).map(|number| format!("{}-fx{number}", self.dfsp_prefix))).collect()
    }

    pub fn fxp_indexes(&self) -> Vec<usize> {
        (self.dfsps..self.dfsp_names().len()).collect()
    }

    /// The currency of the payees of transfers with FX transfers.
    pub fn target_currency(&self) -> Currency {
        let other = if self.currency.as_str() == "XTS" { "XXX" } else { "XTS" };
        Currency::parse(other).unwrap_or(self.currency)
    }

    /// The currency that payees want, if they convert the money that they receive.
    pub fn payees_currency(&self) -> Option<Currency> {
        let paid = if self.payers_convert() { self.target_currency() } else { self.currency };
        let others: Vec<_> = ["XUA", "XTS", "XXX"].into_iter().filter_map(Currency::parse).collect();
        others.into_iter().find(|other| self.payees_convert && ![paid, self.currency].contains(other))
    }

    /// The number of the first party of each DFSP.
    pub fn parties_from(&self) -> u64 {
        self.instance.map_or(0, |instance| u64::from(instance.saturating_sub(1)) * PARTIES_PER_INSTANCE)
    }

    /// Whether the hub makes transfers durable, as far as is known.
    pub fn durable(&self) -> Option<bool> {
        match &self.target {
            Some(target) => target.durable,
            None => Some(!self.hub_arguments.iter().any(|argument| argument.ends_with(NOT_DURABLE))),
        }
    }

    /// Number of threads of simulators and load generator.
    pub fn worker_count(&self) -> usize {
        self.workers.unwrap_or(available_cores().min(4)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load_profile::Stage;

    #[test]
    fn invalid_options_are_named() {
        let good = RunOptions::default;
        assert_eq!(good().validate(), Ok(()));
        let open = |rate_per_s| Load::Open { rate_per_s, outstanding_max: 10 };
        let ms = Duration::from_millis;
        let moving = || Load::RampingUsers { start: 1, stages: vec![Stage { level: 9, length: ms(5_000) }] };
        for (options, error) in [
            (RunOptions { dfsps: 1, ..good() }, OptionsError::Dfsps),
            (RunOptions { parties: 0, ..good() }, OptionsError::Parties),
            (RunOptions { instance: Some(0), ..good() }, OptionsError::Instance),
            (RunOptions { instance: Some(101), ..good() }, OptionsError::Instance),
            (RunOptions { instance: Some(2), parties: 10_000_001, ..good() }, OptionsError::Instance),
            (RunOptions { load: Load::Closed { users: 0 }, ..good() }, OptionsError::Outstanding),
            (RunOptions { load: open(0), ..good() }, OptionsError::Rate),
            (RunOptions { duration: ms(99), ..good() }, OptionsError::Duration),
            (RunOptions { slices: Some(0), ..good() }, OptionsError::Slices),
            (RunOptions { slices: Some(3), duration: ms(200), ..good() }, OptionsError::Slices),
            (RunOptions { amount: Amount::ZERO, ..good() }, OptionsError::Amount),
            (RunOptions { pairs: PairChoice::weighted([1, 2]), ..good() }, OptionsError::Pairs),
            (
                RunOptions { payees_convert: true, baselines: vec![Baseline::SimsOnly], ..good() },
                OptionsError::PayeesConvert,
            ),
            (
                RunOptions { load: moving(), baselines: vec![Baseline::Forwarder], ..good() },
                OptionsError::Stages,
            ),
            (RunOptions { load: moving(), slices: Some(2), ..good() }, OptionsError::Slices),
        ] {
            assert_eq!(options.validate(), Err(error));
        }
        assert_eq!(Baseline::from_str("sims-only", false), Ok(Baseline::SimsOnly));
        assert!(Baseline::from_str("none", false).is_err());
    }

    #[test]
    fn long_runs_are_cut_into_slices() {
        let slices = |seconds| {
            RunOptions { duration: Duration::from_secs(seconds), ..Default::default() }.slice_count()
        };
        assert_eq!([1, 4, 15, 20, 3600].map(slices), [1, 1, 3, 5, 5]);
    }
}
