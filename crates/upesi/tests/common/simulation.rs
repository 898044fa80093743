//! A hub among simulated DFSPs, which keep their own books.

use std::net::SocketAddr;
use std::sync::Arc;

use upesi_http::Workers;
use upesi_sim::{DfspSettings, Originator, SimConfig, Simulator, Upstream};
use upesi_types::{Amount, Currency};

use super::World;

pub const DFSPS: usize = 4;
/// What is under way at a time.
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

    /// Does something so many times between all pairs, some at once; gives what each gave. It is told the originator, the
    /// number, and the indexes of payer and payee.
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

    /// Nothing is under way any more, and the books are those of the hub.
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
