//! The auditor's books of FX transfers: their amounts, and whether each ends with its transfer.

use std::collections::{BTreeMap, HashMap};

use upesi_ledger::{AccountId, FxTransfer, FxTransferSide, FxTransferState, Ledger, ParticipantId, Transfer};
use upesi_types::{FxTransferId, Money, Timestamp, TransferId};

use super::entry::Movement;

/// The link of an FX transfer to its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) transfer: TransferId,
    /// The number of the side.
    pub(super) side: u8,
    pub(super) initiator: ParticipantId,
}

/// The FX transfers in flight.
#[derive(Debug, Default)]
pub(super) struct FxTransferBooks {
    pub(super) live: HashMap<FxTransferId, LiveFxTransfer>,
    pub(super) links: BTreeMap<Link, FxTransferId>,
    /// Payers' FX transfers that ended before their transfers arrived: transfer, payer and the record of the end.
    pub(super) ended: BTreeMap<(TransferId, ParticipantId), u64>,
}

/// An FX transfer in flight.
#[derive(Clone, Debug)]
pub(super) struct LiveFxTransfer {
    pub(super) link: Link,
    pub(super) initiator: ParticipantId,
    pub(super) fxp: ParticipantId,
    pub(super) target: Money,
    pub(super) reserved: Movement,
    pub(super) further: Option<Movement>,
    pub(super) condition: [u8; 32],
    pub(super) expires_at: Timestamp,
    pub(super) is_fulfilled: bool,
}

impl LiveFxTransfer {
    /// From a reserved FX transfer; `None` if it lacks parties, accounts or its transfer.
    pub(super) fn of(fx_transfer: &FxTransfer) -> Option<Self> {
        let (initiator, accounts) = (fx_transfer.initiator?, fx_transfer.accounts?);
        let units = |money: Money| i128::from(money.amount.units());
        let sale = Movement {
            debtor: accounts.initiator_source,
            creditor: accounts.fxp_source,
            units: units(fx_transfer.source),
        };
        let (reserved, further) = match fx_transfer.side {
            FxTransferSide::Payer => (sale, None),
            FxTransferSide::Payee => {
                let purchase = Movement {
                    debtor: accounts.fxp_target,
                    creditor: accounts.initiator_target?,
                    units: units(fx_transfer.target),
                };
                (purchase, Some(sale))
            }
        };
        Some(Self {
            link: Link {
                transfer: fx_transfer.determining_transfer?,
                side: fx_transfer.side.number(),
                initiator,
            },
            initiator,
            fxp: fx_transfer.fxp?,
            target: fx_transfer.target,
            reserved,
            further,
            condition: fx_transfer.condition,
            expires_at: fx_transfer.expires_at,
            is_fulfilled: fx_transfer.state == FxTransferState::Fulfilled,
        })
    }

    /// The accounts whose balance its end may lower, with the amounts.
    pub(super) fn pending(&self) -> impl Iterator<Item = (AccountId, i128)> + use<> {
        let Movement { debtor, creditor, units } = self.reserved;
        let further = self.further.map(|movement| (movement.creditor, movement.units));
        [(debtor, units), (creditor, units)].into_iter().chain(further)
    }
}

impl FxTransferBooks {
    /// Takes the live FX transfers of a trusted state.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let mut books = Self::default();
        for fx_transfer in ledger.live_fx_transfers() {
            if let Some(live) = LiveFxTransfer::of(fx_transfer) {
                books.insert(fx_transfer.id, live);
            }
        }
        let ended = ledger.ended_links().map(|(transfer, payer, seq)| ((transfer, payer), seq));
        books.ended.extend(ended);
        books
    }

    /// Retention removes entries that ended up to a record.
    pub(super) fn removed(&mut self, to_seq: u64) {
        self.ended.retain(|_, seq| *seq > to_seq);
    }

    /// A transfer id is used: an earlier FX transfer no longer prevents it.
    pub(super) fn transfer_used(&mut self, transfer: TransferId) {
        let of_transfer = self.ended.range((transfer, ParticipantId::HUB)..);
        let used: Vec<_> = of_transfer.map(|(key, _)| *key).take_while(|(of, _)| *of == transfer).collect();
        for key in used {
            self.ended.remove(&key);
        }
    }

    /// Whether the payer of a transfer requested an FX transfer that ended before. A reservation is not a finding,
    /// because earlier versions reserved such a transfer.
    pub(super) fn was_abandoned(&self, transfer: &Transfer) -> bool {
        transfer.payer.is_some_and(|payer| self.ended.contains_key(&(transfer.id, payer)))
    }

    pub(super) fn insert(&mut self, id: FxTransferId, live: LiveFxTransfer) {
        self.links.insert(live.link, id);
        self.live.insert(id, live);
    }

    pub(super) fn take(&mut self, id: FxTransferId) -> Result<LiveFxTransfer, String> {
        let live =
            self.live.remove(&id).ok_or_else(|| format!("FX transfer {id} ends, but is not in flight"))?;
        self.links.remove(&live.link);
        Ok(live)
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// The sum that live FX transfers reserve.
    pub(super) fn units(&self) -> i128 {
        self.live
            .values()
            .map(|live| live.reserved.units + live.further.map_or(0, |further| further.units))
            .sum()
    }

    fn linked(
        &self,
        transfer: TransferId,
        side: FxTransferSide,
        party: ParticipantId,
    ) -> Option<&LiveFxTransfer> {
        let link = Link { transfer, side: side.number(), initiator: party };
        self.live.get(self.links.get(&link)?)
    }

    /// The expiration of the payer's FX transfer, which limits its transfer.
    pub(super) fn deadline(&self, transfer: TransferId, payer: ParticipantId) -> Option<Timestamp> {
        self.linked(transfer, FxTransferSide::Payer, payer).map(|live| live.expires_at)
    }

    /// The debtor of a transfer: the FXP of its payer's FX transfer, otherwise the payer.
    pub(super) fn debtor(&self, transfer: &Transfer) -> Option<ParticipantId> {
        let payer = transfer.payer?;
        Some(self.linked(transfer.id, FxTransferSide::Payer, payer).map_or(payer, |live| live.fxp))
    }

    /// The account with the reservation of the payer's FX transfer.
    pub(super) fn reserved_account(&self, transfer: TransferId, payer: ParticipantId) -> Option<AccountId> {
        self.linked(transfer, FxTransferSide::Payer, payer).map(|live| live.reserved.debtor)
    }

    /// Whether the payer's FX transfer does not allow a transfer.
    pub(super) fn forbids(&self, transfer: &Transfer, now: Timestamp) -> bool {
        let payers = transfer.payer.and_then(|payer| self.linked(transfer.id, FxTransferSide::Payer, payer));
        payers.is_some_and(|live| {
            !live.is_fulfilled
                || live.expires_at <= now
                || live.target != Money { amount: transfer.amount, currency: transfer.currency }
        })
    }
}
