//! Three banks and what they send.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use upesi_engine::{Clock, EngineHandle, Payload, SubmitError};
use upesi_ledger::command::{
    Abort, Fulfil, FulfilState, Fulfilment, FundsPrepare, NewSettlementModel, Prepare,
};
use upesi_ledger::{
    AccountId, AdminCommand, Command, EndpointType, FundsDirection, Ledger, LedgerAccountTypeId,
    ParticipantId,
};
use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId};

/// When everything happens, in milliseconds since 1970.
pub const NOW_MS: i64 = 1_900_000_000_000;
/// After all deadlines that matter.
const EXPIRES_MS: i64 = NOW_MS + 80_000_000;
const PREIMAGE: [u8; 32] = [7; 32];
/// The model that settles their windows.
pub const MODEL: &str = "DEFERREDNET";
/// Those who pay each other.
pub const DFSPS: [&str; 3] = ["greenbank", "bluewallet", "redpurse"];

/// A clock that stands still; the engine makes its time increase.
#[derive(Debug)]
pub struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(NOW_MS)
    }
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(StandingClock)
}

fn name(text: &str) -> FspId {
    FspId::parse(text).expect("a name")
}

fn amount(text: &str) -> Amount {
    Amount::parse_decimal(text).expect("an amount")
}

fn currency() -> Currency {
    Currency::parse("KES").expect("a currency")
}

/// The id of a numbered transfer, spread as random ids are.
pub fn id(number: u64) -> TransferId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    TransferId::from_random_bytes(bytes)
}

pub fn number(id: TransferId) -> Option<u64> {
    let number = id.to_bytes().last_chunk::<4>().map(|bytes| u64::from(u32::from_be_bytes(*bytes)))?;
    (self::id(number) == id).then_some(number)
}

/// Payer and payee of a numbered transfer, as places in [`DFSPS`].
pub fn parties(number: u64) -> [usize; 2] {
    let payer = (number % 3) as usize;
    [payer, (payer + 1 + (number / 3 % 2) as usize) % 3]
}

/// The amount of a numbered transfer: no two of a life have the same.
pub fn amount_of(number: u64) -> Amount {
    Amount::from_units(number as i64 * 10_007 + 1).expect("a small amount")
}

fn names(number: u64) -> [FspId; 2] {
    parties(number).map(|party| name(DFSPS[party]))
}

pub fn prepare(number: u64) -> Command {
    let [payer, payee] = names(number);
    Command::Prepare(Prepare {
        id: id(number),
        source: payer,
        destination: Some(payee),
        payer,
        payee,
        amount: Ok(amount_of(number)),
        currency: currency(),
        condition: Some(Sha256::digest(PREIMAGE).into()),
        expires_at: Timestamp::from_ms(EXPIRES_MS),
        fingerprint: [2; 16],
        extensions: None,
    })
}

pub fn fulfil(number: u64) -> Command {
    let [payer, payee] = names(number);
    Command::Fulfil(Fulfil {
        transfer: id(number).into(),
        source: payee,
        destination: Some(payer),
        state: FulfilState::Committed,
        may_reserve: true,
        fulfilment: Fulfilment::Preimage(PREIMAGE),
        fingerprint: [3; 16],
        extensions: None,
    })
}

/// Its rejection by the payee.
pub fn abort(number: u64) -> Command {
    let [payer, payee] = names(number);
    Command::Abort(Abort {
        transfer: id(number).into(),
        source: payee,
        destination: Some(payer),
        code: ErrorCode::PAYEE_REJECTION,
        description: "no".into(),
        fingerprint: [4; 16],
    })
}

/// The DFSPs as a ledger knows them, with their positions; absent before they are onboarded.
pub fn positions(ledger: &Ledger) -> [Option<(ParticipantId, Amount)>; 3] {
    DFSPS.map(|dfsp| {
        let participant = ledger.participant_named(&name(dfsp))?;
        let account = participant.account(currency(), LedgerAccountTypeId::POSITION)?;
        Some((participant.id, ledger.account(account)?.balance))
    })
}

/// The owner of an account, as a place in [`DFSPS`].
pub fn dfsp_of(ledger: &Ledger, account: AccountId) -> Option<usize> {
    let owner = ledger.account(account)?.participant;
    DFSPS.iter().position(|dfsp| ledger.participant_named(&name(dfsp)).is_some_and(|known| known.id == owner))
}

/// Hub accounts, a settlement model, three banks with funds. What is there already is refused, which does no harm.
pub async fn onboard(engine: &EngineHandle) -> Result<(), SubmitError> {
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
        let account =
            AdminCommand::CreateHubAccount { name: name("Hub"), currency: currency(), kind: kind.into() };
        admin(engine, account).await?;
    }
    let model = NewSettlementModel::deferred_net(MODEL, None);
    admin(engine, AdminCommand::CreateSettlementModel(model)).await?;
    for (index, dfsp) in (0_u64..).zip(DFSPS) {
        onboard_dfsp(engine, name(dfsp), index).await?;
    }
    Ok(())
}

async fn onboard_dfsp(engine: &EngineHandle, dfsp: FspId, index: u64) -> Result<(), SubmitError> {
    let plenty = amount("1000000000");
    let participant = AdminCommand::CreateParticipant { name: dfsp, currency: currency(), is_proxy: false };
    admin(engine, participant).await?;
    let (net_debit_cap, initial_position) = (plenty, Amount::ZERO);
    let open =
        AdminCommand::OpenAccounts { name: dfsp, currency: currency(), net_debit_cap, initial_position };
    admin(engine, open).await?;
    let settlement = engine
        .read(move |ledger| {
            ledger.participant_named(&dfsp)?.account(currency(), LedgerAccountTypeId::SETTLEMENT)
        })
        .await?
        .expect("accounts were opened");
    let funds = FundsPrepare {
        direction: FundsDirection::In,
        id: id(u64::MAX - index),
        name: dfsp,
        account: settlement,
        amount: plenty,
        currency: currency(),
        external_reference: "bank".into(),
        reason: "prefund".into(),
        extensions: None,
        fingerprint: [1; 16],
    };
    admin(engine, AdminCommand::PrepareFunds(funds)).await?;
    let (kind, value) = (EndpointType::TRANSFER_POST, "http://127.0.0.1:1/transfers".into());
    admin(engine, AdminCommand::SetEndpoint { name: dfsp, kind, value }).await
}

async fn admin(engine: &EngineHandle, command: AdminCommand) -> Result<(), SubmitError> {
    engine.submit(Command::Admin(command), Payload::default()).await.map(drop)
}
