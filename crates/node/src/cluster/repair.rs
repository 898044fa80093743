//! Repairs the log of a cluster: appends lost records again from the copy of this node.

use std::collections::BTreeMap;

use upesi_engine::StartError;
use upesi_journal::DataDirectory;
use upesi_kafka::{KafkaPartition, Members, check_topic};
use upesi_replication::{CopyPosition, Partition, Repair};
use upesi_settings::Settings;
use upesi_tables::store::StoreFollower;

use super::config::{id_of, log_of, node_of, replicas_of};
use super::error::ClusterError;
use crate::options::{self, STORE};

/// Comparison of the log and the copy of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogComparison {
    /// The first compared offset, and the end of the log.
    pub compared: (u64, u64),
    /// The last records of the log, before anything was appended.
    pub log: CopyPosition,
    /// The last records of this node.
    pub here: CopyPosition,
    /// Last reports of other nodes; `None` for an older version.
    pub others: BTreeMap<u32, Option<CopyPosition>>,
    /// Whether the log now has the records that it lacked.
    pub is_repaired: bool,
}

impl LogComparison {
    /// Whether the log lacks records of this node.
    pub fn is_lacking(&self) -> bool {
        !self.log.has_all_of(&self.here)
    }

    /// The first node that reported more records than this one has.
    pub fn longer(&self) -> Option<(u32, CopyPosition)> {
        let told = self.others.iter().filter_map(|(node, told)| Some((*node, (*told)?)));
        { told }.find(|(_, told)| !self.here.has_all_of(told))
    }
}

/// Compares the log with the copy of this node, whose hub must not run. If `writes`, appends the records that the log
/// lacks. An empty log may get the records of a standalone hub, which then becomes a node.
///
/// # Errors
/// The settings, the directory, the brokers or the log prevent it; when writing, also if another node has more records.
pub fn repair(settings: &Settings, writes: bool) -> Result<LogComparison, ClusterError> {
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
    let directory = DataDirectory::open(&settings.data.dir).map_err(StartError::Data)?;
    let store = StoreFollower::open(settings.data.dir.join(STORE), &options::shared_store(settings))?;
    let copies = options::copies(settings, directory.disk(), &store);
    let mut partition = Box::new(KafkaPartition::connect(kafka.clone(), None)?);
    if partition.end().is_none() {
        return Err(ClusterError::Unreachable {
            log: partition.name().to_owned(),
            last: kafka.last_failure(),
        });
    }
    let repair = Repair::examine(partition, copies, &node)?;
    let (compared, log, here) = (repair.compared(), repair.log(), repair.copy());
    let mut found = LogComparison { compared, log, here, others, is_repaired: false };
    if writes {
        if let Some((node, CopyPosition { seq, store_seq })) = found.longer() {
            return Err(ClusterError::LongerCopy { node, seq, store_seq });
        }
        repair.run(&node)?;
        found.is_repaired = true;
    }
    Ok(found)
}
