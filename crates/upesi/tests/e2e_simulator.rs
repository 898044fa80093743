//! A hub among simulated DFSPs, which keep their own books: whatever happens, hub and books agree in the end.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{AMPLE, World};
use tokio::time::timeout;
use upesi_http::Workers;
use upesi_sim::{
    DfspSettings, Flavour, Originator, OriginatorOptions, Outcome, SimConfig, Simulator, Upstream,
};
use upesi_types::{Amount, Currency};

const DFSPS: usize = 4;
/// Transfers under way at a time.
const AT_ONCE: u64 = 20;

struct Scene {
    world: World,
    workers: Workers,
    simulator: Simulator,
}

impl Scene {
    fn new() -> Self {
        let world = World::bare(&[]);
        let workers = Workers::start(1, "sim").unwrap();
        let upstream = Upstream::Hub(format!("http://{}", world.fspiop()));
        let simulator = Simulator::start(SimConfig::new(DFSPS, upstream), &workers).unwrap();
        world.prepare_scheme();
        for name in simulator.names() {
            world.onboard(name.as_str());
            world.set_endpoints(name.as_str(), &simulator.base_url(&name));
        }
        Self { world, workers, simulator }
    }

    fn all_are(&self, settings: DfspSettings) {
        for index in 0..DFSPS {
            assert!(self.simulator.set_settings(index, settings).unwrap());
        }
    }

    /// Sends so many transfers between all pairs and waits for each one's outcome; gives how many were committed.
    fn run(&self, nonce: u64, count: u64, expiry: Duration) -> u64 {
        let options = OriginatorOptions {
            amount: Amount::parse_decimal("1.25").unwrap(),
            currency: Currency::parse("KES").unwrap(),
            expiry,
            seed: 7,
            nonce,
            trace: true,
            resends_max: 0,
        };
        let originator = Arc::new(Originator::new(&self.simulator, options));
        let senders: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                let originator = Arc::clone(&originator);
                self.workers.get(0).spawn(async move {
                    let mut committed = 0;
                    for number in (first..count).step_by(AT_ONCE as usize) {
                        let payer = number as usize % DFSPS;
                        let payee = (payer + 1 + (number as usize / DFSPS) % (DFSPS - 1)) % DFSPS;
                        let pending = originator.send(number, payer, payee).await.unwrap();
                        let finished = timeout(AMPLE, pending.finished).await.expect("an outcome").unwrap();
                        committed += u64::from(finished.outcome == Outcome::Committed);
                    }
                    committed
                })
            })
            .collect();
        self.world.wait(async {
            let mut committed = 0;
            for sender in senders {
                committed += sender.await.unwrap();
            }
            committed
        })
    }

    /// Nothing is under way any more, and the books are those of the hub.
    fn check(&self) {
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

    fn end(mut self) {
        self.world.stop_and_audit();
        self.workers.shutdown();
    }
}

#[test]
fn well_behaved_dfsps_of_both_flavours() {
    let scene = Scene::new();
    assert_eq!(scene.run(1, 200, Duration::from_secs(60)), 200);
    scene.check();
    scene.all_are(DfspSettings { flavour: Flavour::Reserved, ..DfspSettings::default() });
    assert_eq!(scene.run(2, 200, Duration::from_secs(60)), 200);
    scene.check();
    assert_eq!(scene.simulator.transfer_counts().committed, 400);
    scene.end();
}

#[test]
fn faults_of_every_kind() {
    let scene = Scene::new();
    // Well beyond what an answer takes, and soon enough to wait for where there is none.
    let (long, short) = (Duration::from_secs(60), Duration::from_millis(300));
    for (nonce, flavour) in [(1, Flavour::Committed), (2, Flavour::Reserved)] {
        let plain = DfspSettings { flavour, ..DfspSettings::default() };
        for (phase, settings, count, expiry, none_commits) in [
            (1, DfspSettings { abort_per_mille: 1000, ..plain }, 40, long, true),
            (2, DfspSettings { wrong_fulfilment_per_mille: 1000, ..plain }, 40, long, true),
            (3, DfspSettings { drop_per_mille: 1000, ..plain }, 40, short, true),
            (4, DfspSettings { duplicate_per_mille: 1000, ..plain }, 40, long, false),
            // Some of each, and answers that come close to the deadline or after it.
            (
                5,
                DfspSettings {
                    abort_per_mille: 150,
                    wrong_fulfilment_per_mille: 150,
                    drop_per_mille: 150,
                    duplicate_per_mille: 300,
                    slow_read_per_mille: 200,
                    slow_read_ms: 20,
                    ..plain
                },
                100,
                short,
                false,
            ),
            (6, DfspSettings { delay_ms: 300, ..plain }, 40, short, false),
        ] {
            scene.all_are(settings);
            let committed = scene.run(10 * nonce + phase, count, expiry);
            match phase {
                4 => assert_eq!(committed, count, "{settings:?}"),
                _ => assert!(!none_commits || committed == 0, "{settings:?}"),
            }
            scene.check();
        }
    }
    scene.end();
}
