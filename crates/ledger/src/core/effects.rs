//! The digest of a record's events. The chain of the audit trail includes it.

use alloc::vec::Vec;

use sha2::{Digest, Sha256};

use crate::base::codec::Encoder;
use crate::base::stored::Stored;
use crate::core::event::Event;
use crate::operators::trail::AuditEntry;

impl AuditEntry {
    /// The chain value that this entry must have after an entry with chain value `previous`, in a record with these
    /// events.
    pub fn chain_after(&self, previous: &[u8; 32], events: &[Event]) -> [u8; 32] {
        self.chain_beside(previous, &effects_of(events))
    }

    /// Sets the entry's chain value, given the previous one and the record's other events.
    pub(crate) fn linked(mut self, previous: &[u8; 32], events: &[Event]) -> Self {
        self.chain = self.chain_after(previous, events);
        self
    }
}

/// SHA-256 of the events of a record that its entry covers.
pub fn effects_of(events: &[Event]) -> [u8; 32] {
    let mut bytes = Vec::new();
    let encoder = &mut Encoder(&mut bytes);
    for event in events.iter().filter(|event| is_bound(event)) {
        event.encode(encoder);
    }
    Sha256::digest(&bytes).into()
}

/// Whether the entry's digest covers an event. It does not cover the entry itself, the time of the decision, which the
/// entry contains, and the start of the hub, which the engine adds.
const fn is_bound(event: &Event) -> bool {
    !matches!(event, Event::OperatorActed(_) | Event::DecidedAt(_) | Event::FirstWindowOpened(_))
}

#[cfg(test)]
mod tests {
    use upesi_types::Timestamp;

    use super::*;
    use crate::operators::trail::AuditActor;

    fn entry() -> AuditEntry {
        let by = AuditActor {
            operator: "amina".into(),
            known_by: "token 1".into(),
            address: Some("127.0.0.1".into()),
            on_behalf_of: None,
            action: "limit.raise".into(),
            reason: None,
        };
        AuditEntry {
            number: 1,
            at: Timestamp::from_ms(5),
            by,
            object: "cap".into(),
            before: "1".into(),
            after: "2".into(),
            refused: None,
            chain: [0; 32],
        }
    }

    /// A change of any field, of another event of the record or of the previous entry changes the chain.
    #[test]
    fn chain_covers_every_field_of_entry_and_record() {
        let events = [Event::FeeRuleEnded { id: 1, until: Timestamp::EPOCH }];
        let base = entry().chain_after(&[0; 32], &events);
        let other = |change: fn(&mut AuditEntry)| {
            let mut changed = entry();
            change(&mut changed);
            changed.chain_after(&[0; 32], &events)
        };
        let changed = [
            other(|entry| entry.number = 2),
            other(|entry| entry.at = Timestamp::from_ms(6)),
            other(|entry| entry.by.operator = "brian".into()),
            other(|entry| entry.by.known_by = "session".into()),
            other(|entry| entry.by.address = None),
            other(|entry| entry.by.on_behalf_of = Some("amina".into())),
            other(|entry| entry.by.action = "limit.lower".into()),
            other(|entry| entry.by.reason = Some("".into())),
            other(|entry| entry.object = "caps".into()),
            other(|entry| entry.before = "2".into()),
            other(|entry| entry.after = "3".into()),
            other(|entry| entry.refused = Some("no".into())),
            entry().chain_after(&[1; 32], &events),
            entry().chain_after(&[0; 32], &[]),
        ];
        for (index, one) in changed.iter().enumerate() {
            assert_ne!(*one, base, "change {index}");
        }
        // Without the link itself and the instant of the decision, which the entry has.
        let with_instant = [&[Event::DecidedAt(Timestamp::EPOCH)][..], &events].concat();
        assert_eq!(entry().linked(&[0; 32], &events).chain_after(&[0; 32], &with_instant), base);
    }
}
