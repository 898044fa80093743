//! Replays simulated worlds: one seed event by event, or many in a row.
//!
//! ```text
//! sim-world --seed 7                   one world: its summary
//! sim-world --seed 7 --events          one world: its summary and its event log
//! sim-world --seed 7 --step 1200       the state before event 1200, and the changes by this event
//! sim-world --seed 7 --step 1200..1220 the same for each event from 1200 to 1219
//! sim-world --seeds 0..10000           many worlds: the worlds with findings, each with the command to repeat it
//! sim-world --seeds 0..30 --bug drops-callback   many worlds with a planted bug
//! ```

use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use upesi_testkit::stepper::write_steps;
use upesi_testkit::world::{Outcome, run};
use upesi_testkit::{Bug, Faults, Plan};

/// Exit code if there are findings.
const FOUND: u8 = 1;

/// The current seed, for the message of a panic.
static PRESENT_SEED: AtomicU64 = AtomicU64::new(0);

/// Run simulated worlds.
#[derive(Debug, Parser)]
#[command(name = "sim-world")]
struct Arguments {
    /// Seed of a single world.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds of many worlds: `A..B`, without B.
    #[arg(long, value_parser = parse_range)]
    seeds: Option<Range<u64>>,
    /// Print the event log.
    #[arg(long)]
    events: bool,
    /// Print the state before this event, and the changes of this event or of several: `A..B`, without B.
    #[arg(long, requires = "seed", value_parser = parse_steps)]
    step: Option<Range<u64>>,
    /// Kinds of faults, by name, separated by commas: crashes, disk, clock, network, outages, lies, operators,
    /// ambushes, rot, retention, settlements, conversions, bulks, proxies, nodes; or `all` (all except rot and nodes),
    /// or `none`.
    #[arg(long, default_value = "all", value_parser = parse_faults)]
    faults: Faults,
    /// Bug to plant in the hub, by name.
    #[arg(long, value_enum, ignore_case = true)]
    bug: Option<Bug>,
    /// Number of DFSPs.
    #[arg(long, default_value_t = Plan::default().dfsps)]
    dfsps: usize,
    /// Number of transfers.
    #[arg(long, default_value_t = Plan::default().transfers)]
    transfers: u32,
    /// Duration of the faults, in simulated milliseconds.
    #[arg(long, default_value_t = Plan::default().trouble_ms)]
    trouble_ms: u64,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parse = |number: &str| number.parse::<u64>().map_err(|error| error.to_string());
    let (first, end) = text.split_once("..").ok_or("give two numbers with two dots between them")?;
    Ok(parse(first)?..parse(end)?)
}

fn parse_steps(text: &str) -> Result<Range<u64>, String> {
    let events = match text.parse::<u64>() {
        Ok(first) => first..first.saturating_add(1),
        Err(_) => parse_range(text)?,
    };
    if events.start == 0 || events.is_empty() {
        return Err("events are numbered from 1, and the last one is left out".to_owned());
    }
    Ok(events)
}

fn parse_faults(text: &str) -> Result<Faults, String> {
    let mut faults = Faults::NONE;
    for name in text.split(',') {
        match name {
            "all" => faults = Faults::ALL,
            "none" => faults = Faults::NONE,
            name if faults.add(name) => {}
            other => return Err(format!("{other} is not a kind of fault")),
        }
    }
    Ok(faults)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = Plan {
        dfsps: arguments.dfsps,
        transfers: arguments.transfers,
        trouble_ms: arguments.trouble_ms,
        faults: arguments.faults,
        bug: arguments.bug,
        keep_log: arguments.events,
        ..Plan::default()
    };
    let inherited = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        inherited(panic);
        let seed = PRESENT_SEED.load(Ordering::Relaxed);
        eprintln!("seed {seed} panicked; repeat with: {}", command(seed));
    }));
    let sound = match (arguments.seed, arguments.seeds, arguments.step) {
        (Some(seed), _, Some(events)) => show_steps(seed, plan, events),
        (Some(seed), _, None) => show(seed, &plan),
        (None, seeds, _) => run_many(seeds.unwrap_or(0..100), &plan),
    };
    match sound {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        // The reader has closed stdout.
        Err(_) => ExitCode::SUCCESS,
    }
}

/// The command line that repeats this one seed.
fn command(seed: u64) -> String {
    let mut command = format!("sim-world --seed {seed}");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--seed" || argument == "--seeds" {
            arguments.next();
        } else {
            command = format!("{command} {argument}");
        }
    }
    command
}

fn begin(seed: u64) {
    PRESENT_SEED.store(seed, Ordering::Relaxed);
}

fn show(seed: u64, plan: &Plan) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    writeln!(out, "seed {seed}")?;
    begin(seed);
    let outcome = run(seed, plan);
    for line in &outcome.log {
        writeln!(out, "{line}")?;
    }
    write_outcome(&mut out, &outcome)?;
    Ok(outcome.is_sound())
}

fn write_outcome(out: &mut impl io::Write, outcome: &Outcome) -> io::Result<()> {
    let simulated_ms = outcome.simulated_us / 1_000;
    writeln!(out, "{} events in {simulated_ms} simulated ms", outcome.events)?;
    writeln!(out, "log hash {:016x}", outcome.log_hash)?;
    writeln!(out, "{:#?}", outcome.counts)?;
    for finding in &outcome.findings {
        writeln!(out, "FOUND {finding}")?;
    }
    Ok(())
}

fn show_steps(seed: u64, plan: Plan, events: Range<u64>) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    begin(seed);
    let findings = write_steps(&mut out, seed, plan, events)?;
    for finding in &findings {
        writeln!(out, "FOUND {finding}")?;
    }
    Ok(findings.is_empty())
}

fn run_many(seeds: Range<u64>, plan: &Plan) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    writeln!(out, "seeds {}..{}", seeds.start, seeds.end)?;
    let mut failed = 0_u64;
    let count = seeds.end.saturating_sub(seeds.start);
    for seed in seeds {
        begin(seed);
        let outcome = run(seed, plan);
        if !outcome.is_sound() {
            failed += 1;
            for line in &outcome.log {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "seed {seed}: {}", outcome.findings.join("; "))?;
            writeln!(out, "repeat with: {}", command(seed))?;
        }
    }
    writeln!(out, "{count} worlds, {failed} with findings")?;
    Ok(failed == 0)
}
