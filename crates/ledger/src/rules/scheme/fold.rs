//! Applies the events of participants to the state.

use alloc::boxed::Box;

use upesi_types::{FspId, Timestamp};

use crate::base::ids::ParticipantId;
use crate::core::state::Ledger;
use crate::scheme::binding::Binding;
use crate::scheme::block::Block;
use crate::scheme::endpoint::EndpointType;
use crate::scheme::participant::{Limit, Participant};

impl Ledger {
    pub(crate) fn add_participant(&mut self, now: Timestamp, id: ParticipantId, name: FspId, is_proxy: bool) {
        assert!(id.index() == self.participants.len(), "participants are numbered without gaps");
        self.names.insert(name, id);
        self.participants.push(Participant { is_proxy, ..Participant::new(id, name, now) });
    }

    pub(crate) fn set_endpoint(&mut self, participant: ParticipantId, kind: EndpointType, value: Box<str>) {
        let endpoints = &mut self.participant_mut(participant).endpoints;
        match endpoints.binary_search_by_key(&kind, |(kind, _)| *kind) {
            Ok(at) => endpoints[at].1 = value,
            Err(at) => endpoints.insert(at, (kind, value)),
        }
    }

    pub(crate) fn add_binding(&mut self, participant: ParticipantId, binding: Binding) {
        let bindings = &mut self.participant_mut(participant).bindings;
        match bindings.binary_search(&binding) {
            Ok(_) => panic!("a participant gets a binding only once"),
            Err(at) => bindings.insert(at, binding),
        }
    }

    pub(crate) fn remove_binding(&mut self, participant: ParticipantId, binding: &Binding) {
        self.participant_mut(participant).bindings.retain(|known| known != binding);
    }

    pub(crate) fn add_proxied(&mut self, participant: ParticipantId, proxy: ParticipantId) {
        let before = self.proxies.insert(participant, proxy);
        assert!(before.is_none(), "a participant is behind one proxy");
    }

    pub(crate) fn remove_proxied(&mut self, participant: ParticipantId, proxy: ParticipantId) {
        let before = self.proxies.remove(&participant);
        assert!(before == Some(proxy), "a participant leaves the proxy that it is behind");
    }

    pub(crate) fn set_limit(&mut self, participant: ParticipantId, limit: Limit) {
        let limits = &mut self.participant_mut(participant).limits;
        limits.retain(|known| known.currency != limit.currency);
        limits.push(limit);
    }

    pub(crate) fn set_block(&mut self, now: Timestamp, block: Block) {
        let before = self.blocks.insert(block, now);
        assert!(before.is_none(), "a block is set once");
    }

    pub(crate) fn lift_block(&mut self, block: &Block) {
        let before = self.blocks.remove(block);
        assert!(before.is_some(), "a block is lifted after it was set");
    }

    pub(crate) fn participant_mut(&mut self, id: ParticipantId) -> &mut Participant {
        &mut self.participants[id.index()]
    }
}
