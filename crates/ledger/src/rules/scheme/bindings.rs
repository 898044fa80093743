//! Adds and removes bindings of participants.

use alloc::string::ToString as _;

use upesi_types::FspId;

use crate::base::ids::ParticipantId;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::binding::{Binding, BindingKind};

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_add_binding(
        &self,
        name: &FspId,
        kind: BindingKind,
        value: &str,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        if participant.id == ParticipantId::HUB {
            return Err(AdminRefusal::BindingOfHub);
        }
        self.check_not_proxied(Some(participant))?;
        let binding = Binding::new(kind, value).ok_or(AdminRefusal::BindingValue { kind })?;
        match self.participants().iter().find(|one| one.bindings.binary_search(&binding).is_ok()) {
            Some(owner) if owner.id == participant.id => return Ok(AdminOutcome::AlreadyDone),
            Some(owner) => return Err(AdminRefusal::BindingTaken { owner: owner.name }),
            None => {}
        }
        if let Some(owner) = self.owner_of_gateway(&binding) {
            return Err(AdminRefusal::BindingOfGateway { owner });
        }
        if participant.bindings.len() >= self.config.limits.bindings {
            return Err(AdminRefusal::BindingsFull);
        }
        let Binding { kind, value } = binding;
        out.events.push(Event::BindingAdded { participant: participant.id, kind, value });
        Ok(AdminOutcome::Done)
    }

    /// The participant with a conflicting binding, if any. A certificate belongs either to a participant or to a
    /// gateway, not to both.
    fn owner_of_gateway(&self, binding: &Binding) -> Option<FspId> {
        let owner = match binding.gateway() {
            Some(peer) => self.participants().iter().find(|one| one.bindings.binary_search(&peer).is_ok()),
            None => {
                let peer = binding.to_string();
                self.participants().iter().find(|one| one.bindings.iter().any(|other| other.is_by(&peer)))
            }
        };
        owner.map(|owner| owner.name)
    }

    pub(crate) fn decide_remove_binding(
        &self,
        name: &FspId,
        kind: BindingKind,
        value: &str,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let binding = Binding::new(kind, value).ok_or(AdminRefusal::BindingValue { kind })?;
        if participant.bindings.binary_search(&binding).is_err() {
            return Err(AdminRefusal::BindingUnknown);
        }
        let Binding { kind, value } = binding;
        out.events.push(Event::BindingRemoved { participant: participant.id, kind, value });
        Ok(AdminOutcome::Done)
    }
}
