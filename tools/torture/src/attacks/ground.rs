//! The ground of an attack: a hub with its scheme, honest payments, an attacker's endpoint, and the observations.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use serde_json::json;
use upesi_http::Workers;
use upesi_lab::drive::onboard::{
    ANSWER_ENDPOINTS, TRANSFER_ENDPOINTS, bind, onboard, set_endpoints, set_endpoints_of_all,
};
use upesi_lab::{AdminClient, AdminError, HubProcess, Usage};
use upesi_sim::{
    Originator, OriginatorOptions, PaymentOptions, PaymentReport, SimConfig, Simulator, Upstream, mix,
};
use upesi_types::{Amount, Currency};

use super::dial::Dialer;
use super::figures::{EndedPayment, Window};
use super::flood::{AttackTraffic, Endpoint};
use super::list::{Attack, Credential, DFSPS, HONEST, HOSTILE, METRICS, Port, quote};
use super::mutual::MutualTlsFiles;
use super::streams::{self, PROBE_TIMEOUT};
use super::{Plan, told};
use crate::pacing::Pacer;
use crate::still_runs;

const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// New connections of a DFSP per second.
pub const PROBES_PER_S: u64 = 10;
/// One interval in this many also has a large body and an operator's request.
const PROBES_OF_ALL: u64 = 5;
/// Interval of the comparisons of positions.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Size of a large body.
const LARGE_BYTES: usize = 200_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Callbacks that the attacker receives beside the outcomes of transfers.
const ENDPOINTS: [(&str, &str); 2] = [
    ("FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR", "/parties/{{partyIdType}}/{{partyIdentifier}}/error"),
    ("FSPIOP_CALLBACK_URL_QUOTES", ""),
];

/// Everything that is needed to run an attack.
pub struct AttackSetup {
    pub hub: HubProcess,
    pub payments: Payments,
    /// The attacker's endpoint, as DFSP and as oracle.
    pub endpoint: Endpoint,
    pub simulator: Simulator,
    /// Maximum memory of the hub, in MiB.
    pub rss_mib_max: u64,
    mutual: Option<MutualTlsFiles>,
    probes: Arc<Probes>,
    log: PathBuf,
}

/// Honest requests on new connections.
#[derive(Default)]
pub struct Probes {
    /// Number of requests that were served.
    pub asked: AtomicU64,
    pub unanswered: AtomicU64,
    /// New connections of a DFSP, from the connection to the answer.
    fresh: Mutex<Vec<EndedPayment>>,
    number: AtomicU64,
    open: AtomicU64,
    /// TLS of the DFSP and of the operator.
    tls: Option<[Arc<ClientConfig>; 2]>,
    /// Whether they use HTTP/2, because the attack does.
    speak_http_2: bool,
}

/// Starts a hub with further settings, and with TLS if there are keys. Fails if it does not start.
async fn start_hub(
    binary: &Path,
    data: &Path,
    mutual: Option<&MutualTlsFiles>,
    settings: &[String],
    log: Option<&Path>,
) -> Result<HubProcess, String> {
    let secured = mutual.map(MutualTlsFiles::arguments).unwrap_or_default();
    let calls = mutual.map(MutualTlsFiles::calls).transpose()?.unwrap_or_default();
    let settings = [&secured, settings].concat();
    let started = HubProcess::start_secured(binary, &data.join("hub"), &settings, log, calls).await;
    started.map_err(told)
}

impl AttackSetup {
    /// Starts a hub with its default settings, with a metrics port if the attack is on this port, and the payments.
    /// Fails if something cannot be started.
    pub async fn start(
        plan: &Plan,
        data: &Path,
        attack: &Attack,
        workers: &Arc<Workers>,
    ) -> Result<Self, String> {
        let binary = match attack.descriptors {
            None => plan.binary.clone(),
            Some(count) => limited(&plan.binary, data, count).map_err(told)?,
        };
        let log = data.join("hub.log");
        let mutual =
            (attack.credential != Credential::None).then(|| MutualTlsFiles::make(data, DFSPS)).transpose()?;
        let is_of_metrics = attack.port == Port::Metrics;
        let settings: Vec<_> =
            is_of_metrics.then(|| format!("--set=metrics.listen={METRICS}")).into_iter().collect();
        let hub = start_hub(&binary, data, mutual.as_ref(), &settings, Some(&log)).await?;
        let operators = mutual.as_ref().map(MutualTlsFiles::operators);
        let admin = AdminClient::with_tls(&hub.admin_url(), operators).map_err(told)?;
        let mut config = SimConfig::new(DFSPS, Upstream::Hub(hub.fspiop_url()));
        if let Some(mutual) = &mutual {
            let dfsps: Vec<_> = config.dfsps.iter().map(|(name, _)| *name).collect();
            config.security = mutual.simulated(&dfsps)?;
        }
        let simulator = Simulator::start(config, workers).map_err(told)?;
        onboard(&admin, &simulator, currency(), 17).await.map_err(told)?;
        set_endpoints_of_all(&admin, &simulator, &ANSWER_ENDPOINTS).await.map_err(told)?;
        let endpoint = Endpoint::listen().map_err(told)?;
        match &mutual {
            // With mutual TLS, the hub calls no server without TLS.
            Some(mutual) => bind(&admin, mutual.trial()).await.map_err(told)?,
            None => register(&admin, &endpoint).await.map_err(told)?,
        }
        let tls =
            mutual.as_ref().map(|mutual| Ok::<_, String>([mutual.honest("dfsp-1")?, mutual.operator()?]));
        let speak_http_2 = matches!(attack.means, AttackTraffic::Streams(_));
        let probes = Arc::new(Probes { tls: tls.transpose()?, speak_http_2, ..Probes::default() });
        let mut payments = Payments::prepare(&simulator, HONEST, plan.rate_per_s, workers).await?;
        payments.resume();
        Ok(Self { hub, payments, endpoint, simulator, rss_mib_max: 0, mutual, probes, log })
    }

    /// Starts another hub with the same keys and without participants. Fails if it cannot be started.
    pub async fn other_hub(&self, plan: &Plan, data: &Path) -> Result<HubProcess, String> {
        start_hub(&plan.binary, data, self.mutual.as_ref(), &[], None).await
    }

    /// Waits while honest requests come on new connections. Fails with the cause if the hub has ended.
    pub async fn pass(&mut self, time: Duration) -> Result<Window, String> {
        let begun = Instant::now();
        for intervals in 0.. {
            if begun.elapsed() >= time {
                break;
            }
            let addresses = self.hub.addresses();
            for probe in Probe::of(intervals) {
                let probes = Arc::clone(&self.probes);
                probes.open.fetch_add(1, Ordering::AcqRel);
                std::thread::spawn(move || probes.ask(*probe, addresses));
            }
            tokio::time::sleep(PROBE_INTERVAL.min(time.saturating_sub(begun.elapsed()))).await;
            still_runs(&mut self.hub, &self.log)?;
            let peak = Usage::of(self.hub.pid()).map_or(0, |usage| usage.resident_peak_bytes);
            self.rss_mib_max = self.rss_mib_max.max(peak >> 20);
        }
        Ok((begun, Instant::now()))
    }

    /// Amount of data that the hub has caused to be written to disks, in KiB: records, tables and its log.
    pub fn written_kib(&self) -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", self.hub.pid())).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        written.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0) >> 10
    }

    /// The dialer of an attacker. Fails if its certificates cannot be made.
    pub fn dialer(&self, attack: &Attack, target: SocketAddr) -> Result<Dialer, String> {
        self.mutual.as_ref().map_or_else(|| Ok(Dialer::clear(target)), |mutual| mutual.dialer(attack, target))
    }

    /// The length of the hub's log, in KiB.
    pub fn logged_kib(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |file| file.len() >> 10)
    }

    /// New connections of an honest DFSP so far.
    pub fn fresh(&self) -> Vec<EndedPayment> {
        self.probes.fresh.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of answered honest requests on new connections, and number of the others, after the last of them has
    /// ended.
    pub async fn probed(&self) -> (u64, u64) {
        while self.probes.open.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (self.probes.asked.load(Ordering::Acquire), self.probes.unanswered.load(Ordering::Acquire))
    }

    /// Waits until the hub's positions agree with the DFSPs' own books. Returns the remaining differences.
    pub async fn books(&self) -> Vec<String> {
        let operators = self.mutual.as_ref().map(MutualTlsFiles::operators);
        let Ok(admin) = AdminClient::with_tls(&self.hub.admin_url(), operators) else { return Vec::new() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let differing = match admin.positions(currency()).await {
                Err(error) => vec![error.to_string()],
                Ok(positions) => self.differing(&positions),
            };
            if differing.is_empty() || Instant::now() > deadline {
                return differing;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn differing(&self, positions: &std::collections::BTreeMap<String, upesi_types::Amount>) -> Vec<String> {
        let books = self.simulator.expected_positions();
        let differing = books.iter().filter_map(|(name, book)| {
            let expected = book.get(&currency()).map_or((0, 0), |book| (book.low, book.high));
            let hub = positions.get(&name.to_string()).map(|amount| i128::from(amount.units()));
            let agree = hub.is_some_and(|hub| (expected.0..=expected.1).contains(&hub));
            (!agree).then(|| format!("{name}: the hub's position is {hub:?}, the books say {expected:?}"))
        });
        differing.collect()
    }
}

/// Registers the attacker's endpoint for its DFSP and as an oracle. Fails if the hub rejects it.
async fn register(admin: &AdminClient, endpoint: &Endpoint) -> Result<(), AdminError> {
    let base = format!("http://{}", endpoint.address());
    let endpoints = [&TRANSFER_ENDPOINTS[..], &ENDPOINTS].concat();
    set_endpoints(admin, HOSTILE, &base, &endpoints).await?;
    let oracle = json!({ "oracleIdType": "ALIAS", "endpoint": { "value": base, "endpointType": "URL" },
        "currency": "KES", "isDefault": true });
    admin.create("/oracles", oracle.to_string()).await?;
    Ok(())
}

/// Writes a program that starts another one with this soft and hard limit of descriptors.
fn limited(binary: &Path, directory: &Path, descriptors: u64) -> std::io::Result<PathBuf> {
    let path = directory.join("limited");
    let script = format!("#!/bin/sh\nulimit -n {descriptors} && exec '{}' \"$@\"\n", binary.display());
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    Ok(path)
}

#[derive(Clone, Copy, Debug)]
enum Probe {
    Dfsp,
    Large,
    Operator,
}

impl Probe {
    const ALL: [Self; 3] = [Self::Dfsp, Self::Large, Self::Operator];

    /// The probes of an interval, by its number.
    const fn of(interval: u64) -> &'static [Self] {
        if interval.is_multiple_of(PROBES_OF_ALL) { &Self::ALL } else { &[Self::Dfsp] }
    }
}

impl Probes {
    fn ask(&self, probe: Probe, [fspiop, admin]: [SocketAddr; 2]) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let get = |path| format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").into_bytes();
        let (address, expected, request) = match probe {
            Probe::Dfsp => (fspiop, "200", get("/health")),
            Probe::Large => (fspiop, "202", quote(1 << 41 | number, "dfsp-1", "dfsp-2", LARGE_BYTES)),
            Probe::Operator => (admin, "200", get("/participants")),
        };
        let tls = self.tls.as_ref().map(|[dfsp, operator]| match probe {
            Probe::Dfsp | Probe::Large => dfsp,
            Probe::Operator => operator,
        });
        let intended = Instant::now();
        let answer = match (tls, probe) {
            (Some(tls), Probe::Dfsp) if self.speak_http_2 => streams::status(address, tls, "/health"),
            (Some(tls), Probe::Operator) if self.speak_http_2 => {
                streams::status(address, tls, "/participants")
            }
            _ => answer(address, tls, &request),
        };
        let outcome = match answer {
            Ok(status) if status == expected => Ok(intended.elapsed()),
            Ok(status) => Err(status),
            Err(error) => Err(error.to_string()),
        };
        let counter = if outcome.is_ok() { &self.asked } else { &self.unanswered };
        counter.fetch_add(1, Ordering::AcqRel);
        if matches!(probe, Probe::Dfsp) {
            let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
            fresh.push(EndedPayment { intended, outcome });
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The status of the answer to a request on a new connection.
fn answer(address: SocketAddr, tls: Option<&Arc<ClientConfig>>, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
    let Some(tls) = tls else { return status(&mut stream, request) };
    let connection = ClientConnection::new(Arc::clone(tls), ServerName::IpAddress(address.ip().into()));
    let mut connection = connection.map_err(std::io::Error::other)?;
    status(&mut rustls::Stream::new(&mut connection, &mut stream), request)
}

fn status(stream: &mut (impl Read + Write), request: &[u8]) -> std::io::Result<String> {
    stream.write_all(request)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(String::from_utf8_lossy(&head[9..]).into_owned())
}

/// Number of parties of each DFSP that receive payments.
const PARTIES: u64 = 500;
const AMOUNTS: [&str; 7] = ["1", "12.5", "99.99", "250", "0.07", "1033.1", "7.75"];
/// No transfer expires in a trial.
const EXPIRY: Duration = Duration::from_secs(3600);
const PAYMENT_PATIENCE: Duration = Duration::from_secs(30);

/// Payments between the first DFSPs of a simulator.
pub struct Payments {
    shared: Arc<PaymentsState>,
    workers: Arc<Workers>,
    rate_per_s: u64,
    pacer: Option<Pacer>,
}

struct PaymentsState {
    originators: Vec<Originator>,
    dfsps: u64,
    begun: AtomicU64,
    samples: Mutex<Vec<EndedPayment>>,
}

impl Payments {
    /// Registers the parties that will receive payments, without starting payments. Fails if the hub rejects a
    /// registration.
    pub async fn prepare(
        simulator: &Simulator,
        dfsps: usize,
        rate_per_s: u64,
        workers: &Arc<Workers>,
    ) -> Result<Self, String> {
        let originators = (0_u64..).zip(AMOUNTS).map(|(nonce, amount)| originator(simulator, nonce, amount));
        let shared = Arc::new(PaymentsState {
            originators: originators.collect(),
            dfsps: dfsps as u64,
            begun: AtomicU64::new(0),
            samples: Mutex::default(),
        });
        let registering = Arc::clone(&shared);
        let registered = workers.get(0).spawn(async move {
            for dfsp in 0..dfsps {
                let awaiting = registering.originators[0].register(dfsp, 0, PARTIES).await;
                let answer = awaiting.map_err(|error| error.to_string())?.answer(PAYMENT_PATIENCE).await;
                answer.result.map_err(|error| format!("the parties were not registered: {error}"))?;
            }
            Ok::<(), String>(())
        });
        registered.await.map_err(|_| "the simulators have stopped".to_owned())??;
        Ok(Self { shared, workers: Arc::clone(workers), rate_per_s, pacer: None })
    }

    /// Starts or resumes the payments.
    pub fn resume(&mut self) {
        let (shared, workers) = (Arc::clone(&self.shared), Arc::clone(&self.workers));
        self.pacer = Some(Pacer::start(self.rate_per_s, move |_, intended| {
            let (shared, number) = (Arc::clone(&shared), shared.begun.fetch_add(1, Ordering::AcqRel));
            drop(workers.round_robin().spawn(async move { shared.pay(number, intended).await }));
        }));
    }

    /// Stops starting payments, and waits until the started ones have ended.
    pub async fn pause(&mut self) {
        self.pacer = None;
        let deadline = Instant::now() + 4 * PAYMENT_PATIENCE;
        let open = || self.shared.begun.load(Ordering::Acquire) > self.shared.samples().len() as u64;
        while open() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn ended(&self) -> Vec<EndedPayment> {
        self.shared.samples().clone()
    }
}

fn originator(simulator: &Simulator, nonce: u64, amount: &str) -> Originator {
    let options = OriginatorOptions {
        amount: Amount::parse_decimal(amount).unwrap_or_default(),
        currency: currency(),
        expiry: EXPIRY,
        seed: 17,
        nonce,
        trace: true,
        // A rejected request is not sent again.
        resends_max: 0,
    };
    let payments = PaymentOptions { parties_per_dfsp: PARTIES, ..PaymentOptions::default() };
    Originator::new(simulator, options).with_payments(payments)
}

pub fn currency() -> Currency {
    Currency::parse("KES").unwrap_or_else(|| unreachable!("KES is a currency"))
}

impl PaymentsState {
    async fn pay(&self, number: u64, intended: Instant) {
        let drawn = mix(number);
        let payer = drawn % self.dfsps;
        let payee = (payer + 1 + (drawn >> 16) % (self.dfsps - 1)) % self.dfsps;
        let originator = &self.originators[(drawn >> 32) as usize % self.originators.len()];
        let report = originator.payment(number, payer as usize, payee as usize, intended).await;
        let PaymentReport { ended, result, .. } = report;
        let latency = ended.saturating_duration_since(intended);
        let ended =
            EndedPayment { intended, outcome: result.map(|()| latency).map_err(|error| error.to_string()) };
        self.samples().push(ended);
    }

    fn samples(&self) -> MutexGuard<'_, Vec<EndedPayment>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Further transfers between the same DFSPs. Their outcomes do not matter; they only produce records.
pub fn stream(simulator: &Simulator, rate_per_s: u64, workers: &Arc<Workers>) -> Pacer {
    let originator = Arc::new(originator(simulator, 1 << 32, "3.3"));
    let workers = Arc::clone(workers);
    Pacer::start(rate_per_s, move |number, _| {
        let originator = Arc::clone(&originator);
        drop(workers.round_robin().spawn(async move {
            let _ = originator.send(number, 0, 1).await;
        }));
    })
}
