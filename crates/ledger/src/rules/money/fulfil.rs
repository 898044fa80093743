//! Decides `PUT /transfers/{ID}`: commits the transfer on the payee's position if the fulfilment is valid.

use alloc::boxed::Box;

use sha2::{Digest, Sha256};
use upesi_types::{Amount, FspId, Timestamp};

use crate::base::ids::{AccountId, ParticipantId};
use crate::base::refusal::Refusal;
use crate::core::callback::{CallbackContent, ResourceId, StateMethod};
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::fx_transfer::FxTransfer;
use crate::money::transfer::{Fingerprint, PublicState, SettlementMode, Transfer, TransferView, accounts_of};
use crate::rules::money::put::{self, Put, PutKind};
use crate::settlement::model::SettlementModel;

/// A fulfil as parsed by the gateway.
#[derive(Clone, Debug)]
pub struct Fulfil {
    /// The id in the path.
    pub transfer: ResourceId,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`.
    pub destination: Option<FspId>,
    /// `transferState`.
    pub state: FulfilState,
    /// Whether the message has version 1.1 or later. Earlier versions have no state RESERVED.
    pub may_reserve: bool,
    /// `fulfilment`.
    pub fulfilment: Fulfilment,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// The transfer state in a payee's PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FulfilState {
    /// Received; not valid as an answer.
    Received,
    /// The payee reserved and waits for the hub's confirmation.
    Reserved,
    /// The payee committed at its own risk.
    Committed,
    /// Aborted; must be sent as `PUT …/error`.
    Aborted,
}

/// The fulfilment of a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fulfilment {
    /// The PUT has no fulfilment.
    Missing,
    /// 32 bytes. Every text that the API's schema admits decodes to 32 bytes.
    Preimage([u8; 32]),
}

impl Ledger {
    pub(crate) fn decide_fulfil(&self, fulfil: &Fulfil, facts: &DecisionInput<'_>, out: &mut Decision) {
        let now = facts.now();
        let Some(sender) = self.participant_id_ignoring_case(&fulfil.source) else {
            return out.reply = Reply::UnknownSender(fulfil.source);
        };
        let put = Put {
            kind: PutKind::Fulfil,
            sender,
            destination: fulfil.destination,
            reserves: fulfil.state == FulfilState::Reserved && fulfil.may_reserve,
            fingerprint: fulfil.fingerprint,
            now,
        };
        let transfer = match self.find(&fulfil.transfer, facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(Some(transfer)) => transfer,
            Ok(None) => return self.answer_unknown_transfer(put.sender, &fulfil.transfer, out),
        };
        if self.is_item_of_bulk(transfer.id) {
            let put = Put { reserves: false, ..put };
            return put::refuse(&put, transfer, Refusal::BulkItemAlone, out);
        }
        if let Some(refusal) = refuses_outright(fulfil) {
            return put::refuse(&put, transfer, refusal, out);
        }
        if !self.may_end(&put, transfer, out) {
            return;
        }
        match fulfil.fulfilment {
            Fulfilment::Preimage(preimage) if Sha256::digest(preimage).as_slice() == transfer.condition => {
                if self.deadline(transfer) <= now {
                    self.expire(transfer, Some(&put), now, out);
                } else if self.awaits_fx_transfer(transfer, now) {
                    put::refuse(&put, transfer, Refusal::FxTransferUnfulfilled, out);
                } else {
                    self.commit(transfer, fulfil, preimage, now, out);
                }
            }
            _ => put::abort_invalid(&put, transfer, Refusal::FulfilmentInvalid, out),
        }
    }

    fn commit(
        &self,
        transfer: &Transfer,
        fulfil: &Fulfil,
        preimage: [u8; 32],
        now: Timestamp,
        out: &mut Decision,
    ) {
        let commit = Commit {
            fulfilment: preimage,
            fingerprint: fulfil.fingerprint,
            extensions: fulfil.extensions.clone(),
        };
        let (payer, payee) = self.record_commit(transfer, commit, now, out);
        if fulfil.state == FulfilState::Reserved {
            let view = TransferView {
                state: PublicState::Committed,
                completed_at: Some(now),
                fulfilment: Some(preimage),
                extensions: fulfil.extensions.clone(),
                cause: None,
            };
            let without_fulfilment = TransferView { fulfilment: None, ..view.clone() };
            out.notify(payer, transfer.id, CallbackContent::State(StateMethod::Put, view));
            out.notify(payee, transfer.id, CallbackContent::State(StateMethod::Patch, without_fulfilment));
        } else {
            out.notify(payer, transfer.id, CallbackContent::ForwardFulfil);
            if self.config().payee_confirmation && payer != payee {
                out.notify(payee, transfer.id, CallbackContent::ConfirmFulfil);
            }
        }
    }
}

/// The content of a payee's fulfil that commits a transfer.
pub(crate) struct Commit {
    /// The preimage of the condition.
    pub(crate) fulfilment: [u8; 32],
    /// Fingerprint of the fulfil's body.
    pub(crate) fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub(crate) extensions: Option<Box<str>>,
}

impl Ledger {
    /// Records the commit of a reserved transfer with its fees. Returns payer and payee.
    pub(crate) fn record_commit(
        &self,
        transfer: &Transfer,
        commit: Commit,
        now: Timestamp,
        out: &mut Decision,
    ) -> (ParticipantId, ParticipantId) {
        let (Some(payer), Some(payee)) = (transfer.payer, transfer.payee) else {
            unreachable!("a reserved transfer has both parties")
        };
        let Commit { fulfilment, fingerprint, extensions } = commit;
        let (debtor, creditor) = accounts_of(transfer);
        let settled = self.settled_by_commit(debtor, creditor, transfer.amount, &out.events);
        let id = transfer.id;
        out.events.push(Event::TransferCommitted { id, fulfilment, fingerprint, extensions, settled });
        if !self.fee_rules().is_empty() {
            self.charge_fees(transfer, now, out);
        }
        (payer, payee)
    }

    /// Whether a gross settlement model settles a commit between two positions immediately. If cover accounts are
    /// missing, or cannot hold the amount after the earlier events of the decision, the commit is added to the open
    /// window. A fulfil is never rejected for this reason.
    pub(crate) fn settled_by_commit(
        &self,
        debtor: AccountId,
        creditor: AccountId,
        amount: Amount,
        earlier: &[Event],
    ) -> SettlementMode {
        if !self.models().iter().any(SettlementModel::settles_commits) {
            return SettlementMode::InWindow;
        }
        let currency = self.account_ref(debtor).currency;
        let model = self.position_model(currency).filter(|model| model.settles_commits());
        let cover = |position: AccountId| {
            let owner = self.participant(self.account_ref(position).participant);
            Some(self.account_ref(owner.account(currency, model?.settlement_account_type)?))
        };
        let [units, most] = [amount, Amount::MAX].map(|amount| i128::from(amount.units()));
        let moved = |account: &Account| self.moved_at_once(earlier, account.id);
        let payer = cover(debtor)
            .filter(|account| i128::from(account.balance.units()) + moved(account) + units <= most);
        let payee =
            cover(creditor).filter(|account| self.withdrawals.leave_room(account, units - moved(account)));
        let accounts = payer.zip(payee).map(|(payer, payee)| (payer.id, payee.id));
        accounts.map_or(SettlementMode::InWindow, |(payer, payee)| SettlementMode::AtOnce { payer, payee })
    }

    /// The sum, in ten-thousandths, that commits among not yet applied events add to a cover account.
    fn moved_at_once(&self, events: &[Event], account: AccountId) -> i128 {
        let moved = |(settled, amount): (SettlementMode, Amount)| match settled {
            SettlementMode::AtOnce { payer, payee } => {
                let times = i128::from(payer == account) - i128::from(payee == account);
                times * i128::from(amount.units())
            }
            SettlementMode::InWindow => 0,
        };
        let moved_by = |event: &Event| match *event {
            Event::TransferCommitted { id, settled, .. } => {
                self.transfer(id).map_or(0, |transfer| moved((settled, transfer.amount)))
            }
            Event::FxTransferCommitted { id, settled, further } => {
                let Some((reserved, passed_on)) = self.fx_transfer(id).and_then(FxTransfer::legs) else {
                    return 0;
                };
                let passed_on = further.zip(passed_on).map(|(settled, leg)| (settled, leg.money.amount));
                moved((settled, reserved.money.amount)) + passed_on.map_or(0, moved)
            }
            _ => 0,
        };
        events.iter().map(moved_by).sum()
    }
}

/// Rejects PUTs that are not fulfils. The transfer remains open for its payee or its deadline.
fn refuses_outright(fulfil: &Fulfil) -> Option<Refusal> {
    match fulfil.state {
        FulfilState::Reserved if !fulfil.may_reserve => Some(Refusal::ReservedTooEarly),
        FulfilState::Received => Some(Refusal::ReceivedNoFulfil),
        FulfilState::Aborted => Some(Refusal::AbortedNoFulfil),
        FulfilState::Reserved | FulfilState::Committed => None,
    }
}
