//! What is measured at a step.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{HubProcess, Usage};
use serde_json::Value;
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Stored as _, Transfer};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};

use super::report::{Loaded, Row, Times};
use super::{GrowArguments, beside, milliseconds, this_program};
use crate::fill::transfer_id;
use upesi_hub::exit::{Exit, Failure};

/// How long a hub that was just started is left alone before its memory is read: it reads its filters meanwhile.
const SETTLE: Duration = Duration::from_secs(5);
/// How long it is waited for filters.
const FILTERS_WAIT_MAX: Duration = Duration::from_secs(120);
const FILTERS_WAIT_STEP: Duration = Duration::from_millis(20);
/// Blocks as `stat` counts them, in bytes.
const BLOCK_BYTES: u64 = 512;

/// What the files below a directory take on the disk, in bytes; room that was only reserved counts too.
pub(super) fn disk_bytes(path: &Path) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::InputOutput, error);
    let mut bytes = 0;
    for file in fs::read_dir(path).map_err(failed)? {
        let file = file.map_err(failed)?;
        bytes += match file.metadata() {
            Ok(found) if found.is_dir() => disk_bytes(&file.path())?,
            Ok(found) => found.blocks() * BLOCK_BYTES,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(failed(error)),
        };
    }
    Ok(bytes)
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Asks the archive for transfers that it has and for ids that it has not, as the duplicate check of a prepare does. No
/// engine has it open, and its filters are read.
pub(super) fn lookups(
    path: &Path,
    seed: u64,
    present: u64,
    count: u64,
    row: &mut Row,
) -> Result<(), Failure> {
    let failed = |error: upesi_tables::TablesError| Failure::new(Exit::InputOutput, error);
    let archive = FjallArchive::open(path, &ArchiveOptions::default()).map_err(failed)?;
    let opened = Instant::now();
    while !archive.stats().filter_ready && opened.elapsed() < FILTERS_WAIT_MAX {
        std::thread::sleep(FILTERS_WAIT_STEP);
    }
    let count = count.min(present);
    let mut times = Vec::new();
    for index in 0..count {
        // Spread over the whole history.
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

/// The same scattered numbers in each run.
fn scattered(index: u64) -> u64 {
    let mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 3
}

/// Starts the real hub on the directory, from the process to `GET /health` 200, and looks at its memory.
pub(super) fn restart(arguments: &GrowArguments, row: &mut Row) -> Result<(), Failure> {
    let binary = this_program(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Software, error))?;
    let started = Instant::now();
    let mut hub = start(&runtime, &binary, &arguments.data)?;
    row.restart_ms = milliseconds(started.elapsed());
    let usage =
        |hub: &HubProcess| Usage::of(hub.pid()).map_err(|error| Failure::new(Exit::Unavailable, error));
    row.restart_rss_bytes = usage(&hub)?.resident_bytes;
    std::thread::sleep(SETTLE);
    let settled = usage(&hub)?;
    row.hub_rss_bytes = settled.resident_bytes;
    row.restart_cpu_ms = milliseconds(settled.cpu);
    if arguments.load > 0 {
        // On the same disk.
        let empty = beside(&arguments.data, "empty");
        let cannot = |error: std::io::Error| Failure::new(Exit::CannotCreate, error);
        if empty.exists() {
            fs::remove_dir_all(&empty).map_err(cannot)?;
        }
        let mut empty_hub = start(&runtime, &binary, &empty)?;
        let (grown, of_empty) = in_turn(arguments.turns, |is_grown| {
            load(arguments, &binary, if is_grown { &hub } else { &empty_hub })
        })?;
        row.note_loads(grown, of_empty);
        empty_hub.end();
        fs::remove_dir_all(&empty).map_err(cannot)?;
        row.hub_rss_loaded_bytes = usage(&hub)?.resident_peak_bytes;
    }
    hub.end();
    Ok(())
}

fn start(runtime: &tokio::runtime::Runtime, binary: &Path, data: &Path) -> Result<HubProcess, Failure> {
    let settings = ["--set", "data.keep_segments=needed", "--log-level", "warn"].map(str::to_owned);
    let hub = HubProcess::start(binary, data, &settings, None);
    runtime.block_on(hub).map_err(|error| Failure::new(Exit::Unavailable, error))
}

/// Does something with the grown hub and with the empty one, as often as `turns`, each time the other first.
pub(super) fn in_turn<T>(
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

/// A lab run of its own process against a hub.
fn load(arguments: &GrowArguments, binary: &Path, hub: &HubProcess) -> Result<Loaded, Failure> {
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
        .map_err(|error| Failure::new(Exit::Software, error))?;
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let figure = |value: &Value| value.as_f64();
    let loaded = figure(&result["throughput_per_s"])
        .zip(figure(&result["latency_ms"]["p99"]))
        .zip(figure(&result["latency_ms"]["max"]));
    let Some(((per_s, p99_ms), max_ms)) = loaded.filter(|_| output.status.success()) else {
        return Err(Failure::new(Exit::Failure, "the lab run against a hub did not pass"));
    };
    let cpu_us = ["cpu_us_per_operation", "cpu_us_per_transfer"]
        .iter()
        .find_map(|member| result["hub"][*member].as_f64());
    Ok(Loaded { per_s, p99_ms, max_ms, cpu_us })
}
