//! Commands about FX transfers: `/fxTransfers` (FSPIOP API v2.0).

pub(crate) mod link;
pub(crate) mod put;

use alloc::boxed::Box;

use upesi_types::{
    Amount, AmountError, ConversionId, Currency, ErrorCode, FspId, Money, Present, Timestamp, TransferId,
};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{Cause, Refusal};
use crate::core::callback::{Callback, CallbackContent, ResourceId, StateMethod, Subject};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, Archived, Facts};
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::conversion::{Conversion, ConversionAccounts, ConversionSide, ConversionState};
use crate::money::transfer::{Fingerprint, Transfer, TransferState};
use crate::rules::money::fulfil::{FulfilState, Fulfilment};
use crate::rules::money::prepare::active;
use crate::scheme::participant::Participant;

/// A DFSP's or FXP's request about an FX transfer.
#[derive(Clone, Debug)]
pub enum ConversionCommand {
    /// `POST /fxTransfers`.
    Prepare(Box<PrepareConversion>),
    /// `PUT /fxTransfers/{ID}`.
    Fulfil(FulfilConversion),
    /// `PUT /fxTransfers/{ID}/error`.
    Abort(AbortConversion),
    /// `GET /fxTransfers/{ID}`.
    Get(GetConversion),
}

/// A request for an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct PrepareConversion {
    /// `commitRequestId`.
    pub id: ConversionId,
    /// `determiningTransferId`.
    pub determining_transfer: Option<TransferId>,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`, if there is one.
    pub destination: Option<FspId>,
    /// `initiatingFsp`.
    pub initiator: FspId,
    /// `counterPartyFsp`: the FXP.
    pub counter_party: FspId,
    /// `sourceAmount`.
    pub source_amount: AskedMoney,
    /// `targetAmount`.
    pub target_amount: AskedMoney,
    /// `condition`; absent when it is not 32 bytes.
    pub condition: Option<[u8; 32]>,
    /// `expiration`.
    pub expires_at: Option<Timestamp>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// An amount as the request states it.
#[derive(Clone, Debug)]
pub struct AskedMoney {
    /// The amount. If it does not fit the ledger, the text is retained.
    pub amount: Result<Amount, (AmountError, Box<str>)>,
    /// The currency.
    pub currency: Currency,
}

/// A fulfil of an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct FulfilConversion {
    /// The id in the path.
    pub conversion: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `conversionState`.
    pub state: FulfilState,
    /// `fulfilment`.
    pub fulfilment: Fulfilment,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// An FXP's error as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct AbortConversion {
    /// The id in the path.
    pub conversion: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `errorInformation.errorCode`; it need not be in the catalogue.
    pub code: ErrorCode,
    /// `errorInformation.errorDescription`.
    pub description: Box<str>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// A query about an FX transfer as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct GetConversion {
    /// The id in the path.
    pub conversion: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// Whether an inter-scheme proxy forwarded the query (`FSPIOP-Proxy`).
    pub is_proxied: bool,
}

impl ConversionCommand {
    /// The DFSP or FXP that sent the request.
    pub const fn source(&self) -> FspId {
        match self {
            Self::Prepare(prepare) => prepare.source,
            Self::Fulfil(fulfil) => fulfil.source,
            Self::Abort(abort) => abort.source,
            Self::Get(get) => get.source,
        }
    }

    /// The FX transfer whose state the decision depends on.
    pub fn conversion(&self) -> Option<ConversionId> {
        let id = match self {
            Self::Prepare(prepare) => return Some(prepare.id),
            Self::Fulfil(fulfil) => &fulfil.conversion,
            Self::Abort(abort) => &abort.conversion,
            Self::Get(get) => &get.conversion,
        };
        id.id().map(ConversionId::new)
    }

    /// The transfer whose state the decision also depends on.
    pub fn determining_transfer(&self) -> Option<TransferId> {
        match self {
            Self::Prepare(prepare) => prepare.determining_transfer,
            _ => None,
        }
    }
}

/// The state of the transfer that a new FX transfer belongs to.
#[derive(Clone, Copy)]
enum Determining<'a> {
    /// The transfer does not exist yet.
    Absent,
    /// The transfer is in memory.
    Known(&'a Transfer),
    /// The transfer is in the archive, so it is final.
    Final,
}

impl Ledger {
    pub(crate) fn decide_conversion(
        &self,
        command: &ConversionCommand,
        facts: &Facts<'_>,
        out: &mut Decision,
    ) {
        match command {
            ConversionCommand::Prepare(prepare) => self.decide_conversion_prepare(prepare, facts, out),
            ConversionCommand::Fulfil(fulfil) => self.decide_conversion_fulfil(fulfil, facts, out),
            ConversionCommand::Abort(abort) => self.decide_conversion_abort(abort, facts, out),
            ConversionCommand::Get(get) => self.decide_conversion_get(get, facts, out),
        }
    }

    /// Finds an FX transfer in memory or in the archive's answer. Fails if the archive must be queried first.
    fn find_conversion<'a>(
        &'a self,
        id: Option<ConversionId>,
        facts: &Facts<'a>,
    ) -> Result<Option<&'a Conversion>, ArchiveLookupNeeded> {
        let Some(id) = id else { return Ok(None) };
        match (self.conversion(id), facts.archived) {
            (Some(found), _) => Ok(Some(found)),
            (None, Archived::Unknown) => Err(ArchiveLookupNeeded),
            (None, Archived::Conversion { conversion, .. }) => Ok(conversion.as_deref()),
            (None, Archived::Absent | Archived::Found(_) | Archived::Bulk { .. }) => Ok(None),
        }
    }

    /// The transfer that a new FX transfer names. The archive has already been queried.
    fn determining<'a>(&'a self, id: Option<TransferId>, facts: &Facts<'a>) -> Determining<'a> {
        match (id.and_then(|id| self.transfer(id)), facts.archived) {
            (Some(transfer), _) => Determining::Known(transfer),
            (None, Archived::Conversion { has_transfer: true, .. }) => Determining::Final,
            (None, _) => Determining::Absent,
        }
    }
}

impl Decision {
    /// Owes a callback about an FX transfer.
    fn tell_of_conversion(
        &mut self,
        target: ParticipantId,
        id: impl Into<ResourceId>,
        content: CallbackContent,
    ) {
        self.callbacks.push(Callback { target, subject: Subject::conversion(id), content });
    }

    fn tell_conversion_error(&mut self, target: ParticipantId, id: impl Into<ResourceId>, refusal: Refusal) {
        self.tell_of_conversion(target, id, CallbackContent::Error(refusal.into()));
    }
}

// `GET /fxTransfers/{ID}`: a party queries the state of an FX transfer.

impl Ledger {
    /// The parties are the initiator and the FXP, not the parties of the determining transfer.
    fn decide_conversion_get(&self, get: &GetConversion, facts: &Facts<'_>, out: &mut Decision) {
        let Some(requester) = self.participant_named(&get.source) else {
            return out.reply = Reply::UnknownSender(get.source);
        };
        let found = match self.find_conversion(get.conversion.id().map(ConversionId::new), facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(found) => found,
        };
        let content = match found {
            _ if !requester.is_active => {
                CallbackContent::Error(Refusal::ParticipantInactive { name: requester.name }.into())
            }
            None => CallbackContent::Error(Refusal::ConversionUnknown.into()),
            Some(conversion) if !conversion.has_party(requester.id) => {
                CallbackContent::Error(Refusal::NotParty.into())
            }
            Some(conversion) => match &conversion.state {
                // Another scheme receives the error callback, which it understands as a failure.
                ConversionState::Aborted { cause, .. } if get.is_proxied => {
                    CallbackContent::Error(cause.clone())
                }
                _ => CallbackContent::State(StateMethod::Put, conversion.view()),
            },
        };
        out.tell_of_conversion(requester.id, get.conversion.clone(), content);
    }
}

// The rules for a new FX transfer, in the order in which violations are reported.

/// An amount that an account carries, with the owner that a rejection names.
type Carried<'a> = (&'a Participant, &'a Account, Amount);

impl Ledger {
    /// Checks the rules. Returns the FXP and the accounts of an FX transfer that may be reserved.
    fn check_conversion(
        &self,
        prepare: &PrepareConversion,
        (initiator, fxp): (Option<&Participant>, Option<&Participant>),
        determining: Determining<'_>,
        present: Present,
    ) -> Result<(ParticipantId, ConversionAccounts), Refusal> {
        if prepare.source != prepare.initiator {
            return Err(Refusal::SourceNotPayer);
        }
        let source = fitting(&prepare.source_amount)?;
        let target = fitting(&prepare.target_amount)?;
        let initiator = active(initiator, &prepare.initiator)?;
        let fxp = active(fxp, &prepare.counter_party)?;
        if prepare.destination.is_some_and(|named| !named.eq_ignore_case(&prepare.counter_party)) {
            return Err(Refusal::DestinationNotFxp);
        }
        if prepare.condition.is_none() {
            return Err(Refusal::ConditionInvalid);
        }
        self.check_expiration(prepare.expires_at.ok_or(Refusal::ExpirationMissing)?, present)?;
        if self.are_one(initiator, fxp) && !self.config().on_us_transfers {
            return Err(Refusal::PartiesEqual);
        }
        let (from, to) = (prepare.source_amount.currency, prepare.target_amount.currency);
        if from == to {
            return Err(Refusal::CurrenciesEqual);
        }
        let Some(transfer_id) = prepare.determining_transfer else {
            return Err(Refusal::DeterminingTransferMissing);
        };
        if self.is_item_of_bulk(transfer_id) {
            return Err(Refusal::BulkItemAlone);
        }
        let fxp_source = self.active_position_account(fxp, from)?;
        let fxp_target = self.active_position_account(fxp, to)?;
        let side = match determining {
            Determining::Absent => ConversionSide::Payer,
            Determining::Known(_) | Determining::Final => ConversionSide::Payee,
        };
        if self.conversions.linked(transfer_id, side, Some(initiator.id)).is_some() {
            return Err(Refusal::ConversionInProgress);
        }
        let (initiator_source, initiator_target) = match determining {
            Determining::Absent => {
                let account = self.active_position_account(initiator, from)?;
                self.check_liquidity(initiator, account, source)?;
                check_room(&[(initiator, account, source), (fxp, fxp_source, source)])?;
                (account, None)
            }
            Determining::Final => return Err(Refusal::DeterminingTransferFinal),
            Determining::Known(transfer) => {
                let received = self.received_account(prepare, transfer, initiator, source)?;
                let account = self.active_position_account(initiator, to)?;
                self.check_liquidity(fxp, fxp_target, target)?;
                let sold = (fxp, fxp_source, source);
                check_room(&[(fxp, fxp_target, target), (initiator, account, target), sold])?;
                (received, Some(account.id))
            }
        };
        let accounts = ConversionAccounts {
            initiator_source: initiator_source.id,
            initiator_target,
            fxp_source: fxp_source.id,
            fxp_target: fxp_target.id,
        };
        Ok((fxp.id, accounts))
    }

    /// The account on which a payee receives the amount that it converts. The determining transfer must be reserved,
    /// pay this payee, and have the same amount.
    fn received_account(
        &self,
        prepare: &PrepareConversion,
        transfer: &Transfer,
        payee: &Participant,
        source: Amount,
    ) -> Result<&Account, Refusal> {
        if transfer.state != TransferState::Reserved {
            return Err(Refusal::DeterminingTransferFinal);
        }
        let Some(account) = transfer.payee_account.filter(|_| transfer.payee == Some(payee.id)) else {
            return Err(Refusal::InitiatorNotPayee);
        };
        if transfer.currency != prepare.source_amount.currency || transfer.amount != source {
            return Err(Refusal::DeterminingAmountDiffers);
        }
        Ok(self.account_ref(account))
    }
}

fn fitting(asked: &AskedMoney) -> Result<Amount, Refusal> {
    match &asked.amount {
        Err((error, text)) => Err(Refusal::AmountUnfit { text: text.clone(), error: *error }),
        Ok(amount) if *amount <= Amount::ZERO => Err(Refusal::AmountNotPositive { amount: *amount }),
        Ok(amount) => Ok(*amount),
    }
}

/// Checks that every account stays in range regardless of how its pending amounts end, including those of this FX
/// transfer. An FXP that converts for itself carries both sides on one account.
fn check_room(carried: &[Carried<'_>]) -> Result<(), Refusal> {
    for (owner, account, _) in carried {
        let mut on_it = carried.iter().filter(|(_, other, _)| other.id == account.id);
        let pending = on_it.try_fold(account.pending_credits, |sum, (_, _, amount)| sum.checked_add(*amount));
        if pending.and_then(|pending| account.balance.checked_sub(pending)).is_none() {
            return Err(Refusal::AccountFull { name: owner.name, currency: account.currency });
        }
    }
    Ok(())
}

// `POST /fxTransfers`: reserves an FX transfer or rejects it.

impl Ledger {
    fn decide_conversion_prepare(&self, prepare: &PrepareConversion, facts: &Facts<'_>, out: &mut Decision) {
        let Some(sender) = self.participant_id(&prepare.source) else {
            return out.reply = Reply::UnknownSender(prepare.source);
        };
        match self.find_conversion(Some(prepare.id), facts) {
            Err(ArchiveLookupNeeded) => out.reply = Reply::NeedsArchive,
            Ok(Some(original)) => answer_duplicate(prepare, sender, original, out),
            Ok(None) => {
                let determining = self.determining(prepare.determining_transfer, facts);
                self.prepare_conversion(prepare, sender, determining, facts.present, out);
            }
        }
    }

    /// Reserves or rejects the FX transfer. Its side depends on whether the transfer or the FX transfer arrives first,
    /// and never changes.
    fn prepare_conversion(
        &self,
        prepare: &PrepareConversion,
        sender: ParticipantId,
        determining: Determining<'_>,
        present: Present,
        out: &mut Decision,
    ) {
        let now = present.at;
        let initiator = self.participant_named(&prepare.initiator);
        let fxp = self.participant_named(&prepare.counter_party);
        let side = match determining {
            Determining::Absent => ConversionSide::Payer,
            Determining::Known(_) | Determining::Final => ConversionSide::Payee,
        };
        let mut conversion = Box::new(Conversion {
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
            state: ConversionState::Reserved,
        });
        match self.check_conversion(prepare, (initiator, fxp), determining, present) {
            Ok((fxp, accounts)) => {
                conversion.accounts = Some(accounts);
                out.tell_of_conversion(fxp, prepare.id.id(), CallbackContent::ForwardPrepare);
            }
            Err(refusal) => {
                let kind = refusal.kind();
                let cause = Cause::Hub(refusal);
                out.tell_of_conversion(sender, prepare.id.id(), CallbackContent::Error(cause.clone()));
                conversion.state = ConversionState::Aborted { kind, cause, at: now };
            }
        }
        out.events.push(Event::ConversionPrepared(conversion));
    }
}

/// Answers a repeated id. A resend receives the current state, and a modified request is rejected. The original is
/// unchanged in both cases.
fn answer_duplicate(
    prepare: &PrepareConversion,
    sender: ParticipantId,
    original: &Conversion,
    out: &mut Decision,
) {
    let id = prepare.id.id();
    if original.prepare_fingerprint != prepare.fingerprint {
        out.tell_conversion_error(sender, id, Refusal::Modified);
    } else if prepare.source != prepare.initiator {
        out.tell_conversion_error(sender, id, Refusal::SourceNotPayer);
    } else {
        out.tell_of_conversion(sender, id, CallbackContent::State(StateMethod::Put, original.view()));
    }
}

fn as_asked(asked: &AskedMoney) -> Money {
    Money { amount: *asked.amount.as_ref().unwrap_or(&Amount::ZERO), currency: asked.currency }
}
