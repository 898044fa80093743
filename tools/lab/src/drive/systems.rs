//! What a run drives: DFSPs and load generator in front of the hub, and of each baseline.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use upesi_sim::{
    AmountType, ConversionOptions, DfspSettings, FX_RATE_PER_MILLE_USUAL, Originator, OriginatorOptions,
    PARTIES_PER_DFSP, PayeeConversions, PaymentOptions, SimConfig, Simulator, Upstream, prefix_of,
};
use upesi_types::{FspId, Timestamp};

use crate::drive::child::{Process, free_loopback_addresses};
use crate::drive::measure::Watch;
use crate::drive::operation::Generator;
use crate::drive::run::{LabError, RAMP, Run};
use crate::drive::system::Subject;
use crate::judge::audit::Evidence;
use crate::observe::scrape::Scraper;
use crate::observe::timeline::Timeline;
use crate::observe::usage::Watched;
use crate::plan::options::{Baseline, OptionsError};
use crate::plan::pairs::Pairs;
use crate::plan::scenario::Scenario;
use crate::result::schema::Validity;
use crate::result::{AuditSummary, LabResult};

/// Connections from the simulators to a hub.
const CONNECTIONS_MIN: usize = 64;
const CONNECTIONS_MAX: usize = 8_192;

impl Run<'_> {
    pub(crate) fn subject(
        &self,
        name: &'static str,
        upstream: Upstream,
        pids: &[u32],
        slice: Duration,
    ) -> Result<Subject, LabError> {
        let options = self.options;
        let mut config = SimConfig::new(options.dfsps, upstream);
        let dfsp = |name: String| Some((FspId::parse(&name)?, DfspSettings::default()));
        config.dfsps = options
            .dfsp_names()
            .into_iter()
            .map(dfsp)
            .collect::<Option<_>>()
            .ok_or(OptionsError::DfspPrefix)?;
        config.listen = SocketAddr::new(options.sim_address, 0);
        config.seed = options.seed;
        // A POST and a PUT per transfer may wait for their answers at a time. Fewer connections would make the load
        // generator the bottleneck unseen.
        let usual = (2 * options.load.outstanding_max()).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        config.connections_max = options.connections_max.unwrap_or(usual);
        config.currencies = vec![options.currency];
        config.payee_conversions = options.payees_currency().map(|currency| PayeeConversions {
            currency,
            rate_per_mille: FX_RATE_PER_MILLE_USUAL,
            fxps: options.fxp_indexes(),
        });
        if let Some(keys) = &self.keys {
            let names: Vec<_> = config.dfsps.iter().map(|(name, _)| *name).collect();
            config.security = keys.dfsps(&names, options.security)?;
        }
        let secret = config.secret.clone();
        let simulator = Simulator::start(config, &self.workers)?;
        let operations = options.operations();
        let places = operations.len() as u64;
        let generators = (0..).zip(operations);
        let generators = generators
            .map(|(place, operation)| self.generator(&simulator, &secret, operation, (place, places)))
            .collect::<Result<_, _>>()?;
        Ok(Subject::new(name, simulator, generators, pids, slice))
    }

    /// What makes the operations of one load, `place` of so many.
    fn generator(
        &self,
        simulator: &Simulator,
        secret: &[u8],
        scenario: Scenario,
        (place, places): (u64, u64),
    ) -> Result<Generator, OptionsError> {
        let options = self.options;
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
            parties_per_dfsp: PARTIES_PER_DFSP,
            amount_type: AmountType::Send,
        };
        let mut originator = Originator::new(simulator, originator_options).with_payments(payments);
        if scenario.converts() {
            let fxps = options.fxp_indexes();
            let (target, rate_per_mille) = (options.target_currency(), FX_RATE_PER_MILLE_USUAL);
            let conversions = ConversionOptions { target, rate_per_mille, fxps };
            originator = originator.with_conversions(conversions).ok_or(OptionsError::Amount)?;
        }
        if scenario == Scenario::Bulks {
            originator = originator.with_bulks(options.bulk_items);
        }
        Ok(Generator {
            scenario,
            originator: originator.with_body_bytes(options.body_bytes.unwrap_or(0)),
            pairs: Pairs { dfsps: options.dfsps, choice: options.pairs.clone(), seed: options.seed },
            names: simulator.names().collect(),
            parties: options.parties,
            parties_from: options.parties_from(),
            secret: secret.to_vec(),
            callback_timeout: options.callback_timeout,
            place,
            places,
            operations: AtomicU64::new(0),
        })
    }

    /// The baselines, and the forwarder's process, which ends with its value.
    pub(crate) async fn baselines(
        &self,
        slice: Duration,
    ) -> Result<(Vec<Subject>, Option<Process>), LabError> {
        let (mut subjects, mut process) = (Vec::new(), None);
        for baseline in &self.options.baselines {
            let (subject, started) = self.baseline(*baseline, slice).await?;
            subjects.push(subject);
            process = started.or(process);
        }
        Ok((subjects, process))
    }

    /// One baseline, and its process where it has one.
    pub(crate) async fn baseline(
        &self,
        baseline: Baseline,
        slice: Duration,
    ) -> Result<(Subject, Option<Process>), LabError> {
        let name = baseline.name();
        if baseline == Baseline::SimsOnly {
            return Ok((self.subject(name, Upstream::Peers, &[], slice)?, None));
        }
        self.progress.set_message("starting the forwarder");
        let [address] = free_loopback_addresses()?;
        let security = self.options.security;
        let scheme = if security.is_mutual() { "https" } else { "http" };
        let mut subject = self.subject(name, Upstream::Hub(format!("{scheme}://{address}")), &[], slice)?;
        let mut arguments: Vec<String> =
            ["lab", "forwarder", "--listen", &address.to_string()].map(str::to_owned).into();
        for (index, dfsp) in subject.simulator.names().enumerate() {
            let route = format!("{dfsp}={}", subject.simulator.base_url(&dfsp));
            let prefix = format!("{}={dfsp}", prefix_of(index));
            arguments.extend(["--route".to_owned(), route, "--prefix".to_owned(), prefix]);
        }
        let mut tls = None;
        if let Some(keys) = &self.keys {
            arguments.extend(keys.forwarder_arguments(security));
            tls = keys.caller(security)?;
        }
        let log = self.log("forwarder.log");
        let mut started = Process::start("the forwarder", &self.binary()?, &arguments, log.as_deref())?;
        started.ready(&[(address, tls.as_ref())]).await?;
        subject.processes = vec![Watched::new(started.pid())];
        Ok((subject, Some(started)))
    }

    /// Measures a baseline without any hub.
    pub(crate) async fn alone(
        &self,
        baseline: Baseline,
        started_at: Timestamp,
    ) -> Result<LabResult, LabError> {
        let options = self.options;
        let slice = options.duration / options.slice_count() as u32;
        let (mut subject, process) = self.baseline(baseline, slice).await?;
        let pids = subject.processes.iter().map(|process| process.pid).collect();
        let mut watch = Watch { scraper: Scraper::of_nobody(), timeline: Timeline::new(pids, None) };
        for index in 0..options.slice_count() {
            if index == 0 {
                self.sign_ahead(&subject);
            }
            let ramp = if index == 0 { options.warm_up } else { RAMP };
            self.slice(&mut subject, ramp, Some(&mut watch)).await;
        }
        drop(process);
        let evidence =
            Evidence { expected: BTreeMap::new(), ..self.evidence(&subject, (Vec::new(), Vec::new()), None) };
        let target = baseline.name().to_owned();
        let mut result = self.result(&subject, &[], &evidence, &watch.timeline, target, started_at);
        // Without a hub there are no positions to compare, and nothing is durable.
        result.audit = AuditSummary { ok: true, ..AuditSummary::default() };
        result.validity.findings.retain(|finding| !finding.starts_with("the audit"));
        result.validity = Validity::of(result.validity.findings);
        (result.lost, result.durable, result.environment.durability) = (0, None, None);
        Ok(result)
    }
}
