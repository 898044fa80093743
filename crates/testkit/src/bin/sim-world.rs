//! Replays worlds: `sim-world --seed S [--events] [--step N]`, `sim-world --seeds A..B`.

use std::process::ExitCode;

use upesi_testkit::Plan;
use upesi_testkit::world::run;

fn main() -> ExitCode {
    let plan = Plan::default();
    let mut bad = 0;
    let args: Vec<String> = std::env::args().collect();
    let (a, b): (u64, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    for seed in a..b {
        let plan = Plan { keep_log: args.len() > 3, ..plan.clone() };
        let outcome = run(seed, &plan);
        for line in &outcome.log {
            eprintln!("{line}");
        }
        if !outcome.is_sound() || b - a < 5 {
            bad += 1;
            eprintln!(
                "seed {seed}: {:#?} {:?} events {} us {}",
                outcome.findings, outcome.counts, outcome.events, outcome.simulated_us
            );
        }
    }
    eprintln!("{bad} bad");
    ExitCode::SUCCESS
}
