//! Many lives of one hub on a simulated disk, and an auditor that remembers every acknowledgement.
#![allow(dead_code, reason = "each test uses a part")]

mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use upesi_engine::{
    DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, Participants, Payload,
    Storage, SubmitError,
};
use upesi_journal::sim_disk::{DiskFault, Random, SimDisk, SurvivingData};
use upesi_ledger::codec::Decoder;
use upesi_ledger::command::{Abort, Get};
use upesi_ledger::{CallbackKey, Command, PublicState, Reply, Stored as _, Transfer};
use upesi_tables::archive::{Archive as _, MemoryArchive};
use upesi_testsupport::scheme::{self, TestClock, fulfil, id, name, prepare, try_onboard};
use upesi_types::{ErrorCode, Timestamp, TransferId};

pub const START_MS: i64 = 1_900_000_000_000;
/// Here ticks are commands, when the seed says so.
pub const NEVER: Duration = Duration::from_secs(1_000_000);
const LIVES: u64 = 5;
const STEPS_MAX: u64 = 40;
const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
const SHORT_MS: i64 = 500;

pub fn soon() -> Timestamp {
    Timestamp::from_ms(START_MS + 30_000)
}

/// Counts of many runs, to prove that they tried something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub acknowledged: u64,
    pub starts_that_crashed: u64,
    pub snapshots_compared: u64,
    pub archived: u64,
    pub published: u64,
    pub journals_shortened: u64,
}

impl Totals {
    pub fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.starts_that_crashed += other.starts_that_crashed;
        self.snapshots_compared += other.snapshots_compared;
        self.archived += other.archived;
        self.published += other.published;
        self.journals_shortened += other.journals_shortened;
    }
}

/// A transfer as its DFSPs know it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    is_acknowledged: bool,
    can_expire: bool,
    /// A fulfil or an abort was sent and not acknowledged.
    is_unsure: bool,
    /// The outcome, if it was seen or acknowledged. It must never change.
    ended: Option<PublicState>,
}

/// Remembers the published records.
#[derive(Clone, Default)]
struct Published(Arc<Mutex<Vec<Arc<DurableRecord>>>>);

impl Effects for Published {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.0.lock().unwrap().push(Arc::clone(record));
    }

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, _: Arc<Participants>) {}
}

/// A sent request.
enum Sent {
    Prepare(TransferId),
    End(TransferId, PublicState),
    Nothing,
}

type Answered = (Sent, Result<Reply, SubmitError>);

/// One hub with one seed.
pub struct Run {
    seed: u64,
    random: Random,
    disk: SimDisk,
    archive: Arc<MemoryArchive>,
    clock: Arc<TestClock>,
    keep_segments: bool,
    fold_every_records: u64,
    /// Minimum size of batches for the journal's thread, so that it gets none, some or all of them.
    overlap_bytes_min: usize,
    known: BTreeMap<[u8; 17], (TransferId, Known)>,
    published: Published,
    is_onboarded: bool,
    totals: Totals,
}

impl Run {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            seed,
            disk: SimDisk::new(seed),
            archive: Arc::default(),
            clock: TestClock::starting_at(START_MS),
            keep_segments: !random.one_in(4),
            fold_every_records: [1, 4, 16, 64][random.below(4) as usize],
            overlap_bytes_min: [0, 0, 2_000, usize::MAX][random.below(4) as usize],
            known: BTreeMap::new(),
            published: Published::default(),
            is_onboarded: false,
            totals: Totals::default(),
            random,
        }
    }

    /// Runs lives with faults, then one without faults, and checks the result.
    pub async fn live_through(mut self) -> Totals {
        for _ in 0..LIVES {
            self.injure();
            self.life().await;
            self.die();
        }
        let (engine, handle) = self.start().unwrap();
        self.check(&handle).await;
        assert!(self.onboard(&handle).await && self.step(&handle).await, "an error without a fault");
        self.end_and_compare(engine, &handle).await;
        let (engine, handle) = self.start().unwrap();
        self.check(&handle).await;
        self.end_and_compare(engine, &handle).await;
        self.totals
    }

    /// Chooses the fault of this life.
    fn injure(&mut self) {
        let bits = self.random.below(11);
        let ordinal = (1 << bits) - 1 + self.random.below(1 << bits);
        let fault = if self.random.one_in(4) { DiskFault::Broken } else { DiskFault::Crash };
        self.disk.inject(ordinal, fault);
    }

    fn start(&mut self) -> Option<(Engine, EngineHandle)> {
        let options = EngineOptions {
            storage: Some(Storage {
                disk: Arc::new(self.disk.clone()),
                archive: Arc::clone(&self.archive) as _,
            }),
            segment_bytes: 8 * 1024,
            batch_bytes_max: 4 * 1024,
            overlap_bytes_min: self.overlap_bytes_min,
            fold_every_records: self.fold_every_records,
            snapshot_every_records: 8,
            keep_segments: self.keep_segments,
            clock: Arc::clone(&self.clock) as _,
            tick_interval: NEVER,
            ..EngineOptions::new("nowhere")
        };
        let started = Engine::start(options, EngineMetrics::default(), Box::new(self.published.clone()));
        started.map_err(|error| self.must_be_injury(&error.to_string())).ok()
    }

    /// An error that no fault explains is a finding.
    fn must_be_injury(&self, error: &str) {
        assert!(error.contains("simulated"), "{error}");
    }

    async fn life(&mut self) {
        let Some((engine, handle)) = self.start() else {
            self.totals.starts_that_crashed += 1;
            return;
        };
        if self.check_or_crash(&handle).await && (self.is_onboarded || self.onboard(&handle).await) {
            for _ in 0..STEPS_MAX {
                if !self.step(&handle).await {
                    break;
                }
            }
        }
        if !self.random.one_in(3) {
            // This is not an orderly shutdown: nothing reaches the disk any longer.
            self.disk.inject(self.disk.operations().len() as u64, DiskFault::Crash);
        }
        engine.shutdown();
    }

    /// Repeated in each life until it succeeds.
    async fn onboard(&mut self, handle: &EngineHandle) -> bool {
        self.is_onboarded |= try_onboard(handle, &DFSPS).await.is_ok();
        self.is_onboarded
    }

    /// The process ends, and in some cases the machine too.
    fn die(&mut self) {
        let kept = match self.random.below(4) {
            0 => {
                // Data that the archive has not synced is also lost with the process.
                self.archive.crash();
                self.disk = self.disk.after_kill();
                return;
            }
            1 => SurvivingData::Everything,
            2 => SurvivingData::Nothing,
            _ => SurvivingData::Some(self.random.bits()),
        };
        self.archive.crash();
        self.disk = self.disk.after_power_loss(kept);
    }

    /// Several concurrent requests. Returns false when the engine has stopped.
    async fn step(&mut self, handle: &EngineHandle) -> bool {
        let mut in_flight = JoinSet::new();
        let mut ending = BTreeSet::new();
        for _ in 0..=self.random.below(6) {
            let (command, sent) = self.draw();
            if let Sent::End(id, _) = &sent
                && !ending.insert(id.to_bytes())
            {
                // The order of two of them is not known here.
                self.known.get_mut(&id.to_bytes()).unwrap().1.is_unsure = true;
            }
            let body = vec![b'x'; self.random.below(4_000) as usize];
            let payload = Payload { headers: "content-type: text/plain\r\n".into(), body: body.into() };
            let handle = handle.clone();
            in_flight.spawn(async move { (sent, handle.submit(command, payload).await) });
        }
        if !self.keep_segments && self.random.one_in(2) {
            self.finish_what_is_open(handle, &mut in_flight).await;
            self.report_delivery(handle, usize::MAX).await;
        } else if self.random.one_in(4) {
            let count = 1 + self.random.below(8) as usize;
            self.report_delivery(handle, count).await;
        }
        let mut is_alive = true;
        while let Some(answered) = in_flight.join_next().await {
            let (sent, answer) = answered.unwrap();
            is_alive &= answer.is_ok();
            self.note(&sent, answer);
        }
        is_alive
    }

    fn draw(&mut self) -> (Command, Sent) {
        let [payer, payee] = DFSPS;
        match self.random.below(10) {
            0 => {
                self.clock.advance(self.random.below(SHORT_MS as u64) as i64);
                (Command::Tick, Sent::Nothing)
            }
            1 if !self.known.is_empty() => {
                let id = self.any_known();
                let (transfer, source) = (id.into(), name(payer));
                let get = Get { transfer, source, is_proxied: false };
                (Command::Get(get), Sent::Nothing)
            }
            2..=5 if !self.known.is_empty() => {
                let id = self.any_known();
                if self.random.one_in(4) {
                    (abort(id, payer, payee), Sent::End(id, PublicState::Aborted))
                } else {
                    (fulfil(id, payer, payee), Sent::End(id, PublicState::Committed))
                }
            }
            _ => {
                let id = id(self.random.bits());
                let can_expire = self.random.one_in(4);
                let lasts_ms = if can_expire { SHORT_MS } else { 80_000_000 };
                let expires = Timestamp::from_ms(scheme::ms(&*self.clock) + lasts_ms);
                self.known.insert(id.to_bytes(), (id, Known { can_expire, ..Known::default() }));
                (prepare(id, payer, payee, "1", expires), Sent::Prepare(id))
            }
        }
    }

    fn any_known(&mut self) -> TransferId {
        let place = self.random.below(self.known.len() as u64) as usize;
        self.known.values().nth(place).unwrap().0
    }

    /// Reports some deliveries, which may come at any time.
    async fn report_delivery(&mut self, handle: &EngineHandle, count: usize) {
        let owed =
            handle.read(move |ledger| ledger.outbox().iter().map(|(key, _)| key).take(count).collect());
        if let Ok(keys) = owed.await {
            let _ = handle.submit_quietly(Command::Delivered(keys));
        }
    }

    /// Leaves nothing that needs old segments.
    async fn finish_what_is_open(&mut self, handle: &EngineHandle, in_flight: &mut JoinSet<Answered>) {
        let open = handle.read(|ledger| ledger.reserved_transfers().map(|one| one.id).collect::<Vec<_>>());
        let [payer, payee] = DFSPS;
        for id in open.await.unwrap_or_default() {
            self.known.get_mut(&id.to_bytes()).unwrap().1.is_unsure = true;
            let (command, handle) = (fulfil(id, payer, payee), handle.clone());
            let sent = Sent::End(id, PublicState::Committed);
            in_flight.spawn(async move { (sent, handle.submit(command, Payload::default()).await) });
        }
    }

    /// Remembers an answer, or that there was none.
    fn note(&mut self, sent: &Sent, answer: Result<Reply, SubmitError>) {
        let is_acknowledged = match answer {
            Ok(reply) => {
                assert_eq!(reply, Reply::Accepted);
                self.totals.acknowledged += 1;
                true
            }
            Err(error) => {
                assert_eq!(error, SubmitError::Stopped);
                false
            }
        };
        match sent {
            Sent::Nothing => {}
            Sent::Prepare(id) => {
                self.known.get_mut(&id.to_bytes()).unwrap().1.is_acknowledged |= is_acknowledged;
            }
            Sent::End(id, state) => {
                let known = &mut self.known.get_mut(&id.to_bytes()).unwrap().1;
                // If the prepare may have come later, or if an end may already be in flight, either may have won.
                let is_certain =
                    is_acknowledged && known.is_acknowledged && !known.is_unsure && !known.can_expire;
                if known.ended.is_none() && is_certain {
                    known.ended = Some(*state);
                } else if known.ended.is_none() {
                    known.is_unsure = true;
                }
            }
        }
    }

    /// Checks that all acknowledged data exists. Returns false if the engine stopped meanwhile.
    async fn check_or_crash(&mut self, handle: &EngineHandle) -> bool {
        let ids: Vec<_> = self.known.values().map(|(id, _)| *id).collect();
        // All at once, because single queries would take most of the test's time.
        let in_memory = handle.read(move |ledger| {
            ids.iter().map(|id| ledger.transfer(*id).cloned()).collect::<Vec<Option<Transfer>>>()
        });
        let Ok(in_memory) = in_memory.await else { return false };
        for ((id, known), found) in self.known.values_mut().zip(in_memory) {
            let found = found.or_else(|| archived(&self.archive, id));
            let Some(transfer) = found else {
                assert!(!known.is_acknowledged, "seed {}: {id} was acknowledged and is lost", self.seed);
                continue;
            };
            let state = transfer.public_state();
            if let Some(ended) = known.ended {
                assert_eq!(state, ended, "seed {}: {id} changed after its end", self.seed);
            } else if !known.can_expire && !known.is_unsure {
                assert_eq!(state, PublicState::Reserved, "seed {}: {id}", self.seed);
            }
            known.is_acknowledged = true;
            known.ended = Some(state).filter(|state| *state != PublicState::Reserved);
        }
        let Ok(findings) = handle.read(upesi_ledger::audit::check).await else { return false };
        assert!(findings.is_empty(), "seed {}: {findings:?}", self.seed);
        true
    }

    async fn check(&mut self, handle: &EngineHandle) {
        assert!(self.check_or_crash(handle).await, "seed {}: an error without a fault", self.seed);
    }
}

fn archived(archive: &MemoryArchive, id: &TransferId) -> Option<Transfer> {
    let bytes = archive.get(id).unwrap()?;
    Some(Transfer::decode(&mut Decoder(&bytes)).unwrap())
}

fn abort(id: TransferId, payer: &str, payee: &str) -> Command {
    Command::Abort(Abort {
        transfer: id.into(),
        source: name(payee),
        destination: Some(name(payer)),
        code: ErrorCode::PAYEE_REJECTION,
        description: "no".into(),
        fingerprint: [4; 16],
    })
}
