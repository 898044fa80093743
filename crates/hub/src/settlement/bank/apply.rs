//! A settlement finished by the bank's file: account by account, those that pay first.

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use upesi_http::Method;
use upesi_ledger::SettlementState;
use upesi_types::{Amount, TransferId};

use super::super::advance::Advance;
use super::super::{Done, Hub, SettlementError};
use super::Entry;
use super::file::Line;
use crate::scheme::admin_api::AdminError;

/// How accounts are recorded.
pub(super) struct Records<'a> {
    pub(super) settlement: u32,
    /// The reference of the file.
    pub(super) reference: &'a str,
    pub(super) moves_cover: bool,
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
    format!("/participants/{}/accounts/{}", entry.line.name, entry.settlement_account)
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

    /// Finishes the settlement. Returns what failed, account by account; the others go on, and nothing is SETTLED then.
    pub(super) async fn apply(&self, records: &Records<'_>, entries: &[Entry]) -> Done<Vec<String>> {
        let mut failures = Vec::new();
        self.advance(records, None, SettlementState::Reserved).await?;
        let mut order: Vec<&Entry> = entries.iter().collect();
        // Payers first, so that no money is given out that has not come in; zeros are last.
        order.sort_by_key(|entry| match entry.line.net {
            net if net > Amount::ZERO => 0,
            net if net.is_negative() => 1,
            _ => 2,
        });
        for entry in order {
            if let Err(error) = self.finish(records, entry).await {
                let Line { row, name, .. } = &entry.line;
                failures.push(format!("row {row}: {name}: {error}"));
            }
        }
        if failures.is_empty() {
            self.advance(records, None, SettlementState::Settled).await?;
        }
        Ok(failures)
    }

    async fn advance(
        &self,
        records: &Records<'_>,
        only: Option<Vec<u32>>,
        goal: SettlementState,
    ) -> Done<()> {
        let reason = format!("bank file of settlement {}", records.settlement);
        let reference = |_| Some(records.reference.to_owned());
        let advance = Advance { goal, only, reason: &reason, reference: &reference };
        let settlement = self.api.settlement(records.settlement).await?;
        advance.run(&self.api, settlement).await.map(drop)
    }

    /// The account is COMMITTED before its cover moves: a withdrawal must leave cover for the position, which returns
    /// then.
    async fn finish(&self, records: &Records<'_>, entry: &Entry) -> Done<()> {
        self.advance(records, Some(vec![entry.line.account]), SettlementState::Committed).await?;
        if !records.moves_cover || entry.line.net == Amount::ZERO {
            return Ok(());
        }
        let state = self.movement(entry, records.settlement).await?;
        if state.is_none() {
            self.move_cover(records, entry).await?;
        }
        match self.movement(entry, records.settlement).await?.as_deref() {
            Some("RESERVED") => self.commit_withdrawal(records, entry).await,
            _ => Ok(()),
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
