//! Converts settings to the options of the hub's parts.

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use upesi_admin::{
    Access, AccessOptions, AllowedHosts, AllowedOrigins, BOOTSTRAP_FILE, BREAK_GLASS_FILE, Issuer,
};
use upesi_delivery::lanes::CourierConfig;
use upesi_delivery::relayed::RelayConfig;
use upesi_directory::{DirectoryConfig, OracleConfig};
use upesi_engine::EngineOptions;
use upesi_fspiop::Versions;
use upesi_fspiop::headers::HeaderRules;
use upesi_gateway::nodes::CONNECTIONS_PER_NODE;
use upesi_gateway::{AddressLists, AdmissionSettings, GatewayConfig, RateLimits, RateSettings};
use upesi_http::{
    ClientTls, Guard, GuardRules, Limits, Origin, Outbound, PaceLimits, ProxyCounts, ProxyProtocol,
    ProxyRefusal, Schemes, Workers, WorkersError, available_cores,
};
use upesi_journal::{Disk, Durability, Options};
use upesi_keys::Secret;
use upesi_ledger::LedgerConfig;
use upesi_offline::export::Format;
use upesi_process::exposition::head;
use upesi_quoting::{QuotingConfig, Retention};
use upesi_replication::{Copies, CopyOf};
use upesi_settings::{
    Approvers, ClusterLog, Dfsp, ExportFormat, FinerAmounts, KeepSegments, Requirement, Settings, Tokens,
};
use upesi_tables::store::{StoreFollower, StoreOptions, VALUE_BYTES_MAX};

use super::retention::Policy;

/// Directory of the store inside the data directory.
pub(super) const STORE: &str = "store";
/// Maximum number of connections to the metrics port. It expects two scrapers and a user at a time.
pub(super) const METRICS_CONNECTIONS_MAX: usize = 16;

/// A number of descriptors. It is far below any platform's `usize`.
pub(super) fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A duration as the ledger counts it.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn engine(settings: &Settings) -> EngineOptions {
    let Settings { data, engine, hub, .. } = settings;
    let defaults = EngineOptions::new(&data.dir);
    EngineOptions {
        ledger: LedgerConfig {
            hub_name: hub.name,
            on_us_transfers: hub.on_us_transfers,
            payee_confirmation: hub.payee_confirmation,
            funds_out_guard: hub.funds_out_guard,
            unknown_transfer: hub.unknown_transfer,
            rejects_finer_amounts: hub.finer_amounts == FinerAmounts::Reject,
            transfer_validity_max_ms: settings.transfer_validity_max().map_or(i64::MAX, millis),
            internal_transfer_validity_ms: millis(hub.internal_transfer_validity_s),
            proposal_lifetime_ms: millis(settings.admin.approval_hours),
            ..LedgerConfig::default()
        },
        queue_commands_max: engine.queue_commands_max,
        batch_commands_max: engine.batch_commands_max,
        batch_bytes_max: engine.batch_bytes_max,
        tick_interval: engine.tick_interval_ms,
        clock_jump_max: engine.clock_jump_max_ms,
        segment_bytes: data.segment_bytes,
        durability: if engine.durable { Durability::Synced } else { Durability::Volatile },
        snapshot_every_records: data.snapshot_every_records,
        fold_every_records: defaults.fold_every_records.min(data.snapshot_every_records / FOLDS_PER_SNAPSHOT),
        finished_transfers_max: engine.finished_transfers_max,
        keep_segments: data.keep_segments == KeepSegments::All,
        // Each node of a cluster exports transfers from its own archive before it removes them.
        defers_removals: settings.cluster.log != ClusterLog::None && settings.archive.export_dir.is_some(),
        ..defaults
    }
}

/// The default ratio, so that the small settings of tests do not change the behaviour of the hub.
const FOLDS_PER_SNAPSHOT: u64 = 16;

/// Retention of finished transfers; `None`: forever.
pub(super) fn retention(settings: &Settings) -> Option<Policy> {
    let archive = &settings.archive;
    let export_format = match archive.export_format {
        ExportFormat::Csv => Format::Csv,
        ExportFormat::Jsonl => Format::Jsonl,
        ExportFormat::Parquet => Format::Parquet,
    };
    (archive.keep_days > 0).then(|| Policy {
        keep_days: archive.keep_days,
        export_dir: archive.export_dir.clone(),
        export_format,
        is_shared: settings.cluster.log != ClusterLog::None,
    })
}

pub(super) fn versions(settings: &Settings) -> Versions {
    Versions {
        accepted: settings.fspiop.versions_accepted.clone(),
        hub_made: settings.fspiop.version_default,
    }
}

pub(super) fn gateway(settings: &Settings) -> GatewayConfig {
    let Settings { fspiop, hub, .. } = settings;
    GatewayConfig {
        headers: HeaderRules {
            versions: versions(settings),
            content_type_required: fspiop.content_type_required,
        },
        shows_diagnostics: fspiop.diagnostics,
        addresses: address_lists(&settings.dfsps),
        hub_name: hub.name,
        body_bytes_max: fspiop.body_bytes_max,
        transfer_body_bytes_max: fspiop.transfer_body_bytes_max,
        large_bodies_bytes_max: fspiop.large_bodies_bytes_max,
        sender_bodies_bytes_max: fspiop.sender_bodies_bytes_max,
        body_deadline: fspiop.body_deadline_ms,
        completed_timestamp_lag_ms: millis(fspiop.completed_timestamp_lag_ms),
        completed_timestamp_age_s_max: millis(fspiop.completed_timestamp_age_s_max) / 1000,
        extended_party_id_types: fspiop.extended_party_id_types,
        rejects_finer_amounts: hub.finer_amounts == FinerAmounts::Reject,
        admission: admission(settings),
        pace: PaceLimits::default(),
        records_metrics: settings.metrics.record,
        logs_access: settings.log.access,
        are_bindings_required: settings.fspiop_tls.bindings_required,
        are_tokens_required: settings.oauth.tokens == Tokens::Required,
    }
}

/// The networks that DFSPs may connect from.
fn address_lists(dfsps: &[Dfsp]) -> AddressLists {
    let mut lists = AddressLists::default();
    for Dfsp { name, settings } in dfsps {
        for network in settings.networks.iter().flatten() {
            lists.add(name.as_str(), *network);
        }
    }
    lists
}

fn admission(settings: &Settings) -> AdmissionSettings {
    let Settings { admission, engine, .. } = settings;
    AdmissionSettings {
        delay_target: admission.delay_target_us,
        engine_wait_max: admission.engine_wait_max_ms,
        engine_batch_commands: engine.batch_commands_max,
        engine_waiting_max: AdmissionSettings::part_for_new(engine.queue_commands_max),
        rate_max: admission.rate_max,
        rate_per_dfsp: admission.rate_per_dfsp,
        bytes_per_dfsp: admission.bytes_per_dfsp,
        refusal_hold: admission.refusal_hold_ms,
    }
}

/// Limits of the FSPIOP port with the given number of connections.
pub(super) fn limits(settings: &Settings, connections_max: u64) -> Limits {
    let fspiop = &settings.fspiop;
    // Lowered in proportion to the connections of the hub.
    let per_dfsp = fspiop.connections_per_dfsp_max.saturating_mul(connections_max) / fspiop.connections_max;
    Limits {
        head_bytes_max: fspiop.head_bytes_max,
        head_deadline: fspiop.head_deadline_ms,
        idle_timeout: fspiop.idle_timeout_ms,
        connections_max: size(connections_max),
        anonymous_per_address_max: fspiop.strangers_per_address_max,
        connections_per_participant_max: size(per_dfsp.max(1)),
        streams_per_connection_max: settings.tls.http2_streams_max,
        ..Limits::default()
    }
}

/// Limits of the admin port and the metrics port.
pub(super) fn admin_limits(settings: &Settings, connections_max: usize) -> Limits {
    Limits {
        streams_per_connection_max: settings.tls.http2_streams_max,
        ..upesi_admin::limits(connections_max)
    }
}

pub(super) fn courier(settings: &Settings, outbound: &Outbound, tls: Option<ClientTls>) -> CourierConfig {
    let callbacks = &settings.callbacks;
    CourierConfig {
        concurrency_max: callbacks.concurrency_max,
        queue_max: callbacks.queue_max,
        queue_bytes_max: callbacks.queue_bytes_max,
        retrying_max: callbacks.retrying_max,
        connect_timeout: callbacks.connect_timeout_ms,
        request_timeout: callbacks.request_timeout_ms,
        keep_alive: callbacks.keep_alive,
        outbound: outbound.clone(),
        tls,
        records_metrics: settings.metrics.record,
        backoff_min: callbacks.backoff_min_ms,
        backoff_max: callbacks.backoff_max_ms,
        deadline: callbacks.deadline_s,
        breaker_threshold: callbacks.breaker_threshold,
        breaker_pause_min: callbacks.breaker_pause_min_ms,
        breaker_pause_max: callbacks.breaker_pause_max_ms,
        relay_concurrency_max: settings.relay.concurrency_max,
        relay_waiting_max: settings.relay.waiting_max,
        relay_waiting_bytes_max: settings.relay.waiting_bytes_max,
        relay_sender_share_percent: settings.relay.sender_share_percent,
        seed: RandomState::new().build_hasher().finish(),
        ..CourierConfig::default()
    }
}

pub(super) fn relay(settings: &Settings) -> RelayConfig {
    let relay = &settings.relay;
    RelayConfig {
        in_flight_max: relay.in_flight_max,
        bytes_max: relay.bytes_max,
        sender_bytes_max: relay.sender_bytes_max,
        sender_share_percent: relay.sender_share_percent,
        unasked_answers: relay.unasked_answers,
        versions: versions(settings),
    }
}

pub(super) fn store(settings: &Settings) -> StoreOptions {
    StoreOptions { free_bytes_min: settings.store.free_bytes_min, ..StoreOptions::default() }
}

/// The store's options for a node of a cluster: everything that is written at once is one entry of the log.
pub(super) fn shared_store(settings: &Settings) -> StoreOptions {
    const ENTRY_BYTES_MAX: usize = upesi_kafka::ENTRY_BYTES_MAX;
    /// Upper limit for names of tables and for the heads of entry and record.
    const HEADS_BYTES_MAX: usize = 64 << 10;
    /// The largest value with its key and overhead.
    const UPDATE_BYTES_MAX: usize = VALUE_BYTES_MAX + (1 << 20);
    const BATCH_BYTES_MAX: usize = 1 << 20;
    const _: () = assert!(BATCH_BYTES_MAX + UPDATE_BYTES_MAX + HEADS_BYTES_MAX <= ENTRY_BYTES_MAX);
    StoreOptions { batch_bytes_max: BATCH_BYTES_MAX, update_bytes_max: UPDATE_BYTES_MAX, ..store(settings) }
}

pub(super) fn directory(settings: &Settings, outbound: &Outbound, tls: Option<ClientTls>) -> DirectoryConfig {
    let Settings { lookup, oracles, fspiop, relay, .. } = settings;
    let sender_share_percent = relay.sender_share_percent;
    DirectoryConfig {
        lookup_deadline: lookup.deadline_ms,
        pending_max: lookup.pending_max,
        pending_bytes_max: lookup.pending_bytes_max,
        sender_share_percent,
        remove_stale_parties: lookup.remove_stale_parties,
        extended_party_id_types: fspiop.extended_party_id_types,
        external_ownership_check: lookup.external_ownership_check,
        oracle: OracleConfig {
            deadline: oracles.deadline_ms,
            connect_timeout: oracles.connect_timeout_ms,
            in_flight_max: oracles.in_flight_max,
            sender_share_percent,
            outbound: outbound.clone(),
            tls,
            breaker_threshold: oracles.breaker_threshold,
            breaker_pause_min: oracles.breaker_pause_min_ms,
            breaker_pause_max: oracles.breaker_pause_max_ms,
            cache_ttl: oracles.cache_ttl_ms,
            ..OracleConfig::default()
        },
        ..DirectoryConfig::default()
    }
}

pub(super) fn quoting(settings: &Settings) -> QuotingConfig {
    let quotes = &settings.quotes;
    QuotingConfig {
        duplicate_entries: quotes.duplicate_entries,
        refuse_expired: quotes.refuse_expired,
        keep: quotes.persist.then_some(Retention { keep_days: quotes.keep_days, keep_max: quotes.keep_max }),
    }
}

/// Addresses of the cluster's nodes for requests between nodes.
pub(super) fn peers(settings: &Settings) -> Vec<(u32, Origin)> {
    settings.cluster.nodes.iter().map(|(number, address)| (*number, address.clone())).collect()
}

/// Limits of the port for other nodes. Its connections come from few addresses and carry one request at a time.
pub(super) fn node_limits(settings: &Settings) -> Limits {
    /// Additional size of heads: the host name may be longer than in requests from DFSPs.
    const HOST_BYTES: usize = 1024;
    let fspiop = &settings.fspiop;
    Limits {
        head_bytes_max: fspiop.head_bytes_max + HOST_BYTES,
        head_deadline: fspiop.head_deadline_ms,
        idle_timeout: fspiop.idle_timeout_ms,
        connections_max: settings.cluster.nodes.len() * CONNECTIONS_PER_NODE,
        ..Limits::default()
    }
}

/// The addresses that the hub may connect to.
pub(super) fn guard(settings: &Settings) -> Guard {
    let upesi_settings::Outbound { networks, ports, .. } = &settings.outbound;
    match settings.is_outbound_guarded() {
        true => Guard::new(GuardRules { networks: networks.clone(), ports: ports.clone() }),
        false => Guard::default(),
    }
}

/// Rate limits of each DFSP.
pub(super) fn rates(settings: &Settings) -> RateSettings {
    let admission = &settings.admission;
    let limits = RateLimits {
        lookups: admission.lookups_per_dfsp,
        misses: admission.lookup_misses_per_dfsp,
        registrations: admission.registrations_per_dfsp,
        signature_faults: admission.signature_faults_per_dfsp,
    };
    let exception = |Dfsp { name, settings }: &Dfsp| {
        let own = RateLimits {
            lookups: settings.lookups_per_s.unwrap_or(limits.lookups),
            misses: settings.lookup_misses_per_s.unwrap_or(limits.misses),
            registrations: settings.registrations_per_s.unwrap_or(limits.registrations),
            signature_faults: settings.signature_faults_per_s.unwrap_or(limits.signature_faults),
        };
        (name.as_str().to_ascii_lowercase(), own)
    };
    let exceptions = settings.dfsps.iter().map(exception).collect();
    RateSettings { limits, exceptions, block: admission.signature_block_s }
}

/// The URL schemes of addresses that may be registered.
pub(super) fn schemes(settings: &Settings, outbound: &Outbound) -> Schemes {
    let tls = &settings.outbound_tls;
    Schemes { http: !tls.https_only, https: tls.anchors_file.is_some(), guard: outbound.guard().clone() }
}

/// Starts the worker threads: the configured number, or one per core.
pub(super) fn start_edges(settings: &Settings) -> Result<Workers, WorkersError> {
    let count = match settings.fspiop.workers {
        0 => available_cores(),
        count => count,
    };
    Workers::start_on_cores(count, "upesi-edge")
}

/// The break-glass file of a hub.
pub(super) fn break_glass_file(settings: &Settings) -> PathBuf {
    settings.data.dir.join(BREAK_GLASS_FILE)
}

/// Authentication of clients of the admin port.
pub(super) fn access(settings: &Settings, issuers: Vec<Issuer>, people_secret: Option<Secret>) -> Access {
    let bootstrap_file = settings.data.dir.join(BOOTSTRAP_FILE);
    let break_glass_file = break_glass_file(settings);
    let is_by_two = settings.admin.approvals == Requirement::Required;
    let approvers_are_people = settings.admin.approvers == Approvers::People;
    match settings.admin.authentication {
        Requirement::Required => Access::required(AccessOptions {
            bootstrap_file,
            break_glass_file,
            is_by_two,
            approvers_are_people,
            issuers,
            people_secret,
        }),
        Requirement::Off => Access::open(),
    }
}

/// The hosts that requests to the admin port may name.
pub(super) fn allowed_hosts(settings: &Settings) -> AllowedHosts {
    AllowedHosts::new(settings.admin.listen, other_hosts(settings))
}

/// The origins of the scheme's own web pages.
pub(super) fn allowed_origins(settings: &Settings) -> AllowedOrigins {
    AllowedOrigins::new(settings.admin.allowed_origins.iter().cloned())
}

/// The hosts that requests to the metrics port may name. Monitoring systems use any address that they discover.
pub(super) fn metrics_hosts(settings: &Settings) -> AllowedHosts {
    AllowedHosts::any_address(other_hosts(settings))
}

fn other_hosts(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.admin.allowed_hosts.iter().map(String::as_str)
}

/// The configured load balancers, if there are any.
pub(super) fn proxy_protocol(settings: &Settings) -> Option<ProxyProtocol> {
    let from = settings.fspiop.proxy_protocol_from.clone();
    (!from.is_empty()).then(|| ProxyProtocol {
        from,
        header_timeout: settings.tls.handshake_deadline_ms,
        counts: Arc::default(),
    })
}

/// Writes the metric of the load balancers, if there are any.
pub(super) fn write_proxy_counts(counts: Option<&ProxyCounts>, text: &mut String) {
    let Some(counts) = counts else { return };
    let name = "upesi_proxy_protocol_refused";
    head(
        text,
        name,
        "counter",
        "Connections closed because they had no PROXY header of a listed load balancer, by reason",
    );
    for refusal in ProxyRefusal::ALL {
        let (count, reason) = (counts.of(refusal), refusal.name());
        // Writing into a String does not fail.
        let _ = writeln!(text, "{name}_total{{reason=\"{reason}\"}} {count}");
    }
}

/// Storage of a node's copies.
pub(super) fn copies(settings: &Settings, disk: Arc<dyn Disk>, store: &StoreFollower) -> Copies {
    let engine = engine(settings);
    let options = Options {
        segment_bytes: engine.segment_bytes,
        durability: engine.durability,
        identity: RandomState::new().build_hasher().finish(),
        ..Options::default()
    };
    Copies {
        journal: CopyOf { disk, options },
        store: CopyOf { disk: store.disk(), options: store.journal_options() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests with small settings are also valid for the shipped hub.
    #[test]
    fn folds_per_snapshot_do_not_depend_on_settings() {
        let shipped = EngineOptions::new("");
        assert_eq!(shipped.snapshot_every_records / shipped.fold_every_records, FOLDS_PER_SNAPSHOT);
        for (snapshots, folds) in [(1_000, 62), (16_000, 1_000), (262_144, 16_384), (1_000_000, 16_384)] {
            let mut settings = upesi_settings::load(&upesi_settings::Sources::default()).unwrap().settings;
            settings.data.snapshot_every_records = snapshots;
            let options = engine(&settings);
            assert_eq!((options.snapshot_every_records, options.fold_every_records), (snapshots, folds));
        }
    }

    /// Each node of a cluster exports transfers from its own archive before it removes them.
    #[test]
    fn nodes_with_an_export_defer_removals() {
        let mut settings = upesi_settings::load(&upesi_settings::Sources::default()).unwrap().settings;
        for (log, directory, defers) in [
            (ClusterLog::None, "", false),
            (ClusterLog::None, "out", false),
            (ClusterLog::Kafka, "", false),
            (ClusterLog::Kafka, "out", true),
        ] {
            settings.cluster.log = log;
            settings.archive.export_dir = (!directory.is_empty()).then(|| directory.into());
            assert_eq!(engine(&settings).defers_removals, defers, "{log:?} {directory:?}");
        }
    }

    fn settings_of(flags: &[(&str, &str)]) -> Settings {
        let flags =
            flags.iter().map(|(key, value)| ("test".to_owned(), (*key).to_owned(), (*value).to_owned()));
        let sources = upesi_settings::Sources { flags: flags.collect(), ..Default::default() };
        upesi_settings::load(&sources).unwrap().settings
    }

    #[test]
    fn dfsp_without_its_own_rate_limit_has_the_general_limit() {
        let settings = settings_of(&[
            ("admission.lookups_per_dfsp", "1"),
            ("admission.lookup_misses_per_dfsp", "2"),
            ("admission.registrations_per_dfsp", "3"),
            ("admission.signature_faults_per_dfsp", "4"),
            ("dfsp.GreenBank.lookups_per_s", "50"),
            ("dfsp.GreenBank.lookup_misses_per_s", "0"),
            ("dfsp.blue.registrations_per_s", "7"),
            ("dfsp.blue.signature_faults_per_s", "8"),
        ]);
        let RateSettings { limits, exceptions, .. } = rates(&settings);
        assert_eq!(limits, RateLimits { lookups: 1, misses: 2, registrations: 3, signature_faults: 4 });
        assert_eq!(exceptions["greenbank"], RateLimits { lookups: 50, misses: 0, ..limits });
        assert_eq!(exceptions["blue"], RateLimits { registrations: 7, signature_faults: 8, ..limits });
        assert_eq!(exceptions.len(), 2);
    }

    /// The catalogue has the defaults. The parts, whose own tests use their own defaults, have the same ones.
    #[test]
    fn options_have_the_defaults_of_the_catalogue() {
        let settings = upesi_settings::load(&upesi_settings::Sources::default()).unwrap().settings;
        let outbound = Outbound::default();
        let same = |set: &dyn std::fmt::Debug, own: &dyn std::fmt::Debug| {
            assert_eq!(format!("{set:#?}"), format!("{own:#?}"));
        };
        same(&CourierConfig { seed: 0, ..courier(&settings, &outbound, None) }, &CourierConfig::default());
        same(&relay(&settings), &RelayConfig::default());
        same(&directory(&settings, &outbound, None), &DirectoryConfig::default());
        same(&gateway(&settings), &GatewayConfig::default());
        same(&store(&settings), &StoreOptions::default());
        let mut kept = settings.clone();
        kept.quotes.persist = true;
        same(&quoting(&settings), &QuotingConfig::default());
        same(&quoting(&kept).keep, &Some(Retention::default()));
        let (set, own) = (engine(&settings), EngineOptions::new(&settings.data.dir));
        // The ledger's stories show the confirmation, which is off by default.
        same(&set.ledger, &LedgerConfig { payee_confirmation: false, ..own.ledger.clone() });
        same(&set.archive, &own.archive);
        same(&set.durability, &own.durability);
        same(&(set.tick_interval, set.clock_jump_max), &(own.tick_interval, own.clock_jump_max));
        let numbers = |options: &EngineOptions| {
            let sizes = [
                options.queue_commands_max,
                options.batch_commands_max,
                options.batch_bytes_max,
                options.overlap_bytes_min,
                options.finished_transfers_max,
            ];
            let counts = [options.segment_bytes, options.fold_every_records, options.snapshot_every_records];
            (sizes, counts, options.keep_segments)
        };
        assert_eq!(numbers(&set), numbers(&own));
        // Other servers, such as the simulators', accept all connections from one address.
        let anonymous_per_address_max = settings.fspiop.strangers_per_address_max;
        same(
            &limits(&settings, settings.fspiop.connections_max),
            &Limits { anonymous_per_address_max, ..Limits::default() },
        );
    }
}
