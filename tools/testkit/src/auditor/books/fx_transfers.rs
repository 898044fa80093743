//! FX transfers in the auditor's books: the reservation of each, the movements that its commit settles, and whether it
//! has the same outcome as its transfer.

use sha2::{Digest, Sha256};
use upesi_ledger::{
    AbortKind, Callback, Event, FxTransfer, FxTransferSide, FxTransferState, ParticipantId, ResourceKind,
    SettlementMode,
};
use upesi_types::{FxTransferId, Money, Timestamp, TransferId};

use super::{AccountKey, Books, Entry, Leg, RecordHead, TransferStage, currency_of};
use crate::auditor::{Findings, ObservedMessages};
use crate::message::{PutContent, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Reserved,
    Fulfilled,
    Committed,
    Aborted,
}

#[derive(Clone, Debug)]
pub(super) struct Exchange {
    stage: Stage,
    side: FxTransferSide,
    transfer: Option<TransferId>,
    initiator: u32,
    fxp: u32,
    /// Participants whose accounts carry the two amounts: the initiator and the FXP, or their proxies.
    liable: (u32, u32),
    /// The amounts, each with the number of its currency.
    source: (i128, u8),
    target: (i128, u8),
    condition: [u8; 32],
    expires_at: Timestamp,
    /// Whether its initiator sent the request. A rejected request can name another DFSP as its initiator.
    is_own: bool,
    /// Sequence number of the record that ended it; 0 while it is live.
    pub(super) ended_seq: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FxTransferCounts {
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) expired: u64,
    pub(crate) of_payees: u64,
}

impl Exchange {
    fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Reserved | Stage::Fulfilled)
    }

    /// The reserved movement, and the movement that the commit of a payee's FX transfer adds.
    fn legs(&self) -> (Leg, Option<Leg>) {
        let leg = |debtor, creditor, (amount, currency): (i128, u8)| Leg {
            debtor: AccountKey::position(debtor, currency),
            creditor: AccountKey::position(creditor, currency),
            amount,
        };
        let (initiator, fxp) = self.liable;
        let sale = leg(initiator, fxp, self.source);
        match self.side {
            FxTransferSide::Payer => (sale, None),
            FxTransferSide::Payee => (leg(fxp, initiator, self.target), Some(sale)),
        }
    }

    /// Whether this transfer determines the outcome: the transfer of its payer, or of its payee.
    fn is_of(&self, id: TransferId, transfer: &Entry) -> bool {
        let party = match self.side {
            FxTransferSide::Payer => transfer.payer,
            FxTransferSide::Payee => transfer.payee,
        };
        self.transfer == Some(id) && self.initiator == party
    }
}

fn money((amount, currency): (i128, u8), of: &Money) -> bool {
    amount == i128::from(of.amount.units()) && currency == currency_of(of.currency)
}

fn is_about(callback: &Callback, id: FxTransferId, target: u32) -> bool {
    callback.target.number() == target
        && callback.subject.resource == ResourceKind::FxTransfer
        && callback.subject.id.id() == Some(id.id())
}

impl Books {
    pub(in crate::auditor) const fn converted(&self) -> FxTransferCounts {
        self.fx_transfer_counts
    }

    pub(in crate::auditor) fn live_fx_transfers(&self) -> usize {
        self.fx_transfers.values().filter(|one| one.is_live()).count()
    }

    pub(in crate::auditor) fn knows_fx_transfer(&self, id: TransferId) -> bool {
        self.fx_transfers.contains_key(&id.to_bytes()) || self.has_left_fx_transfer(id)
    }

    /// Ids of FX transfers that retention removed. They may have been used again.
    pub(in crate::auditor) fn left_fx_transfers(&self) -> impl Iterator<Item = [u8; 17]> {
        self.left_fx_transfers.iter().copied()
    }

    pub(in crate::auditor) fn has_left_fx_transfer(&self, id: TransferId) -> bool {
        self.left_fx_transfers.contains(&id.to_bytes())
    }

    pub(in crate::auditor) fn is_waiting_for_fxp(&self, id: TransferId, fxp: usize) -> bool {
        self.fx_transfers
            .get(&id.to_bytes())
            .is_some_and(|one| one.stage == Stage::Reserved && self.number_of(one.fxp) == Some(fxp))
    }

    pub(super) fn fx_transfers_have_expired(&self, to_seq: u64) -> bool {
        let mut ended = self.fx_transfers.values().filter(|one| (1..=to_seq).contains(&one.ended_seq));
        ended.all(|one| self.last_time.is_some_and(|last| one.expires_at < last))
    }

    pub(super) fn fx_transfers_removed(&mut self, to_seq: u64) {
        let left = &mut self.left_fx_transfers;
        self.fx_transfers.retain(|key, one| {
            let stays = one.ended_seq == 0 || one.ended_seq > to_seq;
            if !stays {
                left.insert(*key);
            }
            stays
        });
    }

    /// The sum that live FX transfers reserve.
    pub(super) fn held_by_fx_transfers(&self) -> i128 {
        self.fx_transfers.values().filter(|one| one.is_live()).map(|one| one.legs().0.amount).sum()
    }

    /// The participant that carries a transfer if its payer pays by a live FX transfer. The FX transfer must be
    /// fulfilled and have the transfer's amount.
    pub(super) fn carrier(&self, id: TransferId, entry: &Entry, findings: &mut Findings) -> Option<u32> {
        let mut fx_transfers = self.fx_transfers.values();
        let fx_transfer = fx_transfers
            .find(|one| one.is_live() && one.side == FxTransferSide::Payer && one.is_of(id, entry));
        if fx_transfer.is_none() && self.is_abandoned(id, entry) {
            findings.add(format!("I10: {id} is reserved although its payer's FX transfer ended before it"));
        }
        let fx_transfer = fx_transfer?;
        if fx_transfer.stage != Stage::Fulfilled || fx_transfer.target != (entry.amount, entry.currency) {
            findings.add(format!("I10: {id} is reserved although its FX transfer is {fx_transfer:?}"));
        }
        Some(fx_transfer.liable.1)
    }

    /// Whether an FX transfer of the payer had ended before a new transfer arrived.
    fn is_abandoned(&self, id: TransferId, entry: &Entry) -> bool {
        let mut fx_transfers = self.fx_transfers.values();
        fx_transfers.any(|one| {
            one.stage == Stage::Aborted
                && one.side == FxTransferSide::Payer
                && one.is_own
                && one.is_of(id, entry)
        })
    }

    /// Whether the FX transfer of a transfer's payer has lapsed, which also ends the transfer.
    pub(super) fn fx_transfer_has_lapsed(&self, id: TransferId, entry: &Entry, time: Timestamp) -> bool {
        let mut fx_transfers = self.fx_transfers.values();
        fx_transfers
            .any(|one| one.side == FxTransferSide::Payer && one.is_of(id, entry) && one.expires_at <= time)
    }

    /// Whether the payee of a transfer ever requested an FX transfer: then it may have to delay its answer.
    pub(super) fn was_converted(&self, id: TransferId) -> bool {
        let mut fx_transfers = self.fx_transfers.values();
        fx_transfers.any(|one| one.side == FxTransferSide::Payee && one.transfer == Some(id))
    }

    pub(super) fn enter_fx_transfer(
        &mut self,
        head: RecordHead<'_>,
        event: &Event,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        match event {
            Event::FxTransferPrepared(fx_transfer) => {
                self.fx_transfer_prepared(head, fx_transfer, outside, findings);
            }
            Event::FxTransferFulfilled { id, fulfilment, .. } => {
                self.fx_transfer_fulfilled(head, *id, fulfilment, outside, findings);
            }
            Event::FxTransferCommitted { id, settled, further } => {
                self.fx_transfer_committed(head, *id, *settled, *further, findings);
            }
            Event::FxTransferAborted { id, kind, .. } => {
                self.fx_transfer_aborted(head, *id, *kind, outside, findings);
            }
            _ => {}
        }
    }

    fn fx_transfer_prepared(
        &mut self,
        head: RecordHead<'_>,
        fx_transfer: &FxTransfer,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { seq, callbacks, .. } = head;
        let id = fx_transfer.id;
        let party = |party: Option<ParticipantId>| party.map_or(0, |party| party.number());
        let is_reserved = fx_transfer.state == FxTransferState::Reserved;
        let (initiator, fxp) = (party(fx_transfer.initiator), party(fx_transfer.fxp));
        let units = |money: &Money| (i128::from(money.amount.units()), currency_of(money.currency));
        let sent = outside.fx_transfer(id.id(), &fx_transfer.prepare_fingerprint);
        let entry = Exchange {
            is_own: sent.is_some_and(|sent| sent.source == sent.initiator),
            stage: if is_reserved { Stage::Reserved } else { Stage::Aborted },
            side: fx_transfer.side,
            transfer: fx_transfer.determining_transfer,
            initiator,
            fxp,
            liable: (self.liable(initiator), self.liable(fxp)),
            source: units(&fx_transfer.source),
            target: units(&fx_transfer.target),
            condition: fx_transfer.condition,
            expires_at: fx_transfer.expires_at,
            ended_seq: if is_reserved { 0 } else { seq },
        };
        if callbacks.len() != 1 || is_reserved && !is_about(&callbacks[0], id, entry.fxp) {
            findings.add(format!("I6: FX transfer {id} is prepared, but {callbacks:?} are owed"));
        }
        if sent.is_none() {
            findings.add(format!("I3: FX transfer {id} is prepared, but no DFSP sent that request"));
        }
        if is_reserved {
            let is_as_sent = sent.is_some_and(|sent| {
                sent.source == sent.initiator
                    && Some(sent.initiator) == self.number_of(entry.initiator)
                    && Some(sent.fxp) == self.number_of(entry.fxp)
                    && Some(sent.transfer) == entry.transfer
                    && money(sent.sold, &fx_transfer.source)
                    && money(sent.bought, &fx_transfer.target)
            });
            if !is_as_sent {
                findings.add(format!(
                    "I3: FX transfer {id} is reserved, but that is not what its initiator sent"
                ));
            }
            self.check_fx_transfer(id, &entry, findings);
            self.fx_transfer_counts.of_payees += u64::from(entry.side == FxTransferSide::Payee);
            let Leg { debtor, amount, .. } = entry.legs().0;
            self.account(debtor).balance += amount;
        }
        if self.fx_transfers.insert(id.id().to_bytes(), entry).is_some() {
            findings.add(format!("I3: FX transfer {id} is prepared twice"));
        }
    }

    /// Checks that an FX transfer is on the side that the order of requests implies, that it is the only one there, and
    /// that it is covered (I4).
    fn check_fx_transfer(&self, id: FxTransferId, entry: &Exchange, findings: &mut Findings) {
        let transfer = entry.transfer.and_then(|id| Some((id, self.transfers.get(&id.to_bytes())?)));
        let is_right = match (entry.side, transfer) {
            (FxTransferSide::Payer, transfer) => transfer.is_none(),
            (FxTransferSide::Payee, None) => false,
            (FxTransferSide::Payee, Some((id, transfer))) => {
                transfer.standing == TransferStage::Reserved
                    && entry.is_of(id, transfer)
                    && (transfer.amount, transfer.currency) == entry.source
            }
        };
        let is_rival = |one: &&Exchange| {
            one.is_live()
                && (one.transfer, one.side, one.initiator) == (entry.transfer, entry.side, entry.initiator)
        };
        if !is_right
            || entry.source.1 == entry.target.1
            || self.fx_transfers.values().any(|one| is_rival(&one))
        {
            findings
                .add(format!("FX transfer {id} is reserved, but its transfer is {transfer:?}: {entry:?}"));
        }
        let Leg { debtor, amount, .. } = entry.legs().0;
        self.check_cover(&format!("FX transfer {id}"), debtor.owner, debtor.currency, amount, findings);
    }

    fn fx_transfer_fulfilled(
        &mut self,
        head: RecordHead<'_>,
        id: FxTransferId,
        fulfilment: &[u8; 32],
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { time, callbacks, .. } = head;
        let Some(entry) = self.fx_transfers.get_mut(&id.id().to_bytes()) else {
            return findings.add(format!("I5: FX transfer {id} is fulfilled, but it was never prepared"));
        };
        if entry.stage != Stage::Reserved {
            findings.add(format!("I5: FX transfer {id} was {:?} and is fulfilled", entry.stage));
        }
        entry.stage = Stage::Fulfilled;
        if Sha256::digest(fulfilment)[..] != entry.condition || time >= entry.expires_at {
            findings.add(format!(
                "FX transfer {id} is fulfilled with a wrong preimage, or after its expiry {}",
                entry.expires_at
            ));
        }
        let (initiator, fxp) = (entry.initiator, entry.fxp);
        let is_fulfil = |ending, good| good && matches!(ending, PutContent::Fulfil { .. });
        if !self.number_of(fxp).is_some_and(|fxp| outside.has_put_fx_transfer(id.id(), fxp, is_fulfil)) {
            findings.add(format!("FX transfer {id} is fulfilled, but its FXP never fulfilled it"));
        }
        if !callbacks.iter().any(|callback| is_about(callback, id, initiator)) {
            findings.add(format!("I6: FX transfer {id} is fulfilled, but its initiator is not notified"));
        }
    }

    fn fx_transfer_committed(
        &mut self,
        head: RecordHead<'_>,
        id: FxTransferId,
        settled: SettlementMode,
        further_settled: Option<SettlementMode>,
        findings: &mut Findings,
    ) {
        let RecordHead { seq, callbacks, .. } = head;
        let Some(entry) = self.end_fx_transfer(seq, id, Stage::Committed, findings) else { return };
        self.fx_transfer_counts.committed += 1;
        let (reserved, further) = entry.legs();
        let what = format!("FX transfer {id}");
        self.settle_leg(&what, reserved, settled, findings);
        if further.is_some() != further_settled.is_some() {
            findings
                .add(format!("FX transfer {id} is committed with {further_settled:?}, it has {further:?}"));
        }
        if let Some((leg, settled)) = further.zip(further_settled) {
            self.account(leg.debtor).balance += leg.amount;
            self.settle_leg(&what, leg, settled, findings);
        }
        if !callbacks.iter().any(|callback| is_about(callback, id, entry.fxp)) {
            findings.add(format!("I6: FX transfer {id} is committed, but its FXP is not notified"));
        }
    }

    fn fx_transfer_aborted(
        &mut self,
        head: RecordHead<'_>,
        id: FxTransferId,
        kind: AbortKind,
        outside: &ObservedMessages,
        findings: &mut Findings,
    ) {
        let RecordHead { seq, time, callbacks } = head;
        let was_fulfilled =
            self.fx_transfers.get(&id.id().to_bytes()).is_some_and(|one| one.stage == Stage::Fulfilled);
        let Some(entry) = self.end_fx_transfer(seq, id, Stage::Aborted, findings) else { return };
        self.fx_transfer_counts.aborted += 1;
        self.fx_transfer_counts.expired += u64::from(kind == AbortKind::Expired);
        let Leg { debtor, amount, .. } = entry.legs().0;
        self.account(debtor).balance -= amount;
        let fxp = self.number_of(entry.fxp);
        let has_put = |is_it: &dyn Fn(PutContent, bool) -> bool| {
            !was_fulfilled && fxp.is_some_and(|fxp| outside.has_put_fx_transfer(id.id(), fxp, is_it))
        };
        let by_itself = match kind {
            AbortKind::Expired => time >= entry.expires_at,
            AbortKind::ByPayee => has_put(&|ending, good| good && matches!(ending, PutContent::Abort(_))),
            AbortKind::InvalidFulfil => {
                has_put(&|ending, good| !good && matches!(ending, PutContent::Fulfil { .. }))
            }
            AbortKind::InvalidAbort => {
                has_put(&|ending, good| !good && matches!(ending, PutContent::Abort(_)))
            }
            AbortKind::Invalid | AbortKind::Rejected => false,
        };
        // The transfers that this record ends come before the FX transfers.
        let with_transfer = self.ended_now.iter().any(|(transfer, is_committed)| {
            let is_of = |found: &Entry| entry.is_of(*transfer, found);
            !is_committed && self.transfers.get(&transfer.to_bytes()).is_some_and(is_of)
        });
        if !(by_itself || with_transfer) {
            findings.add(format!("FX transfer {id} is aborted ({kind:?}) without a cause"));
        }
        if !callbacks.iter().any(|callback| is_about(callback, id, entry.fxp))
            && kind != AbortKind::ByPayee
            && kind != AbortKind::InvalidAbort
        {
            findings.add(format!("I6: FX transfer {id} is aborted ({kind:?}), but its FXP is not notified"));
        }
    }

    fn end_fx_transfer(
        &mut self,
        seq: u64,
        id: FxTransferId,
        stage: Stage,
        findings: &mut Findings,
    ) -> Option<Exchange> {
        let Some(entry) = self.fx_transfers.get_mut(&id.id().to_bytes()) else {
            findings.add(format!("I5: FX transfer {id} was never prepared, but has an outcome"));
            return None;
        };
        if !entry.is_live() || stage == Stage::Committed && entry.stage != Stage::Fulfilled {
            findings.add(format!("I5: FX transfer {id} was {:?} and is {stage:?}", entry.stage));
            return None;
        }
        (entry.stage, entry.ended_seq) = (stage, seq);
        Some(entry.clone())
    }

    /// Checks that an FX transfer and its transfer have the same outcome, in one record (I10).
    pub(super) fn compare_ends(&mut self, seq: u64, findings: &mut Findings) {
        let ended = std::mem::take(&mut self.ended_now);
        for (id, is_committed) in &ended {
            let Some(transfer) = self.transfers.get(&id.to_bytes()) else { continue };
            for one in self.fx_transfers.values().filter(|one| one.is_of(*id, transfer)) {
                let is_unlike = one.ended_seq == seq && (one.stage == Stage::Committed) != *is_committed;
                if one.is_live() || is_unlike {
                    findings.add(format!(
                        "I10: record {seq} ends {id}, but its FX transfer has another outcome: {one:?}"
                    ));
                }
            }
        }
        for one in self.fx_transfers.values().filter(|one| one.ended_seq == seq) {
            let transfer = one.transfer.and_then(|id| Some((id, self.transfers.get(&id.to_bytes())?)));
            let transfer = transfer.filter(|(id, transfer)| one.is_of(*id, transfer));
            let ends = transfer.is_some_and(|(id, _)| ended.contains(&(id, true)));
            let is_left = transfer.is_some_and(|(_, transfer)| transfer.standing == TransferStage::Reserved);
            if one.stage == Stage::Committed && !ends {
                findings
                    .add(format!("I10: record {seq} commits an FX transfer without its transfer: {one:?}"));
            }
            if one.stage == Stage::Aborted && one.side == FxTransferSide::Payer && is_left {
                findings
                    .add(format!("I10: record {seq} aborts an FX transfer, but not its transfer: {one:?}"));
            }
        }
    }

    pub(super) fn number_of(&self, member: u32) -> Option<usize> {
        number(&self.members.get(&member)?.name)
    }
}
