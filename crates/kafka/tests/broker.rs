//! Two nodes with a real broker, which this test starts: the leader, the content of the copies, and topics that are not
//! logs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use upesi_cluster::{Claim, ClusterId, Incarnation, NodeId, StandbyTimeouts};
use upesi_journal::{Access, Appender, Batch, Disk, END, EmbeddedLog, JournalError, Log, Options, RealDisk};
use upesi_kafka::{
    Deletion, KafkaPartition, KafkaSettings, LastFailure, Members, Replicas, Security, TopicError,
    check_topic, create_topic,
};
use upesi_replication::{
    Clock, Copies, CopyOf, NodeSettings, ReplicatedLog, StandbyOutcome, StandbyProgress, SystemClock,
    stand_by,
};
use upesi_testsupport::broker::Broker;

const CLUSTER: ClusterId = ClusterId(5);
/// Time limit for expected events.
const LIMIT: Duration = Duration::from_secs(60);

fn topic(broker: &Broker, topic: &str) -> KafkaSettings {
    let (brokers, topic) = (broker.addresses.clone(), topic.to_owned());
    let (security, failure) = (Security::default(), LastFailure::default());
    KafkaSettings { brokers, topic, security, errors: Arc::default(), failure }
}

struct Node {
    number: u32,
    data: PathBuf,
    settings: KafkaSettings,
    /// The last record that it has read.
    seq: AtomicU64,
    stops: Arc<AtomicBool>,
}

impl Node {
    fn new(directory: &Path, settings: &KafkaSettings, number: u32) -> Self {
        let data = directory.join(format!("node-{number}"));
        std::fs::create_dir_all(data.join("store")).expect("a directory");
        Self { number, data, settings: settings.clone(), seq: AtomicU64::new(0), stops: Arc::default() }
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::new(&self.data, Access::Write))
    }

    fn store_disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::new(self.data.join("store"), Access::Write))
    }

    /// Follows until it becomes leader or is stopped.
    fn stand_by(&self) -> Option<ReplicatedLog> {
        let partition = Box::new(
            KafkaPartition::connect(self.settings.clone(), Some((CLUSTER, NodeId(self.number))))
                .expect("a client"),
        );
        let settings = NodeSettings {
            cluster: CLUSTER,
            node: NodeId(self.number),
            claim: Claim {
                incarnation: Incarnation(u64::from(self.number)),
                level: 1,
                address: format!("node-{}", self.number),
            },
            patience: StandbyTimeouts::of_rank(self.number),
            may_claim: true,
            is_promoted: Arc::default(),
            is_unfit: Arc::default(),
            report_every: Duration::from_secs(1),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let mut tell = |progress: &StandbyProgress| self.seq.store(progress.position.seq, Ordering::Release);
        let stood = stand_by(
            partition,
            Copies { journal: copy(self.disk()), store: copy(self.store_disk()) },
            &settings,
            &clock,
            &self.stops,
            &mut tell,
        );
        match stood.expect("a sound log") {
            StandbyOutcome::Elected(log) => Some(log),
            StandbyOutcome::Stopped => None,
        }
    }

    fn records(&self) -> [Vec<(i64, Vec<u8>)>; 2] {
        [self.disk(), self.store_disk()].map(|disk| Self::records_on(&disk))
    }

    fn records_on(disk: &Arc<dyn Disk>) -> Vec<(i64, Vec<u8>)> {
        let mut reader = EmbeddedLog::for_reading(disk).read_from(1);
        let mut records = Vec::new();
        while let Some(record) = reader.next_record(END).expect("a sound copy") {
            records.push((record.time_ns, record.bytes.to_vec()));
        }
        records
    }
}

fn copy(disk: Arc<dyn Disk>) -> CopyOf {
    CopyOf { disk, options: Options { segment_bytes: 1 << 20, ..Options::default() } }
}

fn claim(log: &ReplicatedLog) -> Box<dyn Appender> {
    log.claim(0).expect("the leadership").appender
}

/// Records of `bytes` each, which all differ.
fn batch(first_seq: u64, count: u64, bytes: usize) -> Batch {
    let mut batch = Batch::new(first_seq);
    for seq in first_seq..first_seq + count {
        let text = format!("record {seq} ");
        batch.push(i64::try_from(seq).expect("few"), |buffer| {
            buffer.extend(text.bytes().cycle().take(bytes));
        });
    }
    batch
}

#[test]
fn nodes_on_a_real_broker_agree() {
    let directory = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(directory.path());
    let settings = topic(&broker, "journal");
    create_topic(&settings, Replicas::TRIAL).expect("a topic");
    check_topic(&settings, Replicas::TRIAL).expect("a topic as it must be");
    let [first, second] = [0, 1].map(|number| Node::new(directory.path(), &settings, number));
    let log = first.stand_by().expect("it becomes leader, because it is the only node");
    let mut store = log.store().expect("not claimed").appender;
    let mut leader = claim(&log);
    // The entries are small, or as large as with a body of 5 MiB.
    for (first_seq, count, bytes) in [(1, 3, 10), (4, 500, 600), (504, 1, 6 << 20)] {
        leader.append(&mut batch(first_seq, count, bytes)).expect("appended");
    }
    leader.confirm().expect("it leads");
    // The entries are as large as the store's records.
    for (first_seq, count, bytes) in [(1, 2, 100), (3, 1, 10 << 20)] {
        store.append(&mut batch(first_seq, count, bytes)).expect("appended");
    }
    let successor = thread::scope(|scope| {
        let standing = scope.spawn(|| second.stand_by());
        let deadline = Instant::now() + LIMIT;
        while second.seq.load(Ordering::Acquire) < 504 {
            // The leader stays leader as long as it sends heartbeats.
            leader.maintain().expect("it leads");
            assert!(Instant::now() < deadline, "the standby has read {:?} records", second.seq);
            thread::yield_now();
        }
        // From now on it sends nothing.
        standing.join().expect("no panic").expect("it leads after the silence")
    });
    let mut successor = claim(&successor);
    successor.append(&mut batch(505, 2, 20)).expect("appended");
    let error = leader.append(&mut batch(505, 7, 20)).expect_err("it is no longer the leader");
    assert!(matches!(&error, JournalError::Superseded { by } if by == "node-1"), "{error}");
    let error = store.append(&mut batch(4, 1, 20)).expect_err("it is no longer the leader");
    assert!(matches!(&error, JournalError::Superseded { by } if by == "node-1"), "{error}");
    drop((leader, store));
    // The former leader follows, with its own copy.
    thread::scope(|scope| {
        let standing = scope.spawn(|| first.stand_by());
        let deadline = Instant::now() + LIMIT;
        while first.seq.load(Ordering::Acquire) < 506 {
            successor.maintain().expect("it leads");
            assert!(Instant::now() < deadline, "the former leader has read {:?} records", first.seq);
            thread::yield_now();
        }
        first.stops.store(true, Ordering::Release);
        assert!(standing.join().expect("no panic").is_none());
    });
    assert_eq!(first.records().map(|records| records.len()), [506, 3]);
    assert!(first.records() == second.records(), "the copies differ");
    entries_that_no_node_needs_are_deleted(Members::new(settings, CLUSTER));
    unsuitable_topics_are_rejected(&broker);
}

/// Reports reach the brokers with some delay.
fn entries_that_no_node_needs_are_deleted(mut members: Members) {
    let deadline = Instant::now() + LIMIT;
    let needs = loop {
        let needs = members.needs().expect("the brokers answer");
        if needs.len() == 2 && needs.values().all(|needed| *needed > 0) {
            break needs;
        }
        assert!(Instant::now() < deadline, "{needs:?}");
    };
    let hour = Duration::from_secs(3600);
    let first = needs.values().min().copied();
    // All entries are younger than an hour. Deleted entries are not deleted again.
    for (keep, begin) in [(hour, None), (Duration::ZERO, first), (Duration::ZERO, None)] {
        let deleted = members.delete_before_need(keep).expect("the brokers answer");
        assert_eq!(deleted, Deletion { begin, held_by: None }, "{keep:?}");
    }
    // All entries are older than a moment, and the slower node retains them.
    let slower = needs.iter().min_by_key(|(_, needed)| **needed).map(|(node, _)| *node);
    let deleted = members.delete_before_need(Duration::from_nanos(1)).expect("the brokers answer");
    assert_eq!(deleted, Deletion { begin: None, held_by: slower });
    for known in [true, false] {
        assert_eq!(members.remove(NodeId(1)).expect("the brokers answer"), known);
    }
    assert_eq!(members.needs().expect("the brokers answer").into_keys().collect::<Vec<_>>(), [0]);
}

fn unsuitable_topics_are_rejected(broker: &Broker) {
    let missing = check_topic(&topic(broker, "nowhere"), Replicas::TRIAL);
    assert!(matches!(&missing, Err(TopicError::Missing(topic)) if topic == "nowhere"), "{missing:?}");
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &broker.addresses).create().expect("a client");
    let unfit = NewTopic::new("unfit", 2, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact")
        .set("retention.ms", "604800000");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = AdminOptions::new().operation_timeout(Some(LIMIT));
    let created = runtime.block_on(admin.create_topics([&unfit], &options)).expect("the brokers answer");
    assert!(created[0].is_ok(), "{created:?}");
    let Err(TopicError::Unfit { wrong, .. }) = check_topic(&topic(broker, "unfit"), Replicas::SHIPPED) else {
        panic!("a topic of two partitions, compacted, passed for a log")
    };
    for part in [
        "2 partitions instead of 1",
        "1 replicas instead of 3",
        "cleanup.policy is compact instead of delete",
        "retention.ms is 604800000 instead of -1",
        "min.insync.replicas is 1 instead of 2",
        "max.message.bytes is 1048588 instead of 12582912",
    ] {
        assert!(wrong.iter().any(|found| found.contains(part)), "{part}: {wrong:?}");
    }
}
