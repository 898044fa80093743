//! Links FX transfers to their transfers: a transfer needs its FX transfers, and they end with it, in one record.

use alloc::vec::Vec;

use upesi_types::{ConversionId, Money, Timestamp, TransferId};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{AbortKind, Cause, Refusal};
use crate::core::actor::Actor;
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::conversion::{Conversion, ConversionLeg, ConversionSide, ConversionState};
use crate::money::transfer::{PublicState, Settled, Transfer, TransferState, TransferView};
use crate::rules::money::conversions::put::{aborted_patch, end, expire_conversion};
use crate::rules::money::prepare::{Prepare, active};
use crate::scheme::participant::Participant;

impl Ledger {
    /// The FX transfer that funds a payer's new transfer. FX transfers of other initiators and ended ones are
    /// ignored.
    pub(crate) fn payers_conversion(
        &self,
        prepare: &Prepare,
        payer: Option<&Participant>,
    ) -> Option<&Conversion> {
        let payer = payer.filter(|_| prepare.source == prepare.payer)?;
        self.conversions.linked(prepare.id, ConversionSide::Payer, Some(payer.id))
    }

    /// Returns the FXP and its account that pay a transfer after conversion.
    pub(crate) fn check_converted(
        &self,
        conversion: &Conversion,
        money: Money,
        now: Timestamp,
    ) -> Result<(&Participant, &Account), Refusal> {
        if !is_fulfilled(conversion, now) {
            return Err(Refusal::ConversionUnfulfilled);
        }
        if conversion.target != money {
            return Err(Refusal::ConversionDiffers);
        }
        let fxp = conversion.fxp.map(|fxp| self.participant(fxp));
        let Some(fxp) = fxp else { unreachable!("a live FX transfer has an FXP") };
        let fxp = active(Some(fxp), &fxp.name)?;
        Ok((fxp, self.active_position_account(fxp, money.currency)?))
    }

    /// The deadline for fulfilling a reserved transfer. The payer's FX transfer may expire before the transfer itself.
    pub(crate) fn deadline(&self, transfer: &Transfer) -> Timestamp {
        let payers = self.conversions.linked(transfer.id, ConversionSide::Payer, transfer.payer);
        payers.map_or(transfer.expires_at, |conversion| conversion.expires_at.min(transfer.expires_at))
    }

    /// Whether a transfer cannot be committed yet because its payee has requested an FX transfer that is not fulfilled.
    pub(crate) fn awaits_conversion(&self, transfer: &Transfer, now: Timestamp) -> bool {
        let payees = self.conversions.linked(transfer.id, ConversionSide::Payee, transfer.payee);
        payees.is_some_and(|conversion| !is_fulfilled(conversion, now))
    }

    /// Ends the FX transfers of every transfer that the decision ends. They are committed with it, or aborted for the
    /// same cause. The rejection of a new transfer also ends its payer's FX transfer.
    pub(crate) fn cascade(&self, now: Timestamp, out: &mut Decision) {
        let ended: Vec<_> = out.events.iter().flat_map(|event| self.ended_by(event, out)).collect();
        for (conversion, abort) in ended {
            match abort {
                None => self.commit_conversion(conversion, now, out),
                Some((AbortKind::Expired, _)) => expire_conversion(conversion, None, out),
                Some((kind, cause)) => abort_with_transfer(conversion, kind, cause, now, out),
            }
        }
    }

    /// The FX transfers that an event of a transfer ends, with kind and cause if the transfer is aborted.
    fn ended_by(
        &self,
        event: &Event,
        out: &Decision,
    ) -> impl Iterator<Item = (&Conversion, Option<(AbortKind, Cause)>)> {
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
        let linked = [(ConversionSide::Payer, payer), (ConversionSide::Payee, payee)]
            .map(|(side, party)| self.conversions.linked(id, side, party));
        let is_live = |conversion: &&Conversion| !is_aborted_by(&out.events, conversion.id);
        let ended: Vec<_> = linked.into_iter().flatten().filter(is_live).collect();
        Some(ended.into_iter().map(move |conversion| (conversion, abort.clone()))).into_iter().flatten()
    }

    /// Commits an FX transfer and informs the FXP. The initiator is informed by the transfer's own callback.
    fn commit_conversion(&self, conversion: &Conversion, now: Timestamp, out: &mut Decision) {
        let Some((reserved, passed_on)) = conversion.legs() else { unreachable!("a live one has accounts") };
        let settled_behind = |leg: ConversionLeg, events: &[Event]| {
            self.settled_by_commit(leg.debtor, leg.creditor, leg.money.amount, events)
        };
        let id = conversion.id;
        let settled = settled_behind(reserved, &out.events);
        out.events.push(Event::ConversionCommitted { id, settled, further: None });
        let further = passed_on.map(|leg| settled_behind(leg, &out.events));
        if let Some(Event::ConversionCommitted { further: recorded, .. }) = out.events.last_mut() {
            *recorded = further;
        }
        if let Some((leg, Settled::InWindow)) = passed_on.zip(further) {
            self.make_room_for(leg, conversion.determining_transfer, &mut out.events);
        }
        let view = TransferView {
            state: PublicState::Committed,
            completed_at: Some(now),
            fulfilment: None,
            extensions: None,
            cause: None,
        };
        tell_fxp(conversion, CallbackContent::State(StateMethod::Patch, view), out);
    }

    /// Makes sure that the payee's position can hold the amount that the payee passes on. If the transfer was settled
    /// immediately, it did not lower the position first. In that case the transfer is added to the open window instead.
    fn make_room_for(&self, leg: ConversionLeg, transfer: Option<TransferId>, events: &mut [Event]) {
        if self.account_ref(leg.debtor).balance.checked_add(leg.money.amount).is_some() {
            return;
        }
        for event in events {
            match event {
                Event::TransferCommitted { id, settled, .. } if Some(*id) == transfer => {
                    *settled = Settled::InWindow;
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
    pub(crate) fn expire_conversions(&self, now: Timestamp, max: usize, out: &mut Decision) {
        for conversion in self.conversions.due(now).take(max) {
            let transfer = conversion.determining_transfer.and_then(|id| self.transfer(id));
            let transfer = transfer.filter(|transfer| {
                let party = match conversion.side {
                    ConversionSide::Payer => transfer.payer,
                    ConversionSide::Payee => transfer.payee,
                };
                transfer.state == TransferState::Reserved && party == conversion.initiator
            });
            match transfer {
                // The cascade ends it.
                Some(transfer) if is_ended_by(&out.events, transfer.id) => {}
                Some(transfer) if conversion.side == ConversionSide::Payer => {
                    self.expire(transfer, None, now, out);
                }
                _ => expire_conversion(conversion, None, out),
            }
        }
    }
}

fn is_fulfilled(conversion: &Conversion, now: Timestamp) -> bool {
    conversion.state == ConversionState::Fulfilled && conversion.expires_at > now
}

fn is_ended_by(events: &[Event], transfer: TransferId) -> bool {
    events.iter().any(|event| matches!(event, Event::TransferAborted { id, .. } if *id == transfer))
}

fn is_aborted_by(events: &[Event], conversion: ConversionId) -> bool {
    events.iter().any(|event| matches!(event, Event::ConversionAborted { id, .. } if *id == conversion))
}

/// Aborts an FX transfer together with its transfer and informs the FXP, by PATCH if it has fulfilled. The initiator is
/// informed by the transfer's own callback.
fn abort_with_transfer(
    conversion: &Conversion,
    kind: AbortKind,
    cause: Cause,
    now: Timestamp,
    out: &mut Decision,
) {
    let content = match conversion.state {
        ConversionState::Fulfilled => aborted_patch(&cause, now),
        _ => CallbackContent::Error(cause.clone()),
    };
    tell_fxp(conversion, content, out);
    end(conversion, kind, cause, None, out);
}

fn tell_fxp(conversion: &Conversion, content: CallbackContent, out: &mut Decision) {
    if let Some(fxp) = conversion.fxp {
        out.tell_of_conversion(fxp, conversion.id.id(), content);
    }
}
