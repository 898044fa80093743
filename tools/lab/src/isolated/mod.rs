//! Measurements of a single stage: the journal, callbacks, the two requests of a transfer over HTTP, or reads of
//! operators. Another one measures the load generator without a hub.
//!
//! [`run`] takes the kind and the table of a scenario file and returns a result like any other run.
//! `docs/lab/isolated.md` describes what each kind measures and leaves out. The parts of the hub that are libraries
//! without a process or a network have benchmarks in their crates.

mod admin;
mod edge;
pub(crate) mod filler;
pub(crate) mod flow;
mod generator;
mod journal;
mod ledger;
pub(crate) mod measurement;
mod notification;
pub mod past;
mod receiver;
pub mod scheme;
mod senders;
mod source;
pub mod stream;

use std::io;
use std::path::{Path, PathBuf};

use measurement::Measurement;
use stream::StreamError;
use tempfile::TempDir;
use upesi_engine::{Clock as _, SystemClock};

use crate::drive::child::ChildError;
use crate::plan::section::{Mistakes, Node, Value};
use crate::plan::stage::{KINDS, OF_EDGE, Stage, UnknownKind};
use crate::plan::surroundings::RunContext;
use crate::result::LabResult;

/// The context of a run of one stage.
#[derive(Clone, Debug)]
pub struct Context {
    /// The log of a hub goes to the directory of the result.
    pub surroundings: RunContext,
    /// A directory on the disk to measure. Everything that is created there is removed at the end.
    pub scratch: PathBuf,
    /// Further arguments for the hub that the kinds `prepare`, `fulfil` and `admin` start. The hub is this program.
    pub hub_arguments: Vec<String>,
    pub seed: u64,
}

fn hub_binary() -> Result<PathBuf, IsolatedError> {
    let source = |source| IsolatedError::Io { what: "cannot find this program's file".to_owned(), source };
    std::env::current_exe().map_err(source)
}

/// Keys that results of every kind repeat.
const OF_ALL: [&str; 4] = ["messages", "stream", "recorded", "body_bytes"];

fn measure(stage: &Stage, context: &Context) -> Result<Measurement, IsolatedError> {
    match stage {
        Stage::Journal(settings) => settings.run(context),
        Stage::Notification(settings) => settings.run(context),
        Stage::Edge(settings) => settings.run(context),
        Stage::Admin(settings) => settings.run(context),
        Stage::Generator(settings) => settings.run(context),
    }
}

/// Measures one stage alone. Blocks until it has ended; must not be called from an async runtime. Fails if the table
/// has a mistake, a stream cannot be read, or a disk or a process fails.
pub fn run(kind: &str, table: Option<&Node>, context: &Context) -> Result<LabResult, IsolatedError> {
    let mistakes = Mistakes::default();
    let stage = Stage::read(kind, table, &mistakes)?;
    let mistakes = mistakes.into_inner();
    if !mistakes.is_empty() {
        return Err(IsolatedError::Settings(mistakes.into_iter().map(|mistake| mistake.text).collect()));
    }
    crate::observe::process::allow_many_files();
    let started_at = SystemClock.now();
    let mut measurement = measure(&stage, context)?;
    // Only the given keys are repeated; the documentation describes the defaults.
    let of_kind = KINDS.into_iter().find(|(known, _)| *known == kind).map_or(OF_EDGE, |(_, keys)| keys);
    for key in of_kind.iter().chain(&OF_ALL) {
        if let Some(node) = table.and_then(|table| table.get(key)) {
            let parameter = match node.value {
                Value::Flag(flag) => if flag { "yes" } else { "no" }.into(),
                _ => node.parameter(),
            };
            measurement.parameters.insert(key, parameter);
        }
    }
    Ok(measurement.result(kind, context, started_at))
}

/// The reason why a stage could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum IsolatedError {
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the engine does not start: {0}")]
    Start(#[from] upesi_engine::StartError),
    #[error("the engine rejected {what}: {reason}")]
    Refused { what: &'static str, reason: String },
    #[error(transparent)]
    Journal(#[from] upesi_journal::JournalError),
    #[error(transparent)]
    Directory(#[from] upesi_journal::DataDirectoryError),
    #[error("the archive: {0}")]
    Archive(#[from] upesi_tables::TablesError),
    #[error("a stream cannot be recorded: {0}")]
    Recording(Box<crate::drive::error::LabError>),
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("an operator cannot be created: {0}")]
    Operator(String),
    #[error(transparent)]
    Workers(#[from] upesi_http::WorkersError),
    #[error("the receivers cannot listen: {0}")]
    Bind(#[from] upesi_http::BindError),
    #[error("the simulated DFSPs cannot start: {0}")]
    Sim(#[from] upesi_sim::SimError),
    #[error("{what} made no progress for {seconds} s")]
    Stuck { what: &'static str, seconds: u64 },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl IsolatedError {
    pub(super) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {what} {}", path.display());
        move |source| Self::Io { what, source }
    }

    pub(super) fn thread(source: io::Error) -> Self {
        Self::Io { what: "cannot start a thread".to_owned(), source }
    }

    /// A failure of a thread of the measurement itself.
    pub(super) fn panicked() -> Self {
        Self::Io { what: "a thread of the measurement".to_owned(), source: io::Error::other("it panicked") }
    }

    /// Whether the user made a mistake; otherwise the machine failed.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Kind(_) | Self::Settings(_))
    }

    /// The stream that is missing, if that is the error.
    pub fn missing_stream(&self) -> Option<&PathBuf> {
        match self {
            Self::Stream(error) => error.missing(),
            _ => None,
        }
    }
}

/// A new directory, which is removed with this value.
fn scratch(parent: &Path) -> Result<TempDir, IsolatedError> {
    std::fs::create_dir_all(parent).map_err(IsolatedError::io("create", parent))?;
    let made = tempfile::Builder::new().prefix("upesi-lab-").tempdir_in(parent);
    made.map_err(IsolatedError::io("create a directory in", parent))
}

/// Each stage with tiny sizes, to check that everything is counted.
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::flow::feed;
    use super::past::ExistingState;
    use super::scheme::Scheme;
    use super::stream::{GenerateOptions, RecordOptions, Stream};
    use super::*;
    use crate::plan::parameter::Parameter;
    use crate::plan::stage::message::MessageKind;
    use crate::plan::{SCENARIOS, ScenarioFile, Work};

    fn context(scratch: &tempfile::TempDir) -> Context {
        let surroundings = RunContext { name: "tiny".to_owned(), ..RunContext::default() };
        let scratch = scratch.path().join("scratch");
        Context { surroundings, scratch, hub_arguments: Vec::new(), seed: 1 }
    }

    fn table_of(text: &str) -> Node {
        Node::parse(text).0
    }

    fn measure(kind: &str, table: &str) -> LabResult {
        let scratch = tempfile::tempdir().unwrap();
        let result = run(kind, Some(&table_of(table)), &context(&scratch)).unwrap();
        assert_eq!((&*result.kind, &*result.scenario, result.name.as_str()), ("isolated", kind, "tiny"));
        assert!(result.validity.valid && result.failed == 0 && result.passed(), "{:?}", result.validity);
        assert!(result.throughput_per_s > 0.0 && result.latency_ms.max > 0.0, "{result:?}");
        assert_eq!(result.repetitions.len(), result.slices.len());
        let left = std::fs::read_dir(scratch.path().join("scratch")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "scratch directories are removed");
        result
    }

    fn stage<'result>(result: &'result LabResult, name: &str) -> &'result crate::result::schema::StageResult {
        result.stages.iter().find(|stage| stage.stage == name).unwrap()
    }

    #[test]
    fn past_has_finished_and_reserved_transfers() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let options = GenerateOptions { transfers: 70, dfsps: 4, ..GenerateOptions::default() };
        let stream = Stream::generate(&options).unwrap();
        let scheme = Scheme::of(&stream, None).unwrap();
        let reserved = Arc::new(stream.decode(MessageKind::Prepare, 70).unwrap());
        ExistingState { scheme, existing: 120, dfsps: 4, seed: 1, reserved }.write(&data).unwrap();
        let options = upesi_engine::EngineOptions::new(&data);
        let (engine, handle) =
            flow::start_delivering(options, upesi_engine::EngineMetrics::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let counts = handle.read(|ledger| (ledger.reserved_len(), ledger.totals().committed));
        assert_eq!(runtime.block_on(counts), Ok((70, 120)));
        engine.shutdown();
    }

    #[test]
    fn journal_stage_appends_every_record() {
        let result = measure(
            "journal",
            "record_bytes = 300\nbatch = 4\nbatches = 50\nrepetitions = 3\nsegment_bytes = 65536\ndurable = false",
        );
        assert_eq!((&*result.unit, result.completed), ("record", 600));
        assert!(stage(&result, "journal_bytes").operations > 600 * 300, "the records and their frames");
        assert_eq!(stage(&result, "journal_sync").operations, 150);
    }

    #[test]
    fn callbacks_arrive_with_and_without_kept_connections() {
        for keep_alive in [true, false] {
            let table = format!(
                "messages = 120\ndfsps = 3\nconnections = 4\nqueued = 40\nrepetitions = 2\nkeep_alive = {keep_alive}"
            );
            let result = measure("notification", &table);
            assert_eq!((&*result.unit, result.completed), ("callback", 240));
            assert_eq!(stage(&result, "callback").operations, 240);
        }
        let slow =
            "messages = 20\nconnections = 10\nreceiver_delay_ms = 2\nrepetitions = 1\nbody_bytes = 9000";
        assert_eq!(measure("notification", slow).completed, 20);
    }

    #[test]
    fn simulated_dfsps_accept_and_answer_every_callback() {
        for more in ["", "receiver_delay_ms = 2", "keep_alive = false\nreceiver_threads = 2"] {
            let table = format!("receivers = 'dfsps'\nmessages = 60\ndfsps = 3\nrepetitions = 2\n{more}");
            let result = measure("notification", &table);
            assert_eq!((&*result.unit, result.completed), ("callback", 120), "{more}");
            assert_eq!(result.parameters["receivers"], Parameter::Text("dfsps".to_owned()));
            // The time from the handover to the acceptance of each callback is recorded once.
            let counted: u64 =
                result.histogram.iter().flat_map(|found| &found.buckets).map(|bucket| bucket.1).sum();
            assert_eq!(counted, 120, "{more}");
        }
    }

    #[test]
    fn notification_scenarios_use_recorded_streams() {
        let names = SCENARIOS.iter().map(|(name, _)| *name);
        let replayed: Vec<&str> = names.filter(|name| name.starts_with("notification-")).collect();
        assert_eq!(replayed.len(), 5);
        for name in replayed {
            for point in ScenarioFile::named(name).unwrap().points() {
                let Work::Isolated { table, .. } = &point.work else { panic!("{name} is not isolated") };
                let recorded = table.as_ref().and_then(|table| table.get("recorded"));
                assert_eq!(recorded.map(|node| &node.value), Some(&Value::Flag(true)), "{name}");
            }
        }
    }

    #[test]
    fn generator_starts_every_arrival_and_judges_its_delay() {
        let even = "rate_per_s = 400\nms = 150\nrepetitions = 2\nthreads = 2\nlate_us_max = 60000000";
        let result = measure("generator", even);
        assert_eq!((&*result.unit, result.completed), ("arrival", 2 * 60));
        assert_eq!(result.parameters["rate_per_s"], Parameter::Number(400));
        let random = measure("generator", &format!("{even}\narrivals = 'random'"));
        assert!(
            (60..240).contains(&random.completed),
            "two draws of 60 in the mean, seeds 1 and 2: {}",
            random.completed
        );
        // No operation starts within a microsecond, because another thread must wake up.
        let table = table_of("rate_per_s = 400\nms = 100\nrepetitions = 1\nlate_us_max = 1");
        let scratch = tempfile::tempdir().unwrap();
        let late = run("generator", Some(&table), &context(&scratch)).unwrap();
        assert!(
            !late.validity.valid && late.validity.findings[0].contains("1 µs are allowed"),
            "{:?}",
            late.validity
        );
    }

    #[test]
    fn mistakes_in_a_table_are_reported_before_the_run() {
        let scratch = tempfile::tempdir().unwrap();
        for (kind, table, wanted) in [
            ("positions", "", "\"positions\" is not an isolated kind"),
            (
                "notification",
                "queued = 0\nnonsense = 1",
                "\"nonsense\" is unknown in [isolated]; the known ones are stream, recorded",
            ),
            ("notification", "stream = 'x'\ndfsps = 3", "a recorded stream has its own DFSPs"),
            ("prepare", "stream = 'x'\nexisting = 3", "existing transfers are generated"),
            ("prepare", "recorded = true\nexisting = 3", "existing transfers are generated"),
            ("notification", "recorded = true\nstream = 'x'", "leave out stream or recorded"),
            ("notification", "receivers = 'nobody'", "give one of sinks, dfsps"),
            ("journal", "batch = 65536\nrecord_bytes = 65536", "batch × record_bytes"),
            ("prepare", "callbacks = 'sent'", "give one of held, swallowed"),
            ("fulfil", "messages = 3", "more messages than repetitions"),
            ("notification", "keep_alive = 'no'", "give true or false"),
        ] {
            let error = run(kind, Some(&table_of(table)), &context(&scratch)).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(wanted), "{kind}: {error}");
        }
        for (kind, _) in KINDS {
            let mistakes = Mistakes::default();
            Stage::read(kind, None, &mistakes).unwrap();
            assert_eq!(mistakes.into_inner(), []);
        }
    }

    #[test]
    fn missing_stream_has_its_own_error() {
        let scratch = tempfile::tempdir().unwrap();
        let table = table_of("stream = '/nonexistent/stream'");
        let error = run("notification", Some(&table), &context(&scratch)).unwrap_err();
        assert!(error.missing_stream().is_some() && !error.is_usage(), "{error}");
    }

    #[test]
    fn accepted_requests_can_be_recorded_and_replayed() {
        let directory = tempfile::tempdir().unwrap();
        let generated =
            GenerateOptions { transfers: 50, dfsps: 3, fulfils: true, ..GenerateOptions::default() };
        let stream = Stream::generate(&generated).unwrap();
        let scratch = scratch(directory.path()).unwrap();
        let data = scratch.path().join("data");
        let scheme = Scheme::of(&stream, None).unwrap();
        let reserved = Arc::new(stream.decode(MessageKind::Prepare, 50).unwrap());
        ExistingState { scheme, existing: 0, dfsps: 3, seed: 1, reserved }.write(&data).unwrap();
        let options = upesi_engine::EngineOptions::new(&data);
        let (engine, handle) =
            flow::start_delivering(options, upesi_engine::EngineMetrics::default()).unwrap();
        let fulfils = Arc::new(stream.decode(MessageKind::Fulfil, 40).unwrap());
        feed(&handle, &fulfils).unwrap();
        engine.shutdown();

        let record = |messages_max, fulfils| {
            Stream::record(&RecordOptions { data: data.clone(), messages_max, fulfils }).unwrap()
        };
        let (recorded, skipped) = record(1_000, true);
        assert_eq!((recorded.header.prepares, recorded.header.fulfils), (50, 40));
        assert_eq!((skipped.unreadable, skipped.orphans), (0, 0));
        assert!(skipped.others > 0, "operators' commands are left out");
        let bodies = |stream: &Stream, kind| -> Vec<_> {
            stream
                .of_kind(kind)
                .map(|message| (message.id, message.headers.clone(), message.body.clone()))
                .collect()
        };
        assert_eq!(bodies(&recorded, MessageKind::Prepare), bodies(&stream, MessageKind::Prepare));
        let (few, _) = record(20, false);
        assert_eq!((few.header.prepares, few.header.fulfils), (20, 0));

        let file = directory.path().join("stream");
        recorded.write(&file).unwrap();
        let read = Stream::read(&file).unwrap();
        assert_eq!(read, recorded);
        for count in [10, 40] {
            assert_eq!(read.decode(MessageKind::Fulfil, count).unwrap().len(), count);
            assert_eq!(read.prepares_before(MessageKind::Fulfil, count).unwrap().len(), count);
        }
        let table = format!("stream = {:?}\nmessages = 40\nrepetitions = 1", file.display());
        assert_eq!(measure("notification", &table).completed, 40);
    }
}
