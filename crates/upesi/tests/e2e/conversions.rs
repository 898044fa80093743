//! Payments with a currency conversion, message by message, from the terms to the money.

use crate::common::World;
use crate::common::dialogue::hold;
use crate::common::message::{Message, condition, fulfilment};

/// greenbank pays in KES, bluewallet is paid in USD; forex has both, and money in both.
fn world(settings: &[(&str, &str)]) -> World {
    let mut world = World::with_lookups(settings);
    world.join("forex");
    let base_url = world.dfsp("forex").base_url();
    world.set_all_endpoints("forex", &base_url);
    world.open_account("bluewallet", "USD");
    world.join_currency("forex", "USD");
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

/// A conversion is reserved once and fulfilled once, and ends once with its transfer.
#[test]
fn what_comes_three_times_at_once_takes_effect_once() {
    let mut world = world(&[]);
    let (id, transfer, expires) = (world.new_id(), world.new_id(), world.now().plus_ms(60_000));
    let body = format!(
        r#"{{"commitRequestId":"{id}","determiningTransferId":"{transfer}","initiatingFsp":"greenbank","counterPartyFsp":"forex","sourceAmount":{{"currency":"KES","amount":"130"}},"targetAmount":{{"amount":"1","currency":"USD"}},"condition":"{}","expiration":"{expires}"}}"#,
        condition()
    );
    let post = Message::of("POST", "/fxTransfers", "greenbank", Some("forex"), body);
    for answer in world.at_once(&[post.clone(), post.clone(), post]) {
        assert_eq!((answer.status, &*answer.body), (202, ""));
    }
    let (greenbank, forex) = (world.dfsp("greenbank"), world.dfsp("forex"));
    assert_eq!(forex.next(&id).method, "POST");
    // The two resends are told the state.
    for resent in greenbank.attempts(&id, 2) {
        assert_eq!((&*resent.method, resent.text()), ("PUT", r#"{"conversionState":"RESERVED"}"#));
    }
    let body = format!(r#"{{"conversionState":"RESERVED","fulfilment":"{}"}}"#, fulfilment());
    let put = Message::of("PUT", &format!("/fxTransfers/{id}"), "forex", Some("greenbank"), body.clone());
    for answer in world.at_once(&[put.clone(), put.clone(), put]) {
        assert_eq!((answer.status, &*answer.body), (200, ""));
    }
    assert_eq!(greenbank.attempts(&id, 3)[2].text(), body);
    world.until(&(0, 0), || world.undelivered());
    // Resends of the FXP have their answer in the 200.
    assert_eq!((greenbank.count(), forex.count()), (3, 1));
    assert_eq!(positions(&world), ["130", "0", "0", "0"]);
    world.until(&1, || world.metric("upesi_conversions_live"));
    world.stop_and_audit();
}

/// A PUT that says it was completed in the future is refused at once, but for the difference between two clocks.
#[test]
fn what_is_completed_in_the_future_is_refused() {
    let mut world = world(&[]);
    let put = |path: &str, source: &str, state: &str, ahead_ms: i64| {
        let at = world.now().plus_ms(ahead_ms);
        let body = format!(r#"{{{state},"completedTimestamp":"{at}"}}"#);
        world.send(Message::of("PUT", path, source, Some("greenbank"), body)).0
    };
    let id = world.new_id();
    let (conversion, bulk) = (format!("/fxTransfers/{id}"), format!("/bulkTransfers/{id}"));
    let fulfilled = format!(r#""conversionState":"RESERVED","fulfilment":"{}""#, fulfilment());
    for (path, source, state) in
        [(&conversion, "forex", &*fulfilled), (&bulk, "bluewallet", r#""bulkTransferState":"COMPLETED""#)]
    {
        for ahead_ms in [60_000, -301_000] {
            let answer = put(path, source, state, ahead_ms);
            assert_eq!((answer.status, answer.error_code()), (400, Some("3100")), "{path}: {}", answer.body);
        }
        assert_eq!(put(path, source, state, 0).status, 200, "{path}");
        // There is neither, which only a PUT that was taken can find out.
        let told = world.dfsp(source).attempts(&id, 1);
        assert!(
            told[0].text().contains(if source == "forex" { "3208" } else { "3210" }),
            "{}",
            told[0].text()
        );
    }
    world.stop_and_audit();
}
