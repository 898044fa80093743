//! Queries about participants: their proxies, keys and blocks.
//!
//! A DFSP of another scheme is reached through a proxy. It is a participant without accounts and endpoints, and uses
//! the accounts and endpoints of its proxy.

use alloc::collections::BTreeMap;
use alloc::string::String;

use upesi_types::{FspId, Timestamp};

use crate::base::ids::ParticipantId;
use crate::core::state::Ledger;
use crate::scheme::block::Block;
use crate::scheme::participant::Participant;
use crate::scheme::signature_key::{SignatureKey, SignatureKeys};

impl Ledger {
    /// All participants in order of creation, the hub first.
    pub fn participants(&self) -> &[Participant] {
        &self.participants
    }

    /// A participant that is known to exist.
    pub fn participant(&self, id: ParticipantId) -> &Participant {
        &self.participants[id.index()]
    }

    /// A participant by its exact name.
    pub fn participant_named(&self, name: &FspId) -> Option<&Participant> {
        self.participant_id(name).map(|id| self.participant(id))
    }

    /// A participant's id by its exact name.
    pub fn participant_id(&self, name: &FspId) -> Option<ParticipantId> {
        self.names.get(name).copied()
    }

    pub(crate) fn participant_id_ignoring_case(&self, name: &FspId) -> Option<ParticipantId> {
        let any_case = || self.participants.iter().find(|participant| participant.name.eq_ignore_case(name));
        self.participant_id(name).or_else(|| any_case().map(|participant| participant.id))
    }

    pub(crate) fn next_participant_id(&self) -> ParticipantId {
        ParticipantId::new(self.participants.len() as u32 + 1)
            .unwrap_or_else(|| unreachable!("participants count from 1"))
    }

    /// The proxy in front of a participant, if any.
    pub fn proxy_of(&self, id: ParticipantId) -> Option<ParticipantId> {
        self.proxies.get(&id).copied()
    }

    /// Participants behind proxies, each with its proxy.
    pub fn proxied(&self) -> impl Iterator<Item = (ParticipantId, ParticipantId)> {
        self.proxies.iter().map(|(participant, proxy)| (*participant, *proxy))
    }

    /// The participant that is liable for a participant's payments: itself or its proxy.
    pub(crate) fn liable<'a>(&'a self, party: &'a Participant) -> &'a Participant {
        self.proxy_of(party.id).map_or(party, |proxy| self.participant(proxy))
    }

    /// Whether the same participant is liable for both parties.
    pub(crate) fn are_same_participant(&self, one: &Participant, other: &Participant) -> bool {
        self.liable(one).id == self.liable(other).id
    }

    /// The public keys of participants for signatures.
    pub const fn signature_keys(&self) -> &SignatureKeys {
        &self.signature_keys
    }

    /// Describes a key of a participant at its current state, for operators.
    pub(crate) fn describe_signature_key(&self, name: &FspId, sha256: &[u8; 32]) -> String {
        let keys = self.participant_named(name).and_then(|found| self.signature_keys.of(found.id));
        let Some(keys) = keys else { return "none".into() };
        match (keys.find(sha256), keys.revocation_of(sha256)) {
            (_, Some(_)) => "revoked".into(),
            (Some(SignatureKey { starts_at, ends_at: Some(end), .. }), None) => {
                alloc::format!("from {starts_at} until {end}")
            }
            (Some(SignatureKey { starts_at, .. }), None) => alloc::format!("from {starts_at}"),
            (None, None) => "none".into(),
        }
    }

    /// The blocks in force, with the time when each was set.
    pub const fn blocks(&self) -> &BTreeMap<Block, Timestamp> {
        &self.blocks
    }
}
