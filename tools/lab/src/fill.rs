//! `upesi lab fill`: creates a data directory with any number of finished transfers, through the engine and without
//! HTTP.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use upesi_engine::{
    Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, Payload, SubmitError, SystemClock,
};
use upesi_hub::exit::{Exit, Failure, Outcome};
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, Prepare};
use upesi_ledger::{Command, Reply};
use upesi_types::{Amount, Currency, FspId, TransferId};

use crate::isolated::scheme::Scheme;
use crate::isolated::start_delivering;

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
    /// Keep all journal segments (about 2.5 KB per transfer) instead of only those that a restart needs.
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
    // Leaves a snapshot behind, with everything archived.
    hub.engine.shutdown();
    filled?;
    // Otherwise the next hub would do the maintenance that filling at full speed leaves behind, under the load with
    // which it is measured.
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

const IN_FLIGHT: u64 = 4_096;
/// Sizes of the parts of a transfer's requests in the journal, as in the lab's own messages.
const HEADER_BYTES: usize = 420;
const PREPARE_BODY_BYTES: usize = 860;
const FULFIL_BODY_BYTES: usize = 160;
const EXPIRY_MS: i64 = 3_600_000;
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// The payloads in the journal beside the decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payloads {
    /// Headers and bodies of the size of the lab's messages.
    AsInRuns,
    None,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filling {
    /// The longest time in which no transfer ended.
    pub(crate) pause_max: Duration,
    /// Number of commands that were rejected because the archive was behind.
    pub(crate) refusals: u64,
}

/// Creates transfers. Fillers with the same `seed` create the same ones.
#[derive(Clone)]
pub(crate) struct Filler {
    pub(crate) handle: EngineHandle,
    dfsps: Vec<FspId>,
    currency: Currency,
    pub(crate) seed: u64,
    payloads: Payloads,
}

struct Progress {
    next: AtomicU64,
    end: u64,
    refusals: AtomicU64,
    started: Instant,
    last_end_ns: AtomicU64,
    pause_max_ns: AtomicU64,
    bar: ProgressBar,
}

impl Progress {
    fn new(first: u64, transfers: u64) -> Self {
        let bar = ProgressBar::new(transfers);
        let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {human_pos} transfers, {per_sec}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            next: AtomicU64::new(first),
            end: first + transfers,
            refusals: AtomicU64::new(0),
            started: Instant::now(),
            last_end_ns: AtomicU64::new(0),
            pause_max_ns: AtomicU64::new(0),
            bar,
        }
    }

    /// Notes that a transfer ended. All tasks run on one thread.
    fn note(&self) {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = self.last_end_ns.swap(now, Ordering::Relaxed);
        self.pause_max_ns.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
    }
}

impl Filler {
    /// Creates a filler with a seed from the current time, so that several fillings of one directory do not collide.
    pub(crate) fn new(handle: EngineHandle, dfsps: u64, payloads: Payloads) -> Result<Self, Failure> {
        let currency = Currency::parse("XXX")
            .ok_or_else(|| Failure::new(Exit::Software, "XXX is not in the list of currencies"))?;
        let dfsps = (1..=dfsps).filter_map(|number| FspId::parse(&format!("dfsp-{number}"))).collect();
        Ok(Self { handle, dfsps, currency, seed: SystemClock.now().as_ns().unsigned_abs(), payloads })
    }

    /// Prepares and fulfils the transfers of these numbers.
    pub(crate) async fn fill(&self, first: u64, transfers: u64) -> Result<Filling, Failure> {
        let progress = Arc::new(Progress::new(first, transfers));
        let mut senders: JoinSet<Result<(), Failure>> = JoinSet::new();
        for _ in 0..IN_FLIGHT.min(transfers) {
            let (filler, progress) = (self.clone(), Arc::clone(&progress));
            senders.spawn(async move {
                loop {
                    let number = progress.next.fetch_add(1, Ordering::Relaxed);
                    if number >= progress.end {
                        return Ok(());
                    }
                    filler.transfer(number, &progress).await?;
                    progress.note();
                    if number % 1024 == 0 {
                        progress.bar.set_position(number - first);
                    }
                }
            });
        }
        while let Some(sent) = senders.join_next().await {
            sent.map_err(|error| Failure::new(Exit::Software, error))??;
        }
        progress.bar.finish_and_clear();
        Ok(Filling {
            pause_max: Duration::from_nanos(progress.pause_max_ns.load(Ordering::Relaxed)),
            refusals: progress.refusals.load(Ordering::Relaxed),
        })
    }

    async fn transfer(&self, number: u64, progress: &Progress) -> Outcome {
        let prepare = self.prepare(number);
        let (id, payer, payee) = (prepare.id, prepare.payer, prepare.payee);
        let secret = Secret::of(self.seed, number);
        self.submit(Command::Prepare(prepare), self.payload(PREPARE_BODY_BYTES), progress).await?;
        let fulfil = Fulfil {
            transfer: id.into(),
            source: payee,
            destination: Some(payer),
            state: FulfilState::Committed,
            may_reserve: true,
            fulfilment: Fulfilment::Preimage(secret.preimage),
            fingerprint: secret.fingerprint(1),
            extensions: None,
        };
        self.submit(Command::Fulfil(fulfil), self.payload(FULFIL_BODY_BYTES), progress).await
    }

    /// The prepare of a number; only its expiration differs between calls.
    pub(crate) fn prepare(&self, number: u64) -> Prepare {
        let count = self.dfsps.len() as u64;
        let payer = self.dfsps[(number % count) as usize];
        // All pairs occur, so that settlement windows have their usual size.
        let payee = self.dfsps[((number + 1 + number / count % (count - 1)) % count) as usize];
        let secret = Secret::of(self.seed, number);
        Prepare {
            id: secret.id,
            source: payer,
            destination: Some(payee),
            payer,
            payee,
            amount: Ok(Amount::from_units(10_000).unwrap_or_default()),
            currency: self.currency,
            condition: Some(Sha256::digest(secret.preimage).into()),
            expires_at: SystemClock.now().plus_ms(EXPIRY_MS),
            fingerprint: secret.fingerprint(0),
            extensions: None,
        }
    }

    /// Submits a command until the engine accepts it. The engine rejects commands while the archive catches up.
    async fn submit(&self, command: Command, payload: Payload, progress: &Progress) -> Outcome {
        loop {
            match self.handle.submit(command.clone(), payload.clone()).await {
                Ok(Reply::Accepted) => return Ok(()),
                Err(SubmitError::Busy) => {
                    progress.refusals.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(BUSY_WAIT).await;
                }
                other => {
                    return Err(Failure::new(Exit::InputOutput, format!("the engine refused: {other:?}")));
                }
            }
        }
    }

    fn payload(&self, body_bytes: usize) -> Payload {
        static HEADERS: [u8; HEADER_BYTES] = [b'h'; HEADER_BYTES];
        static BODY: [u8; PREPARE_BODY_BYTES] = [b'b'; PREPARE_BODY_BYTES];
        match self.payloads {
            Payloads::None => Payload::default(),
            Payloads::AsInRuns => Payload {
                headers: upesi_http::Bytes::from_static(&HEADERS),
                body: upesi_http::Bytes::from_static(&BODY[..body_bytes]),
            },
        }
    }

    /// Creates the accounts, the model and the DFSPs, unless they exist.
    pub(crate) async fn onboard(&self) -> Outcome {
        let scheme = Scheme::between(self.dfsps.clone(), self.currency);
        let refused = |error| Failure::new(Exit::InputOutput, format!("the engine refused: {error:?}"));
        scheme.onboard(&self.handle).await.map(drop).map_err(refused)
    }
}

/// The random data of a transfer, which cannot be compressed, as in real ones.
struct Secret {
    id: TransferId,
    preimage: [u8; 32],
    tail: [u8; 32],
}

impl Secret {
    fn of(seed: u64, number: u64) -> Self {
        let digest = |part: u8| -> [u8; 32] {
            Sha256::new()
                .chain_update([part])
                .chain_update(seed.to_le_bytes())
                .chain_update(number.to_le_bytes())
                .finalize()
                .into()
        };
        let (tail, mut id) = (digest(0), [0; 16]);
        id.copy_from_slice(&digest(1)[..16]);
        Self { id: TransferId::from_random_bytes(id), preimage: digest(2), tail }
    }

    fn fingerprint(&self, half: usize) -> [u8; 16] {
        let mut print = [0; 16];
        print.copy_from_slice(&self.tail[half * 16..half * 16 + 16]);
        print
    }
}

pub(crate) fn transfer_id(seed: u64, number: u64) -> TransferId {
    Secret::of(seed, number).id
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

    /// Without a snapshot in between, the replay after a crash contains both.
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
        // Archived transfers leave memory only while there is more to do.
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
