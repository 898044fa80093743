//! Which records `upesi journal` prints.

use std::collections::BTreeSet;

use upesi_ledger::{CallbackKey, Event, ParticipantId, Record, TransferState};
use upesi_types::{BulkId, ConversionId, FspId, Timestamp, TransferId};

use super::names::Names;

/// What records must have to be printed; everything that is given counts.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// They are about this transfer, conversion or bulk, about a conversion for it, its bulk, or a callback of it.
    pub transfer: Option<TransferId>,
    /// They concern this participant.
    pub fsp: Option<FspId>,
    /// They are not older.
    pub since: Option<Timestamp>,
    /// They are older.
    pub until: Option<Timestamp>,
}

/// Applies a filter to records in their order.
#[derive(Debug)]
pub struct Sieve {
    filter: Filter,
    /// Records about the transfer, whose callbacks later records tell of.
    about: BTreeSet<u64>,
    /// Transfers and withdrawals in flight that the participant has a part in.
    in_flight: BTreeSet<TransferId>,
    /// The same of conversions.
    conversions: BTreeSet<ConversionId>,
    /// The same of bulks.
    bulks: BTreeSet<BulkId>,
}

impl Sieve {
    /// Nothing was seen yet.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            about: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            conversions: BTreeSet::new(),
            bulks: BTreeSet::new(),
        }
    }

    /// Whether no later record can be wanted.
    pub fn is_over(&self, time: Timestamp) -> bool {
        self.filter.until.is_some_and(|until| time >= until)
    }

    /// Whether a record is to be printed. Records must be shown to it in order, without a gap.
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
            Event::ConversionPrepared(conversion) => {
                let has_part = conversion.has_party(participant);
                if has_part && conversion.is_live() {
                    self.conversions.insert(conversion.id);
                }
                has_part
            }
            Event::ConversionFulfilled { id, .. } => self.conversions.contains(id),
            Event::ConversionCommitted { id, .. } | Event::ConversionAborted { id, .. } => {
                self.conversions.remove(id)
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
        Event::ConversionPrepared(conversion) => {
            conversion.id.id() == wanted || conversion.determining_transfer == Some(wanted)
        }
        Event::ConversionFulfilled { id, .. }
        | Event::ConversionCommitted { id, .. }
        | Event::ConversionAborted { id, .. } => id.id() == wanted,
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

#[cfg(test)]
mod tests {
    use upesi_ledger::{
        AbortKind, AccountId, Actor, BindingKind, Block, Cause, EndpointType, FundsState, Ledger,
        LedgerAccountTypeId, LedgerConfig, Payload, Refusal, Settled, Transfer,
    };
    use upesi_types::{Amount, Currency};

    use super::*;

    const AT: Timestamp = Timestamp::from_ms(0);

    fn id(number: u8) -> TransferId {
        TransferId::from_random_bytes([number; 16])
    }

    fn participant(number: u32) -> ParticipantId {
        ParticipantId::new(number).unwrap()
    }

    fn account(number: u32) -> AccountId {
        AccountId::new(number).unwrap()
    }

    fn kes() -> Currency {
        Currency::parse("KES").unwrap()
    }

    /// Greenbank (2) has account 5, bluebank (3) account 6; account 4 is another's.
    fn names() -> Names {
        let mut names = Names::of(&Ledger::new(LedgerConfig::default()));
        for (number, name) in [(2, "greenbank"), (3, "bluebank")] {
            let name = FspId::parse(name).unwrap();
            names.learn(&Event::ParticipantCreated { id: participant(number), name, is_proxy: false });
            names.learn(&Event::AccountCreated {
                id: account(number + 3),
                participant: participant(number),
                currency: kes(),
                kind: LedgerAccountTypeId::POSITION,
                is_opened: true,
            });
        }
        let (kind, value) = (BindingKind::SpkiSha256, upesi_types::hex(&[7; 32]).into());
        names.learn(&Event::BindingAdded { participant: participant(2), kind, value });
        names
    }

    fn transfer(number: u8, state: TransferState) -> Event {
        Event::TransferPrepared(Transfer {
            id: id(number),
            payer: Some(participant(2)),
            payee: Some(participant(3)),
            payer_account: None,
            payee_account: None,
            amount: Amount::ZERO,
            currency: kes(),
            condition: [0; 32],
            expires_at: AT,
            prepared_at: AT,
            prepare_seq: 1,
            prepare_fingerprint: [0; 16],
            extensions: None,
            state,
        })
    }

    fn committed(number: u8) -> Event {
        Event::TransferCommitted {
            id: id(number),
            fulfilment: [0; 32],
            fingerprint: [0; 16],
            extensions: None,
            settled: Settled::InWindow,
        }
    }

    fn aborted(number: u8) -> Event {
        Event::TransferAborted {
            id: id(number),
            kind: AbortKind::Invalid,
            cause: Cause::Hub(Refusal::Expired),
            fingerprint: None,
            operator_reason: None,
        }
    }

    fn key(target: u32) -> CallbackKey {
        CallbackKey { target: participant(target), seq: 9, index: 0 }
    }

    /// Whether a record with this event alone, and no callback, is one of greenbank and one of bluebank.
    fn concern(event: &Event) -> [bool; 2] {
        [2, 3]
            .map(|number| Sieve::new(Filter::default()).event_concerns(participant(number), event, &names()))
    }

    #[test]
    fn an_event_concerns_whom_it_names_or_whose_account_it_changes() {
        let (green, blue) = (participant(2), participant(3));
        let kind = EndpointType::TRANSFER_POST;
        let (none, both) = ([false; 2], [true; 2]);
        for (event, expected) in [
            (transfer(1, TransferState::Reserved), both),
            (
                Event::ParticipantCreated {
                    id: green,
                    name: FspId::parse("greenbank").unwrap(),
                    is_proxy: false,
                },
                [true, false],
            ),
            (Event::ParticipantActivitySet { id: blue, is_active: false }, [false, true]),
            (Event::AccountOpened { id: account(5) }, [true, false]),
            (Event::AccountActivitySet { id: account(6), is_active: false }, [false, true]),
            (Event::AccountOpened { id: account(4) }, none),
            (Event::Posted { debit: account(5), credit: account(4), amount: Amount::ZERO }, [true, false]),
            (Event::Posted { debit: account(4), credit: account(6), amount: Amount::ZERO }, [false, true]),
            (Event::Posted { debit: account(4), credit: account(4), amount: Amount::ZERO }, none),
            (Event::EndpointSet { participant: blue, kind, value: "x".into() }, [false, true]),
            (
                Event::LimitSet {
                    participant: green,
                    currency: kes(),
                    value: Amount::ZERO,
                    alarm_basis_points: 0,
                },
                [true, false],
            ),
            (Event::CallbacksDelivered(vec![key(1), key(2)]), [true, false]),
            (Event::BlockSet { block: Block::Participant(FspId::parse("bluebank").unwrap()) }, [false, true]),
            (Event::BlockSet { block: Block::Participant(FspId::parse("other").unwrap()) }, none),
            // The key is bound to greenbank; as the digest of a certificate it is nobody's.
            (Event::BlockSet { block: Block::Key([7; 32]) }, [true, false]),
            (Event::BlockLifted { block: Block::Key([7; 32]) }, [true, false]),
            (Event::BlockSet { block: Block::Certificate([7; 32]) }, none),
            (Event::CallbackParked { key: key(3), attempts: 1, reason: "x".into() }, [false, true]),
            // Begun before the records that were shown, or not at all.
            (committed(1), none),
            (aborted(1), none),
        ] {
            assert_eq!(concern(&event), expected, "{event:?}");
        }
    }

    #[test]
    fn the_end_of_what_a_participant_began_concerns_it_once() {
        let refused = |number| {
            let cause = Cause::Hub(Refusal::Expired);
            let (fingerprint, operator_reason) = (None, None);
            let kind = AbortKind::Invalid;
            transfer(number, TransferState::Aborted { kind, cause, fingerprint, operator_reason, at: AT })
        };
        let mut sieve = Sieve::new(Filter::default());
        let mut concerns = |event: &Event| sieve.event_concerns(participant(2), event, &names());
        for event in [transfer(1, TransferState::Reserved), transfer(2, TransferState::Reserved), refused(3)]
        {
            assert!(concerns(&event), "{event:?}");
        }
        for (event, expected) in [
            (committed(1), true),
            (committed(1), false),
            (aborted(2), true),
            (aborted(2), false),
            (aborted(3), false),
        ] {
            assert_eq!(concerns(&event), expected, "{event:?}");
        }
    }

    #[test]
    fn events_are_about_the_transfer_that_they_name() {
        let ended =
            |number| Event::FundsEnded { id: id(number), state: FundsState::Committed, reason: "x".into() };
        for number in [1, 2] {
            for event in
                [transfer(number, TransferState::Reserved), committed(number), aborted(number), ended(number)]
            {
                let payload = Payload::default();
                let text = format!("{event:?}");
                let record =
                    Record { actor: Actor::Operator, events: vec![event], callbacks: Vec::new(), payload };
                assert_eq!(is_about(&record, id(1)), number == 1, "{text}");
            }
        }
    }
}
