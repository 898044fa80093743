//! Finishes a settlement by the bank's file, payers first.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use upesi_http::Method;
use upesi_ledger::SettlementState;
use upesi_types::text::{path, url_part};
use upesi_types::{Amount, ErrorCode, TransferId};

use super::Entry;
use super::file::Line;
use crate::admin_api::ApiAmount;
use crate::scheme::apply::ApiCall;
use crate::settlement::advance::Advance;
use crate::settlement::api::{Account, Cover, Step};
use crate::settlement::error::{Done, PendingApprovals, SettlementError};
use crate::settlement::hub::Hub;
use crate::settlement::proposing::{cover_calls, step_calls};

/// Data recorded with the accounts.
pub(super) struct Records<'a> {
    pub(super) settlement: u32,
    /// The reference of the file.
    pub(super) reference: &'a str,
    pub(super) moves_cover: bool,
    pub(super) lowers_caps: bool,
    pub(super) raises_caps: bool,
}

impl Records<'_> {
    fn reason(&self) -> String {
        reason(self.settlement)
    }
}

/// The reason of the changes.
pub(super) fn reason(settlement: u32) -> String {
    format!("bank file of settlement {settlement}")
}

/// Result of applying a file.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Failures, account by account.
    pub(super) failures: Vec<String>,
    /// Approvals that are needed before it can continue.
    pub(super) waiting: PendingApprovals,
}

impl Applied {
    pub(super) fn waits(&self) -> bool {
        !self.waiting.0.is_empty()
    }

    /// Records the result of an account's step.
    pub(super) fn note(&mut self, entry: &Entry, step: Done<()>) {
        if let Err(error) = self.waiting.take(step) {
            let Line { row, name, .. } = &entry.line;
            self.failures.push(format!("row {row}: {name}: {error}"));
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FundsView {
    transfer_state: String,
}

/// Maximum number of rejected movements of an account that are skipped.
const MOVEMENTS_REFUSED_MAX: u32 = 1_000;

/// The id of a movement is derived from settlement and account, so that a repetition moves nothing twice. A rejected
/// movement keeps its id, and the account then gets another one.
pub(super) fn movement_id(settlement: u32, account: u32, refused: u32) -> TransferId {
    let mut hash = Sha256::new();
    hash.update("upesi settlement funds");
    hash.update(settlement.to_le_bytes());
    hash.update(account.to_le_bytes());
    if refused > 0 {
        hash.update(refused.to_le_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    TransferId::from_random_bytes(bytes)
}

/// A movement of funds of a settled account.
pub(super) struct Movement {
    pub(super) id: TransferId,
    /// Its state; `None` if it was not made yet.
    pub(super) state: Option<String>,
}

fn path_of(entry: &Entry) -> String {
    path(&["participants", &entry.line.name, "accounts", &entry.settlement_account.to_string()])
}

impl Hub {
    /// An account's movement of funds: the first one that was not rejected.
    pub(super) async fn movement(&self, entry: &Entry, settlement: u32) -> Done<Movement> {
        for refused in 0..MOVEMENTS_REFUSED_MAX {
            let id = movement_id(settlement, entry.line.account, refused);
            match self.api.0.get::<FundsView>(&format!("{}/transfers/{id}", path_of(entry))).await {
                Ok(view) if view.transfer_state == "ABORTED_REJECTED" => {}
                Ok(view) => return Ok(Movement { id, state: Some(view.transfer_state) }),
                Err(error) if error.has_code(ErrorCode::TRANSFER_NOT_FOUND) => {
                    return Ok(Movement { id, state: None });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(SettlementError::Stopped(format!("{MOVEMENTS_REFUSED_MAX} of its movements were rejected")))
    }

    /// Finishes the settlement. Payers come first: while a payer is not finished, no receiver is credited. Failures are
    /// listed, and then nothing becomes SETTLED. A pending approval ends the call.
    pub(super) async fn apply(&self, records: &Records<'_>, entries: &[Entry]) -> Done<Applied> {
        let mut applied = Applied::default();
        let is_settled = self.api.settlement(records.settlement).await?.stage()? == SettlementState::Settled;
        if !is_settled && self.has_second_person().await {
            let calls = self.calls(records, entries, &mut applied).await?;
            if !applied.failures.is_empty() {
                return Ok(applied);
            }
            if !calls.is_empty() {
                let proposed = self.propose(&records.reason(), &calls).await;
                applied.waiting.take(proposed)?;
            }
            if applied.waits() {
                return Ok(applied);
            }
        }
        if records.lowers_caps && !is_settled {
            self.set_caps(entries, Caps { lowers: true, raises: false }, &mut applied).await?;
        }
        let reserved = self.advance(records, SettlementState::Reserved).await;
        if applied.waiting.take(reserved)?.is_none() || applied.waits() {
            return Ok(applied);
        }
        let (payers, others): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.line.net > Amount::ZERO);
        for group in [payers, others] {
            if !self.finish(records, &group, &mut applied).await? {
                return Ok(applied);
            }
        }
        if !is_settled {
            // The liquidity check may have raised caps meanwhile.
            let caps = Caps { lowers: records.lowers_caps, raises: records.raises_caps };
            self.set_caps(entries, caps, &mut applied).await?;
        }
        if applied.failures.is_empty() && !applied.waits() {
            let settled = self.advance(records, SettlementState::Settled).await;
            applied.waiting.take(settled)?;
        }
        Ok(applied)
    }

    /// All steps in order, as one change set: the hub stops at a failure.
    async fn calls(
        &self,
        records: &Records<'_>,
        entries: &[Entry],
        applied: &mut Applied,
    ) -> Done<Vec<ApiCall>> {
        let reason = records.reason();
        let reference = |_| Some(records.reference.to_owned());
        let goal = SettlementState::Settled;
        let advance = Advance { goal, only: None, reason: &reason, reference: &reference };
        let settlement = self.api.settlement(records.settlement).await?;
        let mut calls = Vec::new();
        if records.lowers_caps {
            calls.extend(self.cap_calls(entries, Caps { lowers: true, raises: false }, applied).await);
        }
        let before = [SettlementState::Recorded, SettlementState::Reserved];
        calls.extend(advance.calls_of(&settlement, before.into_iter()));
        let (payers, others): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.line.net > Amount::ZERO);
        for group in [payers, others] {
            if records.moves_cover {
                let covers = self.covers(records, &group, applied).await?;
                calls.extend(cover_calls(records.settlement, &covers));
            } else {
                let steps = self.steps_to_committed(records, &group).await?;
                calls.extend(step_calls(records.settlement, &steps));
            }
        }
        let caps = Caps { lowers: records.lowers_caps, raises: records.raises_caps };
        calls.extend(self.cap_calls(entries, caps, applied).await);
        calls.extend(advance.calls_of(&settlement, [SettlementState::Settled].into_iter()));
        Ok(calls)
    }

    async fn advance(&self, records: &Records<'_>, goal: SettlementState) -> Done<()> {
        let reason = records.reason();
        let reference = |_| Some(records.reference.to_owned());
        let advance = Advance { goal, only: None, reason: &reason, reference: &reference };
        let settlement = self.api.settlement(records.settlement).await?;
        advance.run(&self.api, settlement).await.map(drop)
    }

    /// Finishes these accounts by one call. Returns whether all of them are.
    async fn finish(&self, records: &Records<'_>, group: &[&Entry], applied: &mut Applied) -> Done<bool> {
        let before = applied.failures.len();
        let faults = if records.moves_cover {
            let covers = self.covers(records, group, applied).await?;
            self.api.move_cover(records.settlement, &covers).await
        } else {
            let steps = self.steps_to_committed(records, group).await?;
            self.api.advance(records.settlement, &steps).await
        };
        let Some(faults) = applied.waiting.take(faults)? else { return Ok(false) };
        for entry in group {
            if let Some((_, fault)) = faults.iter().find(|(account, _)| *account == entry.line.account) {
                let stopped = SettlementError::Stopped(format!("it cannot be finished: {fault}"));
                applied.note(entry, Err(stopped));
            }
        }
        Ok(applied.failures.len() == before && !applied.waits())
    }

    /// The bank's amounts for the accounts that are not finished.
    async fn covers(
        &self,
        records: &Records<'_>,
        group: &[&Entry],
        applied: &mut Applied,
    ) -> Done<Vec<Cover>> {
        let settlement = self.api.settlement(records.settlement).await?;
        let mut covers = Vec::new();
        for entry in group {
            let found = settlement.accounts().find(|(_, account)| account.id == entry.line.account);
            let Some((participant, account)) = found else { continue };
            let stage = SettlementState::parse(&account.state);
            let is_committed =
                stage.is_some_and(|stage| stage.number() >= SettlementState::Committed.number());
            let is_finished =
                account.cover_transfer_id.is_some() || entry.line.net == Amount::ZERO && is_committed;
            if is_finished {
                continue;
            }
            let cover = |movement| Cover {
                participant,
                account: account.id,
                movement,
                reason: records.reason(),
                reference: records.reference.to_owned(),
            };
            match self.ready_movement(records, entry).await {
                Ok(movement) => covers.push(cover(movement)),
                Err(error) => applied.note(entry, Err(error)),
            }
        }
        Ok(covers)
    }

    /// The id for an account's movement. A withdrawal that an earlier version reserved is committed first.
    async fn ready_movement(&self, records: &Records<'_>, entry: &Entry) -> Done<TransferId> {
        let Movement { id, state } = self.movement(entry, records.settlement).await?;
        if state.as_deref() == Some("RESERVED") {
            self.commit_withdrawal(records, entry, id).await?;
        }
        Ok(id)
    }

    /// The accounts that are not COMMITTED yet.
    async fn steps_to_committed(&self, records: &Records<'_>, group: &[&Entry]) -> Done<Vec<Step>> {
        let state = SettlementState::Committed;
        let wanted: BTreeSet<u32> = group.iter().map(|entry| entry.line.account).collect();
        let settlement = self.api.settlement(records.settlement).await?;
        let is_behind = |account: &Account| {
            let stage = SettlementState::parse(&account.state);
            stage.is_some_and(|stage| stage.number() < state.number()) && wanted.contains(&account.id)
        };
        let behind = settlement.accounts().filter(|(_, account)| is_behind(account));
        let step = |(participant, account): (u32, &Account)| Step {
            participant,
            account: account.id,
            state,
            reason: records.reason(),
            reference: Some(records.reference.to_owned()),
        };
        Ok(behind.map(step).collect())
    }

    async fn commit_withdrawal(&self, records: &Records<'_>, entry: &Entry, id: TransferId) -> Done<()> {
        let reason = format!("settlement {}", records.settlement);
        let body = json!({"action": "recordFundsOutCommit", "reason": reason}).to_string();
        let path = format!("{}/transfers/{id}", path_of(entry));
        Ok(self.api.0.send(Method::PUT, &path, &body).await?)
    }
}

// Net debit caps that are set to the balances at the bank.

/// The caps to set to the balance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Caps above it.
    pub(super) lowers: bool,
    /// Caps below it.
    pub(super) raises: bool,
}

impl Caps {
    /// The new cap, if it differs; there is none below zero.
    pub(super) fn wanted(self, cap: Amount, balance: Amount) -> Option<Amount> {
        let balance = balance.max(Amount::ZERO);
        (self.lowers && balance < cap || self.raises && balance > cap).then_some(balance)
    }
}

#[derive(Deserialize)]
struct Listing {
    limit: Limit,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limit {
    value: ApiAmount,
    alarm_percentage: ApiAmount,
}

impl Hub {
    pub(super) async fn set_caps(&self, entries: &[Entry], caps: Caps, applied: &mut Applied) -> Done<()> {
        if !caps.lowers && !caps.raises {
            return Ok(());
        }
        for entry in entries {
            let set = self.set_cap(entry, caps).await;
            applied.note(entry, set);
        }
        Ok(())
    }

    /// The calls that set the caps, from their current values.
    async fn cap_calls(&self, entries: &[Entry], caps: Caps, applied: &mut Applied) -> Vec<ApiCall> {
        let mut calls = Vec::new();
        if !caps.lowers && !caps.raises {
            return calls;
        }
        for entry in entries {
            match self.cap_call(entry, caps).await {
                Ok(call) => calls.extend(call),
                Err(error) => applied.note(entry, Err(error)),
            }
        }
        calls
    }

    async fn set_cap(&self, entry: &Entry, caps: Caps) -> Done<()> {
        let Some(ApiCall { method, path, body }) = self.cap_call(entry, caps).await? else { return Ok(()) };
        Ok(self.api.0.send(method, &path, &body).await?)
    }

    /// The call that sets a cap, if it differs.
    async fn cap_call(&self, entry: &Entry, caps: Caps) -> Done<Option<ApiCall>> {
        let Line { name, currency, balance, .. } = &entry.line;
        let limits = path(&["participants", name, "limits"]);
        let query = format!("currency={}", url_part(currency));
        let found: Vec<Listing> = self.api.0.get(&format!("{limits}?{query}")).await?;
        let none = || SettlementError::Stopped(format!("it has no net debit cap in {currency}"));
        let Limit { value, alarm_percentage } = found.into_iter().next().ok_or_else(none)?.limit;
        let Some(cap) = caps.wanted(value.0, *balance) else { return Ok(None) };
        // Amounts are written by their digits.
        let body = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":{}}}}}"#,
            alarm_percentage.0
        );
        Ok(Some(ApiCall { method: Method::PUT, path: limits, body }))
    }
}
