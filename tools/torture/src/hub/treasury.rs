//! Operators that close windows and settle them, stage by stage, and their record of the answers.

use std::collections::BTreeMap;

use upesi_engine::{EngineHandle, Payload, SubmitError};
use upesi_journal::sim_disk::Random;
use upesi_ledger::command::{AdvanceItem, NewSettlement, SettlementAbort, SettlementAdvance};
use upesi_ledger::{
    AdminCommand, Command, Ledger, LedgerAccountTypeId, Settlement, SettlementAccount, SettlementState,
    WindowState,
};

use crate::hub::scheme::{DFSPS, MODEL, dfsp_of};

/// The states of the windows, and of the accounts of each settlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettlementSnapshot {
    windows: Vec<&'static str>,
    settlements: Vec<(&'static str, Vec<&'static str>)>,
}

impl SettlementSnapshot {
    /// The current states.
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

/// The operators' record of the answers.
#[derive(Clone, Debug, Default)]
pub struct OperatorMemory {
    /// The state after the last answered step.
    known: Option<SettlementSnapshot>,
    /// A later step was never answered.
    is_unsure: bool,
    pub closes: u64,
    pub settlements: u64,
    pub stages: u64,
    pub aborts: u64,
}

impl OperatorMemory {
    /// Performs the operators' next step. Returns whether the engine still runs.
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
            // The command was rejected because the disk is full, so it has no effect.
            Err(SubmitError::Full | SubmitError::Busy) => return true,
            Err(_) => {
                self.is_unsure = true;
                return false;
            }
        }
        match engine.read(SettlementSnapshot::of).await {
            Ok(picture) => self.known = Some(picture),
            Err(_) => self.is_unsure = true,
        }
        true
    }

    /// Compares the state after a crash with the answers to operators. An unanswered step may or may not have happened.
    pub fn compare(&self, found: &SettlementSnapshot, what: &str) {
        let Some(known) = &self.known else { return };
        if !self.is_unsure {
            assert_eq!(found, known, "{what}: windows and settlements differ from the answers");
        }
        let lost =
            found.windows.len() < known.windows.len() || found.settlements.len() < known.settlements.len();
        assert!(!lost, "{what}: {found:?} lacks answered steps: {known:?}");
    }
}

/// The next step: advances a settlement to its end, or aborts it before its money moves. Without a settlement, creates
/// one of the first closed window. Without a closed window, closes the open one.
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

/// Amounts that settlements have added to the positions of the DFSPs, and the DFSPs' amounts in windows.
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
        assert!(is_position, "a window contains other accounts than positions of {DFSPS:?}");
        if let Some(dfsp) = dfsp_of(ledger, account) {
            held[dfsp] += units;
        }
    }
    (settled, held)
}
