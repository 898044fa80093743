//! Steps of settlements as change sets, so that all steps that can be decided need only one approval.

use serde_json::{Value, json};
use upesi_http::Method;
use upesi_ledger::SettlementState;

use super::advance::Advance;
use super::api::{ACCOUNTS_PER_CALL_MAX, Account, Cover, Settlement, Step};
use super::error::{Done, SettlementError};
use super::hub::Hub;
use crate::scheme::apply::ApiCall;
use crate::scheme::proposing::{has_second_person, propose_calls};

/// The states of accounts, in order.
const STAGES: [SettlementState; 4] = [
    SettlementState::Recorded,
    SettlementState::Reserved,
    SettlementState::Committed,
    SettlementState::Settled,
];

impl Hub {
    /// Whether steps may need an approval.
    pub(super) async fn has_second_person(&self) -> bool {
        has_second_person(&self.api.0).await
    }

    /// Proposes calls as one change set; returns at once if nothing in it needs an approval.
    ///
    /// # Errors
    /// The pending approval.
    pub(super) async fn propose(&self, name: &str, calls: &[ApiCall]) -> Done<()> {
        match propose_calls(&self.api.0, (name, name), calls).await? {
            Some(approval) => Err(SettlementError::Waiting(vec![approval])),
            None => Ok(()),
        }
    }
}

/// The call that creates a settlement.
pub(super) fn create_call(model: &str, reason: &str, window: u32) -> ApiCall {
    let body = json!({"settlementModel": model, "reason": reason, "settlementWindows": [{"id": window}]});
    ApiCall { method: Method::POST, path: "/v2/settlements".to_owned(), body: body.to_string() }
}

/// The calls that set states of accounts.
pub(super) fn step_calls(settlement: u32, steps: &[Step]) -> Vec<ApiCall> {
    let steps: Vec<Value> = steps.iter().map(Step::to_json).collect();
    put_calls(&format!("/v2/settlements/{settlement}"), &steps)
}

/// The calls that finish accounts with the amounts that the bank moved.
pub(super) fn cover_calls(settlement: u32, covers: &[Cover]) -> Vec<ApiCall> {
    let covers: Vec<Value> = covers.iter().map(Cover::to_json).collect();
    put_calls(&format!("/v2/settlements/{settlement}/cover"), &covers)
}

fn put_calls(path: &str, participants: &[Value]) -> Vec<ApiCall> {
    let call = |participants: &[Value]| {
        let body = json!({"participants": participants}).to_string();
        ApiCall { method: Method::PUT, path: path.to_owned(), body }
    };
    participants.chunks(ACCOUNTS_PER_CALL_MAX).map(call).collect()
}

impl Advance<'_> {
    /// The calls that bring a settlement to the goal, stage by stage.
    pub(super) fn calls(&self, settlement: &Settlement) -> Vec<ApiCall> {
        self.calls_of(settlement, STAGES.into_iter().filter(|stage| stage.number() <= self.goal.number()))
    }

    /// The calls for some stages.
    pub(super) fn calls_of(
        &self,
        settlement: &Settlement,
        stages: impl Iterator<Item = SettlementState>,
    ) -> Vec<ApiCall> {
        let is_behind = |account: &Account, state: SettlementState| {
            let stage = SettlementState::parse(&account.state);
            stage.is_some_and(|stage| stage.number() < state.number())
        };
        let of_stage = |state: SettlementState| {
            let steps: Vec<Step> = settlement
                .accounts()
                .filter(|(_, account)| is_behind(account, state) && self.is_wanted(account))
                .map(|(participant, account)| self.step(participant, account, state))
                .collect();
            step_calls(settlement.id, &steps)
        };
        stages.flat_map(of_stage).collect()
    }
}
