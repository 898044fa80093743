//! Runs a scenario: DFSPs exchange messages through a hub and, for comparison, without one.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use upesi_http::Workers;
use upesi_sim::{Upstream, mix};
use upesi_types::Timestamp;

use crate::admin_client::AdminClient;
use crate::drive::child::{HubProcess, HubTls, Process};
use crate::drive::error::LabError;
use crate::drive::keys::Keys;
use crate::drive::measure::HubWatch;
use crate::drive::onboard::{
    ANSWER_ENDPOINTS, BULK_ENDPOINTS, FX_TRANSFER_ENDPOINTS, bind, onboard, register, set_endpoints_of_all,
    settle_gross,
};
use crate::drive::output::{create, write};
use crate::drive::session::{RAMP, Run, now};
use crate::drive::settling::Settling;
use crate::drive::subject::Subject;
use crate::observe::hub_metrics::Scraper;
use crate::observe::process::Usage;
use crate::observe::timeline::Timeline;
use crate::plan::options::RunOptions;
use crate::plan::scenario::Scenario;
use crate::plan::target::TargetHub;
use crate::result::LabResult;

/// A baseline is measured for the hub's time divided by this number.
const BASELINE_PART: u32 = 2;
const QUIESCE_POLL: Duration = Duration::from_millis(20);

/// Runs the scenario. Blocks until it has ended. Progress goes to stderr if that is a terminal.
///
/// A result whose audit failed is still a result: check [`LabResult::passed`]. Fails if something that the run needs
/// cannot be started, prepared or queried.
pub fn run(options: &RunOptions) -> Result<LabResult, LabError> {
    options.validate()?;
    crate::observe::process::allow_many_files();
    create(options.out.as_deref())?;
    let workers = Arc::new(Workers::start_on_cores(options.worker_count(), "lab")?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| LabError::Io { what: "cannot start the lab's runtime".to_owned(), source })?;
    let nonce = mix(now().as_ns().unsigned_abs() ^ u64::from(std::process::id()));
    let keys = Keys::of(options, nonce)?;
    let run = Run { options, workers: workers.clone(), nonce, progress: progress_bar(options), keys };
    let result = runtime.block_on(async {
        match options.alone {
            Some(baseline) => run.alone(baseline, now()).await,
            None => run.run(now()).await,
        }
    });
    run.progress.finish_and_clear();
    workers.shutdown();
    let result = result?;
    write(&result, options.out.as_deref())?;
    Ok(result)
}

/// The source of the hub's metrics. Fails if a given place or process does not exist.
async fn scraper(target: &TargetHub) -> Result<Scraper, LabError> {
    for pid in &target.pids {
        Usage::of(*pid)?;
    }
    let scraper = Scraper::new(target)?;
    if !target.metrics_urls.is_empty() {
        scraper.check().await?;
    }
    Ok(scraper)
}

fn progress_bar(options: &RunOptions) -> ProgressBar {
    let slices = options.slice_count() as u32;
    let ramps = options.warm_up + RAMP * (slices - 1) + options.cool_down * slices;
    let baselines = options.baselines.len() as u32;
    let total = options.duration + ramps + (options.duration / BASELINE_PART + RAMP * slices) * baselines;
    // Draws nothing if stderr is not a terminal.
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
        let (mut own_hub, target) = match &options.target {
            Some(target) => (None, target.clone()),
            None => {
                let hub = self.start_hub(&data).await?;
                let pids = vec![hub.pid()];
                let target = TargetHub { pids, ..TargetHub::at(hub.fspiop_url(), hub.admin_url()) };
                (Some(hub), target)
            }
        };
        let target = match &self.keys {
            Some(keys) if options.target.is_some() => {
                TargetHub { admin_tls: keys.operator(&target)?, ..target }
            }
            _ => target,
        };
        let admin = AdminClient::with_tls(&target.admin_url, target.admin_tls.as_ref())?;
        let scraper = scraper(&target).await?;
        let slice = options.duration / options.slice_count() as u32;
        let mut hub = self.subject("hub", Upstream::Services(target.services()), &target.pids, slice)?;
        self.prepare(&admin, &hub, &target).await?;
        let before = self.standing(&admin, &hub).await?;
        let (mut baselines, forwarder) = self.baselines(slice / BASELINE_PART).await?;
        for subject in std::iter::once(&hub).chain(&baselines) {
            self.sign_ahead(subject);
        }

        let known_data = own_hub.is_some().then(|| data.clone());
        let mut watch = HubWatch { scraper, timeline: Timeline::new(target.pids.clone(), known_data) };
        watch.timeline.began_at = Some(now());
        let every = options.settlement.every_ms.map(Duration::from_millis);
        let settling = every.map(|every| Settling::start(&target.admin_url, self.nonce, every));
        for index in 0..options.slice_count() {
            let ramp = if index == 0 { options.warm_up } else { RAMP };
            self.slice(&mut hub, ramp, Some(&mut watch)).await;
            for baseline in &mut baselines {
                self.slice(baseline, RAMP, None).await;
            }
        }
        if let Some(length) = options.profile {
            self.look(&mut hub, &admin, length).await;
        }
        self.progress.set_message("waiting for operations in flight");
        self.quiesce(&hub).await;
        let settled = match settling {
            Some(settling) => Some(settling.finish().await),
            None => None,
        };
        let after = self.standing(&admin, &hub).await?;
        let evidence = self.evidence(&hub, (before, after), settled.as_ref());
        drop(forwarder);
        let url = target.fspiop_url;
        let result = self.result(&hub, &baselines, &evidence, &watch.timeline, url, started_at);
        if let Some(hub) = &mut own_hub {
            hub.end();
            if result.passed() && !options.keep_data {
                // The data of a failed run are evidence. After a successful run they are removed.
                let _ = std::fs::remove_dir_all(&data);
            }
        }
        Ok(result)
    }

    /// Prepares the hub: DFSPs, endpoints, parties. After that, the DFSPs get their faulty behaviour.
    async fn prepare(&self, admin: &AdminClient, hub: &Subject, target: &TargetHub) -> Result<(), LabError> {
        let options = self.options;
        self.progress.set_message("onboarding the DFSPs");
        for (nonce, currency) in (self.nonce..).zip(self.currencies()) {
            if options.settlement.gross {
                settle_gross(admin, currency).await?;
            }
            onboard(admin, &hub.simulator, currency, nonce).await?;
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| options.security.is_mutual()) {
            bind(admin, keys.trial()).await?;
        }
        let more: [(bool, &[_]); 3] = [
            (options.converts(), &FX_TRANSFER_ENDPOINTS),
            (options.has_bulks(), &BULK_ENDPOINTS),
            (options.scenario != Scenario::Transfers, &ANSWER_ENDPOINTS),
        ];
        for (_, endpoints) in more.into_iter().filter(|(is_needed, _)| *is_needed) {
            set_endpoints_of_all(admin, &hub.simulator, endpoints).await?;
        }
        if options.target.is_some() {
            // Some hubs cache callback addresses for minutes, each of their services separately, and these addresses
            // are new. Other hubs do not know this request.
            for url in target.fspiop_urls() {
                let _ = AdminClient::new(&url)?.delete("/endpointcache").await;
            }
        }
        if options.looks_up() {
            self.progress.set_message("registering the parties");
            register(&self.workers, hub.generator(), options.register).await?;
        }
        for index in 0..hub.simulator.names().count() {
            // Cannot fail: the options were validated.
            let _ = hub.simulator.set_settings(index, options.behaviour);
        }
        Ok(())
    }

    async fn start_hub(&self, data: &Path) -> Result<HubProcess, LabError> {
        if self.options.existing_transfers > 0 {
            self.progress.set_message("filling the hub with finished transfers");
            let arguments = ["lab", "fill", "--data", &data.display().to_string(), "--transfers"];
            let mut arguments = arguments.map(str::to_owned).to_vec();
            arguments.push(self.options.existing_transfers.to_string());
            arguments.extend(["--dfsps".to_owned(), self.options.dfsps.to_string()]);
            let log = self.log("fill.log");
            Process::start("lab fill", &self.binary()?, &arguments, log.as_deref())?.ended().await?;
        }
        self.progress.set_message("starting the hub");
        let log = self.log("hub.log");
        // Metrics must be current: readings at the ends of a phase must not wait.
        let mut arguments = vec!["--set=metrics.interval_ms=1".to_owned()];
        let mut tls = HubTls::default();
        if let Some(keys) = &self.keys {
            arguments.extend(keys.hub_arguments(self.options.security));
            tls.fspiop = keys.caller(self.options.security)?;
        }
        arguments.extend_from_slice(&self.options.hub_arguments);
        Ok(HubProcess::start_secured(&self.binary()?, data, &arguments, log.as_deref(), tls).await?)
    }

    /// Waits until no operation is in progress, for at most the given time.
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
}
