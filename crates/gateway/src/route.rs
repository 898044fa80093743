//! Which endpoint a request is for.

use http::Method;
use upesi_apidocs::{File, Surface};
use upesi_fspiop::{Operation, Resource, Route, SyncError};
use upesi_types::ErrorCode;

/// An endpoint of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint<'a> {
    /// The transfers family.
    Transfers(Operation<'a>),
    /// Another family, which a conversation takes.
    Conversation(Route<'a>),
    /// A family of the FSPIOP API that [`STATUS_OF_RESOURCES`] lists as not built yet.
    NotBuilt(Resource),
    /// One of the endpoints for operators.
    Own(OwnEndpoint),
}

/// Endpoints beside the FSPIOP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnEndpoint {
    /// `GET /`: what is served here.
    Metadata,
    /// `GET /health`: whether requests would be taken.
    Health,
    /// `GET /live`: whether the process answers.
    Live,
    /// `DELETE /endpointcache`: scripts of reference hubs call it after changing endpoints; here nothing is cached.
    EndpointCache,
    /// `GET /openapi.yaml` and `GET /docs` with its parts: this API, described.
    File(&'static File),
}

/// What the gateway does with a family of the FSPIOP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Routed by [`Route::resolve`].
    Served,
    /// Every request is answered 501 with 2002.
    NotBuilt,
}

/// Every family of the FSPIOP API. Building one means: routes in `upesi_fspiop::Route`, `Served` here, and a command of
/// the ledger's or a conversation that takes it.
const STATUS_OF_RESOURCES: [(Resource, Family); 10] = [
    (Resource::Transfers, Family::Served),
    (Resource::Participants, Family::Served),
    (Resource::Parties, Family::Served),
    (Resource::Quotes, Family::Served),
    (Resource::BulkQuotes, Family::Served),
    (Resource::BulkTransfers, Family::NotBuilt),
    (Resource::FxQuotes, Family::Served),
    (Resource::FxTransfers, Family::NotBuilt),
    (Resource::TransactionRequests, Family::Served),
    (Resource::Authorizations, Family::Served),
];

const OWN_ENDPOINTS: [(&str, OwnEndpoint); 4] = [
    ("/", OwnEndpoint::Metadata),
    ("/health", OwnEndpoint::Health),
    ("/live", OwnEndpoint::Live),
    ("/endpointcache", OwnEndpoint::EndpointCache),
];

/// A request line that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unroutable {
    pub(crate) error: SyncError,
    /// The methods that the path has, where only the method was wrong (RFC 9110 §15.5.6).
    pub(crate) allow: Option<&'static str>,
}

impl OwnEndpoint {
    const fn allow(self) -> &'static str {
        match self {
            Self::EndpointCache => "DELETE",
            _ => "GET, HEAD",
        }
    }

    fn takes(self, method: &Method) -> bool {
        match self {
            Self::EndpointCache => method == Method::DELETE,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }

    /// Whether balancers and service managers ask for it: what is in front of the hub acts on the answer.
    pub(crate) const fn is_for_probes(self) -> bool {
        matches!(self, Self::Health | Self::Live)
    }

    /// The path, without its slash where it has more; a label of metrics.
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::Metadata => "/",
            Self::Health => "health",
            Self::Live => "live",
            Self::EndpointCache => "endpointcache",
            Self::File(_) => "docs",
        }
    }
}

/// Finds the endpoint of a path without its query.
///
/// Errors: 404 with 3002 for an unknown path, 405 with 3000 for a known path that does not have the method.
pub(crate) fn resolve<'a>(method: &Method, path: &'a str) -> Result<Endpoint<'a>, Unroutable> {
    let first = path.strip_prefix('/').map(|rest| rest.split_once('/').map_or(rest, |(first, _)| first));
    match first.and_then(family) {
        Some((_, Family::Served)) => resolve_family(method, path),
        Some((resource, Family::NotBuilt)) => Ok(Endpoint::NotBuilt(resource)),
        None => resolve_own(method, path),
    }
}

fn family(segment: &str) -> Option<(Resource, Family)> {
    STATUS_OF_RESOURCES.into_iter().find(|(resource, _)| resource.as_str() == segment)
}

fn resolve_family<'a>(method: &Method, path: &'a str) -> Result<Endpoint<'a>, Unroutable> {
    match Route::resolve(upesi_fspiop::Method::parse(method.as_str()), path) {
        Ok(Route::ById { resource: Resource::Transfers, operation }) => Ok(Endpoint::Transfers(operation)),
        Ok(route) => Ok(Endpoint::Conversation(route)),
        Err(error) => {
            let allow = if error.code == ErrorCode::CLIENT { Route::allow(path) } else { None };
            Err(Unroutable { error, allow })
        }
    }
}

fn resolve_own<'a>(method: &Method, path: &str) -> Result<Endpoint<'a>, Unroutable> {
    let found = OWN_ENDPOINTS.iter().find(|(own, _)| *own == path).map(|(_, own)| *own);
    match found.or_else(|| Surface::Fspiop.file(path).map(OwnEndpoint::File)) {
        None => Err(Unroutable { error: SyncError::unknown_uri(), allow: None }),
        Some(own) if own.takes(method) => Ok(Endpoint::Own(own)),
        Some(own) => Err(Unroutable { error: SyncError::method_not_allowed(), allow: Some(own.allow()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_status_once() {
        for &resource in Resource::ALL {
            assert_eq!(STATUS_OF_RESOURCES.iter().filter(|(listed, _)| *listed == resource).count(), 1);
        }
        assert_eq!(STATUS_OF_RESOURCES.len(), Resource::ALL.len());
    }

    #[test]
    fn paths_lead_to_endpoints() {
        for (method, path, expected) in [
            ("POST", "/transfers", Endpoint::Transfers(Operation::Create)),
            ("GET", "/transfers/x", Endpoint::Transfers(Operation::Get("x"))),
            ("PATCH", "/transfers/x", Endpoint::Transfers(Operation::Patch("x"))),
            (
                "POST",
                "/quotes",
                Endpoint::Conversation(Route::ById {
                    resource: Resource::Quotes,
                    operation: Operation::Create,
                }),
            ),
            ("POST", "/participants", Endpoint::Conversation(Route::ParticipantsBatch)),
            ("BREW", "/bulkTransfers/x", Endpoint::NotBuilt(Resource::BulkTransfers)),
            ("GET", "/", Endpoint::Own(OwnEndpoint::Metadata)),
            ("HEAD", "/health", Endpoint::Own(OwnEndpoint::Health)),
            ("GET", "/live", Endpoint::Own(OwnEndpoint::Live)),
            ("DELETE", "/endpointcache", Endpoint::Own(OwnEndpoint::EndpointCache)),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(resolve(&method, path), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn other_paths_lead_nowhere_and_say_what_would() {
        for (method, path, status, allow) in [
            ("GET", "/transfers", 405, Some("POST")),
            ("HEAD", "/transfers/x", 405, Some("GET, PUT, PATCH")),
            ("POST", "/transfers/x/error", 405, Some("PUT")),
            ("PUT", "/transfers/", 404, None),
            ("BREW", "/parties/MSISDN/1/x", 405, Some("GET, PUT")),
            ("GET", "/parties/MSISDN", 404, None),
            ("GET", "/transfer", 404, None),
            ("GET", "/transfersx/1", 404, None),
            ("GET", "//transfers/1", 404, None),
            ("GET", "/health/", 404, None),
            ("GET", "*", 404, None),
            ("GET", "", 404, None),
            ("POST", "/health", 405, Some("GET, HEAD")),
            ("GET", "/metrics", 404, None),
            ("GET", "/endpointcache", 405, Some("DELETE")),
            ("POST", "/openapi.yaml", 405, Some("GET, HEAD")),
            ("GET", "/docs/", 404, None),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let unroutable = resolve(&method, path).unwrap_err();
            assert_eq!((unroutable.error.status, unroutable.allow), (status, allow), "{method} {path}");
        }
    }
}
