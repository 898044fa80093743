//! Producer and consumer of the one partition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{Offset, Timestamp, TopicPartitionList};
use upesi_cluster::{Append, ClusterId, NodeId};
use upesi_replication::{Copied, Event, Partition};

use crate::members::{Members, group, text_of};
use crate::plain::{ENTRY_BYTES_MAX, Security};
use crate::reader::Reader;
use crate::security::SecurityError;
use crate::warnings::{Warning, Warnings, is_denied};
use crate::watch::{Renewal, Watch};

/// The log is one partition: its order is that of the ledger.
pub(crate) const PARTITION: i32 = 0;
/// After this time without an acknowledgement an attempt's outcome is unknown, and its entry is appended again.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the end of the log may take to be told.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the consumer is asked at a time while answers of the producer may come, too.
const SLICE: Duration = Duration::from_millis(5);
const NS_PER_MS: i64 = 1_000_000;
/// So much of the topic may wait to be read.
const QUEUED_KB_MAX: &str = "16384";
/// How the brokers are reached.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// Addresses of some brokers, separated by commas.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// How both sides prove who they are.
    pub security: Security,
    /// Counts the failures that the client reports.
    pub errors: Arc<AtomicU64>,
    /// The newest of them.
    pub failure: LastFailure,
}

/// Why a connection failed last, in librdkafka's words: what it returns says only that no broker was reached.
#[derive(Clone, Debug, Default)]
pub struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    /// A refusal says more than that a second address of the broker was not reached.
    fn note(&self, message: &str) {
        // A broker that does not understand the first question closes the connection.
        let is_unasked = message.contains("Disconnected") && message.contains("APIVERSION_QUERY");
        let hint = if is_unasked {
            "; does this listener expect another security.protocol, such as TLS?"
        } else {
            ""
        };
        let message = &format!("{message}{hint}");
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_refusal(message) || !last.as_deref().is_some_and(is_refusal) {
            *last = Some(message.clone());
        }
    }

    /// As the end of a sentence; nothing if there was none.
    pub fn told(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map_or_else(String::new, |last| format!("; the last failure: {last}"))
    }
}

fn is_refusal(message: &str) -> bool {
    ["SSL", "SASL", "uthentication", "security.protocol"].iter().any(|word| message.contains(word))
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A setting that librdkafka refuses.
    #[error("cannot create the Kafka client: {0}; check the brokers' addresses")]
    Client(#[from] KafkaError),
    /// A file, of keys, certificates or the password.
    #[error(transparent)]
    Security(#[from] SecurityError),
}

/// Tells what became of attempts.
pub(crate) struct Deliveries {
    answers: Sender<Event>,
    told: Context,
    warnings: Arc<Warnings>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.told.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if self.warnings.is_due(Warning::Failure(error.rdkafka_error_code()), Instant::now()) {
            tracing::warn!(%error, reason, "Kafka");
        }
        self.told.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<u64>;

    fn delivery(&self, result: &DeliveryResult<'_>, tag: Box<u64>) {
        if let Err((error, _)) = result
            && is_denied(error)
        {
            self.told.errors.fetch_add(1, Ordering::Relaxed);
            if self.warnings.is_due(Warning::NoWrite, Instant::now()) {
                tracing::warn!(%error, "the brokers do not permit this node to write to the topic");
            }
        }
        let offset = result.as_ref().ok().and_then(|message| u64::try_from(message.offset()).ok());
        // An acknowledgement without an offset says nothing: librdkafka knows such.
        let event =
            offset.map_or(Event::Unknown { tag: *tag }, |offset| Event::Acknowledged { tag: *tag, offset });
        let _ = self.answers.send(event);
    }
}

/// Of all other clients.
pub(crate) struct Context {
    errors: Arc<AtomicU64>,
    failure: LastFailure,
}

impl ClientContext for Context {
    /// Brokers that cannot be reached are said again and again: at the level of a library.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            self.failure.note(message);
        }
        tracing::debug!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, reason, "Kafka");
    }
}

impl rdkafka::consumer::ConsumerContext for Context {}

/// The topic's partition.
pub struct KafkaPartition {
    settings: KafkaSettings,
    name: String,
    producer: Arc<ThreadedProducer<Deliveries>>,
    consumer: Reader,
    watch: Watch,
    /// Where the log ends, by a look that is under way.
    look: Option<Receiver<Option<u64>>>,
    answers: Receiver<Event>,
    /// For attempts that did not reach the producer.
    refused: Sender<Event>,
    /// Of all its clients.
    warnings: Arc<Warnings>,
    node: Option<(ClusterId, NodeId)>,
    group: String,
    reads: bool,
    /// The entry behind the last that was read.
    next_offset: u64,
    /// Of the files when the clients were made.
    stamp: Vec<Option<(SystemTime, u64)>>,
}

impl KafkaSettings {
    /// Brokers by their addresses, separated by commas, and the topic.
    ///
    /// # Errors
    /// None here: a build without this client has no such settings.
    pub fn new(brokers: String, topic: String, security: Security) -> Result<Self, ConnectError> {
        Ok(Self { brokers, topic, security, errors: Arc::default(), failure: LastFailure::default() })
    }

    /// The same, with failures counted here.
    #[must_use]
    pub fn counting(self, errors: Arc<AtomicU64>) -> Self {
        Self { errors, ..self }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Why a connection failed last, as the end of a sentence; empty if none failed.
    pub fn last_failure(&self) -> String {
        self.failure.told()
    }

    /// What every client of these brokers is set to.
    pub(crate) fn client(&self) -> Result<ClientConfig, SecurityError> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            // A broker that was frozen closes no connection.
            .set("socket.timeout.ms", "3000")
            .set("socket.nagle.disable", "true")
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "200")
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "100")
            .set("topic.metadata.refresh.fast.interval.ms", "50");
        // Failures of connections are told as lines of a log, which goes by another one's level unless it is set.
        config.set_log_level(RDKafkaLogLevel::Info);
        self.security.apply(&mut config)?;
        Ok(config)
    }

    /// Where a client says what it meets.
    pub(crate) fn told(&self) -> Context {
        Context { errors: Arc::clone(&self.errors), failure: self.failure.clone() }
    }

    pub(crate) fn producer(
        &self,
        (answers, warnings): (&Sender<Event>, &Arc<Warnings>),
    ) -> Result<Arc<ThreadedProducer<Deliveries>>, ConnectError> {
        let (answers, warnings) = (answers.clone(), Arc::clone(warnings));
        let made = self
            .client()?
            .set("acks", "all")
            // It spares most copies. What is left of them is void.
            .set("enable.idempotence", "true")
            .set("linger.ms", "0")
            .set("batch.num.messages", "1")
            .set("message.max.bytes", ENTRY_BYTES_MAX.to_string())
            .set("message.timeout.ms", ATTEMPT_TIMEOUT.as_millis().to_string())
            .create_with_context(Deliveries { answers, told: self.told(), warnings })?;
        Ok(Arc::new(made))
    }

    fn consumer(&self, group: &str) -> Result<Reader, ConnectError> {
        let made = self
            .client()?
            // Partitions are assigned by hand. Its offset is what this node needs.
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_uncommitted")
            .set("fetch.message.max.bytes", ENTRY_BYTES_MAX.to_string())
            .set("fetch.wait.max.ms", "100")
            // Entries are asked for whether or not others wait to be taken: callbacks wait for them.
            .set("queued.min.messages", "1000")
            .set("queued.max.messages.kbytes", QUEUED_KB_MAX)
            // Until there is room again: by default a second, and a node that catches up takes far less.
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.error.backoff.ms", "20")
            .create_with_context(self.told())?;
        Ok(Reader::new(made))
    }
}

impl KafkaPartition {
    /// A client, of a node if it is one. No broker has to be there yet.
    ///
    /// # Errors
    /// A setting is wrong.
    pub fn connect(settings: KafkaSettings, node: Option<(ClusterId, NodeId)>) -> Result<Self, ConnectError> {
        let (refused, answers) = channel();
        let stamp = settings.security.stamp();
        let warnings = Arc::<Warnings>::default();
        let producer = settings.producer((&refused, &warnings))?;
        let group = node.map_or_else(|| "upesi".to_owned(), |(cluster, node)| group(cluster, node));
        let consumer = settings.consumer(&group)?;
        let name = format!("the topic {}", settings.topic);
        let (reads, next_offset) = (false, 0);
        Ok(Self {
            settings,
            name,
            producer,
            consumer,
            watch: Watch::new(Instant::now()),
            look: None,
            answers,
            refused,
            warnings,
            node,
            group,
            reads,
            next_offset,
            stamp,
        })
    }

    /// Connections are proven when they are made: clients with renewed certificates, keys or passwords take the place
    /// of those that have the files of before. What the producer had under way is unknown.
    fn renew_if_changed(&mut self) -> Result<(), ConnectError> {
        let stamp = self.settings.security.stamp();
        if stamp == self.stamp {
            return Ok(());
        }
        self.renew(Renewal { consumer: true, producer: true })?;
        self.stamp = stamp;
        tracing::info!("reloaded the changed TLS and SASL files for the brokers");
        Ok(())
    }

    /// Others take the place of these clients, once they are made: both, or none. What the producer had under way is
    /// unknown.
    fn renew(&mut self, which: Renewal) -> Result<(), ConnectError> {
        let consumer = which.consumer.then(|| self.settings.consumer(&self.group)).transpose()?;
        let producer =
            which.producer.then(|| self.settings.producer((&self.refused, &self.warnings))).transpose()?;
        if let Some(producer) = producer {
            self.producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
            self.producer = producer;
        }
        if let Some(consumer) = consumer {
            self.consumer = consumer;
            if self.reads {
                self.read_from(self.next_offset);
            }
        }
        Ok(())
    }

    /// Looks, now and then and beside all else, whether the log goes on without this node; clients that are stuck then
    /// are made anew.
    fn mend(&mut self) {
        let now = Instant::now();
        match self.look.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => {}
            Some(end) => {
                self.look = None;
                let next_offset = self.reads.then_some(self.next_offset);
                let found = self.watch.looked(end.ok().flatten(), next_offset, now);
                if let Err(error) = self.renew_stuck(found) {
                    tracing::warn!(%error, "cannot recreate the stalled Kafka client");
                }
            }
            None if self.watch.is_look_due(self.reads, now) => self.look = self.begin_look(),
            None => {}
        }
    }

    fn begin_look(&self) -> Option<Receiver<Option<u64>>> {
        let (producer, topic) = (Arc::clone(&self.producer), self.settings.topic.clone());
        let (tell, told) = channel();
        let look = move || {
            let _ = tell.send(bounds(&producer, &topic).map(|(_, end)| end));
        };
        thread::Builder::new().name("kafka-look".to_owned()).spawn(look).ok().map(|_| told)
    }

    fn renew_stuck(&mut self, found: Renewal) -> Result<(), ConnectError> {
        self.renew(found)?;
        if found != Renewal::default() {
            self.settings.errors.fetch_add(1, Ordering::Relaxed);
            if self.warnings.is_due(Warning::Stuck, Instant::now()) {
                tracing::warn!(
                    reads_nothing = found.consumer,
                    writes_nothing = found.producer,
                    "the Kafka client is stalled although the brokers respond; replacing it"
                );
            }
        }
        Ok(())
    }

    fn send(&mut self, append: &Append) -> Result<(), ConnectError> {
        if let Some((code, reason)) = self.producer.client().fatal_error() {
            tracing::warn!(%code, reason, topic = self.settings.topic, "the producer failed; creating a new one");
            self.renew(Renewal { producer: true, ..Renewal::default() })?;
        }
        let record =
            BaseRecord::<(), [u8], Box<u64>>::with_opaque_to(&self.settings.topic, Box::new(append.tag))
                .partition(PARTITION)
                .payload(&append.bytes);
        self.producer.send(record).map_err(|(error, _)| ConnectError::Client(error))
    }

    fn poll(&mut self, patience: Duration) -> Result<Option<Event>, String> {
        match self.consumer.poll(patience) {
            Some(Ok(message)) => {
                let offset = u64::try_from(message.offset()).unwrap_or_default();
                self.next_offset = offset + 1;
                self.watch.read(Instant::now());
                let appended_ns = match message.timestamp() {
                    Timestamp::LogAppendTime(ms) => ms.checked_mul(NS_PER_MS),
                    Timestamp::CreateTime(_) | Timestamp::NotAvailable => None,
                };
                let bytes = message.payload().unwrap_or_default().into();
                Ok(Some(Event::Entry { offset, bytes, appended_ns }))
            }
            Some(Err(error)) if is_final(&error) => Err(format!(
                "{error}: the topic ends before the entry that this node needs next, or begins after it: a start reports \
                 what to do"
            )),
            Some(Err(error)) if is_denied(&error) => {
                if self.warnings.is_due(Warning::NoRead, Instant::now()) {
                    tracing::warn!(%error, "the brokers do not permit this node to read the topic");
                }
                Ok(None)
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "Kafka");
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

/// Where the partition begins and ends.
///
/// Asked for over the producer's connection: that of the consumer answers only once its long poll has ended, and a node
/// that is to lead would wait for that.
///
/// A producer that sends nothing does not notice that another broker leads the partition: it is told first. If a
/// leading node was lost together with that broker, nobody would take over for minutes.
fn bounds(producer: &ThreadedProducer<Deliveries>, topic: &str) -> Option<(u64, u64)> {
    let client = producer.client();
    client.fetch_metadata(Some(topic), END_TIMEOUT).ok()?;
    let bounds = client.fetch_watermarks(topic, PARTITION, END_TIMEOUT).ok()?;
    Some((u64::try_from(bounds.0).ok()?, u64::try_from(bounds.1).ok()?))
}

/// Whether an offset is gone. Everything else may end by itself.
fn is_final(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset)
    )
}

impl Partition for KafkaPartition {
    fn append(&mut self, append: Append) {
        if let Err(error) = self.send(&append) {
            tracing::debug!(%error, "the producer did not accept an entry");
            let _ = self.refused.send(Event::Unknown { tag: append.tag });
        }
    }

    fn read_from(&mut self, offset: u64) {
        let mut list = TopicPartitionList::new();
        let at = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        let assigned = list
            .add_partition_offset(&self.settings.topic, PARTITION, at)
            .and_then(|()| self.consumer.assign(&list));
        if let Err(error) = assigned {
            tracing::warn!(%error, offset, "cannot set the offset of the consumer");
        }
        (self.reads, self.next_offset) = (true, offset);
        self.watch.read(Instant::now());
    }

    fn stop_reading(&mut self) {
        if let Err(error) = self.consumer.unassign() {
            tracing::warn!(%error, "cannot stop the consumer");
        }
        self.reads = false;
    }

    fn next(&mut self, patience: Duration) -> Result<Option<Event>, String> {
        let deadline = Instant::now() + patience;
        self.mend();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if self.reads { Duration::ZERO } else { left };
            match self.answers.recv_timeout(wait) {
                Ok(event) => {
                    match event {
                        Event::Unknown { .. } => self.watch.failed(Instant::now()),
                        _ => self.watch.acknowledged(),
                    }
                    return Ok(Some(event));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if !self.reads {
                return Ok(None);
            }
            if let Some(event) = self.poll(left.min(SLICE))? {
                return Ok(Some(event));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn end(&mut self) -> Option<u64> {
        bounds(&self.producer, &self.settings.topic).map(|(_, end)| end)
    }

    fn begin(&mut self) -> Option<u64> {
        bounds(&self.producer, &self.settings.topic).map(|(begin, _)| begin)
    }

    fn furthest_of_others(&mut self) -> Option<Copied> {
        let (cluster, node) = self.node?;
        match Members::new(self.settings.clone(), cluster).furthest_but(node) {
            Ok(furthest) => Some(furthest),
            Err(error) => {
                if self.warnings.is_due(Warning::Members, Instant::now()) {
                    tracing::warn!(%error, "cannot read the positions of other nodes from the brokers");
                }
                None
            }
        }
    }

    fn needs(&mut self, offset: u64, has: Copied) {
        if let Err(error) = self.renew_if_changed() {
            tracing::warn!(%error, "cannot use the changed files; new connections use the previous ones");
        }
        let mut list = TopicPartitionList::new();
        let at = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        let told = list.add_partition_offset(&self.settings.topic, PARTITION, at).and_then(|()| {
            if let Some(mut element) = list.find_partition(&self.settings.topic, PARTITION) {
                element.set_metadata(text_of(has));
            }
            self.consumer.commit(&list, CommitMode::Async)
        });
        // What came of the time before, which is of no interest: it must be taken.
        if !self.reads {
            let _ = self.consumer.poll(Duration::ZERO);
        }
        if let Err(error) = told {
            tracing::debug!(%error, offset, "cannot commit the offset that this node needs");
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Debug for KafkaPartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaPartition").field("topic", &self.settings.topic).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
