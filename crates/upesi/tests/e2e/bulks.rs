//! Bulks message by message: item by item results, refusals, resends, deadlines, and restarts in between.

use crate::common::World;
use crate::common::dialogue::hold;
use crate::common::message::{Message, condition, fulfilment};

#[test]
fn bulks_message_by_message() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, include_str!("dialogues/bulks.txt"));
    // 12.5 of the first, 2.5 of the second and of the last.
    let positions = (world.position("greenbank"), world.position("bluewallet"));
    assert_eq!(positions, ("17.5".into(), "-17.5".into()));
    world.until(&1, || world.metric("upesi_bulk_results_ignored"));
    world.stop_and_audit();
}

#[test]
fn what_is_refused_and_what_is_sent_again() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, include_str!("dialogues/refused_bulks.txt"));
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("12.5".into(), "-12.5".into()));
    world.stop_and_audit();
}

/// The message about a bulk of so many items, each of 1 KES with an ILP packet of so many characters.
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

/// A bulk is taken once, and answered once. Its resends are answered by its end; those of the payee's PUT at once.
#[test]
fn what_comes_three_times_at_once_takes_effect_once() {
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
    // Its end, and the answers to two resends.
    assert_eq!(bluewallet.attempts(&id, 4).len(), 4);
    world.until(&(0, 0), || world.undelivered());
    assert_eq!((greenbank.count(), bluewallet.count()), (1, 4));
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("3".into(), "-3".into()));
    world.until(&1, || world.metric("upesi_bulks_completed"));
    world.stop_and_audit();
}

/// Just within the 5 MiB that a body may have: 1,000 items with long ILP packets, to the payee and back.
#[test]
fn a_bulk_as_large_as_the_api_admits() {
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
