//! The cost of handshakes and renewals for connected DFSPs. The trial runs a hub with mutual TLS and its default
//! settings, and honest payments over kept connections. At the same time there is a storm of new connections, or a
//! renewal of a thousand DFSPs' certificates.

mod renewal;
mod storm;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use upesi_http::{ClientTls, Workers};
use upesi_lab::drive::onboard::{ANSWER_ENDPOINTS, bind, onboard, set_endpoints_of_all};
use upesi_lab::result::evidence::{Provenance, Subject};
use upesi_lab::{AdminClient, HubProcess, HubTls};
use upesi_pki::{Authority, Order, Trial, Usage};
use upesi_settings::trial::{SecuredParts, settings};
use upesi_sim::{SimConfig, SimSecurity, Simulator, Upstream};
use upesi_tls::{Protocols, present_s};

use self::storm::{BareTlsServer, Storm};
use crate::attacks::{EndedPayment, Payments, Round, Window, currency, median, ms, outcomes};
use crate::{hub_binary, still_runs, told};

/// Maximum cost of a storm for the p99 of payments, in microseconds.
const COST_US_MAX: i64 = 10_000;
/// Duration of payments before the first phase, so that connections are open.
const WARM_UP: Duration = Duration::from_secs(3);
/// Pause between a storm and the next phase.
const SETTLING: Duration = Duration::from_secs(2);
/// Minimum percentage of due handshakes that must have been made. Below it, the storm was too weak for a result.
const MADE_PERCENT_MIN: u64 = 90;

/// The subject of its file of evidence.
pub const SUBJECT: Subject = Subject {
    name: "handshakes",
    what: "storms of handshakes, and renewals of a thousand certificates, during honest payments",
    command: "torture handshakes --report docs/evidence",
};

/// The options of the trial.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Duration of each phase of a round.
    pub phase: Duration,
    pub rounds: usize,
    pub rate_per_s: u64,
    pub handshakes_per_s: u64,
    /// Number of additional DFSPs, each with its own certificate and connection, that make no payments.
    pub dfsps: usize,
    /// Number of renewals of all certificates.
    pub renewals: usize,
    pub binary: PathBuf,
}

/// A run of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakesRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    pub rate_per_s: u64,
    pub handshakes_per_s: u64,
    pub rounds: Vec<Round>,
    /// The median over the rounds of the storm's cost.
    pub cost_us: Option<i64>,
    /// Handshakes of the storms that ended with a response, and the others.
    pub handshakes: u64,
    pub handshakes_failed: u64,
    /// DFSPs that were connected while all certificates were renewed this many times.
    pub connected: u64,
    pub renewals: u64,
    pub reloads: u64,
    pub requests: u64,
    pub requests_failed: u64,
    pub paid: u64,
    pub failed: u64,
    pub violations: Vec<String>,
}

fn cost_us(round: &Round) -> Option<i64> {
    let before = round.quiet_p99_us?.max(round.control_p99_us?);
    Some(i64::try_from(round.flood_p99_us?).ok()? - i64::try_from(before).ok()?)
}

impl HandshakesRun {
    /// Computes the median and compares all figures with the promises.
    #[must_use]
    fn judged(mut self, plan: &Plan) -> Self {
        self.cost_us = self.rounds.iter().map(cost_us).collect::<Option<_>>().and_then(median);
        let due = plan.handshakes_per_s * plan.phase.as_secs() * plan.rounds as u64;
        let wanted = plan.renewals as u64;
        let cost = self.cost_us.map_or_else(|| "not measured".to_owned(), |cost| format!("{cost} µs"));
        for (is_broken, what) in [
            (
                self.cost_us.is_none_or(|cost| cost > COST_US_MAX),
                format!("the storm's cost to p99 is {cost}"),
            ),
            (
                self.handshakes * 100 < due * MADE_PERCENT_MIN,
                format!("only {} of {due} handshakes were made", self.handshakes),
            ),
            (self.handshakes_failed > 0, format!("{} handshakes failed", self.handshakes_failed)),
            (self.reloads < wanted, format!("{} of {wanted} renewals took effect", self.reloads)),
            (self.requests == 0 && wanted > 0, "no DFSP sent a request during the renewals".to_owned()),
            (
                self.requests_failed > 0,
                format!("{} of {} requests failed", self.requests_failed, self.requests),
            ),
            (self.failed > 0, format!("{} of {} payments failed", self.failed, self.failed + self.paid)),
        ] {
            if is_broken {
                self.violations.push(what);
            }
        }
        self
    }

    /// The result in lines for a terminal.
    pub fn summary(&self) -> String {
        let Self { handshakes, handshakes_per_s, handshakes_failed, connected, reloads, .. } = self;
        let Self { requests, requests_failed, paid, failed, .. } = self;
        let mut text = format!(
            "handshakes: {}: {handshakes} handshakes at {handshakes_per_s}/s, {handshakes_failed} failed, cost to p99 {} µs; \
             {connected} DFSPs renewed {reloads} times, {requests} requests, {requests_failed} failed; {paid} payments, \
             {failed} failed",
            if self.violations.is_empty() { "kept" } else { "BROKEN" },
            self.cost_us.map_or_else(|| "–".to_owned(), |cost| cost.to_string()),
        );
        for Round { quiet_p99_us, flood_p99_us, control_p99_us } in &self.rounds {
            let [quiet, storm, elsewhere] =
                [quiet_p99_us, flood_p99_us, control_p99_us].map(|us| us.map_or_else(|| "–".to_owned(), ms));
            text.push_str(&format!(
                "\n    p99 {quiet} ms quiet, {storm} in the storm, {elsewhere} with the storm on a stand-in"
            ));
        }
        self.violations.iter().for_each(|violation| text.push_str(&format!("\n    {violation}")));
        text
    }
}

/// Runs storms, then renewals. Fails if something cannot be started.
pub fn run(plan: &Plan) -> Result<HandshakesRun, String> {
    upesi_lab::allow_many_files();
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
    let run = runtime.block_on(suffer(plan))?.judged(plan);
    let provenance =
        Provenance { build: hub_binary::build_of(&plan.binary), ..Provenance::now(begun.elapsed()) };
    Ok(HandshakesRun { provenance, ..run })
}

async fn suffer(plan: &Plan) -> Result<HandshakesRun, String> {
    let directory = tempfile::tempdir().map_err(told)?;
    let mut ground = HandshakeSetup::start(plan, directory.path()).await?;
    let mut run = HandshakesRun {
        rate_per_s: plan.rate_per_s,
        handshakes_per_s: plan.handshakes_per_s,
        ..HandshakesRun::default()
    };
    ground.pass(WARM_UP).await?;
    let mut windows = Vec::new();
    for _ in 0..plan.rounds {
        let quiet = ground.pass(plan.phase).await?;
        let storm = Storm::start(plan.handshakes_per_s, ground.fspiop(), ground.storming()?);
        let stormy = ground.pass(plan.phase).await?;
        let (made, failed) = storm.end();
        run.handshakes += made;
        run.handshakes_failed += failed;
        ground.pass(SETTLING).await?;
        let elsewhere = BareTlsServer::start(&ground.trial)?;
        let storm = Storm::start(plan.handshakes_per_s, elsewhere.address(), ground.storming()?);
        let control = ground.pass(plan.phase).await?;
        let _ = storm.end();
        ground.pass(SETTLING).await?;
        windows.push([Some(quiet), Some(stormy), Some(control)]);
    }
    renewal::renew(plan, &mut ground, &mut run).await?;
    let ended = ground.end().await;
    run.rounds = windows.into_iter().map(|windows| Round::of(windows, &ended, plan.rate_per_s)).collect();
    let (paid, failed, first) = outcomes(&ended);
    (run.paid, run.failed) = (paid, failed);
    run.violations.extend(first.map(|first| format!("the first payment that failed: {first}")));
    Ok(run)
}

const PAYING: usize = 6;
pub const HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
/// Name of a trial's authority, as in bindings by subject.
const ISSUER: &str = "CN=Trial scheme CA";

/// The hub of the trial, its DFSPs and its payments.
pub struct HandshakeSetup {
    pub trial: Trial,
    pub authority: Authority,
    pub hub: HubProcess,
    pub admin: AdminClient,
    payments: Payments,
    log: PathBuf,
    workers: Arc<Workers>,
    _simulator: Simulator,
}

impl HandshakeSetup {
    /// Starts a hub that requires certificates of DFSPs. Onboards the paying DFSPs and the DFSPs that are only
    /// connected, and starts the payments. Fails if something cannot be started.
    pub async fn start(plan: &Plan, directory: &Path) -> Result<Self, String> {
        let names: Vec<String> = (1..=PAYING).map(|number| format!("dfsp-{number}")).collect();
        let keys = directory.join("keys");
        let trial = Trial::make(&keys, &names, &HOSTS, present_s()).map_err(told)?;
        let authority = Authority::open(&keys).map_err(told)?;
        let secured = SecuredParts { tls: true, admin: false, signatures: false };
        let given = settings(&trial, secured).into_iter();
        // Renewals take effect only when they are announced.
        let given = given.chain([("tls.reload_interval_s".to_owned(), "3600".to_owned())]);
        let arguments: Vec<String> = given.map(|(key, value)| format!("--set={key}={value}")).collect();
        let log = directory.join("hub.log");
        let tls = HubTls { fspiop: Some(ClientTls::load(trial.caller()).map_err(told)?), admin: None };
        let (binary, data) = (&plan.binary, directory.join("hub"));
        let hub =
            HubProcess::start_secured(binary, &data, &arguments, Some(&log), tls).await.map_err(told)?;
        let workers = Arc::new(Workers::start(2, "handshakes").map_err(told)?);
        let admin = AdminClient::new(&hub.admin_url()).map_err(told)?;
        let mut config = SimConfig::new(PAYING, Upstream::Hub(hub.fspiop_url()));
        let dfsps: Vec<_> = config.dfsps.iter().map(|(name, _)| *name).collect();
        config.security =
            SimSecurity::of_trial(&trial, &dfsps, Some(Protocols::Http1), false).map_err(told)?;
        let simulator = Simulator::start(config, &workers).map_err(told)?;
        onboard(&admin, &simulator, currency(), 17).await.map_err(told)?;
        set_endpoints_of_all(&admin, &simulator, &ANSWER_ENDPOINTS).await.map_err(told)?;
        bind(&admin, &trial).await.map_err(told)?;
        let mut payments = Payments::prepare(&simulator, PAYING, plan.rate_per_s, &workers).await?;
        payments.resume();
        Ok(Self { trial, authority, hub, admin, payments, log, workers, _simulator: simulator })
    }

    pub fn fspiop(&self) -> SocketAddr {
        self.hub.addresses()[0]
    }

    /// TLS of a storm, with a DFSP's certificate. Fails if its files cannot be used.
    pub fn storming(&self) -> Result<ClientTls, String> {
        ClientTls::load(self.trial.dfsp("dfsp-1")).map_err(told)
    }

    /// Waits. Fails with the cause if the hub has ended.
    pub async fn pass(&mut self, time: Duration) -> Result<Window, String> {
        let begun = Instant::now();
        tokio::time::sleep(time).await;
        still_runs(&mut self.hub, &self.log)?;
        Ok((begun, Instant::now()))
    }

    /// Adds a DFSP with a certificate. The DFSP is bound by the certificate's subject, so that its next certificate is
    /// bound as well. Fails if the authority or the hub rejects it.
    pub async fn add(&mut self, name: &str) -> Result<(), String> {
        self.authority.issue(&Order::new(name, Usage::Client, present_s())).map_err(told)?;
        let participant = json!({"name": name, "currency": currency().as_str()});
        self.admin.create("/participants", participant.to_string()).await.map_err(told)?;
        let binding = json!({"kind": "subject", "value": format!("CN={name};issuer={ISSUER}")});
        self.admin
            .create(&format!("/participants/{name}/bindings"), binding.to_string())
            .await
            .map_err(told)?;
        Ok(())
    }

    /// Ends the payments, then everything else. Returns the payments that have ended.
    pub async fn end(mut self) -> Vec<EndedPayment> {
        self.payments.pause().await;
        let ended = self.payments.ended();
        self.hub.end();
        self.workers.shutdown();
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            phase: Duration::from_secs(5),
            rounds: 3,
            rate_per_s: 100,
            handshakes_per_s: 500,
            dfsps: 1_000,
            renewals: 2,
            binary: PathBuf::new(),
        }
    }

    fn good() -> HandshakesRun {
        let round =
            Round { quiet_p99_us: Some(5_000), flood_p99_us: Some(16_000), control_p99_us: Some(6_000) };
        HandshakesRun {
            rounds: vec![round; 3],
            handshakes: 7_400,
            requests: 5_000,
            reloads: 2,
            paid: 3_000,
            ..HandshakesRun::default()
        }
    }

    #[test]
    fn figure_out_of_its_bound_is_a_violation() {
        type Change = fn(&mut HandshakesRun);
        let cases: [(Change, usize, &str); 10] = [
            (|_| {}, 0, "exactly ten milliseconds more"),
            (|run| run.rounds[1..].iter_mut().for_each(|round| round.flood_p99_us = Some(16_001)), 1, "more"),
            (|run| run.rounds[0].flood_p99_us = Some(900_000), 0, "one round of three"),
            (|run| run.rounds[0].flood_p99_us = None, 1, "a storm during which too few payments ended"),
            (|run| run.handshakes = 6_700, 1, "no storm"),
            (|run| run.handshakes_failed = 1, 1, "a handshake"),
            (|run| run.reloads = 1, 1, "a renewal that did not take effect"),
            (|run| run.requests = 0, 1, "no DFSP asked"),
            (|run| run.requests_failed = 1, 1, "a request"),
            (|run| run.failed = 1, 1, "a payment"),
        ];
        for (change, violations, what) in cases {
            let mut run = good();
            change(&mut run);
            let judged = run.judged(&plan());
            assert_eq!(judged.violations.len(), violations, "{what}: {:?}", judged.violations);
            assert!(judged.summary().contains(if violations == 0 { "kept" } else { "BROKEN" }));
        }
        assert_eq!(good().judged(&plan()).cost_us, Some(10_000));
    }
}
