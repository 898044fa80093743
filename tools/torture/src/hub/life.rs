//! The requests of DFSPs to a hub, and their record of its answers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tokio::task::JoinSet;
use upesi_engine::{EngineHandle, Payload, SubmitError};
use upesi_journal::sim_disk::Random;
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Command, PublicState, Stored as _, Transfer};

use super::scheme::{abort, fulfil, number, onboard, prepare};
use super::treasury::OperatorMemory;

/// Maximum number of simultaneous requests.
const TOGETHER_MAX: u64 = 6;
const BODY_BYTES_MAX: u64 = 3_000;

/// A transfer as its DFSPs know it.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownTransfer {
    /// The prepare was answered 202.
    pub is_acknowledged: bool,
    /// The end that was answered 202.
    pub ended: Option<PublicState>,
    /// An end was sent and never answered.
    pub is_unsure: bool,
    /// The end of a transfer whose removal was requested and not confirmed.
    pub perhaps_removed: Option<PublicState>,
}

/// All transfers, by number.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub transfers: BTreeMap<u64, KnownTransfer>,
    pub acknowledged: u64,
    pub refused_full: u64,
    /// Rejections because the engine has stopped.
    pub refused_stopped: u64,
    /// Transfers that were removed and not prepared again, with their ends.
    pub removed: BTreeMap<u64, PublicState>,
    /// Ends of transfers that were removed and prepared again, one entry for each time.
    pub came_again: Vec<(u64, PublicState)>,
    pub removals: u64,
    pub treasury: OperatorMemory,
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    Prepare(u64),
    End(u64, PublicState),
}

impl Memory {
    /// Onboards the banks and sends bursts of requests until the engine stops. Returns whether it still runs.
    pub async fn live(&mut self, engine: &EngineHandle, random: &mut Random, bursts: u64) -> bool {
        if onboard(engine).await.is_err() {
            return false;
        }
        for _ in 0..bursts {
            if !self.burst(engine, random).await {
                return false;
            }
            if random.one_in(4) {
                report_deliveries(engine, 1 + random.below(8) as usize).await;
            }
            if random.one_in(4) {
                self.retain(engine).await;
            }
            if random.one_in(2) && !self.treasury.step(engine, random).await {
                return false;
            }
        }
        true
    }

    /// Sends some requests at the same time, each about another transfer. Returns whether the engine still runs.
    pub async fn burst(&mut self, engine: &EngineHandle, random: &mut Random) -> bool {
        let mut under_way = JoinSet::new();
        for _ in 0..=random.below(TOGETHER_MAX) {
            let (sent, command) = self.draw(random);
            let body = vec![b'x'; random.below(BODY_BYTES_MAX) as usize];
            let payload = Payload { headers: "content-type: text/plain\r\n".into(), body: body.into() };
            let engine = engine.clone();
            under_way.spawn(async move { (sent, engine.submit(command, payload).await) });
        }
        let mut is_alive = true;
        while let Some(answered) = under_way.join_next().await {
            let (sent, answer) = answered.expect("a request does not panic");
            is_alive &= answer != Err(SubmitError::Stopped);
            self.note(sent, answer.map(drop));
        }
        is_alive
    }

    fn draw(&mut self, random: &mut Random) -> (Sent, Command) {
        let open = |known: &KnownTransfer| {
            known.is_acknowledged
                && known.ended.is_none()
                && !known.is_unsure
                && known.perhaps_removed.is_none()
        };
        let open: Vec<u64> =
            self.transfers.iter().filter(|(_, known)| open(known)).map(|(number, _)| *number).collect();
        if open.is_empty() || random.one_in(2) {
            let number = self.next_number(random);
            self.transfers.insert(number, KnownTransfer::default());
            return (Sent::Prepare(number), prepare(number));
        }
        let number = open[random.below(open.len() as u64) as usize];
        // No other request ends it until the answer arrives.
        self.known(number).is_unsure = true;
        if random.one_in(4) {
            (Sent::End(number, PublicState::Aborted), abort(number))
        } else {
            (Sent::End(number, PublicState::Committed), fulfil(number))
        }
    }

    /// The number of a new transfer, or of a removed one: its prepare is sent again and creates another transfer.
    fn next_number(&mut self, random: &mut Random) -> u64 {
        let next = (self.transfers.len() + self.removed.len()) as u64;
        let drawn = random.below(3 * next.max(1));
        let Some((&number, &state)) = self.removed.range(drawn..).next() else { return next };
        self.removed.remove(&number);
        self.came_again.push((number, state));
        number
    }

    /// Retention: requests the removal of archived transfers. All transfers of a division are removed together.
    async fn retain(&mut self, engine: &EngineHandle) {
        let Some(archive) = engine.archive() else { return };
        if archive.divide().is_err() {
            return;
        }
        let Some(division) = archive.divisions().into_iter().find(|division| division.is_closed) else {
            return;
        };
        let mut leaving = Vec::new();
        let visited = archive.for_each_in(division.first_seq, &mut |id, bytes| {
            let transfer = Transfer::decode(&mut Decoder(bytes)).expect("a transfer");
            leaving.push((number(id).expect("one of these"), transfer.public_state()));
            ControlFlow::Continue(())
        });
        assert!(visited.expect("an archive without a fault"), "a division that was there");
        drop(archive);
        leaving.retain(|(number, _)| self.transfers.contains_key(number));
        for (number, state) in &leaving {
            self.known(*number).perhaps_removed = Some(*state);
        }
        match engine.remove_finished(division.watermark).await {
            // The next start shows whether the journal contains the removal.
            Err(SubmitError::Stopped | SubmitError::Archive(_)) => {}
            Err(_) => leaving.iter().for_each(|(number, _)| self.known(*number).perhaps_removed = None),
            Ok(_) => {
                self.removals += 1;
                for (number, state) in leaving {
                    self.transfers.remove(&number);
                    self.removed.insert(number, state);
                }
            }
        }
    }

    fn known(&mut self, number: u64) -> &mut KnownTransfer {
        self.transfers.get_mut(&number).expect("a transfer that was sent")
    }

    fn note(&mut self, sent: Sent, answer: Result<(), SubmitError>) {
        match (sent, answer) {
            (_, Err(SubmitError::Stopped)) => self.refused_stopped += 1,
            (Sent::Prepare(_), Err(_)) => self.refused_full += 1,
            (Sent::End(number, _), Err(_)) => {
                // Rejected because the disk is full: it has no effect, and may be sent again.
                self.known(number).is_unsure = false;
                self.refused_full += 1;
            }
            (Sent::Prepare(number), Ok(())) => {
                self.known(number).is_acknowledged = true;
                self.acknowledged += 1;
            }
            (Sent::End(number, state), Ok(())) => {
                let known = self.known(number);
                (known.ended, known.is_unsure) = (Some(state), false);
                self.acknowledged += 1;
            }
        }
    }
}

async fn report_deliveries(engine: &EngineHandle, count: usize) {
    let owed = engine.read(move |ledger| ledger.outbox().iter().map(|(key, _)| key).take(count).collect());
    if let Ok(keys) = owed.await {
        // Reports may be lost.
        let _ = engine.submit_quietly(Command::Delivered(keys));
    }
}
