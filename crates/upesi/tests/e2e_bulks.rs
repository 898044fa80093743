//! Bulks message by message: item by item results, refusals, resends, deadlines, and restarts in between.

mod common;

use common::World;
use common::dialogue::hold;

#[test]
fn bulks_message_by_message() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, include_str!("dialogues/bulks.txt"));
    // 12.5 of the first, 2.5 of the second.
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("15".into(), "-15".into()));
    world.stop_and_audit();
}

#[test]
fn what_is_refused_and_what_is_sent_again() {
    let mut world = World::with_lookups(&[]);
    hold(&mut world, include_str!("dialogues/refused_bulks.txt"));
    assert_eq!((world.position("greenbank"), world.position("bluewallet")), ("12.5".into(), "-12.5".into()));
    world.stop_and_audit();
}
