//! An operator's maintenance of a hub that continues to serve: backups, a restore with its audit, and the export and
//! removal of the oldest part of the history. Each is measured by its time, its bytes, and its effect on DFSPs.
//!
//! The hub runs in this process, because transfers can be removed after a day at the earliest. For that part, the hub's
//! clock is set ahead.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use upesi_client::settlement::{self, Action, HubOptions, Job};
use upesi_engine::{Clock, SystemClock};
use upesi_ledger::SettlementState;
use upesi_node::Hub;
use upesi_node::logging::LogControl;
use upesi_offline::audit;
use upesi_offline::backup::{BackupArguments, BackupReport, RestoreArguments, backup, restore};
use upesi_process::exit::{Exit, Failure};
use upesi_process::times::Zone;
use upesi_settings::Sources;
use upesi_tables::archive::{Archive, ArchiveOptions, Division, FjallArchive};
use upesi_types::Timestamp;

use super::steady::{ServedPart, SteadyLoad};
use crate::failures::{cannot_create, runtime, software};
use crate::observe::process::directory_bytes;
use crate::statistics::part;

const DAY_MS: i64 = 86_400_000;
/// Margin above the required age of the oldest part. The next part ends later than that.
const AFTER_ITS_DAY_MS: i64 = 1_000;
/// Maximum time to wait for the removal of the oldest part.
const LEAVE_WAIT_MAX: Duration = Duration::from_secs(2 * 3600);
const LEAVE_WAIT_STEP: Duration = Duration::from_millis(20);
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// One task, or an idle period for comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Task {
    /// The load served during the task, with the task's name and duration.
    #[serde(flatten)]
    pub served: ServedPart,
    pub bytes: u64,
}

/// All tasks in order; the first is the idle period.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Upkeep {
    pub rate_per_s: u32,
    pub left: u64,
    pub tasks: Vec<Task>,
}

impl Upkeep {
    /// The minimum part of the requested load that was served during any task, 0 to 1.
    pub(super) fn served_least(&self) -> f64 {
        let served = |task: &Task| part(task.served.committed as f64, task.served.offered as f64);
        // A task that ended before any transfer was due shows nothing.
        let asked = self.tasks.iter().filter(|task| task.served.offered > 0);
        asked.map(served).fold(1.0, f64::min)
    }

    /// A Markdown table, one row per task.
    pub(super) fn markdown(&self) -> String {
        use std::fmt::Write as _;
        let mut text = format!(
            "| meanwhile, at {} transfers/s | seconds | bytes | committed of due | per second | p50, ms | p99, ms | longest, ms |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|\n",
            self.rate_per_s
        );
        for Task { served, bytes } in &self.tasks {
            // Writing to a String does not fail.
            let ServedPart { meanwhile, seconds, committed, offered, committed_per_s, .. } = served;
            let ServedPart { p50_ms, p99_ms, max_ms, .. } = served;
            let _ = writeln!(
                text,
                "| {meanwhile} | {seconds:.1} | {bytes} | {committed} of {offered} | {committed_per_s:.0} | {p50_ms:.1} | \
                 {p99_ms:.1} | {max_ms:.0} |"
            );
        }
        text
    }
}

pub(super) struct Plan<'a> {
    pub(super) data: &'a Path,
    pub(super) dfsps: usize,
    pub(super) rate_per_s: u32,
    /// Duration of the idle period, for comparison.
    pub(super) quiet: Duration,
}

/// The machine's clock, set ahead by some time.
#[derive(Debug, Default)]
struct ClockAhead(AtomicI64);

impl Clock for ClockAhead {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_ms(self.0.load(Ordering::Acquire))
    }
}

/// Does the whole maintenance. Afterwards the directory's clock is a day ahead.
pub(super) fn run(plan: &Plan<'_>) -> Result<Upkeep, Failure> {
    let places = WorkDirectories::beside(plan.data);
    places.clear()?;
    let (oldest, last_time) = oldest(&plan.data.join("archive"))?;
    let clock = Arc::new(ClockAhead::default());
    let hub = start(plan.data, &places.export, Arc::clone(&clock) as _)?;
    let runtime = runtime()?;
    let url = |address: std::net::SocketAddr| format!("http://{address}");
    let nonce = SystemClock.now().as_ns().unsigned_abs();
    let (fspiop, admin) = (url(hub.fspiop_address()), url(hub.admin_address()));
    let load = SteadyLoad::start(&fspiop, &admin, plan.dfsps, plan.rate_per_s, nonce);
    let load = runtime.block_on(load)?;
    let leave = || {
        settle(&admin)?;
        let ahead_ms = last_time.plus_ms(DAY_MS + AFTER_ITS_DAY_MS).ms_since(SystemClock.now());
        clock.0.store(ahead_ms.max(0), Ordering::Release);
        hub.apply_retention();
        let failure = || hub.retention_failure();
        wait_until_left(&plan.data.join("archive"), oldest.first_seq, failure)
    };
    let bytes = tasks(plan, &places, &load, leave);
    let served = load.finish();
    runtime.block_on(hub.shutdown(SHUTDOWN_PATIENCE));
    let bytes = bytes?;
    places.clear()?;
    let tasks = served.into_iter().zip(bytes).map(|(served, bytes)| Task { served, bytes }).collect();
    Ok(Upkeep { rate_per_s: plan.rate_per_s, left: oldest.transfers_estimate, tasks })
}

/// Runs the tasks in order. Returns the bytes of each.
fn tasks(
    plan: &Plan<'_>,
    places: &WorkDirectories,
    load: &SteadyLoad,
    leave: impl FnOnce() -> Result<(), Failure>,
) -> Result<[u64; 5], Failure> {
    load.begin("nothing");
    std::thread::sleep(plan.quiet);
    load.begin("backup");
    let first = copy(plan.data, &places.backup)?;
    load.begin("backup again, into the same directory");
    let second = copy(plan.data, &places.backup)?;
    load.begin("restore of it elsewhere, with audit");
    // The audit is a part of the restore, and its failure is an error.
    let restored = restore(&RestoreArguments {
        from: places.backup.clone(),
        data: places.restored.clone(),
        alone: false,
        accept_findings: false,
        json: false,
    })?;
    if !restored.audit.is_sound() {
        return Err(Failure::new(Exit::Data, audit::to_text(&restored.audit)));
    }
    load.begin("export of the oldest part to Parquet, and its removal");
    leave()?;
    let exported = directory_bytes(&places.export);
    Ok([0, first.bytes_copied, second.bytes_copied, restored.bytes, exported])
}

/// Closes the open window and settles it, because transfers in a window that is not settled are not removed.
fn settle(admin_url: &str) -> Result<(), Failure> {
    let name = "upkeep".parse().map_err(software)?;
    let job = Action::Run(Job::unattended(name, SettlementState::Settled));
    let (admin_url, wait) = (admin_url.to_owned(), Duration::ZERO);
    let options =
        HubOptions { admin_url, admin_tls: None, admin_token: None, wait, json: false, zone: Zone::utc() };
    runtime()?.block_on(settlement::run(&options, &job, &mut std::io::sink()))
}

fn copy(data: &Path, to: &Path) -> Result<BackupReport, Failure> {
    backup(&BackupArguments { data: data.to_owned(), to: to.to_owned(), json: false })
}

/// The archive's oldest division, or its only one, and the end of its last transfer. This division is removed. No hub
/// is using the archive.
fn oldest(archive: &Path) -> Result<(Division, Timestamp), Failure> {
    let failed = |error: upesi_tables::TablesError| Failure::new(Exit::InputOutput, error);
    let archive = FjallArchive::open(archive, &ArchiveOptions::default()).map_err(failed)?;
    if archive.divisions().len() < 2 {
        archive.divide().map_err(failed)?;
    }
    let oldest = archive.divisions().first().copied();
    let oldest = oldest.and_then(|division| Some((division, division.last_time?)));
    oldest.ok_or_else(|| Failure::new(Exit::Failure, "the archive has no division to remove"))
}

fn start(data: &Path, export: &Path, clock: Arc<dyn Clock>) -> Result<Hub, Failure> {
    let flags = [
        ("data.dir", data.display().to_string()),
        ("data.keep_segments", "needed".to_owned()),
        ("fspiop.listen", "127.0.0.1:0".to_owned()),
        ("admin.listen", "127.0.0.1:0".to_owned()),
        // The DFSPs' clocks are not set ahead.
        ("fspiop.completed_timestamp_age_s_max", "604800".to_owned()),
        // The validity of transfers must exceed that, too.
        ("hub.transfer_validity_max_s", "31536000".to_owned()),
        ("archive.keep_days", "1".to_owned()),
        ("archive.export_dir", export.display().to_string()),
        ("archive.export_format", "parquet".to_owned()),
    ];
    let flags = flags.into_iter().map(|(key, value)| ("upkeep".to_owned(), key.to_owned(), value));
    let sources = Sources { flags: flags.collect(), ..Sources::default() };
    let effective =
        upesi_settings::load(&sources).map_err(|mistakes| software(upesi_settings::describe(&mistakes)))?;
    Hub::start(&effective.settings, LogControl::detached(), clock)
        .map_err(|error| Failure::new(error.exit(), error))
}

/// Waits until a division's files are gone. Fails if the hub reports that it could not export or remove them.
pub(super) fn wait_until_left(
    archive: &Path,
    first_seq: u64,
    failure: impl Fn() -> Option<String>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    // A division's file is `<first_seq>`; during the removal, its name has an additional ending.
    let is_there = || -> std::io::Result<bool> {
        for entry in fs::read_dir(archive)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.get(..20)?.parse::<u64>().ok());
            if number == Some(first_seq) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    while is_there().map_err(|error| Failure::new(Exit::InputOutput, error))? {
        if let Some(failure) = failure() {
            let text = format!("the oldest part of the archive was not removed: {failure}");
            return Err(Failure::new(Exit::Failure, text));
        }
        if begun.elapsed() > LEAVE_WAIT_MAX {
            return Err(Failure::new(Exit::Failure, "the oldest part of the archive was not removed"));
        }
        std::thread::sleep(LEAVE_WAIT_STEP);
    }
    Ok(())
}

/// Directories beside the data directory, which are removed at the end.
struct WorkDirectories {
    backup: PathBuf,
    restored: PathBuf,
    export: PathBuf,
}

impl WorkDirectories {
    fn beside(data: &Path) -> Self {
        let [backup, restored, export] =
            ["backup", "restored", "export"].map(|what| super::beside(data, what));
        Self { backup, restored, export }
    }

    fn clear(&self) -> Result<(), Failure> {
        for place in [&self.backup, &self.restored, &self.export] {
            match fs::remove_dir_all(place) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(cannot_create(place)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
