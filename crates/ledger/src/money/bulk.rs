//! Bulk transfers: many transfers from one payer DFSP to one payee DFSP, requested and answered together. Each item is
//! a transfer of its own. The bulk transfer records its items, the request and the outcome of each item.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use upesi_types::{Amount, BulkId, Currency, FspId, Timestamp, TransferId, UnfitAmount};

use crate::base::ids::ParticipantId;
use crate::base::refusal::Cause;
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::wire_enum;
use crate::money::transfer::Fingerprint;

pub(crate) mod stored;
pub(crate) mod table;

/// Maximum number of items in a bulk transfer.
pub const BULK_ITEMS_MAX: usize = 1_000;

wire_enum! {
    /// The state of a bulk transfer as DFSPs see it (FSPIOP API v1.1 §7.5.2).
    PublicBulkState {
        /// The request is stored, and no item is decided.
        Received = 1 "RECEIVED",
        /// Some items are decided.
        Pending = 2 "PENDING",
        /// All items are decided, and the request was sent to the payee.
        Accepted = 3 "ACCEPTED",
        /// The payee's answer was accepted, and items are being committed and aborted.
        Processing = 4 "PROCESSING",
        /// At least one item was committed, and no item is open. Final.
        Completed = 5 "COMPLETED",
        /// No item was committed. Final.
        Rejected = 6 "REJECTED",
    }
}

/// A bulk transfer as stored in the ledger and the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Identifier chosen by the payer DFSP: the `bulkTransferId`.
    pub id: BulkId,
    /// `bulkQuoteId`, which is forwarded to the payee.
    pub quote: TransferId,
    /// Payer; absent if a rejected request named an unknown one.
    pub payer: Option<ParticipantId>,
    /// Payee; absent if a rejected request named an unknown one.
    pub payee: Option<ParticipantId>,
    /// Time when its items expire.
    pub expires_at: Timestamp,
    /// Time when the request was received.
    pub received_at: Timestamp,
    /// Journal sequence number of the request, whose record contains headers and body.
    pub prepare_seq: u64,
    /// Fingerprint of the request.
    pub prepare_fingerprint: Fingerprint,
    /// The request's extensions (JSON text of the array), retained until they are sent to the payee.
    pub extensions: Option<Box<str>>,
    /// Items in the order of the request. Empty if the bulk transfer was rejected.
    pub items: Vec<BulkItem>,
    /// The accepted PUT of the payee.
    pub answer: Option<BulkAnswer>,
    /// Results of the payee's PUT that have not taken effect yet, by the position of the item.
    pub results: BTreeMap<u32, ItemResult>,
    pub state: BulkState,
}

/// The state of a bulk transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkState {
    /// The items are being reserved one after the other.
    Received,
    /// All items are decided, and the request was sent to the payee.
    Accepted,
    /// The payee has answered.
    Processing,
    /// At least one item was committed. Final.
    Completed {
        /// Time of the end.
        at: Timestamp,
    },
    /// No item was committed. Final.
    Rejected {
        /// The reason, if the bulk transfer was rejected as a whole.
        cause: Option<Cause>,
        /// Time of the end.
        at: Timestamp,
    },
}

/// An item of a bulk transfer. It becomes a transfer when it is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkItem {
    /// `transferId`.
    pub transfer: TransferId,
    /// The payer's request for the item, retained until it is sent to the payee.
    pub asked: Option<Box<AskedItem>>,
    /// The outcome of the item so far.
    pub state: ItemState,
}

/// The payer's request for an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedItem {
    /// `transferAmount.amount`. If it does not fit the ledger, the text is retained.
    pub amount: Result<Amount, UnfitAmount>,
    /// `transferAmount.currency`.
    pub currency: Currency,
    /// `ilpPacket`.
    pub ilp_packet: Box<str>,
    /// `condition`; absent if it is not 32 bytes.
    pub condition: Option<[u8; 32]>,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// The state of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemState {
    /// The item is not decided yet.
    Waiting,
    /// The item was never reserved, or its reservation ended before the request was sent to the payee. The payee is not
    /// informed of it. Final.
    Refused(Cause),
    /// The item's transfer is reserved.
    Accepted,
    /// The item's transfer is committed. Final.
    Committed {
        /// Preimage of the condition.
        fulfilment: [u8; 32],
        /// The payee's extensions.
        extensions: Option<Box<str>>,
    },
    /// The item's transfer is aborted. Final.
    Aborted(Cause),
}

/// The result for an item in the payee's PUT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemResult {
    /// `fulfilment`.
    Fulfil {
        /// 32 bytes. Every text that the API's schema admits decodes to 32 bytes.
        fulfilment: [u8; 32],
        /// JSON text of the extension array.
        extensions: Option<Box<str>>,
    },
    /// `errorInformation`, or an invalid result.
    Abort(Cause),
}

/// The accepted PUT of the payee. It distinguishes resends from modified requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkAnswer {
    /// Whether it was `PUT …/error`. In that case it alone informed the parties of the outcome.
    pub is_error: bool,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
    /// The payee's reason for rejecting the bulk transfer as a whole.
    pub cause: Option<Cause>,
}

/// `POST /bulkTransfers` from the hub to the payee, with the reserved items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRequest {
    /// `bulkQuoteId`.
    pub quote: TransferId,
    /// `payerFsp`.
    pub payer: FspId,
    /// `payeeFsp`.
    pub payee: FspId,
    /// `expiration`.
    pub expires_at: Timestamp,
    /// The items in the payer's order.
    pub items: Vec<(TransferId, AskedItem)>,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

/// The view of a bulk transfer that is sent to its parties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkView {
    pub state: PublicBulkState,
    /// Time when it became final; absent before.
    pub completed_at: Option<Timestamp>,
    /// The items that the reader knows, in the payer's order.
    pub items: Vec<(TransferId, ItemOutcome)>,
    /// JSON text of the payee's extension array.
    pub extensions: Option<Box<str>>,
}

/// The outcome of an item as sent to parties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemOutcome {
    /// The item is not final.
    Open,
    /// The item was committed.
    Fulfilled {
        /// Preimage of the condition.
        fulfilment: [u8; 32],
        /// JSON text of the extension array.
        extensions: Option<Box<str>>,
    },
    /// The item was rejected or aborted.
    Failed(Cause),
}

/// The items of a new bulk transfer: 1 to [`BULK_ITEMS_MAX`], each transfer once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItems(Vec<(TransferId, AskedItem)>);

/// A mistake in the items of a new bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsFault {
    /// The number of items is not between 1 and [`BULK_ITEMS_MAX`].
    Number,
    /// This transfer occurs twice.
    Twice(TransferId),
}

impl NewItems {
    /// Checks the items.
    pub fn new(items: Vec<(TransferId, AskedItem)>) -> Result<Self, ItemsFault> {
        if items.is_empty() || items.len() > BULK_ITEMS_MAX {
            return Err(ItemsFault::Number);
        }
        let mut seen = BTreeSet::new();
        match items.iter().find(|(id, _)| !seen.insert(*id)) {
            Some((twice, _)) => Err(ItemsFault::Twice(*twice)),
            None => Ok(Self(items)),
        }
    }

    /// The ids of the transfers, in order.
    pub fn transfers(&self) -> impl ExactSizeIterator<Item = TransferId> {
        self.0.iter().map(|(id, _)| *id)
    }

    /// The items in order, mutable.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut AskedItem> {
        self.0.iter_mut().map(|(_, item)| item)
    }

    /// The items, in order.
    pub fn into_items(self) -> impl ExactSizeIterator<Item = (TransferId, AskedItem)> {
        self.0.into_iter()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &(TransferId, AskedItem)> {
        self.0.iter()
    }
}

impl AskedItem {
    /// Approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let extensions = self.extensions.as_ref().map_or(0, |text| text.len());
        size_of::<Self>() + self.ilp_packet.len() + extensions
    }
}

impl BulkRequest {
    /// Approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.items.iter().map(|(_, item)| item.bytes()).sum::<usize>()
    }
}

impl BulkView {
    /// Approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let text = |outcome: &ItemOutcome| match outcome {
            ItemOutcome::Fulfilled { extensions: Some(items), .. } => items.len(),
            ItemOutcome::Failed(Cause::Payee { description, .. }) => description.len(),
            _ => 0,
        };
        let items =
            self.items.iter().map(|(_, outcome)| size_of::<(TransferId, ItemOutcome)>() + text(outcome));
        size_of::<Self>() + items.sum::<usize>()
    }
}

impl ItemState {
    /// Whether the item was in the request to the payee. An item no longer waits once its bulk transfer has been sent.
    const fn is_known_to_payee(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Refused(_))
    }

    fn outcome(&self) -> ItemOutcome {
        match self {
            Self::Waiting | Self::Accepted => ItemOutcome::Open,
            Self::Refused(cause) | Self::Aborted(cause) => ItemOutcome::Failed(cause.clone()),
            Self::Committed { fulfilment, extensions } => {
                ItemOutcome::Fulfilled { fulfilment: *fulfilment, extensions: extensions.clone() }
            }
        }
    }
}

impl Bulk {
    /// Whether the bulk transfer is not final.
    pub const fn is_live(&self) -> bool {
        matches!(self.state, BulkState::Received | BulkState::Accepted | BulkState::Processing)
    }

    /// The state that DFSPs see.
    pub fn public_state(&self) -> PublicBulkState {
        match self.state {
            BulkState::Received if self.items.iter().all(|item| item.state == ItemState::Waiting) => {
                PublicBulkState::Received
            }
            BulkState::Received => PublicBulkState::Pending,
            BulkState::Accepted => PublicBulkState::Accepted,
            BulkState::Processing => PublicBulkState::Processing,
            BulkState::Completed { .. } => PublicBulkState::Completed,
            BulkState::Rejected { .. } => PublicBulkState::Rejected,
        }
    }

    /// Time when it reached its final state.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            BulkState::Completed { at } | BulkState::Rejected { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Whether a participant is the payer or the payee.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.payer == Some(participant) || self.payee == Some(participant)
    }

    /// Whether any of its items was committed.
    pub(crate) fn has_committed(&self) -> bool {
        self.items.iter().any(|item| matches!(item.state, ItemState::Committed { .. }))
    }

    /// The item outcomes for a reader. The payee sees only items that were in its request.
    pub(crate) fn outcomes_for(&self, reader: ParticipantId) -> Vec<(TransferId, ItemOutcome)> {
        let is_payer = self.payer == Some(reader);
        let is_known = |item: &&BulkItem| is_payer || item.state.is_known_to_payee();
        self.items.iter().filter(is_known).map(|item| (item.transfer, item.state.outcome())).collect()
    }

    /// The view for a party that queries the bulk transfer.
    pub(crate) fn view(&self, reader: ParticipantId) -> BulkView {
        BulkView {
            state: self.public_state(),
            completed_at: self.completed_at(),
            items: self.outcomes_for(reader),
            extensions: self.answer.as_ref().and_then(|answer| answer.extensions.clone()),
        }
    }
}

impl Show for BulkId {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Owned(self.to_string()))
    }
}

impl Show for BulkAnswer {
    fn show(&self) -> PrintedValue<'_> {
        self.fingerprint.show()
    }
}

impl Show for BTreeMap<u32, ItemResult> {
    fn show(&self) -> PrintedValue<'_> {
        fn shown<'a>((place, result): (&u32, &'a ItemResult)) -> PrintedValue<'a> {
            let mut fields = vec![("item", PrintedValue::Number(i128::from(*place)))];
            fields.push(match result {
                ItemResult::Fulfil { fulfilment, .. } => ("fulfilment", fulfilment.show()),
                ItemResult::Abort(cause) => ("cause", cause.show()),
            });
            PrintedValue::Fields(fields)
        }
        PrintedValue::List(self.iter().map(shown).collect())
    }

    fn describe(&self, _: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let fulfilled = self.values().filter(|result| matches!(result, ItemResult::Fulfil { .. })).count();
        write!(f, "{fulfilled} items fulfilled, {} aborted", self.len() - fulfilled)
    }
}

impl Show for BulkItem {
    fn show(&self) -> PrintedValue<'_> {
        let mut fields = vec![("transferId", self.transfer.show())];
        if let Some(asked) = &self.asked {
            if let Ok(amount) = &asked.amount {
                fields.push(("amount", amount.show()));
            }
            fields.push(("currency", asked.currency.show()));
        }
        if let ItemState::Refused(cause) | ItemState::Aborted(cause) = &self.state {
            fields.push(("cause", cause.show()));
        }
        PrintedValue::Fields(fields)
    }
}

impl Show for Box<Bulk> {
    fn show(&self) -> PrintedValue<'_> {
        let mut fields = vec![
            ("bulkTransferId", self.id.show()),
            ("bulkQuoteId", self.quote.show()),
            ("payer", self.payer.show()),
            ("payee", self.payee.show()),
            ("expiration", self.expires_at.show()),
            ("items", self.items.show()),
            ("state", PrintedValue::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let BulkState::Rejected { cause, .. } = &self.state {
            fields.push(("cause", cause.show()));
        }
        PrintedValue::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (payer, payee) = (party(self.payer), party(self.payee));
        write!(f, "{} {payer} → {payee} ", self.id)?;
        match &self.state {
            BulkState::Rejected { cause: Some(cause), .. } => {
                write!(f, "refused {}", names.cause(cause))
            }
            _ => write!(f, "of {} items until {}", self.items.len(), self.expires_at),
        }
    }
}
