//! The renewal of all certificates while their DFSPs are connected and other DFSPs pay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};
use upesi_http::{ClientTls, Full, Method, Origin, Pool, PoolConfig, Request, SendError, StatusCode};
use upesi_pki::{Order, Usage};
use upesi_tls::present_s;

use super::{HOSTS, HandshakeSetup, HandshakesRun, Plan, told};
use crate::black_hole::gauge;

/// Interval of each DFSP's requests.
const ASKING: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of old certificates that a renewal revokes; the others are only replaced.
const REVOKED: usize = 50;
const LIST_DAYS: u32 = 30;
/// Number of DFSPs that start to use their new certificate together.
const CHANGING: usize = 25;
/// Interval of these groups, which makes half a storm of handshakes.
const CHANGING_EVERY: Duration = Duration::from_millis(100);
/// Maximum time until a change takes effect.
const TAKEN_UP: Duration = Duration::from_secs(30);

struct Connected {
    names: Vec<String>,
    tls: Vec<ClientTls>,
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    asked: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
    has_ended: AtomicBool,
}

/// Connects all DFSPs, renews all certificates the planned number of times, and counts failures.
pub async fn renew(plan: &Plan, ground: &mut HandshakeSetup, run: &mut HandshakesRun) -> Result<(), String> {
    let mut connected = Connected::of(plan.dfsps, ground).await?;
    ground.pass(plan.phase).await?;
    let before = reloads(ground).await?;
    for number in 1..=plan.renewals as u64 {
        connected.renew(ground).await?;
        announce(ground)?;
        until_taken_up(ground, before + number).await?;
        ground.pass(plan.phase).await?;
    }
    run.reloads = reloads(ground).await? - before;
    run.renewals = plan.renewals as u64;
    run.connected = connected.names.len() as u64;
    connected.counts.has_ended.store(true, Ordering::Release);
    while connected.tasks.join_next().await.is_some() {}
    run.requests = connected.counts.asked.load(Ordering::Acquire);
    run.requests_failed = connected.counts.failed.load(Ordering::Acquire);
    let first = connected.counts.first_failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    run.violations.extend(first.map(|first| format!("the first request that failed: {first}")));
    Ok(())
}

impl Connected {
    async fn of(count: usize, ground: &mut HandshakeSetup) -> Result<Self, String> {
        let names: Vec<String> = (1..=count).map(|number| format!("connected-{number}")).collect();
        let mut this = Self { names, tls: Vec::new(), tasks: JoinSet::new(), counts: Arc::default() };
        for (number, name) in (0_u32..).zip(this.names.clone()) {
            ground.add(&name).await?;
            let tls = ClientTls::load(ground.trial.dfsp(&name)).map_err(told)?;
            let config = PoolConfig { tls: Some(tls.clone()), ..PoolConfig::default() };
            let pool = Pool::new(Origin::secure("127.0.0.1", ground.fspiop().port()), config);
            this.tls.push(tls);
            let counts = Arc::clone(&this.counts);
            // The requests are spread over the interval.
            let late = ASKING * (number % 1_000) / 1_000;
            this.tasks.spawn(async move { ask(pool, &name, late, &counts).await });
        }
        Ok(this)
    }

    /// Issues new certificates for the hub and all DFSPs, and a new revocation list.
    async fn renew(&self, ground: &mut HandshakeSetup) -> Result<(), String> {
        let now = present_s();
        let replacing = |name: &str, usage| Order { replaces: true, ..Order::new(name, usage, now) };
        let authority = &mut ground.authority;
        let serial = |entry: &upesi_pki::IndexEntry| entry.serial.clone();
        let before: Vec<String> = self.names[..REVOKED.min(self.names.len())]
            .iter()
            .filter_map(|name| authority.entries().iter().rev().find(|entry| entry.name == *name).map(serial))
            .collect();
        authority.issue(&replacing("hub", Usage::Server).with_hosts(&HOSTS)).map_err(told)?;
        authority.issue(&replacing("hub-client", Usage::Client)).map_err(told)?;
        for name in &self.names {
            authority.issue(&replacing(name, Usage::Client)).map_err(told)?;
            // The DFSPs' requests continue. If their tasks were blocked here, they would be cut off and return all at
            // once.
            yield_now().await;
        }
        // DFSPs use their new certificates before the old ones are revoked.
        for changing in self.tls.chunks(CHANGING) {
            for tls in changing {
                tls.reload().map_err(told)?;
                yield_now().await;
            }
            sleep(CHANGING_EVERY).await;
        }
        // Since then, each has sent a request on a new connection.
        sleep(2 * ASKING).await;
        for serial in before {
            authority.revoke(&serial, now, LIST_DAYS).map_err(told)?;
            yield_now().await;
        }
        Ok(())
    }
}

/// Sends requests over a kept connection, one after the other. If the hub closed it between two requests, that is not a
/// failure, and the request is sent again. The request lacks mandatory headers, so it causes no work. The response is
/// 400 if the sender is authenticated, and 403 if the authenticated sender is another DFSP.
async fn ask(pool: Pool, name: &str, late: Duration, counts: &Counts) {
    sleep(late).await;
    while !counts.has_ended.load(Ordering::Acquire) {
        let request = || {
            let request =
                Request::builder().method(Method::GET).uri("/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069");
            request.header("fspiop-source", name).body(Full::default())
        };
        let mut answer = Err(SendError::Timeout);
        for _ in 0..2 {
            let Ok(request) = request() else { return };
            answer = pool.send(request, Instant::now() + PATIENCE).await;
            if !matches!(answer, Err(SendError::Closed { reused: true, .. })) {
                break;
            }
        }
        counts.asked.fetch_add(1, Ordering::AcqRel);
        let failure = match answer {
            Ok(answer) if answer.status == StatusCode::BAD_REQUEST => None,
            Ok(answer) => Some(format!("{name} was answered {}", answer.status)),
            Err(error) => Some(format!("{name}: {error}")),
        };
        if let Some(failure) = failure {
            counts.failed.fetch_add(1, Ordering::AcqRel);
            let mut first = counts.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(failure);
        }
        sleep(ASKING).await;
    }
}

fn announce(ground: &HandshakeSetup) -> Result<(), String> {
    let pid =
        i32::try_from(ground.hub.pid()).ok().and_then(Pid::from_raw).ok_or("the hub has no process id")?;
    kill_process(pid, Signal::HUP).map_err(told)
}

/// The number of times that the hub has activated changed files.
async fn reloads(ground: &HandshakeSetup) -> Result<u64, String> {
    let metrics = ground.admin.get("/metrics").await.map_err(told)?;
    let reloads = gauge(&String::from_utf8_lossy(&metrics), "upesi_tls_reloads_total");
    reloads.ok_or_else(|| "the hub has no metric of reloads".to_owned())
}

async fn until_taken_up(ground: &HandshakeSetup, count: u64) -> Result<(), String> {
    let deadline = Instant::now() + TAKEN_UP;
    while Instant::now() < deadline {
        if reloads(ground).await? >= count {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    // The renewal then counts as not in effect.
    Ok(())
}
