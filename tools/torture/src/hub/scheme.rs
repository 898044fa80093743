//! A scheme of three banks, and their requests.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use upesi_engine::{Clock, EngineHandle, SubmitError};
use upesi_lab::isolated::scheme::Scheme;
use upesi_ledger::command::{Abort, Fulfil, FulfilState, Fulfilment, Prepare};
use upesi_ledger::{AccountId, Command, Ledger, LedgerAccountTypeId, ParticipantId};
use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId};

/// The time of all events, in milliseconds since 1970.
pub const NOW_MS: i64 = 1_900_000_000_000;
/// An expiry after all deadlines that matter.
const EXPIRES_MS: i64 = NOW_MS + 80_000_000;
const PREIMAGE: [u8; 32] = [7; 32];
/// The settlement model of their windows, from [`Scheme`].
pub const MODEL: &str = "DEFERREDNET";
/// The banks, which pay each other.
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

fn currency() -> Currency {
    Currency::parse("KES").expect("a currency")
}

/// The id of a numbered transfer, spread like random ids.
pub fn id(number: u64) -> TransferId {
    upesi_sim::id_of(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number)
}

/// The number of a transfer's id; `None` for another id.
pub fn number(id: TransferId) -> Option<u64> {
    let number = id.to_bytes().last_chunk::<4>().map(|bytes| u64::from(u32::from_be_bytes(*bytes)))?;
    (self::id(number) == id).then_some(number)
}

/// Payer and payee of a numbered transfer, as indexes of [`DFSPS`].
pub fn parties(number: u64) -> [usize; 2] {
    let payer = (number % 3) as usize;
    [payer, (payer + 1 + (number / 3 % 2) as usize) % 3]
}

/// The amount of a numbered transfer. It differs from all other amounts of a life.
pub fn amount_of(number: u64) -> Amount {
    Amount::from_units(number as i64 * 10_007 + 1).expect("a small amount")
}

fn names(number: u64) -> [FspId; 2] {
    parties(number).map(|party| name(DFSPS[party]))
}

/// The prepare of a numbered transfer.
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

/// The fulfil of a numbered transfer.
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

/// The rejection of a numbered transfer by the payee.
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

/// The owner of an account, as an index of [`DFSPS`].
pub fn dfsp_of(ledger: &Ledger, account: AccountId) -> Option<usize> {
    let owner = ledger.account(account)?.participant;
    DFSPS.iter().position(|dfsp| ledger.participant_named(&name(dfsp)).is_some_and(|known| known.id == owner))
}

/// Creates hub accounts, a settlement model, and three banks with funds. Objects that exist already are rejected,
/// without harm.
pub async fn onboard(engine: &EngineHandle) -> Result<(), SubmitError> {
    let between = Scheme::between(DFSPS.map(name).into(), currency());
    let scheme = Scheme { endpoints: Some("http://127.0.0.1:1".to_owned()), ..between };
    scheme.onboard(engine).await.map(drop)
}
