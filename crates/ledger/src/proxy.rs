//! DFSPs of other schemes, which are reached through proxies.
//!
//! Each is a participant without accounts and endpoints. Those of its proxy count for it.

use crate::Ledger;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::participant::{Participant, ParticipantId};
use crate::stored::Stored;

impl Ledger {
    /// The proxy that a participant is behind.
    pub fn proxy_of(&self, id: ParticipantId) -> Option<ParticipantId> {
        self.proxies.get(&id).copied()
    }

    /// Participants behind proxies, each with its proxy.
    pub fn proxied(&self) -> impl Iterator<Item = (ParticipantId, ParticipantId)> {
        self.proxies.iter().map(|(participant, proxy)| (*participant, *proxy))
    }

    /// Who owes and is owed what a participant sends and receives: itself, or its proxy.
    pub(crate) fn liable<'a>(&'a self, party: &'a Participant) -> &'a Participant {
        self.proxy_of(party.id).map_or(party, |proxy| self.participant(proxy))
    }

    /// Whether one participant owes what the two send to each other.
    pub(crate) fn are_one(&self, one: &Participant, other: &Participant) -> bool {
        self.liable(one).id == self.liable(other).id
    }
}

pub(crate) fn write(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    let proxied: alloc::vec::Vec<_> = ledger.proxied().collect();
    encoder.list(proxied.iter(), |encoder, pair| pair.encode(encoder));
}

pub(crate) fn read(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for (participant, proxy) in d.list(<(ParticipantId, ParticipantId)>::decode)? {
        if ledger.proxies.insert(participant, proxy).is_some() {
            return Err(DecodeError("it has a participant behind two proxies"));
        }
    }
    Ok(())
}
