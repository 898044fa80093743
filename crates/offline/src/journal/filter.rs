//! Selects the records that `upesi journal` prints.

use std::collections::BTreeSet;

use upesi_ledger::{CallbackKey, Event, ParticipantId, Record, TransferState};
use upesi_types::{BulkId, FspId, FxTransferId, Timestamp, TransferId};

use crate::names::Names;

#[cfg(test)]
mod tests;

/// Conditions for records; all given ones must match.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Include only records about this transfer, FX transfer or bulk transfer, about an FX transfer for it, its bulk
    /// transfer, or its callbacks.
    pub transfer: Option<TransferId>,
    /// Include only records that concern this participant.
    pub fsp: Option<FspId>,
    /// Exclude records before this time.
    pub since: Option<Timestamp>,
    /// Exclude records at or after this time.
    pub until: Option<Timestamp>,
}

/// Applies a filter to records in their order.
#[derive(Debug)]
pub struct RecordFilter {
    filter: Filter,
    /// Records about the transfer; later records report the deliveries of their callbacks.
    about: BTreeSet<u64>,
    /// Transfers and withdrawals in flight of the participant.
    in_flight: BTreeSet<TransferId>,
    /// FX transfers in flight of the participant.
    fx_transfers: BTreeSet<FxTransferId>,
    /// Bulk transfers in flight of the participant.
    bulks: BTreeSet<BulkId>,
}

impl RecordFilter {
    /// Begins before the first record.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            about: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            fx_transfers: BTreeSet::new(),
            bulks: BTreeSet::new(),
        }
    }

    /// Whether no later record can match.
    pub fn is_over(&self, time: Timestamp) -> bool {
        self.filter.until.is_some_and(|until| time >= until)
    }

    /// Whether a record matches. Records must be passed in order, without a gap.
    pub fn passes(&mut self, seq: u64, time: Timestamp, record: &Record<'_>, names: &Names) -> bool {
        let is_about = self.filter.transfer.is_none_or(|id| {
            let is_about = is_about(record, id) || self.tells_of_callback(record);
            if is_about {
                self.about.insert(seq);
            }
            is_about
        });
        let concerns = match self.filter.fsp {
            None => true,
            Some(fsp) => {
                names.id_of(fsp).is_some_and(|participant| self.concerns(participant, record, names))
            }
        };
        is_about && concerns && self.filter.since.is_none_or(|since| time >= since)
    }

    fn tells_of_callback(&self, record: &Record<'_>) -> bool {
        record.events.iter().flat_map(keys_of).any(|key| self.about.contains(&key.seq))
    }

    fn concerns(&mut self, participant: ParticipantId, record: &Record<'_>, names: &Names) -> bool {
        let mut concerns = record.callbacks.iter().any(|callback| callback.target == participant);
        for event in &record.events {
            concerns |= self.event_concerns(participant, event, names);
        }
        concerns
    }

    fn event_concerns(&mut self, participant: ParticipantId, event: &Event, names: &Names) -> bool {
        let owns = |account| names.owner(account) == Some(participant);
        match event {
            Event::TransferPrepared(transfer) => {
                let has_part = transfer.has_party(participant);
                if has_part && transfer.state == TransferState::Reserved {
                    self.in_flight.insert(transfer.id);
                }
                has_part
            }
            Event::FundsPrepared(funds) => {
                let has_part = funds.participant == participant;
                if has_part {
                    self.in_flight.insert(funds.id);
                }
                has_part
            }
            Event::TransferCommitted { id, .. }
            | Event::TransferAborted { id, .. }
            | Event::FundsEnded { id, .. } => self.in_flight.remove(id),
            Event::FeeCharged { payer, payee, .. } => owns(*payer) || owns(*payee),
            Event::FxTransferPrepared(fx_transfer) => {
                let has_part = fx_transfer.has_party(participant);
                if has_part && fx_transfer.is_live() {
                    self.fx_transfers.insert(fx_transfer.id);
                }
                has_part
            }
            Event::FxTransferFulfilled { id, .. } => self.fx_transfers.contains(id),
            Event::FxTransferCommitted { id, .. } | Event::FxTransferAborted { id, .. } => {
                self.fx_transfers.remove(id)
            }
            Event::BulkReceived(bulk) => {
                let has_part = bulk.has_party(participant);
                if has_part && bulk.is_live() {
                    self.bulks.insert(bulk.id);
                }
                has_part
            }
            Event::BulkItemDecided { id, .. }
            | Event::BulkAccepted { id }
            | Event::BulkAnswered { id, .. } => self.bulks.contains(id),
            Event::BulkEnded { id, .. } => self.bulks.remove(id),
            Event::ParticipantCreated { id, .. } | Event::ParticipantActivitySet { id, .. } => {
                *id == participant
            }
            Event::AccountCreated { participant: owner, .. }
            | Event::EndpointSet { participant: owner, .. }
            | Event::BindingAdded { participant: owner, .. }
            | Event::BindingRemoved { participant: owner, .. }
            | Event::SignatureKeyAdded { participant: owner, .. }
            | Event::SignatureKeyRevoked { participant: owner, .. }
            | Event::ProxiedAdded { participant: owner, .. }
            | Event::ProxiedRemoved { participant: owner, .. }
            | Event::LimitSet { participant: owner, .. } => *owner == participant,
            Event::BlockSet { block } | Event::BlockLifted { block } => {
                names.blocked(block) == Some(participant)
            }
            Event::AccountOpened { id } | Event::AccountActivitySet { id, .. } => owns(*id),
            Event::Posted { debit, credit, .. } => owns(*debit) || owns(*credit),
            _ => keys_of(event).any(|key| key.target == participant),
        }
    }
}

/// The callbacks that an event is about.
fn keys_of(event: &Event) -> impl Iterator<Item = CallbackKey> {
    let (list, one) = match event {
        Event::CallbacksDelivered(keys) | Event::CallbacksRedelivered(keys) => (keys.as_slice(), None),
        Event::CallbackParked { key, .. } => (&[][..], Some(*key)),
        _ => (&[][..], None),
    };
    list.iter().copied().chain(one)
}

fn is_about(record: &Record<'_>, wanted: TransferId) -> bool {
    let event_is = |event: &Event| match event {
        Event::TransferPrepared(transfer) => transfer.id == wanted,
        Event::FundsPrepared(funds) => funds.id == wanted,
        Event::TransferCommitted { id, .. }
        | Event::TransferAborted { id, .. }
        | Event::FundsEnded { id, .. }
        | Event::FeeCharged { transfer: id, .. }
        | Event::FeeNotCharged { transfer: id, .. } => *id == wanted,
        Event::FxTransferPrepared(fx_transfer) => {
            fx_transfer.id.id() == wanted || fx_transfer.determining_transfer == Some(wanted)
        }
        Event::FxTransferFulfilled { id, .. }
        | Event::FxTransferCommitted { id, .. }
        | Event::FxTransferAborted { id, .. } => id.id() == wanted,
        Event::BulkReceived(bulk) => {
            bulk.id.id() == wanted || bulk.items.iter().any(|item| item.transfer == wanted)
        }
        Event::BulkItemDecided { id, .. }
        | Event::BulkAccepted { id }
        | Event::BulkAnswered { id, .. }
        | Event::BulkEnded { id, .. } => id.id() == wanted,
        _ => false,
    };
    record.events.iter().any(event_is)
        || record.callbacks.iter().any(|callback| callback.subject.id.id() == Some(wanted))
}
