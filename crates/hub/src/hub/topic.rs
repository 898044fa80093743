//! Keeps the topic of a cluster short while this node leads: entries leave that no node needs any more.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use upesi_kafka::{Deletion, Members};

use super::cluster::{ClusterError, members};
use crate::config::Settings;

/// The thread that does it. It ends with this value, once the brokers have answered what it asked last.
pub(super) struct TopicKeeper {
    _lives: SyncSender<()>,
}

impl TopicKeeper {
    pub(super) fn start(settings: &Settings) -> Result<Self, ClusterError> {
        let mut members = members(settings)?;
        let keep = Duration::from_secs(settings.cluster.keep_hours.saturating_mul(3600));
        let interval = Duration::from_secs(settings.cluster.trim_interval_s);
        let (lives, ended) = sync_channel(1);
        let work = move || run(&mut members, keep, interval, &ended);
        // Without it the topic grows, and nothing else.
        if let Err(error) = thread::Builder::new().name("upesi-topic".to_owned()).spawn(work) {
            tracing::warn!(%error, "nothing is deleted from the topic");
        }
        Ok(Self { _lives: lives })
    }
}

fn run(members: &mut Members, keep: Duration, interval: Duration, ended: &Receiver<()>) {
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        match members.delete_before_need(keep) {
            Ok(Deletion { begin, held_by }) => {
                if let Some(begin) = begin {
                    tracing::info!(begin, "entries that every node has were deleted from the topic");
                }
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
}
