//! A transfer and its life: RESERVED, then exactly one of COMMITTED and ABORTED.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::account::AccountId;
use crate::callback::TransferView;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::participant::ParticipantId;
use crate::refusal::Cause;
use crate::settlement_model::wire_enum;
use crate::stored::{Stored, stored_struct};
use crate::window::WindowId;

/// First half of the SHA-256 of a request body; equal for a resend, different for a modified request.
pub type Fingerprint = [u8; 16];

/// A transfer as the ledger and the archive keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Identifier chosen by the payer DFSP.
    pub id: TransferId,
    /// Payer; absent when a refused prepare named an unknown one.
    pub payer: Option<ParticipantId>,
    /// Payee; absent when a refused prepare named an unknown one.
    pub payee: Option<ParticipantId>,
    /// Payer's position account; absent when the prepare was refused.
    pub payer_account: Option<AccountId>,
    /// Payee's position account; absent when the prepare was refused.
    pub payee_account: Option<AccountId>,
    /// How much; zero when a refused prepare's amount does not fit the ledger.
    pub amount: Amount,
    /// Of what.
    pub currency: Currency,
    /// SHA-256 of the fulfilment that commits it; zero when a refused prepare gave none.
    pub condition: [u8; 32],
    /// When the reservation lapses.
    pub expires_at: Timestamp,
    /// When it was prepared.
    pub prepared_at: Timestamp,
    /// Journal sequence of the prepare, where its headers and body are.
    pub prepare_seq: u64,
    /// Fingerprint of the prepare.
    pub prepare_fingerprint: Fingerprint,
    /// The prepare's extensions (the JSON text of the array); once committed, the fulfil's.
    pub extensions: Option<Box<str>>,
    /// Where it stands.
    pub state: TransferState,
}

/// Where a transfer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The payer's position carries the amount; the payee has been asked.
    Reserved,
    /// Both positions carry the amount. Final.
    Committed(Box<Committed>),
    /// No position carries the amount. Final.
    Aborted(Box<Aborted>),
}

// What lies behind a pointer takes no room in a transfer in flight, of which there may be millions.
const _: () = assert!(size_of::<Transfer>() <= 152);

/// How a transfer was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Preimage of the condition.
    pub fulfilment: [u8; 32],
    /// Fingerprint of the fulfil.
    pub fingerprint: Fingerprint,
    /// When.
    pub at: Timestamp,
    /// The settlement window that it belongs to; absent if its commit settled it, or if a hub kept it that did not note
    /// windows yet.
    pub window: Option<WindowId>,
    /// The fees that it was charged; none if a hub kept it that did not note them yet.
    pub fees: Vec<ChargedFee>,
}

/// A fee that a rule charged with a commit. It is settled with the window that was open then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedFee {
    /// The rule.
    pub rule: u32,
    /// The account that owes it.
    pub payer: AccountId,
    /// The account that is owed it.
    pub payee: AccountId,
    /// How much.
    pub amount: Amount,
    /// The window.
    pub window: WindowId,
}

stored_struct! {
    ChargedFee { rule, payer, payee, amount, window }
}

/// How a transfer was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// How it came to this.
    pub kind: AbortKind,
    /// What the parties are told.
    pub cause: Cause,
    /// Fingerprint of the PUT that ended it, to tell resends from modified requests.
    pub fingerprint: Option<Fingerprint>,
    /// Why an operator ended it, in the operator's words; absent when none did.
    pub operator_reason: Option<Box<str>>,
    /// When.
    pub at: Timestamp,
}

impl From<Committed> for TransferState {
    fn from(committed: Committed) -> Self {
        Self::Committed(Box::new(committed))
    }
}

impl From<Aborted> for TransferState {
    fn from(aborted: Aborted) -> Self {
        Self::Aborted(Box::new(aborted))
    }
}

/// How a committed transfer is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// With the settlement window that is open at its commit.
    InWindow,
    /// By its commit itself: the amount goes from one of these accounts to the other, and back from the positions.
    AtOnce {
        /// The payer's account that gives cover.
        payer: AccountId,
        /// The payee's.
        payee: AccountId,
    },
}

wire_enum! {
    /// How a transfer came to be aborted. The name is what operators see; DFSPs see ABORTED.
    AbortKind {
        /// Refused at prepare by a validation rule.
        Invalid = 1 "INVALID",
        /// Refused at prepare for want of cover or by the net debit cap.
        Rejected = 2 "ABORTED_REJECTED",
        /// Aborted by the payee.
        ByPayee = 3 "ABORTED_ERROR",
        /// The payee's fulfil was invalid.
        InvalidFulfil = 4 "ABORTED_INVALID_FULFIL",
        /// The payee's abort was invalid.
        InvalidAbort = 5 "ABORTED_INVALID_ABORT",
        /// Its deadline passed, or an operator ended it by the same rules.
        Expired = 6 "EXPIRED_RESERVED",
    }
}

wire_enum! {
    /// The state that DFSPs see (FSPIOP API v1.1 §7.5.13).
    PublicState {
        /// Received.
        Received = 1 "RECEIVED",
        /// Reserved.
        Reserved = 2 "RESERVED",
        /// Committed.
        Committed = 3 "COMMITTED",
        /// Aborted.
        Aborted = 4 "ABORTED",
    }
}

impl Transfer {
    /// The state that DFSPs see.
    pub const fn public_state(&self) -> PublicState {
        match self.state {
            TransferState::Reserved => PublicState::Reserved,
            TransferState::Committed(_) => PublicState::Committed,
            TransferState::Aborted(_) => PublicState::Aborted,
        }
    }

    /// When it reached its final state.
    pub fn completed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TransferState::Reserved => None,
            TransferState::Committed(end) => Some(end.at),
            TransferState::Aborted(end) => Some(end.at),
        }
    }

    /// Whether a participant is payer or payee.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.payer == Some(participant) || self.payee == Some(participant)
    }

    /// What a party is told when it asks: state, completion, fulfilment, extensions, and the cause of an abort.
    pub fn view(&self) -> TransferView {
        let (fulfilment, cause) = match &self.state {
            TransferState::Reserved => (None, None),
            TransferState::Committed(end) => (Some(end.fulfilment), None),
            TransferState::Aborted(end) => (None, Some(end.cause.clone())),
        };
        let extensions = self.extensions.clone();
        TransferView {
            state: self.public_state(),
            completed_at: self.completed_at(),
            fulfilment,
            extensions,
            cause,
        }
    }
}

impl Stored for TransferState {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Reserved => encoder.u8(0),
            Self::Committed(end) => {
                let Committed { fulfilment, fingerprint, at, window, fees } = &**end;
                encoder.u8(match (window, &fees[..]) {
                    (None, []) => 1,
                    (Some(_), []) => 3,
                    _ => 4,
                });
                encoder.raw(fulfilment);
                encoder.raw(fingerprint);
                encoder.timestamp(*at);
                if fees.is_empty() {
                    window.iter().for_each(|window| window.encode(encoder));
                } else {
                    window.encode(encoder);
                    fees.encode(encoder);
                }
            }
            Self::Aborted(end) => {
                let Aborted { kind, cause, fingerprint, operator_reason, at } = &**end;
                encoder.u8(2);
                kind.encode(encoder);
                cause.encode(encoder);
                fingerprint.encode(encoder);
                operator_reason.encode(encoder);
                encoder.timestamp(*at);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            0 => Self::Reserved,
            tag @ (1 | 3) => Self::from(Committed {
                fulfilment: decoder.array()?,
                fingerprint: decoder.array()?,
                at: decoder.timestamp()?,
                window: if tag == 3 { Some(Stored::decode(decoder)?) } else { None },
                fees: Vec::new(),
            }),
            4 => Self::from(Committed {
                fulfilment: decoder.array()?,
                fingerprint: decoder.array()?,
                at: decoder.timestamp()?,
                window: Stored::decode(decoder)?,
                fees: Stored::decode(decoder)?,
            }),
            2 => Self::from(Aborted {
                kind: Stored::decode(decoder)?,
                cause: Stored::decode(decoder)?,
                fingerprint: Stored::decode(decoder)?,
                operator_reason: Stored::decode(decoder)?,
                at: decoder.timestamp()?,
            }),
            _ => return Err(DecodeError("unknown state of transfer")),
        })
    }
}

impl Stored for Settled {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::InWindow => encoder.u8(0),
            Self::AtOnce { payer, payee } => {
                encoder.u8(1);
                payer.encode(encoder);
                payee.encode(encoder);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            0 => Self::InWindow,
            1 => Self::AtOnce { payer: Stored::decode(decoder)?, payee: Stored::decode(decoder)? },
            _ => return Err(DecodeError("unknown way to settle a transfer")),
        })
    }
}

impl Stored for Transfer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id);
        // Absent ones take no byte more: no participant or account has the number 0.
        for number in [self.payer.map(ParticipantId::number), self.payee.map(ParticipantId::number)] {
            encoder.u32(number.unwrap_or(0));
        }
        for number in [self.payer_account.map(AccountId::number), self.payee_account.map(AccountId::number)] {
            encoder.u32(number.unwrap_or(0));
        }
        encoder.amount(self.amount);
        encoder.currency(self.currency);
        encoder.raw(&self.condition);
        encoder.timestamp(self.expires_at);
        encoder.timestamp(self.prepared_at);
        encoder.u64(self.prepare_seq);
        encoder.raw(&self.prepare_fingerprint);
        self.extensions.encode(encoder);
        self.state.encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: decoder.transfer_id()?,
            payer: ParticipantId::new(decoder.u32()?),
            payee: ParticipantId::new(decoder.u32()?),
            payer_account: AccountId::new(decoder.u32()?),
            payee_account: AccountId::new(decoder.u32()?),
            amount: decoder.amount()?,
            currency: decoder.currency()?,
            condition: decoder.array()?,
            expires_at: decoder.timestamp()?,
            prepared_at: decoder.timestamp()?,
            prepare_seq: decoder.u64()?,
            prepare_fingerprint: decoder.array()?,
            extensions: Stored::decode(decoder)?,
            state: Stored::decode(decoder)?,
        })
    }
}
