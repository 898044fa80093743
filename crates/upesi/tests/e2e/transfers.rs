//! Every rule of a transfer's life over real sockets: the receivers and callbacks of each message. `common/story.rs`
//! describes the notation of stories.

use crate::common::World;
use crate::common::dialogue::hold;
use crate::common::message::{Message, condition, fulfilment};
use crate::common::story::{part, tell};

#[test]
fn callbacks_of_each_outcome() {
    tell(&World::new(&[]), part(include_str!("stories/transfers.txt"), "told"));
}

#[test]
fn callbacks_of_each_outcome_without_confirmations() {
    tell(
        &World::new(&[("hub.payee_confirmation", "false")]),
        part(include_str!("stories/transfers.txt"), "unconfirmed"),
    );
}

#[test]
fn put_about_an_unknown_transfer_is_answered_with_3208() {
    tell(
        &World::new(&[("hub.unknown_transfer", "3208")]),
        part(include_str!("stories/transfers.txt"), "unknown"),
    );
}

#[test]
fn rejected_prepares_get_their_errors() {
    let settings = [("hub.transfer_validity_max_s", "86400")];
    tell(&World::new(&settings), part(include_str!("stories/checks.txt"), "prepare"));
}

#[test]
fn checks_of_fulfils_and_aborts_run_in_order() {
    tell(&World::new(&[]), part(include_str!("stories/checks.txt"), "fulfil"));
}

#[test]
fn error_codes_of_aborts() {
    tell(&World::new(&[]), part(include_str!("stories/checks.txt"), "abort"));
}

#[test]
fn duplicates() {
    tell(&World::new(&[]), part(include_str!("stories/checks.txt"), "duplicates"));
}

#[test]
fn questions() {
    tell(&World::new(&[]), part(include_str!("stories/transfers.txt"), "get"));
}

#[test]
fn expiry() {
    tell(&World::new(&[]), part(include_str!("stories/transfers.txt"), "expiry"));
}

/// Deadlines are checked only once a minute, so that the late message comes first.
#[test]
fn late_answers() {
    tell(
        &World::new(&[("engine.tick_interval_ms", "60000")]),
        part(include_str!("stories/transfers.txt"), "late"),
    );
}

/// The payer pays itself: it receives one callback, and its position is unchanged.
#[test]
fn on_us_transfers_complete_if_allowed() {
    tell(
        &World::new(&[("hub.on_us_transfers", "true")]),
        part(include_str!("stories/transfers.txt"), "on us"),
    );
}

// Bulk transfers message by message: results of items, rejections, repetitions, deadlines, and restarts in between.

#[test]
fn bulk_transfers_message_by_message() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, part(include_str!("dialogues/bulks.txt"), "bulks"));
    // 12.5 of the first, 2.5 of the second and of the last bulk transfer.
    let positions = (world.position("greenbank"), world.position("bluewallet"));
    assert_eq!(positions, ("17.5".into(), "-17.5".into()));
    world.until(&1, || world.metric("upesi_bulk_results_ignored"));
    world.stop_and_audit();
}

#[test]
fn bulk_transfers_rejected_and_repeated() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, part(include_str!("dialogues/bulks.txt"), "refused bulks"));
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("12.5".into(), "-12.5".into()));
    world.stop_and_audit();
}

/// A bulk transfer with this many items, each of 1 KES with an ILP packet of this many characters.
fn bulk(world: &World, id: &str, items: usize, packet_chars: usize) -> (Message, Vec<String>) {
    let ids: Vec<_> = (0..items).map(|_| world.new_id()).collect();
    let (packet, condition) = ("A".repeat(packet_chars), condition());
    let item = |id: &String| {
        format!(
            r#"{{"transferId":"{id}","transferAmount":{{"currency":"KES","amount":"1"}},"ilpPacket":"{packet}","condition":"{condition}"}}"#
        )
    };
    let list = ids.iter().map(item).collect::<Vec<_>>().join(",");
    let body = format!(
        r#"{{"bulkTransferId":"{id}","bulkQuoteId":"{id}","payerFsp":"greenbank","payeeFsp":"bluewallet","individualTransfers":[{list}],"expiration":"{}"}}"#,
        world.now().plus_ms(60_000)
    );
    (Message::of("POST", "/bulkTransfers", "greenbank", Some("bluewallet"), body), ids)
}

fn answer(id: &str, items: &[String]) -> Message {
    let fulfilment = fulfilment();
    let result = |item: &String| format!(r#"{{"transferId":"{item}","fulfilment":"{fulfilment}"}}"#);
    let list = items.iter().map(result).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"bulkTransferState":"COMPLETED","individualTransferResults":[{list}]}}"#);
    Message::of("PUT", &format!("/bulkTransfers/{id}"), "bluewallet", Some("greenbank"), body)
}

/// A bulk transfer is accepted once and answered once. Repetitions are answered by its end; repetitions of the payee's
/// PUT are answered at once.
#[test]
fn concurrent_repetitions_of_a_bulk_transfer_take_effect_once() {
    let mut world = World::with_lookups(&[]);
    let id = world.new_id();
    let (post, items) = bulk(&world, &id, 3, 24);
    for answer in world.at_once(&[post.clone(), post.clone(), post]) {
        assert_eq!((answer.status, &*answer.body), (202, ""));
    }
    let (greenbank, bluewallet) = (world.dfsp("greenbank"), world.dfsp("bluewallet"));
    assert_eq!(bluewallet.next(&id).method, "POST");
    let put = answer(&id, &items);
    for answer in world.at_once(&[put.clone(), put.clone(), put]) {
        assert_eq!((answer.status, &*answer.body), (200, ""));
    }
    let end = greenbank.next(&id);
    assert_eq!(end.method, "PUT");
    assert!(end.text().starts_with(r#"{"bulkTransferState":"COMPLETED""#), "{}", end.text());
    // Its end, and the answers to two repetitions.
    assert_eq!(bluewallet.attempts(&id, 4).len(), 4);
    world.until(&(0, 0), || world.undelivered());
    assert_eq!((greenbank.count(), bluewallet.count()), (1, 4));
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("3".into(), "-3".into()));
    world.until(&1, || world.metric("upesi_bulks_completed"));
    world.stop_and_audit();
}

/// Just within the limit of 5 MiB for a body: 1,000 items with long ILP packets, to the payee and back.
#[test]
fn bulk_transfer_of_maximum_size_completes() {
    const BODY_BYTES_MAX: usize = 5 << 20;
    let mut world = World::with_lookups(&[]);
    let id = world.new_id();
    let (smallest, _) = bulk(&world, &id, 1_000, 0);
    let packet_chars = (BODY_BYTES_MAX - smallest.body.len()) / 1_000;
    let (post, items) = bulk(&world, &id, 1_000, packet_chars);
    assert!((BODY_BYTES_MAX - 1_000..=BODY_BYTES_MAX).contains(&post.body.len()), "{}", post.body.len());
    let (too_large, _) = bulk(&world, &world.new_id(), 1_000, packet_chars + 1);
    assert!(too_large.body.len() > BODY_BYTES_MAX);
    let (refused, _) = world.send(too_large);
    assert_eq!((refused.status, refused.error_code()), (400, Some("3104")));
    world.deliver(post);
    let asked: serde_json::Value = serde_json::from_slice(&world.dfsp("bluewallet").next(&id).body).unwrap();
    let list = asked["individualTransfers"].as_array().unwrap();
    assert_eq!(list.len(), 1_000);
    for (item, id) in list.iter().zip(&items) {
        assert_eq!(
            (item["transferId"].as_str(), item["ilpPacket"].as_str().map(str::len)),
            (Some(&**id), Some(packet_chars))
        );
    }
    world.deliver(answer(&id, &items));
    let end: serde_json::Value = serde_json::from_slice(&world.dfsp("greenbank").next(&id).body).unwrap();
    assert_eq!(
        (&end["bulkTransferState"], end["individualTransferResults"].as_array().map(Vec::len)),
        (&"COMPLETED".into(), Some(1_000))
    );
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("1000".into(), "-1000".into()));
    world.stop_and_audit();
}

/// The longest result for which 1,000 items fit into one body: an extension list in three-byte characters for each
/// transfer. After a restart, the bulk transfer and one of its transfers are read from the archive.
#[test]
fn bulk_transfer_with_results_of_maximum_size_completes() {
    const EXTENSIONS: usize = 12;
    const BODY_BYTES_MAX: usize = 5 << 20;
    let mut world = World::with_lookups(&[("data.snapshot_every_records", "1000")]);
    let id = world.new_id();
    let (post, items) = bulk(&world, &id, 1_000, 24);
    world.deliver(post);
    assert_eq!(world.dfsp("bluewallet").next(&id).method, "POST");
    let (fulfilment, value) = (fulfilment(), "漢".repeat(126));
    let extensions = |number: usize| {
        let list: Vec<_> = (0..EXTENSIONS)
            .map(|entry| format!(r#"{{"key":"{number} {entry}","value":"{value}"}}"#))
            .collect();
        format!(r#"{{"extension":[{}]}}"#, list.join(","))
    };
    let results: Vec<_> = (0..items.len())
        .map(|number| format!(r#""extensionList":{},"fulfilment":"{fulfilment}""#, extensions(number)))
        .collect();
    let list: Vec<_> = items
        .iter()
        .zip(&results)
        .map(|(item, result)| format!(r#"{{{result},"transferId":"{item}"}}"#))
        .collect();
    let list = list.join(",");
    let body = format!(r#"{{"bulkTransferState":"COMPLETED","individualTransferResults":[{list}]}}"#);
    assert!((BODY_BYTES_MAX * 9 / 10..=BODY_BYTES_MAX).contains(&body.len()), "{}", body.len());
    world.deliver(Message::of("PUT", &format!("/bulkTransfers/{id}"), "bluewallet", Some("greenbank"), body));
    let told = |world: &World, end: &str| {
        assert!(end.starts_with(r#"{"bulkTransferState":"COMPLETED""#), "{}", &end[..200.min(end.len())]);
        assert!(end.ends_with(&format!(r#""individualTransferResults":[{list}]}}"#)), "{} bytes", end.len());
        assert_eq!(
            (world.position("greenbank"), world.position("bluewallet")),
            ("1000".into(), "-1000".into())
        );
    };
    for name in ["greenbank", "bluewallet"] {
        told(&world, world.dfsp(name).next(&id).text());
    }
    // The archive takes the whole bulk transfer while the hub serves.
    let recorded = world.metric("upesi_journal_seq");
    assert!(recorded > 0);
    for _ in 0..50 {
        world.pay("greenbank", "bluewallet", "1", "KES");
        world.pay("bluewallet", "greenbank", "1", "KES");
    }
    world.until(&true, || world.metric("upesi_archived_seq") >= recorded);
    world.restart();
    world.deliver(Message::of(
        "GET",
        &format!("/bulkTransfers/{id}"),
        "greenbank",
        Some("Hub"),
        String::new(),
    ));
    told(&world, world.dfsp("greenbank").next(&id).text());
    let (last, result) = (items.last().unwrap(), results.last().unwrap());
    world.deliver(Message::get(last, "greenbank"));
    let seen = world.dfsp("greenbank").next(last);
    assert!(seen.text().contains(&result[..]), "{}", seen.text());
    world.stop_and_audit();
}

// Payments with a currency conversion, message by message, from the terms to the money.

/// greenbank pays in KES, bluewallet is paid in USD. forex has accounts and money in both currencies.
fn world(settings: &[(&str, &str)]) -> World {
    let mut world = World::with_lookups(settings);
    world.join("forex");
    let base_url = world.dfsp("forex").base_url();
    world.set_all_endpoints("forex", &base_url);
    world.open_account("bluewallet", "USD");
    world.join_currency("forex", "USD");
    world
}

/// Positions of the payer, of the FXP in both currencies, and of the payee.
fn positions(world: &World) -> [String; 4] {
    [("greenbank", "KES"), ("forex", "KES"), ("forex", "USD"), ("bluewallet", "USD")]
        .map(|(name, currency)| world.position_in(name, currency))
}

#[test]
fn payment_in_two_currencies_message_by_message() {
    let mut world = world(&[]);
    hold(&mut world, part(include_str!("dialogues/fx_transfers.txt"), "conversions"));
    // Two payments are committed, each of 130 KES for 1 USD.
    assert_eq!(positions(&world), ["260", "-260", "2", "-2"]);
    assert_eq!((world.position("redmoney"), world.position("bluewallet")), ("0".into(), "0".into()));
    for (metric, expected) in [("committed", 2), ("live", 0), ("expired", 2)] {
        world.until(&expected, || world.metric(&format!("upesi_conversions_{metric}")));
    }
    world.stop_and_audit();
}

#[test]
fn fx_transfers_rejected_and_repeated() {
    let mut world = world(&[]);
    hold(&mut world, part(include_str!("dialogues/fx_transfers.txt"), "refused conversions"));
    assert_eq!(positions(&world), ["130", "-130", "1", "-1"]);
    world.stop_and_audit();
}

/// An FX transfer and its transfer complete although the hub is restarted between their messages.
#[test]
fn payment_survives_restarts_between_its_messages() {
    let mut world = world(&[]);
    hold(
        &mut world,
        r#"
        dialogue A payment with restarts
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

/// An FX transfer is reserved once, fulfilled once, and ends once with its transfer.
#[test]
fn concurrent_repetitions_of_an_fx_transfer_take_effect_once() {
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
    // The hub answers both repetitions with the state.
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
    // Repetitions of the FXP are answered by the 200.
    assert_eq!((greenbank.count(), forex.count()), (3, 1));
    assert_eq!(positions(&world), ["130", "0", "0", "0"]);
    world.until(&1, || world.metric("upesi_conversions_live"));
    world.stop_and_audit();
}

/// A PUT with a completion time in the future, beyond the tolerance for clocks, is rejected at once. The PUT of a bulk
/// transfer is accepted, because the ledger then rejects the bulk transfer and releases its money.
#[test]
fn completion_time_in_the_future_is_rejected() {
    let mut world = world(&[]);
    let put = |path: &str, source: &str, state: &str, ahead_ms: i64| {
        let at = world.now().plus_ms(ahead_ms);
        let body = format!(r#"{{{state},"completedTimestamp":"{at}"}}"#);
        world.send(Message::of("PUT", path, source, Some("greenbank"), body)).0
    };
    let id = world.new_id();
    let (fx_transfer, bulk) = (format!("/fxTransfers/{id}"), format!("/bulkTransfers/{id}"));
    let fulfilled = format!(r#""conversionState":"RESERVED","fulfilment":"{}""#, fulfilment());
    for (path, source, state) in
        [(&fx_transfer, "forex", &*fulfilled), (&bulk, "bluewallet", r#""bulkTransferState":"COMPLETED""#)]
    {
        for ahead_ms in [60_000, -301_000] {
            let answer = put(path, source, state, ahead_ms);
            let expected = if *path == bulk { (200, None) } else { (400, Some("3100")) };
            assert_eq!((answer.status, answer.error_code()), expected, "{path}: {}", answer.body);
        }
        assert_eq!(put(path, source, state, 0).status, 200, "{path}");
        // Neither object exists. The hub detects this only after it has accepted the PUT.
        let told = world.dfsp(source).attempts(&id, 1);
        assert!(
            told[0].text().contains(if source == "forex" { "3208" } else { "3210" }),
            "{}",
            told[0].text()
        );
    }
    world.stop_and_audit();
}
