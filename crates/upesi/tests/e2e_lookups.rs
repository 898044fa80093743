//! Account lookup, as DFSPs see it: registrations, lookups, answers, and every way in which they fail.

mod common;

use common::World;
use common::dialogue::hold;

#[test]
fn parties_are_looked_up() {
    hold(&mut World::with_lookups(&[]), include_str!("dialogues/lookups.txt"));
}

#[test]
fn parties_are_registered() {
    hold(&mut World::with_lookups(&[]), include_str!("dialogues/participants.txt"));
}

#[test]
fn nobody_knows_the_type() {
    let mut world = World::with_lookups(&[("lookup.builtin_directory", "false")]);
    hold(&mut world, include_str!("dialogues/no_directory.txt"));
}

#[test]
fn what_cannot_be_delivered_is_told_to_its_sender() {
    let mut world = World::with_lookups(&[
        ("callbacks.breaker_threshold", "1000000"),
        ("callbacks.request_timeout_ms", "500"),
        ("callbacks.connect_timeout_ms", "500"),
    ]);
    world.onboard("newcomer");
    hold(&mut world, include_str!("dialogues/undelivered_lookups.txt"));
}
