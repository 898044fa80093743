//! Requests of a gateway: their subject, and their handler.

use std::sync::Arc;

use futures_util::FutureExt as _;
use upesi_delivery::{Accepted, Handler, Request};
use upesi_fspiop::headers::Parties;
use upesi_fspiop::{Action, Message, Method, Resource, Route, SyncError, Version};
use upesi_http::Bytes;
use upesi_types::{ErrorCode, FspId};

/// `PUT /transfers/x?a=1`
fn request(line: &str) -> Request {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let Route { operation, segments } = Route::resolve(Method::parse(method), path).unwrap();
    Request {
        operation,
        ids: segments.check(operation.resource(), true).unwrap(),
        query: query.map(Into::into),
        parties: Parties {
            source: FspId::parse("greenbank").unwrap(),
            destination: FspId::parse("bluebank"),
            proxied: false,
        },
        version: Some(Version::V1_1),
        message: Message::Other,
        headers: Bytes::from_static(b"x-own: 1\r\n"),
        body: Bytes::from_static(b"{ }"),
        reply_to: upesi_engine::ReplyTo::Dfsp,
    }
}

#[test]
fn a_request_knows_its_paths_and_its_size() {
    for (line, resource, action, path, error_path, ids) in [
        (
            "GET /transfers/a%20b",
            Resource::Transfers,
            Action::Get,
            "/transfers/a%20b",
            "/transfers/a%20b/error",
            5,
        ),
        (
            "PUT /transfers/x/error",
            Resource::Transfers,
            Action::PutError,
            "/transfers/x/error",
            "/transfers/x/error",
            1,
        ),
        ("POST /transfers?a=1", Resource::Transfers, Action::Post, "/transfers", "/transfers/error", 0),
        (
            "PUT /parties/MSISDN/26097/shop?b=22",
            Resource::Parties,
            Action::Put,
            "/parties/MSISDN/26097/shop",
            "/parties/MSISDN/26097/shop/error",
            "MSISDN26097/shop".len(),
        ),
    ] {
        let request = request(line);
        assert_eq!((request.resource(), request.action()), (resource, action), "{line}");
        assert_eq!((&*request.path(), &*request.error_path()), (path, error_path), "{line}");
        let query = line.split_once('?').map_or(0, |(_, query)| query.len());
        assert_eq!(request.bytes(), 10 + 3 + ids + query, "{line}");
    }
}

/// Handles some families, and rejects each request under its own name.
struct Only(&'static [Resource], &'static str);

impl Handler for Only {
    fn serves(&self, resource: Resource) -> bool {
        self.0.contains(&resource)
    }

    async fn handle(&self, _request: Request) -> Result<Accepted, SyncError> {
        Err(SyncError::new(ErrorCode::SERVER_BUSY, self.1))
    }
}

#[test]
fn the_first_handler_that_serves_a_family_takes_its_requests() {
    let first = Arc::new(Only(&[Resource::Transfers], "first"));
    let second = Only(&[Resource::Transfers, Resource::Parties], "second");
    let both = (first, Arc::new((second, Only(&[Resource::Services], "third"))));
    for (line, taken_by) in [
        ("GET /transfers/x", Some("first")),
        ("GET /parties/MSISDN/1", Some("second")),
        ("GET /services/FXP", Some("third")),
        ("GET /fxTransfers/x", None),
    ] {
        let request = request(line);
        assert_eq!(both.serves(request.resource()), taken_by.is_some(), "{line}");
        if let Some(name) = taken_by {
            let refused = both.handle(request).now_or_never().unwrap().unwrap_err();
            assert!(format!("{refused:?}").contains(name), "{line}: {refused:?}");
        }
    }
}
