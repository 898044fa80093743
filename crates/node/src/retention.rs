//! Removes old transfers: archive divisions older than `archive.keep_days`, which are exported first if an export is
//! configured. The archivist then deletes the journal segments whose transfers have been removed.
//!
//! Transfers of a window that is not settled are retained regardless of their age, because they are the details of its
//! net.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use upesi_engine::{Clock, EngineHandle};
use upesi_ledger::Ledger;
use upesi_offline::export::{Format, export_division};
use upesi_offline::names::Names;
use upesi_tables::archive::{Archive, Division};
use upesi_types::Timestamp;

/// Interval between two checks.
const INTERVAL: Duration = Duration::from_secs(3600);
/// Interval between two checks on a follower.
const INTERVAL_OF_FOLLOWER: Duration = Duration::from_secs(60);
/// Time limit of the archivist for closing a division.
const DIVIDED_WITHIN: Duration = Duration::from_secs(10);
const DAY_MS: i64 = 86_400_000;
/// A division spans this share of the retention time, so that transfers are removed at most this much late.
const SHARE: i64 = 8;

/// Retention settings.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// Days after which a finished transfer may be removed.
    pub keep_days: u64,
    /// Directory that receives the exports of divisions before their removal.
    pub export_dir: Option<PathBuf>,
    /// The format of these exports.
    pub export_format: Format,
    /// Whether other nodes keep the same transfers. Then divisions end, and transfers are removed, at records.
    pub is_shared: bool,
}

impl Policy {
    fn keep_ms(&self) -> i64 {
        i64::try_from(self.keep_days).unwrap_or(i64::MAX).saturating_mul(DAY_MS)
    }
}

/// The retention thread, which ends with this value.
pub(super) struct Retention {
    stopping: Arc<AtomicBool>,
    held_s: Arc<AtomicU64>,
    failure: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Retention {
    /// Starts the retention of a leader or a standalone hub. `before` is the retention of the same node as a follower.
    pub fn start(
        policy: Policy,
        handle: EngineHandle,
        clock: Arc<dyn Clock>,
        before: Option<Self>,
    ) -> std::io::Result<Self> {
        if let Some(before) = &before {
            before.stopping.store(true, Ordering::Release);
        }
        let mut before = before;
        Self::run(INTERVAL, move || {
            // Two exports of one division would write the same files.
            drop(before.take());
            attempt(&policy, &handle, clock.now())
        })
    }

    /// Starts the retention of a follower. Transfers that the leader removed leave the archive of this node after their
    /// export here.
    pub fn follow(policy: Policy, handle: EngineHandle) -> std::io::Result<Self> {
        Self::run(INTERVAL_OF_FOLLOWER, move || {
            settle_removals(&policy, &handle)?;
            Ok(Pass::default())
        })
    }

    fn run(
        interval: Duration,
        mut attempt: impl FnMut() -> Result<Pass, String> + Send + 'static,
    ) -> std::io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let should_stop = Arc::clone(&stopping);
        let held_s = Arc::new(AtomicU64::new(0));
        let held = Arc::clone(&held_s);
        let failure = Arc::new(Mutex::new(None));
        let last_failure = Arc::clone(&failure);
        let work = move || {
            while !should_stop.load(Ordering::Acquire) {
                let attempted = attempt();
                *last_failure.lock().unwrap_or_else(PoisonError::into_inner) =
                    attempted.as_ref().err().cloned();
                match attempted {
                    Ok(pass) => {
                        held.store(pass.held_s, Ordering::Relaxed);
                        if pass.held_s > 0 {
                            let days = pass.held_s / 86_400;
                            tracing::warn!(
                                days,
                                "old transfers are retained: their settlement window is not settled"
                            );
                        }
                    }
                    Err(error) => tracing::warn!(
                        %error,
                        "cannot remove old transfers; the next attempt is within an hour"
                    ),
                }
                // Checked again: a library may have parked this thread during the attempt, and used up the wake-up of
                // the stop.
                if !should_stop.load(Ordering::Acquire) {
                    thread::park_timeout(interval);
                }
            }
        };
        let thread = thread::Builder::new().name("upesi-retention".to_owned()).spawn(work)?;
        Ok(Self { stopping, held_s, failure, thread: Some(thread) })
    }

    /// Delay in the removal of the oldest transfers, in seconds, because their window is not settled.
    pub fn held_s(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.held_s)
    }

    /// The reason why the last attempt failed; `None` if it succeeded, or if none has ended yet.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks now.
    pub fn look(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if let (Err(panic), false) = (thread.join(), thread::panicking()) {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Exports the transfers that the journal records as removed, and removes them from the archive.
fn settle_removals(policy: &Policy, handle: &EngineHandle) -> Result<(), String> {
    let Some(archive) = handle.archive() else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let removed_to = runtime.block_on(handle.read(Ledger::removed_to)).map_err(|error| error.to_string())?;
    let names = || {
        let asked = handle.read(|ledger: &Ledger| Names::of(ledger));
        runtime.block_on(asked).map_err(|error| error.to_string())
    };
    settle(policy, &*archive, removed_to, &names).map(|_| ())
}

/// Exports the divisions that the journal records as removed up to a record, and removes them. Returns their number.
fn settle(
    policy: &Policy,
    archive: &dyn Archive,
    removed_to: u64,
    names: &dyn Fn() -> Result<Names, String>,
) -> Result<u64, String> {
    let mut left = 0;
    for division in archive.divisions() {
        if !division.is_closed || division.watermark > removed_to {
            break;
        }
        if let Some(directory) = &policy.export_dir {
            export_division(archive, &division, &names()?, directory, policy.export_format)?;
        }
        left += archive.remove_to(division.watermark).map_err(|error| error.to_string())?;
    }
    Ok(left)
}

fn attempt(policy: &Policy, handle: &EngineHandle, now: Timestamp) -> Result<Pass, String> {
    settle_removals(policy, handle)?;
    let Some(archive) = handle.archive() else { return Ok(Pass::default()) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let hub = Hub {
        names: &|| {
            let asked = handle.read(|ledger: &Ledger| Names::of(ledger));
            runtime.block_on(asked).map_err(|error| error.to_string())
        },
        divide: &|| {
            if !policy.is_shared {
                return archive.divide().map_err(|error| error.to_string());
            }
            let before = archive.divisions().len();
            runtime.block_on(handle.divide_archive()).map_err(|error| error.to_string())?;
            // If the archivist has no space for it, the next check is within the hour.
            let until = Instant::now() + DIVIDED_WITHIN;
            while archive.divisions().len() == before && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        },
        ends: &|seq| {
            if !policy.is_shared {
                return Ok(true);
            }
            let asked = handle.read(move |ledger: &Ledger| ledger.division_up_to(seq) == Some(seq));
            runtime.block_on(asked).map_err(|error| error.to_string())
        },
        unsettled_since: &|| {
            runtime.block_on(handle.read(Ledger::unsettled_since)).map_err(|error| error.to_string())
        },
        remove: &|to_seq| runtime.block_on(handle.remove_finished(to_seq)).map_err(|error| error.to_string()),
    };
    pass(policy, &*archive, now, &hub)
}

/// The operations of the hub that a pass needs.
pub(super) struct Hub<'a> {
    /// Names of participants, for exports.
    pub names: &'a dyn Fn() -> Result<Names, String>,
    /// Closes the growing division; see [`EngineHandle::divide_archive`].
    pub divide: &'a dyn Fn() -> Result<(), String>,
    /// Whether a division ends with this record on every node.
    pub ends: &'a dyn Fn(u64) -> Result<bool, String>,
    /// Opening time of the oldest window that is not settled; see [`Ledger::unsettled_since`].
    pub unsettled_since: &'a dyn Fn() -> Result<Option<Timestamp>, String>,
    /// Removes finished transfers up to a record; durable when it returns. See [`EngineHandle::remove_finished`].
    pub remove: &'a dyn Fn(u64) -> Result<u64, String>,
}

/// Result of a pass over the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pass {
    /// Number of removed divisions.
    pub left: u64,
    /// Delay in the removal of the oldest division because of its windows, in seconds; 0 without a delay.
    pub held_s: u64,
}

/// One pass over the archive.
pub(super) fn pass(
    policy: &Policy,
    archive: &dyn Archive,
    now: Timestamp,
    hub: &Hub<'_>,
) -> Result<Pass, String> {
    let divisions = archive.divisions();
    let closed: u64 = divisions.iter().filter(|it| it.is_closed).map(|it| it.transfers_estimate).sum();
    let is_empty = archive.stats().transfers_estimate <= closed;
    if !is_empty && is_old_enough_to_close(policy, &divisions, now) {
        (hub.divide)()?;
    }
    let divisions = archive.divisions();
    let unsettled_since = (hub.unsettled_since)()?;
    let is_settled = |end: Timestamp| unsettled_since.is_none_or(|since| end < since);
    let late_ms = |division: &Division| {
        let end = division.last_time.filter(|_| division.is_closed)?;
        u64::try_from(now.ms_since(end.plus_ms(policy.keep_ms()))).ok().filter(|late| *late > 0)
    };
    let held = divisions.iter().find(|division| !division.last_time.is_none_or(is_settled)).and_then(late_ms);
    let old = divisions
        .iter()
        .take_while(|division| late_ms(division).is_some() && division.last_time.is_some_and(is_settled));
    let old = old.map(|division| Ok((division, (hub.ends)(division.watermark)?)));
    let old = old.collect::<Result<Vec<_>, String>>()?;
    let leaving = old.iter().rposition(|(_, ends)| *ends).map_or(0, |last| last + 1);
    let mut left = 0;
    for (division, ends) in &old[..leaving] {
        if let Some(directory) = &policy.export_dir {
            export_division(archive, division, &(hub.names)()?, directory, policy.export_format)?;
        }
        if !ends {
            continue;
        }
        let removed = (hub.remove)(division.watermark)?;
        if removed == 0 {
            break;
        }
        tracing::info!(last = division.watermark, "old transfers were removed from the archive");
        left += removed;
    }
    Ok(Pass { left, held_s: held.map_or(0, |late| late.div_ceil(1_000)) })
}

/// Whether the growing division is old enough. It began where the previous one ended; the first one is closed
/// immediately.
fn is_old_enough_to_close(policy: &Policy, divisions: &[Division], now: Timestamp) -> bool {
    let Some((_, closed)) = divisions.split_last() else { return false };
    let began = closed.last().and_then(|division| division.last_time).unwrap_or(Timestamp::EPOCH);
    began.plus_ms((policy.keep_ms() / SHARE).max(DAY_MS)) < now
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_ledger::LedgerConfig;
    use upesi_tables::archive::{ArchiveOptions, FjallArchive};
    use upesi_types::TransferId;

    const DAY: i64 = DAY_MS;

    fn wait_until(is_done: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !is_done() {
            assert!(Instant::now() < until, "it did not happen");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn failed_attempt_is_reported_until_next_succeeds() {
        let mut results = [Err("the export failed".to_owned()), Ok(Pass::default())].into_iter();
        let attempt = move || results.next().unwrap_or(Ok(Pass::default()));
        let retention = Retention::run(INTERVAL, attempt).unwrap();
        wait_until(|| retention.failure().as_deref() == Some("the export failed"));
        retention.look();
        wait_until(|| retention.failure().is_none());
    }

    /// A pass over an archive without a hub, which would first record the removals.
    fn look(policy: &Policy, archive: &FjallArchive, day: i64) -> Result<u64, String> {
        look_with(policy, archive, day, None).map(|pass| pass.left)
    }

    /// Makes a pass while a window that was opened on some day is not settled.
    fn look_with(
        policy: &Policy,
        archive: &FjallArchive,
        day: i64,
        unsettled_since: Option<i64>,
    ) -> Result<Pass, String> {
        let hub = Hub {
            unsettled_since: &|| Ok(unsettled_since.map(|day| Timestamp::from_ms(day * DAY))),
            names: &|| Ok(Names::of(&Ledger::new(LedgerConfig::default()))),
            divide: &|| archive.divide().map_err(|error| error.to_string()),
            ends: &|_| Ok(true),
            remove: &|to_seq| archive.remove_to(to_seq).map_err(|error| error.to_string()),
        };
        pass(policy, archive, Timestamp::from_ms(day * DAY), &hub)
    }

    fn apply(archive: &FjallArchive, seq: u64, day: i64) {
        let id = TransferId::from_random_bytes(u128::from(seq).to_be_bytes());
        archive.apply_at(&[(id, vec![0; 10])], seq, Timestamp::from_ms(day * DAY)).unwrap();
    }

    #[test]
    fn divisions_delay_removal_by_at_most_a_share_of_the_retention() {
        let directory = tempfile::tempdir().unwrap();
        let archive = FjallArchive::open(directory.path(), &ArchiveOptions::default()).unwrap();
        let policy = Policy { keep_days: 16, export_dir: None, export_format: Format::Csv, is_shared: false };
        let mut first = Vec::new();
        for day in 1..=40 {
            apply(&archive, day as u64, day);
            look(&policy, &archive, day).unwrap();
            first.push(archive.first_seq() as i64);
        }
        for (index, first) in first.iter().enumerate() {
            let day = index as i64 + 1;
            assert!(*first <= (day - 16).max(1), "on day {day} the oldest transfer finished on day {first}");
            assert!(*first >= day - 16 - 4, "on day {day} transfers of day {first} still exist");
        }
        assert_eq!(archive.watermark_applied(), 40);
    }

    #[test]
    fn transfers_of_an_unsettled_window_are_retained() {
        let directory = tempfile::tempdir().unwrap();
        let archive = FjallArchive::open(directory.path(), &ArchiveOptions::default()).unwrap();
        for day in [1, 2, 3] {
            apply(&archive, day as u64, day);
            archive.divide().unwrap();
        }
        apply(&archive, 4, 4);
        let policy = Policy { keep_days: 10, export_dir: None, export_format: Format::Csv, is_shared: false };
        // The window that was opened on day 2 contains transfers that finished on that day.
        let held = |days: i64| Pass { left: 0, held_s: (days * DAY / 1_000) as u64 };
        assert_eq!(look_with(&policy, &archive, 11, Some(1)).unwrap(), held(0));
        assert_eq!(look_with(&policy, &archive, 12, Some(1)).unwrap(), held(1));
        assert_eq!(look_with(&policy, &archive, 40, Some(2)).unwrap(), Pass { left: 1, ..held(28) });
        assert_eq!(archive.first_seq(), 2);
        assert_eq!(look_with(&policy, &archive, 100, Some(2)).unwrap(), held(88));
        assert_eq!(look_with(&policy, &archive, 100, None).unwrap(), Pass { left: 3, held_s: 0 });
    }

    #[test]
    fn division_stays_if_its_removal_cannot_be_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let archive = FjallArchive::open(directory.path(), &ArchiveOptions::default()).unwrap();
        apply(&archive, 1, 1);
        archive.divide().unwrap();
        apply(&archive, 2, 2);
        let policy = Policy { keep_days: 1, export_dir: None, export_format: Format::Csv, is_shared: false };
        let hub = Hub {
            names: &|| unreachable!("nothing is exported"),
            divide: &|| archive.divide().map_err(|error| error.to_string()),
            ends: &|_| Ok(true),
            unsettled_since: &|| Ok(None),
            remove: &|to_seq| Err(format!("{to_seq}: the hub's disk is full")),
        };
        let refused = pass(&policy, &archive, Timestamp::from_ms(100 * DAY), &hub).unwrap_err();
        assert_eq!(refused, "1: the hub's disk is full");
        assert_eq!(archive.first_seq(), 1);
    }

    #[test]
    fn division_stays_if_its_export_fails() {
        let directory = tempfile::tempdir().unwrap();
        let archive =
            FjallArchive::open(directory.path().join("archive"), &ArchiveOptions::default()).unwrap();
        apply(&archive, 1, 1);
        archive.divide().unwrap();
        apply(&archive, 2, 2);
        let export_dir = Some(directory.path().join("export"));
        let policy = Policy { keep_days: 1, export_dir, export_format: Format::Parquet, is_shared: false };
        // The stored bytes are not a transfer.
        look(&policy, &archive, 100).unwrap_err();
        assert_eq!(archive.first_seq(), 1);
        let policy = Policy { export_dir: None, ..policy };
        assert_eq!(look(&policy, &archive, 100).unwrap(), 2);
    }

    /// The leader recorded a removal. Its exports are only on its own disk.
    #[test]
    fn follower_removes_transfers_after_its_own_export() {
        let directory = tempfile::tempdir().unwrap();
        let archive =
            FjallArchive::open(directory.path().join("archive"), &ArchiveOptions::default()).unwrap();
        for seq in 1..=3 {
            apply(&archive, seq, seq as i64);
            archive.divide().unwrap();
        }
        let names = || Ok(Names::of(&Ledger::new(LedgerConfig::default())));
        let export_dir = Some(directory.path().join("export"));
        let policy = Policy { keep_days: 1, export_dir, export_format: Format::Csv, is_shared: true };
        // The stored bytes are not a transfer, so the export fails.
        settle(&policy, &archive, 2, &names).unwrap_err();
        assert_eq!(archive.first_seq(), 1, "nothing is removed without an export");
        assert_eq!(settle(&policy, &archive, 0, &names), Ok(0), "nothing was removed");
        let policy = Policy { export_dir: None, ..policy };
        assert_eq!(settle(&policy, &archive, 2, &names), Ok(2));
        assert_eq!(archive.first_seq(), 3);
    }
}
