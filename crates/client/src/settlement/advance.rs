//! Advances the accounts of a settlement stage by stage.

use upesi_ledger::SettlementState;

use super::api::{Account, Settlement, SettlementApi, Step};
use super::error::{Done, SettlementError};

/// Goal and data of the advance.
pub(super) struct Advance<'a> {
    /// The state to reach.
    pub(super) goal: SettlementState,
    /// The accounts to advance; `None` for all accounts.
    pub(super) only: Option<Vec<u32>>,
    /// The reason of each stage.
    pub(super) reason: &'a str,
    /// The bank's reference for an account.
    pub(super) reference: &'a (dyn Fn(u32) -> Option<String> + Sync),
}

/// The next state of a settlement; its own state if that is final or unknown.
pub(super) fn following(settlement: &Settlement) -> SettlementState {
    match settlement.stage() {
        Ok(SettlementState::Settling) => SettlementState::Settled,
        Ok(state) => state.next().unwrap_or(state),
        Err(_) => SettlementState::Settled,
    }
}

impl Advance<'_> {
    /// Advances until the settlement has reached the goal. Accounts that have reached a state stay unchanged, so that a
    /// call after a crash continues.
    pub(super) async fn run(&self, api: &SettlementApi, mut settlement: Settlement) -> Done<Settlement> {
        loop {
            let stage = settlement.stage()?;
            if stage == SettlementState::Aborted {
                return Err(stopped(&settlement, "it was aborted"));
            }
            if stage.number() >= self.goal.number() {
                return Ok(settlement);
            }
            let next = following(&settlement);
            let steps: Vec<Step> = self.steps(&settlement, next).collect();
            let faults = api.advance(settlement.id, &steps).await?;
            if !faults.is_empty() {
                let list: Vec<String> =
                    faults.iter().map(|(account, fault)| format!("account {account}: {fault}")).collect();
                let text = format!("these accounts cannot be {}\n{}", next.as_str(), list.join("\n"));
                return Err(stopped(&settlement, &text));
            }
            settlement = api.settlement(settlement.id).await?;
            // Other accounts must follow before these can continue.
            if self.only.is_some() {
                return Ok(settlement);
            }
            if settlement.stage()? == stage {
                return Err(stopped(
                    &settlement,
                    &format!("it stays {}: is someone else advancing it?", stage.as_str()),
                ));
            }
        }
    }

    /// The accounts that have not reached a state.
    fn steps<'a>(
        &'a self,
        settlement: &'a Settlement,
        state: SettlementState,
    ) -> impl Iterator<Item = Step> + 'a {
        let behind = settlement
            .accounts()
            .filter(move |(_, account)| account.state != state.as_str() && self.is_wanted(account));
        behind.map(move |(participant, account)| self.step(participant, account, state))
    }

    pub(super) fn is_wanted(&self, account: &Account) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&account.id))
    }

    pub(super) fn step(&self, participant: u32, account: &Account, state: SettlementState) -> Step {
        Step {
            participant,
            account: account.id,
            state,
            reason: self.reason.to_owned(),
            reference: (self.reference)(account.id),
        }
    }
}

fn stopped(settlement: &Settlement, text: &str) -> SettlementError {
    SettlementError::Stopped(format!("settlement {}: {text}", settlement.id))
}
