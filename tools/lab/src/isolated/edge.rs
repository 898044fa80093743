//! One request of a transfer over HTTP, to a separate hub: `POST /transfers` until the 202, or `PUT /transfers/{ID}`
//! until the 200. The hub holds callbacks back, or sends them to receivers that do nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use upesi_http::{StatusCode, Workers};

use super::measurement::Measurement;
use super::past::ExistingState;
use super::receiver::{CallbackReceiver as _, Receivers, Stopwatch};
use super::scheme::Scheme;
use super::senders::{HUB, Senders, beside_hub, target_of};
use super::stream::{Message, Stream};
use super::{Context, IsolatedError, scratch};
use crate::admin_client::AdminClient;
use crate::drive::child::HubProcess;
use crate::observe::hub_metrics::{Snapshot, stages};
use crate::plan::stage::edge::Settings;
use crate::plan::stage::message::MessageKind;
use crate::result::schema::Queues;

/// An address without a listener. The first connection to it fails, and the lane pauses for the rest of the run.
const NOBODY: &str = "http://127.0.0.1:1";
const HOLD_CALLBACKS: [&str; 3] = [
    "--set=callbacks.breaker_threshold=1",
    "--set=callbacks.breaker_pause_min_ms=3600000",
    "--set=callbacks.breaker_pause_max_ms=3600000",
];

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load(context, self.kind)?;
        let scratch = scratch(&context.scratch)?;
        let data = scratch.path().join("data");
        let receivers = Receivers::start(1, Duration::ZERO, Arc::new(Stopwatch::new(0)))?;
        let endpoints = if self.holds_callbacks { NOBODY.to_owned() } else { receivers.url() };
        let reserved = stream.prepares_before(self.kind, self.source.messages)?;
        let past = ExistingState {
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
        // The statuses follow FSPIOP API v1.1 §3.2.3.
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
