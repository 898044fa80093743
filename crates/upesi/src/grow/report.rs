//! The curve as JSON and as a table.
#![expect(clippy::float_arithmetic, reason = "rates and times of measurements; no money")]

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use serde_json::{Value, json};
use upesi_lab::Environment;

use crate::exit::{Exit, Failure};

/// Times of lookups, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// On average.
    pub mean_ns: u64,
    /// 99 of 100 took no longer.
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

/// One step of the curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Finished transfers in the directory.
    pub transfers: u64,
    /// Made per second since the step before.
    pub fill_per_s: u64,
    /// Made per second at the end: of the last million, or of all since the step before.
    pub fill_last_part_per_s: u64,
    /// CPU of the process per transfer, all threads, in nanoseconds.
    pub fill_cpu_ns: u64,
    /// The longest time in which no transfer came to its end, in milliseconds.
    pub pause_max_ms: u64,
    /// Commands that had to be repeated because the archive was behind.
    pub refusals: u64,
    /// Memory of the filling process, in bytes.
    pub fill_rss_bytes: u64,
    /// Reading a finished transfer.
    pub hit: Times,
    /// Finding that an id was never used.
    pub miss: Times,
    /// How many of those had to ask the disk.
    pub misses_read: u64,
    /// The archive's filters, in bytes.
    pub filter_bytes: u64,
    /// The archive's divisions.
    pub divisions: u64,
    /// The archive on disk, in bytes.
    pub archive_bytes: u64,
    /// The journal on disk, in bytes.
    pub journal_bytes: u64,
    /// The snapshots on disk, in bytes.
    pub snapshot_bytes: u64,
    /// From the start of the hub's process to `GET /health` 200, in milliseconds.
    pub restart_ms: u64,
    /// The hub's memory at that moment, in bytes.
    pub restart_rss_bytes: u64,
    /// The hub's memory five seconds later, in bytes.
    pub hub_rss_bytes: u64,
    /// The hub's CPU until then, in milliseconds.
    pub restart_cpu_ms: u64,
    /// Transfers per second through the hub, if asked for.
    pub load_per_s: Option<f64>,
    /// Their latency.
    pub load_p99_ms: Option<f64>,
    /// The hub's CPU for each, in microseconds.
    pub load_cpu_us: Option<f64>,
    /// The most memory that the hub took meanwhile, in bytes.
    pub hub_rss_loaded_bytes: u64,
}

impl Row {
    /// For people who wait.
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

    fn throughput_per_s(&self) -> f64 {
        self.load_per_s.unwrap_or(self.fill_last_part_per_s as f64)
    }

    /// In the form of a lab result, so that reports can show it beside others.
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

/// All steps.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The machine.
    pub environment: Environment,
    /// Whether the journal had requests of the usual size.
    pub payloads: bool,
    /// The steps, ascending.
    pub rows: Vec<Row>,
}

impl Curve {
    pub(super) fn to_json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(&self.value())
            .map_err(|error| Failure::new(Exit::Software, error))?;
        Ok(text + "\n")
    }

    fn value(&self) -> Value {
        json!({"schema_version": 2, "name": "growth", "title": "A hub with a history", "kind": "isolated",
            "unit": "transfer", "environment": self.environment, "payloads": self.payloads, "rows": self.rows})
    }

    /// Writes curve.json, curve.md, and a suite of results.
    pub(super) fn write(&self, out: &Path) -> io::Result<()> {
        fs::create_dir_all(out)?;
        fs::write(out.join("curve.json"), serde_json::to_vec_pretty(&self.value())?)?;
        fs::write(out.join("curve.md"), markdown(&self.rows))?;
        let mut runs = Vec::new();
        for row in &self.rows {
            let name = format!("{:011}", row.transfers);
            fs::create_dir_all(out.join(&name))?;
            let result = serde_json::to_vec_pretty(&row.result(&self.environment))?;
            fs::write(out.join(&name).join("result.json"), result)?;
            runs.push(name);
        }
        let indices: Vec<usize> = (0..runs.len()).collect();
        let plot = json!({"title": "Throughput by history", "x": "transfers", "y": "throughput_per_s",
            "runs": indices});
        let suite = json!({"schema_version": 2, "name": "growth", "title": "A hub with a history",
            "runs": runs, "plots": [plot]});
        fs::write(out.join("suite.json"), serde_json::to_vec_pretty(&suite)?)
    }
}

/// A Markdown table, one line per step.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| finished transfers | fill/s (at the end) | CPU, µs | longest pause, ms | hit / miss, µs | disk per transfer: \
         archive / journal, bytes | restart, ms | hub, MB | transfers/s, p99 ms |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let each = |bytes: u64| bytes / row.transfers.max(1);
        let load = match (row.load_per_s, row.load_p99_ms) {
            (Some(rate), Some(p99)) => format!("{rate:.0}, {p99:.1}"),
            _ => "–".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {} ({}) | {:.1} | {} | {:.1} / {:.2} | {} / {} | {} | {} | {load} |",
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
