//! Simulators that send messages directly to each other over real sockets: every behaviour of a DFSP.

use tokio::time::timeout;
use upesi_sim::{DfspSettings, Flavour, OriginateError, Originator, OriginatorOptions, TransferOutcome};

use crate::common::{PATIENCE, World, options};

#[tokio::test]
async fn well_behaved_dfsps_commit_all_transfers_and_agree() {
    let world = World::new(DfspSettings::default());
    assert_eq!(world.outcomes(200).await, vec![TransferOutcome::Committed; 200]);
    world
        .until("the last messages", |sim| {
            sim.transfer_counts().incoming_committed == 200 && sim.counters().callbacks == 200
        })
        .await;
    let counters = world.simulator.counters();
    assert_eq!((counters.prepares_received, counters.callbacks, counters.violations()), (200, 200, 0));
    assert_eq!((world.high(0), world.high(1)), (200 * 25_000, -200 * 25_000));
    assert!(world.simulator.accepted_without_outcome(10).is_empty());
    world.end().await;
}

#[tokio::test]
async fn transfer_number_is_originated_once() {
    let world = World::new(DfspSettings::default());
    world.send(5..6).await.pop().unwrap().unwrap();
    let again = world.send(5..6).await.pop().unwrap();
    assert!(matches!(again, Err(OriginateError::Repeated(5))));
    world.end().await;
}

#[tokio::test]
async fn dropped_transfers_stay_reserved() {
    let world = World::new(DfspSettings { drop_per_mille: 1000, ..DfspSettings::default() });
    for pending in world.send(0..10).await {
        drop(pending.unwrap());
    }
    let counts = world.simulator.transfer_counts();
    assert_eq!((counts.accepted, counts.committed), (10, 0));
    assert_eq!(world.simulator.accepted_without_outcome(100).len(), 10);
    assert_eq!((world.high(0), world.high(1)), (250_000, 0));
    assert_eq!(world.simulator.counters().dropped, 10);
    world.end().await;
}

#[tokio::test]
async fn aborted_transfers_move_nothing() {
    let world = World::new(DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(world.outcomes(10).await, vec![TransferOutcome::Aborted; 10]);
    assert_eq!((world.high(0), world.high(1)), (0, 0));
    assert_eq!(world.simulator.counters().aborts_sent, 10);
    world.end().await;
}

#[tokio::test]
async fn duplicated_fulfilments_count_once() {
    let world = World::new(DfspSettings { duplicate_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(world.outcomes(10).await, vec![TransferOutcome::Committed; 10]);
    world.until("ten repetitions", |sim| sim.counters().callbacks_repeated == 10).await;
    let counters = world.simulator.counters();
    assert_eq!((counters.duplicated, counters.violations()), (10, 0));
    assert_eq!(world.high(0), 250_000);
    world.end().await;
}

#[tokio::test]
async fn prepares_sent_twice_are_one_transfer() {
    let world = World::with(DfspSettings::default(), |config| {
        config.dfsps[0].1.repeat_prepare_per_mille = 1000;
    });
    assert_eq!(world.outcomes(20).await, vec![TransferOutcome::Committed; 20]);
    // Some repetitions are sent at once, some after half a second.
    world
        .until("twenty repetitions", |sim| {
            let counters = sim.counters();
            (counters.prepares_sent_twice, counters.prepares_repeated) == (20, 20)
                && sim.transfer_counts().incoming_committed == 20
        })
        .await;
    let counters = world.simulator.counters();
    assert_eq!((counters.prepares_received, counters.violations()), (20, 0));
    assert_eq!((world.high(0), world.high(1)), (20 * 25_000, -20 * 25_000));
    world.end().await;
}

#[tokio::test]
async fn wrong_fulfilment_is_found_by_the_payer_and_not_booked_by_the_payee() {
    let world = World::new(DfspSettings { wrong_fulfilment_per_mille: 1000, ..DfspSettings::default() });
    // Without a hub, nothing stops them on the way.
    assert_eq!(world.outcomes(10).await.len(), 10);
    let counters = world.simulator.counters();
    assert_eq!((counters.wrong_fulfilments_sent, counters.wrong_fulfilments_received), (10, 10));
    assert_eq!(counters.violations(), 10);
    assert_eq!(world.high(1), 0);
    world.end().await;
}

#[tokio::test]
async fn http_errors_are_answered_with_the_set_status_and_change_nothing() {
    let settings =
        DfspSettings { http_error_per_mille: 1000, http_error_status: 429, ..DfspSettings::default() };
    let world = World::new(settings);
    for sent in world.send(0..5).await {
        let Err(OriginateError::Refused { status, .. }) = sent else { panic!("{sent:?}") };
        assert_eq!(status.as_u16(), 429);
    }
    assert_eq!((world.high(0), world.simulator.counters().prepares_received), (0, 0));
    assert_eq!(world.simulator.counters().http_errors, 5);
    world.end().await;
}

#[tokio::test]
async fn resent_post_reaches_a_payee_that_fails_half_the_time() {
    let settings = DfspSettings { http_error_per_mille: 500, ..DfspSettings::default() };
    let world = World::new(settings);
    let patient = Originator::new(&world.simulator, OriginatorOptions { resends_max: 30, ..options() });
    let send = world.workers.get(0).spawn(async move {
        for number in 0..5 {
            let pending = patient.send(number, 0, 1).await.unwrap();
            assert_eq!(
                timeout(PATIENCE, pending.finished).await.unwrap().unwrap().outcome,
                TransferOutcome::Committed
            );
        }
    });
    send.await.unwrap();
    assert!(world.simulator.counters().http_errors > 0, "seed 1 hits some of the first messages");
    world.end().await;
}

#[tokio::test]
async fn delayed_and_slow_payees_still_commit() {
    let settings =
        DfspSettings { delay_ms: 2, slow_read_per_mille: 1000, slow_read_ms: 2, ..DfspSettings::default() };
    let world = World::new(settings);
    assert_eq!(world.outcomes(5).await, vec![TransferOutcome::Committed; 5]);
    assert_eq!(world.simulator.counters().slow_reads, 5);
    world.end().await;
}

#[tokio::test]
async fn payee_that_answers_reserved_waits_for_the_hub() {
    let settings = DfspSettings { flavour: Flavour::Reserved, ..DfspSettings::default() };
    let world = World::new(settings);
    for pending in world.send(0..5).await {
        drop(pending.unwrap());
    }
    // Without a hub, RESERVED never becomes COMMITTED: both sides keep waiting.
    world.until("five answers", |sim| sim.counters().callbacks_informative == 5).await;
    let counts = world.simulator.transfer_counts();
    assert_eq!((counts.accepted, counts.incoming_open, counts.incoming_committed), (5, 5, 0));
    let payee = *world.simulator.expected_positions().values().nth(1).unwrap().values().next().unwrap();
    assert_eq!((payee.low, payee.high), (-125_000, 0));
    world.end().await;
}
