//! FX transfers between simulators, over real sockets, with every fault of an FXP. The test sends the hub's final
//! messages.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use upesi_http::Method;
use upesi_sim::{
    DfspSettings, ExpectedPosition, FxTransferOptions, Originator, PayeeFxTransfers, TransferOutcome,
};
use upesi_types::{Currency, FspId};

use crate::common::{PATIENCE, World, options};

/// The first DFSP pays, the second is paid, the third sells XTS for XXX.
fn fx_transfer_world(fxp: DfspSettings) -> (World, Arc<Originator>) {
    let world = World::with(DfspSettings::default(), |config| {
        config.dfsps.push((FspId::parse("dfsp-3").unwrap(), fxp));
    });
    let target = Currency::parse("XTS").unwrap();
    let fx_transfers = FxTransferOptions { target, rate_per_mille: 1500, fxps: vec![2] };
    let originator = Originator::new(&world.simulator, options()).with_fx_transfers(fx_transfers).unwrap();
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

async fn pay(world: &World, originator: &Arc<Originator>, number: u64) -> TransferOutcome {
    let originator = Arc::clone(originator);
    let pay =
        async move { originator.send_converted(number, 0, 1).await.unwrap().finished.await.unwrap().outcome };
    timeout(PATIENCE, world.workers.get(0).spawn(pay)).await.expect("an end").unwrap()
}

fn patch(originator: &Originator, number: u64) -> (Method, String) {
    (Method::PATCH, format!("/dfsp-3/fxTransfers/{}", originator.fx_transfer_id(number)))
}

/// The minimum and maximum that a DFSP must owe in a currency.
fn owes(world: &World, dfsp: usize, currency: &str) -> (i128, i128) {
    let positions = world.simulator.expected_positions();
    let position = positions.values().nth(dfsp).unwrap().get(&Currency::parse(currency).unwrap());
    position.map_or((0, 0), |ExpectedPosition { low, high, .. }| (*low, *high))
}

#[tokio::test]
async fn fx_transfer_is_booked_on_both_sides_with_its_transfer() {
    let (world, originator) = fx_transfer_world(DfspSettings::default());
    for number in 0..5 {
        assert_eq!(convert(&world, &originator, number, PATIENCE).await, Some(true));
        let paid = 25_000 * i128::from(number);
        assert_eq!(owes(&world, 0, "XXX"), (paid + 25_000, paid + 25_000), "it is reserved");
        assert_eq!(pay(&world, &originator, number).await, TransferOutcome::Committed);
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
async fn faults_of_an_fxp_affect_fx_transfers() {
    let plain = DfspSettings::default();
    let (world, originator) = fx_transfer_world(plain);
    let short = Duration::from_millis(50);
    let all = |settings| assert!(world.simulator.set_settings(2, settings).unwrap());
    all(DfspSettings { drop_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 1, short).await, None);
    all(DfspSettings { abort_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 2, PATIENCE).await, Some(false));
    assert_eq!(world.simulator.counters().wrong_fulfilments_received, 0);
    all(DfspSettings { wrong_fulfilment_per_mille: 1000, ..plain });
    assert_eq!(convert(&world, &originator, 3, PATIENCE).await, Some(true));
    assert_eq!(world.simulator.counters().wrong_fulfilments_received, 1, "no hub between them verifies it");
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
async fn fx_transfer_with_another_outcome_than_its_transfer_is_a_contradiction() {
    let (world, originator) = fx_transfer_world(DfspSettings::default());
    for (number, said, contradictions) in [
        (1, r#"{"conversionState":"COMMITTED"}"#, 0),
        // The transfer is committed, and its FXP receives the message that its FX transfer was aborted.
        (2, r#"{"conversionState":"ABORTED"}"#, 1),
    ] {
        assert_eq!(convert(&world, &originator, number, PATIENCE).await, Some(true));
        assert_eq!(pay(&world, &originator, number).await, TransferOutcome::Committed);
        world.say(patch(&originator, number), said).await;
        assert_eq!(world.simulator.counters().contradictions, contradictions, "{said}");
    }
    // The other way round, and the FXP is notified first.
    assert_eq!(convert(&world, &originator, 3, PATIENCE).await, Some(true));
    world.say(patch(&originator, 3), r#"{"conversionState":"COMMITTED"}"#).await;
    let error = r#"{"errorInformation":{"errorCode":"3303","errorDescription":"expired"}}"#;
    let path = format!("/dfsp-1/fxTransfers/{}/error", originator.fx_transfer_id(3));
    world.say((Method::PUT, path), error).await;
    assert_eq!(world.simulator.counters().contradictions, 2);
    world.end().await;
}

/// The second DFSP wants XTS: it sells the XXX that it receives to the third.
fn selling(fxp: DfspSettings) -> World {
    let currency = Currency::parse("XTS").unwrap();
    World::with(DfspSettings::default(), |config| {
        config.dfsps.push((FspId::parse("dfsp-3").unwrap(), fxp));
        config.payee_fx_transfers = Some(PayeeFxTransfers { currency, rate_per_mille: 1500, fxps: vec![2] });
    })
}

#[tokio::test]
async fn payee_sells_the_amount_before_it_fulfils() {
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
async fn payee_with_a_declining_fxp_declines_the_transfer() {
    let world = selling(DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(world.outcomes(3).await, vec![TransferOutcome::Aborted; 3]);
    assert_eq!(world.simulator.transfer_counts().sales_open, 0);
    assert_eq!((owes(&world, 1, "XXX"), owes(&world, 1, "XTS")), ((0, 0), (0, 0)));
    let counters = world.simulator.counters();
    // The counters are of the FXP and of the payee.
    assert_eq!((counters.conversions_received, counters.aborts_sent), (3, 6));
    world.end().await;
}
