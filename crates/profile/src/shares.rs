//! CPU time by part of the hub, from folded stacks.
//!
//! A sample counts for the **innermost** frame whose crate is a stage. So a stage pays for the system calls,
//! allocations and libraries that it uses. A crate that serves several stages (`http`, `fspiop`, `types`, `lsm`) pays
//! only if no frame further out is a stage. If the hub's only frame is the loop that runs tasks, the sample counts as
//! runtime and kernel. The innermost frame counts because a deep stack loses its outermost frames when it is copied,
//! never its innermost ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Layout of [`StageShares::to_json`].
const SCHEMA_VERSION: u64 = 1;
/// Unit of shares: one ten-thousandth.
const SCALE: u64 = 10_000;
/// Samples that belong neither to a stage nor to the runtime.
const OTHER: &str = "other";
const RUNTIME: &str = "runtime and kernel";
const EDGE: &str = "parse and edge";
const ARCHIVE: &str = "archive";
const CALLBACKS: &str = "courier and callbacks";

/// The stages, with their crates and modules.
const STAGES: [(&str, &[&str]); 7] = [
    (EDGE, &["upesi_gateway", "upesi_transfers"]),
    ("admission", &["upesi_admission"]),
    ("engine and ledger", &["upesi_engine", "upesi_ledger"]),
    ("journal", &["upesi_journal"]),
    (ARCHIVE, &["upesi_tables::archive"]),
    (CALLBACKS, &["upesi_delivery::lanes", "upesi_delivery::owed", "upesi_delivery::render"]),
    (
        "directory, quoting, relay",
        &["upesi_directory", "upesi_quoting", "upesi_delivery::relayed", "upesi_tables::store"],
    ),
];

/// Crates and modules that serve several stages, and the stage that pays if no frame is a stage. The first match
/// counts.
const SHARED: [(&str, &str); 16] = [
    ("upesi_http::workers", RUNTIME),
    ("upesi_http::client", CALLBACKS),
    ("upesi_http", EDGE),
    ("upesi_fspiop", EDGE),
    ("upesi_tables::lsm", ARCHIVE),
    ("fjall", ARCHIVE),
    ("lsm_tree", ARCHIVE),
    ("upesi_types", OTHER),
    ("upesi_admin", OTHER),
    ("upesi_profile", OTHER),
    ("upesi_client", OTHER),
    ("upesi_node", OTHER),
    ("upesi_offline", OTHER),
    ("upesi_process", OTHER),
    ("upesi_settings", OTHER),
    ("upesi", OTHER),
];

/// C functions that do little more than a system call. Prefixes and suffixes of the names are left out.
const SYSTEM_CALLS: [&str; 27] = [
    "accept4",
    "brk",
    "clock_gettime",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_wait",
    "fallocate",
    "fdatasync",
    "fsync",
    "futex",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "pread",
    "pread64",
    "pwrite",
    "pwrite64",
    "read",
    "recv",
    "sched_yield",
    "send",
    "syscall",
    "write",
    "writev",
];

/// The kinds of code within a stage: its own code, a library, the C library, the kernel.
const KINDS: [&str; 4] = ["own code", "libraries", "C library", "system calls"];

/// The CPU time of a profile by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageShares {
    pub samples: u64,
    /// The stages, the busiest first, without stages that have no sample.
    pub stages: Vec<StageShare>,
    /// Samples by kind of thread, the busiest first.
    pub threads: Vec<(String, u64)>,
}

/// The CPU time of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageShare {
    /// Name of the stage.
    pub stage: &'static str,
    pub samples: u64,
    /// Samples by kind of code, the most frequent first, without kinds that have no sample.
    pub inside: Vec<(&'static str, u64)>,
}

impl StageShares {
    /// Reads stacks as [`Profile::folded`](crate::Profile::folded) writes them. Skips lines that are not stacks.
    pub fn of_folded(folded: &str) -> Self {
        let mut samples = 0;
        let mut threads: BTreeMap<String, u64> = BTreeMap::new();
        let mut stages: BTreeMap<&'static str, BTreeMap<&'static str, u64>> = BTreeMap::new();
        for (stack, count) in crate::stacks::lines(folded) {
            let mut frames = stack.split(';');
            let thread = frames.next().unwrap_or_default();
            let frames: Vec<&str> = frames.map(path).collect();
            samples += count;
            *threads.entry(thread.to_owned()).or_default() += count;
            *stages.entry(stage_of(&frames)).or_default().entry(kind_of(&frames)).or_default() += count;
        }
        let stages = stages.into_iter().map(|(stage, inside)| StageShare {
            stage,
            samples: inside.values().sum(),
            inside: sorted(inside.into_iter().collect()),
        });
        let mut stages: Vec<StageShare> = stages.collect();
        stages.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.stage.cmp(b.stage)));
        Self { samples, stages, threads: sorted(threads.into_iter().collect()) }
    }

    /// The content of `shares.json`: shares from 0 to 1, each with half the width of its 95 % interval.
    pub fn to_json(&self) -> Value {
        let share = |samples: u64| fraction(ten_thousandths(samples, self.samples));
        let stages = self.stages.iter().map(|stage| {
            let inside = stage
                .inside
                .iter()
                .map(|(what, samples)| json!({ "what": what, "samples": samples, "share": share(*samples) }));
            json!({
                "stage": stage.stage,
                "samples": stage.samples,
                "share": share(stage.samples),
                "error": fraction(error(stage.samples, self.samples)),
                "inside": inside.collect::<Vec<_>>(),
            })
        });
        let threads = self.threads.iter().map(
            |(thread, samples)| json!({ "thread": thread, "samples": samples, "share": share(*samples) }),
        );
        json!({
            "schema_version": SCHEMA_VERSION,
            "rule": "innermost frame of a stage's crate",
            "samples": self.samples,
            "stages": stages.collect::<Vec<_>>(),
            "threads": threads.collect::<Vec<_>>(),
        })
    }

    /// As a table for a terminal.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for stage in &self.stages {
            let inside = stage
                .inside
                .iter()
                .map(|(what, samples)| format!("{what} {}", percent(*samples, self.samples)));
            text.push_str(&format!(
                "  {:>6} % ± {:>4}  {:<26}{}\n",
                percent(stage.samples, self.samples),
                tenths(error(stage.samples, self.samples)),
                stage.stage,
                inside.collect::<Vec<_>>().join(", ")
            ));
        }
        text
    }
}

fn sorted<Name: Ord>(mut counts: Vec<(Name, u64)>) -> Vec<(Name, u64)> {
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    counts
}

/// A frame's path without the characters before it, as in `<upesi_http::Server as …>::run` and `&mut upesi_…`.
fn path(frame: &str) -> &str {
    let mut frame = frame;
    loop {
        let rest = frame.trim_start_matches(['<', '&', '*', '(', '[', ' ']);
        let rest = ["mut ", "dyn ", "const "].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
        if rest == frame {
            return frame;
        }
        frame = rest;
    }
}

/// The crate at the start of a path.
fn crate_of(path: &str) -> &str {
    path.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap_or(path)
}

fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_'))
}

fn stage_of(frames: &[&str]) -> &'static str {
    let own = |frame: &&str| {
        let is_own = |module: &&str| is_in(frame, module);
        STAGES.iter().find(|(_, modules)| modules.iter().any(is_own)).map(|(stage, _)| *stage)
    };
    if let Some(stage) = frames.iter().rev().find_map(own) {
        return stage;
    }
    let shared =
        |frame: &&str| SHARED.iter().find(|(module, _)| is_in(frame, module)).map(|(_, stage)| *stage);
    let mut found = frames.iter().rev().filter_map(shared).peekable();
    let innermost = found.peek().copied().unwrap_or(RUNTIME);
    // A library that no stage has called counts for the next stage further out.
    found.find(|stage| *stage != OTHER && *stage != RUNTIME).unwrap_or(innermost)
}

/// The kind of the innermost frame outside the standard library.
fn kind_of(frames: &[&str]) -> &'static str {
    let [own, library, c_library, system] = KINDS;
    let is_standard = |frame: &&&str| matches!(crate_of(frame), "core" | "std" | "alloc" | "core_arch");
    let Some(frame) = frames.iter().rev().find(|frame| !is_standard(frame)) else { return library };
    if is_in(frame, "upesi") || crate_of(frame).starts_with("upesi_") {
        own
    } else if frame.contains("::") {
        library
    } else if SYSTEM_CALLS.contains(&frame.trim_start_matches("__libc_").trim_start_matches('_')) {
        system
    } else {
        c_library
    }
}

fn ten_thousandths(part: u64, whole: u64) -> u64 {
    (part * SCALE + whole / 2) / whole.max(1)
}

/// Half of the 95 % interval of a share, in ten-thousandths, as if samples were independent.
fn error(part: u64, whole: u64) -> u64 {
    let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
    // 1.96² p (1 - p) / n, in squares of ten-thousandths.
    let square = 384_160_000 * part * (whole - part.min(whole)) / (whole * whole * whole);
    u64::try_from(square.isqrt()).unwrap_or(SCALE)
}

/// Ten-thousandths as a fraction from 0 to 1. Converted through text, because this crate does no float arithmetic.
fn fraction(ten_thousandths: u64) -> Value {
    let text = format!("{}.{:04}", ten_thousandths / SCALE, ten_thousandths % SCALE);
    text.parse::<f64>().map_or(Value::Null, Value::from)
}

/// Ten-thousandths as a percentage with one decimal.
fn tenths(ten_thousandths: u64) -> String {
    let tenths = (ten_thousandths + 5) / 10;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn percent(part: u64, whole: u64) -> String {
    tenths(ten_thousandths(part, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks, with their stage and kind of code.
    const CASES: [(&str, &str, &str); 11] = [
        (
            "edge;(libc.so.6);upesi_http::workers::{closure#1};tokio::runtime::park;epoll_wait",
            RUNTIME,
            "system calls",
        ),
        (
            "edge;upesi_http::workers::run;upesi_http::server::serve;hyper::proto::write;writev",
            EDGE,
            "system calls",
        ),
        (
            "edge;upesi_http::server::serve;upesi_gateway::gateway::take;upesi_fspiop::body::read;core::str::from_utf8",
            EDGE,
            "own code",
        ),
        (
            "edge;upesi_gateway::gateway::take;upesi_directory::directory::look;upesi_fspiop::route::find",
            "directory, quoting, relay",
            "own code",
        ),
        (
            "edge;<upesi_delivery::relayed::relay::Relay as Pass>::pass;upesi_delivery::lanes::lane::send;upesi_http::client::call;__libc_malloc",
            CALLBACKS,
            "C library",
        ),
        (
            "edge;upesi_http::workers::run;upesi_http::client::drive;hyper::proto::poll",
            CALLBACKS,
            "libraries",
        ),
        ("engine;upesi_engine::decider::run;upesi_ledger::command::decide", "engine and ledger", "own code"),
        (
            "engine;upesi_engine::decider::run;upesi_journal::writer::sync;fdatasync",
            "journal",
            "system calls",
        ),
        ("lsm;std::thread::spawn;fjall::flush;lsm_tree::write;__libc_pwrite", ARCHIVE, "system calls"),
        ("main;upesi::hub::metrics;upesi_types::amount::print", OTHER, "own code"),
        ("other;main;upesize::run", RUNTIME, "libraries"),
    ];

    #[test]
    fn sample_counts_for_the_innermost_stage() {
        for (stack, stage, kind) in CASES {
            let found = StageShares::of_folded(&format!("{stack} 3\n"));
            let expected = StageShare { stage, samples: 3, inside: vec![(kind, 3)] };
            assert_eq!(found.stages, [expected], "{stack}");
        }
    }

    #[test]
    fn shares_have_an_error_and_are_sorted_by_size() {
        let folded = "engine;upesi_journal::sync;fdatasync 60\nengine;upesi_engine::run 25\nedge;upesi_journal::write 15\nnoise\n";
        let shares = StageShares::of_folded(folded);
        assert_eq!(shares.samples, 100);
        assert_eq!(shares.threads, [("engine".to_owned(), 85), ("edge".to_owned(), 15)]);
        let json = shares.to_json();
        let journal = &json["stages"][0];
        assert_eq!((journal["stage"].as_str(), journal["share"].as_f64()), (Some("journal"), Some(0.75)));
        // 1.96 · √(0.75 · 0.25 / 100) = 0.0848.
        assert_eq!(journal["error"].as_f64(), Some(0.0848));
        assert_eq!(journal["inside"][0]["what"], "system calls");
        let table = shares.table();
        assert_eq!(
            table.lines().next(),
            Some("    75.0 % ±  8.5  journal                   system calls 60.0, own code 15.0")
        );
        assert_eq!(StageShares::of_folded("").to_json()["samples"], 0);
    }
}
