//! Links FX transfers to their transfers: a transfer needs its FX transfers, and they end with it, in one record.

use alloc::vec::Vec;

use upesi_types::{FxTransferId, Money, Timestamp, TransferId};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::actor::Actor;
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::fx_transfer::{FxTransfer, FxTransferLeg, FxTransferSide, FxTransferState};
use crate::money::transfer::{PublicState, SettlementMode, Transfer, TransferState, TransferView};
use crate::rules::money::fx_transfers::put::{aborted_patch, end, expire_fx_transfer};
use crate::rules::money::prepare::{Prepare, active};
use crate::scheme::participant::Participant;

impl Ledger {
    /// The FX transfer that funds a payer's new transfer. FX transfers of other initiators and ended ones are
    /// ignored.
    pub(crate) fn payers_fx_transfer(
        &self,
        prepare: &Prepare,
        payer: Option<&Participant>,
    ) -> Option<&FxTransfer> {
        let payer = payer.filter(|_| prepare.source == prepare.payer)?;
        self.fx_transfers.linked(prepare.id, FxTransferSide::Payer, Some(payer.id))
    }

    /// Returns the FXP and its account that pay a transfer after conversion.
    pub(crate) fn check_converted(
        &self,
        fx_transfer: &FxTransfer,
        money: Money,
        now: Timestamp,
    ) -> Result<(&Participant, &Account), Refusal> {
        if !is_fulfilled(fx_transfer, now) {
            return Err(Refusal::FxTransferUnfulfilled);
        }
        if fx_transfer.target != money {
            return Err(Refusal::FxTransferDiffers);
        }
        let fxp = fx_transfer.fxp.map(|fxp| self.participant(fxp));
        let Some(fxp) = fxp else { unreachable!("a live FX transfer has an FXP") };
        let fxp = active(Some(fxp), &fxp.name)?;
        Ok((fxp, self.active_position_account(fxp, money.currency)?))
    }

    /// The deadline for fulfilling a reserved transfer. The payer's FX transfer may expire before the transfer itself.
    pub(crate) fn deadline(&self, transfer: &Transfer) -> Timestamp {
        let payers = self.fx_transfers.linked(transfer.id, FxTransferSide::Payer, transfer.payer);
        payers.map_or(transfer.expires_at, |fx_transfer| fx_transfer.expires_at.min(transfer.expires_at))
    }

    /// Whether a transfer cannot be committed yet because its payee has requested an FX transfer that is not fulfilled.
    pub(crate) fn awaits_fx_transfer(&self, transfer: &Transfer, now: Timestamp) -> bool {
        let payees = self.fx_transfers.linked(transfer.id, FxTransferSide::Payee, transfer.payee);
        payees.is_some_and(|fx_transfer| !is_fulfilled(fx_transfer, now))
    }

    /// Ends the FX transfers of every transfer that the decision ends. They are committed with it, or aborted for the
    /// same cause. The rejection of a new transfer also ends its payer's FX transfer.
    pub(crate) fn cascade(&self, now: Timestamp, out: &mut Decision) {
        let ended: Vec<_> = out.events.iter().flat_map(|event| self.ended_by(event, out)).collect();
        for (fx_transfer, abort) in ended {
            match abort {
                None => self.commit_fx_transfer(fx_transfer, now, out),
                Some((AbortKind::Expired, _)) => expire_fx_transfer(fx_transfer, None, out),
                Some((kind, cause)) => abort_with_transfer(fx_transfer, kind, cause, now, out),
            }
        }
    }

    /// The FX transfers that an event of a transfer ends, with kind and cause if the transfer is aborted.
    fn ended_by(
        &self,
        event: &Event,
        out: &Decision,
    ) -> impl Iterator<Item = (&FxTransfer, Option<(AbortKind, Cause)>)> {
        let (id, abort, (payer, payee)) = match event {
            Event::TransferCommitted { id, .. } => (*id, None, self.parties_of(*id)),
            Event::TransferAborted { id, kind, cause, .. } => {
                (*id, Some((*kind, cause.clone())), self.parties_of(*id))
            }
            Event::TransferPrepared(transfer) => match &transfer.state {
                TransferState::Aborted(end) => {
                    let payer = transfer.payer.filter(|payer| {
                        matches!(out.actor, Actor::Dfsp(source) if self.participant(*payer).name == source)
                    });
                    (transfer.id, Some((end.kind, end.cause.clone())), (payer, None))
                }
                _ => (transfer.id, None, (None, None)),
            },
            _ => return None.into_iter().flatten(),
        };
        let linked = [(FxTransferSide::Payer, payer), (FxTransferSide::Payee, payee)]
            .map(|(side, party)| self.fx_transfers.linked(id, side, party));
        let is_live = |fx_transfer: &&FxTransfer| !is_aborted_by(&out.events, fx_transfer.id);
        let ended: Vec<_> = linked.into_iter().flatten().filter(is_live).collect();
        Some(ended.into_iter().map(move |fx_transfer| (fx_transfer, abort.clone()))).into_iter().flatten()
    }

    /// Commits an FX transfer and informs the FXP. The initiator is informed by the transfer's own callback.
    fn commit_fx_transfer(&self, fx_transfer: &FxTransfer, now: Timestamp, out: &mut Decision) {
        let Some((reserved, passed_on)) = fx_transfer.legs() else { unreachable!("a live one has accounts") };
        let settled_behind = |leg: FxTransferLeg, events: &[Event]| {
            self.settled_by_commit(leg.debtor, leg.creditor, leg.money.amount, events)
        };
        let id = fx_transfer.id;
        let settled = settled_behind(reserved, &out.events);
        out.events.push(Event::FxTransferCommitted { id, settled, further: None });
        let further = passed_on.map(|leg| settled_behind(leg, &out.events));
        if let Some(Event::FxTransferCommitted { further: recorded, .. }) = out.events.last_mut() {
            *recorded = further;
        }
        if let Some((leg, SettlementMode::InWindow)) = passed_on.zip(further) {
            self.make_room_for(leg, fx_transfer.determining_transfer, &mut out.events);
        }
        let view = TransferView {
            state: PublicState::Committed,
            completed_at: Some(now),
            fulfilment: None,
            extensions: None,
            cause: None,
        };
        notify_fxp(fx_transfer, CallbackContent::State(StateMethod::Patch, view), out);
    }

    /// Makes sure that the payee's position can hold the amount that the payee passes on. If the transfer was settled
    /// immediately, it did not lower the position first. In that case the transfer is added to the open window instead.
    fn make_room_for(&self, leg: FxTransferLeg, transfer: Option<TransferId>, events: &mut [Event]) {
        if self.account_ref(leg.debtor).balance.checked_add(leg.money.amount).is_some() {
            return;
        }
        for event in events {
            match event {
                Event::TransferCommitted { id, settled, .. } if Some(*id) == transfer => {
                    *settled = SettlementMode::InWindow;
                }
                _ => {}
            }
        }
    }

    fn parties_of(&self, id: TransferId) -> (Option<ParticipantId>, Option<ParticipantId>) {
        self.transfer(id).map_or((None, None), |transfer| (transfer.payer, transfer.payee))
    }

    /// Expires FX transfers whose deadline has passed. The payer's FX transfer also ends its reserved transfer. The
    /// payee's FX transfer does not, because the payee may convert elsewhere.
    pub(crate) fn expire_fx_transfers(&self, now: Timestamp, max: usize, out: &mut Decision) {
        for fx_transfer in self.fx_transfers.due(now).take(max) {
            let transfer = fx_transfer.determining_transfer.and_then(|id| self.transfer(id));
            let transfer = transfer.filter(|transfer| {
                let party = match fx_transfer.side {
                    FxTransferSide::Payer => transfer.payer,
                    FxTransferSide::Payee => transfer.payee,
                };
                transfer.state == TransferState::Reserved && party == fx_transfer.initiator
            });
            match transfer {
                // The cascade ends it.
                Some(transfer) if is_ended_by(&out.events, transfer.id) => {}
                Some(transfer) if fx_transfer.side == FxTransferSide::Payer => {
                    self.expire(transfer, None, now, out);
                }
                _ => expire_fx_transfer(fx_transfer, None, out),
            }
        }
    }
}

fn is_fulfilled(fx_transfer: &FxTransfer, now: Timestamp) -> bool {
    fx_transfer.state == FxTransferState::Fulfilled && fx_transfer.expires_at > now
}

fn is_ended_by(events: &[Event], transfer: TransferId) -> bool {
    events.iter().any(|event| matches!(event, Event::TransferAborted { id, .. } if *id == transfer))
}

fn is_aborted_by(events: &[Event], fx_transfer: FxTransferId) -> bool {
    events.iter().any(|event| matches!(event, Event::FxTransferAborted { id, .. } if *id == fx_transfer))
}

/// Aborts an FX transfer together with its transfer and informs the FXP, by PATCH if it has fulfilled. The initiator is
/// informed by the transfer's own callback.
fn abort_with_transfer(
    fx_transfer: &FxTransfer,
    kind: AbortKind,
    cause: Cause,
    now: Timestamp,
    out: &mut Decision,
) {
    let content = match fx_transfer.state {
        FxTransferState::Fulfilled => aborted_patch(&cause, now),
        _ => CallbackContent::Error(cause.clone()),
    };
    notify_fxp(fx_transfer, content, out);
    end(fx_transfer, kind, cause, None, out);
}

fn notify_fxp(fx_transfer: &FxTransfer, content: CallbackContent, out: &mut Decision) {
    if let Some(fxp) = fx_transfer.fxp {
        out.notify_of_fx_transfer(fxp, fx_transfer.id.id(), content);
    }
}
