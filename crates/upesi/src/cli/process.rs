//! `upesi hub`: the process of a running hub, through its admin port.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use upesi_http::Method;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::times::ZoneArguments;
use upesi_types::text::{Escaped, url_part};

use super::calls::{Calls, done, instant_text};
use super::hub::{HubArguments, reason};

/// Maximum duration of a profile, in seconds.
const PROFILE_SECONDS_MAX: i64 = 25;

/// Subcommands of `upesi hub`.
#[derive(Debug, Subcommand)]
pub enum ProcessCommand {
    /// Show whether the hub accepts transfers, and the state of each part. Exits with code 69 if it does not.
    Health(ShownArguments),
    /// Show the hub's time and whether the machine's clock has jumped, or accept the jump.
    Clock(ClockArguments),
    /// Show the log level, or set it.
    LogLevel(LogLevelArguments),
    /// Print the metrics in Prometheus' text format.
    Metrics(MetricsArguments),
    /// Write a CPU profile of the hub as a flame graph (SVG).
    Profile(ProfileArguments),
    /// Print the hub's public keys for signatures (JSON).
    Keys(HubArguments),
    /// Print a summary of the hub's memory use (JSON).
    Heap(HubArguments),
}

/// Arguments of `upesi hub health`.
#[derive(Args, Clone, Debug)]
pub struct ShownArguments {
    /// Print the hub's response as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi hub clock`.
#[derive(Args, Clone, Debug)]
pub struct ClockArguments {
    /// Accept the jump of the machine's clock: everything that is due at the new time expires.
    #[arg(long, requires = "reason")]
    pub accept: bool,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "accept")]
    pub reason: Option<String>,
    /// Time zone of the output.
    #[command(flatten)]
    pub zone: ZoneArguments,
    /// Print the hub's response as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi hub log-level`.
#[derive(Args, Clone, Debug)]
pub struct LogLevelArguments {
    /// The level: off, error, warn, info, debug, trace, or directives such as info,upesi_delivery=debug.
    #[arg(value_name = "LEVEL")]
    pub level: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi hub metrics`.
#[derive(Args, Clone, Debug)]
pub struct MetricsArguments {
    /// Only lines that contain this text, such as the name of a metric.
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi hub profile`.
#[derive(Args, Clone, Debug)]
pub struct ProfileArguments {
    /// Duration of the profile in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(i64).range(1..=PROFILE_SECONDS_MAX))]
    pub seconds: i64,
    /// Output file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub hub: HubArguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    status: String,
    version_number: Option<String>,
    /// `empty` if there are no DFSPs.
    ledger: Option<String>,
    services: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    name: String,
    status: String,
    detail: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Clock {
    now: String,
    jump_ms: i64,
    journal_ahead_ms: i64,
    detail: Option<String>,
}

#[derive(Deserialize)]
struct LogLevel {
    level: String,
}

/// Runs a subcommand.
pub fn run(command: ProcessCommand) -> Outcome {
    match command {
        ProcessCommand::Health(arguments) => health(arguments),
        ProcessCommand::Clock(arguments) => clock(arguments),
        ProcessCommand::LogLevel(LogLevelArguments { level, hub }) => {
            let calls = Calls::to(hub)?;
            if let Some(level) = level {
                calls.send(Method::PUT, "/log-level", &json!({"level": level}))?;
            }
            done(&Escaped(&calls.get::<LogLevel>("/log-level")?.level).to_string())
        }
        ProcessCommand::Metrics(MetricsArguments { text, hub }) => {
            let all = Calls::to(hub)?.text("/metrics")?;
            let is_meant = |line: &&str| text.as_ref().is_none_or(|text| line.contains(text.as_str()));
            write_out(&all.lines().filter(is_meant).map(|line| format!("{line}\n")).collect::<String>())
        }
        ProcessCommand::Profile(ProfileArguments { seconds, out, hub }) => {
            let drawn = Calls::to(hub)?
                .text(&format!("/debug/profile?seconds={}", url_part(&seconds.to_string())))?;
            let refuse = |error| Failure::new(Exit::CannotCreate, format!("{}: {error}", out.display()));
            std::fs::write(&out, drawn).map_err(refuse)
        }
        ProcessCommand::Keys(hub) => {
            write_out(&format!("{}\n", Calls::to(hub)?.text("/signatures/keys")?.trim_end()))
        }
        ProcessCommand::Heap(hub) => {
            write_out(&format!("{}\n", Calls::to(hub)?.text("/debug/heap")?.trim_end()))
        }
    }
}

fn health(ShownArguments { json, hub }: ShownArguments) -> Outcome {
    let (is_good, text) = Calls::to(hub)?.any("/health")?;
    if json {
        write_out(&format!("{}\n", text.trim_end()))?;
    } else {
        let found: Health = serde_json::from_str(&text).map_err(|error| {
            Failure::new(Exit::Failure, format!("/health: cannot parse the response: {error}"))
        })?;
        let version = found.version_number.map(|version| format!(", version {version}")).unwrap_or_default();
        let mut lines = format!("{}{}\n", Escaped(&found.status), Escaped(&version));
        if let Some(ledger) = found.ledger {
            lines += &format!("  the ledger is {}: there is no DFSP\n", Escaped(&ledger));
        }
        for Service { name, status, detail } in found.services {
            let detail = detail.unwrap_or_default();
            lines += format!("  {:<18} {} {}", Escaped(&name), Escaped(&status), Escaped(&detail)).trim_end();
            lines.push('\n');
        }
        write_out(&lines)?;
    }
    if is_good { Ok(()) } else { Err(Failure::new(Exit::Unavailable, "the hub does not accept transfers")) }
}

fn clock(ClockArguments { accept, reason, zone, json, hub }: ClockArguments) -> Outcome {
    let calls = Calls::to(hub)?;
    if accept {
        calls.send(Method::POST, "/clock/accept", &json!({"reason": reason}))?;
    }
    if json {
        return calls.print("/clock");
    }
    let Clock { now, jump_ms, journal_ahead_ms, detail } = calls.get("/clock")?;
    let detail = detail.map(|detail| format!("; {}", Escaped(&detail))).unwrap_or_default();
    done(&format!(
        "the hub's time is {}; the machine's clock is {jump_ms} ms from it; the journal is {journal_ahead_ms} ms ahead{detail}",
        instant_text(&now, &zone.chosen())
    ))
}
