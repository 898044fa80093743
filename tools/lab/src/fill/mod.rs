//! `upesi lab fill`: a data directory with any number of finished transfers, made through the engine, without HTTP.

mod filler;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use upesi_engine::{
    DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, Participants,
};
use upesi_ledger::{CallbackKey, Command};

pub(crate) use filler::{Filler, Filling, Payloads, transfer_id};

use upesi_hub::exit::{Exit, Failure, Outcome};

/// Arguments of `upesi lab fill`.
#[derive(Args, Clone, Debug)]
pub struct FillArguments {
    /// The data directory; new transfers are added to what it holds.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// How many transfers to prepare and fulfil.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub transfers: u64,
    /// How many DFSPs, named dfsp-1, dfsp-2 and so on.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: u64,
    /// Keep all journal segments (about 2.5 KB per transfer) instead of only what a restart needs.
    #[arg(long)]
    pub keep_segments: bool,
    /// Leave the requests' headers and bodies out of the journal; the archive holds the same.
    #[arg(long)]
    pub no_payloads: bool,
}

impl FillArguments {
    /// The defaults, into a directory.
    pub fn new(data: PathBuf) -> Self {
        Self { data, transfers: 1_000_000, dfsps: 8, keep_segments: false, no_payloads: false }
    }
}

/// Fills the directory, lets the archive finish its housekeeping, and tells how long each took.
pub fn run(arguments: &FillArguments) -> Outcome {
    let payloads = if arguments.no_payloads { Payloads::None } else { Payloads::AsInRuns };
    let options =
        EngineOptions { keep_segments: arguments.keep_segments, ..EngineOptions::new(&arguments.data) };
    let hub = FillingEngine::start(options, arguments.dfsps, payloads)?;
    let started = Instant::now();
    let filled = hub.fill(0, arguments.transfers);
    let took = started.elapsed();
    let archive = hub.filler.handle.archive();
    // Leaves a snapshot behind, with everything archived.
    hub.engine.shutdown();
    filled?;
    // What filling at full speed leaves behind would be made up for by the next hub, under the load that it is measured
    // with.
    let ended = Instant::now();
    if let Some(archive) = archive {
        archive.finish_upkeep().map_err(|error| Failure::new(Exit::InputOutput, error))?;
    }
    let (rate, upkeep) = (rate_per_s(arguments.transfers, took), ended.elapsed());
    let _ = writeln!(
        std::io::stdout().lock(),
        "{} transfers prepared and fulfilled in {} s: {rate}/s\nthe archive put in order in {} s more",
        arguments.transfers,
        seconds(took),
        seconds(upkeep)
    );
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

/// How many per second, rounded down.
pub(crate) fn rate_per_s(count: u64, took: Duration) -> u64 {
    u64::try_from(u128::from(count) * 1000 / took.as_millis().max(1)).unwrap_or(u64::MAX)
}

/// An engine that is filled, and who fills it.
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
        let slot = Arc::new(OnceLock::new());
        let effects = Deliver { engine: Arc::clone(&slot), keys: Vec::new() };
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(effects))
            .map_err(|error| failed(&error))?;
        let _ = slot.set(handle.clone());
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

/// Reports every callback as delivered.
struct Deliver {
    engine: Arc<OnceLock<EngineHandle>>,
    keys: Vec<CallbackKey>,
}

impl Effects for Deliver {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.keys.extend(record.keys());
    }

    fn redeliver(&mut self, _keys: &[CallbackKey]) {}

    fn flush(&mut self) {
        if let (false, Some(engine)) = (self.keys.is_empty(), self.engine.get()) {
            // What does not fit into the queue stays in the outbox, which the next start shows.
            let _ = engine.submit_quietly(Command::Delivered(std::mem::take(&mut self.keys)));
        }
    }

    fn participants(&mut self, _participants: Arc<Participants>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_directory_is_sound_and_can_be_filled_again() {
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

    /// Without a snapshot in between, a crash is followed by a replay of both.
    #[test]
    fn an_id_whose_transfer_has_left_may_come_again_and_survives_a_crash() {
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
        // What is archived leaves memory only while there is more to do.
        let mut first = 20;
        while !is_archived() {
            hub.fill(first, 20).unwrap();
            first += 20;
        }
        archive.divide().unwrap();
        let growing = archive.divisions().last().map_or(1, |division| division.first_seq);
        assert_eq!(hub.runtime.block_on(hub.filler.handle.remove_finished(growing - 1)), Ok(1));
        assert!(archive.get(&id).unwrap().is_none());
        let again = Command::Prepare(prepare);
        let reply = hub.runtime.block_on(hub.filler.handle.submit(again, upesi_engine::Payload::default()));
        assert!(matches!(reply, Ok(upesi_ledger::Reply::Accepted)), "{reply:?}");
        // A backup is what a crash would leave.
        let backup = upesi_hub::backup::BackupArguments { data, to: copy.clone(), json: false };
        upesi_hub::backup::backup(&backup).unwrap();
        hub.engine.shutdown();

        let data = copy.join("data");
        for with_archive in [true, false] {
            let directory = data.clone();
            let options =
                upesi_hub::inspect::audit::AuditOptions { directory, allow_live: false, with_archive };
            let report = upesi_hub::inspect::audit::audit(&options).unwrap();
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
