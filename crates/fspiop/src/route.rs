//! Methods, resource families, and the routes a DFSP may call.

use upesi_types::ErrorCode;

use crate::SyncError;

/// The methods of the FSPIOP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Ask for the state of something.
    Get,
    /// Begin something.
    Post,
    /// Answer a `POST` or a `GET`.
    Put,
    /// Tell a payee the outcome of its reservation.
    Patch,
    /// Withdraw something.
    Delete,
}

impl Method {
    /// Reads an upper-case method name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }

    /// The upper-case name, as `FSPIOP-HTTP-Method` carries it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

macro_rules! resources {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// A resource family: the first segment of the path and the name inside the media type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Resource {
            $(#[doc = $doc] $name,)*
        }

        impl Resource {
            /// Every family.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in paths and media types, such as `transfers`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads the first segment of a path.
            pub fn parse(segment: &str) -> Option<Self> {
                match segment { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

resources! {
    Transfers = "transfers", "Movement of money between two DFSPs.";
    Participants = "participants", "Which DFSP serves a party.";
    Parties = "parties", "Who a party is.";
    Quotes = "quotes", "The terms of one payment.";
    BulkQuotes = "bulkQuotes", "The terms of many payments.";
    BulkTransfers = "bulkTransfers", "Many transfers at once.";
    FxQuotes = "fxQuotes", "The terms of a currency conversion.";
    FxTransfers = "fxTransfers", "A currency conversion.";
    TransactionRequests = "transactionRequests", "A payee asks to be paid.";
    Authorizations = "authorizations", "A payer's consent, asked for at a device of the payee.";
}

/// What a request asks of a resource family. Identifiers are the path segment as received, not decoded: a hub echoes
/// them in callback paths, and an id that needs decoding is no known id.
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

/// A resolved request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The family, which the media types of the request must name too.
    pub resource: Resource,
    /// What is asked.
    pub operation: Operation<'a>,
}

impl<'a> Route<'a> {
    /// Resolves a request target; a query is ignored.
    ///
    /// Errors: 404 with code 3002 for a path that does not exist (an empty id included), 405 with code 3000 for a
    /// known path with a method it does not have, `method` being `None` for one that FSPIOP does not use.
    pub fn resolve(method: Option<Method>, target: &'a str) -> Result<Self, SyncError> {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let mut segments = path.strip_prefix('/').ok_or_else(SyncError::unknown_uri)?.split('/');
        let resource = segments.next().and_then(Resource::parse).ok_or_else(SyncError::unknown_uri)?;
        let rest = (segments.next(), segments.next(), segments.next());
        if resource != Resource::Transfers {
            return Err(SyncError::unknown_uri());
        }
        let operation = match (rest, method) {
            ((None, ..), Some(Method::Post)) => Operation::Create,
            ((None, ..), _) => return Err(SyncError::method_not_allowed()),
            // Dot segments would lead elsewhere when the id is put into a callback URL.
            ((Some("" | "." | ".."), ..), _) => return Err(SyncError::unknown_uri()),
            ((Some(id), None, _), Some(Method::Get)) => Operation::Get(id),
            ((Some(id), None, _), Some(Method::Put)) => Operation::Put(id),
            ((Some(id), None, _), Some(Method::Patch)) => Operation::Patch(id),
            ((Some(id), Some("error"), None), Some(Method::Put)) => Operation::PutError(id),
            ((Some(_), None, _) | (Some(_), Some("error"), None), _) => {
                return Err(SyncError::method_not_allowed());
            }
            _ => return Err(SyncError::unknown_uri()),
        };
        Ok(Self { resource, operation })
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
mod tests {
    use super::*;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    #[test]
    fn targets_resolve_to_operations() {
        let error = |status, code| Err((status, code));
        for (method, target, expected) in [
            ("POST", "/transfers", Ok(Operation::Create)),
            ("POST", "/transfers?x=1", Ok(Operation::Create)),
            ("GET", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", Ok(Operation::Get(ID))),
            ("PUT", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", Ok(Operation::Put(ID))),
            ("PUT", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d/error", Ok(Operation::PutError(ID))),
            ("PATCH", "/transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", Ok(Operation::Patch(ID))),
            ("GET", "/transfers/any%20text", Ok(Operation::Get("any%20text"))),
            ("GET", "/transfers", error(405, 3000)),
            ("BREW", "/transfers", error(405, 3000)),
            ("DELETE", "/transfers/x", error(405, 3000)),
            ("POST", "/transfers/x", error(405, 3000)),
            ("GET", "/transfers/x/error", error(405, 3000)),
            ("PATCH", "/transfers/x/error", error(405, 3000)),
            ("PUT", "/transfers/", error(404, 3002)),
            ("GET", "/transfers/..", error(404, 3002)),
            ("GET", "/transfers/...", Ok(Operation::Get("..."))),
            ("PUT", "/transfers//error", error(404, 3002)),
            ("PUT", "/transfers/x/", error(404, 3002)),
            ("PUT", "/transfers/x/other", error(404, 3002)),
            ("PUT", "/transfers/x/error/", error(404, 3002)),
            ("PUT", "/transfers/x/error/y", error(404, 3002)),
            ("POST", "/Transfers", error(404, 3002)),
            ("POST", "/quotes", error(404, 3002)),
            ("POST", "transfers", error(404, 3002)),
            ("GET", "/", error(404, 3002)),
            ("GET", "", error(404, 3002)),
            ("GET", "*", error(404, 3002)),
        ] {
            let resolved = Route::resolve(Method::parse(method), target);
            let short = resolved.map(|route| route.operation).map_err(|e| (e.status, e.code.number()));
            assert_eq!(short, expected, "{method} {target}");
        }
    }

    #[test]
    fn refusals_of_a_route_have_their_texts() {
        for (error, description) in [
            (SyncError::unknown_uri(), "Unknown URI - Not Found"),
            (SyncError::method_not_allowed(), "Generic client error - Method Not Allowed"),
            (SyncError::not_implemented(), "Not implemented"),
        ] {
            assert_eq!(error.description, description);
        }
    }

    #[test]
    fn names_round_trip() {
        for &resource in Resource::ALL {
            assert_eq!(Resource::parse(resource.as_str()), Some(resource));
        }
        for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
            assert_eq!(Method::parse(method.as_str()), Some(method));
        }
    }
}
