//! Floods against the shipped binary with its shipped settings, each beside honest payments: by clients without any
//! credential, and by DFSPs, oracles and operators that misbehave. What the payments notice of it, what it costs the hub
//! in memory and on the disk, whether an honest client is refused, and whether the hub lives.

mod figures;
mod flood;
mod ground;
mod list;
mod payments;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use figures::{AttackResult, Bounds, Ended, P99_FLOOR_US, P99_PERMILLE_MAX, RSS_MIB_MAX, Round, times};
pub use report::{AttacksEvidence, AttacksRun};
use upesi_http::Workers;
use upesi_lab::allow_many_files;
use upesi_sim::DfspSettings;

use self::figures::p99_us;
use self::flood::{Endpoint, Flood, Manner, Means};
use self::ground::Ground;
use self::list::{Attack, REFUSING};
use self::payments::Stream;
use crate::black_hole::audit;

/// Payments before the first phase, so that connections are open.
const WARM_UP: Duration = Duration::from_secs(3);
/// Between a flood and the next phase.
const SETTLING: Duration = Duration::from_secs(2);
/// Transfers a second to the DFSP that refuses one of ten.
const STREAM_PER_S: u64 = 300;
/// How long it refuses them, and the last part of that, in which as many must reach it as in the first.
const REFUSING_TIME: Duration = Duration::from_secs(60);
const REFUSING_END: Duration = Duration::from_secs(15);
/// Transfers that were begun in the last seconds may still be on their way.
const ON_THE_WAY: Duration = Duration::from_secs(5);
const STATUS_REFUSED: u16 = 500;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long each phase of a round lasts.
    pub phase: Duration,
    /// Rounds of each attack.
    pub rounds: usize,
    /// Honest payments begun per second.
    pub rate_per_s: u64,
    /// The hub's program.
    pub binary: PathBuf,
    /// The names of the attacks; all, where none is named.
    pub only: Vec<String>,
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Tries all attacks, each on a hub of its own, and shows each result.
///
/// # Errors
/// When there is no attack of a name. What goes wrong in an attack is in its result.
pub fn run(plan: &Plan, show: impl Fn(&AttackResult)) -> Result<Vec<AttackResult>, String> {
    let attacks = list::attacks();
    if let Some(name) = plan.only.iter().find(|name| attacks.iter().all(|attack| attack.name != **name)) {
        let names: Vec<_> = attacks.iter().map(|attack| attack.name).collect();
        return Err(format!("there is no attack {name}: there are {}", names.join(", ")));
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
    let started = Ground::start(plan, data.path(), attack.descriptors, &workers).await;
    let ground = match started {
        Ok(ground) => ground,
        Err(error) => {
            workers.shutdown();
            return Err(error);
        }
    };
    let mut trial = Trial { ground, attack, plan, windows: Vec::new(), result };
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

type Window = (std::time::Instant, std::time::Instant);

struct Trial<'a> {
    ground: Ground,
    attack: &'a Attack,
    plan: &'a Plan,
    /// Of each round: quiet, flood, control.
    windows: Vec<[Option<Window>; 3]>,
    result: &'a mut AttackResult,
}

impl Trial<'_> {
    async fn go(&mut self, workers: &Arc<Workers>) -> Result<(), String> {
        self.ground.pass(WARM_UP).await?;
        if self.attack.means.is_none() {
            return self.refuse(workers).await;
        }
        for _ in 0..self.plan.rounds {
            self.round().await?;
        }
        match self.attack.descriptors {
            None => Ok(()),
            Some(_) => self.restart().await,
        }
    }

    async fn round(&mut self) -> Result<(), String> {
        let phase = self.plan.phase;
        let place = self.windows.len();
        let [mut written, before] = [0, self.ground.written_kib()];
        self.windows.push([Some(self.ground.pass(phase).await?), None, None]);
        let quiet = self.ground.written_kib() - before;
        let flood = self.begin();
        let came = self.ground.endpoint.taken();
        let before = self.ground.written_kib();
        let window = self.ground.pass(phase).await;
        if window.is_ok() {
            written = self.ground.written_kib().saturating_sub(before);
        }
        let sent = flood.as_ref().map_or(0, Flood::sent);
        // What goes to the attacker's endpoint counts where it reaches that.
        let reached =
            if self.attack.manner == Manner::Polite { sent } else { self.ground.endpoint.taken() - came };
        self.result.sent += reached;
        self.result.answered = flood.as_ref().map(Flood::answered).unwrap_or_default();
        drop(flood);
        self.ground.endpoint.behave(Manner::Polite);
        // A hub that ended in the flood has been asked for nothing since.
        self.windows[place][1] = Some(window?);
        let more = written.saturating_sub(quiet) / phase.as_secs().max(1);
        self.result.written_kib_per_s = self.result.written_kib_per_s.max(more);
        self.ground.pass(SETTLING).await?;
        if self.attack.has_control {
            self.windows[place][2] = Some(self.control(sent / phase.as_secs().max(1)).await?);
            self.ground.pass(SETTLING).await?;
        }
        Ok(())
    }

    fn begin(&self) -> Option<Flood> {
        self.ground.endpoint.behave(self.attack.manner);
        let [fspiop, admin] = self.ground.hub.addresses();
        let target = if self.attack.at_operators { admin } else { fspiop };
        self.attack.means.clone().map(|means| Flood::start(means, target))
    }

    /// The same flood, as fast as it was, against a server that does nothing.
    async fn control(&mut self, rate_per_s: u64) -> Result<Window, String> {
        let elsewhere = Endpoint::listen().map_err(told)?;
        let mut means = self.attack.means.clone();
        if let Some(Means::Pipeline { per_s, .. }) = &mut means {
            *per_s = Some(rate_per_s);
        }
        let _flood = means.map(|means| Flood::start(means, elsewhere.address()));
        self.ground.pass(self.plan.phase).await
    }

    /// Starts the hub again in the flood. Nobody pays while it is away.
    async fn restart(&mut self) -> Result<(), String> {
        let flood = self.begin();
        self.ground.pass(SETTLING).await?;
        self.ground.payments.pause().await;
        let again = self.ground.hub.restart().await;
        again.map_err(|error| format!("in the flood it does not start again: {error}"))?;
        self.ground.payments.resume();
        self.ground.pass(self.plan.phase).await?;
        drop(flood);
        Ok(())
    }

    /// One DFSP of the simulator refuses one of ten callbacks.
    async fn refuse(&mut self, workers: &Arc<Workers>) -> Result<(), String> {
        let stream = Stream::start(&self.ground.simulator, REFUSING, STREAM_PER_S, workers);
        let quiet = self.ground.pass(self.plan.phase).await?;
        let refusing = DfspSettings {
            http_error_per_mille: 100,
            http_error_status: STATUS_REFUSED,
            ..DfspSettings::default()
        };
        self.ground.simulator.set_settings(REFUSING, refusing).map_err(told)?;
        let flood = self.ground.pass(REFUSING_TIME).await?;
        self.windows.push([Some(quiet), Some(flood), None]);
        let to = flood.1 - ON_THE_WAY;
        let delivered = stream.ended_permille(to - REFUSING_END, to);
        self.result.delivered_permille = Some(delivered);
        self.result.sent += STREAM_PER_S * REFUSING_TIME.as_secs();
        self.ground.simulator.set_settings(REFUSING, DfspSettings::default()).map_err(told)?;
        Ok(())
    }

    /// Ends the payments and fills the figures in.
    async fn count(&mut self) {
        self.ground.payments.pause().await;
        let (asked, unanswered) = self.ground.probed().await;
        let ended = self.ground.payments.ended();
        let p99 = |window: Option<Window>| {
            window.and_then(|(from, to)| p99_us(&ended, from, to, self.plan.rate_per_s))
        };
        let round = |[quiet, flood, control]: &[Option<Window>; 3]| Round {
            quiet_p99_us: p99(*quiet),
            flood_p99_us: p99(*flood),
            control_p99_us: p99(*control),
        };
        self.result.rounds = self.windows.iter().map(round).collect();
        let failures = ended.iter().filter_map(|ended| ended.outcome.as_ref().err());
        self.result.failed = failures.clone().count() as u64;
        self.result.paid = ended.len() as u64 - self.result.failed;
        if let Some(first) = failures.into_iter().next() {
            self.result.findings.push(format!("the first honest payment that failed: {first}"));
        }
        (self.result.asked, self.result.unanswered) = (asked, unanswered);
        self.result.rss_mib_max = self.ground.rss_mib_max;
    }
}
