//! The text of `/metrics`: counters of the parts, and values that are read when the text is rendered.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use upesi_admin::{Access, is_break_glass_open};
use upesi_delivery::lanes::{Courier, LaneStatus};
use upesi_engine::{Clock as _, EngineHandle, EngineMetrics, SharedParticipants};
use upesi_http::{Outbound, ProxyCounts};
use upesi_ledger::{Credential, Ledger, LedgerAccountTypeId, Secret};
use upesi_process::exposition::{counter, escape, gauge, head};
use upesi_profile::Holder;
use upesi_settings::{Requirement, Settings};
use upesi_tables::store::Store;
use upesi_types::{Amount, Timestamp};

use super::clock::HubClock;
use super::couriers::FollowerCallbacks;
use super::issuers::Providers;
use super::lane_metrics;
use super::node::{Node, write_couriers};
use super::options;
use super::ports::{OpenPorts, Servers};
use super::process::ProcessMetrics;
use super::response_metrics;
use super::settlement_metrics::SettlementSample;
use super::signatures::Signatures;
use super::tls::Tls;

/// A position with its limits, for the metrics.
#[derive(Clone, Debug)]
struct PositionSample {
    participant: String,
    currency: String,
    labels: String,
    position: String,
    cover: String,
    cap: String,
    /// Whether the position is above the alarm percentage of the lower of cover and cap.
    alarms: bool,
}

/// Renders the text of `/metrics`: what counts in every role, and the part of the current role.
pub(super) struct Metrics {
    /// The counters of the gateway.
    pub(super) registry: Registry,
    pub(super) process: ProcessMetrics,
    pub(super) clock: Arc<HubClock>,
    pub(super) participants: SharedParticipants,
    pub(super) ports: OpenPorts,
    pub(super) outbound: Outbound,
    pub(super) tls: Arc<Tls>,
    pub(super) signatures: Arc<Signatures>,
    pub(super) providers: Providers,
    pub(super) access: Access,
    /// Counts of the connections of load balancers, if there are load balancers.
    pub(super) balancers: Option<Arc<ProxyCounts>>,
    pub(super) break_glass_file: Option<PathBuf>,
    /// Present on a node of a cluster.
    pub(super) node: Option<Node>,
    pub(super) role: RwLock<RoleMetrics>,
}

/// The metrics of a role. Cloning shares them.
#[derive(Clone)]
pub(super) enum RoleMetrics {
    /// The hub has not read its ledger yet.
    Starting,
    Leads(Arc<LeaderMetrics>),
    /// With the callbacks that the follower delivers, if it delivers any.
    Follows(Option<Arc<FollowerCallbacks>>),
}

impl Metrics {
    pub(super) fn set_role(&self, role: RoleMetrics) {
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
    }

    fn role(&self) -> RoleMetrics {
        self.role.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The text, in the OpenMetrics format.
    pub(super) fn render(&self) -> String {
        let (mut text, role) = (String::new(), self.role());
        write_registry(&self.registry, &mut text);
        self.write_connections(&mut text);
        let leader = match &role {
            RoleMetrics::Leads(leader) => Some(&**leader),
            RoleMetrics::Starting | RoleMetrics::Follows(_) => None,
        };
        if let Some(leader) = leader {
            leader.write(&mut text);
        }
        if let RoleMetrics::Follows(Some(callbacks)) = &role {
            lane_metrics::write(&mut text, &callbacks.courier, &self.participants.get());
            let help = "Completed callbacks that the leader has not recorded yet, as far as this node has read the log";
            gauge(&mut text, "upesi_cluster_unrecorded_ends", help, callbacks.reports.len() as u64);
        }
        write_rejected_credentials(&self.access, &mut text);
        self.tls.write(&mut text);
        self.signatures.write(&mut text);
        self.providers.write(&mut text);
        options::write_proxy_counts(self.balancers.as_deref(), &mut text);
        write_break_glass(self.break_glass_file.as_deref(), &mut text);
        if let Some(node) = &self.node {
            node.metrics.write(&mut text, self.clock.now(), leader.map(LeaderMetrics::written));
            write_couriers(&mut text, &self.participants);
        }
        match leader {
            Some(leader) => self.process.write_leader(&mut text, &leader.engine.status()),
            None => self.process.write_follower(&mut text, self.clock.state()),
        }
        text.push_str("# EOF\n");
        text
    }

    /// Parts of the hub that may use much memory.
    pub(super) fn holders(&self) -> Vec<Holder> {
        let mut holders = match self.role() {
            RoleMetrics::Leads(leader) => leader.holders(),
            RoleMetrics::Starting | RoleMetrics::Follows(_) => Vec::new(),
        };
        let connections = self.ports.get().fspiop.map(|fspiop| fspiop.connections() as u64);
        holders.push(Holder { what: "connections of DFSPs".to_owned(), count: connections, bytes: None });
        holders
    }

    fn write_connections(&self, text: &mut String) {
        let Servers { fspiop: Some(fspiop), admin: Some(admin), .. } = self.ports.get() else { return };
        let to_others = self.outbound.open().unwrap_or(0) as u64;
        gauge(text, "upesi_outbound_connections", "Open connections to DFSPs and oracles", to_others);
        gauge(
            text,
            "upesi_http_connections",
            "Open connections on the FSPIOP port",
            fspiop.connections() as u64,
        );
        gauge(
            text,
            "upesi_admin_connections",
            "Open connections on the admin port",
            admin.connections() as u64,
        );
        for (name, help, count) in [
            (
                "upesi_http_connections_refused",
                "Connections rejected at the limit",
                fspiop.connections_refused(),
            ),
            (
                "upesi_http_connections_made_way",
                "Connections closed to make room for new ones",
                fspiop.connections_made_way(),
            ),
            (
                "upesi_http_connections_over_share",
                "Connections beyond the share of their DFSP, which ended with their first answer",
                fspiop.connections_over_share(),
            ),
            ("upesi_http_accept_failures", "Failures to accept a connection", fspiop.accepts_failed()),
        ] {
            counter(text, name, help, count as u64);
        }
    }
}

fn write_registry(registry: &Registry, text: &mut String) {
    // Writing into a String does not fail.
    let _ = encode(text, registry);
    text.truncate(text.strip_suffix("# EOF\n").map_or(text.len(), str::len));
}

/// The metrics of a hub that processes requests.
pub(super) struct LeaderMetrics {
    pub(super) registry: Registry,
    pub(super) counted: EngineMetrics,
    pub(super) engine: EngineHandle,
    pub(super) courier: Courier,
    pub(super) participants: SharedParticipants,
    pub(super) store: Store,
    /// Delay in the removal of the oldest transfers, if retention is configured.
    pub(super) transfers_held_s: Option<Arc<AtomicU64>>,
    pub(super) samples: Samples,
}

/// Values of about the last second, so that scrapes do not query the engine's thread.
#[derive(Default)]
pub(super) struct Samples {
    positions: Mutex<Vec<PositionSample>>,
    /// Settlement windows and settlements.
    settlement: Mutex<SettlementSample>,
    approvals_pending: AtomicU64,
    /// The last expiry among the tokens of each operator.
    token_ends: Mutex<Vec<(Box<str>, Timestamp)>>,
}

impl LeaderMetrics {
    /// Reads positions, windows and settlements again.
    pub(super) async fn refresh(&self) {
        let now = self.engine.clock().now();
        let sample = move |ledger: &Ledger| {
            let pending = ledger.approvals().pending().len() as u64;
            (sample_positions(ledger), SettlementSample::new(ledger, now), pending, token_ends(ledger))
        };
        if let Ok((samples, settlement, pending, token_ends)) = self.engine.read(sample).await {
            let Samples { positions, settlement: settlements, approvals_pending, token_ends: ends } =
                &self.samples;
            *ends.lock().unwrap_or_else(PoisonError::into_inner) = token_ends;
            approvals_pending.store(pending, Ordering::Relaxed);
            *settlements.lock().unwrap_or_else(PoisonError::into_inner) = settlement;
            let mut known = positions.lock().unwrap_or_else(PoisonError::into_inner);
            tell_alarms(&known, &samples);
            *known = samples;
        }
    }

    /// The last record, and the number of records that this leader added to the store.
    fn written(&self) -> (u64, u64) {
        (self.engine.status().durable_seq, self.store.stats().batches)
    }

    fn write(&self, text: &mut String) {
        write_registry(&self.registry, text);
        self.write_positions(text);
        self.samples.settlement.lock().unwrap_or_else(PoisonError::into_inner).clone().write(text);
        lane_metrics::write(text, &self.courier, &self.participants.get());
        let summaries = self.counted.response_times.summaries(self.engine.clock().now());
        response_metrics::write(text, &summaries, &self.participants.get());
        self.write_store(text);
        self.write_archive(text);
        let pending = self.samples.approvals_pending.load(Ordering::Relaxed);
        gauge(text, "upesi_approvals_pending", "Pending approvals", pending);
        self.write_token_ends(text);
        if let Some(held_s) = &self.transfers_held_s {
            let help = "Time that the oldest transfers are retained beyond archive.keep_days, because their settlement window is not settled";
            gauge(text, "upesi_archive_held_seconds", help, held_s.load(Ordering::Relaxed));
        }
    }

    /// Parts of the hub that may use much memory.
    fn holders(&self) -> Vec<Holder> {
        let lanes = self.courier.lanes();
        let in_memory =
            |lane: &LaneStatus| lane.queued + lane.retrying - lane.retrying_on_disk + lane.in_flight;
        let in_lanes: usize = lanes.iter().map(in_memory).sum();
        let lane_bytes: usize = lanes.iter().map(|lane| lane.bytes).sum();
        let counted = |gauge: &Gauge| u64::try_from(gauge.get()).ok();
        let holder = |what: &str, count, bytes| Holder { what: what.to_owned(), count, bytes };
        vec![
            holder("reserved transfers", counted(&self.counted.transfers_reserved), None),
            holder(
                "finished transfers that wait to be archived",
                counted(&self.counted.transfers_finished_in_memory),
                None,
            ),
            holder("callbacks owed", counted(&self.counted.callbacks_undelivered), None),
            holder("callbacks in lanes, with their content", Some(in_lanes as u64), Some(lane_bytes as u64)),
            holder(
                "changes of the store that are not in sorted tables yet",
                None,
                Some(self.store.stats().pending_bytes),
            ),
        ]
    }

    fn write_store(&self, text: &mut String) {
        let stats = self.store.stats();
        for (name, help, value) in [
            ("upesi_store_batches", "Synced batches of the store", stats.batches),
            ("upesi_store_updates", "Acknowledged changes of the store", stats.updates),
            ("upesi_store_updates_shed", "Rejected changes of the store", stats.updates_shed),
        ] {
            counter(text, name, help, value);
        }
        for (name, help, value) in [
            ("upesi_store_disk_bytes", "Size of the store's sorted tables", stats.disk_bytes),
            (
                "upesi_store_pending_bytes",
                "Size of changes in memory that are not in sorted tables yet",
                stats.pending_bytes,
            ),
            ("upesi_store_resident_tables", "Tables that are completely in memory", stats.resident_tables),
            (
                "upesi_store_resident_bytes",
                "Memory used by tables that are completely in memory",
                stats.resident_bytes,
            ),
            (
                "upesi_store_stopped",
                "1 once the store has stopped because of a disk error",
                u64::from(stats.poisoned),
            ),
        ] {
            gauge(text, name, help, value);
        }
    }

    fn write_archive(&self, text: &mut String) {
        let Some(stats) = self.engine.archive_stats() else { return };
        for (name, help, value) in [
            (
                "upesi_archive_transfers",
                "Approximate number of finished transfers in the archive",
                stats.transfers_estimate,
            ),
            ("upesi_archive_disk_bytes", "Size of the archive's tables", stats.disk_bytes),
            ("upesi_archive_unmerged_tables", "Tables that wait to be merged", stats.unmerged_tables),
            ("upesi_archive_filter_bytes", "Memory used by the filter of archived ids", stats.filter_bytes),
            (
                "upesi_archive_filter_ready",
                "0 while the filter of archived ids is being built after a start",
                u64::from(stats.filter_ready),
            ),
        ] {
            gauge(text, name, help, value);
        }
    }

    fn write_token_ends(&self, text: &mut String) {
        let now = self.engine.clock().now();
        let name = "upesi_operator_token_expiry_seconds";
        head(text, name, "gauge", "Time until the last token of an operator expires");
        for (operator, end) in self.samples.token_ends.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let left_s = (end.as_ms() - now.as_ms()).div_euclid(1_000);
            let _ = writeln!(text, "{name}{{operator=\"{}\"}} {left_s}", escape(operator));
        }
    }

    fn write_positions(&self, text: &mut String) {
        let samples = self.samples.positions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, help, value) in [
            (
                "upesi_position",
                "Position, positive if the participant owes money",
                (|s| &s.position) as fn(&PositionSample) -> &String,
            ),
            ("upesi_position_cover", "Liquidity cover of the position", |s| &s.cover),
            ("upesi_net_debit_cap", "Net debit cap: highest position that a prepare may lead to", |s| &s.cap),
        ] {
            head(text, name, "gauge", help);
            for sample in &samples {
                let _ = writeln!(text, "{name}{{{}}} {}", sample.labels, value(sample));
            }
        }
        head(text, "upesi_position_alarm", "gauge", "1 while a position is above its alarm percentage");
        for sample in &samples {
            let _ = writeln!(text, "upesi_position_alarm{{{}}} {}", sample.labels, u8::from(sample.alarms));
        }
    }
}

fn write_rejected_credentials(access: &Access, text: &mut String) {
    let name = "upesi_admin_credentials_rejected";
    head(text, name, "counter", "Credentials that the admin port rejected, by kind");
    for (kind, count) in access.rejected_credentials() {
        let _ = writeln!(text, "{name}_total{{credential=\"{kind}\"}} {count}");
    }
}

/// Tokens with a shorter lifetime are created for one task and not renewed.
const RENEWED_LIFE_MS: i64 = 30 * 24 * 3_600_000;

/// The active operators with tokens that are meant to be renewed, and the last expiry of these tokens.
fn token_ends(ledger: &Ledger) -> Vec<(Box<str>, Timestamp)> {
    let is_renewed = |one: &&Credential| {
        matches!(one.secret, Secret::Token(_))
            && one.expires_at.as_ms().saturating_sub(one.created_at.as_ms()) >= RENEWED_LIFE_MS
    };
    let operators = ledger.operators().iter().filter(|operator| operator.is_active);
    let ends = operators.filter_map(|operator| {
        let ends = operator.credentials.iter().filter(is_renewed).map(|one| one.expires_at);
        Some((operator.name.clone(), ends.max()?))
    });
    ends.collect()
}

fn sample_positions(ledger: &Ledger) -> Vec<PositionSample> {
    let mut samples = Vec::new();
    for participant in ledger.participants() {
        for reference in &participant.accounts {
            if reference.kind != LedgerAccountTypeId::POSITION {
                continue;
            }
            let position = ledger.account(reference.id).map(|account| account.balance).unwrap_or_default();
            let cover = ledger.cover(participant, reference.currency);
            let limit = participant.limit(reference.currency);
            let cap = limit.map(|limit| limit.value).unwrap_or_default();
            let alarms =
                limit.is_some_and(|limit| is_beyond(position, cap.min(cover), limit.alarm_basis_points));
            samples.push(PositionSample {
                participant: participant.name.to_string(),
                currency: reference.currency.to_string(),
                labels: format!(
                    "fsp=\"{}\",currency=\"{}\"",
                    escape(participant.name.as_str()),
                    reference.currency
                ),
                position: position.to_string(),
                cover: cover.to_string(),
                cap: cap.to_string(),
                alarms,
            });
        }
    }
    samples
}

/// Whether a position exceeds this share of its limit, in hundredths of a percent. A participant that owes nothing
/// never does.
fn is_beyond(position: Amount, bound: Amount, basis_points: u16) -> bool {
    let threshold = i128::from(bound.units().max(0)) * i128::from(basis_points);
    position > Amount::ZERO && i128::from(position.units()) * 10_000 > threshold
}

/// Logs the positions that have crossed their alarm percentage since the last check, in either direction.
fn tell_alarms(before: &[PositionSample], now: &[PositionSample]) {
    for sample in now {
        let PositionSample { participant, currency, labels, position, cover, cap, alarms } = sample;
        let alarmed = before.iter().any(|known| known.labels == *labels && known.alarms);
        match (alarmed, alarms) {
            (false, true) => {
                tracing::info!(
                    %participant,
                    %currency,
                    position,
                    cover,
                    cap,
                    "a position is above its alarm percentage"
                );
            }
            (true, false) => {
                tracing::info!(
                    %participant,
                    %currency,
                    position,
                    cover,
                    cap,
                    "a position is below its alarm percentage again"
                );
            }
            _ => {}
        }
    }
}

/// The break-glass file, if clients must authenticate. Otherwise a break-glass token has no effect.
pub(super) fn watched_break_glass(settings: &Settings) -> Option<PathBuf> {
    (settings.admin.authentication == Requirement::Required).then(|| options::break_glass_file(settings))
}

/// Writes the metric of a break-glass file.
pub(super) fn write_break_glass(file: Option<&Path>, text: &mut String) {
    let Some(file) = file else { return };
    let name = "upesi_break_glass_open";
    head(text, name, "gauge", "1 while a break-glass token is valid");
    // Writing into a String does not fail.
    let _ = writeln!(text, "{name} {}", u64::from(is_break_glass_open(file)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_alarm_is_at_a_share_of_the_limit() {
        let amount = |text| Amount::parse_decimal(text).unwrap();
        for (position, bound, basis_points, expected) in [
            ("100", "1000", 1_000, false),
            ("100.0001", "1000", 1_000, true),
            ("99999999999999.9999", "99999999999999.9999", 10_000, false),
            ("0.0001", "1000", 0, true),
            ("0", "1000", 0, false),
            ("-5", "1000", 0, false),
            ("0.0001", "0", 10_000, true),
            ("1", "-50", 10_000, true),
        ] {
            let found = is_beyond(amount(position), amount(bound), basis_points);
            assert_eq!(found, expected, "{position} of {bound}, {basis_points}");
        }
    }
}
