//! The client: producer and consumer of the topic's one partition.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{Offset, Timestamp, TopicPartitionList};
use upesi_cluster::{Append, ClusterId, NodeId};
use upesi_replication::{CopyPosition, Event, Partition};

use crate::members::{Members, group, text_of};
use crate::plain::ENTRY_BYTES_MAX;
use crate::reader::Reader;
use crate::settings::{ConnectError, Context, KafkaSettings, PARTITION};
use crate::warnings::{Warning, Warnings, is_denied};
use crate::watch::{ReadHealth, Renewal};

/// After this time without an acknowledgement, the outcome of an attempt is unknown, and its entry is appended again.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit of a query for the end of the log.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Time of one poll of the consumer while the producer's results may also arrive.
const SLICE: Duration = Duration::from_millis(5);
const NS_PER_MS: i64 = 1_000_000;
/// Maximum size of entries of the topic that wait to be read.
const QUEUED_KB_MAX: &str = "16384";

/// Reports the outcomes of attempts.
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
        // librdkafka sometimes acknowledges without an offset; then the outcome is unknown.
        let event =
            offset.map_or(Event::Unknown { tag: *tag }, |offset| Event::Acknowledged { tag: *tag, offset });
        let _ = self.answers.send(event);
    }
}

/// The topic's partition.
pub struct KafkaPartition {
    settings: KafkaSettings,
    name: String,
    producer: Arc<ThreadedProducer<Deliveries>>,
    consumer: Reader,
    watch: ReadHealth,
    /// The result of a running query for the end of the log.
    look: Option<Receiver<Option<u64>>>,
    answers: Receiver<Event>,
    /// Results of attempts that did not reach the producer.
    refused: Sender<Event>,
    /// Shared by all its clients.
    warnings: Arc<Warnings>,
    node: Option<(ClusterId, NodeId)>,
    group: String,
    reads: bool,
    /// Offset after the last entry that was read.
    next_offset: u64,
    /// State of the files when the clients were created.
    stamp: Vec<Option<(SystemTime, u64)>>,
}

impl KafkaSettings {
    pub(crate) fn producer(
        &self,
        answers: &Sender<Event>,
        warnings: &Arc<Warnings>,
    ) -> Result<Arc<ThreadedProducer<Deliveries>>, ConnectError> {
        let (answers, warnings) = (answers.clone(), Arc::clone(warnings));
        let made = self
            .client()?
            .set("acks", "all")
            // Idempotence prevents most duplicates. The fold rejects the rest.
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
            // Partitions are assigned explicitly. The offset of the group reports what this node needs.
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_uncommitted")
            .set("fetch.message.max.bytes", ENTRY_BYTES_MAX.to_string())
            .set("fetch.wait.max.ms", "100")
            // Entries are fetched even while others wait to be processed, because callbacks depend on them.
            .set("queued.min.messages", "1000")
            .set("queued.max.messages.kbytes", QUEUED_KB_MAX)
            // Delay until there is capacity again. The default is a second, which is too long for a node that catches
            // up.
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.error.backoff.ms", "20")
            .create_with_context(self.told())?;
        Ok(Reader::new(made))
    }
}

impl KafkaPartition {
    /// A client, for a node if one is given. The brokers need not be reachable yet.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn connect(settings: KafkaSettings, node: Option<(ClusterId, NodeId)>) -> Result<Self, ConnectError> {
        let (refused, answers) = channel();
        let stamp = settings.security.stamp();
        let warnings = Arc::<Warnings>::default();
        let producer = settings.producer(&refused, &warnings)?;
        let group = node.map_or_else(|| "upesi".to_owned(), |(cluster, node)| group(cluster, node));
        let consumer = settings.consumer(&group)?;
        let name = format!("the topic {}", settings.topic);
        let (reads, next_offset) = (false, 0);
        Ok(Self {
            settings,
            name,
            producer,
            consumer,
            watch: ReadHealth::new(Instant::now()),
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

    /// Replaces the clients if the files of certificates, keys or passwords have changed, because connections
    /// authenticate when they are opened. The outcome of the producer's attempts is then unknown.
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

    /// Replaces these clients once the new ones exist: both, or none. The outcome of the producer's attempts is then
    /// unknown.
    fn renew(&mut self, which: Renewal) -> Result<(), ConnectError> {
        let consumer = which.consumer.then(|| self.settings.consumer(&self.group)).transpose()?;
        let producer =
            which.producer.then(|| self.settings.producer(&self.refused, &self.warnings)).transpose()?;
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

    /// Regularly checks in the background whether the log grows without this node reading it, and replaces stalled
    /// clients.
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

/// The begin and the end of the partition.
///
/// The query uses the producer's connection. The consumer's connection answers only when its long poll has ended, and a
/// node that takes over would have to wait for that.
///
/// A producer that sends nothing does not notice a new leader of the partition, so it fetches the metadata first.
/// Otherwise, if a leading node failed together with the partition's leader, no node could take over for minutes.
fn bounds(producer: &ThreadedProducer<Deliveries>, topic: &str) -> Option<(u64, u64)> {
    let client = producer.client();
    client.fetch_metadata(Some(topic), END_TIMEOUT).ok()?;
    let bounds = client.fetch_watermarks(topic, PARTITION, END_TIMEOUT).ok()?;
    Some((u64::try_from(bounds.0).ok()?, u64::try_from(bounds.1).ok()?))
}

/// Whether the error is permanent, because the offset no longer exists. All other errors may be temporary.
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

    fn furthest_of_others(&mut self) -> Option<CopyPosition> {
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

    fn needs(&mut self, offset: u64, has: CopyPosition) {
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
        // Results from before reading stopped are discarded, but must be polled.
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
