//! Runs a scenario: DFSPs deal with each other through a hub, and, for comparison, without one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use upesi_http::Workers;
use upesi_sim::{
    AmountType, Originator, OriginatorOptions, PaymentOptions, Phase, SimConfig, SimError, Simulator,
    Upstream, mix, prefix_of,
};
use upesi_types::Timestamp;

use crate::admin_client::{AdminClient, AdminError};
use crate::answers::AnswersEvidence;
use crate::audit::{Evidence, audit};
use crate::child::{ChildError, HubProcess, Process, free_loopback_addresses};
use crate::environment::Environment;
use crate::latency::{LatencyMs, Phases};
use crate::load::{self, Window};
use crate::onboard::{OnboardError, onboard, set_answer_endpoints};
use crate::operation::Generator;
use crate::options::{Baseline, OptionsError, RunOptions};
use crate::registration::register;
use crate::result::{LabResult, OptionsEcho};
use crate::scenario::{Scenario, phase_name};
use crate::schedule::Pairs;
use crate::statistics::rounded;
use crate::subject::{Subject, schedule, usage_of_lab};

/// Load before each slice but the first, so that connections are open and queues have their usual length.
const RAMP: Duration = Duration::from_millis(500);
/// A baseline is measured for this part of the hub's time.
const BASELINE_PART: u32 = 2;
/// Connections from the simulators to a hub.
const CONNECTIONS_MIN: usize = 64;
const CONNECTIONS_MAX: usize = 8_192;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
const QUIESCE_POLL: Duration = Duration::from_millis(20);

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The options make no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A process that the run needs.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The simulators.
    #[error("the simulated DFSPs cannot start: {0}")]
    Sim(#[from] SimError),
    /// The admin API.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Onboarding.
    #[error("the hub cannot be prepared: {0}")]
    Onboard(#[from] OnboardError),
    /// Threads.
    #[error(transparent)]
    Workers(#[from] upesi_http::WorkersError),
    /// Files.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

struct Run<'options> {
    options: &'options RunOptions,
    workers: Arc<Workers>,
    nonce: u64,
    progress: ProgressBar,
}

/// Runs the scenario. Blocks until it is over; progress goes to stderr if that is a terminal.
///
/// A result whose audit failed is still a result: look at [`LabResult::passed`].
///
/// # Errors
/// When something that the run needs cannot be started, prepared or asked.
pub fn run(options: &RunOptions) -> Result<LabResult, LabError> {
    options.validate()?;
    crate::process::allow_many_files();
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out)
            .map_err(|source| LabError::Io { what: format!("cannot create {}", out.display()), source })?;
    }
    let workers = Arc::new(Workers::start(options.worker_count(), "lab")?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| LabError::Io { what: "cannot start the lab's runtime".to_owned(), source })?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nonce = mix(u64::try_from(since_epoch.as_nanos()).unwrap_or(0) ^ u64::from(std::process::id()));
    let run = Run { options, workers: workers.clone(), nonce, progress: progress_bar(options) };
    let result = runtime.block_on(run.run(now()));
    run.progress.finish_and_clear();
    workers.shutdown();
    let result = result?;
    if let Some(out) = &options.out {
        result.write(out).map_err(|source| LabError::Io {
            what: format!("cannot write into {}", out.display()),
            source,
        })?;
    }
    Ok(result)
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

fn progress_bar(options: &RunOptions) -> ProgressBar {
    let slices = options.slice_count() as u32;
    let ramps = options.warm_up + RAMP * (slices - 1);
    let baselines = options.baselines.len() as u32;
    let total = options.duration + ramps + (options.duration / BASELINE_PART + RAMP * slices) * baselines;
    // Draws nothing where stderr is no terminal.
    let bar =
        ProgressBar::with_draw_target(u64::try_from(total.as_millis()).ok(), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix:>10} [{bar:40}] {percent:>3}% {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Run<'_> {
    async fn run(&self, started_at: Timestamp) -> Result<LabResult, LabError> {
        let options = self.options;
        let data = self.data_directory();
        let (mut own_hub, target_url, admin_url, pid) = match &options.target {
            Some(target) => (None, target.fspiop_url.clone(), target.admin_url.clone(), target.pid),
            None => {
                let hub = self.start_hub(&data).await?;
                let (fspiop, admin, pid) = (hub.fspiop_url(), hub.admin_url(), hub.pid());
                (Some(hub), fspiop, admin, Some(pid))
            }
        };
        let durable = options.target.as_ref().map_or(Some(true), |target| target.durable);
        let admin = AdminClient::new(&admin_url)?;
        let slice = options.duration / options.slice_count() as u32;
        let mut hub = self.subject("hub", Upstream::Hub(target_url.clone()), pid, slice)?;
        self.prepare(&admin, &hub, &target_url).await?;
        let before = admin.positions(options.currency).await?;
        let (mut baselines, forwarder) = self.baselines(slice / BASELINE_PART).await?;

        for index in 0..options.slice_count() {
            self.slice(&mut hub, if index == 0 { options.warm_up } else { RAMP }).await;
            for baseline in &mut baselines {
                self.slice(baseline, RAMP).await;
            }
        }
        self.progress.set_message("waiting for what is in flight");
        self.quiesce(&hub).await;
        let evidence = Evidence {
            currency: options.currency,
            before,
            after: admin.positions(options.currency).await?,
            expected: hub.simulator.expected_positions(),
            transfers: hub.simulator.transfer_counts(),
            counters: hub.simulator.counters(),
            originated: hub.tally.exchanges(Phase::Transfer).originated(),
        };
        drop(forwarder);
        let result = self.result(&hub, &baselines, &evidence, target_url, durable, started_at);
        if let Some(hub) = &mut own_hub {
            hub.end();
            if result.passed() {
                // Nobody needs the data of a good run; that of a bad one is evidence.
                let _ = std::fs::remove_dir_all(&data);
            }
        }
        Ok(result)
    }

    /// Makes the hub ready: DFSPs, endpoints, parties. The DFSPs behave badly only once it is.
    async fn prepare(&self, admin: &AdminClient, hub: &Subject, target_url: &str) -> Result<(), LabError> {
        let options = self.options;
        self.progress.set_message("onboarding the DFSPs");
        onboard(admin, &hub.simulator, options.currency, self.nonce).await?;
        if options.scenario != Scenario::Transfers {
            set_answer_endpoints(admin, &hub.simulator).await?;
        }
        if options.target.is_some() {
            // Some hubs remember callback addresses for minutes, and ours are new; others do not know this request.
            let _ = AdminClient::new(target_url)?.delete("/endpointcache").await;
        }
        if options.scenario.looks_up() {
            self.progress.set_message("registering the parties");
            register(&self.workers, &hub.generator, options.register).await?;
        }
        for index in 0..options.dfsps {
            // Cannot fail: the options were validated.
            let _ = hub.simulator.set_settings(index, options.behaviour);
        }
        Ok(())
    }

    fn binary(&self) -> Result<PathBuf, LabError> {
        match &self.options.binary {
            Some(binary) => Ok(binary.clone()),
            None => std::env::current_exe().map_err(|source| LabError::Io {
                what: "cannot find this program's file".to_owned(),
                source,
            }),
        }
    }

    fn log(&self, name: &str) -> Option<PathBuf> {
        self.options.out.as_ref().map(|out| out.join(name))
    }

    /// Where a hub of ours keeps its data. A fresh directory per run, so that old data is never touched.
    fn data_directory(&self) -> PathBuf {
        let parent = self.options.out.clone().unwrap_or_else(std::env::temp_dir);
        parent.join(format!("upesi-lab-hub-{:016x}", self.nonce))
    }

    async fn start_hub(&self, data: &Path) -> Result<HubProcess, LabError> {
        self.progress.set_message("starting the hub");
        let log = self.log("hub.log");
        Ok(HubProcess::start(&self.binary()?, data, &self.options.hub_arguments, log.as_deref()).await?)
    }

    fn subject(
        &self,
        name: &'static str,
        upstream: Upstream,
        pid: Option<u32>,
        slice: Duration,
    ) -> Result<Subject, LabError> {
        let options = self.options;
        let mut config = SimConfig::new(options.dfsps, upstream);
        config.listen = SocketAddr::new(options.sim_address, 0);
        config.seed = options.seed;
        // A POST and a PUT per transfer may wait for their answers at a time. Fewer connections would make the load
        // generator the bottleneck unseen.
        config.connections_max = (2 * options.load.outstanding_max()).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        config.currencies = vec![options.currency];
        let secret = config.secret.clone();
        let simulator = Simulator::start(config, &self.workers)?;
        let originator_options = OriginatorOptions {
            amount: options.amount,
            currency: options.currency,
            expiry: options.expiry,
            seed: options.seed,
            nonce: self.nonce,
            trace: options.trace,
            resends_max: 0,
        };
        let payments = PaymentOptions {
            callback_timeout: options.callback_timeout,
            parties_per_dfsp: options.parties,
            amount_type: AmountType::Send,
        };
        let generator = Generator {
            scenario: options.scenario,
            originator: Originator::new(&simulator, originator_options).with_payments(payments),
            pairs: Pairs { dfsps: options.dfsps, unidirectional: options.unidirectional, seed: options.seed },
            names: simulator.names().collect(),
            parties: options.parties,
            secret,
            callback_timeout: options.callback_timeout,
            operations: AtomicU64::new(0),
        };
        Ok(Subject::new(name, simulator, generator, pid, slice))
    }

    /// The baselines, and the forwarder's process, which ends with its value.
    async fn baselines(&self, slice: Duration) -> Result<(Vec<Subject>, Option<Process>), LabError> {
        let (mut subjects, mut process) = (Vec::new(), None);
        for baseline in &self.options.baselines {
            let name = baseline.name();
            match baseline {
                Baseline::SimsOnly => subjects.push(self.subject(name, Upstream::Peers, None, slice)?),
                Baseline::Forwarder => {
                    self.progress.set_message("starting the forwarder");
                    let [address] = free_loopback_addresses()?;
                    let mut subject =
                        self.subject(name, Upstream::Hub(format!("http://{address}")), None, slice)?;
                    let mut arguments: Vec<String> =
                        ["lab", "forwarder", "--listen", &address.to_string()].map(str::to_owned).into();
                    for (index, dfsp) in subject.simulator.names().enumerate() {
                        let route = format!("{dfsp}={}", subject.simulator.base_url(&dfsp));
                        let prefix = format!("{}={dfsp}", prefix_of(index));
                        arguments.extend(["--route".to_owned(), route, "--prefix".to_owned(), prefix]);
                    }
                    let log = self.log("forwarder.log");
                    let mut started =
                        Process::start("the forwarder", &self.binary()?, &arguments, log.as_deref())?;
                    started.ready(&[address]).await?;
                    subject.pid = Some(started.pid());
                    subjects.push(subject);
                    process = Some(started);
                }
            }
        }
        Ok((subjects, process))
    }

    /// Drives one subject for its time, after `ramp` of unmeasured load.
    async fn slice(&self, subject: &mut Subject, ramp: Duration) {
        self.progress.set_prefix(subject.name);
        let from = Instant::now();
        let window = Window { from, measure_from: from + ramp, until: from + ramp + subject.slice };
        let running = load::start(&self.workers, &subject.generator, self.options.load, window);
        self.wait_until(window.measure_from, &running).await;
        let (began, process_before, lab_before) = (Instant::now(), subject.usage(), usage_of_lab());
        self.wait_until(window.until, &running).await;
        let (ended, process_after, lab_after) = (Instant::now(), subject.usage(), usage_of_lab());
        let tally = running.finish().await;

        subject.record(&tally, ended - began, [process_before, process_after], [lab_before, lab_after]);
    }

    async fn wait_until(&self, until: Instant, running: &load::Running) {
        loop {
            let now = Instant::now();
            if now >= until {
                return;
            }
            let nap = (until - now).min(PROGRESS_INTERVAL);
            tokio::time::sleep(nap).await;
            self.progress.inc(u64::try_from(nap.as_millis()).unwrap_or(0));
            self.progress.set_message(format!("{} completed in this slice", running.completed()));
        }
    }

    /// Waits until nothing is in flight, for at most the time given.
    async fn quiesce(&self, hub: &Subject) {
        let deadline = Instant::now() + self.options.quiesce_timeout;
        while Instant::now() < deadline {
            let counts = hub.simulator.transfer_counts();
            let open = counts.sent + counts.accepted + counts.incoming_open;
            if open == 0 && self.answers(hub).missing() == 0 {
                return;
            }
            tokio::time::sleep(QUIESCE_POLL).await;
        }
    }

    /// What is known about questions and answers.
    fn answers(&self, hub: &Subject) -> AnswersEvidence {
        let phases = self.options.scenario.phases().iter().filter(|phase| **phase != Phase::Transfer);
        AnswersEvidence {
            phases: phases.map(|phase| (phase_name(*phase), *hub.tally.exchanges(*phase))).collect(),
            counters: hub.simulator.counters(),
        }
    }

    fn result(
        &self,
        hub: &Subject,
        baselines: &[Subject],
        evidence: &Evidence,
        target: String,
        durable: Option<bool>,
        started_at: Timestamp,
    ) -> LabResult {
        let hub_throughput = hub.throughput();
        let mut compared = baselines.iter().map(|baseline| baseline.as_baseline(hub_throughput));
        let baseline = compared.next();
        let scenario = self.options.scenario;
        let audit = audit(evidence).with_answers(&self.answers(hub), scenario.moves_money());
        let requests = |phase: &Phase| hub.tally.exchanges(*phase);
        LabResult {
            name: scenario.name().to_owned(),
            kind: "end-to-end",
            unit: scenario.operation(),
            scenario: scenario.name(),
            environment: Environment::detect(self.options.commit.clone(), started_at.to_string()),
            options: OptionsEcho::of(self.options),
            seed: self.options.seed,
            target,
            completed: hub.tally.completed,
            failed: hub.tally.failed,
            lost: audit.lost,
            late: scenario.phases().iter().map(|phase| requests(phase).late).sum(),
            originated: requests(&scenario.phases()[0]).originated(),
            throughput_per_s: rounded(hub_throughput, 1),
            latency_ms: LatencyMs::of(&hub.tally.latency),
            phases: Phases::of(scenario, &hub.tally),
            schedule: schedule(self.options, &hub.tally),
            hub: hub.process(),
            lab: hub.lab(),
            durable,
            ratio: baseline.as_ref().and_then(|baseline| baseline.ratio),
            baseline,
            more_baselines: compared.collect(),
            slices: hub.slices.clone(),
            simulators: evidence.counters,
            audit,
            ..LabResult::default()
        }
    }
}
