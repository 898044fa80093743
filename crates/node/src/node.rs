//! A node of a cluster: its state in every role, and its metrics.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use upesi_engine::SharedParticipants;
use upesi_gateway::nodes::{ForwardCounts, KnownLeader};
use upesi_process::exposition::{counter, gauge, head};
use upesi_replication::StandbyProgress;
use upesi_types::Timestamp;

/// The state of a node of a cluster in every role. Cloning shares it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) number: u32,
    pub(super) metrics: Arc<NodeMetrics>,
    /// Makes the log stop waiting for brokers that do not respond.
    pub(super) stops: Arc<AtomicBool>,
    pub(super) leads: Arc<watch::Sender<KnownLeader>>,
    /// Number and address of the leader.
    leader: Arc<Mutex<Option<(u32, String)>>>,
    /// The last record of this node as leader, at its handover; 0 if it did not hand over.
    led_to: Arc<AtomicU64>,
}

impl Node {
    pub(super) fn new(number: u32) -> Self {
        let (metrics, stops) = (Arc::default(), Arc::default());
        let (leads, leader, led_to) = (Arc::default(), Arc::default(), Arc::default());
        Self { number, metrics, stops, leads, leader, led_to }
    }

    /// Number and address of the leader, as far as this node has read the log.
    pub(super) fn leader(&self) -> Option<(u32, String)> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the leader that the follower has read. Earlier leadership of this node itself is ignored; a new one
    /// begins with [`Self::leads_now`].
    pub(super) fn has_read(&self, lead: KnownLeader, address: Option<&str>) {
        if lead.node != Some(self.number) {
            self.set_lead(lead, lead.node.map(|node| (node, address.unwrap_or_default().to_owned())));
        }
    }

    /// This node processes requests from now on. Requests that wait for a leader come to its port for other nodes.
    pub(super) fn leads_now(&self) {
        let epoch = self.metrics.epoch.load(Ordering::Relaxed);
        self.set_lead(KnownLeader { epoch, node: Some(self.number), is_sought: false }, None);
    }

    /// The last record that this node knew as leader, at its handover. Its copy may show less for a while.
    pub(super) fn led_to(&self) -> u64 {
        self.led_to.load(Ordering::Relaxed)
    }

    /// Another node leads, or will: perhaps `successor`. `led_to` is the last record of this node's leadership after a
    /// handover, otherwise 0.
    pub(super) fn seeks(&self, successor: Option<u32>, led_to: u64) {
        self.led_to.store(led_to, Ordering::Relaxed);
        let epoch = self.leads.borrow().epoch;
        self.set_lead(KnownLeader { epoch, node: successor, is_sought: true }, None);
    }

    fn set_lead(&self, lead: KnownLeader, leader: Option<(u32, String)>) {
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
        self.leads.send_if_modified(|known| std::mem::replace(known, lead) != lead);
    }
}

/// Counted over the life of a process, both as leader and as follower.
#[derive(Debug, Default)]
pub(super) struct NodeMetrics {
    leads: AtomicBool,
    epoch: AtomicU64,
    record: AtomicU64,
    /// Last record of the store; on a leader, the record of its takeover.
    store_record: AtomicU64,
    /// Time of the newest entry that this node has, in nanoseconds since 1970; 0 before the first.
    entry_at_ns: AtomicI64,
    /// Time when the newest entry was read, by this node's monotonic clock.
    read_at: Mutex<Option<Instant>>,
    after_silence: AtomicU64,
    after_hand_over: AtomicU64,
    superseded: AtomicU64,
    /// Time of the last handover in seconds since 1970; 0 before the first one.
    handed_over_at_s: AtomicU64,
    alarming: AtomicU64,
    /// The node that makes the topic retain older entries than necessary, as found by this node as leader.
    topic_held_by: Mutex<Option<u32>>,
    /// Counted by the Kafka client.
    pub(super) broker_errors: Arc<AtomicU64>,
    /// Outcomes of forwarded requests.
    pub(super) forwarded: Arc<ForwardCounts>,
}

/// Maximum delay of a follower that accepts requests. A follower that is behind does not know which clients operators
/// have blocked since. A live leader writes more often, and a silent one is replaced sooner.
const BEHIND_MAX: Duration = Duration::from_secs(5);

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Age of an entry. It is at least the time since the entry was read, even if its writer's clock is ahead.
fn age_ms(entry_at: Timestamp, now: Timestamp, since_read: Duration) -> u64 {
    let by_its_time = now.ms_since(entry_at).max(0).unsigned_abs();
    by_its_time.max(u64::try_from(since_read.as_millis()).unwrap_or(u64::MAX))
}

impl NodeMetrics {
    /// The node follows and has read up to this progress.
    pub(super) fn followed(&self, progress: &StandbyProgress) {
        self.epoch.store(progress.position.epoch, Ordering::Relaxed);
        self.record.store(progress.position.seq, Ordering::Relaxed);
        self.store_record.store(progress.position.store.seq, Ordering::Relaxed);
        if !progress.is_alarming {
            self.entry_at_ns.store(progress.entry_at_ns, Ordering::Relaxed);
            *self.read_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.alarming.fetch_add(u64::from(progress.is_alarming), Ordering::Relaxed);
    }

    /// The node has become leader at this last record of the store, after a handover or after silence.
    pub(super) fn elected(&self, was_called: bool, store_record: u64) {
        self.store_record.store(store_record, Ordering::Relaxed);
        self.leads.store(true, Ordering::Relaxed);
        let count = if was_called { &self.after_hand_over } else { &self.after_silence };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The leader has handed over. Up to now, its own entries were the newest.
    pub(super) fn handed_over(&self, now: Timestamp) {
        self.entry_at_ns.store(now.as_ns(), Ordering::Relaxed);
        *self.read_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.leads.store(false, Ordering::Relaxed);
        self.handed_over_at_s.store(since_1970().as_secs(), Ordering::Relaxed);
    }

    /// Another node has become leader, at an unknown time. Entries that this node read before its own leadership no
    /// longer show how far it is behind.
    pub(super) fn superseded(&self) {
        self.entry_at_ns.store(0, Ordering::Relaxed);
        self.leads.store(false, Ordering::Relaxed);
        self.superseded.fetch_add(1, Ordering::Relaxed);
    }

    /// The node that makes the topic retain old entries, if any.
    pub(super) fn topic_held_by(&self, node: Option<u32>) {
        *self.topic_held_by.lock().unwrap_or_else(PoisonError::into_inner) = node;
    }

    /// Writes the metrics at this instant of the hub's time. `written`, on a leader: its last record, and the number of
    /// records that it added to the store.
    pub(super) fn write(&self, text: &mut String, now: Timestamp, written: Option<(u64, u64)>) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let leads = self.leads.load(Ordering::Relaxed);
        gauge(text, "upesi_cluster_leads", "1 while this node is the leader", u64::from(leads));
        gauge(text, "upesi_cluster_epoch", "Changes of leadership that this node has read", of(&self.epoch));
        let (record, of_store) = written.unwrap_or_else(|| (of(&self.record), 0));
        gauge(text, "upesi_cluster_record", "Last record of this node's copy", record);
        let (help, of_store) = ("Last record of the store's copy", of(&self.store_record) + of_store);
        gauge(text, "upesi_cluster_store_record", help, of_store);
        self.write_behind(text, now, leads);
        let name = "upesi_cluster_take_overs";
        head(text, name, "counter", "Times that this node became leader");
        for (after, count) in [("silence", &self.after_silence), ("hand-over", &self.after_hand_over)] {
            let _ = writeln!(text, "{name}_total{{after=\"{after}\"}} {}", of(count));
        }
        let help = "Times that this node found that another node had become leader";
        counter(text, "upesi_cluster_superseded", help, of(&self.superseded));
        let help = "Time of this node's last handover, in seconds since 1970";
        gauge(text, "upesi_cluster_last_hand_over_timestamp_seconds", help, of(&self.handed_over_at_s));
        let help = "Entries rejected as foreign or corrupt";
        counter(text, "upesi_cluster_alarming_entries", help, of(&self.alarming));
        let help = "Broker failures that the Kafka client reported";
        counter(text, "upesi_cluster_broker_errors", help, of(&self.broker_errors));
        self.write_handed_on(text);
        self.write_topic_held(text, leads);
    }

    /// Only a leader knows this, so a follower writes nothing.
    fn write_topic_held(&self, text: &mut String, leads: bool) {
        let name = "upesi_cluster_topic_held";
        let help = "1 while the leader retains old entries because this node has not copied them";
        head(text, name, "gauge", help);
        let held_by = *self.topic_held_by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = held_by.filter(|_| leads) {
            let _ = writeln!(text, "{name}{{node=\"{node}\"}} 1");
        }
    }

    /// Whether the node is the leader, or has read the recent entries of the log, by the hub's time. A jump of the wall
    /// clock does not make entries old.
    pub(super) fn is_current(&self, now: Timestamp) -> bool {
        let leads = self.leads.load(Ordering::Relaxed);
        leads || self.behind_ms(now).is_some_and(|behind_ms| u128::from(behind_ms) <= BEHIND_MAX.as_millis())
    }

    /// Age of the newest entry; `None` before the first.
    pub(super) fn behind_ms(&self, now: Timestamp) -> Option<u64> {
        let entry_at_ns = self.entry_at_ns.load(Ordering::Relaxed);
        let read_at = *self.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        let since_read = read_at.map_or(Duration::ZERO, |read_at| read_at.elapsed());
        (entry_at_ns > 0).then(|| age_ms(Timestamp::from_ns(entry_at_ns), now, since_read))
    }

    fn write_handed_on(&self, text: &mut String) {
        let counts = &self.forwarded;
        let name = "upesi_cluster_handed_on";
        head(text, name, "counter", "Requests forwarded to the leader, by outcome");
        for (outcome, count) in [
            ("answered", &counts.answered),
            ("unreachable", &counts.unreachable),
            ("unknown", &counts.unknown),
        ] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_total{{outcome=\"{outcome}\"}} {count}");
        }
        let help = "Repeated attempts to forward a request";
        counter(text, "upesi_cluster_hand_on_repeats", help, counts.repeated.load(Ordering::Relaxed));
    }

    fn write_behind(&self, text: &mut String, now: Timestamp, leads: bool) {
        // Before its first entry, the node does not know of any missing entry.
        let behind_ms = self.behind_ms(now).filter(|_| !leads).unwrap_or_default();
        let name = "upesi_cluster_behind_seconds";
        head(text, name, "gauge", "Age of the newest entry that this node has; 0 on the leader");
        let _ = writeln!(text, "{name} {}.{:03}", behind_ms / 1_000, behind_ms % 1_000);
    }
}

/// Writes the number of nodes that share the delivery of callbacks.
pub(super) fn write_couriers(text: &mut String, participants: &SharedParticipants) {
    let help = "Nodes that deliver callbacks; 0 if the leader delivers all of them";
    gauge(text, "upesi_cluster_couriers", help, participants.get().couriers().len() as u64);
}

#[cfg(test)]
mod tests {
    use upesi_cluster::Position;
    use upesi_engine::{Clock as _, SystemClock};

    use super::*;

    fn now() -> Timestamp {
        SystemClock.now()
    }

    fn value(metrics: &NodeMetrics, name: &str, written: Option<(u64, u64)>) -> String {
        let mut text = String::new();
        metrics.write(&mut text, now(), written);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{name} is not in {text}"))
    }

    #[test]
    fn age_of_an_entry_is_at_least_the_time_since_it_was_read() {
        let at = |s: i64| Timestamp::from_ms(s * 1_000);
        for (entry_at_s, since_read_s, expected) in [(1_000, 0, 0), (990, 3, 10_000), (4_600, 7, 7_000)] {
            let age_ms = age_ms(at(entry_at_s), at(1_000), Duration::from_secs(since_read_s));
            assert_eq!(age_ms, expected, "{entry_at_s} {since_read_s}");
        }
    }

    #[test]
    fn former_leader_seeks_the_next_one_until_the_log_shows_it() {
        let node = Node::new(1);
        let lead = |epoch, node| KnownLeader { epoch, node, is_sought: false };
        node.has_read(lead(3, Some(2)), Some("http://node-2"));
        assert_eq!(node.leader(), Some((2, "http://node-2".to_owned())));
        node.metrics.epoch.store(4, Ordering::Relaxed);
        node.leads_now();
        assert_eq!((*node.leads.borrow(), node.leader()), (lead(4, Some(1)), None));
        node.seeks(Some(3), 70);
        let sought = KnownLeader { is_sought: true, ..lead(4, Some(3)) };
        // The node reads its own leadership again, from its copy of the log.
        node.has_read(lead(4, Some(1)), Some("http://node-1"));
        assert_eq!((*node.leads.borrow(), node.leader()), (sought, None));
        node.has_read(lead(5, Some(2)), None);
        assert_eq!(*node.leads.borrow(), lead(5, Some(2)));
    }

    #[test]
    fn leader_shows_the_node_that_keeps_old_entries_in_the_topic() {
        let metrics = NodeMetrics::default();
        let held = |held_by| {
            metrics.topic_held_by(held_by);
            let mut text = String::new();
            metrics.write(&mut text, now(), None);
            text.contains("upesi_cluster_topic_held{node=\"3\"} 1\n")
        };
        assert!(!held(Some(3)), "it follows");
        metrics.elected(true, 0);
        assert!(held(Some(3)) && !held(None));
    }

    #[test]
    fn metrics_show_position_and_role_of_a_node() {
        let metrics = NodeMetrics::default();
        assert_eq!(
            value(&metrics, "upesi_cluster_behind_seconds", None),
            "0.000",
            "the node has read nothing"
        );
        assert!(!metrics.is_current(now()), "the node has read nothing");
        let mut position = Position { epoch: 3, seq: 70, ..Position::START };
        position.store.seq = 8;
        let ahead = Duration::ZERO;
        let progress =
            StandbyProgress { position, leader: None, is_alarming: true, entry_at_ns: 1_000_000_000, ahead };
        metrics.followed(&progress);
        assert_eq!(metrics.behind_ms(now()), None, "nothing was accepted");
        let progress = StandbyProgress { is_alarming: false, ..progress };
        metrics.followed(&progress);
        for (name, expected) in [
            ("upesi_cluster_leads", "0"),
            ("upesi_cluster_epoch", "3"),
            ("upesi_cluster_record", "70"),
            ("upesi_cluster_store_record", "8"),
            ("upesi_cluster_alarming_entries_total", "1"),
        ] {
            assert_eq!(value(&metrics, name, None), expected, "{name}");
        }
        let behind: f64 = value(&metrics, "upesi_cluster_behind_seconds", None).parse().unwrap();
        assert!(behind > 1e9, "since 1970, but for a second: {behind}");
        assert!(!metrics.is_current(now()));
        for (age, is_current) in [(Duration::ZERO, true), (BEHIND_MAX * 2, false)] {
            let entry_at_ns = now().as_ns() - i64::try_from(age.as_nanos()).unwrap();
            metrics.followed(&StandbyProgress { entry_at_ns, ..progress.clone() });
            assert_eq!(metrics.is_current(now()), is_current, "{age:?}");
        }
        metrics.elected(true, 9);
        metrics.elected(false, 9);
        assert!(metrics.is_current(now()));
        assert_eq!(value(&metrics, "upesi_cluster_leads", None), "1");
        assert_eq!(value(&metrics, "upesi_cluster_behind_seconds", None), "0.000");
        assert_eq!(value(&metrics, "upesi_cluster_record", Some((99, 2))), "99");
        assert_eq!(value(&metrics, "upesi_cluster_store_record", Some((99, 2))), "11");
        for after in ["silence", "hand-over"] {
            let name = format!("upesi_cluster_take_overs_total{{after=\"{after}\"}}");
            assert_eq!(value(&metrics, &name, None), "1");
        }
        assert_eq!(value(&metrics, "upesi_cluster_last_hand_over_timestamp_seconds", None), "0");
        metrics.handed_over(now());
        assert!(metrics.is_current(now()), "it had the newest entries until now");
        metrics.superseded();
        assert!(!metrics.is_current(now()), "entries from before its leadership do not count");
        assert_eq!(value(&metrics, "upesi_cluster_leads", None), "0");
        assert_eq!(value(&metrics, "upesi_cluster_superseded_total", None), "1");
        assert_ne!(value(&metrics, "upesi_cluster_last_hand_over_timestamp_seconds", None), "0");
    }
}
