//! Enters FX transfers, and checks their reservations, their ends, and the callbacks about them.

use sha2::{Digest, Sha256};
use upesi_ledger::{
    AbortKind, CallbackContent, Event, FxTransfer, FxTransferSide, LedgerAccountTypeId, ParticipantId,
    SettlementMode, TransferState,
};
use upesi_types::{FxTransferId, Money, TransferId};

use super::Books;
use crate::audit::entry::CheckResult;
use crate::audit::fx_transfers::{Link, LiveFxTransfer};
use crate::audit::judge::RecordContext;

/// A transfer that a record ends.
#[derive(Clone, Copy)]
struct EndedTransfer {
    id: TransferId,
    /// Absent if it is committed.
    abort: Option<AbortKind>,
}

impl Books {
    pub(super) fn enter_fx_transfer(
        &mut self,
        place: RecordContext<'_>,
        event: &Event,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        match event {
            Event::FxTransferPrepared(fx_transfer) => self.fx_transfer_prepared(place, fx_transfer, findings),
            Event::FxTransferFulfilled { id, fulfilment, .. } => {
                let live = self.fx_transfers.live.get_mut(id);
                let live = live.ok_or_else(|| format!("FX transfer {id} is fulfilled, but not in flight"))?;
                let find = |text: &str| format!("record {}: FX transfer {id} {text}", place.seq);
                if std::mem::replace(&mut live.is_fulfilled, true) {
                    return Err(format!("FX transfer {id} is fulfilled twice"));
                }
                if Sha256::digest(fulfilment).as_slice() != live.condition {
                    findings
                        .push(find("is fulfilled with a value that is not the preimage of its condition"));
                }
                if live.expires_at <= place.time {
                    findings.push(find("is fulfilled although it expired"));
                }
                if told(place, *id, live.initiator, |said| *said == CallbackContent::ForwardFulfil) != 1 {
                    findings.push(find("is fulfilled, but its initiator is not notified exactly once"));
                }
                Ok(())
            }
            Event::FxTransferCommitted { id, settled, further } => {
                self.fx_transfer_committed(place, *id, *settled, *further, findings)
            }
            Event::FxTransferAborted { id, kind, .. } => {
                self.fx_transfer_aborted(place, *id, *kind, findings)
            }
            _ => Ok(()),
        }
    }

    fn fx_transfer_prepared(
        &mut self,
        place: RecordContext<'_>,
        fx_transfer: &FxTransfer,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        let id = fx_transfer.id;
        let mut find = |text: &str| findings.push(format!("record {}: FX transfer {id} {text}", place.seq));
        if self.fx_transfers.live.contains_key(&id) {
            return Err(format!("FX transfer {id} is prepared again while it is in flight"));
        }
        if fx_transfer.prepare_seq != place.seq {
            find("claims to be of another record");
        }
        if !fx_transfer.is_live() {
            let told = place.callbacks.iter().filter(|callback| {
                matches!(callback.content, CallbackContent::Error(_))
                    && callback.subject.id.id() == Some(id.id())
            });
            if told.count() != 1 {
                find("is rejected, but its sender is not notified exactly once");
            }
            if let (FxTransferSide::Payer, Some(transfer), Some(initiator)) =
                (fx_transfer.side, fx_transfer.determining_transfer, fx_transfer.initiator)
            {
                self.fx_transfers.ended.insert((transfer, initiator), place.seq);
            }
            return Ok(());
        }
        let live = LiveFxTransfer::of(fx_transfer)
            .ok_or_else(|| format!("FX transfer {id} is reserved without parties or accounts"))?;
        if self.fx_transfers.links.contains_key(&live.link) {
            return Err(format!("FX transfer {id} is the second of its initiator for one transfer"));
        }
        for text in self.faults_of_reservation(place, fx_transfer, &live) {
            find(&text);
        }
        if told(place, id, live.fxp, |said| *said == CallbackContent::ForwardPrepare) != 1 {
            find("is reserved, but not forwarded exactly once");
        }
        if live.pending().any(|(_, units)| units < 0) {
            return Err(format!("FX transfer {id} reserves an amount below zero"));
        }
        self.scheme.post(live.reserved.debtor, live.reserved.units)?;
        for (account, units) in live.pending() {
            self.scheme.note_pending(account, units)?;
        }
        self.fx_transfers.insert(id, live);
        Ok(())
    }

    /// Checks a reservation: accounts are the parties' active positions, the debtor stays within cover and cap, and on
    /// the payee's side the whole amount of a transfer in flight is sold.
    fn faults_of_reservation(
        &self,
        place: RecordContext<'_>,
        fx_transfer: &FxTransfer,
        live: &LiveFxTransfer,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let position = LedgerAccountTypeId::POSITION;
        let (source, target) = (fx_transfer.source.currency, fx_transfer.target.currency);
        let Some(accounts) = fx_transfer.accounts else { return faults };
        let own = [
            (live.initiator, source, Some(accounts.initiator_source)),
            (live.initiator, target, accounts.initiator_target),
            (live.fxp, source, Some(accounts.fxp_source)),
            (live.fxp, target, Some(accounts.fxp_target)),
        ];
        for (owner, currency, account) in own.into_iter().filter(|(_, _, account)| account.is_some()) {
            if self.scheme.account_id_of(owner, currency, position) != account {
                faults.push("is reserved on an account that is not its party's position".to_owned());
            }
        }
        for owner in [live.initiator, live.fxp] {
            if !self.scheme.is_active(owner) {
                faults.push("is reserved although a party is not active".to_owned());
            }
        }
        if source == target {
            faults.push("converts a currency into itself".to_owned());
        }
        if fx_transfer.expires_at < place.time {
            faults.push("is reserved although it expired".to_owned());
        }
        let (debtor, money) = match fx_transfer.side {
            FxTransferSide::Payer => (live.initiator, fx_transfer.source),
            FxTransferSide::Payee => (live.fxp, fx_transfer.target),
        };
        let units = i128::from(money.amount.units());
        let before =
            self.scheme.account_of(debtor, money.currency, position).map_or(0, |account| account.units);
        let kind = self.scheme.settlement_type(money.currency);
        let cover = kind.and_then(|kind| self.scheme.account_of(debtor, money.currency, kind));
        if before + units > cover.map_or(0, |account| -account.units) {
            faults.push("takes its debtor's position over its cover".to_owned());
        } else if before + units > self.scheme.cap(debtor, money.currency) {
            faults.push("takes its debtor's position over its cap".to_owned());
        }
        if fx_transfer.side == FxTransferSide::Payee && !self.is_payee_with(live, fx_transfer.source) {
            faults.push("its target amount differs from the amount of its transfer".to_owned());
        }
        faults
    }

    fn is_payee_with(&self, live: &LiveFxTransfer, source: Money) -> bool {
        self.transfer_in_flight(live.link.transfer).is_some_and(|transfer| {
            transfer.payee == live.initiator
                && transfer.units == i128::from(source.amount.units())
                && live.further.is_some_and(|movement| movement.debtor == transfer.payee_account)
        })
    }

    fn fx_transfer_committed(
        &mut self,
        place: RecordContext<'_>,
        id: FxTransferId,
        settled: SettlementMode,
        further: Option<SettlementMode>,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        let live = self.fx_transfers.take(id)?;
        for (account, units) in live.pending() {
            self.scheme.note_pending(account, -units)?;
        }
        let mut find = |text: &str| findings.push(format!("record {}: FX transfer {id} {text}", place.seq));
        if !live.is_fulfilled {
            find("is committed without having been fulfilled");
        }
        let is_with_transfer =
            ended_by(place).any(|ended| ended.id == live.link.transfer && ended.abort.is_none());
        if !is_with_transfer {
            find("is committed without its transfer");
        }
        if told(place, id, live.fxp, |said| matches!(said, CallbackContent::State(..))) != 1 {
            find("is committed, but its FXP is not notified exactly once");
        }
        if live.further.is_some() != further.is_some() {
            return Err(format!("FX transfer {id} is committed with another number of movements"));
        }
        let judged = self.judge_settled(live.reserved, settled);
        findings.extend(judged.map(|text| format!("record {}: FX transfer {id} {text}", place.seq)));
        self.settle_commit(live.reserved, settled)?;
        if let Some((movement, settled)) = live.further.zip(further) {
            let judged = self.judge_settled(movement, settled);
            findings.extend(judged.map(|text| format!("record {}: FX transfer {id} {text}", place.seq)));
            // A movement that is settled immediately never reaches the debtor's position.
            match settled {
                SettlementMode::InWindow => {
                    self.scheme.post(movement.debtor, movement.units)?;
                    self.settle_commit(movement, settled)?;
                }
                SettlementMode::AtOnce { payer, payee } => {
                    self.scheme.post(payer, movement.units)?;
                    self.scheme.post(payee, -movement.units)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the open window takes a transfer although its model settles immediately, because the window takes the
    /// amount that the payee passes on. The payee's position could otherwise overflow.
    pub(super) fn makes_room(
        &self,
        place: RecordContext<'_>,
        transfer: TransferId,
        settled: SettlementMode,
    ) -> bool {
        settled == SettlementMode::InWindow
            && place.events.iter().any(|event| match event {
                Event::FxTransferCommitted { id, further: Some(SettlementMode::InWindow), .. } => {
                    self.fx_transfers.live.get(id).is_some_and(|live| live.link.transfer == transfer)
                }
                _ => false,
            })
    }

    fn fx_transfer_aborted(
        &mut self,
        place: RecordContext<'_>,
        id: FxTransferId,
        kind: AbortKind,
        findings: &mut Vec<String>,
    ) -> CheckResult {
        let live = self.fx_transfers.take(id)?;
        for (account, units) in live.pending() {
            self.scheme.note_pending(account, -units)?;
        }
        let mut find = |text: &str| findings.push(format!("record {}: FX transfer {id} {text}", place.seq));
        let with = ended_by(place).find(|ended| ended.id == live.link.transfer);
        if with.is_none() && live.link.side == FxTransferSide::Payer.number() {
            self.fx_transfers.ended.insert((live.link.transfer, live.link.initiator), place.seq);
        }
        match with {
            Some(EndedTransfer { abort: None, .. }) => find("is aborted although its transfer is committed"),
            Some(EndedTransfer { abort: Some(other), .. }) if other == kind => {}
            _ if kind == AbortKind::Expired && live.expires_at > place.time => {
                find("expires before its time")
            }
            _ if kind != AbortKind::Expired && live.is_fulfilled => {
                find("is fulfilled and aborted without its transfer");
            }
            _ => {}
        }
        let parties = [live.initiator, live.fxp];
        let is_told = |party| told(place, id, party, |said| *said != CallbackContent::ForwardPrepare) > 0;
        if (with.is_none() || kind == AbortKind::Expired) && !is_told(live.initiator) {
            find("is aborted, but its initiator is not notified");
        }
        if kind == AbortKind::Expired && !parties.into_iter().all(is_told) {
            find("expires, but not both parties are notified");
        }
        self.scheme.post(live.reserved.debtor, -live.reserved.units)
    }

    /// Checks that no FX transfer remains of the transfers that a record ended.
    pub(super) fn check_none_left_behind(
        &self,
        seq: u64,
        ended: &[(TransferId, ParticipantId, ParticipantId)],
        findings: &mut Vec<String>,
    ) {
        for (transfer, payer, payee) in ended {
            for (side, party) in [(FxTransferSide::Payer, payer), (FxTransferSide::Payee, payee)] {
                let link = Link { transfer: *transfer, side: side.number(), initiator: *party };
                if let Some(id) = self.fx_transfers.links.get(&link) {
                    findings.push(format!(
                        "record {seq}: FX transfer {id} is still in flight although its transfer {transfer} has ended"
                    ));
                }
            }
        }
    }
}

/// The transfers that a record ends, including rejected ones.
fn ended_by(place: RecordContext<'_>) -> impl Iterator<Item = EndedTransfer> {
    place.events.iter().filter_map(|event| match event {
        Event::TransferCommitted { id, .. } => Some(EndedTransfer { id: *id, abort: None }),
        Event::TransferAborted { id, kind, .. } => Some(EndedTransfer { id: *id, abort: Some(*kind) }),
        Event::TransferPrepared(transfer) => match &transfer.state {
            TransferState::Aborted(end) => Some(EndedTransfer { id: transfer.id, abort: Some(end.kind) }),
            _ => None,
        },
        _ => None,
    })
}

/// Number of callbacks of a certain kind to a party about an FX transfer.
fn told(
    place: RecordContext<'_>,
    id: FxTransferId,
    target: ParticipantId,
    is_right: impl Fn(&CallbackContent) -> bool,
) -> usize {
    let about = place.callbacks.iter().filter(|callback| {
        callback.target == target
            && callback.subject.resource == upesi_ledger::ResourceKind::FxTransfer
            && callback.subject.id.id() == Some(id.id())
            && is_right(&callback.content)
    });
    about.count()
}
