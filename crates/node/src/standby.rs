//! A node of a cluster follows the log into its data directory until it becomes leader.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use upesi_cluster::{Incarnation, NodeId, Position};
use upesi_engine::{AnsweringStandby, StandbyEngine, StartError};
use upesi_gateway::nodes::KnownLeader;
use upesi_journal::{DataDirectory, EmbeddedLog, Log};
use upesi_kafka::{KafkaPartition, check_topic};
use upesi_replication::{
    NodeSettings, ReplicatedLog, ReplicationError, StandbyOutcome, StandbyProgress, SystemClock,
    stand_by as follow,
};
use upesi_settings::Settings;
use upesi_tables::store::{Store, StoreEnd, StoreFollower};

use super::cluster::config::{log_of, node_of, replicas_of};
use super::cluster::error::ClusterError;
use super::follower_state::FollowedState;
use super::options::{self, STORE};
use super::retention::Retention;

/// The parts that a new leader continues to use.
pub(super) struct ElectedLeader {
    /// The journal.
    pub(super) log: Arc<dyn Log>,
    /// State and archive up to the election.
    pub(super) standby: StandbyEngine,
    /// The store up to the election.
    pub(super) store: Store,
    /// The retention that ran on the follower.
    pub(super) retention: Option<Retention>,
}

/// Follows the log until this node becomes leader; `None` if it stops before.
pub(super) fn stand_by(
    settings: &Settings,
    read: &FollowedState,
) -> Result<Option<ElectedLeader>, ClusterError> {
    let (metrics, stops) = (Arc::clone(&read.node.metrics), Arc::clone(&read.node.stops));
    let kafka = log_of(settings)?.counting(Arc::clone(&metrics.broker_errors));
    let (is_promoted, is_unfit) = (Arc::clone(&read.is_promoted), Arc::clone(&read.is_unfit));
    let node = NodeSettings { is_promoted, is_unfit, ..node_of(settings)? };
    check_topic(&kafka, replicas_of(&settings.cluster))?;
    let directory = DataDirectory::open(&settings.data.dir).map_err(StartError::Data)?;
    let partition = Box::new(KafkaPartition::connect(kafka, Some((node.cluster, node.node)))?);
    let engine = options::engine(settings);
    let disk = directory.disk();
    let copy = EmbeddedLog::for_reading(&disk);
    let standby =
        StandbyEngine::open(&engine, Some(directory), Arc::clone(&disk), &copy, read.participants.clone())?;
    let (standby, answers) = AnsweringStandby::start(standby, &engine, &copy)?;
    let exports = options::retention(settings).filter(|policy| policy.export_dir.is_some());
    let retention = exports.map(|policy| Retention::follow(policy, answers.clone())).transpose();
    let retention = retention.map_err(StartError::Thread)?;
    read.has_state(&answers);
    let mut store = StoreFollower::open(settings.data.dir.join(STORE), &options::shared_store(settings))?;
    store.prepare(&upesi_parties::TABLES)?;
    store.prepare(&upesi_quoting::TABLES)?;
    let copies = options::copies(settings, disk, &store);
    let apply = |position: &Position| {
        standby.follow_to(position.seq)?;
        Ok(store.follow_to(position.store.seq)?)
    };
    let mut follower = Follower { read, apply, leader: None, failed: None };
    let clock: Arc<dyn upesi_replication::Clock> = Arc::new(SystemClock::default());
    let stood = follow(partition, copies, &node, &clock, &stops, &mut |progress: &StandbyProgress| {
        follower.report(progress)
    })?;
    if let Some(error) = follower.failed {
        return Err(error);
    }
    Ok(match stood {
        StandbyOutcome::Elected(log) => {
            let (store, store_record) = led(store, &log)?;
            metrics.elected(log.was_called(), store_record);
            tracing::info!("this node is now the leader");
            Some(ElectedLeader { log: Arc::new(log), standby: standby.end(), store, retention })
        }
        StandbyOutcome::Stopped => None,
    })
}

/// Applies what the node has read to its state, and reports it.
struct Follower<'a, A> {
    read: &'a FollowedState,
    /// Brings state, archive, snapshots and store up to a position.
    apply: A,
    /// The leader that was reported last.
    leader: Option<Option<(NodeId, Incarnation)>>,
    failed: Option<ClusterError>,
}

impl<A: FnMut(&Position) -> Result<(), ClusterError>> Follower<'_, A> {
    fn report(&mut self, progress: &StandbyProgress) {
        let position = &progress.position;
        if self.leader.replace(position.leader) != Some(position.leader) {
            tell_leader(progress);
        }
        tell_clock_ahead(progress);
        let node = position.leader.map(|(node, _)| node.0);
        let lead = KnownLeader { epoch: position.epoch, node, is_sought: false };
        self.read.node.has_read(lead, progress.leader.as_deref());
        if self.failed.is_some() {
            return;
        }
        match (self.apply)(position) {
            // Progress is published after the records are applied, so that it is never ahead of the state.
            Ok(()) => {
                if position.seq >= self.read.node.led_to() {
                    self.read.publish();
                    self.read.node.metrics.followed(progress);
                }
            }
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

/// The store of a leader, which writes to the cluster's log, and its last record.
fn led(store: StoreFollower, log: &ReplicatedLog) -> Result<(Store, u64), ClusterError> {
    let end = log.store().map_err(ReplicationError::Copy)?;
    let last_seq = end.last_seq;
    let end = StoreEnd { appender: end.appender, last_seq, last_time_ns: end.last_time_ns };
    Ok((store.lead(end)?, last_seq))
}

fn tell_clock_ahead(progress: &StandbyProgress) {
    if !progress.ahead.is_zero() {
        let ahead_ms = progress.ahead.as_millis();
        tracing::error!(
            ahead_ms,
            "this node cannot become leader: its clock is ahead of the brokers' clocks; correct it"
        );
    }
}

fn tell_leader(progress: &StandbyProgress) {
    let position = &progress.position;
    let (epoch, seq) = (position.epoch, position.seq);
    match position.leader {
        Some((node, _)) => {
            let address = progress.leader.as_deref().unwrap_or_default();
            tracing::info!(epoch, seq, leader = node.0, address, "following the cluster's log");
        }
        None => tracing::info!(epoch, seq, "following the cluster's log; the cluster has no leader"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use upesi_engine::SharedParticipants;
    use upesi_types::Timestamp;

    use super::super::clock::HubClock;
    use super::super::node::Node;
    use super::*;

    #[test]
    fn former_leader_shows_nothing_older_than_its_leadership() {
        let (node, known) = (Node::new(1), SharedParticipants::default());
        let of_leader = known.get();
        node.seeks(None, 70);
        let clock = HubClock::new(Arc::new(upesi_engine::SystemClock));
        let read = FollowedState::new(node, known.clone(), Arc::new(clock));
        let apply = |_: &Position| {
            read.participants.set(Arc::default());
            Ok(())
        };
        let mut follower = Follower { read: &read, apply, leader: None, failed: None };
        for (seq, shows) in [(1, false), (69, false), (70, true)] {
            let position = Position { epoch: 7, seq, ..Position::START };
            let (entry_at_ns, ahead) = (1, Duration::ZERO);
            follower.report(&StandbyProgress {
                position,
                leader: None,
                entry_at_ns,
                is_alarming: false,
                ahead,
            });
            assert_eq!(!Arc::ptr_eq(&known.get(), &of_leader), shows, "after record {seq}");
            assert_eq!(read.node.metrics.behind_ms(Timestamp::EPOCH).is_some(), shows, "after record {seq}");
        }
    }

    #[test]
    fn follower_with_a_failed_state_is_unfit_and_stops_applying() {
        let clock = HubClock::new(Arc::new(upesi_engine::SystemClock));
        let read = FollowedState::new(Node::new(1), SharedParticipants::default(), Arc::new(clock));
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
            follower.report(&StandbyProgress {
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
        read.node.metrics.write(&mut metrics, Timestamp::EPOCH, None);
        assert!(metrics.contains("\nupesi_cluster_record 1\n"), "{metrics}");
    }
}
