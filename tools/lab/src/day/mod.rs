//! `upesi lab day`: a hub with a realistic day of 8 DFSPs, for learning and for pictures of the console.
//!
//! 1. `day.toml` contains the story of the day; `plan` draws all payments from it and from the seed.
//! 2. `play` starts a hub and simulated DFSPs, and makes the payments hour by hour.
//! 3. `operators` makes the commands of the story, with the decisions of a second person.
//! 4. `counts` reads the state of the hub at the end from the admin API. `upesi audit` verifies its data.

mod counts;
mod operators;
mod plan;
mod play;
mod story;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::Instant;
use upesi_http::Workers;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::signals::stop_signal;
use upesi_process::terminal::Escaping;

use self::counts::Counts;
use self::operators::Operators;
use self::plan::Plan;
use self::play::{Day, Ends, hub_settings, simulator};
use self::story::Story;
use crate::HubProcess;
use crate::failures::{cannot_create, runtime, unavailable};

const STORY: &str = include_str!("day.toml");
const SCHEME: &str = include_str!("scheme.toml");
/// Base URL of the simulators in the scheme file.
const SCHEME_BASE_URL: &str = "http://127.0.0.1:5000/{name}";
/// The DFSPs of the scheme file, in their order.
const DFSPS: [&str; 8] = [
    "greenbank",
    "bluewallet",
    "coopbank",
    "lakemobile",
    "summitbank",
    "farmersacco",
    "metropay",
    "forexhouse",
];
/// The hub of a day is always new, so that the seed alone determines all ids.
const NONCE: u64 = 0;
const SIMULATORS_STOP: Duration = Duration::from_secs(5);
/// Files of an earlier day. Nothing else is removed.
const FILES: [&str; 10] = [
    "data",
    "hub.log",
    "hub.toml",
    "scheme.toml",
    "plan.json",
    "summary.json",
    "bootstrap.token",
    "iam-1.token",
    "deploy.token",
    "amina.token",
];

/// Arguments of `upesi lab day`.
#[derive(Args, Clone, Debug)]
pub struct DayArguments {
    /// Determines all payments and their ids.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of ordinary payments. The groups of special payments grow with it.
    #[arg(long, value_name = "N", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u64).range(50..=20_000))]
    pub transfers: u64,
    /// Keep hub and simulators running at the end, until Ctrl-C.
    #[arg(long)]
    pub keep: bool,
    /// Keep authentication on: the console then needs a login of a user.
    #[arg(long)]
    pub login: bool,
    /// Only print the plan: all payments and its digest, as JSON.
    #[arg(long, conflicts_with_all = ["keep", "login", "json"])]
    pub plan: bool,
    /// Directory for the hub's data, its log, and the operators' tokens; emptied first.
    #[arg(long, value_name = "DIR", default_value = "out/day")]
    pub out: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Program to start as the hub; by default this one.
    #[arg(long, value_name = "FILE", hide = true)]
    pub binary: Option<PathBuf>,
}

/// The result of a day.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    seed: u64,
    transfers: u64,
    /// SHA-256 of the plan.
    plan: String,
    seconds: u64,
    /// The payments as the payers saw them.
    payments: Ends,
    /// The state of the hub, by its admin API.
    hub: Counts,
    fspiop: String,
    admin: String,
    console: String,
    data: PathBuf,
}

/// Plans a day and plays it.
pub fn run(arguments: &DayArguments) -> Outcome {
    let story = story()?;
    let dfsps = DFSPS.map(str::to_owned).to_vec();
    let plan = Plan::draw(&story, dfsps, arguments.seed, arguments.transfers).map_err(failed)?;
    if arguments.plan {
        return write_out(&printed_plan(&plan)?);
    }
    let out = std::path::absolute(&arguments.out).map_err(cannot_create(&arguments.out))?;
    empty(&out)?;
    std::fs::write(out.join("plan.json"), printed_plan(&plan)?).map_err(cannot_create(&out))?;
    let workers = Arc::new(Workers::start(2, "day").map_err(unavailable)?);
    let outcome = runtime()?.block_on(play(arguments, &story, &plan, &out, &workers));
    workers.shutdown();
    outcome
}

async fn play(
    arguments: &DayArguments,
    story: &Story,
    plan: &Plan,
    out: &Path,
    workers: &Arc<Workers>,
) -> Outcome {
    let began = Instant::now();
    let (data, hub_file) = (out.join("data"), out.join("hub.toml"));
    let binary = arguments.binary.clone().map_or_else(std::env::current_exe, Ok).map_err(unavailable)?;
    say(format_args!(
        "A day of {} payments with seed {}: upesi lab day --seed {} --transfers {}",
        plan.count(),
        plan.seed,
        plan.seed,
        arguments.transfers
    ));
    say("The day is compressed: 24 hours pass in less than a minute, and the hub records the real times.");
    say(format_args!("Plan sha256:{}", plan.digest()));
    std::fs::write(&hub_file, hub_settings(story, true)).map_err(cannot_create(&hub_file))?;
    let settings = ["--config".to_owned(), hub_file.display().to_string()];
    let hub = HubProcess::start(&binary, &data, &settings, Some(&out.join("hub.log"))).await;
    let hub = hub.map_err(unavailable)?;
    let simulator = simulator(plan, &hub, workers)?;
    let base_url = format!("http://{}/{{name}}", simulator.local_addr());
    let scheme = out.join("scheme.toml");
    std::fs::write(&scheme, SCHEME.replace(SCHEME_BASE_URL, &base_url)).map_err(cannot_create(&scheme))?;
    let operators = Operators { binary, out: out.to_owned(), data: data.clone(), admin_url: hub.admin_url() };
    let mut day = Day {
        story,
        plan,
        hub,
        simulator,
        workers,
        operators,
        is_authenticated: true,
        needs_login: arguments.login,
        hub_file: &hub_file,
    };
    let payments = day.play().await?;
    let summary = Summary {
        seed: plan.seed,
        transfers: arguments.transfers,
        plan: plan.digest(),
        seconds: began.elapsed().as_secs(),
        payments,
        hub: Counts::read(&day.api()?).await.map_err(unavailable)?,
        fspiop: day.hub.fspiop_url(),
        admin: day.hub.admin_url(),
        console: format!("{}/console", day.hub.admin_url()),
        data,
    };
    day.operators.audit()?;
    show(arguments, &summary, out)?;
    if arguments.keep {
        say("Hub and simulators keep running. Ctrl-C ends them.");
        stop_signal().await;
    }
    day.simulator.shutdown(Instant::now() + SIMULATORS_STOP).await;
    day.hub.end();
    Ok(())
}

/// Prints the summary, and the next steps.
fn show(arguments: &DayArguments, summary: &Summary, out: &Path) -> Outcome {
    let json = serde_json::to_string_pretty(summary).map_err(failed)? + "\n";
    let file = out.join("summary.json");
    std::fs::write(&file, &json).map_err(cannot_create(&file))?;
    if arguments.json {
        return write_out(&json);
    }
    let mut text = format!("The hub after {} s:\n", summary.seconds);
    for line in summary.hub.lines() {
        text += &line;
        text.push('\n');
    }
    text += "   audit                   holds\n";
    let data = summary.data.display();
    if !arguments.keep {
        text += &format!(
            "To look at the day again: upesi serve --data {data}\nTo keep the hub running with its DFSPs: add --keep\n"
        );
        return write_out(&text);
    }
    text += &format!("The console: {}\n", summary.console);
    if arguments.login {
        let (admin, out) = (&summary.admin, out.display());
        text += &format!(
            "The hub requires a login. To create a user with a second factor:\n   upesi admin create you --role auditor \
             --person --enrol --admin {admin} --token-file {out}/iam-1.token\n"
        );
    }
    text += &format!("The admin API: {}. The data: {data}\n", summary.admin);
    write_out(&text)
}

fn story() -> Result<Story, Failure> {
    toml::from_str(STORY).map_err(|error| Failure::new(Exit::Software, format!("day.toml: {error}")))
}

/// The plan as JSON, one payment per line.
fn printed_plan(plan: &Plan) -> Result<String, Failure> {
    let mut text = format!("{{\"digest\":\"{}\",\"seed\":{},\"payments\":[\n", plan.digest(), plan.seed);
    let payments: Result<Vec<_>, _> =
        plan.hours.iter().chain(&plan.groups).flatten().map(serde_json::to_string).collect();
    text += &payments.map_err(failed)?.join(",\n");
    text += "\n]}\n";
    Ok(text)
}

/// Removes the files of an earlier day, and nothing else.
fn empty(out: &Path) -> Outcome {
    for name in FILES {
        let path = out.join(name);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_create(&path)(error)),
            _ => {}
        }
    }
    std::fs::create_dir_all(out).map_err(cannot_create(out))
}

/// Prints a line of the day on stderr.
fn say(text: impl Display) {
    let _ = writeln!(Escaping::new(io::stderr().lock()), "{text}");
}

fn failed(why: impl Display) -> Failure {
    Failure::new(Exit::Failure, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_has_the_dfsps_and_the_currencies_of_the_story() {
        let scheme = upesi_client::scheme::reading::parse("scheme.toml", SCHEME).unwrap();
        let names: Vec<_> = scheme.dfsps.iter().map(|dfsp| dfsp.name.as_str()).collect();
        assert_eq!(names, DFSPS);
        for flow in &story().unwrap().traffic.currencies {
            for dfsp in scheme.dfsps.iter().filter(|dfsp| flow.weights.contains_key(&dfsp.name)) {
                let has_account = dfsp.accounts.keys().any(|currency| currency.as_str() == flow.currency);
                assert!(has_account, "{} in {}", dfsp.name, flow.currency);
            }
        }
        assert!(SCHEME.contains(SCHEME_BASE_URL));
    }
}
