//! Creates finished transfers through an engine, without HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use upesi_engine::{Clock, EngineHandle, Payload, SubmitError, SystemClock};
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, Prepare};
use upesi_ledger::{Command, Reply};
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_types::{Amount, Currency, FspId, TransferId};

use super::scheme::Scheme;

const IN_FLIGHT: u64 = 4_096;
/// Sizes of the parts of a transfer's requests in the journal, as in the lab's own messages.
const HEADER_BYTES: usize = 420;
const PREPARE_BODY_BYTES: usize = 860;
const FULFIL_BODY_BYTES: usize = 160;
const EXPIRY_MS: i64 = 3_600_000;
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// The payloads in the journal, in addition to the decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payloads {
    /// Headers and bodies of the size of the lab's messages.
    AsInRuns,
    None,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filling {
    /// The longest time between two finished transfers.
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

    /// Records the end of a transfer. All tasks run on one thread.
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

    /// The prepare with a number; only its expiration differs between calls.
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

    /// Submits a command, and repeats it as long as the engine rejects it because the archive is behind.
    async fn submit(&self, command: Command, payload: Payload, progress: &Progress) -> Outcome {
        loop {
            match self.handle.submit(command.clone(), payload.clone()).await {
                Ok(Reply::Accepted) => return Ok(()),
                Err(SubmitError::Busy) => {
                    progress.refusals.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(BUSY_WAIT).await;
                }
                other => {
                    return Err(Failure::new(
                        Exit::InputOutput,
                        format!("the engine rejected a command: {other:?}"),
                    ));
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
        let refused =
            |error| Failure::new(Exit::InputOutput, format!("the engine rejected a command: {error:?}"));
        scheme.onboard(&self.handle).await.map(drop).map_err(refused)
    }
}

/// The random data of a transfer. They cannot be compressed, as in real transfers.
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
