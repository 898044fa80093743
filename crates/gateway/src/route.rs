//! Maps a request line to its endpoint.

use http::Method;
use upesi_fspiop::{Route, SyncError, Unroutable};

use crate::operations::OperatorEndpoint;

/// An endpoint of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint<'a> {
    /// An operation of the FSPIOP API.
    Api(Route<'a>),
    /// One of the endpoints beside the FSPIOP API.
    Operator(OperatorEndpoint),
}

/// A request line without an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoEndpoint {
    pub(crate) error: SyncError,
    /// The methods of the path, if only the method was wrong (RFC 9110 §15.5.6).
    pub(crate) allow: Option<String>,
}

/// Finds the endpoint of a path without its query.
///
/// Errors: 404 with 3002 for an unknown path, 405 with 3000 for a known path that does not have the method.
pub(crate) fn resolve<'a>(method: &Method, path: &'a str) -> Result<Endpoint<'a>, NoEndpoint> {
    let unroutable = match Route::resolve(upesi_fspiop::Method::parse(method.as_str()), path) {
        Ok(route) => return Ok(Endpoint::Api(route)),
        Err(unroutable) => unroutable,
    };
    let allow = match (unroutable, OperatorEndpoint::find(path)) {
        (Unroutable::UnknownPath, Some(endpoint)) if endpoint.takes(method) => {
            return Ok(Endpoint::Operator(endpoint));
        }
        (Unroutable::UnknownPath, Some(endpoint)) => endpoint.allow().to_owned(),
        (Unroutable::OtherMethods(path), _) => path.allow(),
        _ => return Err(NoEndpoint { error: unroutable.to_error(), allow: None }),
    };
    Err(NoEndpoint { error: SyncError::method_not_allowed(), allow: Some(allow) })
}

#[cfg(test)]
mod tests {
    use upesi_fspiop::{Action, Resource, Segments};

    use super::*;

    #[test]
    fn paths_lead_to_endpoints() {
        for (method, path, expected) in [
            ("GET", "/", Endpoint::Operator(OperatorEndpoint::Metadata)),
            ("HEAD", "/health", Endpoint::Operator(OperatorEndpoint::Health)),
            ("GET", "/live", Endpoint::Operator(OperatorEndpoint::Live)),
            ("DELETE", "/endpointcache", Endpoint::Operator(OperatorEndpoint::EndpointCache)),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(resolve(&method, path), Ok(expected), "{method} {path}");
        }
        for (method, path, resource, action, segments) in [
            ("POST", "/transfers", Resource::Transfers, Action::Post, Segments::Family),
            ("GET", "/transfers/x", Resource::Transfers, Action::Get, Segments::Id("x")),
            ("PATCH", "/transfers/x", Resource::Transfers, Action::Patch, Segments::Id("x")),
            ("PUT", "/quotes/x/error", Resource::Quotes, Action::PutError, Segments::Id("x")),
            ("POST", "/participants", Resource::Participants, Action::Post, Segments::Family),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let Ok(Endpoint::Api(route)) = resolve(&method, path) else { panic!("{method} {path}") };
            let found = (route.resource(), route.operation.action(), route.segments);
            assert_eq!(found, (resource, action, segments), "{method} {path}");
        }
    }

    #[test]
    fn other_paths_are_rejected_with_the_allowed_methods() {
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
            let found = resolve(&method, path).unwrap_err();
            assert_eq!((found.error.status, found.allow.as_deref()), (status, allow), "{method} {path}");
        }
    }
}
