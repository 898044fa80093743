//! Requests to be paid, and authorizations: passed on and nothing else. And the exchanges on the pages of all
//! resources.

use crate::common::World;
use crate::common::dialogue::hold;
use crate::common::pages;

#[test]
fn requests_and_authorizations_are_passed_on() {
    hold(&mut World::with_lookups(&[]), include_str!("dialogues/requests.txt"));
}

/// Whoever types what the pages of `docs/resources` show gets what they show.
#[test]
fn the_exchanges_of_the_pages_hold() {
    let mut world = World::with_lookups(&[]);
    world.join("fxmaker");
    world.set_all_endpoints("fxmaker", &world.dfsp("fxmaker").base_url());
    world.open_account("fxmaker", "UGX");
    assert!(pages::play(&world) > 30);
}
