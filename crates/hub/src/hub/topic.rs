//! Keeps the topic of a cluster short while this node leads: entries leave that no node needs any more.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use upesi_kafka::{Deletion, Members, TopicError};

use super::cluster::{ClusterError, members};
use super::node::NodeMetrics;
use crate::config::Settings;

/// The thread that does it. It ends with this value, once the brokers have answered what it asked last.
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
        let work = move || run(&mut members, keep, interval, (&ended, &metrics));
        // Without it the topic grows, and nothing else.
        if let Err(error) = thread::Builder::new().name("upesi-topic".to_owned()).spawn(work) {
            tracing::warn!(%error, "nothing is deleted from the topic");
        }
        Ok(Self { _lives: lives })
    }
}

fn run(
    members: &mut Members,
    keep: Duration,
    interval: Duration,
    (ended, metrics): (&Receiver<()>, &NodeMetrics),
) {
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        note(members.delete_before_need(keep), metrics);
    }
}

/// Says and shows what came of a look. Without an answer of the brokers what it showed stays.
fn note(found: Result<Deletion, TopicError>, metrics: &NodeMetrics) {
    match found {
        Ok(Deletion { begin, held_by }) => {
            if let Some(begin) = begin {
                tracing::info!(begin, "entries that every node has were deleted from the topic");
            }
            metrics.topic_held_by(held_by);
            if let Some(node) = held_by {
                tracing::warn!(
                    node,
                    "the topic keeps old entries for a node that is away: start it, or `upesi cluster remove` it"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "nothing was deleted from the topic; it is tried again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_keeper_finds_is_shown() {
        let metrics = NodeMetrics::default();
        metrics.elected(true, 0);
        let shows = |found| {
            note(found, &metrics);
            let mut text = String::new();
            metrics.write(&mut text, None);
            text.contains("upesi_cluster_topic_held{node=\"3\"} 1\n")
        };
        let held = Deletion { begin: Some(70), held_by: Some(3) };
        assert!(shows(Ok(held)));
        assert!(shows(Err(TopicError::Missing("upesi-journal".to_owned()))), "the brokers did not answer");
        assert!(!shows(Ok(Deletion { held_by: None, ..held })), "it came back");
    }
}
