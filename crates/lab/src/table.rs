//! The result as a table for a terminal.

use std::fmt::Write as _;

use crate::options::Load;
use crate::result::{BaselineResult, LabResult, LatencyMs, ProcessResult};

const NAME_WIDTH: usize = 22;

struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "  {name:<NAME_WIDTH$}{value}");
    }
}

impl LabResult {
    /// The figures as lines of text, ending with the audit's verdict.
    pub fn table(&self) -> String {
        let mut table = Table(format!("{} at {}\n", self.scenario, self.target));
        let load = match self.options.load {
            Load::Closed { users } => format!("{users} virtual users"),
            Load::Open { rate_per_s, .. } => format!("{rate_per_s} arrivals/s"),
        };
        table.row("load", &format!("{} DFSPs, {load}, {} s", self.options.dfsps, self.options.duration_s));
        let lost = format!("{} completed, {} failed, {} lost", self.completed, self.failed, self.lost);
        table.row("transfers", &lost);
        table.row("throughput", &format!("{:.0}/s", self.throughput_per_s));
        table.row("latency", &latency(&self.latency_ms));
        if let Some(hub) = &self.hub {
            table.row("hub", &process(hub));
        }
        table.row("load generator, DFSPs", &process(&self.lab));
        table.row("durable", self.durable.map_or("unknown", |durable| if durable { "yes" } else { "no" }));
        if let Some(schedule) = &self.schedule {
            let validity = if schedule.valid { "kept" } else { "NOT KEPT, the figures do not count" };
            let lag = format!(
                "{validity}: sent late by p50 {:.3} ms, p99 {:.3} ms; {} skipped",
                schedule.lag_ms_p50, schedule.lag_ms_p99, schedule.skipped
            );
            table.row("schedule", &lag);
        }
        for baseline in self.baseline.iter().chain(&self.more_baselines) {
            table.row(baseline.name, &compared(baseline));
        }
        self.audit_rows(&mut table);
        table.0
    }

    fn audit_rows(&self, table: &mut Table) {
        let _ = writeln!(
            table.0,
            "\n  {:<NAME_WIDTH$}{:>20}  {:>20}",
            "participant", "hub position", "own books"
        );
        for check in &self.audit.positions {
            let mark = if check.ok { "" } else { "  differs" };
            let _ = writeln!(
                table.0,
                "  {:<NAME_WIDTH$}{:>20}  {:>20}{mark}",
                check.participant, check.hub, check.books
            );
        }
        let accepted = format!(
            "{} accepted = {} finished + {} in flight",
            self.audit.accepted, self.audit.finished, self.audit.in_flight
        );
        table.row("accounted for", &accepted);
        table.row("audit", if self.audit.ok { "holds" } else { "FAILED" });
        for finding in &self.audit.findings {
            table.row("", finding);
        }
    }
}

fn latency(latency: &LatencyMs) -> String {
    format!(
        "p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        latency.p50, latency.p95, latency.p99, latency.max
    )
}

fn process(process: &ProcessResult) -> String {
    let cpu = process.cpu_us_per_transfer.map_or_else(|| "?".to_owned(), |cpu| format!("{cpu:.0}"));
    format!("{cpu} µs CPU per transfer, {:.0} MiB resident (peak {:.0})", process.rss_mb, process.rss_peak_mb)
}

fn compared(baseline: &BaselineResult) -> String {
    let ratio =
        baseline.ratio.map_or_else(String::new, |ratio| format!("; the hub reaches {ratio:.2} of it"));
    let cpu = baseline.process.as_ref().map_or_else(String::new, |own| format!(", {}", process(own)));
    format!("{:.0}/s, p50 {:.2} ms{cpu}{ratio}", baseline.throughput_per_s, baseline.latency_ms.p50)
}
