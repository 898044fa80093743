//! What a node of a cluster counts, and the port that shows it while the node follows.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use upesi_http::{Server, Workers};
use upesi_replication::Progress;

use super::process::write_follower;
use super::start::{PORTS_PATIENCE, bind, serve_metrics};
use super::tls::Tls;
use super::{HubError, options};
use crate::config::Settings;
use crate::exposition::{counter, gauge, head};

/// What a node of a cluster has besides a hub. Cloning shares it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) metrics: Arc<NodeMetrics>,
    /// Lets the log wait no more for brokers that do not answer.
    pub(super) stops: Arc<AtomicBool>,
}

/// Counted over the life of a process, whether the node leads or follows.
#[derive(Debug, Default)]
pub(super) struct NodeMetrics {
    leads: AtomicBool,
    epoch: AtomicU64,
    record: AtomicU64,
    /// When the newest entry was written that this node has, in nanoseconds since 1970; 0 before the first.
    entry_at_ns: AtomicI64,
    after_silence: AtomicU64,
    after_hand_over: AtomicU64,
    superseded: AtomicU64,
    /// In seconds since 1970; 0 before the first.
    handed_over_at_s: AtomicU64,
    alarming: AtomicU64,
    /// Counted by the client.
    pub(super) broker_errors: Arc<AtomicU64>,
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl NodeMetrics {
    /// The node follows, and has read so far.
    pub(super) fn followed(&self, progress: &Progress) {
        self.epoch.store(progress.position.epoch, Ordering::Relaxed);
        self.record.store(progress.position.seq, Ordering::Relaxed);
        self.entry_at_ns.store(progress.entry_at_ns, Ordering::Relaxed);
        self.alarming.fetch_add(u64::from(progress.is_alarming), Ordering::Relaxed);
    }

    /// The node leads: the one before handed over, or was silent.
    pub(super) fn elected(&self, was_called: bool) {
        self.leads.store(true, Ordering::Relaxed);
        let count = if was_called { &self.after_hand_over } else { &self.after_silence };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The node that led handed over.
    pub(super) fn handed_over(&self) {
        self.leads.store(false, Ordering::Relaxed);
        self.handed_over_at_s.store(since_1970().as_secs(), Ordering::Relaxed);
    }

    /// Another node leads.
    pub(super) fn superseded(&self) {
        self.leads.store(false, Ordering::Relaxed);
        self.superseded.fetch_add(1, Ordering::Relaxed);
    }

    /// The lines of the metrics; `record` is the last one of a node that leads.
    pub(super) fn write(&self, text: &mut String, record: Option<u64>) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let leads = self.leads.load(Ordering::Relaxed);
        gauge(text, "upesi_cluster_leads", "1 while this node leads", u64::from(leads));
        gauge(text, "upesi_cluster_epoch", "Changes of leadership that this node has read", of(&self.epoch));
        let record = record.unwrap_or_else(|| of(&self.record));
        gauge(text, "upesi_cluster_record", "The last record of this node's copy", record);
        self.write_behind(text, leads);
        let name = "upesi_cluster_take_overs";
        head(text, name, "counter", "Times that this node took over");
        for (after, count) in [("silence", &self.after_silence), ("hand-over", &self.after_hand_over)] {
            let _ = writeln!(text, "{name}_total{{after=\"{after}\"}} {}", of(count));
        }
        let help = "Times that this node found that another one leads";
        counter(text, "upesi_cluster_superseded", help, of(&self.superseded));
        let help = "When this node handed over last, in seconds since 1970";
        gauge(text, "upesi_cluster_last_hand_over_timestamp_seconds", help, of(&self.handed_over_at_s));
        let help = "Entries that no node of this cluster should have written";
        counter(text, "upesi_cluster_alarming_entries", help, of(&self.alarming));
        let help = "Failures of brokers that the client reported";
        counter(text, "upesi_cluster_broker_errors", help, of(&self.broker_errors));
    }

    fn write_behind(&self, text: &mut String, leads: bool) {
        let entry_at_ns = self.entry_at_ns.load(Ordering::Relaxed);
        let now_ns = i64::try_from(since_1970().as_nanos()).unwrap_or(i64::MAX);
        // Before its first entry it knows of none that it lacks.
        let is_behind = !leads && entry_at_ns > 0;
        let behind_ms = if is_behind { now_ns.saturating_sub(entry_at_ns).max(0) / 1_000_000 } else { 0 };
        let name = "upesi_cluster_behind_seconds";
        head(text, name, "gauge", "Age of the newest entry that this node has; 0 while it leads");
        let _ = writeln!(text, "{name} {}.{:03}", behind_ms / 1_000, behind_ms % 1_000);
    }
}

/// The port of metrics, if there is one, of a node that follows.
pub(super) struct FollowerPort {
    server: Arc<Server>,
    workers: Workers,
    tls: Tls,
}

impl FollowerPort {
    pub(super) fn open(settings: &Settings, metrics: &Arc<NodeMetrics>) -> Result<Option<Self>, HubError> {
        let Ok(address) = settings.metrics.listen.parse() else { return Ok(None) };
        let bound = bind("metrics.listen", address, PORTS_PATIENCE)?;
        let tls = Tls::load(settings, &options::keys(settings)?)?;
        let workers = Workers::start(1, "upesi-admin")?;
        let (data, metrics) = (settings.data.dir.clone(), Arc::clone(metrics));
        let render = move || {
            let mut text = String::new();
            metrics.write(&mut text, None);
            write_follower(&data, &mut text);
            text.push_str("# EOF\n");
            text
        };
        let text = upesi_admin::MetricsText::new(Duration::from_millis(settings.metrics.interval_ms), render);
        let server = serve_metrics(settings, bound, &workers, text, &tls);
        Ok(Some(Self { server, workers, tls }))
    }

    /// Leaves the port to the hub that starts.
    pub(super) async fn close(self) {
        self.server.shutdown(Instant::now()).await;
        let stop = move || {
            self.workers.shutdown();
            self.tls.shutdown();
        };
        if tokio::task::spawn_blocking(stop).await.is_err() {
            tracing::error!("the port of metrics did not stop in order");
        }
    }
}

#[cfg(test)]
mod tests {
    use upesi_cluster::Position;

    use super::*;

    fn value(metrics: &NodeMetrics, name: &str, record: Option<u64>) -> String {
        let mut text = String::new();
        metrics.write(&mut text, record);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{name} is not in {text}"))
    }

    #[test]
    fn a_node_shows_where_it_is_and_what_became_of_it() {
        let metrics = NodeMetrics::default();
        assert_eq!(value(&metrics, "upesi_cluster_behind_seconds", None), "0.000", "it has read nothing");
        let position = Position { epoch: 3, seq: 70, ..Position::START };
        let progress = Progress { position, leader: None, is_alarming: true, entry_at_ns: 1_000_000_000 };
        metrics.followed(&progress);
        metrics.followed(&Progress { is_alarming: false, ..progress });
        for (name, expected) in [
            ("upesi_cluster_leads", "0"),
            ("upesi_cluster_epoch", "3"),
            ("upesi_cluster_record", "70"),
            ("upesi_cluster_alarming_entries_total", "1"),
        ] {
            assert_eq!(value(&metrics, name, None), expected, "{name}");
        }
        let behind: f64 = value(&metrics, "upesi_cluster_behind_seconds", None).parse().unwrap();
        assert!(behind > 1e9, "since 1970, but for a second: {behind}");
        metrics.elected(true);
        metrics.elected(false);
        assert_eq!(value(&metrics, "upesi_cluster_leads", None), "1");
        assert_eq!(value(&metrics, "upesi_cluster_behind_seconds", None), "0.000");
        assert_eq!(value(&metrics, "upesi_cluster_record", Some(99)), "99");
        for after in ["silence", "hand-over"] {
            let name = format!("upesi_cluster_take_overs_total{{after=\"{after}\"}}");
            assert_eq!(value(&metrics, &name, None), "1");
        }
        assert_eq!(value(&metrics, "upesi_cluster_last_hand_over_timestamp_seconds", None), "0");
        metrics.handed_over();
        metrics.superseded();
        assert_eq!(value(&metrics, "upesi_cluster_leads", None), "0");
        assert_eq!(value(&metrics, "upesi_cluster_superseded_total", None), "1");
        assert_ne!(value(&metrics, "upesi_cluster_last_hand_over_timestamp_seconds", None), "0");
    }
}
