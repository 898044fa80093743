//! `upesi lab grow`: cost of a hub as its history grows, from a thousand finished transfers to a hundred million.
//!
//! The history is created through the engine, without HTTP. At each step, the lab queries the archive, starts the real
//! hub on the directory, loads it in turn with an empty one, and measures the disk. At the last step, it runs an
//! operator's maintenance while the hub serves.

mod report;
mod steady;
#[cfg(test)]
mod tests;
mod upkeep;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use upesi_engine::{Clock, EngineOptions, SystemClock};
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Stored as _, Transfer};
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};

use crate::failures::{cannot_create, runtime, software, unavailable, unless_any, usage};
use crate::fill::{FillingEngine, rate_per_s};
use crate::isolated::filler::{Payloads, transfer_id};
use crate::observe::process::directory_bytes;
use crate::result::evidence::{Evidence, Provenance, Subject};
use crate::{Environment, HubProcess, LabResult, LatencyMs, Usage};
pub use report::Row;
use report::{Curve, LoadResult, Times};

/// Default steps.
const STEPS: [u64; 7] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 30_000_000, 100_000_000];
/// If a step is longer than this number of transfers, the rate of filling is measured at its end.
const LAST_PART: u64 = 1_000_000;

/// Idle time of the hub before its upkeep, for comparison.
const UPKEEP_QUIET: Duration = Duration::from_secs(20);
const SUBJECT: Subject = Subject {
    name: "growth",
    what: "a hub with a history of finished transfers, and its upkeep while it serves",
    command: "make grow",
};

/// Arguments of `upesi lab grow`.
#[derive(Args, Clone, Debug)]
pub struct GrowArguments {
    /// A new data directory. 100 million transfers need some 20 GB. With --upkeep, a backup and a restored copy each
    /// need as much again, next to it.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Number of finished transfers at the end.
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    pub transfers: u64,
    /// Measure at these numbers of transfers; by default at 1 K, 10 K, 100 K, 1 M, 10 M, 30 M, 100 M, and at the end.
    #[arg(long = "step", value_name = "N", value_delimiter = ',')]
    pub steps: Vec<u64>,
    /// Number of DFSPs.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: u64,
    /// Number of lookups of each kind at each step.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub lookups: u64,
    /// Also write requests of the usual size to the journal; its segments are dropped as soon as they are not needed.
    #[arg(long)]
    pub payloads: bool,
    /// Seconds of load at each step, on the hub and on an empty hub in turn; 0: no load.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub load: u64,
    /// Number of turns for each hub; the result has the medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub turns: u32,
    /// At the end, make two backups into the same directory, restore and audit the backup, and move the oldest part of
    /// the archive to a Parquet file, while the hub serves this many transfers per second; 0: none of this. Do not use
    /// the directory afterwards, because its clock is a day ahead.
    #[arg(long, value_name = "RATE", default_value_t = 200)]
    pub upkeep: u32,
    /// Directory for curve.json, curve.md, and suite.json with a result.json per step. `lab report` creates plots from
    /// it.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Directory for the evidence of this run, such as docs/evidence.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print curve.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Program to start as the hub; by default this one.
    #[arg(long, value_name = "FILE", hide = true)]
    pub binary: Option<PathBuf>,
}

/// Grows the history step by step and reports the cost of each step. Fails with 1 if a goal is missed, 64 if the
/// directory is not new, 73 if files cannot be written, and 69 if the hub does not start.
pub fn run(arguments: &GrowArguments) -> Outcome {
    let started = Instant::now();
    let curve = grow(arguments)?;
    if let Some(directory) = &arguments.report {
        Evidence::add(directory, &SUBJECT, curve.evidence(&Provenance::now(started.elapsed()))?)?;
    }
    let text = if arguments.json { curve.to_json() } else { curve.markdown() };
    upesi_process::exit::write_out(&text)?;
    unless_any(&curve.missed())
}

fn grow(arguments: &GrowArguments) -> Result<Curve, Failure> {
    if arguments.data.exists() {
        return Err(usage(format!("{} exists already: name a new directory", arguments.data.display())));
    }
    fs::create_dir_all(&arguments.data).map_err(cannot_create(&arguments.data))?;
    let started_at = SystemClock.now().to_string();
    let commit = upesi_process::version::commit().map(str::to_owned);
    let mut curve = Curve {
        environment: Environment::detect(commit, started_at, &arguments.data),
        dfsps: arguments.dfsps,
        payloads: arguments.payloads,
        load_s: arguments.load,
        rows: Vec::new(),
        upkeep: None,
    };
    let mut seed = None;
    let mut present = 0;
    for step in steps(arguments) {
        let row = measure_step(arguments, &mut seed, present, step)?;
        eprintln!("{}", row.line());
        present = step;
        curve.rows.push(row);
        if let Some(out) = &arguments.out {
            // Results are written after each step: a run of an hour should leave results even if it is stopped.
            curve.write(out).map_err(cannot_create(out))?;
        }
    }
    if arguments.upkeep > 0 {
        let plan = upkeep::Plan {
            data: &arguments.data,
            dfsps: usize::try_from(arguments.dfsps).unwrap_or(usize::MAX),
            rate_per_s: arguments.upkeep,
            quiet: UPKEEP_QUIET,
        };
        curve.upkeep = Some(upkeep::run(&plan)?);
        if let Some(out) = &arguments.out {
            curve.write(out).map_err(cannot_create(out))?;
        }
    }
    Ok(curve)
}

/// A path beside the data directory, on the same disk: `DATA-what`.
fn beside(data: &Path, what: &str) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push("-");
    name.push(what);
    name.into()
}

/// The steps in ascending order, none beyond the end; the end is the last one.
fn steps(arguments: &GrowArguments) -> Vec<u64> {
    let asked = if arguments.steps.is_empty() { &STEPS[..] } else { &arguments.steps };
    let mut steps: Vec<u64> = asked.iter().copied().filter(|step| *step < arguments.transfers).collect();
    steps.push(arguments.transfers);
    steps.retain(|step| *step > 0);
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Fills up to `step` transfers, and measures.
fn measure_step(
    arguments: &GrowArguments,
    seed: &mut Option<u64>,
    present: u64,
    step: u64,
) -> Result<Row, Failure> {
    let mut row = Row { transfers: step, ..Row::default() };
    fill(arguments, seed, present, step, &mut row)?;
    let data = &arguments.data;
    let disk = |name: &str| directory_bytes(&data.join(name));
    row.archive_bytes = disk("archive");
    row.journal_bytes = disk("journal");
    row.snapshot_bytes = disk("snapshots");
    restart(arguments, &mut row)?;
    Ok(row)
}

fn fill(
    arguments: &GrowArguments,
    seed: &mut Option<u64>,
    present: u64,
    step: u64,
    row: &mut Row,
) -> Result<(), Failure> {
    let payloads = if arguments.payloads { Payloads::AsInRuns } else { Payloads::None };
    let options = EngineOptions { keep_segments: false, ..EngineOptions::new(&arguments.data) };
    let mut hub = FillingEngine::start(options, arguments.dfsps, payloads)?;
    hub.filler.seed = *seed.get_or_insert(hub.filler.seed);
    let own_usage = || Usage::own().map_err(software);
    let (cpu, started) = (own_usage()?.cpu, Instant::now());
    let part = (step - present).min(LAST_PART);
    let before = hub.fill(present, step - present - part)?;
    let part_started = Instant::now();
    let last = hub.fill(step - part, part)?;
    let (took, part_took) = (started.elapsed(), part_started.elapsed());
    let usage = own_usage()?;
    row.fill_per_s = rate_per_s(step - present, took);
    row.fill_last_part_per_s = rate_per_s(part, part_took);
    row.fill_cpu_ns = nanoseconds(usage.cpu.saturating_sub(cpu)) / (step - present).max(1);
    row.pause_max_ms = milliseconds(before.pause_max.max(last.pause_max));
    row.refusals = before.refusals + last.refusals;
    row.fill_rss_bytes = usage.resident_bytes;
    let seed = hub.filler.seed;
    // After the shutdown, all transfers are in the archive.
    hub.engine.shutdown();
    lookups(&arguments.data.join("archive"), seed, step, arguments.lookups, row)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Time between the start of a hub and the reading of its memory. Meanwhile the hub reads its filters.
const SETTLE: Duration = Duration::from_secs(5);
const FILTERS_WAIT_MAX: Duration = Duration::from_secs(120);
const FILTERS_WAIT_STEP: Duration = Duration::from_millis(20);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Queries the archive for ids that it contains and for ids that it does not contain, as the duplicate check of a
/// prepare does. No engine has the archive open, and its filters are in memory.
fn lookups(path: &Path, seed: u64, present: u64, count: u64, row: &mut Row) -> Result<(), Failure> {
    let failed = |error: upesi_tables::TablesError| Failure::new(Exit::InputOutput, error);
    let archive = FjallArchive::open(path, &ArchiveOptions::default()).map_err(failed)?;
    let opened = Instant::now();
    while !archive.stats().filter_ready && opened.elapsed() < FILTERS_WAIT_MAX {
        std::thread::sleep(FILTERS_WAIT_STEP);
    }
    let count = count.min(present);
    let mut times = Vec::new();
    for index in 0..count {
        // The ids are spread over the whole history.
        let id = transfer_id(seed, scattered(index) % present);
        let started = Instant::now();
        let found = archive.get(&id).map_err(failed)?;
        let decoded = found.as_deref().map(|bytes| Transfer::decode(&mut Decoder(bytes)));
        times.push(nanoseconds(started.elapsed()));
        if !matches!(decoded, Some(Ok(_))) {
            return Err(Failure::new(Exit::Failure, format!("transfer {id} is not in the archive")));
        }
    }
    row.hit = Times::of(times);
    let (mut times, mut asked) = (Vec::new(), 0);
    for index in 0..count {
        let id = transfer_id(!seed, index);
        let started = Instant::now();
        let must_ask = archive.may_contain(&id);
        let found = if must_ask { archive.get(&id).map_err(failed)? } else { None };
        times.push(nanoseconds(started.elapsed()));
        asked += u64::from(must_ask);
        if found.is_some() {
            return Err(Failure::new(
                Exit::Failure,
                format!("an id that was never used is in the archive: {id}"),
            ));
        }
    }
    row.miss = Times::of(times);
    row.misses_read = asked;
    let stats = archive.stats();
    row.filter_bytes = stats.filter_bytes;
    row.divisions = archive.divisions().len() as u64;
    Ok(())
}

/// A scattered number, the same in each run.
fn scattered(index: u64) -> u64 {
    let mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 3
}

/// Starts the real hub on the directory, measures the time until `GET /health` returns 200, and reads its memory.
fn restart(arguments: &GrowArguments, row: &mut Row) -> Result<(), Failure> {
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => std::env::current_exe().map_err(software)?,
    };
    let runtime = runtime()?;
    let started = Instant::now();
    let mut hub = start(&runtime, &binary, &arguments.data)?;
    row.restart_ms = milliseconds(started.elapsed());
    let usage = |hub: &HubProcess| Usage::of(hub.pid()).map_err(unavailable);
    row.restart_rss_bytes = usage(&hub)?.resident_bytes;
    std::thread::sleep(SETTLE);
    let settled = usage(&hub)?;
    row.hub_rss_bytes = settled.resident_bytes;
    row.restart_cpu_ms = milliseconds(settled.cpu);
    if arguments.load > 0 {
        // The empty hub uses the same disk.
        let empty = beside(&arguments.data, "empty");
        if empty.exists() {
            fs::remove_dir_all(&empty).map_err(cannot_create(&empty))?;
        }
        let mut empty_hub = start(&runtime, &binary, &empty)?;
        let (grown, of_empty) = in_turn(arguments.turns, |is_grown| {
            load(arguments, &binary, if is_grown { &hub } else { &empty_hub })
        })?;
        row.note_loads(grown, of_empty);
        empty_hub.end();
        fs::remove_dir_all(&empty).map_err(cannot_create(&empty))?;
        row.hub_rss_loaded_bytes = usage(&hub)?.resident_peak_bytes;
    }
    hub.end();
    Ok(())
}

fn start(runtime: &tokio::runtime::Runtime, binary: &Path, data: &Path) -> Result<HubProcess, Failure> {
    let settings = ["--set", "data.keep_segments=needed", "--log-level", "warn"].map(str::to_owned);
    let hub = HubProcess::start(binary, data, &settings, None);
    runtime.block_on(hub).map_err(unavailable)
}

/// Measures the grown hub and the empty hub `turns` times each, and changes their order each time.
fn in_turn<T>(
    turns: u32,
    mut measure: impl FnMut(bool) -> Result<T, Failure>,
) -> Result<(Vec<T>, Vec<T>), Failure> {
    let (mut grown, mut empty) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        let is_grown_first = turn % 2 == 0;
        for is_grown in [is_grown_first, !is_grown_first] {
            let measured = measure(is_grown)?;
            if is_grown { grown.push(measured) } else { empty.push(measured) }
        }
    }
    Ok((grown, empty))
}

/// A load run in a separate process against a hub.
fn load(arguments: &GrowArguments, binary: &Path, hub: &HubProcess) -> Result<LoadResult, Failure> {
    let output = Command::new(binary)
        .args([
            "lab",
            "run",
            "transfers",
            "--json",
            "--target",
            &hub.fspiop_url(),
            "--admin",
            &hub.admin_url(),
        ])
        .args(["--target-pid", &hub.pid().to_string(), "--target-durable", "true"])
        .args(["--duration", &format!("{}s", arguments.load), "--dfsps", &arguments.dfsps.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(software)?;
    let result = serde_json::from_slice::<LabResult>(&output.stdout).ok().filter(|_| output.status.success());
    let result =
        result.ok_or_else(|| Failure::new(Exit::Failure, "the lab run against a hub did not pass"))?;
    let cpu_us = result.hub.and_then(|hub| hub.cpu_us_per_operation.or(hub.cpu_us_per_transfer));
    let LatencyMs { p99: p99_ms, max: max_ms, .. } = result.latency_ms;
    Ok(LoadResult { per_s: result.throughput_per_s, p99_ms, max_ms, cpu_us })
}
