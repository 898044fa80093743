//! Requests to be paid, and authorizations: passed on and nothing else.

mod common;

use common::World;
use common::dialogue::hold;

#[test]
fn requests_and_authorizations_are_passed_on() {
    hold(&mut World::with_lookups(&[]), include_str!("dialogues/requests.txt"));
}
