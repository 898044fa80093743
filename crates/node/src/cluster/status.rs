//! `upesi cluster status`, `create` and `remove`: the nodes according to the log.

use std::collections::BTreeMap;

use upesi_cluster::NodeId;
use upesi_journal::DataDirectory;
use upesi_kafka::{KafkaPartition, TopicReplicas, check_topic, create_topic, standing};
use upesi_replication::{CopyPosition, Partition, ReplicationError, survey};
use upesi_settings::Settings;

use super::config::{id_of, log_of, members, replicas_of};
use super::error::ClusterError;

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
    /// The first offset of the log.
    pub begin: u64,
    /// The offset after the last entry of the log.
    pub end: u64,
    /// Each known node, and the first entry that it needs.
    pub needs: BTreeMap<u32, u64>,
    /// Ends of the copies of these nodes in their last reports.
    pub told: BTreeMap<u32, CopyPosition>,
    /// The brokers that store the topic.
    pub brokers: TopicReplicas,
}

/// Whether this node has reported to the topic which entries it needs.
///
/// # Errors
/// The settings or the brokers prevent the query.
pub fn knows(settings: &Settings) -> Result<bool, ClusterError> {
    Ok(members(settings)?.told()?.contains_key(&settings.cluster.node))
}

/// Removes a node: the topic no longer retains entries for it. Returns whether the node was known.
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
