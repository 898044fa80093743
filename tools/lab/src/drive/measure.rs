//! One slice of a run: load on one subject, and the readings around the measured time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use upesi_sim::Phase;
use upesi_types::{Amount, Currency};

use crate::admin_client::{AdminClient, AdminError};
use crate::drive::parallel::Loads;
use crate::drive::session::Run;
use crate::drive::settling::{SettlementOutcome, commits_in_windows};
use crate::drive::subject::{Reading, Subject};
use crate::judge::answers::AnswersEvidence;
use crate::judge::audit::{Evidence, HubSide};
use crate::observe::hub_metrics::{Scraper, Snapshot};
use crate::observe::timeline::{INTERVAL, STEP, Ticks, Timeline};
use crate::observe::window::Window;
use crate::plan::options::Role;
use crate::plan::scenario::phase_name;
use crate::result::exchanges::GeneratorCounts;
use crate::result::schema::Queues;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Observations of the hub while it is driven. Baselines are not observed.
pub(crate) struct HubWatch {
    pub scraper: Scraper,
    pub timeline: Timeline,
}

impl Run<'_> {
    /// Drives one subject for its time, after `ramp` of unmeasured load.
    pub(crate) async fn slice(
        &self,
        subject: &mut Subject,
        ramp: Duration,
        mut watch: Option<&mut HubWatch>,
    ) {
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

    /// Waits, and adds a row to the timeline at the end of each interval.
    async fn drive(
        &self,
        running: &Loads,
        until: Instant,
        ticks: &mut Ticks,
        mut watch: Option<&mut HubWatch>,
    ) {
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
                // A hub may take longer for its metrics than an interval. Missed intervals are skipped.
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

fn step(running: &Loads, now: Instant, ticks: &mut Ticks, watch: &mut HubWatch) {
    let mut interval = running.interval();
    watch.timeline.step(&interval, now - ticks.begin);
    interval.drain_into(&mut ticks.counted);
    // If a step ends late, it is longer. The ends of the following steps do not move.
    let late = (now - ticks.begin).as_nanos() % STEP.as_nanos();
    let late = Duration::from_nanos(u64::try_from(late).unwrap_or(0));
    ticks.next_step = Some(now - late + STEP);
}

async fn tick(running: &Loads, now: Instant, ticks: &mut Ticks, watch: &mut HubWatch) {
    let mut interval = std::mem::take(&mut ticks.counted);
    // If there are steps, one has just ended, and later counts belong to the next one.
    if ticks.next_step.is_none() {
        running.interval().drain_into(&mut interval);
    }
    let queues = watch.scraper.text().await.map(|text| Queues::read(&text)).unwrap_or_default();
    watch.timeline.tick(&interval, ticks.next - ticks.begin, now - ticks.last, queues);
}

async fn read(subject: &Subject, watch: Option<&mut HubWatch>) -> Reading {
    let mut reading = subject.read();
    if let Some(watch) = watch {
        reading.metrics = watch.scraper.text().await.map(|text| Snapshot::read(&text));
    }
    reading
}

/// The balances that a hub reports for one currency.
pub(crate) struct ReportedBalances {
    currency: Currency,
    positions: BTreeMap<String, Amount>,
    /// The remaining deposits, with a minus sign, if commits draw from them.
    covers: BTreeMap<String, Amount>,
    /// Number of commits in all settlement windows; absent if the hub was not started by the lab.
    in_windows: Option<u64>,
}

impl ReportedBalances {
    /// The debt of each participant: its position, and the amount drawn beyond its deposit.
    fn owed(&self) -> BTreeMap<String, Amount> {
        let owed = self.positions.iter().map(|(name, position)| {
            let cover = self.covers.get(name).copied().unwrap_or_default();
            (name.clone(), position.checked_add(cover).unwrap_or(*position))
        });
        owed.collect()
    }
}

impl Run<'_> {
    pub(crate) fn currencies(&self) -> Vec<Currency> {
        let options = self.options;
        let target = options.payers_convert().then(|| options.target_currency());
        [options.currency].into_iter().chain(target).chain(options.payees_currency()).collect()
    }

    /// Queries the hub. If other generators drive it too, reads only this generator's DFSPs.
    pub(crate) async fn standing(
        &self,
        admin: &AdminClient,
        hub: &Subject,
    ) -> Result<Vec<ReportedBalances>, AdminError> {
        let options = self.options;
        let mut all = Vec::new();
        for currency in self.currencies() {
            let mut positions = admin.positions(currency).await?;
            if options.role == Role::Load {
                let names = &hub.generator().names;
                positions.retain(|name, _| names.iter().any(|own| own.as_str() == name));
            }
            let covers =
                if options.settlement.gross { admin.covers(currency).await? } else { BTreeMap::new() };
            let in_windows = match options.target {
                None => Some(commits_in_windows(admin, currency).await?),
                Some(_) => None,
            };
            all.push(ReportedBalances { currency, positions, covers, in_windows });
        }
        Ok(all)
    }

    /// Everything that the audit of a run examines.
    pub(crate) fn evidence(
        &self,
        hub: &Subject,
        (before, after): (Vec<ReportedBalances>, Vec<ReportedBalances>),
        settled: Option<&SettlementOutcome>,
    ) -> Evidence {
        let mut findings = settled.map_or_else(Vec::new, |settled| settled.findings.clone());
        let mut sides = Vec::new();
        for (before, after) in before.iter().zip(&after) {
            let currency = after.currency;
            let is_gross = self.options.settlement.gross;
            let is_fresh = self.options.target.is_none() && self.options.existing_transfers == 0;
            let rests = is_fresh && hub.simulator.transfer_counts().accepted == 0;
            if rests && (is_gross || settled.is_some()) {
                let left =
                    after.positions.iter().filter(|(name, left)| before.positions.get(*name) != Some(*left));
                findings.extend(left.map(|(name, left)| {
                    format!("{name}: {left} {currency} of its position were not settled")
                }));
            }
            let nets = settled.and_then(|settled| settled.nets.get(currency.as_str()));
            let in_windows = after.in_windows.zip(before.in_windows);
            sides.push(HubSide {
                currency,
                amount: self.options.amount,
                before: before.owed(),
                after: after.owed(),
                settled: nets.cloned().unwrap_or_default(),
                in_windows: in_windows.map(|(after, before)| after - before),
                committed: if is_gross { 0 } else { hub.simulator.committed_in(currency) },
            });
        }
        let mut originated = GeneratorCounts::default();
        for phase in [Phase::FxTransfer, Phase::Transfer] {
            originated += hub.tally.exchanges(phase).originated * self.options.transfers_per_operation();
        }
        Evidence {
            sides,
            expected: hub.simulator.expected_positions(),
            transfers: hub.simulator.transfer_counts(),
            counters: hub.simulator.counters(),
            originated,
            settlement: settled.map(|settled| settled.result),
            findings,
        }
    }

    /// The evidence about queries and answers.
    pub(crate) fn answers(&self, hub: &Subject) -> AnswersEvidence {
        let phases = self
            .options
            .phases()
            .into_iter()
            .filter(|phase| !matches!(phase, Phase::FxTransfer | Phase::Transfer));
        AnswersEvidence {
            phases: phases.map(|phase| (phase_name(phase), *hub.tally.exchanges(phase))).collect(),
            counters: hub.simulator.counters(),
        }
    }
}
