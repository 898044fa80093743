//! The stepper shows the states between events: first the whole state, then the changes of each event.

use std::ops::Range;
use std::process::Command;

use upesi_testkit::stepper::{Step, Stepper, changes, write_steps};
use upesi_testkit::world::World;
use upesi_testkit::{Bug, Faults, Plan};

/// Maximum number of seeds until something must occur.
const SEEDS_MAX: u64 = 40;

/// A world that does not take long.
fn small(faults: Faults) -> Plan {
    Plan { transfers: 20, trouble_ms: 3_000, faults, ..Plan::default() }
}

fn written(seed: u64, plan: &Plan, events: Range<u64>) -> String {
    let mut out = Vec::new();
    let findings = write_steps(&mut out, seed, plan.clone(), events).expect("a vector takes everything");
    assert!(findings.is_empty(), "seed {seed}: {findings:?}");
    String::from_utf8(out).expect("text")
}

fn sorted(state: &[String]) -> Vec<String> {
    let mut state = state.to_vec();
    state.sort();
    state
}

/// The state that a reader of this text reconstructs: the lines of the start, without the removed lines and with the
/// added ones.
fn state_at_the_end_of(text: &str) -> Vec<String> {
    let mut state = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("  ")) {
        if let Some(gone) = line.strip_prefix("- ") {
            let place = state.iter().position(|one| one == gone);
            state.remove(place.unwrap_or_else(|| panic!("{gone} is gone and was not there:\n{text}")));
        } else if !line.starts_with("log ") {
            state.push(line.strip_prefix("+ ").unwrap_or(line).to_owned());
        }
    }
    sorted(&state)
}

fn says(step: &Step, text: &str) -> bool {
    step.log.iter().any(|line| line.contains(text))
}

/// Finds the first event whose log lines contain this text. Returns the state before it, the step, and the state after
/// it.
fn first_that_says(plan: &Plan, text: &str) -> (Vec<String>, Step, Vec<String>) {
    for seed in 0..SEEDS_MAX {
        let mut world = World::new(seed, Plan { keep_log: true, ..plan.clone() });
        let mut read = world.log().len();
        while world.step() {
            let news = &world.log()[read..];
            if news.iter().any(|line| line.contains(text)) {
                let mut stepper = Stepper::at(seed, plan.clone(), world.events());
                let before = stepper.state().to_vec();
                let step = stepper.step().expect("it happened before");
                eprintln!("seed {seed}, event {}: {text}", step.number);
                return (before, step, stepper.state().to_vec());
            }
            if news.iter().any(|line| line.contains("faults stop")) {
                break;
            }
            read = world.log().len();
        }
    }
    panic!("nothing says {text} in {SEEDS_MAX} worlds")
}

#[test]
fn state_after_an_event_is_the_state_before_the_next() {
    for (seed, plan) in [(3, Plan::default()), (5, Plan::rotten())] {
        let first = 1_000;
        let text = written(seed, &plan, first..first + 300);
        let events = text.lines().filter(|line| line.starts_with("event ")).count() as u64;
        assert!(events > 30, "seed {seed} has only {events} events");
        // After the first event, halfway and at the end, the state equals the state of a stepper that starts there.
        for next in [first + 1, first + events / 2, first + events] {
            let (so_far, _) = text.split_once(&format!("\nevent {next}:")).unwrap_or((text.as_str(), ""));
            let found = Stepper::at(seed, plan.clone(), next);
            assert_eq!(state_at_the_end_of(so_far), sorted(found.state()), "seed {seed}, before {next}");
        }
        assert!(text.contains("\n  log ") && text.contains("\n  - ") && text.contains("\n  + "), "{text}");
    }
}

#[test]
fn state_shows_every_part_of_the_world() {
    let stepper = Stepper::at(1, Plan::default(), 1);
    for part in [
        "world: Trouble, life 0, ",
        "clock: read +0.000000 s off, set +0.000000 s off, gains 0 in a thousand",
        "hub: record ",
        "account dfsp0 POSITION KES: ",
        "disk: ",
        "file journal/",
        "archive: applied to record ",
        "dfsp0: well",
        "dfsp3: well",
        "operator: idle, 0 to come",
    ] {
        let is_there = stepper.state().iter().any(|line| line.starts_with(part));
        assert!(is_there, "{part} is not in {:#?}", stepper.state());
    }
}

fn is_unsynced(line: &str) -> bool {
    line.contains(" unsynced in ") && !line.contains(", 0 unsynced in ")
}

/// A power loss removes unsynced bytes from each file; a kill does not. The disk of these worlds syncs nothing, so
/// there are many such bytes.
#[test]
fn crash_shows_the_loss_of_unsynced_bytes() {
    let faults = Faults { crashes: true, ..Faults::NONE };
    let plan = Plan { bug: Some(Bug::SyncsNothing), ..small(faults) };
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..SEEDS_MAX {
        let mut stepper = Stepper::at(seed, plan.clone(), 1);
        let mut before = stepper.state().to_vec();
        while let Some(step) = stepper.step() {
            let unsynced: Vec<_> = before.iter().filter(|line| is_unsynced(line)).collect();
            if says(&step, "power is lost") {
                for line in &unsynced {
                    assert!(step.changes.contains(&format!("- {line}")), "seed {seed}: {step:#?}");
                }
                assert!(!stepper.state().iter().any(|line| line.contains(" unsynced in ")), "seed {seed}");
                assert!(stepper.state().contains(&"hub: down".to_owned()), "seed {seed}: {step:#?}");
                lost += unsynced.len();
            }
            if says(&step, "fault: Kill") && says(&step, "process is killed") {
                let files = step.changes.iter().filter(|change| change[2..].starts_with("file "));
                assert_eq!(files.count(), 0, "seed {seed}: {step:#?}");
                kept += unsynced.len();
            }
            if lost > 0 && kept > 0 {
                return;
            }
            before.clear();
            before.extend_from_slice(stepper.state());
        }
    }
    panic!("{lost} files with unsynced bytes lost power, {kept} lost their process, in {SEEDS_MAX} worlds");
}

/// An armed crash is shown until it strikes. Then the disk is stopped, unless the process has ended at once.
#[test]
fn armed_fault_is_shown_until_it_strikes() {
    let plan = small(Faults { crashes: true, ..Faults::NONE });
    for seed in 0..SEEDS_MAX {
        let mut stepper = Stepper::at(seed, plan.clone(), 1);
        let mut armed: Option<(String, u64)> = None;
        while let Some(step) = stepper.step() {
            let struck = || stepper.world().outcome().counts.crashes_at_operation;
            match armed.take() {
                None if says(&step, "fault: CrashAtOperation") => {
                    let mut come = step.changes.iter().filter_map(|change| change.strip_prefix("+ "));
                    let line = come.find(|line| line.starts_with("armed at operation "));
                    armed = line.map(|line| (line.to_owned(), struck()));
                }
                Some((line, before)) if step.changes.contains(&format!("- {line}")) => {
                    let ends = ["process is killed", "power is lost", "faults stop"];
                    let stands_still = |line: &String| line.starts_with("disk: ") && line.contains("still");
                    let is_over =
                        ends.iter().any(|end| says(&step, end)) || stepper.state().iter().any(stands_still);
                    assert!(is_over, "seed {seed}: {step:#?}");
                    if struck() > before {
                        assert!(line.ends_with(": Crash"), "{line}");
                        return;
                    }
                }
                Some((line, before)) => {
                    assert!(stepper.state().contains(&line), "seed {seed}: {line}: {step:#?}");
                    armed = Some((line, before));
                }
                None => {}
            }
        }
    }
    panic!("no fault has struck in {SEEDS_MAX} worlds");
}

/// Each kind of fault shows in the state as soon as it exists.
#[test]
fn faults_are_shown_in_the_state() {
    let none = Faults::NONE;
    let (clock, disk) = (Faults { clock: true, ..none }, Faults { disk: true, ..none });
    let outages = Faults { outages: true, ..none };
    for (faults, text, line, contents) in [
        (clock, "fault: ClockFreeze", "+ clock: ", "stands still"),
        (outages, "fault: DeadDfsp", "+ dfsp", ": dead until "),
        (outages, "fault: SlowDfsp", "+ dfsp", "slow until "),
        (outages, "fault: FailingDfsp", "+ dfsp", "answering 503 until "),
        (disk, "fault: BrokenArchive", "+ archive: ", "the next write fails"),
        (disk, "fault: BrokenReads", "+ armed at read ", ": Broken"),
        (disk, "fault: BrokenOperation", "+ armed at operation ", ": Broken"),
        (disk, "fault: FullDisk", "+ archive: ", "no room"),
        (disk, "fault: FullDisk", "+ disk: ", " bytes free"),
    ] {
        let plan = Plan { transfers: 4, trouble_ms: 1_000, ..small(faults) };
        let (before, step, after) = first_that_says(&plan, text);
        let shows = step.changes.iter().any(|change| change.starts_with(line) && change.contains(contents));
        assert!(shows, "{text} shows no {line} with {contents}: {step:#?}");
        assert_ne!(before, after);
    }
}

/// A request is in transit from its sending to its arrival.
#[test]
fn messages_are_shown_in_flight_until_they_arrive() {
    let plan = small(Faults::NONE);
    let (_, step, after) = first_that_says(&plan, ": POST /transfers Prepare");
    let sent = step.changes.iter().find_map(|change| change.strip_prefix("+ request "));
    let sent = sent.unwrap_or_else(|| panic!("no request has left: {step:#?}"));
    assert!(sent.contains(" POST /transfers, attempt 1 of 5, arrives at "), "{sent}");
    let (number, line) = (sent.split(' ').next().unwrap_or_default(), format!("request {sent}"));
    assert!(after.contains(&line), "{line}: {after:#?}");
    let (before, step, after) = first_that_says(&plan, &format!("hub answers {number}: 202"));
    assert!(!after.contains(&line), "{step:#?}");
    let answer = format!("answer to request {number} in flight: 202, arrives at ");
    assert!(!before.iter().any(|one| one.starts_with(&answer)), "{before:#?}");
    assert!(after.iter().any(|one| one.starts_with(&answer)), "{answer}: {after:#?}");
}

fn sim_world(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_sim-world")).args(arguments).output().expect("the program runs")
}

#[test]
fn program_writes_the_steps() {
    for (steps, events) in [("40..44", 40..44), ("40", 40..41)] {
        let output = sim_world(&["--seed", "7", "--step", steps]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), written(7, &Plan::default(), events));
    }
    for steps in ["0", "0..3", "9..9", "9..8", "some", "18446744073709551615"] {
        let output = sim_world(&["--seed", "7", "--step", steps]);
        assert_eq!(output.status.code(), Some(2), "{steps} is taken");
    }
}

#[test]
fn changed_line_follows_its_old_form() {
    let lines = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    let before = lines("clock: right|disk: 1|request 3 in flight: x|request 3 in flight: x|gone: 1");
    let after = lines("clock: right|disk: 2|request 3 in flight: x|new: 1");
    let expected = ["- disk: 1", "+ disk: 2", "- request 3 in flight: x", "- gone: 1", "+ new: 1"];
    assert_eq!(changes(&before, &after), expected);
    assert_eq!(changes(&after, &after), Vec::<String>::new());
}
