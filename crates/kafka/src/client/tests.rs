//! Clients of brokers that librdkafka plays itself.

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::*;
use crate::plain::Security;
use crate::settings::LastFailure;

const TOPIC: &str = "journal";
/// Time limit for expected events.
const LIMIT: Duration = Duration::from_secs(60);

/// A client of brokers that librdkafka plays itself.
fn partition(cluster: &MockCluster<'_, DefaultProducerContext>) -> KafkaPartition {
    cluster.create_topic(TOPIC, 1, 1).expect("a topic");
    let settings = KafkaSettings {
        brokers: cluster.bootstrap_servers(),
        topic: TOPIC.to_owned(),
        security: Security::default(),
        errors: Arc::default(),
        failure: LastFailure::default(),
    };
    KafkaPartition::connect(settings, None).expect("a client")
}

fn append(partition: &mut KafkaPartition, tag: u64) {
    partition.append(Append { tag, bytes: Arc::from([1; 100]) });
}

/// The events up to the wanted one.
fn until(partition: &mut KafkaPartition, is_it: impl Fn(&Event) -> bool) -> Vec<Event> {
    let (since, mut events) = (Instant::now(), Vec::new());
    while !events.last().is_some_and(&is_it) {
        assert!(since.elapsed() < LIMIT, "only {events:?}");
        events.extend(partition.next(Duration::from_millis(20)).expect("a sound log"));
    }
    events
}

#[test]
fn consumer_without_progress_is_replaced() {
    let cluster = MockCluster::new(1).expect("a broker");
    let mut partition = partition(&cluster);
    partition.read_from(0);
    append(&mut partition, 1);
    until(&mut partition, |event| matches!(event, Event::Entry { offset: 0, .. }));
    // Like a consumer that queries a broker that is not the leader: no entry, and no error.
    let assigned = partition.consumer.assignment().expect("the partition");
    partition.consumer.pause(&assigned).expect("a pause");
    append(&mut partition, 2);
    append(&mut partition, 3);
    let events = until(&mut partition, |event| matches!(event, Event::Entry { offset: 2, .. }));
    let read: Vec<u64> = events
        .iter()
        .filter_map(|event| if let Event::Entry { offset, .. } = event { Some(*offset) } else { None })
        .collect();
    assert_eq!(read, [1, 2], "each once, in order");
    assert_eq!(partition.settings.errors.load(Ordering::Relaxed), 1, "operators see it");
}

#[test]
fn producer_without_progress_is_replaced() {
    let cluster = MockCluster::new(1).expect("a broker");
    let mut partition = partition(&cluster);
    append(&mut partition, 1);
    until(&mut partition, |event| matches!(event, Event::Acknowledged { tag: 1, offset: 0 }));
    // Like a producer that contacts a broker that is not the leader.
    let stuck = Arc::clone(&partition.producer);
    let refusals = vec![rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 100_000];
    cluster.request_errors(rdkafka::types::RDKafkaApiKey::Produce, &refusals);
    append(&mut partition, 2);
    let mut attempts = 0;
    while Arc::ptr_eq(&stuck, &partition.producer) {
        attempts += 1;
        assert!(attempts < 10, "the producer stays");
        let events = until(&mut partition, |event| matches!(event, Event::Unknown { .. }));
        let Some(Event::Unknown { tag }) = events.last() else { unreachable!() };
        append(&mut partition, tag + 1);
    }
    cluster.clear_request_errors(rdkafka::types::RDKafkaApiKey::Produce);
    until(&mut partition, |event| matches!(event, Event::Acknowledged { offset: 1, .. }));
    assert_eq!(partition.settings.errors.load(Ordering::Relaxed), 1, "operators see it");
}
