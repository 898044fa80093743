//! Keeps the topic of a cluster short while this node is the leader: deletes entries that every node has copied.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use upesi_kafka::{Deletion, Members, TopicError};
use upesi_settings::Settings;

use super::config::members;
use super::error::ClusterError;
use crate::node::NodeMetrics;

/// The thread that deletes entries. It ends with this value, once the brokers have answered its last request.
pub(crate) struct TopicKeeper {
    _lives: SyncSender<()>,
}

impl TopicKeeper {
    pub(crate) fn start(settings: &Settings, metrics: &Arc<NodeMetrics>) -> Result<Self, ClusterError> {
        let mut members = members(settings)?;
        let (keep, interval) = (settings.cluster.keep_hours, settings.cluster.trim_interval_s);
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

#[cfg(test)]
mod tests {
    use upesi_types::Timestamp;

    use super::*;

    #[test]
    fn topic_findings_are_exposed_as_metrics() {
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
