//! One DFSP of eight accepts connections and never answers, for minutes, on the real binary under open-loop load. The
//! trial measures the effect on the other seven DFSPs, and the amount of data that the hub retains for the lost DFSP.
//! It checks that the DFSP receives all callbacks when it is back, in order for each transfer.

mod books;
mod figures;
mod load;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use books::{Books, BooksVerdict};
pub use figures::{Phase, PhaseResult};
pub(crate) use figures::{gauge, of_hundred};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use upesi_http::Workers;
use upesi_lab::drive::onboard::{TRANSFER_ENDPOINTS, onboard, set_endpoints};
use upesi_lab::{AdminClient, HubProcess};
use upesi_sim::{SimConfig, Simulator, Upstream};
use upesi_types::Currency;

use self::figures::{BlackHoleCounts, Watching};
pub use self::figures::{BlackHoleRun, GROWTH_PERMILLE_MAX, SUBJECT};
use self::load::Load;
use crate::told;

/// DFSPs of the scheme; the last one is lost.
pub const DFSPS: usize = 8;
const LOST: usize = DFSPS - 1;
/// Duration of load before the first phase, so that connections are open and queues have their usual length.
const WARM_UP: Duration = Duration::from_secs(5);
/// Maximum time for everything to finish once the lost DFSP is back and the load has ended.
const PATIENCE: Duration = Duration::from_secs(600);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of the lost DFSP's messages that wait to be recorded.
const SEEN_MESSAGES_MAX: usize = 1 << 20;
/// The hub's setting that makes it notify a payee that its commit was accepted; off by default.
const CONFIRMATION: &str = "hub.payee_confirmation=";

/// The options of the trial.
#[derive(Clone, Debug)]
pub struct Plan {
    pub dark: Duration,
    /// Duration of the phases before and after the loss.
    pub light: Duration,
    /// Transfers started per second, one in four of them with the lost DFSP.
    pub rate_per_s: u64,
    pub seed: u64,
    pub binary: PathBuf,
    /// Settings for the hub, as `name=value`.
    pub settings: Vec<String>,
    /// File for the hub's log; `None` for no log.
    pub log: Option<PathBuf>,
}

/// Runs the trial. Fails if something cannot be started or queried. A broken promise is not a failure but part of the
/// result.
pub fn run(plan: &Plan) -> Result<BlackHoleRun, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(told)?.block_on(Trial::run(plan))
}

struct Trial {
    hub: HubProcess,
    admin: AdminClient,
    hole: Hole,
    books: Arc<Books>,
    load: Load,
    watching: Watching,
    figures: Arc<BlackHoleCounts>,
    /// The DFSPs serve until this is dropped.
    simulator: Simulator,
}

impl Trial {
    async fn run(plan: &Plan) -> Result<BlackHoleRun, String> {
        let data = tempfile::tempdir().map_err(told)?;
        let workers = Arc::new(Workers::start(2, "black-hole").map_err(told)?);
        let outcome = Self::run_on(plan, data.path(), &workers).await;
        workers.shutdown();
        outcome
    }

    async fn run_on(plan: &Plan, data: &Path, workers: &Arc<Workers>) -> Result<BlackHoleRun, String> {
        let begun = Instant::now();
        let mut trial = Self::start(plan, data, workers).await?;
        trial.pass(WARM_UP).await;
        trial.figures.begin(Phase::Before);
        trial.pass(plan.light).await;
        trial.figures.begin(Phase::During);
        trial.hole.swallow();
        trial.pass(plan.dark).await;
        trial.figures.begin(Phase::After);
        trial.hole.heal();
        let healed = Instant::now();
        trial.pass(plan.light).await;
        trial.load.stop();
        let caught_up = trial.finish(healed).await;
        let mut verdict = trial.books.verdict();
        if caught_up.is_none() {
            verdict
                .violations
                .push(format!("after {PATIENCE:?} the hub still owes: {}", trial.watching.owes()));
        }
        let not_shown = trial.simulator.not_shown();
        if not_shown > 0 {
            verdict.violations.push(format!(
                "{not_shown} messages are missing in the books, so they prove nothing: lower --rate"
            ));
        }
        let phases = trial.figures.results();
        trial.hub.end();
        verdict.violations.extend(audit(&plan.binary, &data.join("hub")));
        Ok(BlackHoleRun::new(plan, begun.elapsed(), phases, caught_up.unwrap_or(PATIENCE), verdict))
    }

    async fn start(plan: &Plan, data: &Path, workers: &Arc<Workers>) -> Result<Self, String> {
        let settings = plan.settings.iter().flat_map(|setting| ["--set".to_owned(), setting.clone()]);
        let settings: Vec<String> = settings.collect();
        let directory = data.join("hub");
        let hub = HubProcess::start(&plan.binary, &directory, &settings, plan.log.as_deref());
        let hub = hub.await.map_err(told)?;
        let admin = AdminClient::new(&hub.admin_url()).map_err(told)?;
        let (watch, seen) = mpsc::channel(SEEN_MESSAGES_MAX);
        let config = SimConfig {
            seed: plan.seed,
            watch: Some(watch),
            // The lost DFSP's own requests always reach the hub.
            ..SimConfig::new(DFSPS, Upstream::Hub(hub.fspiop_url()))
        };
        let simulator = Simulator::start(config, workers).map_err(told)?;
        let currency = Currency::parse("KES").ok_or("KES is a currency")?;
        onboard(&admin, &simulator, currency, plan.seed).await.map_err(told)?;
        let hole = Hole::dig(simulator.local_addr()).await.map_err(told)?;
        let lost = simulator.names().nth(LOST).ok_or("there are eight")?;
        // From now on, the hub sends the DFSP's callbacks through the hole.
        let base = format!("http://{}/{lost}", hole.address());
        set_endpoints(&admin, lost.as_str(), &base, &TRANSFER_ENDPOINTS).await.map_err(told)?;
        let confirms = plan.settings.iter().rev().find_map(|setting| setting.strip_prefix(CONFIRMATION));
        let books = Arc::new(Books::new(confirms == Some("true")));
        tokio::spawn(Arc::clone(&books).enter(lost, seen));
        let figures = Arc::new(BlackHoleCounts::default());
        let load = Load::start(plan, &simulator, currency, workers, &books, &figures);
        let watching = Watching::new(hub.pid(), lost);
        Ok(Self { hub, admin, hole, books, load, watching, figures, simulator })
    }

    /// Waits, and takes a sample of the hub once a second.
    async fn pass(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            tokio::time::sleep_until(end.min(tokio::time::Instant::now() + SAMPLE_INTERVAL)).await;
            self.sample().await;
        }
    }

    async fn sample(&mut self) {
        if let Some(sample) = self.watching.look(&self.admin).await {
            self.figures.sample(sample);
        }
    }

    /// Waits until nothing is owed or open, and returns the time since the healing; `None` if that never happens.
    /// Parked callbacks are sent again, as an operator would do.
    async fn finish(&mut self, healed: Instant) -> Option<Duration> {
        while healed.elapsed() < PATIENCE {
            self.sample().await;
            if self.watching.is_parked() {
                let all = json!({ "all": true }).to_string();
                let _ = self.admin.create("/callbacks/redeliver", all).await;
            }
            if self.watching.owes_nothing() && self.load.open() == 0 {
                return Some(healed.elapsed());
            }
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
        None
    }
}

/// The findings of an audit of a hub's data directory.
pub(crate) fn audit(binary: &Path, data: &Path) -> Option<String> {
    match Command::new(binary).arg("audit").arg(data).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("the audit: {}", String::from_utf8_lossy(&output.stdout))),
        Err(error) => Some(format!("the audit cannot be run: {error}")),
    }
}

/// Maximum number of simultaneous connections; further ones are closed at once.
const CONNECTIONS_MAX: usize = 8_192;

/// A listener that forwards connections. While it swallows, it accepts new ones, and no answer comes back on any.
#[derive(Debug)]
struct Hole {
    address: SocketAddr,
    is_black: watch::Sender<bool>,
}

impl Hole {
    /// Listens on a free port in front of `behind`, on the current runtime. Fails if it cannot listen.
    pub async fn dig(behind: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (is_black, state) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        tokio::spawn(async move {
            while let Ok((outside, _)) = listener.accept().await {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let state = state.clone();
                tokio::spawn(async move {
                    carry(outside, behind, state).await;
                    drop(place);
                });
            }
        });
        Ok(Self { address, is_black })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, the DFSP returns no answer, not even on open connections.
    pub fn swallow(&self) {
        self.is_black.send_replace(true);
    }

    /// New connections are forwarded again; swallowed ones end.
    pub fn heal(&self) {
        self.is_black.send_replace(false);
    }
}

async fn carry(mut outside: TcpStream, behind: SocketAddr, mut is_black: watch::Receiver<bool>) {
    if !*is_black.borrow_and_update() {
        let Ok(mut inside) = TcpStream::connect(behind).await else { return };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut outside, &mut inside) => return,
            changed = is_black.changed() => if changed.is_err() { return },
        }
    }
    // The connection is neither read nor closed.
    let _ = is_black.wait_for(|is_black| !is_black).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that answers each byte with the next one.
    async fn successor() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        stream.write_u8(byte + 1).await.unwrap();
                    }
                });
            }
        });
        address
    }

    async fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_u8(byte).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn hole_returns_nothing_until_it_heals() {
        let hole = Hole::dig(successor().await).await.unwrap();
        let connect = || TcpStream::connect(hole.address());
        let mut before = connect().await.unwrap();
        assert_eq!(ask(&mut before, 7).await.unwrap(), 8);

        hole.swallow();
        let mut meanwhile = connect().await.unwrap();
        // Both connections are open and silent: the bytes are written, and the answers come after the healing.
        before.write_u8(7).await.unwrap();
        meanwhile.write_u8(7).await.unwrap();
        tokio::select! {
            biased;
            answer = before.read_u8() => panic!("{answer:?}"),
            answer = meanwhile.read_u8() => panic!("{answer:?}"),
            () = turns(1_000) => {}
        }

        hole.heal();
        assert!(before.read_u8().await.is_err() && meanwhile.read_u8().await.is_err());
        assert_eq!(ask(&mut connect().await.unwrap(), 1).await.unwrap(), 2);
    }

    /// Yields often enough for all pending tasks to run.
    async fn turns(count: usize) {
        for _ in 0..count {
            tokio::task::yield_now().await;
        }
    }
}
