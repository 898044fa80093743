//! One request of a transfer over HTTP, to a hub of its own: `POST /transfers` until the 202, or `PUT /transfers/{ID}`
//! until the 200. Callbacks are held back, or swallowed by receivers that do nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use upesi_http::{Bytes, Full, Method, Request as HttpRequest, StatusCode, Workers, header_block};

use super::measurement::Measurement;
use super::receiver::{Receivers, Stopwatch};
use super::scheme::{Past, Scheme, read_existing};
use super::senders::{HUB, SENDER, Senders, expect_parts, target_of};
use super::settings::Keys;
use super::source::{Source, number, yes_no};
use super::stream::{Message, MessageKind, Stream, StreamError};
use super::{Context, IsolatedError, scratch};
use crate::drive::admin_client::AdminClient;
use crate::drive::child::HubProcess;
use crate::observe::hub_metrics::{Snapshot, stages};
use crate::result::schema::{Parameter, Queues};

/// Requests of one run where no number is given.
const MESSAGES: usize = 20_000;
/// A port that nobody listens on: the first connection to it fails, and the lane pauses for the rest of the run.
const NOBODY: &str = "http://127.0.0.1:1";
const HOLD_CALLBACKS: [&str; 3] = [
    "--set=callbacks.breaker_threshold=1",
    "--set=callbacks.breaker_pause_min_ms=3600000",
    "--set=callbacks.breaker_pause_max_ms=3600000",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Prepare,
    Fulfil,
}

impl Request {
    const fn kind(self) -> MessageKind {
        match self {
            Self::Prepare => MessageKind::Prepare,
            Self::Fulfil => MessageKind::Fulfil,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Fulfil => "fulfil",
        }
    }

    /// The status of a success (FSPIOP API v1.1 §3.2.3).
    const fn success(self) -> StatusCode {
        match self {
            Self::Prepare => StatusCode::ACCEPTED,
            Self::Fulfil => StatusCode::OK,
        }
    }

    fn of(self, message: &Message) -> Result<HttpRequest<Full<Bytes>>, String> {
        let headers = header_block::from_block(&message.headers).map_err(|error| error.to_string())?;
        let (method, path) = match self {
            Self::Prepare => (Method::POST, "/transfers".to_owned()),
            Self::Fulfil => (Method::PUT, format!("/transfers/{}", message.id)),
        };
        let mut request = HttpRequest::new(Full::new(message.body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| "the path is no URI".to_owned())?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    request: Request,
    source: Source,
    connections: usize,
    threads: usize,
    /// Whether callbacks are held back, instead of being swallowed by receivers.
    holds_callbacks: bool,
    durable: bool,
    /// Finished transfers that the hub has behind it.
    existing: usize,
    repetitions: usize,
}

impl Settings {
    pub fn read(request: Request, keys: &mut Keys<'_>) -> Self {
        let source = Source::read(keys, MESSAGES);
        let settings = Self {
            request,
            existing: read_existing(keys, &source),
            source,
            connections: keys.size("connections", 1..=8_192, 32),
            threads: keys.size("threads", 1..=64, 1),
            holds_callbacks: keys.choice("callbacks", &["held", "swallowed"]) == "held",
            durable: keys.flag("durable", true),
            repetitions: keys.size("repetitions", 1..=1_000, 5),
        };
        if settings.threads > settings.connections {
            keys.contradiction("threads must not be more than connections".to_owned());
        }
        expect_parts(keys, settings.source.messages, settings.repetitions);
        settings
    }

    pub fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load(context, self.request.kind())?;
        let scratch = scratch(&context.scratch)?;
        let data = scratch.path().join("data");
        let receivers = Receivers::start(1, Duration::ZERO, Arc::new(Stopwatch::new(0)))?;
        let endpoints = if self.holds_callbacks { NOBODY.to_owned() } else { receivers.url() };
        let count = self.source.messages;
        let prepares = match self.request {
            Request::Prepare => Vec::new(),
            Request::Fulfil => stream.decode_fulfilled(count)?.0,
        };
        let past = Past {
            scheme: Scheme::of(&stream, Some(endpoints))?,
            existing: self.existing,
            dfsps: self.source.dfsps,
            seed: context.seed,
            reserved: Arc::new(prepares),
        };
        past.write(&data)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(IsolatedError::thread)?;
        let mut hub = runtime.block_on(self.start_hub(context, &data))?;
        let workers = Arc::new(Workers::start(self.threads, SENDER)?);
        let measured = self.measure(&stream, &hub, &runtime, &workers);
        workers.shutdown();
        hub.end();
        receivers.stop();
        measured
    }

    async fn start_hub(&self, context: &Context, data: &Path) -> Result<HubProcess, IsolatedError> {
        let binary = context.hub_binary()?;
        let mut arguments = context.hub_arguments.clone();
        if self.holds_callbacks {
            arguments.extend(HOLD_CALLBACKS.map(str::to_owned));
        }
        arguments.push(format!("--set=engine.durable={}", self.durable));
        // Streams expire in 2099.
        arguments.push("--set=hub.transfer_validity_max_s=3153600000".to_owned());
        let log = context.logs.as_ref().map(|logs| logs.join("hub.log"));
        Ok(HubProcess::start(&binary, data, &arguments, log.as_deref()).await?)
    }

    fn measure(
        &self,
        stream: &Stream,
        hub: &HubProcess,
        runtime: &Runtime,
        workers: &Arc<Workers>,
    ) -> Result<Measurement, IsolatedError> {
        let messages = stream.of_kind(self.request.kind()).take(self.source.messages).cloned();
        let messages: Vec<Message> = messages.collect();
        if messages.len() < self.source.messages {
            let (found, needed) = (messages.len(), self.source.messages);
            return Err(StreamError::TooShort { what: self.request.unit(), found, needed }.into());
        }
        let target = target_of(&hub.fspiop_url())?;
        let request = self.request;
        let make = move |index: usize| request.of(&messages[index]);
        let senders = Senders::new(&target, workers, self.connections, request.success(), make);
        let part = self.source.messages / (self.repetitions + 1);
        senders.begin(runtime, part)?;
        let metrics_before = runtime.block_on(metrics(hub));
        let mut measurement = Measurement::new(request.unit(), HUB);
        senders.measure(runtime, hub.pid(), (part, self.repetitions), &mut measurement)?;
        let seconds = measurement.took().as_secs_f64();
        let metrics_after = runtime.block_on(metrics(hub));
        measurement.stages = stages(&[(metrics_before, metrics_after)], seconds, &Queues::default());
        measurement.durable = Some(self.durable);
        measurement.parameters = self.source.parameters(stream);
        measurement.parameters.extend([
            ("connections", number(self.connections)),
            ("durable", yes_no(self.durable)),
            ("existing", number(self.existing)),
            ("callbacks", Parameter::from(if self.holds_callbacks { "held" } else { "swallowed" })),
        ]);
        Ok(measurement)
    }
}

async fn metrics(hub: &HubProcess) -> Snapshot {
    let Ok(client) = AdminClient::new(&hub.admin_url()) else { return Snapshot::default() };
    let text = client.get("/metrics").await.unwrap_or_default();
    Snapshot::read(&String::from_utf8_lossy(&text))
}
