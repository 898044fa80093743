//! Callbacks: the messages that a decision owes to participants.

use alloc::boxed::Box;
use core::fmt;

use upesi_types::TransferId;

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::{CallbackKey, ParticipantId};
use crate::base::refusal::Cause;
use crate::base::stored::{Stored, stored_by_number, stored_struct};
use crate::money::bulk::{BulkRequest, BulkView};
use crate::money::transfer::TransferView;
use crate::scheme::endpoint::EndpointType;

/// A kind of resource that callbacks can concern. [`ResourceKind::endpoints`] defines their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// `/transfers`.
    Transfer = 1,
    /// `/fxTransfers`.
    FxTransfer = 2,
    /// `/bulkTransfers`.
    Bulk = 3,
}

/// The endpoint types of a resource's callbacks.
struct Endpoints {
    post: EndpointType,
    put: EndpointType,
    error: EndpointType,
}

impl ResourceKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Transfer, Self::FxTransfer, Self::Bulk];

    /// The kind's name for output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::FxTransfer => "conversion",
            Self::Bulk => "bulk",
        }
    }

    const fn endpoints(self) -> Endpoints {
        match self {
            Self::Transfer => Endpoints {
                post: EndpointType::TRANSFER_POST,
                put: EndpointType::TRANSFER_PUT,
                error: EndpointType::TRANSFER_ERROR,
            },
            Self::FxTransfer => Endpoints {
                post: EndpointType::FX_TRANSFER_POST,
                put: EndpointType::FX_TRANSFER_PUT,
                error: EndpointType::FX_TRANSFER_ERROR,
            },
            Self::Bulk => Endpoints {
                post: EndpointType::BULK_TRANSFER_POST,
                put: EndpointType::BULK_TRANSFER_PUT,
                error: EndpointType::BULK_TRANSFER_ERROR,
            },
        }
    }

    const fn number(self) -> u8 {
        self as u8
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

stored_by_number! {
    ResourceKind: u8, "unknown kind of resource";
}

/// An id as it appears in a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResourceId {
    /// A well-formed id.
    Id(TransferId),
    /// The text that a DFSP put in the path instead of a well-formed id.
    Text(Box<str>),
}

impl ResourceId {
    /// Reads a path segment.
    pub fn parse(text: &str) -> Self {
        TransferId::parse(text).map_or_else(|| Self::Text(text.into()), Self::Id)
    }

    /// The id, if it is well-formed.
    pub const fn id(&self) -> Option<TransferId> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Text(_) => None,
        }
    }
}

impl From<TransferId> for ResourceId {
    fn from(id: TransferId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Stored for ResourceId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Id(id) => {
                encoder.u8(0);
                encoder.transfer_id(*id);
            }
            Self::Text(text) => {
                encoder.u8(1);
                encoder.text(text);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            0 => decoder.transfer_id().map(Self::Id),
            1 => decoder.boxed_text().map(Self::Text),
            _ => Err(DecodeError("unknown form of id")),
        }
    }
}

/// The resource that a callback concerns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    pub resource: ResourceKind,
    /// The resource's id as it appears in the callback's path.
    pub id: ResourceId,
}

impl Subject {
    /// Creates the subject of a transfer.
    pub fn transfer(id: impl Into<ResourceId>) -> Self {
        Self { resource: ResourceKind::Transfer, id: id.into() }
    }

    /// Creates the subject of an FX transfer.
    pub fn fx_transfer(id: impl Into<ResourceId>) -> Self {
        Self { resource: ResourceKind::FxTransfer, id: id.into() }
    }

    /// Creates the subject of a bulk transfer.
    pub fn bulk(id: impl Into<ResourceId>) -> Self {
        Self { resource: ResourceKind::Bulk, id: id.into() }
    }

    /// The id, if the subject is a transfer with a well-formed id.
    pub const fn transfer_id(&self) -> Option<TransferId> {
        match self.resource {
            ResourceKind::Transfer => self.id.id(),
            ResourceKind::FxTransfer | ResourceKind::Bulk => None,
        }
    }
}

/// A callback owed to a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    pub target: ParticipantId,
    /// The resource that the callback concerns.
    pub subject: Subject,
    /// The content of the callback.
    pub content: CallbackContent,
}

/// The content of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackContent {
    /// `POST /transfers` with the payer's own headers and bytes. For `/fxTransfers`, the initiator takes the payer's
    /// role and the FXP the payee's.
    ForwardPrepare,
    /// `PUT /transfers/{ID}` with the payee's own headers and bytes.
    ForwardFulfil,
    /// `PUT /transfers/{ID}/error` with the payee's own headers and bytes.
    ForwardAbort,
    /// `PUT /transfers/{ID}` from the hub, which returns the payee's own body to the payee.
    ConfirmFulfil,
    /// `PUT /transfers/{ID}/error` from the hub, which returns the payee's own body to the payee.
    ConfirmAbort,
    /// `PUT` or `PATCH /transfers/{ID}` with the state, from the hub.
    State(StateMethod, TransferView),
    /// `PUT /transfers/{ID}/error`, from the hub.
    Error(Cause),
    /// `POST /bulkTransfers`, from the hub.
    BulkRequest(Box<BulkRequest>),
    /// `PUT /bulkTransfers/{ID}` with the state and the items, from the hub.
    BulkState(Box<BulkView>),
}

/// The method that reports a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMethod {
    /// `PUT`, to a payer or to the participant that sent a GET.
    Put,
    /// `PATCH`, to a payee that reserved; without the fulfilment.
    Patch,
}

impl CallbackContent {
    /// Whether the callback forwards a DFSP's own message.
    pub const fn is_forwarded(&self) -> bool {
        matches!(self, Self::ForwardPrepare | Self::ForwardFulfil | Self::ForwardAbort)
    }

    /// Approximate size in bytes of the callback's own content, not counting the request that caused it.
    pub fn own_bytes(&self) -> usize {
        match self {
            Self::BulkRequest(request) => request.bytes(),
            Self::BulkState(view) => view.bytes(),
            _ => 0,
        }
    }

    /// HTTP method.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::ForwardPrepare | Self::BulkRequest(_) => "POST",
            Self::State(StateMethod::Patch, _) => "PATCH",
            _ => "PUT",
        }
    }
}

impl CallbackKey {
    /// The key of the callback with this index in a record.
    ///
    /// No record owes more than [`CALLBACKS_PER_RECORD_MAX`](crate::CALLBACKS_PER_RECORD_MAX) callbacks; `limits.rs`
    /// proves this for the decisions of commands.
    pub fn of(callback: &Callback, seq: u64, index: usize) -> Self {
        let Ok(index) = u8::try_from(index) else { panic!("record {seq} owes too many callbacks") };
        Self { target: callback.target, seq, index }
    }
}

impl Callback {
    /// The type of the endpoint that receives the callback.
    pub const fn endpoint_type(&self) -> EndpointType {
        let endpoints = self.subject.resource.endpoints();
        match self.content {
            CallbackContent::ForwardPrepare | CallbackContent::BulkRequest(_) => endpoints.post,
            CallbackContent::ForwardFulfil
            | CallbackContent::ConfirmFulfil
            | CallbackContent::State(..)
            | CallbackContent::BulkState(_) => endpoints.put,
            CallbackContent::ForwardAbort | CallbackContent::ConfirmAbort | CallbackContent::Error(_) => {
                endpoints.error
            }
        }
    }

    /// Whether the callback is sent to `…/error`.
    pub const fn is_error(&self) -> bool {
        matches!(
            self.content,
            CallbackContent::ForwardAbort | CallbackContent::ConfirmAbort | CallbackContent::Error(_)
        )
    }
}

impl Stored for CallbackContent {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::ForwardPrepare => encoder.u8(0),
            Self::ForwardFulfil => encoder.u8(1),
            Self::ForwardAbort => encoder.u8(2),
            Self::ConfirmFulfil => encoder.u8(3),
            Self::ConfirmAbort => encoder.u8(4),
            Self::State(method, view) => {
                encoder.u8(match method {
                    StateMethod::Put => 5,
                    StateMethod::Patch => 6,
                });
                view.encode(encoder);
            }
            Self::Error(cause) => {
                encoder.u8(7);
                cause.encode(encoder);
            }
            Self::BulkRequest(request) => {
                encoder.u8(8);
                request.encode(encoder);
            }
            Self::BulkState(view) => {
                encoder.u8(9);
                view.encode(encoder);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            0 => Self::ForwardPrepare,
            1 => Self::ForwardFulfil,
            2 => Self::ForwardAbort,
            3 => Self::ConfirmFulfil,
            4 => Self::ConfirmAbort,
            5 => Self::State(StateMethod::Put, Stored::decode(decoder)?),
            6 => Self::State(StateMethod::Patch, Stored::decode(decoder)?),
            7 => Self::Error(Stored::decode(decoder)?),
            8 => Self::BulkRequest(Stored::decode(decoder)?),
            9 => Self::BulkState(Stored::decode(decoder)?),
            _ => return Err(DecodeError("unknown content of a callback")),
        })
    }
}

stored_struct! {
    Subject { resource, id }
    Callback { target, subject, content }
}
