//! The run of one program: libtest reports each test as a line of JSON when it begins and when it ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::hang::{self, MARK};
use crate::profile::Profile;
use crate::program::Program;

/// The time between two looks at the clock.
const TICK: Duration = Duration::from_millis(100);
/// Maximum delay of the last output after a program has ended. A process that a test left behind may keep the output
/// open for longer.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// The beginning of a line of JSON. Processes that a test starts may print before it, without a line break.
const EVENT: &str = "{ \"type\": ";

/// A test that passed or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Its path in the program.
    pub name: String,
    pub took: Duration,
}

/// The results of a program.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub passed: Vec<Test>,
    /// The tests that failed, each with its output.
    pub failed: Vec<(Test, String)>,
    /// The tests that exceeded the limit, or were interrupted because another one did or the program crashed.
    pub unfinished: Vec<String>,
    /// The stacks of all threads when a test exceeded the limit.
    pub stacks: Option<String>,
    /// Whether the program ended by itself and reported success.
    pub is_success: bool,
    pub took: Duration,
    /// CPU time of its processes, without processes that outlived it; `None` on systems without `/proc`.
    pub cpu: Option<Duration>,
}

/// Runs a program in a profile. `log` receives its output.
///
/// # Errors
/// If the program cannot be started, or the log cannot be written.
pub fn run(program: &Program, profile: &Profile, log: &Path) -> io::Result<Outcome> {
    let began = Instant::now();
    let mark = format!("{}-{}", std::process::id(), program.name().replace(' ', "-"));
    let file = File::create(log)?;
    let mut command = Command::new(&program.path);
    // A stable libtest reports JSON and durations only if RUSTC_BOOTSTRAP is set.
    command.args(["-Z", "unstable-options", "--format=json", "--report-time"]);
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &program.folder).env(MARK, &mark);
    command.envs(profile.environment.iter().copied()).current_dir(&program.folder);
    if profile.has_slow {
        // Without this, trials would make Cargo build the hub again, with other features.
        command.env("UPESI_BINARY", hub_beside(&program.path));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file.try_clone()?);
    let mut child = command.spawn()?;
    let lines = read(child.stdout.take().expect("it is piped"));
    let mut record =
        Record { outcome: Outcome::default(), running: BTreeMap::new(), heard: began, log: file };
    let status = watch(&mut child, &lines, &mut record, profile.test_max)?;
    if let Some(status) = status {
        let end = Instant::now() + LAST_OUTPUT;
        while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            record.add(&line)?;
            if Instant::now() > end {
                break;
            }
        }
        record.outcome.is_success = status.success();
    } else {
        record.outcome.stacks = Some(hang::stacks(&mark));
        hang::kill(&mark);
        let _ = child.kill();
        child.wait()?;
    }
    record.outcome.unfinished = record.running.into_keys().collect();
    record.outcome.took = began.elapsed();
    Ok(record.outcome)
}

/// The hub's program, which Cargo builds for its tests. The test programs are in a folder beside it.
fn hub_beside(program: &Path) -> PathBuf {
    program.ancestors().nth(2).unwrap_or(program).join("upesi")
}

/// CPU time of a process, and of its children that have ended; `None` on systems without `/proc`.
fn cpu_time(process: u32) -> Option<Duration> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before the parenthesis may contain spaces.
    let (_, fields) = status.rsplit_once(')')?;
    // User and system time of the process, then of its children.
    let times = fields.split_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().ok());
    let ticks = times.sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// Waits until the program has ended, and returns its status; `None` if a test exceeds the limit.
fn watch(
    child: &mut Child,
    lines: &Receiver<String>,
    record: &mut Record,
    test_max: Duration,
) -> io::Result<Option<std::process::ExitStatus>> {
    let mut looked = Instant::now();
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                record.add(&line)?;
                if looked.elapsed() < TICK {
                    continue;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
        looked = Instant::now();
        record.outcome.cpu = cpu_time(child.id()).or(record.outcome.cpu);
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if record.is_overdue(test_max) {
            return Ok(None);
        }
    }
}

/// The lines of a program's output. The reading thread ends with the last process that has the output open.
fn read(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

struct Record {
    outcome: Outcome,
    /// The tests that have begun, each with the time.
    running: BTreeMap<String, Instant>,
    /// The time of the last event.
    heard: Instant,
    log: File,
}

impl Record {
    fn add(&mut self, line: &str) -> io::Result<()> {
        let read = |at| Some((at, serde_json::from_str::<Value>(&line[at..]).ok()?));
        let event = line.find(EVENT).and_then(read);
        let Some((at, event)) = event else { return writeln!(self.log, "{line}") };
        if at > 0 {
            writeln!(self.log, "{}", &line[..at])?;
        }
        self.heard = Instant::now();
        self.event(&event)
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        if text("type") != "test" {
            return Ok(());
        }
        let name = text("name").to_owned();
        let verdict = text("event");
        if verdict == "started" {
            self.running.insert(name, self.heard);
            return Ok(());
        }
        if verdict == "timeout" {
            return Ok(());
        }
        self.running.remove(&name);
        let took = event["exec_time"].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let took = took.unwrap_or_default();
        writeln!(self.log, "test {name} ... {verdict} <{:.3}s>", took.as_secs_f64())?;
        let test = Test { name, took };
        match verdict {
            "ok" => self.outcome.passed.push(test),
            "failed" => {
                let output = format!("{}{}", text("stdout"), text("message"));
                writeln!(self.log, "---- {} ----\n{output}", test.name)?;
                self.outcome.failed.push((test, output));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a test has taken longer than the limit, or no test runs and the program does not end.
    fn is_overdue(&self, test_max: Duration) -> bool {
        let first = self.running.values().min().copied().unwrap_or(self.heard);
        first.elapsed() > test_max
    }
}
