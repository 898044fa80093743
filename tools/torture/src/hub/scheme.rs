//! A scheme of three banks, and their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use upesi_engine::{Clock, EngineHandle, Payload, SubmitError};
use upesi_journal::sim_disk::Random;
use upesi_lab::isolated::scheme::Scheme;
use upesi_ledger::command::{
    Abort, AdvanceItem, Fulfil, FulfilState, Fulfilment, NewSettlement, Prepare, SettlementAbort,
    SettlementAdvance,
};
use upesi_ledger::{
    AccountId, AdminCommand, Command, Ledger, LedgerAccountTypeId, ParticipantId, Settlement,
    SettlementAccount, SettlementState, WindowState,
};
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

pub fn number(id: TransferId) -> Option<u64> {
    let number = id.to_bytes().last_chunk::<4>().map(|bytes| u64::from(u32::from_be_bytes(*bytes)))?;
    (self::id(number) == id).then_some(number)
}

/// Payer and payee of a numbered transfer, as indexes of [`DFSPS`].
pub fn parties(number: u64) -> [usize; 2] {
    let payer = (number % 3) as usize;
    [payer, (payer + 1 + (number / 3 % 2) as usize) % 3]
}

/// The amount of a numbered transfer. No two transfers of a life have the same.
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

/// Creates hub accounts, a settlement model, and three banks with funds. What exists already is rejected, without harm.
pub async fn onboard(engine: &EngineHandle) -> Result<(), SubmitError> {
    let between = Scheme::between(DFSPS.map(name).into(), currency());
    let scheme = Scheme { endpoints: Some("http://127.0.0.1:1".to_owned()), ..between };
    scheme.onboard(engine).await.map(drop)
}

// Operators who close windows and settle them, stage by stage, and their memory of that.

/// The states of the windows, and of the accounts of each settlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    windows: Vec<&'static str>,
    settlements: Vec<(&'static str, Vec<&'static str>)>,
}

impl Picture {
    pub fn of(ledger: &Ledger) -> Self {
        let states = |settlement: &Settlement| {
            let accounts = settlement.accounts.iter().map(|account| account.state.as_str()).collect();
            (settlement.state.as_str(), accounts)
        };
        Self {
            windows: ledger.windows().iter().map(|window| window.state.as_str()).collect(),
            settlements: ledger.settlements().iter().map(states).collect(),
        }
    }
}

/// The memory of the operators.
#[derive(Clone, Debug, Default)]
pub struct Treasury {
    /// The state after the last answered step.
    known: Option<Picture>,
    /// A later step was never answered.
    is_unsure: bool,
    pub closes: u64,
    pub settlements: u64,
    pub stages: u64,
    pub aborts: u64,
}

impl Treasury {
    /// Takes the operators' next step. Returns whether the engine still runs.
    pub async fn step(&mut self, engine: &EngineHandle, random: &mut Random) -> bool {
        // Drawn before the query, so that the draws do not depend on its result.
        let (gives_up, is_in_pieces) = (random.one_in(8), random.one_in(3));
        let next = engine.read(move |ledger| next(ledger, gives_up, is_in_pieces)).await;
        let Ok(Some(command)) = next else { return next.is_ok() };
        let counted = match &command {
            AdminCommand::CloseWindow { .. } => &mut self.closes,
            AdminCommand::CreateSettlement(_) => &mut self.settlements,
            AdminCommand::AbortSettlement(_) => &mut self.aborts,
            _ => &mut self.stages,
        };
        match engine.submit(Command::Admin(command), Payload::default()).await {
            Ok(_) => *counted += 1,
            // Rejected because the disk is full: it has no effect.
            Err(SubmitError::Full | SubmitError::Busy) => return true,
            Err(_) => {
                self.is_unsure = true;
                return false;
            }
        }
        match engine.read(Picture::of).await {
            Ok(picture) => self.known = Some(picture),
            Err(_) => self.is_unsure = true,
        }
        true
    }

    /// Compares the state after a crash with the answers to operators. An unanswered step may or may not have happened.
    pub fn compare(&self, found: &Picture, what: &str) {
        let Some(known) = &self.known else { return };
        if !self.is_unsure {
            assert_eq!(found, known, "{what}: windows and settlements are not what was answered");
        }
        let lost =
            found.windows.len() < known.windows.len() || found.settlements.len() < known.settlements.len();
        assert!(!lost, "{what}: {found:?} lacks what was answered: {known:?}");
    }
}

/// The next step: advances a settlement to its end, or aborts it before its money moves; else creates a settlement of
/// the first closed window; else closes the open window.
fn next(ledger: &Ledger, gives_up: bool, is_in_pieces: bool) -> Option<AdminCommand> {
    use SettlementState as S;
    let reason = || "end of day".into();
    if let Some(settlement) =
        ledger.settlements().last().filter(|last| !matches!(last.state, S::Settled | S::Aborted))
    {
        let has_moved = |account: &SettlementAccount| matches!(account.state, S::Committed | S::Settled);
        if gives_up && !settlement.accounts.iter().any(has_moved) {
            let abort = SettlementAbort { id: settlement.id, reason: reason(), external_reference: None };
            return Some(AdminCommand::AbortSettlement(abort));
        }
        return Some(AdminCommand::AdvanceSettlement(advance(ledger, settlement, is_in_pieces)));
    }
    let waits = |state: WindowState| matches!(state, WindowState::Closed | WindowState::Aborted);
    if let Some(window) = ledger.windows().iter().find(|window| waits(window.state)) {
        let new = NewSettlement { model: MODEL.into(), reason: reason(), windows: vec![window.id] };
        return Some(AdminCommand::CreateSettlement(new));
    }
    let open = ledger
        .windows()
        .last()
        .filter(|window| ledger.window_pairs(window).is_some_and(|pairs| !pairs.is_empty()))?;
    Some(AdminCommand::CloseWindow { id: open.id, reason: reason() })
}

/// Moves the accounts that are behind, or the first of them, to their next state.
fn advance(ledger: &Ledger, settlement: &Settlement, is_in_pieces: bool) -> SettlementAdvance {
    let least = settlement.accounts.iter().map(|account| account.state).min_by_key(|state| state.number());
    let behind = settlement.accounts.iter().filter(|account| Some(account.state) == least);
    let item = |account: &SettlementAccount| {
        Some(AdvanceItem {
            participant: ledger.account(account.account)?.participant.number(),
            account: account.account.number(),
            state: account.state.next()?,
            reason: "paid".into(),
            external_reference: None,
        })
    };
    let items = behind.filter_map(item).take(if is_in_pieces { 1 } else { usize::MAX }).collect();
    SettlementAdvance { id: settlement.id, items }
}

/// Amounts that settlements have added to the positions of the DFSPs, and amounts that windows hold of them.
pub fn settled_and_held(ledger: &Ledger) -> ([i128; 3], [i128; 3]) {
    use SettlementState as S;
    let (mut settled, mut held) = ([0; 3], [0; 3]);
    for account in ledger.settlements().iter().flat_map(|settlement| &settlement.accounts) {
        let has_moved = match account.state {
            S::Reserved => account.net.is_negative(),
            S::Committed | S::Settled => true,
            _ => false,
        };
        if let Some(dfsp) = dfsp_of(ledger, account.account).filter(|_| has_moved) {
            settled[dfsp] -= i128::from(account.net.units());
        }
    }
    let mut owed = BTreeMap::new();
    for window in ledger.windows() {
        for pair in ledger.window_pairs(window).iter().flat_map(|pairs| pairs.iter()) {
            *owed.entry(pair.payer).or_insert(0) += pair.sum.units;
            *owed.entry(pair.payee).or_insert(0) -= pair.sum.units;
        }
    }
    for (account, units) in owed {
        let is_position =
            ledger.account(account).is_some_and(|account| account.kind == LedgerAccountTypeId::POSITION);
        assert!(is_position, "a window holds something else than positions of {DFSPS:?}");
        if let Some(dfsp) = dfsp_of(ledger, account) {
            held[dfsp] += units;
        }
    }
    (settled, held)
}
