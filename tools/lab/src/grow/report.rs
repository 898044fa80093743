//! The growth curve as JSON and as a table.
#![expect(clippy::float_arithmetic, reason = "rates and times of measurements; no money")]

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use serde_json::{Value, json};
use upesi_process::exit::Failure;

use super::upkeep::Upkeep;
use crate::Environment;
use crate::failures::software;
use crate::judge::objectives::{Objective, ObjectiveResult};
use crate::result::evidence::Provenance;
use crate::statistics::{median, part};

/// Plots of the suite's page against the number of transfers: a heading, and the member of each step's result.
const PLOTS: [(&str, &str); 8] = [
    ("Throughput", "throughput_per_s"),
    ("Throughput, in per cent of an empty hub's", "throughput_of_empty_percent"),
    ("Latency under load, p99", "load_p99_ms"),
    ("Longest wait under load", "load_max_ms"),
    ("Memory under load, MiB", "hub_rss_loaded_mb"),
    ("Start-up", "restart_ms"),
    ("Disk per transfer beyond the journal, bytes", "disk_bytes_per_transfer"),
    ("Longest stall while filling", "fill_pause_ms"),
];

/// Times of lookups, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    pub count: u64,
    pub mean_ns: u64,
    pub p99_ns: u64,
}

impl Times {
    pub(super) fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let count = times.len() as u64;
        let sum: u64 = times.iter().sum();
        let p99_ns = times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(0);
        Self { count, mean_ns: sum / count.max(1), p99_ns }
    }
}

/// The result of one run of transfers through a hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LoadResult {
    pub per_s: f64,
    /// 99th percentile of latency, in milliseconds.
    pub p99_ms: f64,
    pub max_ms: f64,
    pub cpu_us: Option<f64>,
}

/// The measurements at one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    pub transfers: u64,
    pub fill_per_s: u64,
    /// Transfers created per second at the end: for the last million, or for all since the previous step.
    pub fill_last_part_per_s: u64,
    /// CPU of the process per transfer, all threads, in nanoseconds.
    pub fill_cpu_ns: u64,
    /// The longest time between two finished transfers, in milliseconds.
    pub pause_max_ms: u64,
    /// Commands that had to be repeated because the archive was behind.
    pub refusals: u64,
    pub fill_rss_bytes: u64,
    pub hit: Times,
    /// Times of lookups of ids that were never used.
    pub miss: Times,
    /// Number of these lookups that had to read the disk.
    pub misses_read: u64,
    pub filter_bytes: u64,
    pub divisions: u64,
    pub archive_bytes: u64,
    pub journal_bytes: u64,
    pub snapshot_bytes: u64,
    /// Time from the start of the hub's process to `GET /health` 200, in milliseconds.
    pub restart_ms: u64,
    /// The hub's memory at that moment, in bytes.
    pub restart_rss_bytes: u64,
    /// The hub's memory five seconds later, in bytes.
    pub hub_rss_bytes: u64,
    pub restart_cpu_ms: u64,
    /// Transfers per second through the hub, if requested: the median of `loads`.
    pub load_per_s: Option<f64>,
    pub load_p99_ms: Option<f64>,
    pub load_max_ms: Option<f64>,
    /// Median of the hub's CPU per transfer, in microseconds.
    pub load_cpu_us: Option<f64>,
    /// Transfers per second through an empty hub, measured in turn with this one: the median of `empty_loads`.
    pub empty_per_s: Option<f64>,
    pub empty_p99_ms: Option<f64>,
    pub loads: Vec<LoadResult>,
    /// The runs through the empty hub.
    pub empty_loads: Vec<LoadResult>,
    /// Maximum memory of the hub during the load, in bytes.
    pub hub_rss_loaded_bytes: u64,
}

impl Row {
    /// The main figures in one line.
    pub fn line(&self) -> String {
        format!(
            "{} transfers: {}/s, pause {} ms, archive {} bytes each, restart {} ms, hub {} MB",
            self.transfers,
            self.fill_last_part_per_s,
            self.pause_max_ms,
            self.archive_bytes / self.transfers.max(1),
            self.restart_ms,
            self.hub_rss_bytes >> 20
        )
    }

    /// Enters the runs through the hub and through an empty one.
    pub(super) fn note_loads(&mut self, loads: Vec<LoadResult>, empty_loads: Vec<LoadResult>) {
        let middle = |loads: &[LoadResult], of: fn(&LoadResult) -> f64| median(loads.iter().map(of));
        self.load_per_s = middle(&loads, |load| load.per_s);
        self.load_p99_ms = middle(&loads, |load| load.p99_ms);
        self.load_max_ms = loads.iter().map(|load| load.max_ms).max_by(f64::total_cmp);
        self.load_cpu_us = median(loads.iter().filter_map(|load| load.cpu_us));
        self.empty_per_s = middle(&empty_loads, |load| load.per_s);
        self.empty_p99_ms = middle(&empty_loads, |load| load.p99_ms);
        (self.loads, self.empty_loads) = (loads, empty_loads);
    }

    /// Throughput as a part of an empty hub's.
    fn part_of_empty(&self) -> Option<f64> {
        Some(part(self.load_per_s?, self.empty_per_s?))
    }

    /// Size of archive and snapshot, in bytes per transfer.
    fn disk_each(&self) -> f64 {
        part((self.archive_bytes + self.snapshot_bytes) as f64, self.transfers as f64)
    }

    /// Maximum memory of the hub, in bytes.
    fn hub_rss_most(&self) -> u64 {
        self.hub_rss_bytes.max(self.hub_rss_loaded_bytes)
    }

    fn throughput_per_s(&self) -> f64 {
        self.load_per_s.unwrap_or(self.fill_last_part_per_s as f64)
    }

    /// The row in the form of a lab result, so that reports can show it beside others.
    fn result(&self, environment: &Environment) -> Value {
        let stage = |name: &str, times: Times| {
            json!({"stage": name, "operations": times.count,
                "mean_us": times.mean_ns as f64 / 1e3, "p99_us": times.p99_ns as f64 / 1e3})
        };
        json!({
            "schema_version": 2,
            "name": format!("growth-{}", self.transfers),
            "title": format!("{} finished transfers", self.transfers),
            "kind": "isolated",
            "unit": "transfer",
            "parameters": {"transfers": self.transfers},
            "environment": environment,
            "completed": self.transfers,
            "failed": 0,
            "throughput_per_s": self.throughput_per_s(),
            "throughput_of_empty_percent": self.part_of_empty().map(|part| part * 100.0),
            "load_p99_ms": self.load_p99_ms,
            "load_max_ms": self.load_max_ms,
            "hub_rss_loaded_mb": self.hub_rss_most() as f64 / f64::from(1 << 20),
            "restart_ms": self.restart_ms,
            "disk_bytes_per_transfer": self.disk_each(),
            "fill_pause_ms": self.pause_max_ms,
            "stages": [stage("archive_hit", self.hit), stage("archive_miss", self.miss)],
            "processes": [{
                "name": "hub",
                "cpu_us_per_operation": self.load_cpu_us.unwrap_or(self.fill_cpu_ns as f64 / 1e3),
                "rss_mb": self.hub_rss_bytes as f64 / f64::from(1 << 20),
                "rss_peak_mb": self.hub_rss_loaded_bytes.max(self.fill_rss_bytes) as f64 / f64::from(1 << 20),
            }],
            "growth": self,
        })
    }
}

/// The contents of curve.json.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub environment: Environment,
    pub dfsps: u64,
    /// Whether the journal had requests of the usual size.
    pub payloads: bool,
    /// Length of each run of transfers through a hub, in seconds; 0 without such runs.
    pub load_s: u64,
    pub rows: Vec<Row>,
    /// The maintenance that an operator did to the hub at the last step.
    pub upkeep: Option<Upkeep>,
}

impl Curve {
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.value()).unwrap_or_default() + "\n"
    }

    fn value(&self) -> Value {
        json!({"schema_version": 2, "name": "growth", "title": "A hub with a history", "kind": "isolated",
            "unit": "transfer", "environment": self.environment, "payloads": self.payloads, "load_s": self.load_s,
            "aims": judge(self), "rows": self.rows, "upkeep": self.upkeep})
    }

    pub(super) fn evidence(&self, provenance: &Provenance) -> Result<Value, Failure> {
        let mut entry = serde_json::to_value(provenance).map_err(software)?;
        entry["transfers"] = self.rows.last().map_or(0, |row| row.transfers).into();
        entry["dfsps"] = self.dfsps.into();
        entry["payloads"] = self.payloads.into();
        entry["load_s"] = self.load_s.into();
        entry["aims"] = json!(judge(self));
        entry["rows"] = json!(self.rows);
        entry["upkeep"] = json!(self.upkeep);
        Ok(entry)
    }

    /// The goals that were missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        judge(self).iter().filter_map(ObjectiveResult::missed).collect()
    }

    /// Tables of the steps, the maintenance and the objectives.
    pub(super) fn markdown(&self) -> String {
        let mut text = markdown(&self.rows);
        if let Some(upkeep) = &self.upkeep {
            text.push('\n');
            text.push_str(&upkeep.markdown());
        }
        text.push_str("\n| figure | measured | objective | |\n|---|---:|---|---|\n");
        for aim in judge(self) {
            let (relation, verdict) = (aim.relation(), if aim.is_reached { "reached" } else { "missed" });
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "| {} | {:.1} | {relation} {} {} | {verdict} |",
                aim.name, aim.median, aim.goal, aim.unit
            );
        }
        text
    }

    /// Writes curve.json, curve.md, and a suite of results with a plot for each figure.
    pub(super) fn write(&self, out: &Path) -> io::Result<()> {
        fs::create_dir_all(out)?;
        fs::write(out.join("curve.json"), serde_json::to_vec_pretty(&self.value())?)?;
        fs::write(out.join("curve.md"), self.markdown())?;
        let mut runs = Vec::new();
        for row in &self.rows {
            let name = format!("{:011}", row.transfers);
            fs::create_dir_all(out.join(&name))?;
            let result = serde_json::to_vec_pretty(&row.result(&self.environment))?;
            fs::write(out.join(&name).join("result.json"), result)?;
            runs.push(name);
        }
        let plots = PLOTS.map(|(title, y)| json!({"title": title, "x": "transfers", "y": y}));
        let suite = json!({"schema_version": 2, "name": "growth", "title": "A hub with a history",
            "runs": runs, "plots": plots});
        fs::write(out.join("suite.json"), serde_json::to_vec_pretty(&suite)?)
    }
}

/// A Markdown table, one row per step.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| finished transfers | fill/s (at the end) | CPU, µs | longest pause, ms | hit / miss, µs | disk per transfer: \
         archive / journal, bytes | restart, ms | hub, MB | transfers/s, p99 ms | empty hub: transfers/s, p99 ms |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let each = |bytes: u64| bytes / row.transfers.max(1);
        let loaded = |per_s: Option<f64>, p99_ms: Option<f64>| match (per_s, p99_ms) {
            (Some(per_s), Some(p99_ms)) => format!("{per_s:.0}, {p99_ms:.1}"),
            _ => "–".to_owned(),
        };
        let (load, empty) =
            (loaded(row.load_per_s, row.load_p99_ms), loaded(row.empty_per_s, row.empty_p99_ms));
        let _ = writeln!(
            text,
            "| {} | {} ({}) | {:.1} | {} | {:.1} / {:.2} | {} / {} | {} | {} | {load} | {empty} |",
            row.transfers,
            row.fill_per_s,
            row.fill_last_part_per_s,
            row.fill_cpu_ns as f64 / 1e3,
            row.pause_max_ms,
            row.hit.mean_ns as f64 / 1e3,
            row.miss.mean_ns as f64 / 1e3,
            each(row.archive_bytes + row.snapshot_bytes),
            each(row.journal_bytes),
            row.restart_ms,
            row.hub_rss_bytes >> 20,
        );
    }
    text
}

const MB: f64 = 1e6;

fn most(curve: &Curve, of: impl Fn(&Row) -> f64) -> f64 {
    curve.rows.iter().map(of).fold(0.0, f64::max)
}

const THROUGHPUT: Objective<Curve> =
    Objective::at_least("throughput with the whole history", "% of an empty hub's, in turn", 85.0, |curve| {
        curve.rows.last().and_then(Row::part_of_empty).map_or(0.0, |part| part * 100.0)
    });

const ALWAYS: [Objective<Curve>; 3] = [
    Objective::at_most("memory of the hub", "MB at most, at any step", 1_000.0, |curve| {
        most(curve, |row| row.hub_rss_most() as f64 / MB)
    }),
    Objective::at_most("restart", "s to serving, at any step", 5.0, |curve| {
        most(curve, |row| row.restart_ms as f64 / 1e3)
    }),
    Objective::at_most("disk beyond the journal", "bytes per transfer at the end", 300.0, |curve| {
        curve.rows.last().map_or(f64::INFINITY, Row::disk_each)
    }),
];

const UPKEEP: Objective<Curve> =
    Objective::at_least("served during upkeep", "% of the due transfers, in the worst task", 95.0, |curve| {
        curve.upkeep.as_ref().map_or(0.0, |upkeep| upkeep.served_least() * 100.0)
    });

/// Judges the curve by its figures. Throughput and maintenance are left out if they were not requested.
pub(super) fn judge(curve: &Curve) -> Vec<ObjectiveResult> {
    let throughput = (curve.load_s > 0).then_some(&THROUGHPUT);
    let upkeep = curve.upkeep.is_some().then_some(&UPKEEP);
    let aims = throughput.into_iter().chain(&ALWAYS).chain(upkeep);
    aims.map(|aim| ObjectiveResult::of(aim, std::slice::from_ref(curve))).collect()
}
