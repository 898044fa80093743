//! Every rule of a transfer's life over real sockets: who is told what, by which callback. How stories read is told in
//! `common/story.rs`.

use crate::common::World;
use crate::common::story::tell;

#[test]
fn who_is_told_what() {
    tell(&World::new(&[]), include_str!("stories/told.txt"));
}

#[test]
fn who_is_told_what_in_a_scheme_without_confirmations() {
    tell(&World::new(&[("hub.payee_confirmation", "false")]), include_str!("stories/unconfirmed.txt"));
}

#[test]
fn puts_about_transfers_that_nobody_knows_where_the_scheme_wants_3208() {
    tell(&World::new(&[("hub.unknown_transfer", "3208")]), include_str!("stories/unknown.txt"));
}

#[test]
fn refused_prepares() {
    tell(&World::new(&[]), include_str!("stories/prepare.txt"));
}

#[test]
fn checks_of_fulfils_and_aborts_in_their_order() {
    tell(&World::new(&[]), include_str!("stories/fulfil.txt"));
}

#[test]
fn error_codes_of_aborts() {
    tell(&World::new(&[]), include_str!("stories/abort.txt"));
}

#[test]
fn duplicates() {
    tell(&World::new(&[]), include_str!("stories/duplicates.txt"));
}

#[test]
fn questions() {
    tell(&World::new(&[]), include_str!("stories/get.txt"));
}

#[test]
fn expiry() {
    tell(&World::new(&[]), include_str!("stories/expiry.txt"));
}

/// Deadlines are looked at once a minute only, so that the late message comes first.
#[test]
fn late_answers() {
    tell(&World::new(&[("engine.tick_interval_ms", "60000")]), include_str!("stories/late.txt"));
}

/// The payer pays itself: it is told once, and its position is what it was.
#[test]
fn on_us_transfers_where_the_scheme_allows_them() {
    tell(&World::new(&[("hub.on_us_transfers", "true")]), include_str!("stories/on_us.txt"));
}
