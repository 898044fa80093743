//! Load that continues while the hub is down: payers repeat requests without an answer, and remember every 202.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use upesi_http::Workers;
use upesi_sim::{
    DfspSettings, Flavour, Originator, OriginatorOptions, SimConfig, Simulator, TransferOutcome, Upstream,
};
use upesi_types::{Amount, Currency, TransferId};

use super::Chance;
use super::hub::PATIENCE;

const DFSPS: usize = 5;
/// The payee that forgets some transfers. Transfers to it must be able to expire.
const FORGETFUL: usize = 4;
const USERS: usize = 24;
/// Enough for every attempt until the hub is back, with one attempt per 100 ms.
const ATTEMPTS_MAX: u32 = 10_000;
/// Expiry of most transfers: longer than the run.
const LONG: Duration = Duration::from_secs(1_800);
/// Expiry of the other transfers. Some expire while the hub is down.
const SHORT: Duration = Duration::from_millis(1_500);
/// Expiry of all transfers, by the hub's clock, if nothing may expire although that clock jumps by a day of
/// [`Keeping`].
///
/// [`Keeping`]: super::keeping::Keeping
const LASTING: Duration = Duration::from_secs(100_000);
/// Amounts of transfers. They differ, so that transfers cannot be confused.
const AMOUNTS: [&str; 7] = ["12.5", "0.01", "3", "7.77", "21", "99.5", "1.02"];

/// A transfer that was answered with 202.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub id: TransferId,
    pub payer: String,
    pub payee: String,
    pub amount: Amount,
    /// The outcome that its payer received; `None` before.
    pub outcome: Option<TransferOutcome>,
}

#[derive(Default)]
struct Seen {
    accepted: Vec<Accepted>,
    refused: Vec<String>,
    users_running: usize,
    newest_end: Option<(TransferId, TransferOutcome)>,
    silence: Silence,
}

/// The longest time without an accepted transfer.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    longest: Duration,
}

impl Silence {
    fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.replace(now) {
            self.longest = self.longest.max(now - since);
        }
    }
}

/// Originators by amount, with long and with short expiry.
type Originators = Arc<Vec<[Originator; 2]>>;

struct Shared {
    originators: RwLock<Originators>,
    names: Vec<String>,
    seed: u64,
    numbers: AtomicU64,
    is_ending: AtomicBool,
    seen: Mutex<Seen>,
    changed: Condvar,
}

pub struct Load {
    pub simulator: Simulator,
    workers: Arc<Workers>,
    shared: Arc<Shared>,
    users: Vec<JoinHandle<()>>,
}

/// The largest amount of a transfer.
pub fn amount_max() -> Amount {
    AMOUNTS.map(|text| Amount::parse_decimal(text).unwrap()).into_iter().max().unwrap()
}

pub fn currency() -> Currency {
    Currency::parse("KES").unwrap()
}

fn settings(index: usize) -> DfspSettings {
    let plain = DfspSettings::default();
    match index {
        0 => plain,
        1 => DfspSettings { flavour: Flavour::Reserved, http_error_per_mille: 30, ..plain },
        2 => DfspSettings { abort_per_mille: 150, wrong_fulfilment_per_mille: 50, ..plain },
        3 => DfspSettings { duplicate_per_mille: 200, delay_ms: 5, ..plain },
        _ => DfspSettings { drop_per_mille: 250, flavour: Flavour::Reserved, ..plain },
    }
}

fn originators(simulator: &Simulator, seed: u64, [long, short]: [Duration; 2]) -> Originators {
    let originator = |amount, expiry, nonce| {
        let options = OriginatorOptions {
            amount,
            currency: currency(),
            expiry,
            seed,
            nonce,
            trace: true,
            resends_max: ATTEMPTS_MAX,
        };
        Originator::new(simulator, options)
    };
    let by_amount = (0..).zip(AMOUNTS).map(|(number, text)| {
        let (amount, nonce) = (Amount::parse_decimal(text).unwrap(), upesi_sim::mix(seed ^ number));
        [originator(amount, long, nonce), originator(amount, short, nonce ^ u64::MAX)]
    });
    Arc::new(by_amount.collect())
}

impl Load {
    /// The DFSPs of the run. They listen, and send nothing yet.
    pub fn new(hub: &str, seed: u64) -> Self {
        Self::with(hub, seed, [LONG, SHORT], settings)
    }

    /// DFSPs that listen at another address of this machine.
    pub fn listening(hub: &str, seed: u64, at: IpAddr) -> Self {
        Self::at(at, hub, seed, [LONG, SHORT], settings)
    }

    /// DFSPs for a hub whose clock may be days ahead: nothing is forgotten, and nothing expires.
    pub fn lasting(hub: &str, seed: u64) -> Self {
        Self::with(hub, seed, [LASTING; 2], |index| DfspSettings { drop_per_mille: 0, ..settings(index) })
    }

    /// From now on the hub's clock is ahead by this much. New transfers have the same validity by that clock as earlier
    /// ones.
    pub fn follow_clock(&self, ahead: Duration) {
        let originators = originators(&self.simulator, self.shared.seed, [LASTING + ahead; 2]);
        *self.shared.originators.write().unwrap() = originators;
    }

    fn with(hub: &str, seed: u64, expiries: [Duration; 2], settings: fn(usize) -> DfspSettings) -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into(), hub, seed, expiries, settings)
    }

    fn at(
        host: IpAddr,
        hub: &str,
        seed: u64,
        expiries: [Duration; 2],
        settings: fn(usize) -> DfspSettings,
    ) -> Self {
        let workers = Arc::new(Workers::start(2, "crash-sim").unwrap());
        let mut config = SimConfig::new(DFSPS, Upstream::Hub(hub.to_owned()));
        for (index, (_, behaviour)) in config.dfsps.iter_mut().enumerate() {
            *behaviour = settings(index);
        }
        config.seed = seed;
        config.listen.set_ip(host);
        config.answer_attempts_max = ATTEMPTS_MAX;
        let names = config.dfsps.iter().map(|(name, _)| name.to_string()).collect();
        let simulator = Simulator::start(config, &workers).unwrap();
        let originators = RwLock::new(originators(&simulator, seed, expiries));
        let shared = Shared {
            originators,
            names,
            seed,
            numbers: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
            seen: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { simulator, workers, shared: Arc::new(shared), users: Vec::new() }
    }

    /// Starts the payers.
    pub fn start(&mut self) {
        self.shared.seen().users_running = USERS;
        let user = |index| self.workers.get(index).spawn(Arc::clone(&self.shared).user());
        self.users = (0..USERS).map(user).collect();
    }

    /// Waits until this many further transfers are accepted.
    pub fn wait_for_accepted(&self, more: u64) {
        let goal = self.accepted_count() + more as usize;
        self.shared.wait("the hub accepts nothing", |seen| seen.accepted.len() >= goal);
    }

    pub fn accepted_count(&self) -> usize {
        self.shared.seen().accepted.len()
    }

    /// The longest time without an accepted transfer since the last call.
    pub fn longest_silence(&self) -> Duration {
        let mut seen = self.shared.seen();
        seen.silence.end(Instant::now());
        std::mem::take(&mut seen.silence.longest)
    }

    /// The last transfer whose payer received its outcome.
    pub fn newest_end(&self) -> Option<(TransferId, TransferOutcome)> {
        self.shared.seen().newest_end
    }

    /// The transfers that are accepted so far.
    pub fn accepted(&self) -> Vec<Accepted> {
        self.shared.seen().accepted.clone()
    }

    /// Begins no further transfers, and waits until each one has ended. Returns all of them; none was rejected.
    pub fn end(&mut self) -> Vec<Accepted> {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        let simulator = &self.simulator;
        let open = || format!("no outcome for {:?}", simulator.accepted_without_outcome(5));
        self.shared.wait(&open(), |seen| seen.users_running == 0);
        let refused = self.shared.seen().refused.clone();
        assert!(refused.is_empty(), "{refused:?}");
        self.accepted()
    }

    /// The DFSPs, in the order of their onboarding.
    pub fn names(&self) -> Vec<String> {
        self.shared.names.clone()
    }

    /// Number of transfers that were begun.
    pub fn sent(&self) -> u64 {
        self.shared.numbers.load(Ordering::SeqCst)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.users.iter().for_each(JoinHandle::abort);
        self.workers.shutdown();
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn wait(&self, what: &str, is_done: impl Fn(&Seen) -> bool) {
        let (seen, waited) =
            self.changed.wait_timeout_while(self.seen(), PATIENCE, |seen| !is_done(seen)).unwrap();
        let (accepted, refused) = (seen.accepted.len(), seen.refused.clone());
        let open = seen.accepted.iter().filter(|transfer| transfer.outcome.is_none()).count();
        drop(seen);
        assert!(
            !waited.timed_out(),
            "{what}; {accepted} accepted, {open} of them without an outcome, {refused:?} refused"
        );
    }

    /// A customer of a payer: one transfer at a time.
    async fn user(self: Arc<Self>) {
        while !self.is_ending.load(Ordering::SeqCst) {
            self.transfer().await;
        }
        self.seen().users_running -= 1;
        self.changed.notify_all();
    }

    async fn transfer(&self) {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        let mut chance = Chance::new(upesi_sim::mix(self.seed ^ number));
        let payer = chance.below(DFSPS as u64) as usize;
        let payee = (payer + 1 + chance.below(DFSPS as u64 - 1) as usize) % DFSPS;
        let is_short = payee == FORGETFUL || chance.below(8) == 0;
        let kind = chance.below(AMOUNTS.len() as u64) as usize;
        let originators = Arc::clone(&self.originators.read().unwrap());
        let originator = &originators[kind][usize::from(is_short)];
        let pending = match originator.send(number, payer, payee).await {
            Ok(pending) => pending,
            Err(error) => return self.seen().refused.push(format!("transfer {number}: {error}")),
        };
        let place = {
            let mut seen = self.seen();
            let [payer, payee] = [payer, payee].map(|index| self.names[index].clone());
            let amount = Amount::parse_decimal(AMOUNTS[kind]).unwrap();
            seen.accepted.push(Accepted { id: pending.id, payer, payee, amount, outcome: None });
            seen.silence.end(Instant::now());
            seen.accepted.len() - 1
        };
        self.changed.notify_all();
        let outcome = pending.finished.await.ok().map(|finished| finished.outcome);
        let mut seen = self.seen();
        seen.accepted[place].outcome = outcome;
        seen.newest_end = outcome.map(|outcome| (pending.id, outcome)).or(seen.newest_end);
    }
}
