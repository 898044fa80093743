//! What an open loop counts from.

use std::sync::mpsc;

use upesi_sim::DfspSettings;

use super::*;
use crate::drive::operation::tests::World;
use crate::plan::scenario::Scenario;

/// How long nothing can be sent.
const STALL: Duration = Duration::from_millis(400);

/// The only thread that sends is held up, as it is where a machine stalls. What was due meanwhile is sent late, and its
/// latency counts from when it was due: a generator that took the time of sending would show a fast hub and hide what
/// users waited.
#[tokio::test]
async fn latency_counts_from_when_an_operation_was_due_however_late_it_is_sent() {
    let world = World::new(DfspSettings::default());
    let generator = Arc::new(world.generator(Scenario::Transfers));
    let (release, released) = mpsc::channel::<()>();
    let held = world.workers.get(0).spawn(async move {
        // Ends also where the test does.
        let _ = released.recv();
    });
    let from = Instant::now();
    let until = from + STALL;
    let window = Window { from, measure_from: from, measure_until: until, until };
    let load = Load::Open { rate_per_s: 100, outstanding_max: 1_000 };
    let running = start(&world.workers, &generator, &load, 1, window);
    tokio::time::sleep_until(until.into()).await;
    drop(release);
    held.await.unwrap();
    let tally = running.finish().await;
    assert_eq!((tally.latency.len(), tally.lag.len(), tally.skipped, tally.failed), (40, 40, 0, 0));
    // Nothing was sent before the end of the stall. Half of all was due before half of it, and waited for the other
    // half.
    let half_us = u64::try_from((STALL / 2).as_micros()).unwrap();
    for histogram in [&tally.latency, &tally.lag] {
        let late = histogram.iter_recorded().filter(|step| step.value_iterated_to() >= half_us);
        let late: u64 = late.map(|step| step.count_at_value()).sum();
        assert!(late >= 20, "{late} of 40 took as long as they waited");
    }
    assert_eq!(tally.completed, 0, "all ended after the window");
    world.end().await;
}
