//! The FX transfers in memory: the live ones, and ended ones that are not archived yet.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use upesi_types::{FxTransferId, Timestamp, TransferId};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::{AccountId, ParticipantId};
use crate::base::stored::{Stored, stored_struct};
use crate::money::fx_transfer::ended::EndedLinks;
use crate::money::fx_transfer::{FxTransfer, FxTransferSide};

/// Transfer, number of the side, and initiator. It identifies a live FX transfer of a transfer.
type Link = (TransferId, u8, ParticipantId);

/// Totals of FX transfers since the ledger began, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FxTransferTotals {
    /// Requests that were reserved.
    pub reserved: u64,
    /// Requests that were rejected.
    pub refused: u64,
    /// Reserved FX transfers that were committed.
    pub committed: u64,
    /// Reserved FX transfers that were aborted, including expired ones.
    pub aborted: u64,
    /// Aborted FX transfers that expired.
    pub expired: u64,
    /// Movements of committed FX transfers, each in a settlement window or settled immediately.
    pub committed_legs: u64,
}

/// FX transfers by id. Live ones also by determining transfer and by deadline, ended ones by age.
#[derive(Clone, Debug)]
pub(crate) struct FxTransfers {
    all: HashMap<FxTransferId, Box<FxTransfer>, FixedState>,
    links: HashMap<Link, FxTransferId, FixedState>,
    pub(crate) ended: EndedLinks,
    deadlines: BTreeSet<(Timestamp, FxTransferId)>,
    finished: VecDeque<(u64, FxTransferId)>,
    pub(crate) totals: FxTransferTotals,
}

impl FxTransfers {
    pub(crate) fn new(hash_seed: u64) -> Self {
        Self {
            all: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            links: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            ended: EndedLinks::default(),
            deadlines: BTreeSet::new(),
            finished: VecDeque::new(),
            totals: FxTransferTotals::default(),
        }
    }

    pub(crate) const fn totals(&self) -> FxTransferTotals {
        self.totals
    }

    /// Whether no FX transfer is live. Checked for each transfer, so it must be fast.
    pub(crate) fn has_no_live(&self) -> bool {
        self.deadlines.is_empty()
    }

    pub(crate) fn live_len(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn get(&self, id: FxTransferId) -> Option<&FxTransfer> {
        self.all.get(&id).map(|fx_transfer| &**fx_transfer)
    }

    /// The live FX transfer of a party for a transfer.
    pub(crate) fn linked(
        &self,
        transfer: TransferId,
        side: FxTransferSide,
        party: Option<ParticipantId>,
    ) -> Option<&FxTransfer> {
        if self.has_no_live() {
            return None;
        }
        self.get(*self.links.get(&(transfer, side.number(), party?))?)
    }

    pub(crate) fn insert(&mut self, seq: u64, fx_transfer: Box<FxTransfer>) {
        let id = fx_transfer.id;
        if fx_transfer.is_live() {
            self.deadlines.insert((fx_transfer.expires_at, id));
            let previous = self.links.insert(link(&fx_transfer), id);
            assert!(previous.is_none(), "FX transfer {id} is not the only one of its party for its transfer");
        } else {
            self.finished.push_back((seq, id));
        }
        let previous = self.all.insert(id, fx_transfer);
        assert!(previous.is_none(), "FX transfer {id} is prepared twice");
    }

    /// A live FX transfer, mutable.
    pub(crate) fn live_mut(&mut self, id: FxTransferId) -> &mut FxTransfer {
        let found = self.all.get_mut(&id).filter(|fx_transfer| fx_transfer.is_live());
        found.unwrap_or_else(|| panic!("FX transfer {id} changes, but is not live"))
    }

    /// Ends a live FX transfer. `change` sets the final state.
    pub(crate) fn finish(&mut self, seq: u64, id: FxTransferId, change: impl FnOnce(&mut FxTransfer)) {
        let fx_transfer = self.live_mut(id);
        let (place, link) = ((fx_transfer.expires_at, id), link(fx_transfer));
        change(fx_transfer);
        assert!(!fx_transfer.is_live(), "FX transfer {id} ends live");
        let was_waiting = self.deadlines.remove(&place) && self.links.remove(&link) == Some(id);
        assert!(was_waiting, "FX transfer {id} had no deadline");
        self.finished.push_back((seq, id));
    }

    /// The live FX transfers, oldest deadline first.
    pub(crate) fn live(&self) -> impl Iterator<Item = &FxTransfer> {
        self.deadlines.iter().filter_map(|(_, id)| self.get(*id))
    }

    /// The live FX transfers, oldest request first.
    pub(crate) fn live_by_age(&self) -> impl ExactSizeIterator<Item = &FxTransfer> {
        let mut live: Vec<_> = self.live().collect();
        live.sort_unstable_by_key(|fx_transfer| (fx_transfer.prepare_seq, fx_transfer.id));
        live.into_iter()
    }

    pub(crate) fn oldest_live_seq(&self) -> Option<u64> {
        self.live().map(|fx_transfer| fx_transfer.prepare_seq).min()
    }

    /// The live FX transfers whose deadline is before `now`, oldest deadline first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = &FxTransfer> {
        let due = self.deadlines.iter().take_while(move |(deadline, _)| *deadline < now);
        due.filter_map(|(_, id)| self.get(*id))
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// The ended FX transfers, oldest first, with the sequence number that ended each.
    pub(crate) fn finished(&self) -> impl ExactSizeIterator<Item = (u64, &FxTransfer)> {
        self.finished.iter().map(|(seq, id)| {
            let found = self.get(*id);
            (*seq, found.unwrap_or_else(|| unreachable!("a listed FX transfer is kept")))
        })
    }

    /// Removes the FX transfers that ended at or before `seq`, oldest first, with the sequence number that ended each.
    pub(crate) fn drain_finished(&mut self, seq: u64) -> impl Iterator<Item = (u64, Box<FxTransfer>)> {
        core::iter::from_fn(move || {
            let (finished, id) = self.finished.pop_front_if(|(finished, _)| *finished <= seq)?;
            Some((finished, self.all.remove(&id)?))
        })
    }
}

fn link(fx_transfer: &FxTransfer) -> Link {
    match (fx_transfer.determining_transfer, fx_transfer.initiator) {
        (Some(transfer), Some(initiator)) => (transfer, fx_transfer.side.number(), initiator),
        _ => panic!("FX transfer {} was reserved without its transfer or initiator", fx_transfer.id),
    }
}

stored_struct! {
    FxTransferTotals { reserved, refused, committed, aborted, expired, committed_legs }
}

impl FxTransfers {
    /// Writes the totals, the live FX transfers (oldest first), and the ended ones with the sequence numbers of the
    /// records that ended them. Ended links are another section of the snapshot.
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        self.totals().encode(encoder);
        encoder.list(self.live_by_age(), |encoder, item| encoder.sized(|encoder| item.encode(encoder)));
        encoder.list(self.finished(), |encoder, (seq, item)| {
            encoder.u64(seq);
            encoder.sized(|encoder| item.encode(encoder));
        });
    }

    pub(crate) fn decode(&mut self, d: &mut Decoder<'_>) -> Decoded<()> {
        self.totals = Stored::decode(d)?;
        let live: Vec<FxTransfer> = d.list(|d| FxTransfer::decode(&mut d.sized()?))?;
        for fx_transfer in live {
            self.restore(fx_transfer.prepare_seq, fx_transfer, true)?;
        }
        for (seq, fx_transfer) in d.list(|d| Ok((d.u64()?, FxTransfer::decode(&mut d.sized()?)?)))? {
            self.restore(seq, fx_transfer, false)?;
        }
        Ok(())
    }

    fn restore(&mut self, seq: u64, fx_transfer: FxTransfer, is_live: bool) -> Decoded<()> {
        if fx_transfer.is_live() != is_live {
            return Err(DecodeError("an FX transfer is listed under another state"));
        }
        let is_known = self.get(fx_transfer.id).is_some();
        let is_linked = fx_transfer.determining_transfer.is_some_and(|transfer| {
            is_live && self.linked(transfer, fx_transfer.side, fx_transfer.initiator).is_some()
        });
        if is_known || is_linked {
            return Err(DecodeError("an FX transfer is listed twice"));
        }
        if is_live && !is_whole(&fx_transfer) {
            return Err(DecodeError("a live FX transfer lacks a party, an account or its transfer"));
        }
        self.insert(seq, Box::new(fx_transfer));
        Ok(())
    }

    /// Whether all participants and accounts that FX transfers reference are known.
    pub(crate) fn refer_to(
        &self,
        is_participant: impl Fn(ParticipantId) -> bool,
        is_account: impl Fn(AccountId) -> bool,
    ) -> bool {
        let mut all = self.live().chain(self.finished().map(|(_, fx_transfer)| fx_transfer));
        let mut payers = self.ended.iter().map(|(_, payer, _)| payer);
        payers.all(&is_participant)
            && all.all(|fx_transfer| {
                let accounts = fx_transfer.accounts.iter().flat_map(|accounts| {
                    let all = [Some(accounts.initiator_source), accounts.initiator_target];
                    all.into_iter().flatten().chain([accounts.fxp_source, accounts.fxp_target])
                });
                [fx_transfer.initiator, fx_transfer.fxp].into_iter().flatten().all(&is_participant)
                    && accounts.into_iter().all(&is_account)
            })
    }
}

fn is_whole(fx_transfer: &FxTransfer) -> bool {
    let is_payees = fx_transfer.side == FxTransferSide::Payee;
    fx_transfer.determining_transfer.is_some()
        && fx_transfer.initiator.is_some()
        && fx_transfer.fxp.is_some()
        && fx_transfer.accounts.is_some_and(|accounts| accounts.initiator_target.is_some() == is_payees)
}
