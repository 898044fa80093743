//! A node of a cluster: it follows the log into its data directory until it becomes leader.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use upesi_cluster::{Claim, ClusterId, Incarnation, LEVEL, NodeId, Patience, Position};
use upesi_engine::{AnsweringStandby, StandbyEngine, StartError};
use upesi_gateway::nodes::Lead;
use upesi_journal::{DataDirectory, Disk, EmbeddedLog, JournalError, Log, Options};
use upesi_kafka::{
    ConnectError, Deletion, KafkaPartition, KafkaSettings, Members, Replicas, Sasl,
    Security as BrokerSecurity, TopicError, check_topic, create_topic, standing,
};
use upesi_replication::{
    Copies, CopyOf, NodeSettings, PLACE_FILE, Partition, Progress, Repair, ReplicatedLog, ReplicationError,
    Stood, SystemClock, stand_by as follow, survey,
};
use upesi_tables::TablesError;
use upesi_tables::store::{Store, StoreEnd, StoreFollower};
use upesi_tls::{ClientFiles, Identity, Trust};

use super::following::Read;
use super::node::{Node, NodeMetrics};
use super::retention::Retention;
use super::{STORE, exit_of, exit_of_store, options};
use crate::config::{Cluster, Settings};
use crate::exit::Exit;

pub use upesi_kafka::Standing;
pub use upesi_replication::Copied;

/// Reason why a node cannot follow its cluster's log.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A setting of the section is invalid.
    #[error("{0}")]
    Settings(String),
    /// The client cannot be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The topic does not exist, or is not suitable as a log.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The copy or the log is inconsistent.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// No broker answers.
    #[error("{log} cannot be reached: check cluster.brokers and cluster.topic{last}")]
    Unreachable {
        /// The log.
        log: String,
        /// The reason of the last failed connection, as the end of the sentence.
        last: String,
    },
    /// A repair would use a copy that is not the longest.
    #[error(
        "node {node} reported record {seq}, and {store_seq} of the store: repair the log there, or run `upesi \
             cluster remove {node}` if its disk is lost"
    )]
    LongerCopy {
        /// The other node.
        node: u32,
        /// Its last record.
        seq: u64,
        /// The last record of its store.
        store_seq: u64,
    },
    /// The data directory cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store in the data directory cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
}

impl ClusterError {
    /// The exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Settings(_) | Self::Connect(_) => Exit::Usage,
            Self::Topic(error) if error.is_of_brokers() => Exit::Unavailable,
            Self::Topic(_) => Exit::Usage,
            Self::Unreachable { .. } => Exit::Unavailable,
            Self::LongerCopy { .. } => Exit::Failure,
            Self::Start(error) => exit_of(error),
            Self::Store(error) => exit_of_store(error),
            Self::Replication(error) => match error {
                ReplicationError::Copy(JournalError::Damaged { .. }) => Exit::Data,
                ReplicationError::Copy(_) | ReplicationError::Stopped { .. } => Exit::InputOutput,
                ReplicationError::OtherCluster { .. }
                | ReplicationError::ForeignLog { .. }
                | ReplicationError::NotReplicated => Exit::Usage,
                ReplicationError::Silent { .. } => Exit::Unavailable,
                ReplicationError::Contended { .. } => Exit::Temporary,
                _ => Exit::Data,
            },
        }
    }
}

/// Rejects the use of a node's copy as a standalone hub's journal, because it would continue without the other nodes.
pub(super) fn expect_alone(settings: &Settings) -> Result<(), ClusterError> {
    let place = settings.data.dir.join(PLACE_FILE);
    if !place.exists() {
        return Ok(());
    }
    Err(ClusterError::Settings(format!(
        "{} is the copy of a node of a cluster: serve it with the node's settings of `cluster`, or restore a backup to another directory",
        settings.data.dir.display()
    )))
}

/// Settings of the log's client.
pub(super) fn log_of(settings: &Settings) -> Result<KafkaSettings, ClusterError> {
    let cluster = &settings.cluster;
    if cluster.brokers.is_empty() {
        return Err(ClusterError::Settings("cluster.log = kafka needs cluster.brokers".to_owned()));
    }
    let (brokers, topic) = (cluster.brokers.clone(), cluster.topic.clone());
    Ok(KafkaSettings::new(brokers, topic, security_of(settings))?)
}

/// The files of TLS to the brokers, if it is used. The settings were validated.
pub(super) fn broker_files(settings: &Settings) -> Option<ClientFiles> {
    let tls = &settings.broker_tls;
    let trust = || Trust {
        anchors_file: PathBuf::from(&tls.anchors_file),
        crl_file: None,
        refuses_stale_crls: false,
    };
    let identity = (tls.mode == "mutual").then(|| Identity {
        certificate_file: PathBuf::from(&tls.certificate_file),
        key_file: PathBuf::from(&tls.key_file),
    });
    (tls.mode != "plain").then(|| ClientFiles { servers: trust(), identity })
}

/// The settings were validated.
fn security_of(settings: &Settings) -> BrokerSecurity {
    let sasl = &settings.broker_sasl;
    BrokerSecurity {
        tls: broker_files(settings),
        sasl: (sasl.mechanism != "none").then(|| Sasl {
            mechanism: sasl.mechanism.to_owned(),
            username: sasl.username.clone(),
            password_file: PathBuf::from(&sasl.password_file),
        }),
    }
}

pub(super) fn replicas_of(cluster: &Cluster) -> Replicas {
    if cluster.replicas == "1" { Replicas::TRIAL } else { Replicas::SHIPPED }
}

pub(super) fn id_of(cluster: &Cluster) -> Result<ClusterId, ClusterError> {
    read_id(&cluster.id).ok_or_else(|| {
        let text = "cluster.log = kafka needs cluster.id: a random UUID, with or without dashes; Linux prints one \
                    with `cat /proc/sys/kernel/random/uuid`";
        ClusterError::Settings(text.to_owned())
    })
}

fn read_id(uuid: &str) -> Option<ClusterId> {
    let digits = uuid.replace('-', "");
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(&digits, 16).ok().filter(|_| is_id).map(ClusterId)
}

/// The number of this node, if the settings are of a cluster.
pub(super) fn number_of(settings: &Settings) -> Option<u32> {
    (settings.cluster.log != "none").then(|| small(settings.cluster.node))
}

/// Numbers of nodes and ranks have a limit far below.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Interval in seconds at which a node reports the end of its copy to the brokers. Other nodes without a running hub
/// need only this report to start.
const TELL_EVERY_S: u64 = 10;

pub(super) fn node_of(settings: &Settings) -> Result<NodeSettings, ClusterError> {
    let cluster = &settings.cluster;
    Ok(NodeSettings {
        cluster: id_of(cluster)?,
        node: NodeId(small(cluster.node)),
        claim: Claim {
            incarnation: Incarnation(RandomState::new().build_hasher().finish()),
            level: LEVEL,
            address: cluster.address.clone(),
        },
        patience: Patience::of_rank(small(cluster.rank)),
        may_claim: cluster.may_lead,
        is_promoted: Arc::default(),
        is_unfit: Arc::default(),
        tell_every: Duration::from_secs(cluster.trim_interval_s.min(TELL_EVERY_S)),
    })
}

/// The parts that a new leader continues to use.
pub(super) struct Elected {
    /// The journal.
    pub(super) log: Arc<dyn Log>,
    /// State and archive up to the election.
    pub(super) standby: StandbyEngine,
    /// The store up to the election.
    pub(super) store: Store,
    pub(super) node: Node,
    /// The retention that ran on the follower.
    pub(super) retention: Option<Retention>,
}

/// Follows the log until this node becomes leader; `None` if it `stops` before.
pub(super) fn stand_by(
    settings: &Settings,
    stops: &Arc<AtomicBool>,
    read: &Read,
) -> Result<Option<Elected>, ClusterError> {
    let metrics = Arc::clone(&read.metrics);
    let kafka = log_of(settings)?.counting(Arc::clone(&metrics.broker_errors));
    let (is_promoted, is_unfit) = (Arc::clone(&read.is_promoted), Arc::clone(&read.is_unfit));
    let node = NodeSettings { is_promoted, is_unfit, ..node_of(settings)? };
    check_topic(&kafka, replicas_of(&settings.cluster))?;
    let directory = DataDirectory::open(&settings.data.dir).map_err(StartError::Data)?;
    let partition = Box::new(KafkaPartition::connect(kafka, Some((node.cluster, node.node)))?);
    let engine = options::engine(settings);
    let disk = directory.disk();
    let copy = EmbeddedLog::for_reading(&disk);
    let disks = (Some(directory), Arc::clone(&disk));
    let standby = StandbyEngine::open(&engine, disks, &copy, read.participants.clone())?;
    let (standby, answers) = AnsweringStandby::start(standby, &engine, &copy)?;
    read.clock.follow(answers.clock());
    if let Some(callbacks) = read.callbacks.get() {
        callbacks.begin(&answers);
    }
    let exports = options::retention(settings).filter(|policy| policy.export_dir.is_some());
    let retention = exports.map(|policy| Retention::follow(policy, answers.clone())).transpose();
    let retention = retention.map_err(StartError::Thread)?;
    let _ = read.engine.set(answers);
    let mut store = StoreFollower::open(settings.data.dir.join(STORE), &options::shared_store(settings))?;
    store.prepare(&upesi_parties::TABLES)?;
    store.prepare(&upesi_quoting::TABLES)?;
    let copies = copies(settings, disk, &store);
    let apply = |position: &Position| {
        standby.follow_to(position.seq)?;
        Ok(store.follow_to(position.store.seq)?)
    };
    let mut follower = Follower { read, apply, leader: None, failed: None };
    let clock: Arc<dyn upesi_replication::Clock> = Arc::new(SystemClock::default());
    let stood = follow(partition, copies, &node, &clock, stops, &mut |progress: &Progress| {
        follower.report(progress)
    })?;
    if let Some(error) = follower.failed {
        return Err(error);
    }
    Ok(match stood {
        Stood::Elected(log) => {
            let (store, store_record) = led(store, &log)?;
            metrics.elected(log.was_called(), store_record);
            tracing::info!("this node is now the leader");
            let node = Node { number: node.node.0, metrics, stops: Arc::clone(stops) };
            Some(Elected { log: Arc::new(log), standby: standby.end(), store, node, retention })
        }
        Stood::Stopped => None,
    })
}

/// Applies what the node has read to its state, and reports it.
struct Follower<'a, A> {
    read: &'a Read,
    /// Brings state, archive, snapshots and store up to a position.
    apply: A,
    /// The leader that was reported last.
    leader: Option<Option<(NodeId, Incarnation)>>,
    failed: Option<ClusterError>,
}

impl<A: FnMut(&Position) -> Result<(), ClusterError>> Follower<'_, A> {
    fn report(&mut self, progress: &Progress) {
        let position = &progress.position;
        if self.leader.replace(position.leader) != Some(position.leader) {
            tell_leader(progress);
        }
        tell_clock_ahead(progress);
        let node = position.leader.map(|(node, _)| node.0);
        self.read.lead(Lead { epoch: position.epoch, node }, progress.leader.as_deref());
        if self.failed.is_some() {
            return;
        }
        match (self.apply)(position) {
            // After that, so that reported progress is never ahead of the state.
            Ok(()) => self.read.metrics.followed(progress),
            Err(error) => {
                tracing::error!(
                    %error,
                    "state, archive, snapshots and store no longer follow the log: this node cannot become leader before a restart"
                );
                self.read.is_unfit.store(true, Ordering::Release);
                self.failed = Some(error);
            }
        }
    }
}

/// Storage of a node's copies.
pub(super) fn copies(settings: &Settings, disk: Arc<dyn Disk>, store: &StoreFollower) -> Copies {
    let engine = options::engine(settings);
    let options = Options {
        segment_bytes: engine.segment_bytes,
        durability: engine.durability,
        identity: RandomState::new().build_hasher().finish(),
        ..Options::default()
    };
    Copies {
        journal: CopyOf { disk, options },
        store: CopyOf { disk: store.disk(), options: store.journal_options() },
    }
}

/// The store of a leader, which writes to the cluster's log, and its last record.
fn led(store: StoreFollower, log: &ReplicatedLog) -> Result<(Store, u64), ClusterError> {
    let end = log.store().map_err(ReplicationError::Copy)?;
    let last_seq = end.last_seq;
    let end = StoreEnd { appender: end.appender, last_seq, last_time_ns: end.last_time_ns };
    Ok((store.lead(end)?, last_seq))
}

fn tell_clock_ahead(progress: &Progress) {
    if !progress.ahead.is_zero() {
        let ahead_ms = progress.ahead.as_millis();
        tracing::error!(
            ahead_ms,
            "this node cannot become leader: its clock is ahead of the brokers' clocks; correct it"
        );
    }
}

fn tell_leader(progress: &Progress) {
    let position = &progress.position;
    let (epoch, seq) = (position.epoch, position.seq);
    match position.leader {
        Some((node, _)) => {
            let address = progress.leader.as_deref().unwrap_or_default();
            tracing::info!(epoch, seq, leader = node.0, address, "following the cluster's log");
        }
        None => tracing::info!(epoch, seq, "following the cluster's log; there is no leader"),
    }
}

/// Creates the topic of the settings with the required configuration.
///
/// # Errors
/// The settings or the brokers prevent it.
pub fn create(settings: &Settings) -> Result<String, ClusterError> {
    let kafka = log_of(settings)?;
    let replicas = replicas_of(&settings.cluster);
    create_topic(&kafka, replicas)?;
    check_topic(&kafka, replicas)?;
    Ok(kafka.topic().to_owned())
}

/// End of a node's copy, and the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of leadership changes.
    pub epoch: u64,
    /// Number and address of the leader, if its claim is not older than the directory.
    pub leader: Option<(u32, Option<String>)>,
    /// The last accepted record.
    pub accepted: u64,
    /// The last record of the data directory, up to a second ago; `None` if it never followed.
    pub copied: Option<u64>,
    /// The last accepted record of the store.
    pub store_accepted: u64,
    /// The last record of the store in the data directory, up to a second ago.
    pub store_copied: Option<u64>,
    /// Begin of the log.
    pub begin: u64,
    /// End of the log.
    pub end: u64,
    /// Each known node, and the first entry that it needs.
    pub needs: BTreeMap<u32, u64>,
    /// Ends of the copies of these nodes in their last reports.
    pub told: BTreeMap<u32, Copied>,
    /// The brokers that store the topic.
    pub brokers: Standing,
}

/// The nodes of the cluster, and the entries that they need.
pub(super) fn members(settings: &Settings) -> Result<Members, ClusterError> {
    Ok(Members::new(log_of(settings)?, id_of(&settings.cluster)?))
}

/// Whether this node has reported to the topic which entries it needs.
///
/// # Errors
/// The settings or the brokers prevent the query.
pub fn knows(settings: &Settings) -> Result<bool, ClusterError> {
    Ok(members(settings)?.told()?.contains_key(&small(settings.cluster.node)))
}

/// Removes a node: the topic retains no entries for it any longer. Returns whether it was known.
///
/// # Errors
/// The settings or the brokers prevent it.
pub fn remove(settings: &Settings, node: u32) -> Result<bool, ClusterError> {
    Ok(members(settings)?.remove(NodeId(node))?)
}

/// Maximum number of attempts to read the log: a running node continues meanwhile, and entries may be deleted.
const SURVEYS_MAX: usize = 3;

/// Reads the log from the position of the data directory, and returns its state and leader.
///
/// # Errors
/// The settings, the directory or the log prevent it.
pub fn status(settings: &Settings) -> Result<Status, ClusterError> {
    let kafka = log_of(settings)?;
    let cluster = id_of(&settings.cluster)?;
    let mut partition = KafkaPartition::connect(kafka.clone(), None)?;
    let (Some(begin), Some(end)) = (partition.begin(), partition.end()) else {
        let (log, last) = (partition.name().to_owned(), kafka.last_failure());
        return Err(ClusterError::Unreachable { log, last });
    };
    let members = members(settings)?.told()?;
    let disk = DataDirectory::open_for_reading(&settings.data.dir).ok().map(|directory| directory.disk());
    let mut found = survey(&mut partition, disk.as_deref(), cluster, end);
    for _ in 1..SURVEYS_MAX {
        if let Err(ReplicationError::Client { .. }) = found {
            found = survey(&mut partition, disk.as_deref(), cluster, end);
        }
    }
    let (copied, fold) = found?;
    let position = fold.position();
    let address = fold.claim().map(|claim| claim.address.clone());
    Ok(Status {
        epoch: position.epoch,
        leader: position.leader.map(|(node, _)| (node.0, address)),
        accepted: position.seq,
        copied: copied.as_ref().map(|copied| copied.seq),
        store_accepted: position.store.seq,
        store_copied: copied.map(|copied| copied.store.seq),
        begin,
        end,
        needs: members.iter().map(|(node, told)| (*node, told.needs)).collect(),
        told: members.iter().filter_map(|(node, told)| Some((*node, told.has?))).collect(),
        brokers: standing(&kafka)?,
    })
}

// Keeps the topic of a cluster short while this node is the leader: deletes entries that no node needs any longer.

/// The thread that does this. It ends with this value, once the brokers have answered its last request.
pub(super) struct TopicKeeper {
    _lives: SyncSender<()>,
}

impl TopicKeeper {
    pub(super) fn start(settings: &Settings, metrics: &Arc<NodeMetrics>) -> Result<Self, ClusterError> {
        let mut members = members(settings)?;
        let keep = Duration::from_secs(settings.cluster.keep_hours.saturating_mul(3600));
        let interval = Duration::from_secs(settings.cluster.trim_interval_s);
        let (lives, ended) = sync_channel(1);
        let metrics = Arc::clone(metrics);
        metrics.topic_held_by(None);
        let work = move || keep_short(&mut members, keep, interval, (&ended, &metrics));
        // Without it the topic grows, and nothing else happens.
        if let Err(error) = thread::Builder::new().name("upesi-topic".to_owned()).spawn(work) {
            tracing::warn!(%error, "cannot start the thread that deletes old entries from the topic");
        }
        Ok(Self { _lives: lives })
    }
}

fn keep_short(
    members: &mut Members,
    keep: Duration,
    interval: Duration,
    (ended, metrics): (&Receiver<()>, &NodeMetrics),
) {
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        note_deletion(members.delete_before_need(keep), metrics);
    }
}

/// Logs and publishes the result of a check. Without an answer of the brokers, the published values remain.
fn note_deletion(found: Result<Deletion, TopicError>, metrics: &NodeMetrics) {
    match found {
        Ok(Deletion { begin, held_by }) => {
            if let Some(begin) = begin {
                tracing::info!(begin, "deleted entries from the topic that every node has copied");
            }
            metrics.topic_held_by(held_by);
            if let Some(node) = held_by {
                tracing::warn!(
                    node,
                    "the topic retains old entries for a node that is not running: start it, or run `upesi cluster remove`"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "cannot delete old entries from the topic; retrying later"),
    }
}

// Repairs the log of a cluster: appends lost records again from the copy of this node.

/// Comparison of the log and the copy of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The first compared offset, and the end of the log.
    pub compared: (u64, u64),
    /// The last records of the log, before anything was appended.
    pub log: Copied,
    /// The last records of this node.
    pub here: Copied,
    /// Last reports of other nodes; `None` for an older version.
    pub others: BTreeMap<u32, Option<Copied>>,
    /// Whether the log now has the records that it lacked.
    pub is_repaired: bool,
}

impl Found {
    /// Whether the log lacks records of this node.
    pub fn is_lacking(&self) -> bool {
        !self.log.has_all_of(&self.here)
    }

    /// The first node that reported more records than this one has.
    pub fn longer(&self) -> Option<(u32, Copied)> {
        let told = self.others.iter().filter_map(|(node, told)| Some((*node, (*told)?)));
        { told }.find(|(_, told)| !self.here.has_all_of(told))
    }
}

/// Compares the log with the copy of this node, whose hub must not run. If `writes`, appends the records that the log
/// lacks. An empty log may get the records of a standalone hub, which then becomes a node.
///
/// # Errors
/// The settings, the directory, the brokers or the log prevent it; when writing, also if another node has more records.
pub fn repair(settings: &Settings, writes: bool) -> Result<Found, ClusterError> {
    let kafka = log_of(settings)?;
    let node = node_of(settings)?;
    if !settings.data.dir.join("journal").exists() {
        let text = format!("{} has no journal", settings.data.dir.display());
        return Err(ClusterError::Settings(text));
    }
    check_topic(&kafka, replicas_of(&settings.cluster))?;
    let told = Members::new(kafka.clone(), id_of(&settings.cluster)?).told()?;
    let others = told.into_iter().filter(|(number, _)| *number != node.node.0);
    let others = others.map(|(number, told)| (number, told.has)).collect();
    let directory = DataDirectory::open(&settings.data.dir).map_err(upesi_engine::StartError::Data)?;
    let store = StoreFollower::open(settings.data.dir.join(STORE), &options::shared_store(settings))?;
    let copies = copies(settings, directory.disk(), &store);
    let mut partition = Box::new(KafkaPartition::connect(kafka.clone(), None)?);
    if partition.end().is_none() {
        return Err(ClusterError::Unreachable {
            log: partition.name().to_owned(),
            last: kafka.last_failure(),
        });
    }
    let repair = Repair::examine(partition, copies, &node)?;
    let (compared, log, here) = (repair.compared(), repair.log(), repair.copy());
    let mut found = Found { compared, log, here, others, is_repaired: false };
    if writes {
        if let Some((node, Copied { seq, store_seq })) = found.longer() {
            return Err(ClusterError::LongerCopy { node, seq, store_seq });
        }
        repair.run(&node)?;
        found.is_repaired = true;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use upesi_types::Timestamp;

    use super::*;

    #[test]
    fn the_id_is_a_uuid_with_or_without_dashes() {
        let id = Some(0x5b1c_1a6a_6f1f_4f0d_9a4f_8a2b_7a3c_9d10);
        for (text, expected) in [
            ("5b1c1a6a6f1f4f0d9a4f8a2b7a3c9d10", id),
            ("5b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d10", id),
            ("5B1C1A6A-6F1F-4F0D-9A4F-8A2B7A3C9D10", id),
            ("", None),
            ("5b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d1", None),
            ("+b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d10", None),
            ("5b1c1a6a6f1f4f0d9a4f8a2b7a3c9d10ff", None),
        ] {
            assert_eq!(read_id(text).map(|id| id.0), expected, "{text}");
        }
    }

    #[test]
    fn follower_whose_state_failed_is_unfit_and_applies_no_more() {
        let read = Read::new(Arc::default());
        let mut applied = Vec::new();
        let apply = |position: &Position| {
            applied.push(position.seq);
            if position.seq < 2 {
                return Ok(());
            }
            Err(ClusterError::Settings("the archive is damaged".to_owned()))
        };
        let mut follower = Follower { read: &read, apply, leader: None, failed: None };
        for (seq, is_unfit) in [(1, false), (2, true), (3, true)] {
            let position = Position { epoch: 7, seq, ..Position::START };
            follower.report(&Progress {
                position,
                leader: None,
                entry_at_ns: 0,
                is_alarming: false,
                ahead: Duration::ZERO,
            });
            assert_eq!(read.is_unfit.load(Ordering::Acquire), is_unfit, "after record {seq}");
        }
        assert_eq!(follower.failed.map(|error| error.to_string()), Some("the archive is damaged".to_owned()));
        assert_eq!(applied, [1, 2]);
        let mut metrics = String::new();
        read.metrics.write(&mut metrics, Timestamp::EPOCH, None);
        assert!(metrics.contains("\nupesi_cluster_record 1\n"), "{metrics}");
    }

    #[test]
    fn what_the_keeper_finds_is_shown() {
        let metrics = NodeMetrics::default();
        metrics.elected(true, 0);
        let shows = |found| {
            note_deletion(found, &metrics);
            let mut text = String::new();
            metrics.write(&mut text, Timestamp::EPOCH, None);
            text.contains("upesi_cluster_topic_held{node=\"3\"} 1\n")
        };
        let held = Deletion { begin: Some(70), held_by: Some(3) };
        assert!(shows(Ok(held)));
        assert!(shows(Err(TopicError::Missing("upesi-journal".to_owned()))), "the brokers did not answer");
        assert!(!shows(Ok(Deletion { held_by: None, ..held })), "it came back");
    }
}
