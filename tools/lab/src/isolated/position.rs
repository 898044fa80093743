//! Position handling alone: a stream through the engine, which decides, journals and answers. There is no HTTP, and
//! there are no callbacks.

use std::path::Path;
use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;
use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, SubmitError};
use upesi_journal::Durability;

use super::flow::{Fed, SUBMITTER, feed, start_delivering};
use super::measurement::{Measurement, number};
use super::past::{Past, copy_directory};
use super::scheme::Scheme;
use super::stream::Ready;
use super::{Context, IsolatedError, scratch};
use crate::observe::hub_metrics::{Snapshot, stages};
use crate::plan::stage::message::MessageKind;
use crate::plan::stage::position::Settings;
use crate::result::schema::{Queues, StageResult};

/// The parameter with the number of threads that really submitted.
pub(super) const SUBMITTING: &str = "submitting_threads";

/// One engine that was fed once.
struct Run {
    fed: Fed,
    failed: u64,
    metrics: (Snapshot, Snapshot),
}

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load(context, self.kind)?;
        let count = self.source.messages;
        let (reserved, measured) = stream.decode_behind(self.kind, count)?;
        let measured = Arc::new(measured);
        let past = Past {
            scheme: Scheme::of(&stream, None)?,
            existing: self.existing,
            dfsps: self.source.dfsps,
            seed: context.seed,
            reserved: Arc::new(reserved),
        };
        let scratch = scratch(&context.scratch)?;
        let begin = scratch.path().join("begin");
        past.write(&begin)?;
        let mut measurement = Measurement::new(self.kind.name(), "an engine in this process");
        measurement.fed_with(&stream);
        let (mut spans, mut submitting) = (Vec::new(), self.flow.submitters);
        for _ in 0..self.repetitions {
            let data = scratch.path().join("data");
            copy_directory(&begin, &data).map_err(IsolatedError::io("copy", &begin))?;
            let Run { fed, failed, metrics } = self.run_once(&data, &measured)?;
            std::fs::remove_dir_all(&data).map_err(IsolatedError::io("remove", &data))?;
            measurement.failed += failed;
            let done = (count as u64).saturating_sub(failed);
            measurement.repeat(fed.took, done, &fed.latency_ns, &fed.cpu);
            submitting = submitting.min(fed.submitting);
            spans.push(metrics);
            if fed.busy > 0 {
                measurement.findings.push(format!("the engine was busy {} times", fed.busy));
            }
        }
        if submitting < self.flow.submitters {
            let asked = self.flow.submitters;
            measurement.findings.push(format!("only {submitting} of {asked} submitters submitted anything"));
        }
        measurement.stages = engine_stages(&measurement, &spans);
        measurement.parts(&[("hub", &["upesi-"]), ("lab", &[SUBMITTER])]);
        measurement.durable = Some(self.durable);
        measurement.parameters.insert(SUBMITTING, number(submitting));
        Ok(measurement)
    }

    fn options(&self, data: &Path) -> EngineOptions {
        let defaults = EngineOptions::new(data);
        EngineOptions {
            batch_commands_max: self.batch.unwrap_or(defaults.batch_commands_max),
            ledger: super::ledger::config(),
            durability: if self.durable { Durability::Synced } else { Durability::Volatile },
            ..defaults
        }
    }

    fn run_once(&self, data: &Path, measured: &Arc<Vec<Ready>>) -> Result<Run, IsolatedError> {
        let mut registry = Registry::default();
        let metrics = EngineMetrics::new(&mut registry);
        let (engine, handle) = if self.deliveries {
            start_delivering(self.options(data), metrics)?
        } else {
            Engine::start(self.options(data), metrics, Box::new(NoEffects))?
        };
        let (first, done_before) = (snapshot(&registry), done(&handle, self.kind)?);
        let fed = feed(&handle, measured, self.flow)?;
        let last = snapshot(&registry);
        let done = done(&handle, self.kind)?.saturating_sub(done_before);
        engine.shutdown();
        let failed = (measured.len() as u64).saturating_sub(done);
        Ok(Run { fed, failed, metrics: (first, last) })
    }
}

fn engine_stages(measurement: &Measurement, spans: &[(Snapshot, Snapshot)]) -> Vec<StageResult> {
    let mut found = stages(spans, measurement.took().as_secs_f64(), &Queues::default());
    for (name, threads) in [("engine", "upesi-engine"), ("journal_sync", "upesi-journal")] {
        let of = found.iter_mut().filter(|stage| stage.stage == name);
        of.for_each(|stage| stage.cpu_share = measurement.cpu.share_of(threads));
    }
    found
}

fn snapshot(registry: &Registry) -> Snapshot {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = encode(&mut text, registry);
    Snapshot::read(&text)
}

fn done(engine: &EngineHandle, kind: MessageKind) -> Result<u64, IsolatedError> {
    let runtime = Builder::new_current_thread().build().map_err(IsolatedError::thread)?;
    let count = engine.read(move |ledger| kind.done(ledger));
    let failed =
        |error: SubmitError| IsolatedError::Refused { what: "a question", reason: error.to_string() };
    runtime.block_on(count).map_err(failed)
}
