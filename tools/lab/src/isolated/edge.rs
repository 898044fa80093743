//! One request of a transfer over HTTP, to a separate hub: `POST /transfers` until the 202, or `PUT /transfers/{ID}`
//! until the 200. Callbacks are held back, or accepted by receivers that do nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use upesi_http::{StatusCode, Workers};

use super::measurement::Measurement;
use super::receiver::{Receivers, Stopwatch, Taker as _};
use super::scheme::{Past, Scheme, read_existing};
use super::senders::{HUB, Senders, beside_hub, expect_parts, target_of};
use super::source::Source;
use super::stream::{Message, MessageKind, Stream};
use super::{Context, IsolatedError, scratch};
use crate::drive::admin_client::AdminClient;
use crate::drive::child::HubProcess;
use crate::observe::hub_metrics::{Snapshot, stages};
use crate::plan::section::Section;
use crate::result::schema::Queues;

/// Default number of requests of one run.
const MESSAGES: usize = 20_000;
/// An address without a listener: the first connection to it fails, and the lane pauses for the rest of the run.
const NOBODY: &str = "http://127.0.0.1:1";
const HOLD_CALLBACKS: [&str; 3] = [
    "--set=callbacks.breaker_threshold=1",
    "--set=callbacks.breaker_pause_min_ms=3600000",
    "--set=callbacks.breaker_pause_max_ms=3600000",
];

#[derive(Clone, Debug)]
pub(super) struct Settings {
    kind: MessageKind,
    source: Source,
    connections: usize,
    threads: usize,
    /// Whether callbacks are held back instead of being accepted by receivers.
    holds_callbacks: bool,
    durable: bool,
    /// Number of finished transfers that the hub already has.
    existing: usize,
    repetitions: usize,
}

impl Settings {
    pub fn read(kind: MessageKind, keys: &mut Section<'_>) -> Self {
        let source = Source::read(keys, MESSAGES);
        let settings = Self {
            kind,
            existing: read_existing(keys, &source),
            source,
            connections: keys.size("connections", 1..=8_192).unwrap_or(32),
            threads: keys.size("threads", 1..=64).unwrap_or(1),
            holds_callbacks: keys.choice("callbacks", &["held", "swallowed"]) != Some(1),
            durable: keys.flag("durable").unwrap_or(true),
            repetitions: keys.size("repetitions", 1..=1_000).unwrap_or(5),
        };
        if settings.threads > settings.connections {
            keys.mistake("threads must not be more than connections");
        }
        expect_parts(keys, settings.source.messages, settings.repetitions);
        settings
    }

    pub fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load(context, self.kind)?;
        let scratch = scratch(&context.scratch)?;
        let data = scratch.path().join("data");
        let receivers = Receivers::start(1, Duration::ZERO, Arc::new(Stopwatch::new(0)))?;
        let endpoints = if self.holds_callbacks { NOBODY.to_owned() } else { receivers.url() };
        let (reserved, _) = stream.decode_behind(self.kind, self.source.messages)?;
        let past = Past {
            scheme: Scheme::of(&stream, Some(endpoints))?,
            existing: self.existing,
            dfsps: self.source.dfsps,
            seed: context.seed,
            reserved: Arc::new(reserved),
        };
        past.write(&data)?;
        // Streams expire in 2099.
        let mut arguments = vec!["--set=hub.transfer_validity_max_s=3153600000".to_owned()];
        arguments.push(format!("--set=engine.durable={}", self.durable));
        if self.holds_callbacks {
            arguments.extend(HOLD_CALLBACKS.map(str::to_owned));
        }
        let measured = beside_hub(context, &data, arguments, self.threads, |hub, runtime, workers| {
            self.measure(&stream, hub, runtime, workers)
        });
        receivers.stop();
        measured
    }

    fn measure(
        &self,
        stream: &Stream,
        hub: &HubProcess,
        runtime: &Runtime,
        workers: &Arc<Workers>,
    ) -> Result<Measurement, IsolatedError> {
        let messages: Vec<Message> = stream.first(self.kind, self.source.messages)?.cloned().collect();
        let target = target_of(&hub.fspiop_url())?;
        // FSPIOP API v1.1 §3.2.3.
        let success = match self.kind {
            MessageKind::Prepare => StatusCode::ACCEPTED,
            MessageKind::Fulfil => StatusCode::OK,
        };
        let make = move |index: usize| messages[index].request();
        let senders = Senders::new(&target, workers, self.connections, success, make);
        let part = self.source.messages / (self.repetitions + 1);
        senders.begin(runtime, part)?;
        let metrics_before = runtime.block_on(metrics(hub));
        let mut measurement = Measurement::new(self.kind.name(), HUB);
        measurement.fed_with(stream);
        senders.measure(runtime, hub.pid(), (part, self.repetitions), &mut measurement)?;
        let seconds = measurement.took().as_secs_f64();
        let metrics_after = runtime.block_on(metrics(hub));
        measurement.stages = stages(&[(metrics_before, metrics_after)], seconds, &Queues::default());
        measurement.durable = Some(self.durable);
        Ok(measurement)
    }
}

async fn metrics(hub: &HubProcess) -> Snapshot {
    let Ok(client) = AdminClient::new(&hub.admin_url()) else { return Snapshot::default() };
    let text = client.get("/metrics").await.unwrap_or_default();
    Snapshot::read(&String::from_utf8_lossy(&text))
}
