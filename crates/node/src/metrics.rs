//! The text of `/metrics`: counters of the parts, and values that are read when the text is rendered.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use upesi_admin::{Access, is_break_glass_open};
use upesi_delivery::lanes::{Courier, LaneStatus};
use upesi_engine::{Clock as _, EngineHandle, EngineMetrics, ResponseTimes, SharedParticipants};
use upesi_http::{Outbound, ProxyCounts, Server};
use upesi_ledger::{Credential, Ledger, LedgerAccountTypeId, Secret};
use upesi_process::exposition::{counter, escape, gauge, head};
use upesi_profile::Holder;
use upesi_settings::{Requirement, Settings};
use upesi_tables::store::Store;
use upesi_types::{Amount, Timestamp};

use super::issuers::Providers;
use super::lane_metrics;
use super::node::{Node, write_couriers};
use super::options;
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

/// The connections at both ports, and outbound connections.
pub(super) struct Ports {
    pub(super) outbound: Outbound,
    pub(super) fspiop: Arc<Server>,
    pub(super) admin: Arc<Server>,
    pub(super) tls: Arc<Tls>,
    pub(super) signatures: Arc<Signatures>,
    pub(super) balancers: Option<Arc<ProxyCounts>>,
    pub(super) providers: Providers,
    pub(super) break_glass_file: Option<PathBuf>,
    /// Present on a node of a cluster.
    pub(super) node: Option<Node>,
    /// Time for which the oldest transfers are retained too long, if retention is configured.
    pub(super) transfers_held_s: Option<Arc<AtomicU64>>,
}

/// Renders the text of `/metrics`.
pub(super) struct MetricsText {
    pub(super) registry: Registry,
    counted: EngineMetrics,
    pub(super) engine: EngineHandle,
    pub(super) courier: Courier,
    pub(super) participants: SharedParticipants,
    store: Store,
    process: ProcessMetrics,
    /// Set once the ports serve.
    pub(super) ports: OnceLock<Ports>,
    /// Set once the admin port serves.
    pub(super) access: OnceLock<Access>,
    /// Positions of about the last second, so that scrapes do not query the engine's thread.
    positions: Mutex<Vec<PositionSample>>,
    /// Settlement windows and settlements of about the last second.
    settlement: Mutex<SettlementSample>,
    approvals_pending: AtomicU64,
    /// The last expiry among the tokens of each operator.
    token_ends: Mutex<Vec<(Box<str>, Timestamp)>>,
}

impl MetricsText {
    pub(super) fn new(
        process: ProcessMetrics,
        counted: EngineMetrics,
        registry: Registry,
        engine: EngineHandle,
        courier: Courier,
        participants: SharedParticipants,
        store: Store,
    ) -> Self {
        let (ports, positions, settlement) = (OnceLock::new(), Mutex::default(), Mutex::default());
        Self {
            registry,
            counted,
            engine,
            courier,
            participants,
            store,
            process,
            ports,
            access: OnceLock::new(),
            positions,
            settlement,
            approvals_pending: AtomicU64::new(0),
            token_ends: Mutex::default(),
        }
    }

    /// Reads positions, windows and settlements again.
    pub(super) async fn refresh(&self) {
        let now = self.engine.clock().now();
        let sample = move |ledger: &Ledger| {
            let pending = ledger.approvals().pending().len() as u64;
            (sample_positions(ledger), SettlementSample::new(ledger, now), pending, token_ends(ledger))
        };
        if let Ok((samples, settlement, pending, token_ends)) = self.engine.read(sample).await {
            *self.token_ends.lock().unwrap_or_else(PoisonError::into_inner) = token_ends;
            self.approvals_pending.store(pending, Ordering::Relaxed);
            *self.settlement.lock().unwrap_or_else(PoisonError::into_inner) = settlement;
            let mut known = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
            tell_alarms(&known, &samples);
            *known = samples;
        }
    }

    /// Response times of DFSPs.
    pub(super) fn response_times(&self) -> ResponseTimes {
        self.counted.response_times.clone()
    }

    /// The text, in the OpenMetrics format.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = encode(&mut text, &self.registry);
        if let Some(body) = text.strip_suffix("# EOF\n") {
            text.truncate(body.len());
        }
        self.write_connections(&mut text);
        self.write_positions(&mut text);
        self.settlement.lock().unwrap_or_else(PoisonError::into_inner).clone().write(&mut text);
        lane_metrics::write(&mut text, &self.courier, &self.participants.get());
        let summaries = self.counted.response_times.summaries(self.engine.clock().now());
        response_metrics::write(&mut text, &summaries, &self.participants.get());
        self.write_store(&mut text);
        self.write_archive(&mut text);
        let pending = self.approvals_pending.load(Ordering::Relaxed);
        gauge(&mut text, "upesi_approvals_pending", "Pending approvals", pending);
        self.write_token_ends(&mut text);
        if let Some(access) = self.access.get() {
            write_rejected_credentials(access, &mut text);
        }
        if let Some(ports) = self.ports.get() {
            ports.tls.write(&mut text);
            ports.signatures.write(&mut text);
            ports.providers.write(&mut text);
            options::write_proxy_counts(ports.balancers.as_deref(), &mut text);
            write_break_glass(ports.break_glass_file.as_deref(), &mut text);
            if let Some(held_s) = &ports.transfers_held_s {
                let help = "Time for which the oldest transfers are retained beyond archive.keep_days, because their settlement window is not settled";
                gauge(&mut text, "upesi_archive_held_seconds", help, held_s.load(Ordering::Relaxed));
            }
            if let Some(node) = &ports.node {
                let written = (self.engine.status().durable_seq, self.store.stats().batches);
                node.metrics.write(&mut text, self.engine.clock().now(), Some(written));
                write_couriers(&mut text, &self.participants);
            }
        }
        self.process.write(&mut text, &self.engine.status());
        text.push_str("# EOF\n");
        text
    }

    /// Parts of the hub that may use much memory.
    pub(super) fn holders(&self) -> Vec<Holder> {
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
            holder(
                "connections of DFSPs",
                self.ports.get().map(|ports| ports.fspiop.connections() as u64),
                None,
            ),
        ]
    }

    fn write_connections(&self, text: &mut String) {
        let Some(Ports { outbound, fspiop, admin, .. }) = self.ports.get() else { return };
        let to_others = outbound.open().unwrap_or(0) as u64;
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
            ("upesi_http_accept_failures", "Failures to accept a connection", fspiop.accepts_failed()),
        ] {
            counter(text, name, help, count as u64);
        }
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
        for (operator, end) in self.token_ends.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let left_s = (end.as_ms() - now.as_ms()).div_euclid(1_000);
            let _ = writeln!(text, "{name}{{operator=\"{}\"}} {left_s}", escape(operator));
        }
    }

    fn write_positions(&self, text: &mut String) {
        let samples = self.positions.lock().unwrap_or_else(PoisonError::into_inner).clone();
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

// Break-glass: where its file is, and the metric of it.

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
    fn alarms_are_beyond_a_share_of_the_bound() {
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
