//! The entries of the topic that the nodes of a cluster still need, and the deletion of all earlier ones.
//!
//! A node reports its progress as consumers do: by the offset of a group of its own. So the brokers know the nodes, and
//! forget a node without reports after `offsets.retention.minutes`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use upesi_cluster::{ClusterId, NodeId};
use upesi_replication::CopyPosition;

use crate::plain::{Deletion, MemberReport};
use crate::settings::{Context, KafkaSettings, PARTITION};
use crate::topic::{TopicError, block_on};

const TIMEOUT: Duration = Duration::from_secs(10);

/// The group of a node, whose offset reports the entries that it needs.
pub(crate) fn group(cluster: ClusterId, node: NodeId) -> String {
    format!("{}{}", prefix(cluster), node.0)
}

/// The text that a node stores with its offset: the end of its copy.
pub(crate) fn text_of(has: CopyPosition) -> String {
    format!("record {}, store {}", has.seq, has.store_seq)
}

/// Parses the text of a node's report.
fn read(text: &str) -> Option<CopyPosition> {
    let (seq, store_seq) = text.strip_prefix("record ")?.split_once(", store ")?;
    Some(CopyPosition { seq: seq.parse().ok()?, store_seq: store_seq.parse().ok()? })
}

fn prefix(cluster: ClusterId) -> String {
    format!("upesi-{:032x}-", cluster.0)
}

/// The nodes of a cluster, as its topic records them.
#[derive(Clone, Debug)]
pub struct Members {
    settings: KafkaSettings,
    cluster: ClusterId,
    /// Nodes that were seen before. They are also queried if a broker that is unavailable does not list them.
    known: BTreeSet<u32>,
}

/// The first entry to retain: the first that the slowest node needs or that is younger than `keep`, whichever is
/// earlier. Also returns the slowest node if older entries are retained for it. With a `keep` of zero this is not
/// reported, because every node needs entries for a moment.
fn first_to_stay(node: u32, needed: u64, kept: u64, keep: Duration) -> (u64, Option<u32>) {
    (needed.min(kept), (needed < kept && !keep.is_zero()).then_some(node))
}

impl Members {
    /// The nodes of a cluster.
    pub const fn new(settings: KafkaSettings, cluster: ClusterId) -> Self {
        Self { settings, cluster, known: BTreeSet::new() }
    }

    fn error(&self, source: KafkaError) -> TopicError {
        self.settings.failed(source)
    }

    fn consumer(&self, group: &str) -> Result<BaseConsumer<Context>, TopicError> {
        let mut config = self.settings.client()?;
        config.set("group.id", group).set("enable.auto.commit", "false");
        config.create_with_context(self.settings.told()).map_err(|error| self.error(error))
    }

    fn admin(&self) -> Result<AdminClient<Context>, TopicError> {
        self.settings.admin()
    }

    fn list(&self, offset: Offset) -> Result<TopicPartitionList, TopicError> {
        let mut list = TopicPartitionList::new();
        let added = list.add_partition_offset(&self.settings.topic, PARTITION, offset);
        added.map_err(|error| self.error(error))?;
        Ok(list)
    }

    /// The offset in an answer about the partition.
    fn offset_in(list: &TopicPartitionList) -> Option<u64> {
        match list.elements().first()?.offset() {
            Offset::Offset(offset) => u64::try_from(offset).ok(),
            _ => None,
        }
    }

    /// Each node, and the first entry that it still needs.
    ///
    /// # Errors
    /// The brokers do not answer, or return an error.
    pub fn needs(&mut self) -> Result<BTreeMap<u32, u64>, TopicError> {
        Ok(self.told()?.into_iter().map(|(node, told)| (node, told.needs)).collect())
    }

    /// The furthest copies of records, and of the store, of all nodes but one.
    ///
    /// # Errors
    /// The brokers do not answer, or return an error.
    pub fn furthest_but(&mut self, me: NodeId) -> Result<CopyPosition, TopicError> {
        let told = self.told()?;
        let others = told.iter().filter(|(node, _)| **node != me.0);
        Ok(others.filter_map(|(_, told)| told.has).fold(CopyPosition::default(), CopyPosition::furthest))
    }

    /// Each node, and its last report.
    ///
    /// # Errors
    /// The brokers do not answer, or return an error.
    pub fn told(&mut self) -> Result<BTreeMap<u32, MemberReport>, TopicError> {
        let prefix = prefix(self.cluster);
        let asking = self.consumer(&format!("{prefix}status"))?;
        let groups = asking.fetch_group_list(None, TIMEOUT).map_err(|error| self.error(error))?;
        let number = |name: &str| name.strip_prefix(&prefix)?.parse::<u32>().ok();
        let mut told = BTreeMap::new();
        self.known.extend(groups.groups().iter().filter_map(|group| number(group.name())));
        for node in self.known.iter().copied() {
            let consumer = self.consumer(&group(self.cluster, NodeId(node)))?;
            let list = self.list(Offset::Invalid)?;
            let committed = consumer.committed_offsets(list, TIMEOUT).map_err(|error| self.error(error))?;
            // A group without an offset was removed, or is being created.
            let has = committed.elements().first().and_then(|element| read(element.metadata()));
            told.extend(Self::offset_in(&committed).map(|needs| (node, MemberReport { needs, has })));
        }
        self.known = told.keys().copied().collect();
        Ok(told)
    }

    /// Removes a node: no entries are retained for it any longer. Returns whether it was known.
    ///
    /// # Errors
    /// The brokers do not answer, or return an error.
    pub fn remove(&self, node: NodeId) -> Result<bool, TopicError> {
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
        let group = group(self.cluster, node);
        let deleted = block_on(self.admin()?.delete_groups(&[&group], &options));
        match deleted.map_err(|error| self.error(error))?.into_iter().next() {
            None | Some(Ok(_)) => Ok(true),
            Some(Err((_, RDKafkaErrorCode::GroupIdNotFound))) => Ok(false),
            Some(Err((_, code))) => Err(self.error(KafkaError::AdminOp(code))),
        }
    }

    /// Deletes the entries that no node needs, if they are older than `keep`.
    ///
    /// # Errors
    /// The brokers do not answer, or return an error.
    pub fn delete_before_need(&mut self, keep: Duration) -> Result<Deletion, TopicError> {
        let needs = self.needs()?;
        let Some((node, needed)) = needs.into_iter().min_by_key(|(_, needed)| *needed) else {
            return Ok(Deletion::default());
        };
        let asking = self.consumer(&format!("{}status", prefix(self.cluster)))?;
        let bounds = asking.fetch_watermarks(&self.settings.topic, PARTITION, TIMEOUT);
        let (begin, end) = bounds.map_err(|error| self.error(error))?;
        let since = SystemTime::now().checked_sub(keep).unwrap_or(UNIX_EPOCH);
        let since_ms = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let list = self.list(Offset::Offset(i64::try_from(since_ms).unwrap_or(i64::MAX)))?;
        let found = asking.offsets_for_times(list, TIMEOUT).map_err(|error| self.error(error))?;
        // Without such an offset all entries are older.
        let kept = Self::offset_in(&found).or(u64::try_from(end).ok()).unwrap_or_default();
        let (first, held_by) = first_to_stay(node, needed, kept, keep);
        if u64::try_from(begin).is_ok_and(|begin| first <= begin) {
            return Ok(Deletion { begin: None, held_by });
        }
        let options = AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT));
        let list = self.list(Offset::Offset(i64::try_from(first).unwrap_or_default()))?;
        let deleted = block_on(self.admin()?.delete_records(&list, &options));
        let deleted = deleted.map_err(|error| self.error(error))?;
        for element in deleted.elements() {
            element.error().map_err(|error| self.error(error))?;
        }
        Ok(Deletion { begin: Some(first), held_by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_for_an_absent_node_are_retained_and_the_node_is_reported() {
        let hour = Duration::from_secs(3_600);
        for (needed, kept, keep, expected) in [
            (70, 50, hour, (50, None)),
            (50, 50, hour, (50, None)),
            (49, 50, hour, (49, Some(3))),
            (49, 50, Duration::ZERO, (49, None)),
        ] {
            assert_eq!(first_to_stay(3, needed, kept, keep), expected, "{needed} {kept} {keep:?}");
        }
    }
}
