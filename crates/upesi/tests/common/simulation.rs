//! A hub with simulated DFSPs, which have their own books; and simulated DFSPs as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use upesi_http::Workers;
use upesi_sim::{DfspSettings, Originator, SimConfig, Simulator, Upstream};
use upesi_types::{Amount, Currency};

use super::World;
use super::dfsp::{Answer, Client, request};
use super::exposition::Exposition;

pub const DFSPS: usize = 4;
/// Number of concurrent operations.
pub const AT_ONCE: u64 = 20;

pub struct Scene {
    pub world: World,
    pub workers: Workers,
    pub simulator: Simulator,
}

impl Scene {
    pub fn new(settings: &[(&str, &str)]) -> Self {
        let world = World::bare(settings);
        let workers = Workers::start(1, "sim").unwrap();
        let upstream = Upstream::Hub(format!("http://{}", world.fspiop()));
        let currencies = vec![Currency::parse("KES").unwrap()];
        let socket_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let config = SimConfig { currencies, socket_listen, ..SimConfig::new(DFSPS, upstream) };
        let simulator = Simulator::start(config, &workers).unwrap();
        world.prepare_scheme();
        for name in simulator.names() {
            world.onboard(name.as_str());
            world.set_endpoints(name.as_str(), &simulator.base_url(&name));
        }
        Self { world, workers, simulator }
    }

    pub fn all_are(&self, settings: DfspSettings) {
        for index in 0..DFSPS {
            assert!(self.simulator.set_settings(index, settings).unwrap());
        }
    }

    /// Runs an operation this many times between all pairs, some concurrently. Returns the results. The operation
    /// receives the originator, the number, and the indexes of payer and payee.
    pub fn run<T, F>(
        &self,
        originator: Originator,
        count: u64,
        act: impl Fn(Arc<Originator>, u64, usize, usize) -> F + Copy + Send + 'static,
    ) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        let originator = Arc::new(originator);
        let senders: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                let originator = Arc::clone(&originator);
                self.workers.get(0).spawn(async move {
                    let mut results = Vec::new();
                    for number in (first..count).step_by(AT_ONCE as usize) {
                        let payer = number as usize % DFSPS;
                        let payee = (payer + 1 + (number as usize / DFSPS) % (DFSPS - 1)) % DFSPS;
                        results.push(act(Arc::clone(&originator), number, payer, payee).await);
                    }
                    results
                })
            })
            .collect();
        self.world.wait(async {
            let mut results = Vec::new();
            for sender in senders {
                results.extend(sender.await.unwrap());
            }
            results
        })
    }

    /// Waits until nothing is in flight, and checks that the DFSPs' books match the hub's.
    pub fn check(&self) {
        self.world.until(&0, || self.world.metric("upesi_relay_in_flight"));
        self.world.until(&(0, 0), || self.world.undelivered());
        self.world.until(&0, || self.simulator.transfer_counts().incoming_open);
        let counts = self.simulator.transfer_counts();
        assert_eq!((counts.sent, counts.accepted), (0, 0), "{counts:?}");
        for (name, expected) in self.simulator.expected_positions() {
            let [expected] = expected.values().collect::<Vec<_>>()[..] else { panic!("one currency") };
            let position = Amount::parse_decimal(&self.world.position(name.as_str())).unwrap();
            let position = i128::from(position.units());
            assert_eq!((expected.low, expected.high), (position, position), "{name}");
        }
        let counters = self.simulator.counters();
        assert_eq!(counters.contradictions, 0);
        assert_eq!(counters.wrong_fulfilments_received, 0);
        assert_eq!(counters.callbacks_unexpected, 0);
    }

    pub fn end(mut self) {
        self.world.stop_and_audit();
        self.workers.shutdown();
    }
}

/// `upesi sim` with this many DFSPs and a port for web sockets. It is killed when this value is dropped.
pub struct SimProcess {
    process: Child,
    pub address: SocketAddr,
    pub sockets: SocketAddr,
}

impl SimProcess {
    pub fn start(dfsps: usize, hub: SocketAddr) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_upesi"));
        // A developer's environment variables must have no effect.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UPESI_"))
        {
            command.env_remove(name);
        }
        command.args(["sim", "--listen", "127.0.0.1:0", "--sockets", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--dfsps", &dfsps.to_string(), "--hub", &format!("http://{hub}")]);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines.take(dfsps + 1).map(Result::unwrap).collect();
        let listens = said[0].strip_prefix("dfsp-1 http://").unwrap().strip_suffix("/dfsp-1").unwrap();
        let sockets = said[dfsps].strip_prefix("sockets ws://").unwrap();
        Self { address: listens.parse().unwrap(), sockets: sockets.parse().unwrap(), process }
    }

    /// Changes the behaviour of a DFSP. Members that are missing get their defaults.
    pub fn set(&self, dfsp: &str, settings: &str) {
        let answer = self.ask(&format!("PUT /_sim/dfsps/{dfsp}"), settings);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    pub fn metrics(&self) -> Exposition {
        let answer = self.ask("GET /metrics", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header("content-type").is_some_and(|kind| kind.contains("openmetrics")), "{answer:?}");
        Exposition::read(&answer.body)
    }

    fn ask(&self, line: &str, body: &str) -> Answer {
        let headers = [("host".to_owned(), "dfsps".to_owned())];
        Client::connect(self.address).exchange(&request(line, &headers, body.as_bytes()))
    }
}

impl Drop for SimProcess {
    fn drop(&mut self) {
        // Killing it is safe, because it stores nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
