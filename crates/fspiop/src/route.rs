//! Resolves a request line to an operation.

use upesi_types::ErrorCode;

use crate::resources::{Operation, ResourcePath, Shape};
use crate::{Method, PartyIdType, PartySegments, Resource, SyncError};

/// A resolved request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The requested operation.
    pub operation: Operation,
    /// The unchecked parameters of the path.
    pub segments: Segments<'a>,
}

/// The parameters of a path as received: percent-encoded and unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segments<'a> {
    /// Only the family.
    Family,
    /// `{ID}`
    Id(&'a str),
    /// `{Type}/{ID}[/{SubId}]`
    Party(PartySegments<'a>),
    /// `FXP[/{SourceCurrency}/{TargetCurrency}]`
    Providers(Option<[&'a str; 2]>),
}

/// The reason why a request line cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The path does not exist, or an id in it is empty.
    UnknownPath,
    /// The path exists, but not with this method.
    OtherMethods(&'static ResourcePath),
}

impl<'a> Route<'a> {
    /// Resolves a request target. A query is ignored. `method` is `None` for a method that FSPIOP does not use.
    pub fn resolve(method: Option<Method>, target: &'a str) -> Result<Self, Unroutable> {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let mut segments = path.strip_prefix('/').ok_or(Unroutable::UnknownPath)?.split('/');
        let resource = segments.next().and_then(Resource::parse).ok_or(Unroutable::UnknownPath)?;
        let mut rest = [None; 4];
        for slot in &mut rest {
            // Dot segments would change the path when the id is put into a callback URL.
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

    /// The family, which the media types of the request must also name.
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

/// Foreign exchange is the only service.
fn shape_of_service(segments: [Option<&str>; 4]) -> Option<(Shape, Segments<'_>)> {
    match segments {
        [Some("FXP"), None, ..] => Some((Shape::Service, Segments::Providers(None))),
        [Some("FXP"), Some(source), Some(target), None] => {
            Some((Shape::ServiceOfPair, Segments::Providers(Some([source, target]))))
        }
        _ => None,
    }
}

/// Determines the shape of a path about a party. A last segment `error` always means an error callback, never a sub id.
/// The path of a callback about such a sub id would also mean an error. With two segments, the first one decides:
/// `/participants/ALIAS/error` is a party, and `/participants/{ID}/error` is the answer to a batch, because batch ids
/// are not types.
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
    /// The error response: 404 with code 3002 or 405 with code 3000.
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

    /// 501 with code 2002: part of the API, but a DFSP cannot request it from a hub.
    pub fn not_implemented() -> Self {
        Self::new(ErrorCode::NOT_IMPLEMENTED, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    #[test]
    fn targets_resolve_to_operations() {
        let error = |status, code| Err((status, code));
        let item = |action, id| Ok((action, Segments::Id(id)));
        for (method, target, expected) in [
            ("POST", "/transfers", Ok((Action::Post, Segments::Family))),
            ("POST", "/transfers?x=1", Ok((Action::Post, Segments::Family))),
            ("GET", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", item(Action::Get, ID)),
            ("PUT", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", item(Action::Put, ID)),
            ("PUT", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d/error", item(Action::PutError, ID)),
            ("PATCH", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", item(Action::Patch, ID)),
            ("GET", "/transfers/any%20text", item(Action::Get, "any%20text")),
            ("GET", "/transfers", error(405, 3000)),
            ("BREW", "/transfers", error(405, 3000)),
            ("DELETE", "/transfers/x", error(405, 3000)),
            ("POST", "/transfers/x", error(405, 3000)),
            ("GET", "/transfers/x/error", error(405, 3000)),
            ("PATCH", "/transfers/x/error", error(405, 3000)),
            ("PUT", "/transfers/", error(404, 3002)),
            ("GET", "/transfers/..", error(404, 3002)),
            ("GET", "/transfers/...", item(Action::Get, "...")),
            ("PUT", "/transfers//error", error(404, 3002)),
            ("PUT", "/transfers/x/", error(404, 3002)),
            ("PUT", "/transfers/x/other", error(404, 3002)),
            ("PUT", "/transfers/x/error/", error(404, 3002)),
            ("PUT", "/transfers/x/error/y", error(404, 3002)),
            ("POST", "/Transfers", error(404, 3002)),
            ("POST", "/transactions", error(404, 3002)),
            ("BREW", "/bulkTransfers/x", error(405, 3000)),
            ("POST", "transfers", error(404, 3002)),
            ("GET", "/", error(404, 3002)),
            ("GET", "", error(404, 3002)),
            ("GET", "*", error(404, 3002)),
        ] {
            let short = match Route::resolve(Method::parse(method), target) {
                Ok(Route { operation, segments }) => {
                    assert_eq!(operation.resource(), Resource::Transfers, "{target}");
                    Ok((operation.action(), segments))
                }
                Err(unroutable) => {
                    let error = unroutable.to_error();
                    Err((error.status, error.code.number()))
                }
            };
            assert_eq!(short, expected, "{method} {target}");
        }
    }

    #[test]
    fn rejections_of_a_route_have_their_texts() {
        for (error, description) in [
            (Unroutable::UnknownPath.to_error(), "Unknown URI - Not Found"),
            (SyncError::method_not_allowed(), "Generic client error - Method Not Allowed"),
            (SyncError::not_implemented(), "Not implemented"),
        ] {
            assert_eq!(error.description, description);
        }
    }

    /// Every path of the API as methods and statuses: `method status` if it is served. All other methods are rejected.
    const TABLE: &str = "
    /transfers                          POST 202
    /transfers/x                        GET 202, PUT 200, PATCH 501
    /transfers/x/error                  PUT 200
    /quotes                             POST 202
    /quotes/x                           GET 202, PUT 200
    /quotes/x/error                     PUT 200
    /bulkTransfers                      POST 202
    /bulkTransfers/x                    GET 202, PUT 200
    /bulkTransfers/x/error              PUT 200
    /bulkQuotes                         POST 202
    /bulkQuotes/x                       GET 202, PUT 200
    /bulkQuotes/x/error                 PUT 200
    /fxQuotes                           POST 202
    /fxQuotes/x                         GET 202, PUT 200
    /fxQuotes/x/error                   PUT 200
    /transactionRequests                POST 202
    /transactionRequests/x              GET 202, PUT 200
    /transactionRequests/x/error        PUT 200
    /authorizations/x?amount=1          GET 202, PUT 200
    /authorizations/x/error             PUT 200
    /participants                       POST 200
    /participants/x                     PUT 501
    /participants/x/error               PUT 501
    /participants/MSISDN/1              GET 202, POST 202, PUT 200, DELETE 202
    /participants/ALIAS/error           GET 202, POST 202, PUT 200, DELETE 202
    /participants/MSISDN/1/error        PUT 200
    /participants/BUSINESS/1/2          GET 202, POST 202, PUT 200, DELETE 202
    /participants/BUSINESS/1/2/error    PUT 200
    /participants/NONE/1                GET 202, POST 202, PUT 200, DELETE 202
    /parties/MSISDN/1                   GET 202, PUT 200
    /parties/ALIAS/error                GET 202, PUT 200
    /parties/x/error                    GET 202, PUT 200
    /parties/MSISDN/1/error             PUT 200
    /parties/BUSINESS/1/2               GET 202, PUT 200
    /parties/BUSINESS/1/2/error         PUT 200
";

    #[test]
    fn every_path_has_its_methods_and_statuses() {
        for line in TABLE.lines().filter(|line| !line.trim().is_empty()) {
            let (target, served) = line.trim().split_once(' ').unwrap();
            let served: alloc::vec::Vec<&str> = served.trim().split(", ").collect();
            for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
                let found =
                    served.iter().find_map(|entry| entry.strip_prefix(method.as_str())?.strip_prefix(' '));
                match Route::resolve(Some(method), target) {
                    Ok(route) => {
                        let status = alloc::format!("{}", route.operation.success_status());
                        assert_eq!(found, Some(status.as_str()), "{method:?} {target}");
                        assert_eq!(route.operation.method(), method, "{target}");
                        assert_eq!(
                            Some(route.resource()),
                            Resource::parse(target[1..].split('/').next().unwrap())
                        );
                    }
                    Err(unroutable) => {
                        let error = unroutable.to_error();
                        assert_eq!(
                            (found, error.status, error.code),
                            (None, 405, ErrorCode::CLIENT),
                            "{target}"
                        );
                    }
                }
            }
            let Err(Unroutable::OtherMethods(path)) = Route::resolve(None, target) else {
                panic!("{target}")
            };
            let mut methods: alloc::vec::Vec<&str> =
                served.iter().map(|entry| entry.split_once(' ').unwrap().0).collect();
            let listed = path.allow();
            let mut allow: alloc::vec::Vec<&str> = listed.split(", ").collect();
            methods.sort_unstable();
            allow.sort_unstable();
            assert_eq!(allow, methods, "{target}");
        }
    }

    #[test]
    fn unknown_paths_are_rejected() {
        for target in [
            "/authorizations",
            "/parties",
            "/parties/MSISDN",
            "/parties/MSISDN/",
            "/parties/MSISDN//error",
            "/parties//1",
            "/parties/MSISDN/.",
            "/parties/MSISDN/1/..",
            "/parties/MSISDN/../1",
            "/parties/MSISDN/1/2/3",
            "/parties/MSISDN/1/2/error/",
            "/parties/MSISDN/1/2/error/more",
            "/parties/MSISDN/1/error/more",
            "/participants/",
            "/participants/MSISDN/1/2/3",
            "/quotes/",
            "/quotes/x/other",
            "/quotes/x/error/error",
            "/participant/MSISDN/1",
        ] {
            for method in [Method::Get, Method::Post, Method::Put] {
                assert_eq!(Route::resolve(Some(method), target), Err(Unroutable::UnknownPath), "{target}");
            }
            let error = Unroutable::UnknownPath.to_error();
            assert_eq!((error.status, error.code), (404, ErrorCode::UNKNOWN_URI));
        }
    }

    #[test]
    fn party_paths_are_split() {
        let party = |target| match Route::resolve(Some(Method::Put), target) {
            Ok(Route { operation, segments: Segments::Party(party) }) => {
                (operation.action(), party.kind, party.id, party.sub_id)
            }
            other => panic!("{target}: {other:?}"),
        };
        for (target, expected) in [
            ("/parties/MSISDN/1", (Action::Put, "MSISDN", "1", None)),
            ("/parties/MSISDN/1/error", (Action::PutError, "MSISDN", "1", None)),
            ("/parties/MSISDN/1/shop%207", (Action::Put, "MSISDN", "1", Some("shop%207"))),
            ("/parties/MSISDN/1/2/error?x", (Action::PutError, "MSISDN", "1", Some("2"))),
            ("/parties/MSISDN/error/error", (Action::PutError, "MSISDN", "error", None)),
            ("/participants/CONSENT/error", (Action::Put, "CONSENT", "error", None)),
            ("/participants/NONE/error/error", (Action::PutError, "NONE", "error", None)),
        ] {
            assert_eq!(party(target), expected, "{target}");
        }
    }
}
