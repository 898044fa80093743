//! The routes that a DFSP may call.

use upesi_types::ErrorCode;

use crate::party::PartyIdType;
use crate::{Method, PartySegments, Resource, SyncError};

/// What a request asks of a family whose things have an id. Identifiers are the path segment as received, not decoded:
/// a hub echoes them in callback paths, where a decoded character could mean something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// `POST /transfers`
    Create,
    /// `GET /transfers/{ID}`
    Get(&'a str),
    /// `PUT /transfers/{ID}`
    Put(&'a str),
    /// `PUT /transfers/{ID}/error`
    PutError(&'a str),
    /// `PATCH /transfers/{ID}`: known, but only hubs send it; answer [`SyncError::not_implemented`].
    Patch(&'a str),
}

impl Operation<'_> {
    /// The method that asks for it.
    pub const fn method(self) -> Method {
        match self {
            Self::Create => Method::Post,
            Self::Get(_) => Method::Get,
            Self::Put(_) | Self::PutError(_) => Method::Put,
            Self::Patch(_) => Method::Patch,
        }
    }
}

/// What a request asks of a party in `/participants/{Type}/{ID}[/{SubId}]` or `/parties/…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartyOperation {
    /// `GET`: who serves the party, or who it is.
    Get,
    /// `POST /participants/…`: the party is served by this DFSP.
    Post,
    /// `PUT`: of participants, a change of who serves the party; of parties, the answer to a `GET`.
    Put,
    /// `DELETE /participants/…`: the party is served no longer.
    Delete,
    /// `PUT …/error`: the answer to a `GET` that cannot be answered.
    PutError,
}

impl PartyOperation {
    /// The method that asks for it.
    pub const fn method(self) -> Method {
        match self {
            Self::Get => Method::Get,
            Self::Post => Method::Post,
            Self::Put | Self::PutError => Method::Put,
            Self::Delete => Method::Delete,
        }
    }
}

/// A resolved request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// A thing with an id: transfers, the quotes of all kinds, transaction requests, authorizations.
    ById {
        /// The family, which the media types of the request must name too.
        resource: Resource,
        /// What is asked.
        operation: Operation<'a>,
    },
    /// A party: participants and parties.
    ByParty {
        /// [`Resource::Participants`] or [`Resource::Parties`].
        resource: Resource,
        /// What is asked.
        operation: PartyOperation,
        /// About whom; [`PartySegments::check`] comes after the checks of headers and body.
        party: PartySegments<'a>,
    },
    /// `POST /participants`: many parties are served by this DFSP.
    ParticipantsBatch,
    /// `PUT /participants/{ID}` and `PUT /participants/{ID}/error`: known, but only hubs send them; answer
    /// [`SyncError::not_implemented`].
    ParticipantsBatchAnswer,
}

impl<'a> Route<'a> {
    /// Resolves a request target; a query is ignored.
    ///
    /// Errors: 404 with code 3002 for a path that does not exist (an empty id included), 405 with code 3000 for a
    /// known path with a method it does not have, `method` being `None` for one that FSPIOP does not use; what methods
    /// it has, [`Self::allow`] tells.
    pub fn resolve(method: Option<Method>, target: &'a str) -> Result<Self, SyncError> {
        let shape = Shape::of(target).ok_or_else(SyncError::unknown_uri)?;
        method.and_then(|method| shape.route(method)).ok_or_else(SyncError::method_not_allowed)
    }

    /// The methods of a path, as the `Allow` header lists them; `None` for an unknown path.
    pub fn allow(target: &str) -> Option<&'static str> {
        Shape::of(target).map(Shape::allow)
    }

    /// The family, which the media types of the request must name too.
    pub const fn resource(&self) -> Resource {
        match self {
            Self::ById { resource, .. } | Self::ByParty { resource, .. } => *resource,
            Self::ParticipantsBatch | Self::ParticipantsBatchAnswer => Resource::Participants,
        }
    }

    /// The method of the request.
    pub const fn method(&self) -> Method {
        match self {
            Self::ById { operation, .. } => operation.method(),
            Self::ByParty { operation, .. } => operation.method(),
            Self::ParticipantsBatch => Method::Post,
            Self::ParticipantsBatchAnswer => Method::Put,
        }
    }

    /// The status of the answer to a request that passes: 200 to a `PUT` and to `POST /participants`, else 202; 501
    /// where nothing ever passes.
    pub const fn success_status(&self) -> u16 {
        match self {
            Self::ById { operation: Operation::Patch(_), .. } | Self::ParticipantsBatchAnswer => 501,
            Self::ParticipantsBatch => 200,
            _ => match self.method() {
                Method::Put => 200,
                _ => 202,
            },
        }
    }
}

/// A known path, whatever the method.
#[derive(Clone, Copy)]
enum Shape<'a> {
    Collection(Resource),
    One(Resource, &'a str),
    OneError(Resource, &'a str),
    Party(Resource, PartySegments<'a>),
    PartyError(Resource, PartySegments<'a>),
    ParticipantsBatch,
    ParticipantsBatchAnswer,
}

impl<'a> Shape<'a> {
    fn of(target: &'a str) -> Option<Self> {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let mut segments = path.strip_prefix('/')?.split('/');
        let resource = Resource::parse(segments.next()?)?;
        let mut rest = [None; 4];
        for slot in &mut rest {
            // Dot segments would lead elsewhere when the id is put into a callback URL.
            *slot = match segments.next() {
                Some("" | "." | "..") => return None,
                segment => segment,
            };
        }
        if segments.next().is_some() {
            return None;
        }
        match resource {
            Resource::Participants | Resource::Parties => Self::of_party(resource, rest),
            Resource::BulkTransfers | Resource::FxTransfers => None,
            _ => Self::of_id(resource, rest),
        }
    }

    fn of_id(resource: Resource, segments: [Option<&'a str>; 4]) -> Option<Self> {
        match segments {
            // An authorization is asked for with a GET.
            [None, ..] if resource == Resource::Authorizations => None,
            [None, ..] => Some(Self::Collection(resource)),
            [Some(id), None, ..] => Some(Self::One(resource, id)),
            [Some(id), Some("error"), None, _] => Some(Self::OneError(resource, id)),
            _ => None,
        }
    }

    /// A last segment `error` always means the error, never a sub id, as the path of a callback about that sub id would
    /// mean the error too. Of two segments only the first tells: `/participants/ALIAS/error` is a party, and
    /// `/participants/{ID}/error` the answer to a batch, whose ids are no types.
    fn of_party(resource: Resource, segments: [Option<&'a str>; 4]) -> Option<Self> {
        let is_batch = resource == Resource::Participants;
        Some(match segments {
            [None, ..] if is_batch => Self::ParticipantsBatch,
            [Some(_), None, ..] if is_batch => Self::ParticipantsBatchAnswer,
            [Some(kind), Some("error"), None, _] if is_batch && PartyIdType::parse(kind).is_none() => {
                Self::ParticipantsBatchAnswer
            }
            [Some(kind), Some(id), None, _] => {
                Self::Party(resource, PartySegments { kind, id, sub_id: None })
            }
            [Some(kind), Some(id), Some("error"), None] => {
                Self::PartyError(resource, PartySegments { kind, id, sub_id: None })
            }
            [Some(kind), Some(id), sub_id, None] => Self::Party(resource, PartySegments { kind, id, sub_id }),
            [Some(kind), Some(id), sub_id, Some("error")] => {
                Self::PartyError(resource, PartySegments { kind, id, sub_id })
            }
            _ => return None,
        })
    }

    fn route(self, method: Method) -> Option<Route<'a>> {
        let by_id = |resource, operation| Some(Route::ById { resource, operation });
        let by_party = |resource, operation, party| Some(Route::ByParty { resource, operation, party });
        match (self, method) {
            (Self::Collection(resource), Method::Post) => by_id(resource, Operation::Create),
            (Self::One(resource, id), Method::Get) => by_id(resource, Operation::Get(id)),
            (Self::One(resource, id), Method::Put) => by_id(resource, Operation::Put(id)),
            (Self::One(Resource::Transfers, id), Method::Patch) => {
                by_id(Resource::Transfers, Operation::Patch(id))
            }
            (Self::OneError(resource, id), Method::Put) => by_id(resource, Operation::PutError(id)),
            (Self::Party(resource, party), Method::Get) => by_party(resource, PartyOperation::Get, party),
            (Self::Party(resource, party), Method::Put) => by_party(resource, PartyOperation::Put, party),
            (Self::Party(Resource::Participants, party), Method::Post) => {
                by_party(Resource::Participants, PartyOperation::Post, party)
            }
            (Self::Party(Resource::Participants, party), Method::Delete) => {
                by_party(Resource::Participants, PartyOperation::Delete, party)
            }
            (Self::PartyError(resource, party), Method::Put) => {
                by_party(resource, PartyOperation::PutError, party)
            }
            (Self::ParticipantsBatch, Method::Post) => Some(Route::ParticipantsBatch),
            (Self::ParticipantsBatchAnswer, Method::Put) => Some(Route::ParticipantsBatchAnswer),
            _ => None,
        }
    }

    fn allow(self) -> &'static str {
        match self {
            Self::Collection(_) | Self::ParticipantsBatch => "POST",
            Self::One(Resource::Transfers, _) => "GET, PUT, PATCH",
            Self::One(..) | Self::Party(Resource::Parties, _) => "GET, PUT",
            Self::Party(..) => "GET, POST, PUT, DELETE",
            Self::OneError(..) | Self::PartyError(..) | Self::ParticipantsBatchAnswer => "PUT",
        }
    }
}

impl SyncError {
    /// 404 with code 3002: no such path.
    pub fn unknown_uri() -> Self {
        Self::new(ErrorCode::UNKNOWN_URI, "Not Found")
    }

    /// 405 with code 3000: the path exists, but not with this method.
    pub fn method_not_allowed() -> Self {
        Self { status: 405, ..Self::new(ErrorCode::CLIENT, "Method Not Allowed") }
    }

    /// 501 with code 2002: known to the API, but not something a DFSP may ask of a hub.
    pub fn not_implemented() -> Self {
        Self::new(ErrorCode::NOT_IMPLEMENTED, "")
    }
}

#[cfg(test)]
mod tests;
