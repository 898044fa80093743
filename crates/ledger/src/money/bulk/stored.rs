//! The stored forms of bulk transfers.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use upesi_types::{Amount, BulkId, TransferId, UnfitAmount};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::ParticipantId;
use crate::base::stored::{Stored, stored_struct};
use crate::money::bulk::table::{BulkTotals, Bulks};
use crate::money::bulk::{
    AskedItem, Bulk, BulkAnswer, BulkItem, BulkRequest, BulkState, BulkView, ItemOutcome, ItemResult,
    ItemState,
};

impl Stored for BulkId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.transfer_id().map(Self::new)
    }
}

/// Implements `Stored` for an enum: each variant has a tag, followed by its fields in order.
macro_rules! stored_variants {
    ($type:ident, $unknown:literal {
        $($tag:literal $variant:ident $(($value:ident))? $({ $($field:ident),* })?;)*
    }) => {
        impl Stored for $type {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                match self {
                    $(Self::$variant $(($value))? $({ $($field),* })? => {
                        encoder.u8($tag);
                        $($value.encode(encoder);)?
                        $($($field.encode(encoder);)*)?
                    })*
                }
            }

            fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
                Ok(match decoder.u8()? {
                    $($tag => {
                        $(let $value = Stored::decode(decoder)?;)?
                        $($(let $field = Stored::decode(decoder)?;)*)?
                        Self::$variant $(($value))? $({ $($field),* })?
                    })*
                    _ => return Err(DecodeError($unknown)),
                })
            }
        }
    };
}

stored_variants! {
    BulkState, "unknown state of a bulk transfer" {
        0 Received;
        1 Accepted;
        2 Processing;
        3 Completed { at };
        4 Rejected { cause, at };
    }
}

stored_variants! {
    ItemState, "unknown state of an item" {
        0 Waiting;
        1 Refused(cause);
        2 Accepted;
        3 Committed { fulfilment, extensions };
        4 Aborted(cause);
    }
}

stored_variants! {
    ItemResult, "unknown result of an item" {
        0 Fulfil { fulfilment, extensions };
        1 Abort(cause);
    }
}

stored_variants! {
    ItemOutcome, "unknown outcome of an item" {
        0 Open;
        1 Fulfilled { fulfilment, extensions };
        2 Failed(cause);
    }
}

/// An amount, or an invalid text in its place.
impl Stored for Result<Amount, UnfitAmount> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Ok(amount) => {
                encoder.u8(0);
                amount.encode(encoder);
            }
            Err(UnfitAmount { error, text }) => {
                encoder.u8(1);
                error.encode(encoder);
                text.encode(encoder);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            0 => Stored::decode(decoder).map(Ok),
            1 => {
                let (error, text) = (Stored::decode(decoder)?, Stored::decode(decoder)?);
                Ok(Err(UnfitAmount { error, text }))
            }
            _ => Err(DecodeError("unknown form of an amount")),
        }
    }
}

impl Stored for BTreeMap<u32, ItemResult> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.iter(), |encoder, (place, result)| {
            encoder.u32(*place);
            result.encode(encoder);
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(decoder.list(<(u32, ItemResult)>::decode)?.into_iter().collect())
    }
}

/// Values that are boxed, so that their containers stay small.
macro_rules! stored_boxed {
    ($($type:ty),*) => {
        $(impl Stored for Box<$type> {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                (**self).encode(encoder);
            }

            fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
                <$type>::decode(decoder).map(Self::new)
            }
        })*
    };
}

stored_boxed!(Bulk, AskedItem, BulkRequest, BulkView);

stored_struct! {
    AskedItem { amount, currency, ilp_packet, condition, extensions }
    BulkItem { transfer, asked, state }
    BulkAnswer { is_error, fingerprint, extensions, cause }
    BulkRequest { quote, payer, payee, expires_at, items, extensions }
    BulkView { state, completed_at, items, extensions }
    Bulk {
        id, quote, payer, payee, expires_at, received_at, prepare_seq, prepare_fingerprint, extensions, items, answer,
        results, state,
    }
}

stored_struct! {
    BulkTotals { taken, refused, completed, rejected, items, items_committed, results_ignored }
}

impl Bulks {
    /// Writes the totals, the live bulk transfers (oldest first) and the queue of those with a step to take. The ended
    /// ones follow, with the sequence numbers of the records that ended them.
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        self.totals().encode(encoder);
        encoder
            .list(self.live_by_age(), |encoder, entry| encoder.sized(|encoder| entry.bulk.encode(encoder)));
        encoder.list(self.due_ids(), |encoder, id| id.encode(encoder));
        encoder.list(self.finished(), |encoder, (seq, bulk)| {
            encoder.u64(seq);
            encoder.sized(|encoder| bulk.encode(encoder));
        });
    }

    pub(crate) fn decode(
        &mut self,
        d: &mut Decoder<'_>,
        is_reserved: impl Fn(TransferId) -> bool,
    ) -> Decoded<()> {
        self.totals = Stored::decode(d)?;
        for bulk in d.list(|d| Bulk::decode(&mut d.sized()?))? {
            if bulk.is_live() && self.get(bulk.id).is_none() && !self.is_whole(&bulk, &is_reserved) {
                return Err(DecodeError("a live bulk transfer contradicts itself or its transfers"));
            }
            self.restore(bulk.prepare_seq, bulk, true)?;
        }
        let due: Vec<BulkId> = Stored::decode(d)?;
        if !self.restore_due(due) {
            return Err(DecodeError("its bulk transfers do not take their steps in turn"));
        }
        for (seq, bulk) in d.list(|d| Ok((d.u64()?, Bulk::decode(&mut d.sized()?)?)))? {
            self.restore(seq, bulk, false)?;
        }
        Ok(())
    }

    fn restore(&mut self, seq: u64, bulk: Bulk, is_live: bool) -> Decoded<()> {
        if bulk.is_live() != is_live {
            return Err(DecodeError("a bulk transfer is listed under another state"));
        }
        if self.get(bulk.id).is_some() {
            return Err(DecodeError("a bulk transfer is listed twice"));
        }
        self.insert(seq, Box::new(bulk));
        Ok(())
    }

    /// Whether a live bulk transfer has its parties and items that fit its state, and shares no open item with another.
    fn is_whole(&self, bulk: &Bulk, is_reserved: impl Fn(TransferId) -> bool) -> bool {
        let is_received = bulk.state == BulkState::Received;
        let mut open =
            bulk.items.iter().filter(|item| is_open(item)).map(|item| item.transfer).collect::<Vec<_>>();
        let count = open.len();
        open.sort_unstable();
        open.dedup();
        let is_sound = |item: &BulkItem| match item.state {
            ItemState::Waiting => is_received && item.asked.is_some(),
            ItemState::Accepted => is_reserved(item.transfer) && item.asked.is_some() == is_received,
            _ => true,
        };
        let is_answered = |place: &u32| {
            bulk.items.get(*place as usize).is_some_and(|item| item.state == ItemState::Accepted)
        };
        count == open.len()
            && open.iter().all(|transfer| self.holding(*transfer).is_none())
            && bulk.payer.is_some()
            && bulk.payee.is_some()
            && bulk.items.iter().all(is_sound)
            && bulk.results.keys().all(is_answered)
            && (bulk.answer.is_some() == (bulk.state == BulkState::Processing))
            && (bulk.results.is_empty() || bulk.state == BulkState::Processing)
    }

    /// Whether all participants that bulk transfers reference are known.
    pub(crate) fn refer_to(&self, is_participant: impl Fn(ParticipantId) -> bool) -> bool {
        let live = self.live_by_age().map(|entry| &*entry.bulk);
        let mut all = live.chain(self.finished().map(|(_, bulk)| bulk));
        all.all(|bulk| [bulk.payer, bulk.payee].into_iter().flatten().all(&is_participant))
    }
}

fn is_open(item: &BulkItem) -> bool {
    matches!(item.state, ItemState::Waiting | ItemState::Accepted)
}
