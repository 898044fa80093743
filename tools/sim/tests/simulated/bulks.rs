//! Bulk transfers between simulators, over real sockets, with every fault of a payee. The test sends the hub's final
//! messages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use upesi_http::Method;
use upesi_sim::{Counters, DfspSettings, Originator, Secret, TransferOutcome};

use crate::common::{PATIENCE, World, options};

/// Number of items of every bulk transfer; each moves 2.5.
const ITEMS: u64 = 5;
const AMOUNT: i128 = 25_000;

fn world(payee: DfspSettings) -> (World, Arc<Originator>) {
    let world = World::new(payee);
    let originator = Originator::new(&world.simulator, options()).with_bulks(ITEMS as usize);
    (world, Arc::new(originator))
}

/// Sends a bulk transfer. Returns its outcome within that time.
async fn send(
    world: &World,
    originator: &Arc<Originator>,
    number: u64,
    within: Duration,
) -> Option<TransferOutcome> {
    let originator = Arc::clone(originator);
    let send = async move {
        let pending = originator.send_bulk(number, 0, 1).await.unwrap();
        timeout(within, pending.finished).await.ok().map(|finished| finished.unwrap().outcome)
    };
    world.workers.get(0).spawn(send).await.unwrap()
}

/// The minimum and maximum that both must owe.
fn owed(world: &World) -> [(i128, i128); 2] {
    let positions = world.simulator.expected_positions();
    let owed = |dfsp: usize| {
        let position = positions.values().nth(dfsp).unwrap().values().next();
        position.map_or((0, 0), |position| (position.low, position.high))
    };
    [owed(0), owed(1)]
}

fn fulfilled(originator: &Originator, number: u64, place: u64) -> Value {
    let id = originator.bulk_item_id(number, place);
    let fulfilment = Secret::new(b"simulated DFSPs share this secret").fulfilment(&id);
    json!({"transferId": id.to_string(), "fulfilment": String::from_utf8(fulfilment.to_vec()).unwrap()})
}

fn refused(originator: &Originator, number: u64, place: u64) -> Value {
    let error = json!({"errorCode": "4001", "errorDescription": "Payer FSP insufficient liquidity"});
    json!({"transferId": originator.bulk_item_id(number, place).to_string(), "errorInformation": error})
}

fn list(state: &str, results: &[Value]) -> String {
    json!({"bulkTransferState": state, "individualTransferResults": results}).to_string()
}

fn to(dfsp: &str, originator: &Originator, number: u64, error: &str) -> (Method, String) {
    (Method::PUT, format!("/{dfsp}/bulkTransfers/{}{error}", originator.bulk_id(number)))
}

#[tokio::test]
async fn items_of_a_bulk_transfer_are_booked_on_both_sides() {
    let (world, originator) = world(DfspSettings::default());
    for number in 0..3 {
        assert_eq!(send(&world, &originator, number, PATIENCE).await, Some(TransferOutcome::Committed));
        let results: Vec<_> = (0..ITEMS).map(|place| fulfilled(&originator, number, place)).collect();
        for _ in 0..2 {
            world.say(to("dfsp-2", &originator, number, ""), &list("COMPLETED", &results)).await;
        }
    }
    world.until("the last answer", |sim| sim.transfer_counts().incoming_open == 0).await;
    let moved = 3 * i128::from(ITEMS) * AMOUNT;
    assert_eq!(owed(&world), [(moved, moved), (-moved, -moved)]);
    let counters = world.simulator.counters();
    let Counters { prepares_received, fulfilments_sent, callbacks, callbacks_repeated, .. } = counters;
    assert_eq!((prepares_received, fulfilments_sent), (3 * ITEMS, 3 * ITEMS));
    assert_eq!(
        (callbacks, callbacks_repeated, counters.violations()),
        (6, 3, 0),
        "one for each bulk and side"
    );
    let counts = world.simulator.transfer_counts();
    assert_eq!((counts.committed, counts.accepted, counts.incoming_committed), (15, 0, 15));
    world.end().await;
}

#[tokio::test]
async fn faults_of_a_payee_affect_bulk_transfers() {
    let plain = DfspSettings::default();
    let (world, originator) = world(plain);
    let short = Duration::from_millis(50);
    let all = |settings| assert!(world.simulator.set_settings(1, settings).unwrap());
    all(DfspSettings { drop_per_mille: 1000, ..plain });
    assert_eq!(send(&world, &originator, 1, short).await, None);
    all(DfspSettings { abort_per_mille: 1000, ..plain });
    assert_eq!(send(&world, &originator, 2, PATIENCE).await, Some(TransferOutcome::Aborted));
    assert_eq!(owed(&world)[0], (5 * AMOUNT, 5 * AMOUNT), "the first bulk is open, the second cost nothing");
    all(DfspSettings { abort_per_mille: 500, ..plain });
    assert_eq!(send(&world, &originator, 7, PATIENCE).await, Some(TransferOutcome::Aborted));
    let aborted = world.simulator.transfer_counts().aborted - ITEMS;
    assert!((1..ITEMS).contains(&aborted), "each item is drawn by itself: {aborted}");
    assert_eq!(world.simulator.counters().aborts_sent, ITEMS + aborted);
    all(DfspSettings { wrong_fulfilment_per_mille: 1000, ..plain });
    send(&world, &originator, 4, PATIENCE).await;
    assert_eq!(
        world.simulator.counters().wrong_fulfilments_received,
        ITEMS,
        "no hub between them verifies it"
    );
    all(DfspSettings { duplicate_per_mille: 1000, ..plain });
    assert_eq!(send(&world, &originator, 5, PATIENCE).await, Some(TransferOutcome::Committed));
    world.until("the second answer", |sim| sim.counters().callbacks_repeated == 1).await;
    all(DfspSettings { delay_ms: 200, ..plain });
    assert_eq!(send(&world, &originator, 6, short).await, None);
    world.until("the late answer", |sim| sim.transfer_counts().accepted == ITEMS).await;
    world.end().await;
}

#[tokio::test]
async fn forbidden_callback_about_a_bulk_transfer_is_a_contradiction() {
    let (world, originator) = world(DfspSettings { drop_per_mille: 1000, ..DfspSettings::default() });
    let whole = |number| (0..ITEMS).map(|place| fulfilled(&originator, number, place)).collect::<Vec<_>>();
    let with = |number, place: usize, result: Value| {
        let mut results = whole(number);
        results[place] = result;
        results
    };
    let both = |number| {
        let mut result = fulfilled(&originator, number, 1);
        result["errorInformation"] = json!({"errorCode": "4001"});
        result
    };
    let cases = [
        (1, list("COMPLETED", &whole(1)), 0),
        (2, list("COMPLETED", &with(2, 4, refused(&originator, 2, 4))), 0),
        (3, list("COMPLETED", &whole(3)[..4]), 1),
        (4, list("COMPLETED", &with(4, 1, fulfilled(&originator, 4, 0))), 1),
        (5, list("COMPLETED", &with(5, 1, fulfilled(&originator, 1, 1))), 1),
        (6, list("COMPLETED", &with(6, 1, both(6))), 1),
        (7, list("REJECTED", &whole(7)), 1),
        (
            8,
            list("COMPLETED", &(0..ITEMS).map(|place| refused(&originator, 8, place)).collect::<Vec<_>>()),
            1,
        ),
        (9, list("ACCEPTED", &[]), 0),
    ];
    let mut contradictions = 0;
    for (number, said, expected) in cases {
        assert_eq!(send(&world, &originator, number, Duration::ZERO).await, None);
        world.say(to("dfsp-1", &originator, number, ""), &said).await;
        contradictions += expected;
        assert_eq!(world.simulator.counters().contradictions, contradictions, "{number}: {said}");
    }
    // A final outcome does not change.
    world.say(to("dfsp-1", &originator, 2, ""), &list("COMPLETED", &whole(2))).await;
    assert_eq!(world.simulator.counters().contradictions, contradictions + 1);
    let wrong =
        with(10, 0, json!({"transferId": originator.bulk_item_id(10, 0).to_string(), "fulfilment": "x"}));
    assert_eq!(send(&world, &originator, 10, Duration::ZERO).await, None);
    world.say(to("dfsp-1", &originator, 10, ""), &list("COMPLETED", &wrong)).await;
    assert_eq!(world.simulator.counters().wrong_fulfilments_received, 1);
    world.say(to("dfsp-1", &originator, 11, ""), &list("COMPLETED", &whole(11))).await;
    assert_eq!(world.simulator.counters().callbacks_unexpected, 1);
    world.end().await;
}

#[tokio::test]
async fn error_ends_all_items_only_for_the_payer() {
    let (world, originator) = world(DfspSettings { drop_per_mille: 1000, ..DfspSettings::default() });
    let error = |code: &str| json!({"errorInformation": {"errorCode": code}}).to_string();
    assert_eq!(send(&world, &originator, 1, Duration::ZERO).await, None);
    // The original remains if a changed request was rejected; a payee's answer may also be rejected.
    world.say(to("dfsp-1", &originator, 1, "/error"), &error("3106")).await;
    world.say(to("dfsp-2", &originator, 1, "/error"), &error("3303")).await;
    assert_eq!(world.simulator.transfer_counts().accepted, ITEMS);
    assert_eq!(world.simulator.counters().callbacks_informative, 2);
    world.say(to("dfsp-1", &originator, 1, "/error"), &error("5104")).await;
    assert_eq!(world.simulator.transfer_counts().aborted, ITEMS);
    assert_eq!(owed(&world), [(0, 0), (0, 0)]);
    world.say(to("dfsp-1", &originator, 1, "/error"), &error("5104")).await;
    let Counters { callbacks, callbacks_repeated, .. } = world.simulator.counters();
    assert_eq!((callbacks, callbacks_repeated, world.simulator.counters().violations()), (1, 1, 0));
    world.end().await;
}
