//! A DFSP in a black hole among eight: connections are taken and nothing ever comes back. The others notice
//! nothing; when it is back it gets everything, in order for each transfer.

use crate::common::dfsp::Conduct;
use crate::common::message::{Message, Terms};
use crate::common::{AMPLE, World};

/// The eighth is the one in the black hole.
const DFSPS: [&str; 8] =
    ["greenbank", "bluewallet", "redmoney", "orangepay", "whitecash", "blacktill", "greypurse", "lostbank"];
const LOST: &str = "lostbank";
const ROUNDS: usize = 6;
const LONG_MS: i64 = 3_600_000;

/// Waits are short, and a lane that is stuck has room for little.
const SETTINGS: &[(&str, &str)] = &[
    ("callbacks.connect_timeout_ms", "200"),
    ("callbacks.request_timeout_ms", "200"),
    ("callbacks.concurrency_max", "4"),
    ("callbacks.queue_max", "16"),
    ("callbacks.retrying_max", "8"),
];

struct Transfer {
    id: String,
    payer: &'static str,
    payee: &'static str,
}

fn prepare(world: &World, payer: &'static str, payee: &'static str) -> Transfer {
    let id = world.new_id();
    // Nothing expires here, however slow the machine is.
    let expires = world.now().plus_ms(LONG_MS);
    let terms = Terms {
        payer: payer.into(),
        payee: payee.into(),
        amount: "1".into(),
        expires,
        ..Terms::new(&id, world.now())
    };
    world.deliver(Message::prepare(&terms));
    Transfer { id, payer, payee }
}

fn fulfil(world: &World, transfer: &Transfer) {
    world.deliver(Message::fulfil(&transfer.id, "RESERVED").from(transfer.payee).to(transfer.payer));
}

/// From the prepare to the last notification, as payer and payee see it.
fn complete(world: &World, transfer: &Transfer) {
    assert_eq!(world.dfsp(transfer.payee).next(&transfer.id).method, "POST");
    fulfil(world, transfer);
    assert_eq!(world.dfsp(transfer.payer).next(&transfer.id).method, "PUT");
    assert_eq!(world.dfsp(transfer.payee).next(&transfer.id).method, "PATCH");
}

fn lane(world: &World, name: &str) -> serde_json::Value {
    let lanes = world.operate("GET", "/lanes", "");
    lanes.as_array().unwrap().iter().find(|lane| lane["participant"] == name).unwrap().clone()
}

#[test]
fn a_black_hole_among_eight_delays_nobody_and_gets_everything_in_order() {
    let mut world = World::bare(SETTINGS);
    world.prepare_scheme();
    DFSPS.iter().for_each(|name| world.join(name));
    let others = &DFSPS[..7];
    world.dfsp(LOST).conduct(Conduct::FallsSilent);
    // Each of the others owes the lost one something, and is owed something by it: far more than its lane holds.
    let mut lost = Vec::new();
    for round in 0..ROUNDS {
        for (index, payer) in others.iter().enumerate() {
            lost.push(prepare(&world, payer, LOST));
            // Those that it sends itself end while it cannot hear of it.
            let sent = prepare(&world, LOST, payer);
            assert_eq!(world.dfsp(payer).next(&sent.id).method, "POST");
            fulfil(&world, &sent);
            assert_eq!(world.dfsp(payer).next(&sent.id).method, "PATCH");
            lost.push(sent);
            // And the others' business goes on, to the last message.
            let payee = others[(index + 1 + round % 6) % 7];
            complete(&world, &prepare(&world, payer, payee));
        }
    }
    let stuck = lane(&world, LOST);
    assert_eq!((&stuck["delivered"], &stuck["catchingUp"]), (&0.into(), &true.into()), "{stuck}");
    let (pending, parked) = world.undelivered();
    assert!(pending >= lost.len() as u64 && parked == 0, "{pending} pending, {parked} parked");

    world.dfsp(LOST).conduct(Conduct::Answers(200));
    for transfer in &lost {
        if transfer.payee == LOST {
            complete(&world, transfer);
        } else {
            assert_eq!(world.dfsp(LOST).next(&transfer.id).method, "PUT");
        }
    }
    world.until(&(0, 0), || world.undelivered());
    // It sent as much as it got.
    assert_eq!(world.position(LOST), "0");
    let mut world = world;
    world.stop(AMPLE);
}
