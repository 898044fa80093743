//! Names and endpoints, as those who call DFSPs need them.

use upesi_ledger::{EndpointType, Event, Ledger, Participant, ParticipantId};
use upesi_types::FspId;

/// Participants with their endpoints at some moment.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    participants: Vec<Participant>,
}

impl Directory {
    pub(crate) fn of(ledger: &Ledger) -> Self {
        Self { participants: ledger.participants().to_vec() }
    }

    pub(crate) fn is_changed_by(event: &Event) -> bool {
        matches!(event, Event::ParticipantCreated { .. } | Event::EndpointSet { .. })
    }

    fn get(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(id.number() as usize - 1)
    }

    /// A participant's name.
    pub fn name(&self, id: ParticipantId) -> Option<FspId> {
        self.get(id).map(|participant| participant.name)
    }

    /// The hub's own name.
    pub fn hub_name(&self) -> Option<FspId> {
        self.name(ParticipantId::HUB)
    }

    /// A participant's callback URL or address.
    pub fn endpoint(&self, id: ParticipantId, kind: EndpointType) -> Option<&str> {
        self.get(id)?.endpoint(kind)
    }

    /// All participants.
    pub fn ids(&self) -> impl Iterator<Item = ParticipantId> {
        self.participants.iter().map(|participant| participant.id)
    }
}
