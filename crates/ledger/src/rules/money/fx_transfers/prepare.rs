//! `POST /fxTransfers`: reserves an FX transfer or rejects it.

use alloc::boxed::Box;

use upesi_types::{Amount, Money, Present};

use super::checks::Reservation;
use super::{AskedMoney, DeterminingState, PrepareFxTransfer};
use crate::base::ids::ParticipantId;
use crate::base::refusal::{Cause, Refusal};
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::fx_transfer::{FxTransfer, FxTransferSide, FxTransferState};

impl Ledger {
    pub(super) fn decide_fx_transfer_prepare(
        &self,
        prepare: &PrepareFxTransfer,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let Some(sender) = self.participant_id(&prepare.source) else {
            return out.reply = Reply::UnknownSender(prepare.source);
        };
        match self.find_fx_transfer(Some(prepare.id), facts) {
            Err(ArchiveLookupNeeded) => out.reply = Reply::NeedsArchive,
            Ok(Some(original)) => answer_duplicate(prepare, sender, original, out),
            Ok(None) => {
                let determining = self.determining(prepare.determining_transfer, facts);
                self.prepare_fx_transfer(prepare, sender, determining, facts.present, out);
            }
        }
    }

    /// Reserves or rejects the FX transfer. Its side depends on whether the transfer or the FX transfer arrives first,
    /// and never changes.
    fn prepare_fx_transfer(
        &self,
        prepare: &PrepareFxTransfer,
        sender: ParticipantId,
        determining: DeterminingState<'_>,
        present: Present,
        out: &mut Decision,
    ) {
        let now = present.at;
        let initiator = self.participant_named(&prepare.initiator);
        let fxp = self.participant_named(&prepare.counter_party);
        let side = match determining {
            DeterminingState::Absent => FxTransferSide::Payer,
            DeterminingState::Known(_) | DeterminingState::Final => FxTransferSide::Payee,
        };
        let mut fx_transfer = Box::new(FxTransfer {
            id: prepare.id,
            determining_transfer: prepare.determining_transfer,
            side,
            initiator: initiator.map(|initiator| initiator.id),
            fxp: fxp.map(|fxp| fxp.id),
            source: as_asked(&prepare.source_amount),
            target: as_asked(&prepare.target_amount),
            accounts: None,
            condition: prepare.condition.unwrap_or_default(),
            expires_at: prepare.expires_at.unwrap_or(now),
            prepared_at: now,
            prepare_seq: self.last_seq() + 1,
            prepare_fingerprint: prepare.fingerprint,
            fulfilment: None,
            answer: None,
            state: FxTransferState::Reserved,
        });
        match self.check_fx_transfer(prepare, initiator, fxp, determining, present) {
            Ok(Reservation { fxp, accounts }) => {
                fx_transfer.accounts = Some(accounts);
                out.notify_of_fx_transfer(fxp, prepare.id.id(), CallbackContent::ForwardPrepare);
            }
            Err(refusal) => {
                let kind = refusal.kind();
                let cause = Cause::Hub(refusal);
                out.notify_of_fx_transfer(sender, prepare.id.id(), CallbackContent::Error(cause.clone()));
                fx_transfer.state = FxTransferState::Aborted { kind, cause, at: now };
            }
        }
        out.events.push(Event::FxTransferPrepared(fx_transfer));
    }
}

/// Answers a repeated id. A resend receives the current state, and a modified request is rejected. The original is
/// unchanged in both cases.
fn answer_duplicate(
    prepare: &PrepareFxTransfer,
    sender: ParticipantId,
    original: &FxTransfer,
    out: &mut Decision,
) {
    let id = prepare.id.id();
    if original.prepare_fingerprint != prepare.fingerprint {
        out.notify_fx_transfer_error(sender, id, Refusal::Modified);
    } else if prepare.source != prepare.initiator {
        out.notify_fx_transfer_error(sender, id, Refusal::SourceNotPayer);
    } else {
        out.notify_of_fx_transfer(sender, id, CallbackContent::State(StateMethod::Put, original.view()));
    }
}

fn as_asked(asked: &AskedMoney) -> Money {
    Money { amount: *asked.amount.as_ref().unwrap_or(&Amount::ZERO), currency: asked.currency }
}
