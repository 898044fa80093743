//! One slice of a run: load on one subject, and the readings around the measured time.

use std::time::{Duration, Instant};

use crate::drive::load::Window;
use crate::drive::parallel::Loads;
use crate::drive::run::Run;
use crate::drive::system::{Reading, Subject};
use crate::observe::hub_metrics::Snapshot;
use crate::observe::scrape::Scraper;
use crate::observe::timeline::{INTERVAL, STEP, Ticks, Timeline};
use crate::result::schema::Queues;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What is watched of the hub while it is driven. Baselines are not watched.
pub(crate) struct Watch {
    pub scraper: Scraper,
    pub timeline: Timeline,
}

impl Run<'_> {
    /// Drives one subject for its time, after `ramp` of unmeasured load.
    pub(crate) async fn slice(&self, subject: &mut Subject, ramp: Duration, mut watch: Option<&mut Watch>) {
        self.progress.set_prefix(subject.name);
        let from = Instant::now();
        let measure_until = from + ramp + subject.slice;
        let until = measure_until + self.options.cool_down;
        let window = Window { from, measure_from: from + ramp, measure_until, until };
        let seed = self.options.seed ^ subject.slices.len() as u64;
        let running = Loads::start(&self.workers, &subject.generators, &self.options.load, seed, window);
        if let Some(watch) = watch.as_deref_mut() {
            watch.timeline.begin();
        }
        let has_steps = watch.is_some() && !self.options.load.stages().is_empty();
        let mut ticks = Ticks::starting_at(from, has_steps);
        self.drive(&running, window.measure_from, &mut ticks, watch.as_deref_mut()).await;
        let before = read(subject, watch.as_deref_mut()).await;
        self.drive(&running, window.measure_until, &mut ticks, watch.as_deref_mut()).await;
        let after = read(subject, watch.as_deref_mut()).await;
        self.drive(&running, window.until, &mut ticks, watch.as_deref_mut()).await;
        if let Some(watch) = watch {
            watch.timeline.end(until - from);
        }
        let tallies = running.finish().await;
        subject.record(&tallies, before, after);
    }

    /// Waits, and takes a row of the timeline at the end of each interval.
    async fn drive(&self, running: &Loads, until: Instant, ticks: &mut Ticks, mut watch: Option<&mut Watch>) {
        loop {
            let now = Instant::now();
            if let (Some(due), Some(watch)) = (ticks.next_step, watch.as_deref_mut())
                && now >= due
            {
                step(running, now, ticks, watch);
                continue;
            }
            if now >= ticks.next {
                if let Some(watch) = watch.as_deref_mut() {
                    tick(running, now, ticks, watch).await;
                }
                ticks.last = now;
                // A hub may take longer for its metrics than an interval: what was missed is left out.
                while ticks.next <= Instant::now() {
                    ticks.next += INTERVAL;
                }
                continue;
            }
            if now >= until {
                return;
            }
            let nap = (until.min(ticks.due()) - now).min(PROGRESS_INTERVAL);
            tokio::time::sleep(nap).await;
            self.progress.inc(u64::try_from(nap.as_millis()).unwrap_or(0));
            self.progress.set_message(format!("{} completed in this slice", running.completed()));
        }
    }
}

fn step(running: &Loads, now: Instant, ticks: &mut Ticks, watch: &mut Watch) {
    let mut interval = running.interval();
    watch.timeline.step(&interval, now - ticks.begin);
    interval.drain_into(&mut ticks.counted);
    // One that comes late is longer, and the next ones are where they would have been.
    let late = (now - ticks.begin).as_nanos() % STEP.as_nanos();
    let late = Duration::from_nanos(u64::try_from(late).unwrap_or(0));
    ticks.next_step = Some(now - late + STEP);
}

async fn tick(running: &Loads, now: Instant, ticks: &mut Ticks, watch: &mut Watch) {
    let mut interval = std::mem::take(&mut ticks.counted);
    // Where there are steps, one has just ended, and what came since belongs to the next.
    if ticks.next_step.is_none() {
        running.interval().drain_into(&mut interval);
    }
    let queues = watch.scraper.text().await.map(|text| Queues::read(&text)).unwrap_or_default();
    watch.timeline.tick(&interval, ticks.next - ticks.begin, now - ticks.last, queues);
}

async fn read(subject: &Subject, watch: Option<&mut Watch>) -> Reading {
    let mut reading = subject.read();
    if let Some(watch) = watch {
        reading.metrics = watch.scraper.text().await.map(|text| Snapshot::read(&text));
    }
    reading
}
