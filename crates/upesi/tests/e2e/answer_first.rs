//! The answer to a request is written before the hub sends a callback of that request to its sender.

use std::io::Write;
use std::net::TcpStream;

use crate::common::World;
use crate::common::message::{Message, Terms};
use crate::common::recorder::Recorder;

/// A fulfilled transfer from greenbank to bluewallet.
fn committed(world: &World) -> Terms {
    let terms = Terms::new(&world.new_id(), world.now());
    world.deliver(Message::prepare(&terms));
    world.dfsp("bluewallet").next(&terms.id);
    world.deliver(Message::fulfil(&terms.id, "COMMITTED"));
    world.dfsp("greenbank").next(&terms.id);
    terms
}

#[test]
fn queries_are_answered_before_the_callback() {
    let world = World::new(&[]);
    let id = committed(&world).id;
    let unknown = world.new_id();
    let mut recorder = Recorder::of(&world, "greenbank");
    let question = |number| match number % 2 {
        0 => (Message::get(&id, "greenbank"), 202, format!("PUT /transfers/{id}")),
        _ => (Message::get(&unknown, "greenbank"), 202, format!("PUT /transfers/{unknown}/error")),
    };
    recorder.expect_answers_first((0..500).map(question).collect());
}

#[test]
fn refused_and_duplicate_prepares_are_answered_before_the_callback() {
    let world = World::new(&[]);
    let known = committed(&world);
    let mut recorder = Recorder::of(&world, "greenbank");
    let prepare = |number: u32| {
        let id = if number.is_multiple_of(3) { known.id.clone() } else { world.new_id() };
        let error = format!("PUT /transfers/{id}/error");
        match number % 3 {
            0 => (Message::prepare(&known), 202, format!("PUT /transfers/{id}")),
            // Beyond the cover, each with another amount.
            1 => {
                let amount = (10_000 + number).to_string();
                (Message::prepare(&Terms { amount, ..Terms::new(&id, world.now()) }), 202, error)
            }
            _ => {
                let terms = Terms { payee: "nobody".into(), ..Terms::new(&id, world.now()) };
                (Message::prepare(&terms), 202, error)
            }
        }
    };
    recorder.expect_answers_first((0..500).map(prepare).collect());
}

#[test]
fn fulfil_reserved_is_answered_before_the_callback() {
    let world = World::new(&[]);
    let ids: Vec<_> = (0..100).map(|_| world.new_id()).collect();
    for id in &ids {
        world.deliver(Message::prepare(&Terms {
            amount: "1".into(),
            ..Terms::new(id, world.now().plus_ms(60_000))
        }));
        world.dfsp("bluewallet").next(id);
    }
    let mut recorder = Recorder::of(&world, "bluewallet");
    let fulfil = |id: &String| (Message::fulfil(id, "RESERVED"), 200, format!("PATCH /transfers/{id}"));
    recorder.expect_answers_first(ids.iter().map(fulfil).collect());
}

#[test]
fn registrations_with_the_hub_are_answered_before_the_callback() {
    let world = World::new(&[]);
    let mut recorder = Recorder::of(&world, "greenbank");
    let register = |number: u32| {
        let path = format!("/participants/MSISDN/25470{number:07}");
        let body = r#"{"fspId":"greenbank","currency":"KES"}"#;
        (Message::of("POST", &path, "greenbank", None, body), 202, format!("PUT {path}"))
    };
    recorder.expect_answers_first((0..200).map(register).collect());
}

#[test]
fn queries_about_unknown_objects_are_answered_before_the_callback() {
    let world = World::with_lookups(&[]);
    let mut recorder = Recorder::of(&world, "greenbank");
    let question = |number: u32| {
        let (path, to) = match number % 4 {
            0 => (format!("/fxTransfers/{}", world.new_id()), Some("Hub")),
            1 => (format!("/bulkTransfers/{}", world.new_id()), Some("Hub")),
            2 => (format!("/quotes/{}", world.new_id()), Some("nobody")),
            _ => (format!("/parties/MSISDN/25471{number:07}"), None),
        };
        (Message::of("GET", &path, "greenbank", to, ""), 202, format!("PUT {path}/error"))
    };
    recorder.expect_answers_first((0..400).map(question).collect());
}

/// A client that hangs up before the answer still gets its callback.
#[test]
fn callback_does_not_wait_for_a_disconnected_client() {
    let world = World::new(&[]);
    let id = committed(&world).id;
    let greenbank = world.dfsp("greenbank");
    for _ in 0..200 {
        let mut stream = TcpStream::connect(world.fspiop()).unwrap();
        stream.write_all(&Message::get(&id, "greenbank").into_sent().bytes()).unwrap();
        // If the answer is not read, the system resets the connection.
        drop(stream);
    }
    // All transfers that the hub received are delivered.
    world.deliver(Message::get(&id, "greenbank"));
    greenbank.next(&id);
    world.until(&(0, 0), || world.undelivered());
    let lanes = world.operate("GET", "/lanes", "");
    let lane = lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == "greenbank").unwrap();
    assert_eq!((&lane["queued"], &lane["retrying"]), (&0.into(), &0.into()), "{lane}");
}
