//! A hub among simulated DFSPs, which keep their own books: whatever happens, hub and books agree in the end.

mod common;

use std::time::Duration;

use common::AMPLE;
use common::simulation::Scene;
use tokio::time::timeout;
use upesi_sim::{DfspSettings, Flavour, Originator, OriginatorOptions, Outcome};
use upesi_types::{Amount, Currency};

/// Sends so many transfers between all pairs and waits for each one's outcome; gives how many were committed.
fn run(scene: &Scene, nonce: u64, count: u64, expiry: Duration) -> u64 {
    let options = OriginatorOptions {
        amount: Amount::parse_decimal("1.25").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        expiry,
        seed: 7,
        nonce,
        trace: true,
        resends_max: 0,
    };
    let originator = Originator::new(&scene.simulator, options);
    let outcomes = scene.run(originator, count, |originator, number, payer, payee| async move {
        let pending = originator.send(number, payer, payee).await.unwrap();
        timeout(AMPLE, pending.finished).await.expect("an outcome").unwrap().outcome
    });
    outcomes.iter().filter(|outcome| **outcome == Outcome::Committed).count() as u64
}

#[test]
fn well_behaved_dfsps_of_both_flavours() {
    let scene = Scene::new(&[]);
    assert_eq!(run(&scene, 1, 200, Duration::from_secs(60)), 200);
    scene.check();
    scene.all_are(DfspSettings { flavour: Flavour::Reserved, ..DfspSettings::default() });
    assert_eq!(run(&scene, 2, 200, Duration::from_secs(60)), 200);
    scene.check();
    assert_eq!(scene.simulator.transfer_counts().committed, 400);
    scene.end();
}

#[test]
fn faults_of_every_kind() {
    let scene = Scene::new(&[]);
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
            let committed = run(&scene, 10 * nonce + phase, count, expiry);
            match phase {
                4 => assert_eq!(committed, count, "{settings:?}"),
                _ => assert!(!none_commits || committed == 0, "{settings:?}"),
            }
            scene.check();
        }
    }
    scene.end();
}
