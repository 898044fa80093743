//! From a request line to the operation it asks for.

use upesi_types::ErrorCode;

use crate::resources::{Operation, ResourcePath, Shape};
use crate::{Method, PartyIdType, PartySegments, Resource, SyncError};

/// A resolved request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// What it asks for.
    pub operation: Operation,
    /// What the path names, unchecked.
    pub segments: Segments<'a>,
}

/// What a path names, as received: percent-encoded and unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segments<'a> {
    /// The family only.
    Family,
    /// `{ID}`
    Id(&'a str),
    /// `{Type}/{ID}[/{SubId}]`
    Party(PartySegments<'a>),
    /// `FXP[/{SourceCurrency}/{TargetCurrency}]`
    Providers(Option<[&'a str; 2]>),
}

/// A request line that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// No such path; an empty id counts as none.
    UnknownPath,
    /// The path has other methods.
    OtherMethods(&'static ResourcePath),
}

impl<'a> Route<'a> {
    /// Resolves a request target; a query is ignored. `method` is `None` for one that FSPIOP does not use.
    pub fn resolve(method: Option<Method>, target: &'a str) -> Result<Self, Unroutable> {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let mut segments = path.strip_prefix('/').ok_or(Unroutable::UnknownPath)?.split('/');
        let resource = segments.next().and_then(Resource::parse).ok_or(Unroutable::UnknownPath)?;
        let mut rest = [None; 4];
        for slot in &mut rest {
            // Dot segments would lead elsewhere when the id is put into a callback URL.
            *slot = match segments.next() {
                Some("" | "." | "..") => return Err(Unroutable::UnknownPath),
                segment => segment,
            };
        }
        let found = match segments.next() {
            Some(_) => None,
            None if resource == Resource::Services => shape_of_service(rest),
            None if is_about_parties(resource) => shape_of_party(resource, rest),
            None => shape_of_id(rest),
        };
        let (shape, segments) = found.ok_or(Unroutable::UnknownPath)?;
        let operation = Operation::find(resource, shape, method).ok_or(Unroutable::UnknownPath)?;
        Ok(Self { operation: operation.map_err(Unroutable::OtherMethods)?, segments })
    }

    /// The family, which the media types of the request must name too.
    pub fn resource(&self) -> Resource {
        self.operation.resource()
    }
}

const fn is_about_parties(resource: Resource) -> bool {
    matches!(resource, Resource::Participants | Resource::Parties)
}

fn shape_of_id(segments: [Option<&str>; 4]) -> Option<(Shape, Segments<'_>)> {
    match segments {
        [None, ..] => Some((Shape::Family, Segments::Family)),
        [Some(id), None, ..] => Some((Shape::Item, Segments::Id(id))),
        [Some(id), Some("error"), None, _] => Some((Shape::ItemError, Segments::Id(id))),
        _ => None,
    }
}

/// Foreign exchange is the one service.
fn shape_of_service(segments: [Option<&str>; 4]) -> Option<(Shape, Segments<'_>)> {
    match segments {
        [Some("FXP"), None, ..] => Some((Shape::Service, Segments::Providers(None))),
        [Some("FXP"), Some(source), Some(target), None] => {
            Some((Shape::ServiceOfPair, Segments::Providers(Some([source, target]))))
        }
        _ => None,
    }
}

/// A last segment `error` always means the error, never a sub id, as the path of a callback about that sub id would
/// mean the error too. Of two segments only the first tells: `/participants/ALIAS/error` is a party, and
/// `/participants/{ID}/error` the answer to a batch, whose ids are no types.
fn shape_of_party(resource: Resource, segments: [Option<&str>; 4]) -> Option<(Shape, Segments<'_>)> {
    let is_batch = resource == Resource::Participants;
    let party = |shape, kind, id, sub_id| (shape, Segments::Party(PartySegments { kind, id, sub_id }));
    Some(match segments {
        [None, ..] | [Some(_), None, ..] => return shape_of_id(segments),
        [Some(kind), Some("error"), None, _] if is_batch && PartyIdType::parse(kind).is_none() => {
            return shape_of_id(segments);
        }
        [Some(kind), Some(id), None, _] => party(Shape::Party, kind, id, None),
        [Some(kind), Some(id), Some("error"), None] => party(Shape::PartyError, kind, id, None),
        [Some(kind), Some(id), sub_id, None] => party(Shape::SubParty, kind, id, sub_id),
        [Some(kind), Some(id), sub_id, Some("error")] => party(Shape::SubPartyError, kind, id, sub_id),
        _ => return None,
    })
}

impl Unroutable {
    /// The refusal: 404 with code 3002 or 405 with code 3000.
    pub fn to_error(self) -> SyncError {
        match self {
            Self::UnknownPath => SyncError::new(ErrorCode::UNKNOWN_URI, "Not Found"),
            Self::OtherMethods(_) => SyncError::method_not_allowed(),
        }
    }
}

impl SyncError {
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
