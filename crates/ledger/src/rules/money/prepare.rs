//! Decides `POST /transfers`: reserves the amount on the payer's position or rejects the transfer.

use alloc::boxed::Box;

use upesi_types::{Amount, Currency, FspId, Money, Present, Timestamp, TransferId, UnfitAmount};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::base::refusal::{Cause, Refusal};
use crate::core::callback::{CallbackContent, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::fx_transfer::FxTransfer;
use crate::money::transfer::{Aborted, Fingerprint, Transfer, TransferState};
use crate::scheme::participant::Participant;

/// A prepare as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// `transferId`.
    pub id: TransferId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`, if there is one.
    pub destination: Option<FspId>,
    /// `payerFsp`.
    pub payer: FspId,
    /// `payeeFsp`.
    pub payee: FspId,
    /// `amount.amount`. If it does not fit the ledger, the text is retained.
    pub amount: Result<Amount, UnfitAmount>,
    /// `amount.currency`.
    pub currency: Currency,
    /// `condition`; absent if it is not 32 bytes.
    pub condition: Option<[u8; 32]>,
    /// `expiration`.
    pub expires_at: Timestamp,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// A prepare that may be reserved.
struct Reservation {
    payee: ParticipantId,
    payer_account: AccountId,
    payee_account: AccountId,
}

impl Ledger {
    pub(crate) fn decide_prepare(&self, prepare: &Prepare, facts: &DecisionInput<'_>, out: &mut Decision) {
        let Some(sender) = self.participant_id(&prepare.source) else {
            return out.reply = Reply::UnknownSender(prepare.source);
        };
        if self.is_item_of_bulk(prepare.id) {
            return out.notify_error(sender, prepare.id, Refusal::Modified);
        }
        match self.find(&prepare.id.into(), facts) {
            Err(ArchiveLookupNeeded) => out.reply = Reply::NeedsArchive,
            Ok(Some(original)) => self.answer_duplicate_prepare(prepare, sender, original, out),
            // An id must identify only one object.
            Ok(None) if self.funds(prepare.id).is_some() => {
                out.notify_error(sender, prepare.id, Refusal::Modified);
            }
            Ok(None) => self.decide_new_prepare(prepare, sender, facts.present, out),
        }
    }

    fn decide_new_prepare(
        &self,
        prepare: &Prepare,
        sender: ParticipantId,
        present: Present,
        out: &mut Decision,
    ) {
        let payer = if prepare.payer == prepare.source {
            Some(self.participant(sender))
        } else {
            self.participant_named(&prepare.payer)
        };
        let payee = self.participant_named(&prepare.payee);
        let fx_transfer = self.payers_fx_transfer(prepare, payer);
        match self.reserve(prepare, payer, payee, fx_transfer, present, out) {
            Ok(payee) => out.notify(payee, prepare.id, CallbackContent::ForwardPrepare),
            Err(cause) => out.notify(sender, prepare.id, CallbackContent::Error(cause)),
        }
    }

    /// Records a new transfer, reserved or rejected. Returns the payee, or the cause of the rejection.
    pub(crate) fn reserve(
        &self,
        prepare: &Prepare,
        payer: Option<&Participant>,
        payee: Option<&Participant>,
        fx_transfer: Option<&FxTransfer>,
        present: Present,
        out: &mut Decision,
    ) -> Result<ParticipantId, Cause> {
        let now = present.at;
        let mut transfer = Transfer {
            id: prepare.id,
            payer: payer.map(|payer| payer.id),
            payee: payee.map(|payee| payee.id),
            payer_account: None,
            payee_account: None,
            amount: *prepare.amount.as_ref().unwrap_or(&Amount::ZERO),
            currency: prepare.currency,
            condition: prepare.condition.unwrap_or_default(),
            expires_at: prepare.expires_at,
            prepared_at: now,
            prepare_seq: self.last_seq() + 1,
            prepare_fingerprint: prepare.fingerprint,
            extensions: prepare.extensions.clone(),
            state: TransferState::Reserved,
        };
        let outcome = match self.check_prepare(prepare, payer, payee, fx_transfer, present) {
            Ok(reservation) => {
                transfer.payer_account = Some(reservation.payer_account);
                transfer.payee_account = Some(reservation.payee_account);
                Ok(reservation.payee)
            }
            Err(refusal) => {
                let kind = refusal.kind();
                let cause = Cause::Hub(refusal);
                let reason = cause.clone();
                let end = Aborted { kind, cause, fingerprint: None, operator_reason: None, at: now };
                transfer.state = end.into();
                Err(reason)
            }
        };
        out.events.push(Event::TransferPrepared(transfer));
        outcome
    }

    /// Checks the rules for a prepare. The first violation is reported.
    fn check_prepare(
        &self,
        prepare: &Prepare,
        payer: Option<&Participant>,
        payee: Option<&Participant>,
        fx_transfer: Option<&FxTransfer>,
        present: Present,
    ) -> Result<Reservation, Refusal> {
        if prepare.source != prepare.payer {
            return Err(Refusal::SourceNotPayer);
        }
        let amount = match &prepare.amount {
            Ok(amount) => *amount,
            Err(UnfitAmount { error, text }) => {
                return Err(Refusal::AmountUnfit { text: text.clone(), error: *error });
            }
        };
        if amount <= Amount::ZERO {
            return Err(Refusal::AmountNotPositive { amount });
        }
        let payer = active(payer, &prepare.payer)?;
        let payee = active(payee, &prepare.payee)?;
        if prepare.destination.is_some_and(|destination| !destination.eq_ignore_case(&prepare.payee)) {
            return Err(Refusal::DestinationNotPayee);
        }
        if prepare.condition.is_none() {
            return Err(Refusal::ConditionInvalid);
        }
        self.check_expiration(prepare.expires_at, present)?;
        if self.are_same_participant(payer, payee) && !self.config().on_us_transfers {
            return Err(Refusal::PartiesEqual);
        }
        // If the payer has converted, an FXP pays.
        let (debtor, payer_account) = match fx_transfer {
            None => {
                if let Some(ended) = self.fx_transfers.ended.get(prepare.id, payer.id) {
                    return Err(ended.refusal());
                }
                (self.liable(payer), self.active_position_account(payer, prepare.currency)?)
            }
            Some(fx_transfer) => {
                let money = Money { amount, currency: prepare.currency };
                self.check_converted(fx_transfer, money, present.at)?
            }
        };
        let payee_account = self.active_position_account(payee, prepare.currency)?;
        self.check_liquidity(debtor, payer_account, amount)?;
        check_room(debtor, payer_account, self.liable(payee), payee_account, amount)?;
        Ok(Reservation { payee: payee.id, payer_account: payer_account.id, payee_account: payee_account.id })
    }

    /// Checks that the expiration is not in the past and not further ahead than the scheme allows.
    pub(crate) fn check_expiration(&self, expires_at: Timestamp, present: Present) -> Result<(), Refusal> {
        if expires_at < present.at {
            return Err(Refusal::ExpirationPassed { expires_at });
        }
        // While clocks disagree, DFSPs may use the latest of them.
        let latest = present.latest.max(self.last_time());
        let validity_max_ms = self.config().transfer_validity_max_ms;
        if expires_at > latest.plus_ms(validity_max_ms) {
            return Err(Refusal::ExpirationTooFar { ahead_s_max: validity_max_ms / 1_000 });
        }
        Ok(())
    }

    /// Checks the liquidity cover first, then the net debit cap, of the position's owner. Reaching either exactly is
    /// allowed.
    pub(crate) fn check_liquidity(
        &self,
        payer: &Participant,
        position: &Account,
        amount: Amount,
    ) -> Result<(), Refusal> {
        let Some(model) = self.position_model(position.currency) else {
            return Err(Refusal::CurrencyUngoverned { currency: position.currency });
        };
        let payer = self.liable(payer);
        let cover = self.cover_by(model, payer, position.currency);
        if is_short(cover, position.balance, amount) {
            return Err(Refusal::CoverShort);
        }
        let cap = payer.limit(position.currency).map_or(Amount::ZERO, |limit| limit.value);
        if is_short(cap, position.balance, amount) {
            return Err(Refusal::CapExceeded);
        }
        Ok(())
    }

    /// The account for a participant's payments: its own account or its proxy's.
    pub(crate) fn active_position_account(
        &self,
        party: &Participant,
        currency: Currency,
    ) -> Result<&Account, Refusal> {
        let owner = self.liable(party);
        if !owner.is_active {
            return Err(Refusal::ParticipantInactive { name: owner.name });
        }
        let account = owner.account(currency, LedgerAccountTypeId::POSITION).map(|id| self.account_ref(id));
        match account {
            None => Err(Refusal::AccountUnknown { name: owner.name, currency }),
            Some(account) if !account.is_active => {
                Err(Refusal::AccountInactive { name: owner.name, currency })
            }
            Some(account) => Ok(account),
        }
    }

    /// Answers a repeated id. A resend receives the current state, and a modified request is rejected. The original is
    /// unchanged in both cases.
    fn answer_duplicate_prepare(
        &self,
        prepare: &Prepare,
        sender: ParticipantId,
        original: &Transfer,
        out: &mut Decision,
    ) {
        if original.prepare_fingerprint != prepare.fingerprint {
            out.notify_error(sender, prepare.id, Refusal::Modified);
        } else if prepare.source != prepare.payer {
            out.notify_error(sender, prepare.id, Refusal::SourceNotPayer);
        } else {
            out.notify(sender, prepare.id, CallbackContent::State(StateMethod::Put, original.view()));
        }
    }
}

pub(crate) fn active<'a>(found: Option<&'a Participant>, name: &FspId) -> Result<&'a Participant, Refusal> {
    match found {
        None => Err(Refusal::ParticipantUnknown { name: *name }),
        Some(participant) if !participant.is_active => Err(Refusal::ParticipantInactive { name: *name }),
        Some(participant) => Ok(participant),
    }
}

/// Checks that both accounts stay in range regardless of how their reserved transfers and this one end.
fn check_room(
    payer: &Participant,
    payer_account: &Account,
    payee: &Participant,
    payee_account: &Account,
    amount: Amount,
) -> Result<(), Refusal> {
    // If payer and payee are the same DFSP, its one account carries the reservation of both sides.
    let share = if payer.id == payee.id { amount.checked_add(amount) } else { Some(amount) };
    let can_reserve =
        |account: &Account| share.and_then(|share| account.pending_credits.checked_add(share)).is_some();
    let lowest = payee_account.balance.checked_sub(payee_account.pending_credits);
    let can_receive = lowest.and_then(|lowest| lowest.checked_sub(amount)).is_some();
    let full = if !can_reserve(payer_account) {
        payer
    } else if !can_reserve(payee_account) || !can_receive {
        payee
    } else {
        return Ok(());
    };
    Err(Refusal::AccountFull { name: full.name, currency: payer_account.currency })
}

/// Whether `available − position < amount`.
fn is_short(available: Amount, position: Amount, amount: Amount) -> bool {
    available.units() - position.units() < amount.units()
}
