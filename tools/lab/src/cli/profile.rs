//! `upesi lab profile`: a scenario's load on a hub, and a profile of its CPU time and memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Arg, Args};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_profile::StageShares;

use super::duration;
use super::run::{self, RunArguments, commit};
use crate::failures::{cannot_create, runtime, software, unavailable, unless_any, usage};
use crate::plan::{Point, Test, Work};
use crate::{AdminClient, AdminError, HubProcess, LabResult, RunOptions, Scenario, SuitePoint, TargetHub};

/// Maximum duration of a profile. The lab waits 30 s for the admin API's response, so a profile must be shorter.
const SECONDS_MAX: u64 = 20;
/// Default load after the warm-up and before the profile.
const SETTLED: Duration = Duration::from_secs(1);
/// Load after the profile, so that all of it is under load.
const MARGIN: Duration = Duration::from_secs(2);
/// Time limit for the first operation. Parties are registered before the load starts.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE_INTERVAL: Duration = Duration::from_millis(100);
const OUT: &str = "out/profile";

/// Arguments of `upesi lab profile`: the arguments of `upesi lab run`, some with a different meaning, and the arguments
/// of the profile.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("scenario", scenario_argument), mut_arg("admin", admin_argument))]
#[command(mut_arg("out", out_argument), mut_arg("json", json_argument))]
pub struct ProfileArguments {
    /// Duration of the profile in seconds, at most 20.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub seconds: u64,
    /// Time from the start of the load to the profile, such as 30s [a second after the warm-up].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub after: Option<Duration>,
    /// Load on the hub.
    #[command(flatten)]
    pub load: RunArguments,
}

fn scenario_argument(scenario: Arg) -> Arg {
    scenario.required(false).default_value(Scenario::Transfers.name())
}

fn admin_argument(_: Arg) -> Arg {
    let help = "Base URL of that hub's admin API. Without --target: profile the hub without additional load";
    Arg::new("admin").long("admin").value_name("URL").help(help)
}

fn out_argument(out: Arg) -> Arg {
    out.help(format!(
        "Directory for profile.svg, profile.folded, shares.json, heap summaries, the run's result.json and report.html [{OUT}]"
    ))
}

fn json_argument(json: Arg) -> Arg {
    json.help("Print shares.json to stdout instead of the tables")
}

/// Profiles a hub, and prints the result.
pub fn run(arguments: &ProfileArguments) -> Outcome {
    let out = arguments.load.out.clone().unwrap_or_else(|| PathBuf::from(OUT));
    let runtime = runtime()?;
    if let (Some(url), None) = (&arguments.load.target.admin, &arguments.load.target.target) {
        fs::create_dir_all(&out).map_err(cannot_create(&out))?;
        let looker = HubProfiler::new(url, arguments.seconds, &out)?;
        runtime.block_on(async {
            looker.heap("heap-before.json").await?;
            looker.look().await
        })?;
        return tell(&out, arguments.load.json);
    }
    let points = run::plan(&arguments.load)?.points;
    let single = points.len() == 1;
    let mut runs = Vec::new();
    for SuitePoint { point, .. } in points {
        let directory = if single { out.clone() } else { out.join(point.label()) };
        // All points are checked before any of them runs: a mistake in the last must not cost the time of the others.
        runs.push((directory, arguments.to_look_at(point)?));
    }
    let mut directories = Vec::new();
    let mut broken = Vec::new();
    for (directory, (options, after)) in runs {
        fs::create_dir_all(&directory).map_err(cannot_create(&directory))?;
        let looker = |url: &str| HubProfiler::new(url, arguments.seconds, &directory);
        let result = load_and_look(options, after, &directory, &looker, &runtime)?;
        if !arguments.load.json {
            write_out(&result.table())?;
        }
        tell(&directory, arguments.load.json)?;
        if !result.audit.ok {
            broken.push(format!("{}: the audit failed, see result.json", directory.display()));
        }
        directories.push(directory);
    }
    let page = out.join("report.html");
    crate::report::write_html(&directories, &page)
        .map_err(|error| Failure::new(Exit::CannotCreate, error))?;
    eprintln!("upesi lab: the report is {}", page.display());
    unless_any(&broken)
}

impl ProfileArguments {
    /// Checks that a run can be profiled, and returns when the profile starts. One hub must be under load all the time.
    fn to_look_at(&self, point: Point) -> Result<(RunOptions, Duration), Failure> {
        let Work::EndToEnd { mut options, test } = point.work else {
            return Err(usage(
                "an isolated stage runs without a hub to profile; choose a scenario that drives a hub",
            ));
        };
        if options.alone.is_some() {
            return Err(usage("this scenario runs without a hub; choose a scenario that drives a hub"));
        }
        if matches!(test, Test::Breakpoint(_)) && self.load.rate.is_none() {
            return Err(usage(
                "a breakpoint search uses a new hub for each rate: select the rate to profile with --rate N",
            ));
        }
        // Baselines take turns with the hub. The hub would be idle for a part of the profile.
        options.baselines.clear();
        options.slices = Some(1);
        options.commit = commit();
        let after = self.after.unwrap_or(options.warm_up + SETTLED);
        let needed = after + Duration::from_secs(self.seconds) + MARGIN;
        let around = options.warm_up + options.cool_down;
        let lasts = options.load.stages_length().unwrap_or(options.duration) + around;
        if lasts < needed {
            if self.load.duration.is_some() || !options.load.stages().is_empty() {
                return Err(usage(format!(
                    "the load lasts {} s, but a profile of {} s needs {} s of it: reduce --seconds, reduce --after, or increase the load",
                    lasts.as_secs(),
                    self.seconds,
                    needed.as_secs()
                )));
            }
            options.duration = needed.saturating_sub(around);
        }
        Ok((*options, after))
    }
}

/// Starts a hub or uses a running one. Another thread drives the load while this thread takes the profile.
fn load_and_look(
    mut options: RunOptions,
    after: Duration,
    out: &Path,
    looker: &dyn Fn(&str) -> Result<HubProfiler, Failure>,
    runtime: &Runtime,
) -> Result<LabResult, Failure> {
    let data = out.join("data");
    let mut own = None;
    if options.target.is_none() {
        let hub = start_hub(&options, &data, out, runtime)?;
        options.target = Some(TargetHub {
            pids: vec![hub.pid()],
            durable: options.durable(),
            ..TargetHub::at(hub.fspiop_url(), hub.admin_url())
        });
        own = Some(hub);
    }
    options.out = Some(out.to_owned());
    let url = options.target.as_ref().map(|target| target.admin_url.clone()).unwrap_or_default();
    let looker = looker(&url)?;
    let has_ended = AtomicBool::new(false);
    let before = runtime.block_on(async {
        looker.heap("heap-before.json").await?;
        looker.answers(&options.operations()).await
    })?;
    let (looked, loaded) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let result = crate::drive::run::run(&options);
            has_ended.store(true, Ordering::Release);
            result
        });
        let looked = runtime.block_on(async {
            looker.wait_for_load(&options.operations(), before, &has_ended).await?;
            tokio::time::sleep(after).await;
            looker.look().await
        });
        (looked, load.join())
    });
    if let Some(hub) = &mut own {
        hub.end();
    }
    // If the load failed, its error explains why the profile is missing.
    let result = match loaded {
        Ok(result) => result?,
        Err(_) => return Err(software("the load ended because of a fault of the program")),
    };
    looked?;
    if own.is_some() && result.passed() {
        // The data of a failed run are evidence. After a successful run they are removed.
        let _ = fs::remove_dir_all(&data);
    }
    Ok(result)
}

fn start_hub(
    options: &RunOptions,
    data: &Path,
    out: &Path,
    runtime: &Runtime,
) -> Result<HubProcess, Failure> {
    if data.exists() {
        fs::remove_dir_all(data).map_err(cannot_create(data))?;
    }
    let binary = std::env::current_exe().map_err(unavailable)?;
    if options.existing_transfers > 0 {
        eprintln!("upesi lab: filling the hub with {} finished transfers", options.existing_transfers);
        let count = options.existing_transfers.to_string();
        let mut fill = Command::new(&binary);
        fill.args(["lab", "fill", "--transfers", &count, "--data"]).arg(data).stdout(Stdio::null());
        if !fill.status().map_err(unavailable)?.success() {
            return Err(unavailable("the hub could not be filled with transfers"));
        }
    }
    let log = out.join("hub.log");
    runtime
        .block_on(HubProcess::start(&binary, data, &options.hub_arguments, Some(&log)))
        .map_err(unavailable)
}

/// Profiles a hub through its admin API and stores the results.
struct HubProfiler {
    admin: AdminClient,
    seconds: u64,
    out: PathBuf,
}

impl HubProfiler {
    fn new(url: &str, seconds: u64, out: &Path) -> Result<Self, Failure> {
        Ok(Self { admin: AdminClient::new(url).map_err(usage)?, seconds, out: out.to_owned() })
    }

    async fn answers(&self, operations: &[Scenario]) -> Result<u64, Failure> {
        let text = self.get("/metrics").await?;
        Ok(operations.iter().map(|operation| answers(&text, *operation)).sum())
    }

    async fn wait_for_load(&self, operations: &[Scenario], before: u64, has_ended: &AtomicBool) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        while self.answers(operations).await? <= before {
            if has_ended.load(Ordering::Acquire) || Instant::now() > deadline {
                return Err(Failure::new(Exit::Failure, "the load did not begin; see hub.log"));
            }
            tokio::time::sleep(GLANCE_INTERVAL).await;
        }
        Ok(())
    }

    /// Takes one profile: stacks for other tools, and from the same samples a flame graph and the share of each stage.
    async fn look(&self) -> Outcome {
        let folded = self.get(&format!("/debug/profile?seconds={}&format=folded", self.seconds)).await?;
        crate::observe::profile::keep(&self.out, &folded, Duration::from_secs(self.seconds))
            .map_err(cannot_create(&self.out))?;
        self.heap("heap-after.json").await
    }

    async fn heap(&self, name: &str) -> Outcome {
        let path = self.out.join(name);
        fs::write(&path, self.get("/debug/heap").await?).map_err(cannot_create(&path))
    }

    async fn get(&self, path: &str) -> Result<String, Failure> {
        let body = self.admin.get(path).await.map_err(no_answer)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

/// The failure for a hub that cannot be profiled.
fn no_answer(error: AdminError) -> Failure {
    match error {
        AdminError::Refused { .. } => {
            unavailable(format!("{error}; only an Upesi hub with admin.profiling = true can be profiled"))
        }
        _ => unavailable(error),
    }
}

/// Number of answered requests of the scenario, according to the hub's metrics.
fn answers(metrics: &str, scenario: Scenario) -> u64 {
    let labels = match scenario {
        Scenario::Transfers | Scenario::ConvertedTransfers => r#"{method="POST",resource="transfers""#,
        Scenario::Bulks => r#"{method="POST",resource="bulkTransfers""#,
        Scenario::Lookups => r#"{method="GET",resource="parties/{Type}/{ID}""#,
        Scenario::Quotes | Scenario::Payments => r#"{method="POST",resource="quotes""#,
        // A combination of loads is counted by the operations of each load.
        Scenario::Parallel => return 0,
    };
    let start = format!("upesi_http_requests_total{labels}");
    let counts = metrics.lines().filter(|line| line.starts_with(&start));
    counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

// Prints a finished profile as tables for a terminal.

/// Number of lines of each list.
const SHARES_SHOWN: usize = 12;

/// Prints the largest stages and functions, and the use of memory; or only the shares, as JSON.
pub fn tell(out: &Path, as_json: bool) -> Outcome {
    let read = |name: &str| {
        let path = out.join(name);
        fs::read_to_string(&path)
            .map_err(|error| Failure::new(Exit::InputOutput, format!("{}: {error}", path.display())))
    };
    if as_json {
        return write_out(&read("shares.json")?);
    }
    let folded = read("profile.folded")?;
    let stages = StageShares::of_folded(&folded);
    let total = stages.samples;
    let mut text = format!(
        "\nCPU time by stage, of {total} samples, ± 95 %, and the parts of each stage, in % of all\n{}",
        stages.table()
    );
    text.push_str("\nby thread\n");
    text.push_str(&shares(&folded, total, first));
    text.push_str("\nby function, without the functions that it calls\n");
    text.push_str(&shares(&folded, total, last));
    text.push_str("\nmemory, before and after, in MiB\n");
    text.push_str(&memory(&heap(out, "heap-before.json"), &heap(out, "heap-after.json")));
    text.push_str(&format!(
        "\n{} for a browser; profile.folded, shares.json, heap-before.json and heap-after.json beside it\n",
        out.join("profile.svg").display()
    ));
    write_out(&text)
}

/// A heap summary, or nothing if it cannot be read: the profile is complete without it.
fn heap(out: &Path, name: &str) -> Value {
    fs::read(out.join(name)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// The memory before and after, as counted by the kernel, the allocator and the hub. Missing values are left out.
fn memory(before: &Value, after: &Value) -> String {
    let mut text = String::new();
    let mut row = |what: &str, before: Option<&Value>, after: Option<&Value>| {
        let Some(after) = after.and_then(Value::as_u64) else { return };
        let before = before.and_then(Value::as_u64).map_or_else(|| "?".to_owned(), mebibytes);
        text.push_str(&format!("  {before:>9} {:>9}  {what}\n", mebibytes(after)));
    };
    for (pointer, what) in [
        ("/process/resident", "resident, according to the kernel"),
        ("/process/residentAnonymous", "anonymous part, not mapped from files"),
        ("/allocator/inUse", "allocated, according to the allocator (jemalloc)"),
        ("/allocator/keptFree", "freed and retained by the allocator"),
        ("/allocator/bookkeeping", "bookkeeping of the allocator"),
    ] {
        row(what, before.pointer(pointer), after.pointer(pointer));
    }
    for holder in after["holders"].as_array().into_iter().flatten() {
        let what = holder["what"].as_str().unwrap_or_default();
        let earlier = before["holders"].as_array().into_iter().flatten();
        let earlier =
            earlier.filter(|earlier| earlier["what"] == what).find_map(|earlier| earlier.get("bytes"));
        row(&format!("{what}, counted by the hub"), earlier, holder.get("bytes"));
    }
    text
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn first(stack: &str) -> &str {
    stack.split(';').next().unwrap_or(stack)
}

fn last(stack: &str) -> &str {
    stack.rsplit(';').next().unwrap_or(stack)
}

/// The largest shares of the samples. A function extracts the name from a stack.
fn shares(folded: &str, total: u64, name: fn(&str) -> &str) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, count) in folded.lines().filter_map(|line| line.rsplit_once(' ')) {
        let Ok(count) = count.parse::<u64>() else { continue };
        *sums.entry(name(stack)).or_default() += count;
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let line = |(name, count): (&str, u64)| {
        let per_mille = count * 1000 / total.max(1);
        format!("  {:>3}.{} %  {name}\n", per_mille / 10, per_mille % 10)
    };
    sorted.into_iter().take(SHARES_SHOWN).map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ProfileArguments,
    }

    fn parsed(line: &str) -> ProfileArguments {
        Line::try_parse_from(["profile"].into_iter().chain(line.split_whitespace())).unwrap().arguments
    }

    fn planned(line: &str) -> Result<(RunOptions, Duration), Failure> {
        let arguments = parsed(line);
        let points = run::plan(&arguments.load)?.points;
        arguments.to_look_at(points.into_iter().next().unwrap().point)
    }

    #[test]
    fn profile_accepts_scenarios_and_flags_of_run() {
        assert_eq!(parsed("").load.scenario, "transfers");
        let look_only = parsed("--admin http://127.0.0.1:1");
        assert!(look_only.load.target.admin.is_some() && look_only.load.target.target.is_none());
        let (options, after) = planned("payments --vus 5").unwrap();
        assert_eq!((options.scenario, options.load.outstanding_max()), (Scenario::Payments, 5));
        assert_eq!(after, options.warm_up + SETTLED);
        // From a file: its settings, without the baselines, which take turns with the hub.
        let (options, _) = planned("transfers-hot-pair --hub-argument=--set=engine.durable=false").unwrap();
        assert_eq!(options.hub_arguments.last().map(String::as_str), Some("--set=engine.durable=false"));
        assert!(options.baselines.is_empty() && options.slice_count() == 1);
        let points = run::plan(&parsed("ablations").load).unwrap().points;
        assert!(points.len() > 5, "each run of a sweep is profiled");
    }

    #[test]
    fn load_is_extended_to_the_length_of_the_profile() {
        let (options, after) = planned("smoke --seconds 20 --after 30s").unwrap();
        assert_eq!(after, Duration::from_secs(30));
        assert!(options.warm_up + options.duration + options.cool_down >= Duration::from_secs(52));
        let (options, _) = planned("transfers --duration 40s --seconds 5").unwrap();
        assert_eq!(options.duration, Duration::from_secs(40));
    }

    #[test]
    fn run_without_a_loaded_hub_is_rejected_before_the_start() {
        for (line, reason) in [
            ("journal-alone", "an isolated stage"),
            ("forwarder-only", "without a hub"),
            ("breakpoint", "--rate N"),
            ("transfers --duration 4s", "the load lasts"),
            ("no-such-scenario", "there is no scenario"),
        ] {
            let error = planned(line).unwrap_err();
            assert!(error.to_string().contains(reason), "{line}: {error}");
        }
        assert!(planned("breakpoint --rate 300").is_ok());
    }

    #[test]
    fn answers_are_counted_by_scenario() {
        let metrics = "upesi_http_requests_total{method=\"POST\",resource=\"quotes\",status=\"202\"} 7\n\
            upesi_http_requests_total{method=\"POST\",resource=\"quotes\",status=\"400\"} 1\n\
            upesi_http_requests_total{method=\"POST\",resource=\"transfers\",status=\"202\"} 3\n";
        assert_eq!(answers(metrics, Scenario::Quotes), 8);
        assert_eq!(answers(metrics, Scenario::Transfers), 3);
        assert_eq!(answers(metrics, Scenario::Lookups), 0);
    }

    #[test]
    fn shares_are_sorted_by_size() {
        let folded = "engine;run;write 6\nedge;poll 3\nengine;run 1\nno count\n";
        assert_eq!(shares(folded, 10, first), "   70.0 %  engine\n   30.0 %  edge\n");
        assert_eq!(shares(folded, 10, last), "   60.0 %  write\n   30.0 %  poll\n   10.0 %  run\n");
    }

    #[test]
    fn memory_is_printed_as_counted_by_kernel_allocator_and_hub() {
        let summary = |resident: u64, bytes: u64| {
            serde_json::json!({
                "process": { "resident": resident << 20 },
                "allocator": null,
                "holders": [
                    { "what": "transfers", "count": 3, "bytes": bytes },
                    { "what": "lanes", "count": 2, "bytes": null },
                ],
            })
        };
        let text = memory(&summary(40, 1 << 19), &summary(52, 3 << 20));
        assert_eq!(
            text,
            "       40.0      52.0  resident, according to the kernel\n        0.5       3.0  transfers, counted by the hub\n"
        );
        assert_eq!(memory(&Value::Null, &Value::Null), "");
    }
}
