//! A settlement finished by the bank's file, those that pay first.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use upesi_http::Method;
use upesi_ledger::{PROPOSALS_OF_MAKER_MAX, SettlementState};
use upesi_types::text::{path, url_part};
use upesi_types::{Amount, TransferId};

use super::super::api::{Account, Step};
use super::super::{Done, Hub, SettlementError, Waiting};
use super::Entry;
use super::file::Line;
use crate::scheme::admin_api::{AdminError, ApiAmount};
use crate::settlement::job::Advance;

/// How accounts are recorded.
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

/// Why something is changed.
pub(super) fn reason(settlement: u32) -> String {
    format!("bank file of settlement {settlement}")
}

/// What came of a file.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// What failed, account by account.
    pub(super) failures: Vec<String>,
    /// What a second person has to approve before it goes on.
    pub(super) waiting: Waiting,
}

impl Applied {
    pub(super) fn waits(&self) -> bool {
        !self.waiting.0.is_empty()
    }

    /// Notes what a step of an account came to.
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
    reason: Option<String>,
}

/// The movement's id follows from settlement and account, so that a repetition moves nothing twice.
pub(super) fn movement_id(settlement: u32, account: u32) -> TransferId {
    let mut hash = Sha256::new();
    hash.update("upesi settlement funds");
    hash.update(settlement.to_le_bytes());
    hash.update(account.to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    TransferId::from_random_bytes(bytes)
}

fn path_of(entry: &Entry) -> String {
    path(&["participants", &entry.line.name, "accounts", &entry.settlement_account.to_string()])
}

impl Hub {
    /// The state of a settlement's movement of funds; `None` if there is none yet.
    pub(super) async fn movement(&self, entry: &Entry, settlement: u32) -> Done<Option<String>> {
        let id = movement_id(settlement, entry.line.account);
        match self.api.0.get::<FundsView>(&format!("{}/transfers/{id}", path_of(entry))).await {
            Ok(view) if view.transfer_state == "ABORTED_REJECTED" => {
                let reason = view.reason.unwrap_or_default();
                Err(SettlementError::Stopped(format!("its movement {id} was refused: {reason}")))
            }
            Ok(view) => Ok(Some(view.transfer_state)),
            Err(AdminError::Refused { status: 400, text, .. }) if text.starts_with("3208 ") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Finishes the settlement, those that pay first, so that no money is given out that has not come in. What fails is
    /// listed and the others go on, but nothing becomes SETTLED then. What waits for a second person ends the call.
    pub(super) async fn apply(&self, records: &Records<'_>, entries: &[Entry]) -> Done<Applied> {
        let mut applied = Applied::default();
        let is_settled = self.api.settlement(records.settlement).await?.stage()? == SettlementState::Settled;
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
            self.finish(records, &group, &mut applied).await?;
            if applied.waits() {
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

    async fn advance(&self, records: &Records<'_>, goal: SettlementState) -> Done<()> {
        let reason = records.reason();
        let reference = |_| Some(records.reference.to_owned());
        let advance = Advance { goal, only: None, reason: &reason, reference: &reference };
        let settlement = self.api.settlement(records.settlement).await?;
        advance.run(&self.api, settlement).await.map(drop)
    }

    /// All these accounts are COMMITTED by one call, and before their cover moves: a withdrawal must leave cover for
    /// the position, which returns then.
    async fn finish(&self, records: &Records<'_>, group: &[&Entry], applied: &mut Applied) -> Done<()> {
        let steps = self.steps_to_committed(records, group).await?;
        let faults = self.api.advance(records.settlement, &steps).await;
        let Some(faults) = applied.waiting.take(faults)? else { return Ok(()) };
        let fault_of = |entry: &Entry| faults.iter().find(|(account, _)| *account == entry.line.account);
        for entry in group {
            if applied.waiting.0.len() >= PROPOSALS_OF_MAKER_MAX {
                return Ok(());
            }
            let moved = match fault_of(entry) {
                Some((_, fault)) => Err(SettlementError::Stopped(format!("it cannot be committed: {fault}"))),
                None if records.moves_cover && entry.line.net != Amount::ZERO => {
                    self.move_once(records, entry).await
                }
                None => Ok(()),
            };
            applied.note(entry, moved);
        }
        Ok(())
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

    /// Records what the bank moved for an account, unless that was done.
    async fn move_once(&self, records: &Records<'_>, entry: &Entry) -> Done<()> {
        if self.movement(entry, records.settlement).await?.is_none() {
            self.move_cover(records, entry).await?;
        }
        let id = movement_id(records.settlement, entry.line.account);
        match self.movement(entry, records.settlement).await?.as_deref() {
            Some("COMMITTED") => Ok(()),
            Some("RESERVED") => self.commit_withdrawal(records, entry).await,
            Some(state) => Err(SettlementError::Stopped(format!("its movement {id} is {state}"))),
            None => {
                Err(SettlementError::Stopped(format!("the hub took its movement {id}, and does not know it")))
            }
        }
    }

    async fn move_cover(&self, records: &Records<'_>, entry: &Entry) -> Done<()> {
        let Line { account, net, currency, .. } = &entry.line;
        let id = movement_id(records.settlement, *account);
        let (action, amount) = if net.is_negative() {
            ("recordFundsIn", net.negated())
        } else {
            ("recordFundsOutPrepareReserve", *net)
        };
        let (settlement, reference) = (records.settlement, records.reference);
        // Amounts are written by their digits.
        let body = format!(
            r#"{{"transferId":"{id}","externalReference":"{reference}","action":"{action}","reason":"settlement {settlement}","amount":{{"amount":{amount},"currency":"{currency}"}}}}"#
        );
        Ok(self.api.0.send(Method::POST, &path_of(entry), &body).await?)
    }

    async fn commit_withdrawal(&self, records: &Records<'_>, entry: &Entry) -> Done<()> {
        let id = movement_id(records.settlement, entry.line.account);
        let reason = format!("settlement {}", records.settlement);
        let body = json!({"action": "recordFundsOutCommit", "reason": reason}).to_string();
        let path = format!("{}/transfers/{id}", path_of(entry));
        Ok(self.api.0.send(Method::PUT, &path, &body).await?)
    }
}

// Net debit caps that follow the balances at the bank.

/// Which caps become the balance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Those above it.
    pub(super) lowers: bool,
    /// Those below it.
    pub(super) raises: bool,
}

impl Caps {
    /// The cap to set, if it is another one; below zero there is none.
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

    async fn set_cap(&self, entry: &Entry, caps: Caps) -> Done<()> {
        let Line { name, currency, balance, .. } = &entry.line;
        let limits = path(&["participants", name, "limits"]);
        let query = format!("currency={}", url_part(currency));
        let found: Vec<Listing> = self.api.0.get(&format!("{limits}?{query}")).await?;
        let none = || SettlementError::Stopped(format!("it has no net debit cap in {currency}"));
        let Limit { value, alarm_percentage } = found.into_iter().next().ok_or_else(none)?.limit;
        let Some(cap) = caps.wanted(value.0, *balance) else { return Ok(()) };
        // Amounts are written by their digits.
        let body = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":{}}}}}"#,
            alarm_percentage.0
        );
        Ok(self.api.0.send(Method::PUT, &limits, &body).await?)
    }
}
