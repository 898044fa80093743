//! Callbacks: what a decision owes to participants.

use alloc::boxed::Box;
use core::fmt;

use upesi_types::{ErrorCode, Timestamp, TransferId};

use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::endpoint::EndpointType;
use crate::participant::ParticipantId;
use crate::transfer::PublicState;

/// Identifies a callback for ever: whom it is for, and where in the journal it was decided. Orders by target, then time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallbackKey {
    /// Whom it is for.
    pub target: ParticipantId,
    /// Journal sequence of the record that owes it.
    pub seq: u64,
    /// Place among the callbacks of that record.
    pub index: u8,
}

/// The transfer a callback is about, as it stands in the callback's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TransferRef {
    /// A well-formed id.
    Id(TransferId),
    /// What a DFSP put in the path instead of one.
    Text(Box<str>),
}

impl TransferRef {
    /// From a path segment.
    pub fn parse(text: &str) -> Self {
        TransferId::parse(text).map_or_else(|| Self::Text(text.into()), Self::Id)
    }

    /// The id, when well-formed.
    pub const fn id(&self) -> Option<TransferId> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Text(_) => None,
        }
    }
}

impl From<TransferId> for TransferRef {
    fn from(id: TransferId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for TransferRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A callback owed to a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Whom it is for.
    pub target: ParticipantId,
    /// What it is about.
    pub transfer: TransferRef,
    /// What it says.
    pub content: CallbackContent,
}

/// What a callback says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackContent {
    /// `POST /transfers`: the payer's own headers and bytes.
    ForwardPrepare,
    /// `PUT /transfers/{ID}`: the payee's own headers and bytes.
    ForwardFulfil,
    /// `PUT /transfers/{ID}/error`: the payee's own headers and bytes.
    ForwardAbort,
    /// `PUT /transfers/{ID}`: the payee's own body back to it, from the hub.
    ConfirmFulfil,
    /// `PUT /transfers/{ID}/error`: the payee's own body back to it, from the hub.
    ConfirmAbort,
    /// `PUT` or `PATCH /transfers/{ID}` with the state, from the hub.
    State(StateMethod, TransferView),
    /// `PUT /transfers/{ID}/error`, from the hub.
    Error(ErrorCode, Box<str>),
}

/// How a state is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMethod {
    /// To a payer, or to whoever asked.
    Put,
    /// To a payee that reserved: without the fulfilment.
    Patch,
}

/// What parties are told of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferView {
    /// State.
    pub state: PublicState,
    /// When it became final; absent while it is not.
    pub completed_at: Option<Timestamp>,
    /// Fulfilment, when committed.
    pub fulfilment: Option<[u8; 32]>,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
}

impl CallbackContent {
    /// The endpoint type it goes to.
    pub const fn endpoint_type(&self) -> EndpointType {
        match self {
            Self::ForwardPrepare => EndpointType::TRANSFER_POST,
            Self::ForwardFulfil | Self::ConfirmFulfil | Self::State(..) => EndpointType::TRANSFER_PUT,
            Self::ForwardAbort | Self::ConfirmAbort | Self::Error(..) => EndpointType::TRANSFER_ERROR,
        }
    }

    /// HTTP method.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::ForwardPrepare => "POST",
            Self::State(StateMethod::Patch, _) => "PATCH",
            _ => "PUT",
        }
    }
}

impl Callback {
    /// Appends the stored form.
    pub fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.target.number());
        match &self.transfer {
            TransferRef::Id(id) => {
                encoder.u8(0);
                encoder.transfer_id(*id);
            }
            TransferRef::Text(text) => {
                encoder.u8(1);
                encoder.text(text);
            }
        }
        match &self.content {
            CallbackContent::ForwardPrepare => encoder.u8(0),
            CallbackContent::ForwardFulfil => encoder.u8(1),
            CallbackContent::ForwardAbort => encoder.u8(2),
            CallbackContent::ConfirmFulfil => encoder.u8(3),
            CallbackContent::ConfirmAbort => encoder.u8(4),
            CallbackContent::State(method, view) => {
                encoder.u8(match method {
                    StateMethod::Put => 5,
                    StateMethod::Patch => 6,
                });
                encoder.u8(view.state.number());
                encoder.option(view.completed_at, Encoder::timestamp);
                encoder.option(view.fulfilment.as_ref(), |encoder, bytes| encoder.raw(bytes));
                encoder.option(view.extensions.as_deref(), |encoder, text| encoder.text(text));
            }
            CallbackContent::Error(code, description) => {
                encoder.u8(7);
                encoder.u16(code.number());
                encoder.text(description);
            }
        }
    }

    /// Reads the stored form.
    pub fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let target = ParticipantId::new(decoder.u32()?).ok_or(DecodeError("a callback without target"))?;
        let transfer = match decoder.u8()? {
            0 => TransferRef::Id(decoder.transfer_id()?),
            1 => TransferRef::Text(decoder.boxed_text()?),
            _ => return Err(DecodeError("unknown form of reference to a transfer")),
        };
        let content = match decoder.u8()? {
            0 => CallbackContent::ForwardPrepare,
            1 => CallbackContent::ForwardFulfil,
            2 => CallbackContent::ForwardAbort,
            3 => CallbackContent::ConfirmFulfil,
            4 => CallbackContent::ConfirmAbort,
            method @ (5 | 6) => {
                let view = TransferView {
                    state: PublicState::from_number(decoder.u8()?)
                        .ok_or(DecodeError("unknown public state"))?,
                    completed_at: decoder.option(Decoder::timestamp)?,
                    fulfilment: decoder.option(Decoder::array)?,
                    extensions: decoder.option(Decoder::boxed_text)?,
                };
                CallbackContent::State(if method == 5 { StateMethod::Put } else { StateMethod::Patch }, view)
            }
            7 => CallbackContent::Error(
                ErrorCode::from_number(decoder.u16()?).ok_or(DecodeError("unknown error code"))?,
                decoder.boxed_text()?,
            ),
            _ => return Err(DecodeError("unknown content of a callback")),
        };
        Ok(Self { target, transfer, content })
    }
}
