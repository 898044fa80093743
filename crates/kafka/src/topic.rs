//! The settings that the topic needs to be a log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigEntry, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::producer::Producer;

use crate::plain::{ENTRY_BYTES_MAX, Replicas, TopicReplicas};
use crate::security::SecurityError;
use crate::settings::{Context, KafkaSettings};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for learning the reason of a failed connection.
const DIAGNOSIS: Duration = Duration::from_secs(3);
/// Time until a broker knows a topic that another one just created, or all topics after its own start.
const LEARNS_WITHIN: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Reason why a topic cannot be the log of a hub.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// The brokers do not answer, or return an error.
    #[error("cannot read the topic {topic} from the brokers: {source}{last}")]
    Kafka {
        topic: String,
        source: Box<KafkaError>,
        /// The reason of the last failed connection, as the end of the sentence.
        last: String,
    },
    /// A file of keys, certificates or the password cannot be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// The topic does not exist.
    #[error(
        "the topic {0} does not exist: create it with `upesi cluster create-topic`, or check `cluster.topic`"
    )]
    Missing(String),
    /// The brokers do not return the topic's settings. The binding of librdkafka drops the broker's reason.
    #[error(
        "the brokers do not return the settings of the topic {0}: permit the operation DescribeConfigs on it, or start \
         again when they have it"
    )]
    Untold(String),
    /// The topic could lose or reorder entries.
    #[error("the topic {topic} cannot be used as a cluster's log: {}; change it, then start again", .wrong.join("; "))]
    Unfit {
        topic: String,
        /// Each wrong setting.
        wrong: Vec<String>,
    },
}

impl TopicError {
    /// Whether the brokers are the cause, and not the topic or a file.
    pub const fn is_of_brokers(&self) -> bool {
        matches!(self, Self::Kafka { .. } | Self::Untold(_))
    }
}

impl KafkaSettings {
    pub(crate) fn failed(&self, source: KafkaError) -> TopicError {
        if self.failure.told().is_empty() {
            self.try_to_connect();
        }
        TopicError::Kafka { topic: self.topic.clone(), source: Box::new(source), last: self.failure.told() }
    }

    /// Connects with a producer, because administrative clients do not report the reasons of failed connections.
    fn try_to_connect(&self) {
        if let Ok(client) = self.producer(&channel().0, &Arc::default()) {
            let _ = client.client().fetch_metadata(Some(&self.topic), DIAGNOSIS);
        }
    }

    pub(crate) fn admin(&self) -> Result<AdminClient<Context>, TopicError> {
        AdminClient::from_config_and_context(&self.client()?, self.told()).map_err(|error| self.failed(error))
    }
}

/// The required settings of the topic.
fn wanted(replicas: Replicas) -> BTreeMap<&'static str, String> {
    [
        ("min.insync.replicas", replicas.in_sync_min.to_string()),
        ("unclean.leader.election.enable", "false".to_owned()),
        ("cleanup.policy", "delete".to_owned()),
        ("retention.ms", "-1".to_owned()),
        ("retention.bytes", "-1".to_owned()),
        ("message.timestamp.type", "LogAppendTime".to_owned()),
        ("compression.type", "producer".to_owned()),
        ("max.message.bytes", ENTRY_BYTES_MAX.to_string()),
    ]
    .into()
}

/// Creates the topic with the required settings. An existing topic is left unchanged.
///
/// # Errors
/// The brokers return an error or cannot be reached.
pub fn create_topic(settings: &KafkaSettings, replicas: Replicas) -> Result<(), TopicError> {
    let kafka = |source| settings.failed(source);
    let wanted = wanted(replicas);
    let mut topic = NewTopic::new(&settings.topic, 1, TopicReplication::Fixed(replicas.count));
    for (key, value) in &wanted {
        topic = topic.set(key, value);
    }
    let admin = settings.admin()?;
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
    let results = block_on(admin.create_topics([&topic], &options)).map_err(kafka)?;
    match results.into_iter().next() {
        None | Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
        Some(Err((_, code))) => Err(kafka(KafkaError::AdminOp(code))),
    }
}

/// Checks that the topic has one partition, the required settings and at least `replicas`.
///
/// # Errors
/// The topic differs, or the brokers do not answer.
pub fn check_topic(settings: &KafkaSettings, replicas: Replicas) -> Result<(), TopicError> {
    let admin = settings.admin()?;
    let (mut wrong, told) = once_known(ASK_EVERY, || {
        let wrong = find_topic(&admin, settings, |found| wrong_size(found, replicas.count))?;
        Ok((wrong, told_settings(&admin, settings)?))
    })?;
    for (key, value) in wanted(replicas) {
        let told = told.iter().find(|entry| entry.name == key).and_then(|entry| entry.value.as_deref());
        if !is_as_wanted(key, &value, told.unwrap_or_default()) {
            wrong.push(format!("{key} is {} instead of {value}", told.unwrap_or("unknown")));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(TopicError::Unfit { topic: settings.topic.clone(), wrong }) }
}

/// Repeats a query while a broker does not know the topic yet.
fn once_known<T>(pause: Duration, ask: impl Fn() -> Result<T, TopicError>) -> Result<T, TopicError> {
    let since = Instant::now();
    loop {
        match ask() {
            Err(TopicError::Missing(_) | TopicError::Untold(_)) if since.elapsed() < LEARNS_WITHIN => {
                thread::sleep(pause);
            }
            told => return told,
        }
    }
}

/// A broker's metadata of the topic's partitions.
fn find_topic<T>(
    admin: &AdminClient<Context>,
    settings: &KafkaSettings,
    look: impl FnOnce(&MetadataTopic) -> T,
) -> Result<T, TopicError> {
    let metadata = admin.inner().fetch_metadata(Some(&settings.topic), TIMEOUT);
    let metadata = metadata.map_err(|source| settings.failed(source))?;
    let missing = || TopicError::Missing(settings.topic.clone());
    let found = metadata.topics().iter().find(|found| found.name() == settings.topic).ok_or_else(missing)?;
    match found.error().map(RDKafkaErrorCode::from) {
        None | Some(RDKafkaErrorCode::LeaderNotAvailable) => Ok(look(found)),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Err(missing()),
        Some(code) => Err(settings.failed(KafkaError::MetadataFetch(code))),
    }
}

fn wrong_size(found: &MetadataTopic, replicas: i32) -> Vec<String> {
    let partitions = found.partitions();
    let mut wrong = Vec::new();
    if partitions.len() != 1 {
        wrong.push(format!("it has {} partitions instead of 1", partitions.len()));
    }
    let copies = partitions.iter().map(|partition| partition.replicas().len()).min().unwrap_or_default();
    if copies < usize::try_from(replicas).unwrap_or_default() {
        wrong.push(format!("it has {copies} replicas instead of {replicas}"));
    }
    wrong
}

/// A broker's settings of the topic; empty if it does not know the topic.
fn told_settings(
    admin: &AdminClient<Context>,
    settings: &KafkaSettings,
) -> Result<Vec<ConfigEntry>, TopicError> {
    let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
    let resource = ResourceSpecifier::Topic(&settings.topic);
    let described = block_on(admin.describe_configs([&resource], &options));
    match described.map_err(|source| settings.failed(source))?.pop() {
        Some(Ok(topic)) if !topic.entries.is_empty() => Ok(topic.entries),
        Some(Err(code)) => Err(settings.failed(KafkaError::AdminOp(code))),
        Some(Ok(_)) | None => Err(TopicError::Untold(settings.topic.clone())),
    }
}

/// The brokers that store the topic.
///
/// # Errors
/// The topic does not exist, or the brokers do not answer.
pub fn standing(settings: &KafkaSettings) -> Result<TopicReplicas, TopicError> {
    let admin = settings.admin()?;
    let missing = || TopicError::Missing(settings.topic.clone());
    let standing = |topic: &MetadataTopic| topic.partitions().first().map(standing_of);
    once_known(ASK_EVERY, || find_topic(&admin, settings, standing)?.ok_or_else(missing))
}

fn standing_of(partition: &MetadataPartition) -> TopicReplicas {
    let numbers = |brokers: &[i32]| -> Vec<u32> {
        let mut numbers: Vec<u32> = brokers.iter().filter_map(|broker| u32::try_from(*broker).ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    let in_sync = numbers(partition.isr());
    let mut behind = numbers(partition.replicas());
    behind.retain(|broker| !in_sync.contains(broker));
    TopicReplicas { leader: u32::try_from(partition.leader()).ok(), in_sync, behind }
}

/// Whether a setting is as required. Sizes and counts may be larger.
fn is_as_wanted(key: &str, wanted: &str, told: &str) -> bool {
    match key {
        "min.insync.replicas" | "max.message.bytes" => {
            let number = |text: &str| text.parse::<u64>().ok();
            number(told).is_some_and(|told| Some(told) >= number(wanted))
        }
        _ => wanted == told,
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, KafkaError>>) -> Result<T, KafkaError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| KafkaError::AdminOpCreation(error.to_string()))?.block_on(future)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::{TopicError, is_as_wanted, once_known};

    #[test]
    fn broker_that_does_not_know_the_topic_yet_is_queried_again() {
        let topic = || "upesi-journal".to_owned();
        let asked = Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Err(TopicError::Missing(topic())),
                2 | 3 => Err(TopicError::Untold(topic())),
                number => Ok(number),
            }
        };
        assert_eq!(once_known(Duration::ZERO, ask).unwrap(), 4);
        let unfit = || Err::<(), _>(TopicError::Unfit { topic: topic(), wrong: Vec::new() });
        assert!(matches!(once_known(Duration::ZERO, unfit), Err(TopicError::Unfit { .. })));
    }

    #[test]
    fn larger_values_are_accepted_if_they_are_safe() {
        for (key, wanted, told, fits) in [
            ("min.insync.replicas", "2", "2", true),
            ("min.insync.replicas", "2", "3", true),
            ("min.insync.replicas", "2", "1", false),
            ("max.message.bytes", "12582912", "104857600", true),
            ("max.message.bytes", "12582912", "1048588", false),
            ("retention.ms", "-1", "-1", true),
            ("retention.ms", "-1", "604800000", false),
            ("cleanup.policy", "delete", "compact,delete", false),
            ("unclean.leader.election.enable", "false", "", false),
        ] {
            assert_eq!(is_as_wanted(key, wanted, told), fits, "{key} {told}");
        }
    }
}
