//! Checks whether the actor of each record may cause it.

use upesi_ledger::{AbortKind, Actor, Event, ParticipantId, Record};
use upesi_types::TransferId;

use super::Books;

impl Books {
    /// The faults of a record's actor, by its events.
    pub(super) fn judge_actor(&self, seq: u64, record: &Record<'_>) -> Vec<String> {
        let is_wrong = |event: &&Event| !self.may_cause(record.actor, event);
        let text = |event: &Event| {
            format!("record {seq}: {} is caused by {}, which is not permitted", event.name(), record.actor)
        };
        record.events.iter().filter(is_wrong).map(text).collect()
    }

    fn may_cause(&self, actor: Actor, event: &Event) -> bool {
        match event {
            Event::TransferPrepared(_) => matches!(actor, Actor::Dfsp(_) | Actor::Bulks),
            Event::BulkReceived(_) => matches!(actor, Actor::Dfsp(_)),
            Event::BulkItemDecided { .. } | Event::BulkAccepted { .. } | Event::BulkEnded { .. } => {
                actor == Actor::Bulks
            }
            Event::BulkAnswered { id, .. } => {
                let payee = self.bulks.payee(*id).and_then(|payee| self.scheme.name_of(payee));
                matches!(actor, Actor::Dfsp(name)
                    if payee.is_some_and(|payee| payee.eq_ignore_ascii_case(name.as_str())))
            }
            Event::TransferCommitted { id, .. }
            | Event::TransferAborted { id, operator_reason: None, .. }
            | Event::FeeCharged { transfer: id, .. }
            | Event::FeeNotCharged { transfer: id, .. }
                if self.bulks.has_item(*id) =>
            {
                let is_expiry = matches!(event, Event::TransferAborted { kind: AbortKind::Expired, .. });
                actor == if is_expiry { Actor::Clock } else { Actor::Bulks }
            }
            Event::TransferCommitted { id, .. }
            | Event::FeeCharged { transfer: id, .. }
            | Event::FeeNotCharged { transfer: id, .. } => self.is_payee(actor, *id),
            Event::TransferAborted { operator_reason: Some(_), .. } => actor == Actor::Operator,
            // A late PUT of the payee also ends a transfer by the rules of expiry.
            Event::TransferAborted { id, kind: AbortKind::Expired, .. } => {
                actor == Actor::Clock || self.is_payee(actor, *id)
            }
            Event::TransferAborted { id, .. } => self.is_payee(actor, *id),
            Event::FxTransferPrepared(_) | Event::FxTransferFulfilled { .. } => {
                matches!(actor, Actor::Dfsp(_))
            }
            // By themselves or with a transfer, whose own event is checked.
            Event::FxTransferCommitted { .. } => matches!(actor, Actor::Dfsp(_)),
            Event::FxTransferAborted { .. } => {
                matches!(actor, Actor::Dfsp(_) | Actor::Clock | Actor::Operator)
            }
            Event::FundsEnded { .. } => matches!(actor, Actor::Operator | Actor::Clock),
            Event::CallbacksDelivered(_) | Event::CallbackParked { .. } | Event::CouriersSet { .. } => {
                actor == Actor::Delivery
            }
            Event::ArchiveDivided | Event::FinishedRemoved { .. } => actor == Actor::Retention,
            // By its proposer, an approver, or time.
            Event::ProposalEnded { by, .. } => {
                actor == if by.is_some() { Actor::Operator } else { Actor::Clock }
            }
            Event::DecidedAt(_) | Event::FirstWindowOpened(_) => true,
            _ => actor == Actor::Operator,
        }
    }

    /// Whether the actor is the payee of a transfer in flight; true if the books do not know the transfer.
    fn is_payee(&self, actor: Actor, id: TransferId) -> bool {
        let Actor::Dfsp(name) = actor else { return false };
        let payee: Option<ParticipantId> = self.payee_in_flight(id);
        let payee = payee.and_then(|payee| self.scheme.name_of(payee));
        payee.is_none_or(|payee| payee.eq_ignore_ascii_case(name.as_str()))
    }
}
