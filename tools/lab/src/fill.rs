//! `upesi lab fill`: creates a data directory with any number of finished transfers, through the engine and without
//! HTTP.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use upesi_engine::{Engine, EngineMetrics, EngineOptions};
use upesi_process::exit::{Exit, Failure, Outcome};

use crate::isolated::filler::{Filler, Filling, Payloads};
use crate::isolated::flow::start_delivering;

/// Arguments of `upesi lab fill`.
#[derive(Args, Clone, Debug)]
pub struct FillArguments {
    /// The data directory. New transfers are added to existing ones.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Number of transfers to prepare and fulfil.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub transfers: u64,
    /// Number of DFSPs, named dfsp-1, dfsp-2 and so on.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: u64,
    /// Keep all journal segments (about 2.5 KB per transfer), instead of only the segments that a restart needs.
    #[arg(long)]
    pub keep_segments: bool,
    /// Do not write the requests' headers and bodies to the journal; the archive is the same.
    #[arg(long)]
    pub no_payloads: bool,
}

impl FillArguments {
    pub fn new(data: PathBuf) -> Self {
        Self { data, transfers: 1_000_000, dfsps: 8, keep_segments: false, no_payloads: false }
    }
}

/// Fills the directory, lets the archive finish its maintenance, and reports the duration of each.
pub fn run(arguments: &FillArguments) -> Outcome {
    let payloads = if arguments.no_payloads { Payloads::None } else { Payloads::AsInRuns };
    let options =
        EngineOptions { keep_segments: arguments.keep_segments, ..EngineOptions::new(&arguments.data) };
    let hub = FillingEngine::start(options, arguments.dfsps, payloads)?;
    let started = Instant::now();
    let filled = hub.fill(0, arguments.transfers);
    let took = started.elapsed();
    let archive = hub.filler.handle.archive();
    // Leaves a snapshot, with all transfers archived.
    hub.engine.shutdown();
    filled?;
    // Filling at full speed leaves maintenance to do. The next hub would do it during its measurement.
    let ended = Instant::now();
    if let Some(archive) = archive {
        archive.finish_upkeep().map_err(|error| Failure::new(Exit::InputOutput, error))?;
    }
    let (rate, upkeep) = (rate_per_s(arguments.transfers, took), ended.elapsed());
    let _ = writeln!(
        std::io::stdout().lock(),
        "{} transfers prepared and fulfilled in {} s: {rate}/s\narchive maintenance took another {} s",
        arguments.transfers,
        seconds(took),
        seconds(upkeep)
    );
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// Rate per second, rounded down.
pub(crate) fn rate_per_s(count: u64, took: Duration) -> u64 {
    u64::try_from(u128::from(count) * 1000 / took.as_millis().max(1)).unwrap_or(u64::MAX)
}

pub(crate) struct FillingEngine {
    pub(crate) engine: Engine,
    pub(crate) filler: Filler,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl FillingEngine {
    /// Opens the directory and onboards the DFSPs, which may have been done before.
    pub(crate) fn start(options: EngineOptions, dfsps: u64, payloads: Payloads) -> Result<Self, Failure> {
        if !(2..=1_000).contains(&dfsps) {
            return Err(Failure::new(Exit::Usage, "give 2 to 1000 DFSPs"));
        }
        let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::InputOutput, error);
        let (engine, handle) =
            start_delivering(options, EngineMetrics::default()).map_err(|error| failed(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let filler = Filler::new(handle, dfsps, payloads)?;
        runtime.block_on(filler.onboard())?;
        Ok(Self { engine, filler, runtime })
    }

    /// Prepares and fulfils the transfers of these numbers.
    pub(crate) fn fill(&self, first: u64, transfers: u64) -> Result<Filling, Failure> {
        self.runtime.block_on(self.filler.fill(first, transfers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_directory_passes_the_audit_and_can_be_filled_again() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let arguments =
            FillArguments { transfers: 300, dfsps: 3, keep_segments: true, ..FillArguments::new(data) };
        run(&arguments).unwrap();
        run(&arguments).unwrap();
        let (engine, handle) = Engine::start(
            EngineOptions::new(&arguments.data),
            EngineMetrics::default(),
            Box::new(upesi_engine::NoEffects),
        )
        .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (committed, owed, findings) = runtime
            .block_on(handle.read(|ledger| {
                (ledger.totals().committed, ledger.outbox().len(), upesi_ledger::audit::check(ledger))
            }))
            .unwrap();
        assert_eq!((committed, owed, findings), (600, 0, vec![]));
        engine.shutdown();
    }

    /// Without a snapshot in between, the replay after a crash contains both transfers with this id.
    #[test]
    fn id_of_a_removed_transfer_can_be_used_again_across_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
        let options = EngineOptions {
            fold_every_records: 8,
            snapshot_every_records: u64::MAX,
            ..EngineOptions::new(&data)
        };
        let hub = FillingEngine::start(options, 2, Payloads::None).unwrap();
        hub.fill(0, 20).unwrap();
        let prepare = hub.filler.prepare(0);
        let id = prepare.id;
        let archive = hub.filler.handle.archive().unwrap();
        let is_archived = || {
            let is_in_memory = move |ledger: &upesi_ledger::Ledger| ledger.transfer(id).is_some();
            let is_in_memory = hub.runtime.block_on(hub.filler.handle.read(is_in_memory)).unwrap();
            !is_in_memory && archive.get(&id).unwrap().is_some()
        };
        // Archived transfers leave memory only while commands are processed.
        let mut first = 20;
        while !is_archived() {
            hub.fill(first, 20).unwrap();
            first += 20;
        }
        archive.divide().unwrap();
        let growing = archive.divisions().last().map_or(1, |division| division.first_seq);
        assert_eq!(hub.runtime.block_on(hub.filler.handle.remove_finished(growing - 1)), Ok(1));
        assert!(archive.get(&id).unwrap().is_none());
        let again = upesi_ledger::Command::Prepare(prepare);
        let reply = hub.runtime.block_on(hub.filler.handle.submit(again, upesi_engine::Payload::default()));
        assert!(matches!(reply, Ok(upesi_ledger::Reply::Accepted)), "{reply:?}");
        // A backup equals the remains of a crash.
        let backup = upesi_offline::backup::BackupArguments { data, to: copy.clone(), json: false };
        upesi_offline::backup::backup(&backup).unwrap();
        hub.engine.shutdown();

        let data = copy.join("data");
        for with_archive in [true, false] {
            let directory = data.clone();
            let options = upesi_offline::audit::AuditOptions { directory, allow_live: false, with_archive };
            let report = upesi_offline::audit::audit(&options).unwrap();
            assert!(report.is_sound(), "{:#?}", report.findings);
        }
        let effects = Box::new(upesi_engine::NoEffects);
        let (engine, handle) =
            Engine::start(EngineOptions::new(&data), EngineMetrics::default(), effects).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let is_reserved = move |ledger: &upesi_ledger::Ledger| {
            ledger.transfer(id).is_some_and(|found| found.state == upesi_ledger::TransferState::Reserved)
        };
        assert!(runtime.block_on(handle.read(is_reserved)).unwrap());
        engine.shutdown();
    }
}
