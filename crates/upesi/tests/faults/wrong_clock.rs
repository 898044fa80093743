//! The shipped binary while the machine's clock is set an hour ahead, and an hour back. The state is shown, an alert
//! can fire, and no payment is rejected. Starts with such a clock: `e2e_time`.

use std::fs;
use std::time::Instant;

use crate::support_crash::hub::PATIENCE;
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use serde_json::Value;
use tempfile::TempDir;
use upesi_lab::AdminClient;

use crate::support_crash::compile;
use crate::support_crash::scene::World;

const HOUR_S: i64 = 3_600;
/// Longer than the interval between two comparisons of the clocks.
const SECOND_MS: i64 = 1_000;

/// `/clock` of the admin API, when the jump is as expected.
async fn clock_becomes(admin: &AdminClient, jump_s: i64) -> Value {
    let begun = Instant::now();
    loop {
        let clock: Value = serde_json::from_slice(&admin.get("/clock").await.unwrap()).unwrap();
        if (clock["jumpMs"].as_i64().unwrap() - jump_s * 1_000).abs() < SECOND_MS {
            return clock;
        }
        assert!(begun.elapsed() < PATIENCE, "the clock is not {jump_s} s off: {clock}");
    }
}

async fn metric(admin: &AdminClient, name: &str) -> String {
    let text = String::from_utf8(admin.get("/metrics").await.unwrap().to_vec()).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// The clock's part of the health report. The hub is healthy in any case.
async fn clock_health(admin: &AdminClient) -> String {
    let health: Value = serde_json::from_slice(&admin.get("/health").await.unwrap()).unwrap();
    assert_eq!(health["status"], "OK", "{health}");
    let mut services = health["services"].as_array().unwrap().iter();
    services.find(|service| service["name"] == "clock").unwrap()["status"].as_str().unwrap().to_owned()
}

#[test]
fn clock_an_hour_off_is_reported_and_stops_no_payment() {
    let directory = TempDir::new().unwrap();
    let Some(library) = compile(directory.path(), "clock", include_str!("../support_crash/clock.c")) else {
        return;
    };
    let (data, set) = (directory.path().join("data"), directory.path().join("ahead"));
    let set_clock = |ahead_s: i64| {
        // Written in place, because the hub has mapped the file.
        use std::os::unix::fs::FileExt as _;
        let file = fs::File::options().create(true).truncate(false).write(true).open(&set).unwrap();
        file.write_all_at(&ahead_s.to_ne_bytes(), 0).unwrap();
    };
    set_clock(0);
    let mut world = World::new(&data);
    world.environment =
        vec![("LD_PRELOAD".into(), library.into()), ("CLOCK_AHEAD_FILE".into(), set.clone().into())];
    let mut hub = world.start();
    hub.serves();
    let mut load = block_on(world.load(11));
    load.start();
    load.wait_for_accepted(50);
    let admin = world.admin();
    for ahead_s in [HOUR_S, -HOUR_S] {
        set_clock(ahead_s);
        block_on(async {
            let clock = clock_becomes(&admin, ahead_s).await;
            let direction = if ahead_s > 0 { "ahead" } else { "back" };
            let detail = clock["detail"].as_str().unwrap();
            assert!(detail.starts_with("the wall clock jumped ") && detail.contains(direction), "{detail}");
            assert_eq!(clock_health(&admin).await, "DOWN");
        });
        // The metric of the alert UpesiClockJumped. It is updated with a delay.
        let begun = Instant::now();
        while !is_near(&block_on(metric(&admin, "upesi_clock_jump_seconds")), ahead_s) {
            assert!(begun.elapsed() < PATIENCE, "no metric shows {ahead_s} s");
        }
        load.wait_for_accepted(200);
        set_clock(0);
        block_on(clock_becomes(&admin, 0));
        assert_eq!(block_on(clock_health(&admin)), "OK");
        load.wait_for_accepted(50);
    }
    let accepted = block_on(verdict::all_agree(&admin, &mut load));
    assert_eq!(hub.stop().0.code(), Some(0));
    verdict::copy_agrees(&data, &accepted);
}

/// Whether a number of seconds, with or without a fraction, is within one of another.
fn is_near(text: &str, wanted_s: i64) -> bool {
    let whole: i64 = text.split('.').next().unwrap().parse().unwrap();
    (whole - wanted_s).abs() <= 1
}
