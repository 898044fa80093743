//! Jobs are known by their names, whatever happened beside them.

use serde_json::json;

use super::{World, open_in_tzs, settlement_json, states};

/// More settlements than a search answers.
const SINCE: usize = 1_001;

#[test]
fn a_job_is_found_however_many_settlements_came_after_it() {
    let mut world = World::new(&[]);
    world.trade();
    let done = settlement_json(&world, &["run", "day-1"]);
    world.trade();
    world.operate("POST", "/v2/settlementWindows/2", r#"{"state":"CLOSED","reason":"end of day"}"#);
    let create = r#"{"settlementModel":"DEFERREDNETKES","reason":"a trial","settlementWindows":[{"id":2}]}"#;
    for number in 2..=SINCE + 1 {
        world.operate("POST", "/v2/settlements", create);
        let abort = r#"{"state":"ABORTED","reason":"of the bank"}"#;
        world.operate("PUT", &format!("/v2/settlements/{number}"), abort);
    }
    // Money that another run would settle.
    world.trade();
    assert_eq!(settlement_json(&world, &["run", "day-1"]), done);
    assert_eq!(settlement_json(&world, &["show", "--window", "3"])["windows"][0]["state"], "OPEN");
    // All of a name are found, page by page.
    world.operate("POST", "/v2/settlements", &create.replace("a trial", "settlement run trial"));
    let trial = settlement_json(&world, &["run", "trial"]);
    assert_eq!(trial["settlements"][0]["id"], json!(SINCE + 2));
    assert_eq!((&trial["windows"][0]["id"], states(&trial).0), (&json!(2), "SETTLED".to_owned()));
    world.stop_and_audit();
}

/// A job closes its window, and before it goes on somebody settles a part of it by hand.
#[test]
fn a_window_that_others_began_to_settle_is_still_the_jobs() {
    let mut world = World::new(&[]);
    for name in ["greenbank", "redmoney"] {
        open_in_tzs(&world, name);
    }
    world.trade();
    world.pay("greenbank", "redmoney", "100.75", "TZS");
    world.operate("POST", "/v2/settlementWindows/1", r#"{"state":"CLOSED","reason":"settlement run day-1"}"#);
    settlement_json(&world, &["create", "DEFERREDNETTZS", "--window", "1", "--reason", "by hand"]);
    world.trade();
    let done = settlement_json(&world, &["run", "day-1"]);
    assert_eq!(
        (&done["windows"][0]["id"], &done["windows"][0]["state"]),
        (&json!(1), &json!("PENDING_SETTLEMENT"))
    );
    let [own] = &done["settlements"].as_array().unwrap()[..] else { panic!("{done}") };
    assert_eq!((&own["model"], &own["state"]), (&json!("DEFERREDNETKES"), &json!("SETTLED")));
    assert_eq!(settlement_json(&world, &["show", "--window", "2"])["windows"][0]["state"], "OPEN");
    world.stop_and_audit();
}
