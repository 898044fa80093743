//! The result as a table for a terminal.

use std::fmt::Write as _;

use upesi_sim::Phase;

use crate::observe::machine::{IDLE_SHARE_FULL, percent, taken};
use crate::plan::scenario::phase_name;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::{BaselineResult, LabResult, ProcessResult};
use crate::statistics::{rounded, times};

const NAME_WIDTH: usize = 22;

struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "  {name:<NAME_WIDTH$}{value}");
    }

    /// Adds a verdict, with its findings below it.
    fn verdict(&mut self, name: &str, verdict: &str, findings: &[String]) {
        self.row(name, verdict);
        findings.iter().for_each(|finding| self.row("", finding));
    }
}

impl LabResult {
    /// The figures as lines of text, ending with the audit's verdict.
    pub fn table(&self) -> String {
        if self.kind == "isolated" {
            return crate::isolated::measurement::table(self);
        }
        let mut table = Table(format!("{} at {}\n", self.scenario, self.target));
        table.row(
            "load",
            &format!("{} DFSPs, {}, {} s", self.options.dfsps, self.options.load, self.options.duration_s),
        );
        let lost = format!("{} completed, {} failed, {} lost", self.completed, self.failed, self.lost);
        table.row(&self.scenario, &lost);
        let of_items = match self.options.bulk_items {
            0 => String::new(),
            items => format!(" of {items}: {:.0} transfers/s", times(self.throughput_per_s, items)),
        };
        table.row("throughput", &format!("{:.0}/s{of_items}", self.throughput_per_s));
        let phases = several(&self.phases);
        table.row(
            if phases.is_empty() { "latency" } else { "latency, end to end" },
            &latency(&self.latency_ms),
        );
        for (name, phase) in phases {
            table.row(&format!("  {name}"), &latency(&phase));
        }
        for load in &self.loads {
            table.row(&format!("  {}", load.operation.name()), &load.words());
        }
        let operation = self.options.scenario.operation();
        if let Some(hub) = &self.hub {
            table.row("hub", &process(hub, operation));
        }
        table.row("load generator, DFSPs", &process(&self.lab, operation));
        if let Some(share) = self.window.stolen_share {
            table.row("other machines", &taken(share));
        }
        if let Some(machine) = &self.machine {
            table.row("cores", &machine.words);
        }
        table.row("durable", self.durable.map_or("unknown", |durable| if durable { "yes" } else { "no" }));
        if let Some(schedule) = &self.schedule {
            let validity = if schedule.valid { "kept" } else { "NOT KEPT, the figures are not valid" };
            let lag = format!(
                "{validity}: sent late by p50 {:.3} ms, p99 {:.3} ms; {} skipped",
                schedule.lag_ms_p50, schedule.lag_ms_p99, schedule.skipped
            );
            table.row("schedule", &lag);
        }
        for baseline in self.baseline.iter().chain(&self.more_baselines) {
            table.row(&baseline.name, &compared(baseline, operation));
        }
        self.audit_rows(&mut table);
        self.verdict_rows(&mut table);
        table.0
    }

    /// The objectives of the run, and the findings against its figures.
    fn verdict_rows(&self, table: &mut Table) {
        for target in &self.targets {
            let mark = if target.met { "met" } else { "MISSED" };
            let text =
                format!("{mark}: {} {} (bound {})", target.name, rounded(target.measured, 3), target.limit);
            table.row("target", &text);
        }
        if let Some(breakpoint) = &self.breakpoint {
            let rate =
                |rate: Option<u32>| rate.map_or_else(|| "no rate".to_owned(), |rate| format!("{rate}/s"));
            let limited = if breakpoint.is_generators() {
                " (at that rate the load generator could not keep up; the hub may handle more)"
            } else {
                ""
            };
            let idle = breakpoint
                .lowest_missed()
                .and_then(|probe| probe.idle_share)
                .filter(|share| *share < IDLE_SHARE_FULL);
            let idle = idle.map_or_else(String::new, |share| {
                format!(" (the cores were idle there for {} of the time)", percent(share))
            });
            let text = format!(
                "{} meets every target, {} does not{limited}{idle}; {} probes",
                rate(breakpoint.highest_met_per_s),
                rate(breakpoint.lowest_missed_per_s),
                breakpoint.probes.len()
            );
            table.row("breakpoint", &text);
        }
        if let Some(drift) = &self.drift {
            for row in &drift.rows {
                let text = format!("{}: {} → {}, {} per hour", row.verdict, row.start, row.end, row.per_hour);
                table.row(&row.name, &text);
            }
            if let Some(check) = &drift.kept_up {
                let mark = if check.met { "met" } else { "MISSED" };
                let (value, limit) = (percent(check.value), percent(check.limit));
                table.row("completed of due", &format!("{mark}: {value} (at least {limit})"));
            }
            for target in &drift.programme_2020 {
                let mark = match (target.met, target.not_judged.as_deref()) {
                    (Some(true), _) => "met".to_owned(),
                    (Some(false), _) => "missed".to_owned(),
                    (None, why) => format!("not judged, {}", why.unwrap_or_default()),
                };
                table.row("2020 programme", &format!("{mark}: {}, {}", target.name, target.measured));
            }
        }
        if let Some(thresholds) = &self.thresholds {
            let met = if thresholds.met { "met" } else { "NOT MET" };
            table.verdict("thresholds", met, &thresholds.findings);
        }
        let valid = if self.validity.valid { "valid" } else { "DOUBTFUL" };
        table.verdict("figures", valid, &self.validity.findings);
    }

    fn audit_rows(&self, table: &mut Table) {
        table.0.push('\n');
        let moves_money = self.options.moves_money();
        // If the run moves no money, only changed positions are shown.
        let mut positions = self.audit.positions.iter().filter(|check| moves_money || !check.ok).peekable();
        if positions.peek().is_some() {
            let _ = writeln!(
                table.0,
                "  {:<NAME_WIDTH$}{:>20}  {:>20}",
                "participant", "hub position", "own books"
            );
        }
        for check in positions {
            let mark = if check.ok { "" } else { "  differs" };
            let name = match &*check.currency {
                currency if currency == self.options.currency => check.participant.clone(),
                currency => format!("{} {currency}", check.participant),
            };
            let _ = writeln!(table.0, "  {name:<NAME_WIDTH$}{:>20}  {:>20}{mark}", check.hub, check.books);
        }
        for check in &self.audit.answers {
            let ends = format!(
                "{} accepted = {} answered correctly + {} with an error + {} wrongly + {} late",
                check.accepted, check.right, check.errors, check.wrong, check.late
            );
            table.row(&check.phase, &ends);
        }
        if moves_money {
            let accepted = format!(
                "{} accepted = {} finished + {} in flight",
                self.audit.accepted, self.audit.finished, self.audit.in_flight
            );
            table.row(if self.audit.answers.is_empty() { "accounted for" } else { "transfer" }, &accepted);
        }
        table.verdict("audit", if self.audit.ok { "holds" } else { "FAILED" }, &self.audit.findings);
    }
}

fn several(phases: &Phases) -> Vec<(&'static str, LatencyMs)> {
    let latency = |phase: Phase| Some((phase_name(phase), phases.get(phase)?.latency_ms));
    let all: Vec<_> = Phase::ALL.into_iter().filter_map(latency).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

fn latency(latency: &LatencyMs) -> String {
    format!(
        "p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        latency.p50, latency.p95, latency.p99, latency.max
    )
}

fn process(process: &ProcessResult, operation: &str) -> String {
    let cpu = process.cpu_us_per_operation.map_or_else(|| "?".to_owned(), |cpu| format!("{cpu:.0}"));
    let (resident, peak) = (process.rss_mb, process.rss_peak_mb);
    format!("{cpu} µs CPU per {operation}, {resident:.0} MiB resident (peak {peak:.0})")
}

fn compared(baseline: &BaselineResult, operation: &str) -> String {
    let ratio =
        baseline.ratio.map_or_else(String::new, |ratio| format!("; the hub reaches {ratio:.2} of it"));
    let own = baseline.process.as_ref();
    let cpu = own.map_or_else(String::new, |own| format!(", {}", process(own, operation)));
    format!("{:.0}/s, p50 {:.2} ms{cpu}{ratio}", baseline.throughput_per_s, baseline.latency_ms.p50)
}
