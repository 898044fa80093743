//! A transfer and its states: RESERVED, then either COMMITTED or ABORTED.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::{AccountId, ParticipantId, WindowId};
use crate::base::refusal::{AbortKind, Cause};
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct, wire_enum};

/// First half of the SHA-256 of a request body; equal for a resend, different for a modified request.
pub type Fingerprint = [u8; 16];

/// A transfer as stored in the ledger and the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Identifier chosen by the payer DFSP.
    pub id: TransferId,
    /// Payer; absent if a rejected prepare named an unknown one.
    pub payer: Option<ParticipantId>,
    /// Payee; absent if a rejected prepare named an unknown one.
    pub payee: Option<ParticipantId>,
    /// Payer's position account; absent if the prepare was rejected.
    pub payer_account: Option<AccountId>,
    /// Payee's position account; absent if the prepare was rejected.
    pub payee_account: Option<AccountId>,
    /// The amount; zero if a rejected prepare's amount does not fit the ledger.
    pub amount: Amount,
    pub currency: Currency,
    /// SHA-256 of the fulfilment that commits it; zero if a rejected prepare contained none.
    pub condition: [u8; 32],
    /// Time when the reservation expires.
    pub expires_at: Timestamp,
    /// Time when it was prepared.
    pub prepared_at: Timestamp,
    /// Journal sequence number of the prepare, whose record contains headers and body.
    pub prepare_seq: u64,
    pub prepare_fingerprint: Fingerprint,
    /// The prepare's extensions (JSON text of the array). After the commit, the fulfil's extensions.
    pub extensions: Option<Box<str>>,
    pub state: TransferState,
}

/// The state of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The payer's position carries the amount, and the request was sent to the payee.
    Reserved,
    /// Both positions contain the amount. This state is final.
    Committed(Box<Committed>),
    /// No position carries the amount. Final.
    Aborted(Box<Aborted>),
}

// Data of ended transfers is behind a pointer, so that transfers in flight stay small; there may be millions.
const _: () = assert!(size_of::<Transfer>() <= 152);

/// Data of a committed transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Preimage of the condition.
    pub fulfilment: [u8; 32],
    /// Fingerprint of the fulfil.
    pub fingerprint: Fingerprint,
    /// Time of the commit.
    pub at: Timestamp,
    /// The settlement window that contains it. Absent if the commit settled it, or if the hub version that stored it
    /// did not record windows.
    pub window: Option<WindowId>,
    /// The fees that were charged. Empty if the hub version that stored it did not record them.
    pub fees: Vec<ChargedFee>,
}

/// A fee that a rule charged with a commit. It is settled with the window that was open at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedFee {
    /// The number of the rule.
    pub rule: u32,
    /// The account that owes the fee.
    pub payer: AccountId,
    /// The account that the fee is owed to.
    pub payee: AccountId,
    pub amount: Amount,
    /// The settlement window.
    pub window: WindowId,
}

stored_struct! {
    ChargedFee { rule, payer, payee, amount, window }
}

/// Data of an aborted transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    pub kind: AbortKind,
    /// The cause that the parties receive.
    pub cause: Cause,
    /// Fingerprint of the PUT that ended it. It distinguishes resends from modified requests.
    pub fingerprint: Option<Fingerprint>,
    /// The reason of the operator who ended it; absent if no operator did.
    pub operator_reason: Option<Box<str>>,
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
pub enum SettlementMode {
    /// The transfer belongs to the settlement window that is open at the commit.
    InWindow,
    /// Immediately by the commit: the amount moves between these cover accounts, and the positions return to their
    /// values before the transfer.
    AtOnce {
        /// The payer's cover account.
        payer: AccountId,
        /// The payee's cover account.
        payee: AccountId,
    },
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

    /// Time when it reached its final state.
    pub fn completed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TransferState::Reserved => None,
            TransferState::Committed(end) => Some(end.at),
            TransferState::Aborted(end) => Some(end.at),
        }
    }

    /// Whether a participant is the payer or the payee.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.payer == Some(participant) || self.payee == Some(participant)
    }

    /// The view for a party that queries it: state, completion, fulfilment, extensions, and the cause of an abort.
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

impl Stored for SettlementMode {
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
        // Absent ids need no extra byte, because no participant or account has the number 0.
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

impl Show for Transfer {
    fn show(&self) -> PrintedValue<'_> {
        let mut fields = vec![
            ("transferId", self.id.show()),
            ("payer", self.payer.show()),
            ("payee", self.payee.show()),
            ("amount", self.amount.show()),
            ("currency", self.currency.show()),
            ("condition", self.condition.show()),
            ("expiration", self.expires_at.show()),
            ("state", PrintedValue::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let TransferState::Aborted(end) = &self.state {
            fields.extend([("kind", end.kind.show()), ("cause", end.cause.show())]);
        }
        PrintedValue::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (payer, payee) = (party(self.payer), party(self.payee));
        write!(f, "{} {payer} → {payee} {} {} ", self.id, self.amount, self.currency)?;
        match &self.state {
            TransferState::Reserved => write!(f, "RESERVED until {}", self.expires_at),
            TransferState::Committed(_) => f.write_str("COMMITTED"),
            TransferState::Aborted(end) => write!(f, "{} {}", end.kind.as_str(), names.cause(&end.cause)),
        }
    }
}

impl Show for SettlementMode {
    fn show(&self) -> PrintedValue<'_> {
        match self {
            Self::InWindow => PrintedValue::Absent,
            Self::AtOnce { payer, payee } => {
                PrintedValue::Fields(vec![("payerAccount", payer.show()), ("payeeAccount", payee.show())])
            }
        }
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::InWindow => Ok(()),
            Self::AtOnce { payer, payee } => {
                write!(f, ", settled from {} to {}", names.account(*payer), names.account(*payee))
            }
        }
    }
}

/// The view of a transfer that is sent to its parties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferView {
    pub state: PublicState,
    /// Time when it became final; absent before.
    pub completed_at: Option<Timestamp>,
    /// The fulfilment, if the transfer is committed.
    pub fulfilment: Option<[u8; 32]>,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
    /// The reason, if the transfer was aborted.
    pub cause: Option<Cause>,
}

stored_struct! {
    TransferView { state, completed_at, fulfilment, extensions, cause }
}

/// The accounts of a reserved transfer.
pub(crate) fn accounts_of(transfer: &Transfer) -> (AccountId, AccountId) {
    match (transfer.payer_account, transfer.payee_account) {
        (Some(payer), Some(payee)) => (payer, payee),
        _ => panic!("transfer {} was reserved without accounts", transfer.id),
    }
}
