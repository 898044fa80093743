//! `upesi lab profile`: load against a hub, and meanwhile a look at where its CPU time and memory go.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use upesi_lab::{AdminClient, HubProcess, LabResult, Load, RunOptions, Scenario, TargetHub};

use super::run::write_out;
use crate::exit::{Exit, Failure, Outcome};

/// The admin API's answer is waited for 30 s, so a profile must be shorter.
const SECONDS_MAX: u64 = 20;
/// Load before and after the profile, so that all of it is under load.
const MARGIN: Duration = Duration::from_secs(3);
/// Commands after which the load is taken to be under way.
const COMMANDS_UNDER_WAY: u64 = 200;
/// How long that may take; parties are registered first.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lines of each list.
const SHARES_SHOWN: usize = 12;
const GLANCE_INTERVAL: Duration = Duration::from_millis(100);

/// What a hub is loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfiledScenario {
    /// Transfers between eight DFSPs.
    Transfers,
    /// Lookups of parties.
    Lookups,
    /// Quotes.
    Quotes,
    /// Whole payments.
    Payments,
}

/// Arguments of `upesi lab profile`.
#[derive(Args, Clone, Debug)]
pub struct ProfileArguments {
    /// What to load a fresh hub with.
    #[arg(value_enum, default_value = "transfers", conflicts_with = "admin")]
    pub scenario: ProfiledScenario,
    /// Instead: look at a hub that is running, as loaded as it is, by its admin API.
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
    /// How long to look, at most 20.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub seconds: u64,
    /// Virtual users that each do one thing to its end before they begin the next.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub vus: usize,
    /// An argument for the hub that is started, such as --hub-argument=--set=engine.durable=false. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, conflicts_with = "admin")]
    pub hub_argument: Vec<String>,
    /// Directory for profile.svg, profile.folded, heap summaries, and the run's result.json.
    #[arg(long, value_name = "DIR", default_value = "out/profile")]
    pub out: PathBuf,
}

/// Runs it.
pub fn run(arguments: &ProfileArguments) -> Outcome {
    fs::create_dir_all(&arguments.out)
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", arguments.out.display())))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unavailable)?;
    match &arguments.admin {
        Some(url) => {
            let hub = Looker { admin: AdminClient::new(url).map_err(usage)?, arguments };
            runtime.block_on(async {
                hub.keep("/debug/heap", "heap-before.json").await?;
                hub.profile().await?;
                hub.keep("/debug/heap", "heap-after.json").await
            })?;
        }
        None => load_and_look(arguments, &runtime)?,
    }
    tell(&arguments.out)
}

/// A hub of its own, load by the lab in another thread, a look from this one.
fn load_and_look(arguments: &ProfileArguments, runtime: &Runtime) -> Outcome {
    let data = arguments.out.join("data");
    if data.exists() {
        fs::remove_dir_all(&data)
            .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", data.display())))?;
    }
    let binary = std::env::current_exe().map_err(unavailable)?;
    let log = arguments.out.join("hub.log");
    let starting = HubProcess::start(&binary, &data, &arguments.hub_argument, Some(&log));
    let mut hub = runtime.block_on(starting).map_err(unavailable)?;
    let options = options(arguments, &hub);
    let looker = Looker { admin: AdminClient::new(&hub.admin_url()).map_err(usage)?, arguments };
    let (looked, loaded) = std::thread::scope(|scope| {
        let load = scope.spawn(|| upesi_lab::run(&options));
        let looked = runtime.block_on(looker.look());
        (looked, load.join())
    });
    hub.end();
    looked?;
    let result: LabResult = match loaded {
        Ok(result) => result.map_err(unavailable)?,
        Err(_) => return Err(Failure::new(Exit::Software, "the load ended by a fault of the program")),
    };
    write_out(&result.table())
}

fn options(arguments: &ProfileArguments, hub: &HubProcess) -> RunOptions {
    let scenario = match arguments.scenario {
        ProfiledScenario::Transfers => Scenario::Transfers,
        ProfiledScenario::Lookups => Scenario::Lookups,
        ProfiledScenario::Quotes => Scenario::Quotes,
        ProfiledScenario::Payments => Scenario::Payments,
    };
    RunOptions {
        scenario,
        load: Load::Closed { users: arguments.vus },
        duration: 2 * (Duration::from_secs(arguments.seconds) + MARGIN),
        out: Some(arguments.out.clone()),
        target: Some(TargetHub {
            fspiop_url: hub.fspiop_url(),
            admin_url: hub.admin_url(),
            pid: Some(hub.pid()),
            durable: None,
        }),
        ..RunOptions::default()
    }
}

struct Looker<'arguments> {
    admin: AdminClient,
    arguments: &'arguments ProfileArguments,
}

impl Looker<'_> {
    async fn look(&self) -> Outcome {
        self.keep("/debug/heap", "heap-before.json").await?;
        self.wait_for_load().await?;
        tokio::time::sleep(MARGIN).await;
        self.profile().await?;
        self.keep("/debug/heap", "heap-after.json").await
    }

    async fn wait_for_load(&self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.admin.get("/metrics").await.map_err(unavailable)?;
            if answers(&String::from_utf8_lossy(&text), self.arguments.scenario) >= COMMANDS_UNDER_WAY {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Failure::new(Exit::Failure, "the load did not begin; see hub.log"));
            }
            tokio::time::sleep(GLANCE_INTERVAL).await;
        }
    }

    /// A graph for people, then the stacks for tools, each of its own time, as only one profile is taken at once.
    async fn profile(&self) -> Outcome {
        let path = format!("/debug/profile?seconds={}", self.arguments.seconds);
        self.keep(&path, "profile.svg").await?;
        self.keep(&format!("{path}&format=folded"), "profile.folded").await
    }

    async fn keep(&self, path: &str, name: &str) -> Outcome {
        let body = self.admin.get(path).await.map_err(unavailable)?;
        self.write(name, &String::from_utf8_lossy(&body))
    }

    fn write(&self, name: &str, text: &str) -> Outcome {
        let path = self.arguments.out.join(name);
        fs::write(&path, text)
            .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", path.display())))
    }
}

/// How often the scenario's requests were answered, by the hub's metrics.
fn answers(metrics: &str, scenario: ProfiledScenario) -> u64 {
    let labels = match scenario {
        ProfiledScenario::Transfers => r#"{method="POST",resource="transfers""#,
        ProfiledScenario::Lookups => r#"{method="GET",resource="parties/{Type}/{ID}""#,
        ProfiledScenario::Quotes | ProfiledScenario::Payments => r#"{method="POST",resource="quotes""#,
    };
    let start = format!("upesi_http_requests_total{labels}");
    let counts = metrics.lines().filter(|line| line.starts_with(&start));
    counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// The threads by their share, and the functions that used most themselves.
fn tell(out: &Path) -> Outcome {
    let path = out.join("profile.folded");
    let folded = fs::read_to_string(&path)
        .map_err(|error| Failure::new(Exit::InputOutput, format!("{}: {error}", path.display())))?;
    let mut text = String::from("\nCPU time by thread\n");
    let total: u64 = stacks(&folded).map(|(_, count)| count).sum();
    text.push_str(&shares(stacks(&folded).map(|(stack, count)| (first(stack), count)), total));
    text.push_str("\nby function, what it calls not included\n");
    text.push_str(&shares(stacks(&folded).map(|(stack, count)| (last(stack), count)), total));
    text.push_str("\nmemory, before and after, in MiB\n");
    text.push_str(&memory(&heap(out, "heap-before.json"), &heap(out, "heap-after.json")));
    text.push_str(&format!(
        "\n{} for a browser; profile.folded, heap-before.json and heap-after.json beside it\n",
        out.join("profile.svg").display()
    ));
    write_out(&text)
}

/// A heap summary; nothing where it cannot be read, as the profile is what was asked for.
fn heap(out: &Path, name: &str) -> Value {
    fs::read(out.join(name)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Where memory was: as kernel, allocator and hub count it. What a summary does not name is left out.
fn memory(before: &Value, after: &Value) -> String {
    let mut text = String::new();
    let mut row = |what: &str, before: Option<&Value>, after: Option<&Value>| {
        let Some(after) = after.and_then(Value::as_u64) else { return };
        let before = before.and_then(Value::as_u64).map_or_else(|| "?".to_owned(), mebibytes);
        text.push_str(&format!("  {before:>9} {:>9}  {what}\n", mebibytes(after)));
    };
    for (pointer, what) in [
        ("/process/resident", "resident, says the kernel"),
        ("/process/residentAnonymous", "of it memory of its own, not of files"),
        (
            "/allocator/inUse",
            "handed out, says the allocator (glibc's mallinfo2; what threads keep for themselves is in it)",
        ),
        ("/allocator/keptFree", "given back and kept for later, says the allocator"),
    ] {
        row(what, before.pointer(pointer), after.pointer(pointer));
    }
    for holder in after["holders"].as_array().into_iter().flatten() {
        let what = holder["what"].as_str().unwrap_or_default();
        let earlier = before["holders"].as_array().into_iter().flatten();
        let earlier =
            earlier.filter(|earlier| earlier["what"] == what).find_map(|earlier| earlier.get("bytes"));
        row(&format!("{what}, counts the hub"), earlier, holder.get("bytes"));
    }
    text
}

/// Bytes as mebibytes with one decimal.
fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn stacks(folded: &str) -> impl Iterator<Item = (&str, u64)> {
    folded.lines().filter_map(|line| {
        let (stack, count) = line.rsplit_once(' ')?;
        Some((stack, count.parse().ok()?))
    })
}

fn first(stack: &str) -> &str {
    stack.split(';').next().unwrap_or(stack)
}

fn last(stack: &str) -> &str {
    stack.rsplit(';').next().unwrap_or(stack)
}

/// The largest shares, a line each.
fn shares<'text>(counts: impl Iterator<Item = (&'text str, u64)>, total: u64) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let line = |(name, count): (&str, u64)| {
        let per_mille = count * 1000 / total.max(1);
        format!("  {:>3}.{} %  {name}\n", per_mille / 10, per_mille % 10)
    };
    sorted.into_iter().take(SHARES_SHOWN).map(line).collect()
}

fn unavailable(error: impl Display) -> Failure {
    Failure::new(Exit::Unavailable, error)
}

fn usage(error: impl Display) -> Failure {
    Failure::new(Exit::Usage, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_shares_come_first() {
        let folded = "engine;run;write 6\nedge;poll 3\nengine;run 1\nno count\n";
        let by =
            |name: fn(&str) -> &str| shares(stacks(folded).map(|(stack, count)| (name(stack), count)), 10);
        assert_eq!(by(first), "   70.0 %  engine\n   30.0 %  edge\n");
        assert_eq!(by(last), "   60.0 %  write\n   30.0 %  poll\n   10.0 %  run\n");
    }

    #[test]
    fn memory_is_told_as_kernel_allocator_and_hub_count_it() {
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
            "       40.0      52.0  resident, says the kernel\n        0.5       3.0  transfers, counts the hub\n"
        );
        assert_eq!(memory(&Value::Null, &Value::Null), "");
    }

    #[test]
    fn load_is_under_way_when_its_requests_are_answered() {
        let metrics = "upesi_http_requests_total{method=\"POST\",resource=\"quotes\",status=\"202\"} 7\n\
            upesi_http_requests_total{method=\"POST\",resource=\"quotes\",status=\"400\"} 1\n\
            upesi_http_requests_total{method=\"POST\",resource=\"transfers\",status=\"202\"} 3\n";
        assert_eq!(answers(metrics, ProfiledScenario::Quotes), 8);
        assert_eq!(answers(metrics, ProfiledScenario::Transfers), 3);
        assert_eq!(answers(metrics, ProfiledScenario::Lookups), 0);
    }
}
