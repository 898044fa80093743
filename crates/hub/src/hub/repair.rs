//! What the log of a cluster lost, appended again from the copy of this node.

use std::collections::BTreeMap;

use upesi_journal::DataDirectory;
use upesi_kafka::{KafkaPartition, Members, check_topic};
pub use upesi_replication::Copied;
use upesi_replication::{PLACE_FILE, Partition, Repair};
use upesi_tables::store::StoreFollower;

use super::cluster::{ClusterError, copies, id_of, log_of, node_of, replicas_of};
use super::options;
use super::resources::STORE;
use crate::config::Settings;

/// The log beside the copy of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The offset from which on both were compared, and where the log ended.
    pub compared: (u64, u64),
    /// The last records of the log, before anything was appended.
    pub log: Copied,
    /// Those of this node.
    pub here: Copied,
    /// What other nodes told last; those of an older version told nothing.
    pub others: BTreeMap<u32, Option<Copied>>,
    /// Whether the log has now what it lacked.
    pub is_repaired: bool,
}

impl Found {
    /// Whether the log lacks records of this node.
    pub fn is_lacking(&self) -> bool {
        !self.log.has_all_of(&self.here)
    }

    /// The first node that told of more records than this one has.
    pub fn longer(&self) -> Option<(u32, Copied)> {
        let told = self.others.iter().filter_map(|(node, told)| Some((*node, (*told)?)));
        { told }.find(|(_, told)| !self.here.has_all_of(told))
    }
}

/// Compares the log with the copy of this node, whose hub must not run. If `writes`, appends what the log lacks.
///
/// # Errors
/// The settings, the directory, the brokers or the log say why not; to write, another node has more.
pub fn repair(settings: &Settings, writes: bool) -> Result<Found, ClusterError> {
    let kafka = log_of(settings)?;
    let node = node_of(settings)?;
    if !settings.data.dir.join(PLACE_FILE).exists() {
        let text = format!("{} is not the copy of a node of a cluster", settings.data.dir.display());
        return Err(ClusterError::Settings(text));
    }
    check_topic(&kafka, replicas_of(&settings.cluster))?;
    let told = Members::new(kafka.clone(), id_of(&settings.cluster)?).told()?;
    let others = told.into_iter().filter(|(number, _)| *number != node.node.0);
    let others = others.map(|(number, told)| (number, told.has)).collect();
    let directory = DataDirectory::open(&settings.data.dir).map_err(upesi_engine::StartError::Data)?;
    let store = StoreFollower::open(settings.data.dir.join(STORE), &options::shared_store(settings))?;
    let copies = copies(settings, directory.disk(), &store);
    let failure = kafka.failure.clone();
    let mut partition = Box::new(KafkaPartition::connect(kafka, None)?);
    if partition.end().is_none() {
        return Err(ClusterError::Unreachable { log: partition.name().to_owned(), last: failure.told() });
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
