//! `upesi lab fill`: a data directory with any number of finished transfers, made through the engine, without HTTP.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use upesi_engine::{
    Clock, DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, Participants, Payload,
    SubmitError, SystemClock,
};
use upesi_ledger::command::{
    Archived, Fulfil, FulfilState, Fulfilment, FundsPrepare, NewSettlementModel, Prepare,
};
use upesi_ledger::{
    AdminCommand, Command, Delay, FundsDirection, Granularity, Interchange, LedgerAccountTypeId, NoticeKey,
    Reply,
};
use upesi_types::{Amount, Currency, FspId, TransferId};

use crate::exit::{Exit, Failure, Outcome};

/// Transfers under way at a time.
const IN_FLIGHT: u64 = 4_096;
/// Sizes of what a transfer's requests leave in the journal, as the lab's own messages have them.
const HEADER_BYTES: usize = 420;
const PREPARE_BODY_BYTES: usize = 860;
const FULFIL_BODY_BYTES: usize = 160;
const PREIMAGE: [u8; 32] = [7; 32];
const EXPIRY_MS: i64 = 3_600_000;

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
}

/// Fills the directory and tells how fast.
pub fn run(arguments: &FillArguments) -> Outcome {
    if !(2..=1_000).contains(&arguments.dfsps) {
        return Err(Failure::new(Exit::Usage, "give 2 to 1000 DFSPs"));
    }
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::InputOutput, error);
    let options =
        EngineOptions { keep_segments: arguments.keep_segments, ..EngineOptions::new(&arguments.data) };
    let slot = Arc::new(OnceLock::new());
    let effects = Deliver { engine: Arc::clone(&slot), keys: Vec::new() };
    let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(effects))
        .map_err(|error| failed(&error))?;
    let _ = slot.set(handle.clone());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
    let filler = Filler { handle, dfsps: names(arguments.dfsps), currency: currency()?, first: seed() };
    let started = Instant::now();
    let outcome = runtime.block_on(filler.fill(arguments.transfers));
    let took = started.elapsed();
    // Leaves a snapshot behind, with everything archived.
    engine.shutdown();
    outcome?;
    let rate = u128::from(arguments.transfers) * 1000 / took.as_millis().max(1);
    let _ = writeln!(
        std::io::stdout().lock(),
        "{} transfers prepared and fulfilled in {}.{:03} s: {rate}/s",
        arguments.transfers,
        took.as_secs(),
        took.subsec_millis()
    );
    Ok(())
}

fn currency() -> Result<Currency, Failure> {
    Currency::parse("XXX").ok_or_else(|| Failure::new(Exit::Software, "XXX is not in the list of currencies"))
}

fn names(count: u64) -> Vec<FspId> {
    (1..=count).filter_map(|number| FspId::parse(&format!("dfsp-{number}"))).collect()
}

/// Where the ids of this filling begin, so that several do not collide.
fn seed() -> u64 {
    SystemClock.now().as_ns().unsigned_abs()
}

/// Reports every callback as delivered.
struct Deliver {
    engine: Arc<OnceLock<EngineHandle>>,
    keys: Vec<NoticeKey>,
}

impl Effects for Deliver {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.keys.extend(record.keys());
    }

    fn redeliver(&mut self, _keys: &[NoticeKey]) {}

    fn flush(&mut self) {
        if let (false, Some(engine)) = (self.keys.is_empty(), self.engine.get()) {
            // What does not fit into the queue stays in the outbox, which the next start shows.
            let _ = engine.submit_quietly(Command::Delivered(std::mem::take(&mut self.keys)));
        }
    }

    fn participants(&mut self, _participants: Arc<Participants>) {}
}

#[derive(Clone)]
struct Filler {
    handle: EngineHandle,
    dfsps: Vec<FspId>,
    currency: Currency,
    first: u64,
}

impl Filler {
    async fn fill(&self, transfers: u64) -> Outcome {
        self.onboard().await?;
        let progress = ProgressBar::new(transfers);
        let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {human_pos} transfers, {per_sec}");
        progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let next = Arc::new(AtomicU64::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..IN_FLIGHT.min(transfers) {
            let (filler, next, progress) = (self.clone(), Arc::clone(&next), progress.clone());
            senders.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= transfers {
                        return Ok(());
                    }
                    filler.transfer(number).await?;
                    if number % 1024 == 0 {
                        progress.set_position(number);
                    }
                }
            });
        }
        while let Some(sent) = senders.join_next().await {
            sent.map_err(|error| Failure::new(Exit::Software, error))??;
        }
        progress.finish_and_clear();
        Ok(())
    }

    async fn transfer(&self, number: u64) -> Outcome {
        let id = transfer_id(self.first, number);
        let count = self.dfsps.len() as u64;
        let (payer, payee) =
            (self.dfsps[(number % count) as usize], self.dfsps[((number + 1) % count) as usize]);
        let prepare = Prepare {
            id,
            source: payer,
            payer,
            payee,
            amount: Ok(Amount::from_units(10_000).unwrap_or_default()),
            currency: self.currency,
            condition: Some(Sha256::digest(PREIMAGE).into()),
            expires_at: SystemClock.now().plus_ms(EXPIRY_MS),
            fingerprint: [1; 16],
            extensions: None,
            archived: Archived::Unknown,
        };
        self.submit(Command::Prepare(prepare), payload(PREPARE_BODY_BYTES)).await?;
        let fulfil = Fulfil {
            transfer: id.into(),
            source: payee,
            destination: Some(payer),
            state: FulfilState::Committed,
            may_reserve: true,
            fulfilment: Fulfilment::Preimage(PREIMAGE),
            fingerprint: [2; 16],
            extensions: None,
            archived: Archived::Unknown,
        };
        self.submit(Command::Fulfil(fulfil), payload(FULFIL_BODY_BYTES)).await
    }

    /// Submits until the engine has room: it holds back while the archive catches up.
    async fn submit(&self, command: Command, payload: Payload) -> Outcome {
        loop {
            match self.handle.submit(command.clone(), payload.clone()).await {
                Ok(Reply::Accepted) => return Ok(()),
                Err(SubmitError::Busy) => tokio::time::sleep(Duration::from_millis(5)).await,
                other => {
                    return Err(Failure::new(Exit::InputOutput, format!("the engine refused: {other:?}")));
                }
            }
        }
    }

    async fn onboard(&self) -> Outcome {
        let hub = FspId::parse("Hub").ok_or_else(|| Failure::new(Exit::Software, "no hub name"))?;
        for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
            let kind = kind.into();
            self.admin(AdminCommand::CreateHubAccount { name: hub, currency: self.currency, kind }).await?;
        }
        let model = NewSettlementModel {
            name: "DEFERREDNET".into(),
            granularity: Granularity::Net,
            interchange: Interchange::Multilateral,
            delay: Delay::Deferred,
            currency: None,
            require_liquidity_check: true,
            ledger_account_type: "POSITION".into(),
            settlement_account_type: "SETTLEMENT".into(),
            auto_position_reset: true,
        };
        self.admin(AdminCommand::CreateSettlementModel(model)).await?;
        for name in self.dfsps.clone() {
            self.onboard_dfsp(name).await?;
        }
        Ok(())
    }

    async fn onboard_dfsp(&self, name: FspId) -> Outcome {
        let plenty = Amount::from_units(1_000_000_000_000_000).unwrap_or_default();
        let currency = self.currency;
        self.admin(AdminCommand::CreateParticipant { name, currency, is_proxy: false }).await?;
        let initial_position = Amount::ZERO;
        self.admin(AdminCommand::OpenAccounts { name, currency, net_debit_cap: plenty, initial_position })
            .await?;
        let find = move |ledger: &upesi_ledger::Ledger| {
            ledger.participant_named(&name)?.account(currency, LedgerAccountTypeId::SETTLEMENT)
        };
        let account = self.handle.read(find).await.map_err(|error| Failure::new(Exit::InputOutput, error))?;
        let account =
            account.ok_or_else(|| Failure::new(Exit::Software, "a DFSP without settlement account"))?;
        self.admin(AdminCommand::PrepareFunds(FundsPrepare {
            direction: FundsDirection::In,
            id: transfer_id(!self.first, u64::from(account.number())),
            name,
            account,
            amount: plenty,
            currency,
            external_reference: "fill".into(),
            reason: "fill".into(),
            extensions: None,
            fingerprint: [3; 16],
        }))
        .await
    }

    /// Makes a change; one that was made before is as good.
    async fn admin(&self, command: AdminCommand) -> Outcome {
        match self.handle.submit(Command::Admin(command), Payload::default()).await {
            Ok(Reply::Admin(_)) => Ok(()),
            other => Err(Failure::new(Exit::InputOutput, format!("the engine refused: {other:?}"))),
        }
    }
}

fn transfer_id(first: u64, number: u64) -> TransferId {
    let digest =
        Sha256::new().chain_update(first.to_le_bytes()).chain_update(number.to_le_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TransferId::from_random_bytes(bytes)
}

fn payload(body_bytes: usize) -> Payload {
    static HEADERS: [u8; HEADER_BYTES] = [b'h'; HEADER_BYTES];
    static BODY: [u8; PREPARE_BODY_BYTES] = [b'b'; PREPARE_BODY_BYTES];
    Payload {
        headers: upesi_http::Bytes::from_static(&HEADERS),
        body: upesi_http::Bytes::from_static(&BODY[..body_bytes]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_directory_is_sound_and_can_be_filled_again() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = FillArguments {
            data: directory.path().join("data"),
            transfers: 300,
            dfsps: 3,
            keep_segments: true,
        };
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
}
