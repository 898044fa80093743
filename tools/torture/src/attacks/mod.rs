//! Floods against the real binary with its default settings, each during honest payments. The attackers are clients
//! without any credential, and DFSPs, oracles and operators that misbehave. The trial measures the effect on payments
//! and the hub's use of memory and disk, and checks that honest clients are answered and that the hub survives.

mod dial;
mod figures;
mod flood;
mod ground;
mod list;
mod mutual;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_http::Workers;
use upesi_lab::allow_many_files;

use self::dial::Dialer;
pub use self::figures::{AttacksRun, SUBJECT};
pub(crate) use self::figures::{Window, median, ms, outcomes};
use self::flood::{AttackTraffic, Endpoint, EndpointBehaviour, Flood};
use self::ground::{AttackSetup, PROBES_PER_S, stream};
pub(crate) use self::ground::{Payments, currency};
use self::list::{Attack, Credential, METRICS, Port};
use crate::black_hole::audit;
use crate::told;
pub use figures::{
    AttackResult, Bounds, EndedPayment, P99_FLOOR_US, P99_PERMILLE_MAX, RSS_MIB_MAX, Round, times,
};

/// Duration of payments before the first phase, so that connections are open.
const WARM_UP: Duration = Duration::from_secs(3);
/// Pause between a flood and the next phase.
const SETTLING: Duration = Duration::from_secs(2);
/// Additional transfers per second if descriptors are scarce, so that the hub opens and closes files of journal and
/// archive.
const STREAM_PER_S: u64 = 300;
/// The last part of a flood. The rate of delivered callbacks in it must equal the rate in the first part.
const LAST: Duration = Duration::from_secs(15);
/// Number of failures that a report lists.
const FAILURES_MAX: usize = 5;
/// Maximum time for opening the connections to be held.
const OPENING_MAX: Duration = Duration::from_secs(20);

/// The options of the trial.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Duration of each phase of a round.
    pub phase: Duration,
    pub rounds: usize,
    pub rate_per_s: u64,
    pub binary: PathBuf,
    /// The names of the attacks; empty for all.
    pub only: Vec<String>,
}

/// Runs all attacks, each on its own hub, and shows each result. Fails if a name is unknown. Problems in an attack are
/// part of its result.
pub fn run(plan: &Plan, show: impl Fn(&AttackResult)) -> Result<Vec<AttackResult>, String> {
    let attacks = list::attacks();
    if let Some(name) = plan.only.iter().find(|name| attacks.iter().all(|attack| attack.name != **name)) {
        let names: Vec<_> = attacks.iter().map(|attack| attack.name).collect();
        return Err(format!("{name} is not an attack: choose from {}", names.join(", ")));
    }
    allow_many_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
    let mut results = Vec::new();
    for attack in &attacks {
        if plan.only.is_empty() || plan.only.iter().any(|name| name == attack.name) {
            let result = runtime.block_on(suffer(plan, attack)).judged(attack.bounds);
            show(&result);
            results.push(result);
        }
    }
    Ok(results)
}

async fn suffer(plan: &Plan, attack: &Attack) -> AttackResult {
    let name = attack.name.to_owned();
    let mut result = AttackResult { name, what: attack.what.to_owned(), ..AttackResult::default() };
    if let Err(what) = suffer_on(plan, attack, &mut result).await {
        result.findings.push(what);
    }
    result
}

async fn suffer_on(plan: &Plan, attack: &Attack, result: &mut AttackResult) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(told)?;
    let workers = Arc::new(Workers::start(2, "attacks").map_err(told)?);
    let started = AttackSetup::start(plan, data.path(), attack, &workers).await;
    let ground = match started {
        Ok(ground) => ground,
        Err(error) => {
            workers.shutdown();
            return Err(error);
        }
    };
    let mut trial = Trial { ground, attack, plan, windows: Vec::new(), phases: Vec::new(), result };
    let outcome = trial.go(&workers).await;
    trial.count().await;
    let Trial { mut ground, .. } = trial;
    if outcome.is_ok() {
        result.findings.extend(ground.books().await);
    }
    ground.hub.end();
    result.findings.extend(audit(&plan.binary, &data.path().join("hub")));
    workers.shutdown();
    outcome
}

struct Trial<'a> {
    ground: AttackSetup,
    attack: &'a Attack,
    plan: &'a Plan,
    windows: Vec<[Option<Window>; 3]>,
    /// The start of each phase.
    phases: Vec<(Instant, &'static str)>,
    result: &'a mut AttackResult,
}

impl Trial<'_> {
    fn enter(&mut self, phase: &'static str) {
        self.phases.push((Instant::now(), phase));
    }

    async fn go(&mut self, workers: &Arc<Workers>) -> Result<(), String> {
        let is_short = self.attack.descriptors.is_some();
        let _more = is_short.then(|| stream(&self.ground.simulator, STREAM_PER_S, workers));
        self.enter("the warm-up");
        self.ground.pass(WARM_UP).await?;
        for _ in 0..self.attack.time.map_or(self.plan.rounds, |_| 1) {
            self.round().await?;
        }
        if is_short { self.restart().await } else { Ok(()) }
    }

    async fn round(&mut self) -> Result<(), String> {
        let phase = self.plan.phase;
        let time = self.attack.time.unwrap_or(phase);
        let place = self.windows.len();
        let before = self.ground.written_kib();
        self.enter("the quiet phase");
        self.windows.push([Some(self.ground.pass(phase).await?), None, None]);
        let quiet = (self.ground.written_kib() - before) / phase.as_secs().max(1);
        self.enter("the flood");
        let flood = self.begin()?;
        let [came, before] = [self.ground.endpoint.taken(), self.ground.written_kib()];
        let logged = self.ground.logged_kib();
        let begun = Instant::now();
        let outcome = self.flooded(&flood, time).await;
        let seconds = begun.elapsed().as_secs().max(1);
        let written = self.ground.written_kib().saturating_sub(before) / seconds;
        let logged = (self.ground.logged_kib() - logged) * 60 / seconds;
        self.result.logged_kib_per_min = self.result.logged_kib_per_min.max(logged);
        self.result.sent += flood.sent();
        self.result.answered = flood.answered();
        self.result.called += self.ground.endpoint.taken() - came;
        let rate_per_s = flood.sent() / seconds;
        drop(flood);
        self.ground.endpoint.behave(EndpointBehaviour::Polite);
        self.windows[place][1] = Some(outcome?);
        self.enter("the end of the flood");
        let more = written.saturating_sub(quiet);
        self.result.written_kib_per_s = self.result.written_kib_per_s.max(more);
        self.ground.pass(SETTLING).await?;
        if self.attack.has_control {
            self.enter("the flood on a stand-in");
            self.windows[place][2] = Some(self.control(rate_per_s).await?);
            self.ground.pass(SETTLING).await?;
        }
        Ok(())
    }

    /// Continues the flood for that time after all connections are open. If the endpoint rejects some callbacks, counts
    /// the callbacks of the last part.
    async fn flooded(&mut self, flood: &Flood, time: Duration) -> Result<Window, String> {
        let begun = Instant::now();
        while !flood.stands() && begun.elapsed() < OPENING_MAX {
            self.ground.pass(SETTLING).await?;
        }
        let first = self.ground.pass(time.saturating_sub(LAST)).await?;
        if self.attack.manner != EndpointBehaviour::Refusing {
            let last = self.ground.pass(time.min(LAST)).await?;
            return Ok((first.0, last.1));
        }
        let before = self.ground.endpoint.delivered();
        let last = self.ground.pass(LAST).await?;
        let AttackTraffic::Pipeline { per_s: Some(per_s), .. } = self.attack.means else {
            return Err("a flood that causes callbacks needs a rate".to_owned());
        };
        let due = per_s * LAST.as_secs();
        let delivered = self.ground.endpoint.delivered() - before;
        self.result.delivered_permille = Some(delivered * 1_000 / due.max(1));
        Ok((first.0, last.1))
    }

    fn begin(&self) -> Result<Flood, String> {
        self.ground.endpoint.behave(self.attack.manner);
        let [fspiop, admin] = self.ground.hub.addresses();
        let target = match self.attack.port {
            Port::Dfsps => fspiop,
            Port::Operators => admin,
            Port::Metrics => METRICS,
        };
        let dialer = self.ground.dialer(self.attack, target)?;
        Ok(Flood::start(self.attack.means.clone(), dialer))
    }

    /// The same flood at the same rate against a server that does nothing. With TLS, the target is another hub, which
    /// does not know the attacker.
    async fn control(&mut self, rate_per_s: u64) -> Result<Window, String> {
        let mut means = self.attack.means.clone();
        if let AttackTraffic::Pipeline { per_s, .. } = &mut means {
            *per_s = Some(rate_per_s);
        }
        if self.attack.credential == Credential::None {
            let elsewhere = Endpoint::listen().map_err(told)?;
            let _flood = Flood::start(means, Dialer::clear(elsewhere.address()));
            return self.ground.pass(self.plan.phase).await;
        }
        let data = tempfile::tempdir().map_err(told)?;
        let mut elsewhere = self.ground.other_hub(self.plan, data.path()).await?;
        let dialer = self.ground.dialer(self.attack, elsewhere.addresses()[0])?;
        let flood = Flood::start(means, dialer);
        let window = self.flooded(&flood, self.plan.phase).await;
        drop(flood);
        elsewhere.end();
        window
    }

    /// Restarts the hub during the flood. Payments pause while it is down.
    async fn restart(&mut self) -> Result<(), String> {
        self.enter("the flood before the restart");
        let flood = self.begin()?;
        self.ground.pass(SETTLING).await?;
        self.ground.payments.pause().await;
        self.enter("the restart");
        let again = self.ground.hub.restart().await;
        again.map_err(|error| format!("the hub does not start again during the flood: {error}"))?;
        self.enter("the flood after the restart");
        self.ground.payments.resume();
        self.ground.pass(self.plan.phase).await?;
        drop(flood);
        Ok(())
    }

    /// Ends the payments and enters the figures.
    async fn count(&mut self) {
        self.ground.payments.pause().await;
        let (asked, unanswered) = self.ground.probed().await;
        let ended = self.ground.payments.ended();
        let round = |windows: &[Option<Window>; 3]| Round::of(*windows, &ended, self.plan.rate_per_s);
        self.result.rounds = self.windows.iter().map(round).collect();
        let fresh = self.ground.fresh();
        let connected = |windows: &[Option<Window>; 3]| Round::of(*windows, &fresh, PROBES_PER_S);
        self.result.connected = self.windows.iter().map(connected).collect();
        self.find(&fresh, "a new connection");
        (self.result.paid, self.result.failed) = self.find(&ended, "an honest payment");
        (self.result.asked, self.result.unanswered) = (asked, unanswered);
        self.result.rss_mib_max = self.ground.rss_mib_max;
    }

    /// Reports the first failures. Returns the number of successes and of failures.
    fn find(&mut self, ended: &[EndedPayment], what: &str) -> (u64, u64) {
        let failures = ended.iter().filter_map(|ended| Some((ended.intended, ended.outcome.as_ref().err()?)));
        for (intended, error) in failures.take(FAILURES_MAX) {
            let phase = self.phases.iter().rev().find(|(begun, _)| *begun <= intended);
            let when = phase.map_or_else(String::new, |(begun, phase)| {
                format!(", due {} ms after the start of {phase}", (intended - *begun).as_millis())
            });
            self.result.findings.push(format!("{what} failed: {error}{when}"));
        }
        let (succeeded, failed, _) = outcomes(ended);
        (succeeded, failed)
    }
}
