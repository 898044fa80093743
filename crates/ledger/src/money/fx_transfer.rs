//! An FX transfer and its states: RESERVED, fulfilled by its FXP, then either COMMITTED or ABORTED, depending on the
//! outcome of its determining transfer.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use core::fmt::{self, Formatter};

use upesi_types::{Amount, FxTransferId, Money, Timestamp, TransferId};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::{AccountId, ParticipantId, WindowId};
use crate::base::refusal::{AbortKind, Cause};
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct, wire_enum};
use crate::money::transfer::{Fingerprint, PublicState, TransferView};

pub(crate) mod ended;
pub(crate) mod table;

wire_enum! {
    /// The side of the determining transfer that an FX transfer is on.
    FxTransferSide {
        /// The payer buys the currency of the transfer. The FX transfer precedes the transfer.
        Payer = 1 "PAYER",
        /// The payee sells the currency of the transfer. The transfer precedes the FX transfer.
        Payee = 2 "PAYEE",
    }
}

/// An FX transfer as stored in the ledger and the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxTransfer {
    /// Identifier chosen by the initiator: the `commitRequestId`.
    pub id: FxTransferId,
    /// The transfer whose outcome determines the outcome of the FX transfer; absent if a rejected request named none.
    pub determining_transfer: Option<TransferId>,
    /// The side of that transfer.
    pub side: FxTransferSide,
    /// The DFSP that converts; absent if a rejected request named an unknown one.
    pub initiator: Option<ParticipantId>,
    /// The foreign exchange provider; absent if a rejected request named an unknown one.
    pub fxp: Option<ParticipantId>,
    /// The money that the initiator sells; zero if a rejected request's amount does not fit the ledger.
    pub source: Money,
    /// The money that the FXP sells for it; zero if a rejected request's amount does not fit the ledger.
    pub target: Money,
    /// The position accounts; absent if the request was rejected.
    pub accounts: Option<FxTransferAccounts>,
    /// SHA-256 of the fulfilment; zero if a rejected request contained none.
    pub condition: [u8; 32],
    /// Time when it expires. If a rejected request contained none, the time when it was prepared.
    pub expires_at: Timestamp,
    /// Time when it was prepared.
    pub prepared_at: Timestamp,
    /// Journal sequence number of the request, whose record contains headers and body.
    pub prepare_seq: u64,
    /// Fingerprint of the request.
    pub prepare_fingerprint: Fingerprint,
    /// Preimage of the condition, after the FXP has sent it.
    pub fulfilment: Option<[u8; 32]>,
    /// The FXP's last accepted PUT.
    pub answer: Option<FxTransferAnswer>,
    pub state: FxTransferState,
}

/// The position accounts of an FX transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FxTransferAccounts {
    /// The initiator's account in the source currency.
    pub initiator_source: AccountId,
    /// The initiator's account in the target currency, if the FX transfer is on the payee's side.
    pub initiator_target: Option<AccountId>,
    /// The FXP's account in the source currency.
    pub fxp_source: AccountId,
    /// The FXP's account in the target currency.
    pub fxp_target: AccountId,
}

/// The accepted PUT of the FXP. It distinguishes resends from modified requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FxTransferAnswer {
    /// Whether it was `PUT …/error`.
    pub is_error: bool,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// The state of an FX transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FxTransferState {
    /// The amount is reserved, and the request was sent to the FXP.
    Reserved,
    /// The FXP sent the fulfilment. The outcome depends on the determining transfer.
    Fulfilled,
    /// Committed with the determining transfer. Final.
    Committed {
        /// Time of the commit.
        at: Timestamp,
        /// The settlement windows of its movements. Absent if the hub version that stored it did not record them.
        windows: Option<LegWindows>,
    },
    /// No position carries the amount. Final.
    Aborted {
        /// The kind of the abort, which is the determining transfer's kind if that transfer ended it.
        kind: AbortKind,
        /// The cause that the parties receive.
        cause: Cause,
        /// Time of the abort.
        at: Timestamp,
    },
}

/// The settlement windows of a committed FX transfer's movements; absent for a movement that the commit settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegWindows {
    /// The window of the reserved movement.
    pub reserved: Option<WindowId>,
    /// The window of the further movement, on the payee's side.
    pub further: Option<WindowId>,
}

/// A movement of an FX transfer: the debtor owes the creditor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FxTransferLeg {
    /// The account whose position rises.
    pub debtor: AccountId,
    /// The account whose position falls.
    pub creditor: AccountId,
    /// The amount and currency.
    pub money: Money,
}

impl FxTransfer {
    /// Whether it waits for its FXP or its determining transfer.
    pub const fn is_live(&self) -> bool {
        matches!(self.state, FxTransferState::Reserved | FxTransferState::Fulfilled)
    }

    /// The state that DFSPs see.
    pub const fn public_state(&self) -> PublicState {
        match self.state {
            FxTransferState::Reserved | FxTransferState::Fulfilled => PublicState::Reserved,
            FxTransferState::Committed { .. } => PublicState::Committed,
            FxTransferState::Aborted { .. } => PublicState::Aborted,
        }
    }

    /// Time when it reached its final state.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            FxTransferState::Reserved | FxTransferState::Fulfilled => None,
            FxTransferState::Committed { at, .. } | FxTransferState::Aborted { at, .. } => Some(at),
        }
    }

    /// Whether a participant is the initiator or the FXP.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.initiator == Some(participant) || self.fxp == Some(participant)
    }

    /// The view for a party that queries it. Messages that the hub creates about FX transfers contain no extensions
    /// except the cause.
    pub fn view(&self) -> TransferView {
        let cause = match &self.state {
            FxTransferState::Aborted { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        TransferView {
            state: self.public_state(),
            completed_at: self.completed_at(),
            fulfilment: self.fulfilment.filter(|_| cause.is_none()),
            extensions: None,
            cause,
        }
    }

    /// The movement that is reserved while the FX transfer is live: the initiator's source amount on the payer's side,
    /// the FXP's target amount on the payee's side. `None` if it was rejected.
    pub fn reserved_leg(&self) -> Option<FxTransferLeg> {
        self.legs().map(|(reserved, _)| reserved)
    }

    /// The reserved movement, and the further movement that the commit makes on the payee's side. On the payer's side,
    /// the FXP pays the target amount with the determining transfer. On the payee's side, the payee passes on the
    /// amount of that transfer.
    pub(crate) fn legs(&self) -> Option<(FxTransferLeg, Option<FxTransferLeg>)> {
        let accounts = self.accounts?;
        let sale = FxTransferLeg {
            debtor: accounts.initiator_source,
            creditor: accounts.fxp_source,
            money: self.source,
        };
        Some(match (self.side, accounts.initiator_target) {
            (FxTransferSide::Payee, Some(creditor)) => {
                let purchase = FxTransferLeg { debtor: accounts.fxp_target, creditor, money: self.target };
                (purchase, Some(sale))
            }
            _ => (sale, None),
        })
    }

    /// The accounts whose balance the end may lower, with the amounts.
    pub(crate) fn pending_credits(&self) -> impl Iterator<Item = (AccountId, Amount)> {
        self.legs().into_iter().flat_map(|(reserved, further)| {
            let amount = reserved.money.amount;
            let further = further.map(|leg| (leg.creditor, leg.money.amount));
            [(reserved.debtor, amount), (reserved.creditor, amount)].into_iter().chain(further)
        })
    }
}

impl Stored for FxTransferState {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Reserved => encoder.u8(0),
            Self::Fulfilled => encoder.u8(1),
            Self::Committed { at, windows } => {
                encoder.u8(if windows.is_some() { 4 } else { 2 });
                encoder.timestamp(*at);
                windows.iter().for_each(|windows| windows.encode(encoder));
            }
            Self::Aborted { kind, cause, at } => {
                encoder.u8(3);
                kind.encode(encoder);
                cause.encode(encoder);
                encoder.timestamp(*at);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            0 => Self::Reserved,
            1 => Self::Fulfilled,
            2 => Self::Committed { at: decoder.timestamp()?, windows: None },
            4 => Self::Committed { at: decoder.timestamp()?, windows: Some(Stored::decode(decoder)?) },
            3 => Self::Aborted {
                kind: Stored::decode(decoder)?,
                cause: Stored::decode(decoder)?,
                at: decoder.timestamp()?,
            },
            _ => return Err(DecodeError("unknown state of FX transfer")),
        })
    }
}

stored_struct! {
    LegWindows { reserved, further }
}

impl Stored for FxTransferId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id());
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.transfer_id().map(Self::new)
    }
}

impl Stored for Money {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.amount(self.amount);
        encoder.currency(self.currency);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self { amount: decoder.amount()?, currency: decoder.currency()? })
    }
}

/// FX transfers are boxed in events, so that events of transfers stay small.
impl Stored for Box<FxTransfer> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        (**self).encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        FxTransfer::decode(decoder).map(Self::new)
    }
}

stored_struct! {
    FxTransferAccounts { initiator_source, initiator_target, fxp_source, fxp_target }
    FxTransferAnswer { is_error, fingerprint }
    FxTransfer {
        id, determining_transfer, side, initiator, fxp, source, target, accounts, condition, expires_at, prepared_at,
        prepare_seq, prepare_fingerprint, fulfilment, answer, state,
    }
}

impl Show for FxTransferId {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Owned(self.to_string()))
    }
}

impl Show for FxTransferAnswer {
    fn show(&self) -> PrintedValue<'_> {
        self.fingerprint.show()
    }
}

impl Show for Box<FxTransfer> {
    fn show(&self) -> PrintedValue<'_> {
        (**self).show()
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        (**self).describe(names, f)
    }
}

impl Show for FxTransfer {
    fn show(&self) -> PrintedValue<'_> {
        let mut fields = vec![
            ("commitRequestId", self.id.show()),
            ("determiningTransferId", self.determining_transfer.show()),
            ("side", PrintedValue::Text(Cow::Borrowed(self.side.as_str()))),
            ("initiator", self.initiator.show()),
            ("fxp", self.fxp.show()),
            ("sourceAmount", self.source.amount.show()),
            ("sourceCurrency", self.source.currency.show()),
            ("targetAmount", self.target.amount.show()),
            ("targetCurrency", self.target.currency.show()),
            ("condition", self.condition.show()),
            ("expiration", self.expires_at.show()),
            ("state", PrintedValue::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let FxTransferState::Aborted { kind, cause, .. } = &self.state {
            fields.extend([("kind", kind.show()), ("cause", cause.show())]);
        }
        PrintedValue::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (initiator, fxp) = (party(self.initiator), party(self.fxp));
        let (source, target) = (self.source, self.target);
        write!(
            f,
            "{} {initiator} → {fxp} {} {} for {} {} ",
            self.id, source.amount, source.currency, target.amount, target.currency
        )?;
        match &self.state {
            FxTransferState::Reserved => write!(f, "RESERVED until {}", self.expires_at),
            FxTransferState::Fulfilled => f.write_str("RESERVED and fulfilled"),
            FxTransferState::Committed { .. } => f.write_str("COMMITTED"),
            FxTransferState::Aborted { kind, cause, .. } => {
                write!(f, "{} {}", kind.as_str(), names.cause(cause))
            }
        }
    }
}

/// Maximum number of live FX transfers of one transfer: the payer's and the payee's.
pub(crate) const FX_TRANSFERS_PER_TRANSFER_MAX: usize = 2;
