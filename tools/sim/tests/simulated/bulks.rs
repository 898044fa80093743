//! Bulk transfers between simulators, over real sockets, with every fault of a payee. The test sends the hub's final
//! messages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use upesi_http::Method;
use upesi_sim::{
    ConversionOptions, Counters, DfspSettings, ExpectedPosition, Originator, Outcome, PayeeConversions,
    Secret,
};
use upesi_types::{Currency, FspId};

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
async fn send(world: &World, originator: &Arc<Originator>, number: u64, within: Duration) -> Option<Outcome> {
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
async fn each_item_of_a_bulk_is_booked_on_both_sides() {
    let (world, originator) = world(DfspSettings::default());
    for number in 0..3 {
        assert_eq!(send(&world, &originator, number, PATIENCE).await, Some(Outcome::Committed));
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
async fn payees_answer_late_twice_in_part_wrongly_and_never() {
    let plain = DfspSettings::default();
    let (world, originator) = world(plain);
    let short = Duration::from_millis(50);
    let all = |settings| assert!(world.simulator.set_settings(1, settings).unwrap());
    all(DfspSettings { drop_per_mille: 1000, ..plain });
    assert_eq!(send(&world, &originator, 1, short).await, None);
    all(DfspSettings { abort_per_mille: 1000, ..plain });
    assert_eq!(send(&world, &originator, 2, PATIENCE).await, Some(Outcome::Aborted));
    assert_eq!(owed(&world)[0], (5 * AMOUNT, 5 * AMOUNT), "the first bulk is open, the second cost nothing");
    all(DfspSettings { abort_per_mille: 500, ..plain });
    assert_eq!(send(&world, &originator, 7, PATIENCE).await, Some(Outcome::Aborted));
    let aborted = world.simulator.transfer_counts().aborted - ITEMS;
    assert!((1..ITEMS).contains(&aborted), "each item is drawn by itself: {aborted}");
    assert_eq!(world.simulator.counters().aborts_sent, ITEMS + aborted);
    all(DfspSettings { wrong_fulfilment_per_mille: 1000, ..plain });
    send(&world, &originator, 4, PATIENCE).await;
    assert_eq!(
        world.simulator.counters().wrong_fulfilments_received,
        ITEMS,
        "nobody between them has looked"
    );
    all(DfspSettings { duplicate_per_mille: 1000, ..plain });
    assert_eq!(send(&world, &originator, 5, PATIENCE).await, Some(Outcome::Committed));
    world.until("the second answer", |sim| sim.counters().callbacks_repeated == 1).await;
    all(DfspSettings { delay_ms: 200, ..plain });
    assert_eq!(send(&world, &originator, 6, short).await, None);
    world.until("the late answer", |sim| sim.transfer_counts().accepted == ITEMS).await;
    world.end().await;
}

#[tokio::test]
async fn what_a_hub_may_not_say_of_a_bulk_is_a_contradiction() {
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
async fn an_error_ends_every_item_for_the_payer_and_none_for_the_payee() {
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

// FX transfers between simulators, over real sockets, with every fault of an FXP. The test sends the hub's final
// messages.

/// The first DFSP pays, the second is paid, the third sells XTS for XXX.
fn conversion_world(fxp: DfspSettings) -> (World, Arc<Originator>) {
    let world = World::with(DfspSettings::default(), |config| {
        config.dfsps.push((FspId::parse("dfsp-3").unwrap(), fxp));
    });
    let target = Currency::parse("XTS").unwrap();
    let conversions = ConversionOptions { target, rate_per_mille: 1500, fxps: vec![2] };
    let originator = Originator::new(&world.simulator, options()).with_conversions(conversions).unwrap();
    (world, Arc::new(originator))
}

/// Whether the FXP fulfils FX transfer `number` before the test's short timeout.
async fn convert(world: &World, originator: &Arc<Originator>, number: u64, within: Duration) -> Option<bool> {
    let originator = Arc::clone(originator);
    let convert = async move {
        let pending = originator.convert(number, 0).await.unwrap();
        timeout(within, pending.fulfilled).await.ok().map(|fulfilled| fulfilled.is_ok())
    };
    world.workers.get(0).spawn(convert).await.unwrap()
}

async fn pay(world: &World, originator: &Arc<Originator>, number: u64) -> Outcome {
    let originator = Arc::clone(originator);
    let pay =
        async move { originator.send_converted(number, 0, 1).await.unwrap().finished.await.unwrap().outcome };
    timeout(PATIENCE, world.workers.get(0).spawn(pay)).await.expect("an end").unwrap()
}

fn patch(originator: &Originator, number: u64) -> (Method, String) {
    (Method::PATCH, format!("/dfsp-3/fxTransfers/{}", originator.conversion_id(number)))
}

/// The minimum and maximum that a DFSP must owe in a currency.
fn owes(world: &World, dfsp: usize, currency: &str) -> (i128, i128) {
    let positions = world.simulator.expected_positions();
    let position = positions.values().nth(dfsp).unwrap().get(&Currency::parse(currency).unwrap());
    position.map_or((0, 0), |ExpectedPosition { low, high, .. }| (*low, *high))
}

#[tokio::test]
async fn a_conversion_is_booked_on_both_sides_with_its_transfer() {
    let (world, originator) = conversion_world(DfspSettings::default());
    for number in 0..5 {
        assert_eq!(convert(&world, &originator, number, PATIENCE).await, Some(true));
        let paid = 25_000 * i128::from(number);
        assert_eq!(owes(&world, 0, "XXX"), (paid + 25_000, paid + 25_000), "it is reserved");
        assert_eq!(pay(&world, &originator, number).await, Outcome::Committed);
        world.say(patch(&originator, number), r#"{"conversionState":"COMMITTED"}"#).await;
    }
    world.until("the last transfer", |sim| sim.transfer_counts().incoming_open == 0).await;
    // 2.5 XXX are worth 3.75 XTS. The FXP pays the payee, and the payer does not.
    let expected =
        [(0, "XXX", 125_000), (2, "XXX", -125_000), (0, "XTS", 0), (2, "XTS", 187_500), (1, "XTS", -187_500)];
    for (dfsp, currency, units) in expected {
        assert_eq!(owes(&world, dfsp, currency), (units, units), "{dfsp} {currency}");
    }
    let counters = world.simulator.counters();
    assert_eq!((counters.conversions_received, counters.prepares_received, counters.violations()), (5, 5, 0));
    let counts = world.simulator.transfer_counts();
    assert_eq!((counts.committed, counts.accepted, counts.incoming_committed), (10, 0, 10));
    for currency in ["XXX", "XTS"] {
        assert_eq!(world.simulator.committed_in(Currency::parse(currency).unwrap()), 5);
    }
    world.end().await;
}

#[tokio::test]
async fn fxps_answer_late_twice_wrong_and_never() {
    let plain = DfspSettings::default();
    let (world, originator) = conversion_world(plain);
    let short = Duration::from_millis(50);
    let all = |settings| assert!(world.simulator.set_settings(2, settings).unwrap());
    all(DfspSettings { drop_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 1, short).await, None);
    all(DfspSettings { abort_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 2, PATIENCE).await, Some(false));
    assert_eq!(world.simulator.counters().wrong_fulfilments_received, 0);
    all(DfspSettings { wrong_fulfilment_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 3, PATIENCE).await, Some(true));
    assert_eq!(world.simulator.counters().wrong_fulfilments_received, 1, "nobody between them has looked");
    all(DfspSettings { duplicate_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 4, PATIENCE).await, Some(true));
    world.until("the second answer", |sim| sim.counters().callbacks_informative == 1).await;
    all(DfspSettings { delay_ms: 200, ..plain });
    assert_eq!(convert(&world, &originator, 5, short).await, None);
    world.until("the late answer", |sim| sim.counters().callbacks == 4).await;
    // The declined amount is not owed; the others are.
    assert_eq!(owes(&world, 0, "XXX"), (100_000, 100_000));
    world.end().await;
}

#[tokio::test]
async fn a_conversion_that_does_not_end_as_its_transfer_is_a_contradiction() {
    let (world, originator) = conversion_world(DfspSettings::default());
    for (number, said, contradictions) in [
        (1, r#"{"conversionState":"COMMITTED"}"#, 0),
        // The transfer is committed, and its FXP is told that its FX transfer was aborted.
        (2, r#"{"conversionState":"ABORTED"}"#, 1),
    ] {
        assert_eq!(convert(&world, &originator, number, PATIENCE).await, Some(true));
        assert_eq!(pay(&world, &originator, number).await, Outcome::Committed);
        world.say(patch(&originator, number), said).await;
        assert_eq!(world.simulator.counters().contradictions, contradictions, "{said}");
    }
    // The other way round, and the FXP is notified first.
    assert_eq!(convert(&world, &originator, 3, PATIENCE).await, Some(true));
    world.say(patch(&originator, 3), r#"{"conversionState":"COMMITTED"}"#).await;
    let error = r#"{"errorInformation":{"errorCode":"3303","errorDescription":"expired"}}"#;
    let path = format!("/dfsp-1/fxTransfers/{}/error", originator.conversion_id(3));
    world.say((Method::PUT, path), error).await;
    assert_eq!(world.simulator.counters().contradictions, 2);
    world.end().await;
}

/// The second DFSP wants XTS: it sells the XXX that it receives to the third.
fn selling(fxp: DfspSettings) -> World {
    let currency = Currency::parse("XTS").unwrap();
    World::with(DfspSettings::default(), |config| {
        config.dfsps.push((FspId::parse("dfsp-3").unwrap(), fxp));
        config.payee_conversions = Some(PayeeConversions { currency, rate_per_mille: 1500, fxps: vec![2] });
    })
}

#[tokio::test]
async fn a_payee_sells_what_it_is_paid_before_it_fulfils() {
    let world = selling(DfspSettings::default());
    let sent = world.send(0..1).await.remove(0).unwrap();
    // The transfer and the FX transfer wait for the hub's notification.
    world.until("the payee's answer", |sim| sim.transfer_counts().incoming_open == 2).await;
    assert_eq!(world.simulator.transfer_counts().sales_open, 1);
    let path = format!("/dfsp-2/transfers/{}", sent.id);
    world.say((Method::PATCH, path), r#"{"transferState":"COMMITTED"}"#).await;
    assert_eq!(world.simulator.transfer_counts().sales_open, 0);
    // 2.5 XXX came and went, and 3.75 XTS came for them.
    assert_eq!((owes(&world, 1, "XXX"), owes(&world, 1, "XTS")), ((0, 0), (-37_500, -37_500)));
    let counters = world.simulator.counters();
    assert_eq!((counters.conversions_received, counters.fulfilments_sent, counters.violations()), (1, 2, 0));
    world.end().await;
}

#[tokio::test]
async fn a_payee_whose_fxp_declines_declines_the_transfer() {
    let world = selling(DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(world.outcomes(3).await, vec![Outcome::Aborted; 3]);
    assert_eq!(world.simulator.transfer_counts().sales_open, 0);
    assert_eq!((owes(&world, 1, "XXX"), owes(&world, 1, "XTS")), ((0, 0), (0, 0)));
    let counters = world.simulator.counters();
    // Of the FXP, and of the payee.
    assert_eq!((counters.conversions_received, counters.aborts_sent), (3, 6));
    world.end().await;
}
