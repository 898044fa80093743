//! A scheme with two banks, for tests and benches of engines.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sha2::{Digest, Sha256};
use upesi_engine::{Clock, EngineHandle, Payload, SteppedEngine, SubmitError};
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, FundsPrepare, NewSettlementModel, Prepare};
use upesi_ledger::{
    AccountId, AdminCommand, Command, EndpointType, FundsDirection, LedgerAccountTypeId, Reply,
};
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

pub const PREIMAGE: [u8; 32] = [7; 32];

pub fn name(text: &str) -> FspId {
    FspId::parse(text).unwrap()
}

pub fn amount(text: &str) -> Amount {
    Amount::parse_decimal(text).unwrap()
}

pub fn kes() -> Currency {
    Currency::parse("KES").unwrap()
}

/// The id of a numbered transfer.
pub fn id(number: u64) -> TransferId {
    let mut bytes = [0; 16];
    // Distributes the bits as in random ids.
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    TransferId::from_random_bytes(bytes)
}

/// A clock that a test sets, in milliseconds.
#[derive(Default)]
pub struct TestClock {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl TestClock {
    /// A clock that starts at this time, in milliseconds since 1970.
    pub fn starting_at(ms: i64) -> Arc<Self> {
        let clock = Self::default();
        clock.jump(ms);
        Arc::new(clock)
    }

    /// Advances the time.
    pub fn advance(&self, ms: i64) {
        self.monotonic.fetch_add(ms, Ordering::SeqCst);
        self.jump(ms);
    }

    /// Sets the wall clock, as a user would.
    pub fn jump(&self, ms: i64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// Makes an operator's change. It may be rejected if it was made before.
pub async fn admin(engine: &EngineHandle, command: AdminCommand) -> Result<bool, SubmitError> {
    let reply = engine.submit(Command::Admin(command), Payload::default()).await?;
    Ok(matches!(reply, Reply::Admin(Ok(_))))
}

/// Creates hub accounts, a settlement model, and DFSPs with a net debit cap and funds of a thousand million each.
pub async fn onboard(engine: &EngineHandle, dfsps: &[&str]) {
    assert_eq!(try_onboard(engine, dfsps).await, Ok(true));
}

/// Like [`onboard`], for an engine that may stop, and can be repeated. Returns whether no step was rejected.
pub async fn try_onboard(engine: &EngineHandle, dfsps: &[&str]) -> Result<bool, SubmitError> {
    let mut is_new = open_currency(engine, kes()).await?;
    let model = NewSettlementModel::deferred_net("DEFERREDNET", None);
    is_new &= admin(engine, AdminCommand::CreateSettlementModel(model)).await?;
    for (index, dfsp) in dfsps.iter().enumerate() {
        is_new &= onboard_dfsp(engine, name(dfsp), kes(), index as u64).await?;
    }
    Ok(is_new)
}

/// Adds a second currency to an onboarded DFSP.
pub async fn onboard_in(engine: &EngineHandle, dfsp: &str, currency: Currency) {
    assert_eq!(open_currency(engine, currency).await, Ok(true));
    onboard_dfsp(engine, name(dfsp), currency, 1_000).await.unwrap();
}

async fn open_currency(engine: &EngineHandle, currency: Currency) -> Result<bool, SubmitError> {
    let mut is_new = true;
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
        let account = AdminCommand::CreateHubAccount { name: name("Hub"), currency, kind: kind.into() };
        is_new &= admin(engine, account).await?;
    }
    Ok(is_new)
}

async fn onboard_dfsp(
    engine: &EngineHandle,
    dfsp: FspId,
    currency: Currency,
    index: u64,
) -> Result<bool, SubmitError> {
    let plenty = amount("1000000000");
    let participant = AdminCommand::CreateParticipant { name: dfsp, currency, is_proxy: false };
    let mut is_new = admin(engine, participant).await?;
    let open = AdminCommand::OpenAccounts {
        name: dfsp,
        currency,
        net_debit_cap: plenty,
        initial_position: Amount::ZERO,
    };
    is_new &= admin(engine, open).await?;
    let settlement = engine
        .read(move |ledger| {
            ledger
                .participant_named(&dfsp)
                .unwrap()
                .account(currency, LedgerAccountTypeId::SETTLEMENT)
                .unwrap()
        })
        .await?;
    let funds = FundsPrepare {
        direction: FundsDirection::In,
        id: id(u64::MAX - index),
        name: dfsp,
        account: settlement,
        amount: plenty,
        currency,
        external_reference: "bank".into(),
        reason: "prefund".into(),
        extensions: None,
        fingerprint: [1; 16],
    };
    is_new &= admin(engine, AdminCommand::PrepareFunds(funds)).await?;
    let (kind, value) = (EndpointType::TRANSFER_POST, "http://127.0.0.1:1/transfers".into());
    is_new &= admin(engine, AdminCommand::SetEndpoint { name: dfsp, kind, value }).await?;
    Ok(is_new)
}

/// The command of a prepare.
pub fn prepare(id: TransferId, payer: &str, payee: &str, value: &str, expires_at: Timestamp) -> Command {
    Command::Prepare(Prepare {
        id,
        source: name(payer),
        destination: Some(name(payee)),
        payer: name(payer),
        payee: name(payee),
        amount: Ok(amount(value)),
        currency: kes(),
        condition: Some(Sha256::digest(PREIMAGE).into()),
        expires_at,
        fingerprint: [2; 16],
        extensions: None,
    })
}

/// The command of a fulfil.
pub fn fulfil(id: TransferId, payer: &str, payee: &str) -> Command {
    Command::Fulfil(Fulfil {
        transfer: id.into(),
        source: name(payee),
        destination: Some(name(payer)),
        state: FulfilState::Committed,
        may_reserve: true,
        fulfilment: Fulfilment::Preimage(PREIMAGE),
        fingerprint: [3; 16],
        extensions: None,
    })
}

/// A DFSP's position.
pub async fn position(engine: &EngineHandle, dfsp: &str) -> Amount {
    let dfsp = name(dfsp);
    engine
        .read(move |ledger| {
            let participant = ledger.participant_named(&dfsp).unwrap();
            let account: AccountId = participant.account(kes(), LedgerAccountTypeId::POSITION).unwrap();
            ledger.account(account).unwrap().balance
        })
        .await
        .unwrap()
}

/// A clock's time, in milliseconds since 1970.
pub fn ms(clock: &dyn Clock) -> i64 {
    clock.now().as_ms()
}

/// Runs an engine turn by turn until a conversation with it has ended.
pub fn talk<T>(engine: &mut SteppedEngine, story: impl Future<Output = T>) -> T {
    let mut story = pin!(story);
    for _ in 0..10_000 {
        if let Poll::Ready(outcome) = story.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
        engine.turn(false);
        engine.turn_journal();
    }
    panic!("the engine does not answer");
}
