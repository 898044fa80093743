//! A currency conversion and its life: RESERVED, fulfilled by its FXP, then exactly one of COMMITTED and ABORTED, by
//! the outcome of its determining transfer.

use alloc::boxed::Box;

use upesi_types::{Amount, ConversionId, Money, Timestamp, TransferId};

use crate::account::AccountId;
use crate::callback::TransferView;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::participant::ParticipantId;
use crate::refusal::Cause;
use crate::settlement_model::wire_enum;
use crate::stored::{Stored, stored_struct};
use crate::transfer::{AbortKind, Fingerprint, PublicState};

pub(crate) mod audit;
mod fold;
mod show;
pub(crate) mod snapshot;
mod table;

pub use table::ConversionTotals;
pub(crate) use table::Conversions;

wire_enum! {
    /// Whose side of the determining transfer a conversion is on.
    ConversionSide {
        /// The payer buys the currency of the transfer. The conversion comes before the transfer.
        Payer = 1 "PAYER",
        /// The payee sells the currency of the transfer. The transfer comes before the conversion.
        Payee = 2 "PAYEE",
    }
}

/// A conversion as the ledger and the archive keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Identifier chosen by the initiator: the `commitRequestId`.
    pub id: ConversionId,
    /// The transfer whose outcome decides its own; absent when a refused request named none.
    pub determining_transfer: Option<TransferId>,
    /// Whose side of that transfer it is on.
    pub side: ConversionSide,
    /// The DFSP that converts; absent when a refused request named an unknown one.
    pub initiator: Option<ParticipantId>,
    /// The foreign exchange provider; absent when a refused request named an unknown one.
    pub fxp: Option<ParticipantId>,
    /// What the initiator sells; zero when a refused request's amount does not fit the ledger.
    pub source: Money,
    /// What the FXP sells for it; zero likewise.
    pub target: Money,
    /// The position accounts; absent when the request was refused.
    pub accounts: Option<ConversionAccounts>,
    /// SHA-256 of the fulfilment; zero when a refused request gave none.
    pub condition: [u8; 32],
    /// When it lapses; when it was prepared, if a refused request gave none.
    pub expires_at: Timestamp,
    /// When it was prepared.
    pub prepared_at: Timestamp,
    /// Journal sequence of the request, where its headers and body are.
    pub prepare_seq: u64,
    /// Fingerprint of the request.
    pub prepare_fingerprint: Fingerprint,
    /// Preimage of the condition, once the FXP gave it.
    pub fulfilment: Option<[u8; 32]>,
    /// The FXP's PUT that was taken last.
    pub answer: Option<ConversionAnswer>,
    /// Where it stands.
    pub state: ConversionState,
}

/// The position accounts of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionAccounts {
    /// The initiator's in the source currency.
    pub initiator_source: AccountId,
    /// The initiator's in the target currency, if it is on the payee's side.
    pub initiator_target: Option<AccountId>,
    /// The FXP's in the source currency.
    pub fxp_source: AccountId,
    /// The FXP's in the target currency.
    pub fxp_target: AccountId,
}

/// The FXP's PUT that was taken, to tell resends from modified requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionAnswer {
    /// Whether it was `PUT …/error`.
    pub is_error: bool,
    /// Fingerprint of its body.
    pub fingerprint: Fingerprint,
}

/// Where a conversion stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionState {
    /// The amount is reserved; the FXP has been asked.
    Reserved,
    /// The FXP gave the fulfilment. The determining transfer decides.
    Fulfilled,
    /// Committed with the determining transfer. Final.
    Committed {
        /// When.
        at: Timestamp,
    },
    /// No position carries it. Final.
    Aborted {
        /// How it came to this; the determining transfer's kind, if that ended it.
        kind: AbortKind,
        /// What the parties are told.
        cause: Cause,
        /// When.
        at: Timestamp,
    },
}

/// A movement of a conversion: the debtor owes the creditor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionLeg {
    /// The account whose position rises.
    pub debtor: AccountId,
    /// The account whose position falls.
    pub creditor: AccountId,
    /// How much of what.
    pub money: Money,
}

impl Conversion {
    /// Whether it waits for its FXP or its determining transfer.
    pub const fn is_live(&self) -> bool {
        matches!(self.state, ConversionState::Reserved | ConversionState::Fulfilled)
    }

    /// The state that DFSPs see.
    pub const fn public_state(&self) -> PublicState {
        match self.state {
            ConversionState::Reserved | ConversionState::Fulfilled => PublicState::Reserved,
            ConversionState::Committed { .. } => PublicState::Committed,
            ConversionState::Aborted { .. } => PublicState::Aborted,
        }
    }

    /// When it reached its final state.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            ConversionState::Reserved | ConversionState::Fulfilled => None,
            ConversionState::Committed { at } | ConversionState::Aborted { at, .. } => Some(at),
        }
    }

    /// Whether a participant is its initiator or its FXP.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.initiator == Some(participant) || self.fxp == Some(participant)
    }

    /// What a party is told when it asks. Hub-made messages about conversions carry no extensions but the cause.
    pub fn view(&self) -> TransferView {
        let cause = match &self.state {
            ConversionState::Aborted { cause, .. } => Some(cause.clone()),
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

    /// The movement that is reserved while it is live: of the initiator's source amount on the payer's side, of the
    /// FXP's target amount on the payee's. `None` when it was refused.
    pub fn reserved_leg(&self) -> Option<ConversionLeg> {
        self.legs().map(|(reserved, _)| reserved)
    }

    /// The reserved movement, and the further one of its commit. On the payer's side the FXP pays the target amount by
    /// the determining transfer; on the payee's side the payee passes on what that transfer brings.
    pub(crate) fn legs(&self) -> Option<(ConversionLeg, Option<ConversionLeg>)> {
        let accounts = self.accounts?;
        let sale = ConversionLeg {
            debtor: accounts.initiator_source,
            creditor: accounts.fxp_source,
            money: self.source,
        };
        Some(match (self.side, accounts.initiator_target) {
            (ConversionSide::Payee, Some(creditor)) => {
                let purchase = ConversionLeg { debtor: accounts.fxp_target, creditor, money: self.target };
                (purchase, Some(sale))
            }
            _ => (sale, None),
        })
    }

    /// The accounts whose balance its end may lower, with the amounts.
    pub(crate) fn pending_credits(&self) -> impl Iterator<Item = (AccountId, Amount)> {
        self.legs().into_iter().flat_map(|(reserved, further)| {
            let amount = reserved.money.amount;
            let further = further.map(|leg| (leg.creditor, leg.money.amount));
            [(reserved.debtor, amount), (reserved.creditor, amount)].into_iter().chain(further)
        })
    }
}

impl Stored for ConversionState {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Reserved => encoder.u8(0),
            Self::Fulfilled => encoder.u8(1),
            Self::Committed { at } => {
                encoder.u8(2);
                encoder.timestamp(*at);
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
            2 => Self::Committed { at: decoder.timestamp()? },
            3 => Self::Aborted {
                kind: Stored::decode(decoder)?,
                cause: Stored::decode(decoder)?,
                at: decoder.timestamp()?,
            },
            _ => return Err(DecodeError("unknown state of conversion")),
        })
    }
}

impl Stored for ConversionId {
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

/// Events carry conversions boxed, so that those of transfers stay small.
impl Stored for Box<Conversion> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        (**self).encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Conversion::decode(decoder).map(Self::new)
    }
}

stored_struct! {
    ConversionAccounts { initiator_source, initiator_target, fxp_source, fxp_target }
    ConversionAnswer { is_error, fingerprint }
    Conversion {
        id, determining_transfer, side, initiator, fxp, source, target, accounts, condition, expires_at, prepared_at,
        prepare_seq, prepare_fingerprint, fulfilment, answer, state,
    }
}
