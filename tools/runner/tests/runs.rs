//! Runs of scripts that print the events of libtest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use upesi_runner::all::{Sums, run_all};
use upesi_runner::change::{Affected, Package, packages};
use upesi_runner::hang;
use upesi_runner::profile::{LONG, PROFILES, Profile, SLOW};
use upesi_runner::program::{self, Program};
use upesi_runner::run::{Outcome, run};

/// The events of two tests that pass.
const TWO_PASS: &str = r#"
echo '{ "type": "suite", "event": "started", "test_count": 2 }'
echo '{ "type": "test", "event": "started", "name": "a::one" }'
echo '{ "type": "test", "name": "a::one", "event": "ok", "exec_time": 1.5 }'
echo 'output of a thread'
printf 'output without an end of line'
echo '{ "type": "test", "event": "started", "name": "two" }'
echo '{ "type": "test", "name": "two", "event": "ok", "exec_time": 0.25 }'
echo '{ "type": "suite", "event": "ok", "passed": 2, "failed": 0 }'
"#;

/// A script is not executed itself: the kernel refuses that while another test's child still has it open.
fn program_of(directory: &Path, name: &str, script: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libtest.sh");
    let folder = directory.join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("script"), script).unwrap();
    Program { path, folder, package: "toy".to_owned(), target: name.to_owned() }
}

fn profile(test_max: Duration) -> Profile {
    Profile { test_max, ..PROFILES[0] }
}

const AMPLE: Duration = Duration::from_secs(60);

/// The results of a script, and its log. The script's name is the mark of its processes.
fn outcome_of(name: &str, script: &str, test_max: Duration) -> (Outcome, String) {
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("log");
    let outcome = run(&program_of(directory.path(), name, script), &profile(test_max), &log).unwrap();
    (outcome, fs::read_to_string(log).unwrap())
}

#[test]
fn tests_that_pass_are_counted_with_their_durations_and_output_is_logged() {
    let (outcome, log) = outcome_of("passes", TWO_PASS, AMPLE);
    assert!(outcome.is_success && outcome.failed.is_empty() && outcome.unfinished.is_empty());
    let passed: Vec<_> =
        outcome.passed.iter().map(|test| (test.name.as_str(), test.took.as_millis())).collect();
    assert_eq!(passed, [("a::one", 1_500), ("two", 250)]);
    let expected = "test a::one ... ok <1.500s>\noutput of a thread\noutput without an end of line\ntest two ... ok <0.250s>\n";
    assert_eq!(log, expected);
}

#[test]
fn cpu_time_of_a_program_and_of_its_children_is_counted() {
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
    let (idle, _) = outcome_of("idle", &format!("sleep 0.5\n{TWO_PASS}"), AMPLE);
    let (own, _) = outcome_of("works", &format!("{work}\n{TWO_PASS}"), AMPLE);
    let (of_child, _) = outcome_of("child_works", &format!("sh -c '{work}'\n{TWO_PASS}"), AMPLE);
    let [idle, own, of_child] = [idle, own, of_child].map(|outcome| outcome.cpu.expect("on Linux"));
    assert!(idle < Duration::from_millis(200), "{idle:?}");
    assert!(own > Duration::ZERO && of_child > Duration::ZERO, "{own:?} {of_child:?}");
}

#[test]
fn trials_use_the_hub_of_the_same_build() {
    let directory = TempDir::new().unwrap();
    let (program, log) =
        (program_of(directory.path(), "trial", "echo \"$UPESI_BINARY\""), directory.path().join("log"));
    run(&program, &Profile::named("ci").unwrap(), &log).unwrap();
    let beside = program.path.parent().unwrap().parent().unwrap().join("upesi");
    assert_eq!(fs::read_to_string(log).unwrap(), format!("{}\n", beside.display()));
}

#[test]
fn failed_test_has_its_output() {
    let script = r#"
echo '{ "type": "test", "event": "started", "name": "one" }'
printf '%s\n' '{ "type": "test", "name": "one", "event": "failed", "exec_time": 0.1, "stdout": "left: 1\n" }'
exit 101"#;
    let (outcome, log) = outcome_of("fails", script, AMPLE);
    assert!(!outcome.is_success);
    assert_eq!(
        outcome.failed.iter().map(|(test, output)| (&*test.name, &**output)).collect::<Vec<_>>(),
        [("one", "left: 1\n")]
    );
    assert!(log.contains("---- one ----\nleft: 1\n"), "{log}");
}

#[test]
fn hanging_test_is_ended_with_its_processes_and_leaves_stacks() {
    let script = r#"
echo '{ "type": "test", "event": "started", "name": "hangs" }'
setsid sleep 1000 </dev/null >/dev/null 2>&1 &
sleep 1000"#;
    let (outcome, _) = outcome_of("hangs", script, Duration::from_millis(500));
    assert!(!outcome.is_success);
    assert_eq!(outcome.unfinished, ["hangs"]);
    let stacks = outcome.stacks.expect("stacks");
    assert_eq!(stacks.matches("sleep 1000").count(), 2, "{stacks}");
    assert!(stacks.contains("Thread 1") || stacks.contains("waits in"), "{stacks}");
    let left = hang::processes(&format!("{}-toy-hangs", std::process::id()));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn program_that_does_not_end_after_its_tests_hangs() {
    let (outcome, _) =
        outcome_of("does_not_end", &format!("{TWO_PASS}\nsleep 1000"), Duration::from_millis(500));
    assert!(outcome.stacks.is_some() && !outcome.is_success);
    assert_eq!(outcome.passed.len(), 2);
}

#[test]
fn program_with_endless_output_is_ended() {
    let script = r#"
echo '{ "type": "test", "event": "started", "name": "prints" }'
while :; do echo again; sleep 0.01; done"#;
    let (outcome, _) = outcome_of("prints", script, Duration::from_millis(500));
    assert_eq!(outcome.unfinished, ["prints"]);
    assert!(outcome.stacks.is_some());
}

#[test]
fn crash_in_a_test_fails_this_test() {
    let script =
        "echo '{ \"type\": \"test\", \"event\": \"started\", \"name\": \"crashes\" }'\nkill -SEGV $$";
    let (outcome, _) = outcome_of("crashes", script, AMPLE);
    assert!(!outcome.is_success && outcome.stacks.is_none());
    assert_eq!(outcome.unfinished, ["crashes"]);
}

#[test]
fn process_that_outlives_its_test_does_not_delay_the_run() {
    let (outcome, _) = outcome_of("outlives", &format!("sleep 60 &\n{TWO_PASS}"), AMPLE);
    assert!(outcome.is_success);
    assert_eq!(outcome.passed.len(), 2);
    assert!(outcome.took < Duration::from_secs(40), "{:?}", outcome.took);
}

#[test]
fn sums_count_every_failure_and_name_the_slowest() {
    let directory = TempDir::new().unwrap();
    let programs = vec![
        program_of(directory.path(), "good", TWO_PASS),
        program_of(directory.path(), "crashes", "exit 3"),
        program_of(directory.path(), "good_too", TWO_PASS),
    ];
    let sums = run_all(programs, &profile(AMPLE), 2, directory.path()).unwrap();
    assert_eq!(sums.line(), "4 passed, 1 failed");
    assert_eq!(sums.programs_failed, ["toy crashes"]);
    assert_eq!(sums.slowest().lines().next(), Some("     1.5 s  a::one"));
    assert_eq!(sums.slowest().lines().count(), 4);
    assert_eq!(Sums::default().line(), "0 passed, 0 failed");
}

#[test]
fn program_is_read_from_cargos_messages() {
    let test = r#"{"reason":"compiler-artifact","package_id":"path+file:///r/crates/ledger#upesi-ledger@0.1.0","manifest_path":"/r/crates/ledger/Cargo.toml","target":{"kind":["test"],"name":"stories"},"profile":{"test":true},"executable":"/r/target/stories-1"}"#;
    let program = program::program(test).unwrap();
    assert_eq!(
        (program.name(), program.folder),
        ("ledger stories".to_owned(), PathBuf::from("/r/crates/ledger"))
    );
    assert_eq!(program::program(&test.replace("\"test\":true", "\"test\":false")), None);
    assert_eq!(program::program(&test.replace("\"/r/target/stories-1\"", "null")), None);
    assert_eq!(program::program("not JSON"), None);
}

#[test]
fn long_programs_start_first_and_the_quick_profile_leaves_out_slow_ones() {
    let named = |(package, target): (&str, &str)| Program {
        path: PathBuf::new(),
        folder: PathBuf::new(),
        package: package.to_owned(),
        target: target.to_owned(),
    };
    let programs = || [("ledger", "stories"), SLOW[0], LONG[1], LONG[0]].map(named).to_vec();
    let (all, none) = Profile::named("ci").unwrap().choose(programs());
    assert_eq!(all, [LONG[0], LONG[1], ("ledger", "stories"), SLOW[0]].map(named));
    assert!(none.is_empty());
    let (quick, left_out) = Profile::named("quick").unwrap().choose(programs());
    assert_eq!((quick.len(), left_out.len()), (1, 3));
    assert!(Profile::named("other").is_none());
}

#[test]
fn programs_of_the_profiles_exist() {
    let packages = packages().unwrap();
    for (name, target) in LONG.iter().chain(&SLOW) {
        let package = packages.iter().find(|package| package.name == *name);
        assert!(package.is_some_and(|package| package.targets.contains(*target)), "{name} {target}");
    }
}

#[test]
fn change_affects_the_dependants_nearest_first() {
    let package = |name: &str, uses: &[&str], tests_use: &[&str]| Package {
        name: name.to_owned(),
        folder: Path::new("crates").join(name),
        uses: uses.iter().map(|name| (*name).to_owned()).collect(),
        tests_use: tests_use.iter().map(|name| (*name).to_owned()).collect(),
        targets: BTreeSet::new(),
    };
    let packages = [
        package("command", &["node"], &[]),
        package("engine", &["ledger"], &[]),
        package("ledger", &[], &["support"]),
        package("node", &["engine", "ledger"], &[]),
        package("support", &["ledger"], &[]),
        package("tables", &[], &["ledger"]),
        package("types", &[], &["support"]),
    ];
    let affected = Affected::by(&["crates/ledger/src/lib.rs", "docs/a.md"].map(PathBuf::from), &packages);
    assert_eq!(affected.changed, ["ledger"]);
    assert_eq!(affected.dependants, ["engine", "node", "support", "command", "tables"]);
    assert_eq!(affected.others, [PathBuf::from("docs/a.md")]);
    assert_eq!(Affected::by(&[], &packages), Affected::default());
}
