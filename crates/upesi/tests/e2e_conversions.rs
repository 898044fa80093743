//! Payments with a currency conversion, message by message, from the terms to the money.

mod common;

use common::World;
use common::dialogue::hold;

/// greenbank pays in KES, bluewallet is paid in USD; forex has both, and money in both.
fn world(settings: &[(&str, &str)]) -> World {
    let mut world = World::with_lookups(settings);
    world.join("forex");
    let base_url = world.dfsp("forex").base_url();
    world.set_all_endpoints("forex", &base_url);
    world.open_account("bluewallet", "USD");
    world.operate("POST", "/participants", r#"{"name":"forex","currency":"USD"}"#);
    let limits = r#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":50},"initialPosition":0}"#;
    world.operate("POST", "/participants/forex/initialPositionAndLimits", limits);
    let accounts = world.operate("GET", "/participants/forex/accounts", "");
    let mut accounts = accounts.as_array().unwrap().iter();
    let account = accounts
        .find(|account| account["ledgerAccountType"] == "SETTLEMENT" && account["currency"] == "USD")
        .unwrap();
    let funds = format!(
        r#"{{"transferId":"{}","externalReference":"bank","action":"recordFundsIn","reason":"prefund","amount":{{"amount":40,"currency":"USD"}}}}"#,
        world.new_id()
    );
    world.operate("POST", &format!("/participants/forex/accounts/{}", account["id"]), &funds);
    world
}

/// Of payer, FXP in both currencies, and payee.
fn positions(world: &World) -> [String; 4] {
    [("greenbank", "KES"), ("forex", "KES"), ("forex", "USD"), ("bluewallet", "USD")]
        .map(|(name, currency)| world.position_in(name, currency))
}

#[test]
fn a_payment_in_two_currencies_message_by_message() {
    let mut world = world(&[]);
    hold(&mut world, include_str!("dialogues/conversions.txt"));
    // Two of its payments are committed, of 130 KES for 1 USD each.
    assert_eq!(positions(&world), ["260", "-260", "2", "-2"]);
    assert_eq!((world.position("redmoney"), world.position("bluewallet")), ("0".into(), "0".into()));
    for (metric, expected) in [("committed", 2), ("live", 0), ("expired", 2)] {
        world.until(&expected, || world.metric(&format!("upesi_conversions_{metric}")));
    }
    world.stop_and_audit();
}

#[test]
fn what_is_refused_and_what_is_sent_again() {
    let mut world = world(&[]);
    hold(&mut world, include_str!("dialogues/refused_conversions.txt"));
    assert_eq!(positions(&world), ["130", "-130", "1", "-1"]);
    world.stop_and_audit();
}

/// A conversion and its transfer end alike when the hub is restarted between any two messages.
#[test]
fn a_payment_survives_restarts_between_its_messages() {
    let mut world = world(&[]);
    hold(
        &mut world,
        r#"
        dialogue Restarted
          greenbank POST /fxTransfers to=forex <conversion>
          → forex POST sent
          hub restarts
          forex PUT /fxTransfers/<id2> to=greenbank {"conversionState":"RESERVED","fulfilment":"<fulfilment>"}
          → greenbank PUT sent
          hub restarts
          greenbank POST /transfers to=bluewallet <transfer> "KES","amount":"10"→"USD","amount":"1"
          → bluewallet POST sent
          hub restarts
          bluewallet PUT /transfers/<id3> to=greenbank {"transferState":"RESERVED","fulfilment":"<fulfilment>"}
          → greenbank PUT {"completedTimestamp":"<time>","fulfilment":"<f>","transferState":"COMMITTED"}
          → bluewallet PATCH {"completedTimestamp":"<time>","transferState":"COMMITTED"}
          → forex PATCH /fxTransfers/<id2> {"completedTimestamp":"<time>","conversionState":"COMMITTED"}
          hub restarts
          greenbank GET /fxTransfers/<id2> to=Hub
          → greenbank PUT {"completedTimestamp":"<time>","conversionState":"COMMITTED","fulfilment":"<f>"}
          greenbank POST /fxTransfers to=forex <conversion> "130"→"131"
          → greenbank ERROR 3106 Modified request
        "#,
    );
    assert_eq!(positions(&world), ["130", "-130", "1", "-1"]);
    world.stop_and_audit();
}
