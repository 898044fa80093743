//! The engine's metrics.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

mod response_times;
mod share;

pub use response_times::{
    Counts, DfspSummary, KindSummary, PairSummary, RequestKind, Response, ResponseOutcome, ResponseTimes,
};
pub use share::ShareHistogram;

/// Buckets of stage durations, in seconds.
const STAGE_SECONDS: [f64; 12] =
    [0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 1.0];
/// Buckets of Mojaloop's stage durations, in seconds, so that Mojaloop's dashboards work.
pub const MOJALOOP_SECONDS: [f64; 7] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0];
/// Buckets of background work, in seconds: passing transfers to the archive, writing a snapshot.
const BACKGROUND_SECONDS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Buckets of batch sizes, in commands.
const BATCH_COMMANDS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0, 1024.0, 4096.0];

/// The engine's metrics. Cheap to clone; shared with the component that exports them.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    pub commands: Counter,
    /// Commands rejected because the queue was full.
    pub refused_busy: Counter,
    /// Commands rejected because the disk was full.
    pub refused_full: Counter,
    /// Time that the first command of each turn of the engine had waited. Other commands of the turn waited less.
    pub wait_seconds: Histogram,
    /// Commands per batch.
    pub batch_commands: Histogram,
    /// Duration of deciding a batch.
    pub decide_seconds: Histogram,
    /// Bytes appended to the journal.
    pub journal_bytes: Counter,
    /// Time that a cluster's log took to accept a batch, measured by the leader.
    pub log_accept_seconds: Histogram,
    /// Duration of the write of a batch.
    pub journal_write_seconds: Histogram,
    /// Duration of the sync of a batch.
    pub journal_sync_seconds: Histogram,
    /// Commands in the queue.
    pub queue_depth: Gauge,
    pub transfers_reserved: Gauge,
    /// Finished transfers that wait in memory for the archive.
    pub transfers_finished_in_memory: Gauge,
    /// Transfers committed since the ledger began.
    pub transfers_committed: Gauge,
    /// Transfers aborted since the ledger began, including expired ones.
    pub transfers_aborted: Gauge,
    /// Transfers expired since the ledger began.
    pub transfers_expired: Gauge,
    /// Prepares rejected since the ledger began.
    pub prepares_refused: Gauge,
    /// FX transfers that wait for their FXP or their transfer.
    pub fx_transfers_live: Gauge,
    /// FX transfers committed since the ledger began.
    pub fx_transfers_committed: Gauge,
    /// FX transfers aborted since the ledger began, including expired ones.
    pub fx_transfers_aborted: Gauge,
    /// FX transfers expired since the ledger began.
    pub fx_transfers_expired: Gauge,
    /// FX transfers rejected since the ledger began.
    pub fx_transfers_refused: Gauge,
    /// Bulk transfers that are not final.
    pub bulks_live: Gauge,
    /// Bulk transfers with a committed item that ended since the ledger began.
    pub bulks_completed: Gauge,
    /// Bulk transfers without a committed item that ended since the ledger began.
    pub bulks_rejected: Gauge,
    /// Bulk transfers rejected as a whole since the ledger began.
    pub bulks_refused: Gauge,
    /// Items of bulk transfers since the ledger began.
    pub bulk_items: Gauge,
    /// Items of bulk transfers committed since the ledger began.
    pub bulk_items_committed: Gauge,
    /// Results in payees' answers that named no open item of their bulk transfer, since the ledger began.
    pub bulk_results_ignored: Gauge,
    /// Bytes that bulk transfers hold in memory until their requests are sent to the payees.
    pub bulk_bytes: Gauge,
    /// Fees that committed transfers owe, since the ledger began.
    pub fees_charged: Gauge,
    /// Fees that applied to committed transfers but could not be charged, since the ledger began.
    pub fees_not_charged: Gauge,
    /// Callbacks not yet delivered, including parked ones.
    pub callbacks_undelivered: Gauge,
    pub callbacks_parked: Gauge,
    /// Jump of the wall clock relative to the hub's time, negative if it jumped back; 0 if it has not jumped.
    pub clock_jump_seconds: Gauge<f64, AtomicU64>,
    /// How far the journal's time is ahead of the hub's time; 0 if it is not ahead.
    pub clock_ahead_seconds: Gauge<f64, AtomicU64>,
    /// Last journal sequence number.
    pub journal_seq: Gauge,
    /// Last journal sequence number that the archivist applied.
    pub archived_seq: Gauge,
    /// Duration of passing finished transfers to the archive.
    pub archive_apply_seconds: Histogram,
    /// Duration of reading a transfer from the archive's tables; most queries need no such read.
    pub archive_read_seconds: Histogram,
    /// Duration of writing a snapshot, including the archive's sync before it.
    pub snapshot_seconds: Histogram,
    /// Size of the newest snapshot; 0 until one is written.
    pub snapshot_bytes: Gauge,
    /// Journal sequence number of the newest snapshot.
    pub snapshot_seq: Gauge,
    /// Duration from a prepare's arrival at the engine until it is durable, under Mojaloop's metric name.
    pub mojaloop_prepare: Histogram,
    /// Duration from a fulfil's arrival at the engine until it is durable, under Mojaloop's metric name.
    pub mojaloop_fulfil: Histogram,
    /// Duration from a transfer query's arrival at the engine until it is answered, under Mojaloop's metric name.
    pub mojaloop_get: Histogram,
    /// Duration of deciding a change of positions (prepare, fulfil, decline or expiry), under Mojaloop's metric name.
    pub mojaloop_position: ShareHistogram,
    pub response_times: ResponseTimes,
    /// Whether durations and batch sizes are observed; counts are always kept. Switched off only for measurements.
    pub records_metrics: bool,
}

impl EngineMetrics {
    /// Help text of `upesi_clock_jump_seconds`.
    pub const CLOCK_JUMP: &'static str = "Jump of the wall clock that the hub does not follow, in seconds";
    /// Help text of `upesi_clock_ahead_seconds`.
    pub const CLOCK_AHEAD: &'static str = "Lead of the journal's time over the clock, in seconds";

    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let stage = || Histogram::new(STAGE_SECONDS);
        let mojaloop = || Histogram::new(MOJALOOP_SECONDS);
        let metrics = Self {
            commands: Counter::default(),
            refused_busy: Counter::default(),
            refused_full: Counter::default(),
            wait_seconds: stage(),
            batch_commands: Histogram::new(BATCH_COMMANDS),
            decide_seconds: stage(),
            journal_bytes: Counter::default(),
            log_accept_seconds: stage(),
            journal_write_seconds: stage(),
            journal_sync_seconds: stage(),
            queue_depth: Gauge::default(),
            transfers_reserved: Gauge::default(),
            transfers_finished_in_memory: Gauge::default(),
            transfers_committed: Gauge::default(),
            transfers_aborted: Gauge::default(),
            transfers_expired: Gauge::default(),
            prepares_refused: Gauge::default(),
            fx_transfers_live: Gauge::default(),
            fx_transfers_committed: Gauge::default(),
            fx_transfers_aborted: Gauge::default(),
            fx_transfers_expired: Gauge::default(),
            fx_transfers_refused: Gauge::default(),
            bulks_live: Gauge::default(),
            bulks_completed: Gauge::default(),
            bulks_rejected: Gauge::default(),
            bulks_refused: Gauge::default(),
            bulk_items: Gauge::default(),
            bulk_items_committed: Gauge::default(),
            bulk_results_ignored: Gauge::default(),
            bulk_bytes: Gauge::default(),
            fees_charged: Gauge::default(),
            fees_not_charged: Gauge::default(),
            callbacks_undelivered: Gauge::default(),
            callbacks_parked: Gauge::default(),
            clock_jump_seconds: Gauge::default(),
            clock_ahead_seconds: Gauge::default(),
            journal_seq: Gauge::default(),
            archived_seq: Gauge::default(),
            archive_apply_seconds: Histogram::new(BACKGROUND_SECONDS),
            archive_read_seconds: stage(),
            snapshot_seconds: Histogram::new(BACKGROUND_SECONDS),
            snapshot_bytes: Gauge::default(),
            snapshot_seq: Gauge::default(),
            mojaloop_prepare: mojaloop(),
            mojaloop_fulfil: mojaloop(),
            mojaloop_get: mojaloop(),
            mojaloop_position: ShareHistogram::default(),
            response_times: ResponseTimes::default(),
            records_metrics: true,
        };
        metrics.register(registry);
        metrics
    }

    /// Registers the metrics of FX transfers, bulk transfers and fees.
    fn register_composed(&self, r: &mut Registry) {
        let m = self;
        for (name, help, gauge) in [
            ("upesi_conversions_live", "FX transfers in progress", &m.fx_transfers_live),
            ("upesi_conversions_committed", "Committed FX transfers", &m.fx_transfers_committed),
            ("upesi_conversions_aborted", "Aborted or expired FX transfers", &m.fx_transfers_aborted),
            ("upesi_conversions_expired", "Expired FX transfers", &m.fx_transfers_expired),
            ("upesi_conversions_refused", "Rejected FX transfers", &m.fx_transfers_refused),
            ("upesi_bulks_live", "Bulk transfers in progress", &m.bulks_live),
            ("upesi_bulks_completed", "Completed bulk transfers", &m.bulks_completed),
            ("upesi_bulks_rejected", "Bulk transfers rejected by their payee", &m.bulks_rejected),
            ("upesi_bulks_refused", "Bulk transfers rejected by the hub as a whole", &m.bulks_refused),
            ("upesi_bulk_items", "Items of bulk transfers", &m.bulk_items),
            ("upesi_bulk_items_committed", "Committed items of bulk transfers", &m.bulk_items_committed),
            (
                "upesi_bulk_results_ignored",
                "Results that name no open item of their bulk transfer",
                &m.bulk_results_ignored,
            ),
            (
                "upesi_bulk_bytes",
                "Memory used by bulk transfers that have not been sent to their payees yet",
                &m.bulk_bytes,
            ),
            ("upesi_fees_charged", "Charged interchange fees", &m.fees_charged),
            ("upesi_fees_not_charged", "Interchange fees that could not be charged", &m.fees_not_charged),
        ] {
            r.register(name, help, gauge.clone());
        }
    }

    fn register_archive(&self, registry: &mut Registry) {
        let m = self;
        let r = registry;
        r.register(
            "upesi_archive_apply_seconds",
            "Time to write a batch of finished transfers to the archive",
            m.archive_apply_seconds.clone(),
        );
        let read = "Time to read a transfer from the archive";
        r.register("upesi_archive_read_seconds", read, m.archive_read_seconds.clone());
        r.register("upesi_snapshot_seconds", "Time to write a snapshot", m.snapshot_seconds.clone());
        r.register("upesi_snapshot_bytes", "Size of the newest snapshot", m.snapshot_bytes.clone());
        r.register("upesi_snapshot_seq", "Last record in the newest snapshot", m.snapshot_seq.clone());
    }

    fn register(&self, registry: &mut Registry) {
        let m = self;
        let r = registry;
        r.register("upesi_engine_commands", "Processed commands", m.commands.clone());
        r.register(
            "upesi_engine_refused_busy",
            "Commands rejected because the queue was full",
            m.refused_busy.clone(),
        );
        r.register(
            "upesi_engine_refused_full",
            "Commands rejected because the disk was full",
            m.refused_full.clone(),
        );
        r.register(
            "upesi_engine_wait_seconds",
            "Time that the first command of a batch waited in the queue",
            m.wait_seconds.clone(),
        );
        r.register("upesi_engine_batch_commands", "Commands per batch", m.batch_commands.clone());
        r.register("upesi_engine_decide_seconds", "Time to decide a batch", m.decide_seconds.clone());
        r.register("upesi_journal_bytes", "Bytes appended to the journal", m.journal_bytes.clone());
        let of_cluster = "Time until the cluster's log accepted a batch, on the leader";
        r.register("upesi_log_accept_seconds", of_cluster, m.log_accept_seconds.clone());
        r.register(
            "upesi_journal_write_seconds",
            "Time to write a batch to the journal",
            m.journal_write_seconds.clone(),
        );
        r.register(
            "upesi_journal_sync_seconds",
            "Time to sync a batch to disk",
            m.journal_sync_seconds.clone(),
        );
        r.register("upesi_engine_queue_depth", "Commands in the queue", m.queue_depth.clone());
        r.register("upesi_transfers_reserved", "Reserved transfers", m.transfers_reserved.clone());
        let finished = "Finished transfers in memory that wait to be archived";
        r.register("upesi_transfers_finished_in_memory", finished, m.transfers_finished_in_memory.clone());
        r.register("upesi_transfers_committed", "Committed transfers", m.transfers_committed.clone());
        r.register("upesi_transfers_aborted", "Aborted or expired transfers", m.transfers_aborted.clone());
        r.register("upesi_transfers_expired", "Expired transfers", m.transfers_expired.clone());
        r.register("upesi_prepares_refused", "Rejected prepares", m.prepares_refused.clone());
        self.register_composed(r);
        r.register(
            "upesi_callbacks_undelivered",
            "Undelivered callbacks, including parked ones",
            m.callbacks_undelivered.clone(),
        );
        r.register(
            "upesi_callbacks_parked",
            "Parked callbacks, which an operator must redeliver",
            m.callbacks_parked.clone(),
        );
        r.register("upesi_clock_jump_seconds", Self::CLOCK_JUMP, m.clock_jump_seconds.clone());
        r.register("upesi_clock_ahead_seconds", Self::CLOCK_AHEAD, m.clock_ahead_seconds.clone());
        r.register("upesi_journal_seq", "Last record of the journal", m.journal_seq.clone());
        r.register("upesi_archived_seq", "Last archived record of the journal", m.archived_seq.clone());
        self.register_archive(r);
        for (name, handler, help, histogram) in [
            ("moja_cl_transfer_prepare", "prepare", "Time until a prepare is durable", &m.mojaloop_prepare),
            ("moja_cl_transfer_fulfil", "fulfil", "Time until a fulfil is durable", &m.mojaloop_fulfil),
            ("moja_cl_transfer_get", "get", "Time until a query is answered", &m.mojaloop_get),
        ] {
            of_handler(r, handler).register(name, help, histogram.clone());
        }
        let position = "Time to decide a change of positions, as a share of its batch";
        of_handler(r, "position").register(
            "moja_cl_transfer_position",
            position,
            m.mojaloop_position.clone(),
        );
    }
}

/// The part of the registry with the labels that Mojaloop's dashboards select by: the name of the Mojaloop process for
/// this work.
fn of_handler<'r>(registry: &'r mut Registry, handler: &str) -> &'r mut Registry {
    let labels = [("serviceName", format!("central-handler-{handler}")), ("success", "true".to_owned())];
    let labels = labels.map(|(name, value)| (Cow::Borrowed(name), Cow::Owned(value)));
    registry.sub_registry_with_labels(labels.into_iter())
}

impl Default for EngineMetrics {
    /// Metrics that are not exported.
    fn default() -> Self {
        Self::new(&mut Registry::default())
    }
}
