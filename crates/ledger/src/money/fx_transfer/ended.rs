//! Ended links: payers' FX transfers that expired or were declined before their transfers arrived.
//!
//! A payer that requested an FX transfer must not accidentally pay in the target currency from its own account. The
//! link is therefore kept until the transfer id is used, or retention removes the FX transfer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use upesi_types::TransferId;

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::ParticipantId;
use crate::base::refusal::Refusal;
use crate::base::stored::{Stored, stored_struct};

/// Maximum number of ended links of one payer. A further link replaces the oldest one. This is not a setting, because a
/// replay must drop the same links.
const ENDED_LINKS_MAX: usize = 10_000;

/// How a payer's FX transfer ended before its transfer arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedLink {
    /// The sequence number of the record that ended it.
    pub(crate) seq: u64,
    /// Whether its deadline passed. Otherwise the FXP declined it or answered invalidly.
    pub(crate) is_expired: bool,
}

impl EndedLink {
    /// The reason for rejecting the transfer.
    pub(crate) const fn refusal(self) -> Refusal {
        if self.is_expired { Refusal::FxTransferExpired } else { Refusal::FxTransferDeclined }
    }
}

stored_struct! {
    EndedLink { seq, is_expired }
}

/// Ended links by transfer and payer, at most [`ENDED_LINKS_MAX`] for each payer.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedLinks {
    all: BTreeMap<(TransferId, ParticipantId), EndedLink>,
    /// The same links by payer, oldest first.
    by_payer: BTreeMap<ParticipantId, BTreeSet<(u64, TransferId)>>,
}

impl EndedLinks {
    /// The transfers and payers of the links, with the sequence numbers of the records that ended the FX transfers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TransferId, ParticipantId, u64)> {
        self.all.iter().map(|((transfer, payer), link)| (*transfer, *payer, link.seq))
    }

    pub(crate) fn get(&self, transfer: TransferId, payer: ParticipantId) -> Option<EndedLink> {
        if self.all.is_empty() {
            return None;
        }
        self.all.get(&(transfer, payer)).copied()
    }

    /// Records that a payer's FX transfer ended. A later link for the same transfer replaces the earlier one.
    pub(crate) fn insert(&mut self, transfer: TransferId, payer: ParticipantId, link: EndedLink) {
        self.remove(transfer, payer);
        self.all.insert((transfer, payer), link);
        let own = self.by_payer.entry(payer).or_default();
        own.insert((link.seq, transfer));
        if own.len() > ENDED_LINKS_MAX
            && let Some((_, oldest)) = own.first().copied()
        {
            self.remove(oldest, payer);
        }
    }

    fn remove(&mut self, transfer: TransferId, payer: ParticipantId) {
        let Some(link) = self.all.remove(&(transfer, payer)) else { return };
        if let Some(own) = self.by_payer.get_mut(&payer) {
            own.remove(&(link.seq, transfer));
            if own.is_empty() {
                self.by_payer.remove(&payer);
            }
        }
    }

    /// Removes the links of a transfer id that is now used, by any payer.
    pub(crate) fn note_use(&mut self, transfer: TransferId) {
        if self.all.is_empty() {
            return;
        }
        let links = self.all.range((transfer, ParticipantId::HUB)..).map(|(key, _)| *key);
        let payers: Vec<_> = links.take_while(|(of, _)| *of == transfer).map(|(_, payer)| payer).collect();
        payers.into_iter().for_each(|payer| self.remove(transfer, payer));
    }

    /// Removes the links of FX transfers that ended up to a record, when retention removes those FX transfers.
    pub(crate) fn forget_to(&mut self, seq: u64) {
        let is_left = |link: &EndedLink| link.seq <= seq;
        let left: Vec<_> = self.all.iter().filter(|(_, link)| is_left(link)).map(|(key, _)| *key).collect();
        left.into_iter().for_each(|(transfer, payer)| self.remove(transfer, payer));
    }
}

impl Stored for EndedLinks {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.all.iter(), |encoder, ((transfer, payer), link)| {
            encoder.transfer_id(*transfer);
            payer.encode(encoder);
            link.encode(encoder);
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let mut ended = Self::default();
        for (transfer, payer, link) in
            decoder.list(|d| Ok((d.transfer_id()?, ParticipantId::decode(d)?, EndedLink::decode(d)?)))?
        {
            if ended.get(transfer, payer).is_some() {
                return Err(DecodeError("it lists an ended FX transfer of a transfer twice"));
            }
            ended.insert(transfer, payer, link);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::participant;

    fn transfer(number: u32) -> TransferId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        TransferId::from_random_bytes(bytes)
    }

    /// Links of a payer whose FX transfers expire use limited memory, and only this payer's links are removed.
    #[test]
    fn ended_links_of_a_payer_are_limited() {
        let mut ended = EndedLinks::default();
        ended.insert(transfer(1), participant(3), EndedLink { seq: 1, is_expired: false });
        for number in 1..=10_001 {
            let link = EndedLink { seq: u64::from(number), is_expired: true };
            ended.insert(transfer(number), participant(2), link);
        }
        assert_eq!(ended.all.len(), 10_001);
        assert_eq!(ended.get(transfer(1), participant(2)), None, "the oldest one");
        assert!([2, 10_001].iter().all(|number| ended.get(transfer(*number), participant(2)).is_some()));
        assert!(ended.get(transfer(1), participant(3)).is_some());
        ended.forget_to(10_000);
        assert_eq!(ended.all.len(), 1);
        ended.note_use(transfer(10_001));
        assert!(ended.all.is_empty() && ended.by_payer.is_empty());
    }
}
