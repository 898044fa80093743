//! Paths below a DFSP's base path, and the messages that arrive on them.

use upesi_http::Method;

use crate::message::Family;

/// The kind of a message, by its method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'path> {
    /// A transfer that the DFSP receives, an FX transfer that it makes, or a bulk transfer.
    Prepare,
    /// A callback about one of these.
    Callback {
        id: &'path str,
        is_error: bool,
    },
    Asked(RequestKind<'path>),
    /// The answer to a request, on the given path, which excludes the `error` at its end.
    Answer {
        path: &'path str,
        is_error: bool,
    },
}

/// The requests. Paths and ids are as received, percent-encoded or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind<'path> {
    /// `GET /parties/…`: type, identifier and sub-identifier.
    Party { path: &'path str },
    /// `POST` of a quote, a bulk quote, an FX quote or a transaction request.
    Posted,
    /// `GET` of one of these, by its id.
    Again { id: &'path str },
    /// `GET /authorizations/{ID}`.
    Authorization { id: &'path str },
}

/// The route of a message. `path` follows the base path and its slash.
pub(crate) fn route<'path>(method: &Method, path: &'path str) -> Option<(Family, Route<'path>)> {
    let (family, rest) = path.split_once('/').map_or((path, None), |(family, rest)| (family, Some(rest)));
    let family = Family::parse(family)?;
    let route = if family.moves_money() {
        of_money(method, family, rest)?
    } else if *method == Method::PUT {
        answer(family, path, rest?)?
    } else {
        Route::Asked(asked(method, family, rest)?)
    };
    Some((family, route))
}

fn of_money<'path>(method: &Method, family: Family, rest: Option<&'path str>) -> Option<Route<'path>> {
    let Some(rest) = rest else { return (*method == Method::POST).then_some(Route::Prepare) };
    let (id, error) = rest.split_once('/').map_or((rest, None), |(id, error)| (id, Some(error)));
    match (method, error) {
        (&Method::PATCH, None) if family == Family::BulkTransfers => None,
        (&Method::PUT | &Method::PATCH, None) => Some(Route::Callback { id, is_error: false }),
        (&Method::PUT, Some("error")) => Some(Route::Callback { id, is_error: true }),
        _ => None,
    }
}

fn asked<'path>(method: &Method, family: Family, rest: Option<&'path str>) -> Option<RequestKind<'path>> {
    let is_kept = matches!(
        family,
        Family::Quotes | Family::BulkQuotes | Family::FxQuotes | Family::TransactionRequests
    );
    match (method, family, rest) {
        (&Method::POST, _, None) if is_kept => Some(RequestKind::Posted),
        (&Method::GET, Family::Parties, Some(path)) => {
            let named = (2..=3).contains(&path.split('/').count());
            (named && !path.split('/').any(str::is_empty)).then_some(RequestKind::Party { path })
        }
        (_, _, Some(id)) if *method != Method::GET || id.is_empty() || id.contains('/') => None,
        (_, Family::Authorizations, Some(id)) => Some(RequestKind::Authorization { id }),
        (_, _, Some(id)) if is_kept => Some(RequestKind::Again { id }),
        _ => None,
    }
}

fn answer<'path>(family: Family, path: &'path str, rest: &str) -> Option<Route<'path>> {
    // The number of required segments, and the maximum with a sub-identifier and `error`.
    let (named, most) = match family {
        // The answer to a batch has no type in its path.
        Family::Participants => (1, 4),
        Family::Parties => (2, 4),
        // DFSPs do not answer queries that concern hubs only.
        Family::Services => return None,
        _ => (1, 2),
    };
    let count = rest.split('/').count();
    let without = path.strip_suffix("/error").filter(|_| count > named);
    let is_short_enough = count < most || (count == most && without.is_some());
    let is_answer = count >= named && is_short_enough && !rest.split('/').any(str::is_empty);
    is_answer.then_some(Route::Answer { path: without.unwrap_or(path), is_error: without.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::family_of;

    #[test]
    fn transfers_fx_transfers_and_bulk_transfers_are_routed() {
        let (transfers, fx_transfers) = (Family::Transfers, Family::FxTransfers);
        let callback = |id, is_error| Some((transfers, Route::Callback { id, is_error }));
        let bulks = Family::BulkTransfers;
        let converted = |id, is_error| Some((fx_transfers, Route::Callback { id, is_error }));
        for (method, path, expected) in [
            (Method::POST, "transfers", Some((transfers, Route::Prepare))),
            (Method::POST, "fxTransfers", Some((fx_transfers, Route::Prepare))),
            (Method::PUT, "fxTransfers/x", converted("x", false)),
            (Method::PATCH, "fxTransfers/x", converted("x", false)),
            (Method::PUT, "fxTransfers/x/error", converted("x", true)),
            (Method::PUT, "transfers/x", callback("x", false)),
            (Method::PATCH, "transfers/x", callback("x", false)),
            (Method::PUT, "transfers/x/error", callback("x", true)),
            (Method::PATCH, "transfers/x/error", None),
            (Method::POST, "bulkTransfers", Some((bulks, Route::Prepare))),
            (Method::PUT, "bulkTransfers/x", Some((bulks, Route::Callback { id: "x", is_error: false }))),
            (
                Method::PUT,
                "bulkTransfers/x/error",
                Some((bulks, Route::Callback { id: "x", is_error: true })),
            ),
            (Method::PATCH, "bulkTransfers/x", None),
            (Method::PUT, "transfers", None),
            (Method::POST, "transfers/x", None),
            (Method::POST, "else", None),
            (Method::PUT, "transfers/x/error/y", None),
        ] {
            assert_eq!(route(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn requests_are_routed() {
        let again = |family, id| Some((family, Route::Asked(RequestKind::Again { id })));
        let posted = |family| Some((family, Route::Asked(RequestKind::Posted)));
        let party = |path| Some((Family::Parties, Route::Asked(RequestKind::Party { path })));
        let authorization = RequestKind::Authorization { id: "x" };
        for (method, path, expected) in [
            (Method::GET, "parties/MSISDN/1", party("MSISDN/1")),
            (Method::GET, "parties/MSISDN/1/x", party("MSISDN/1/x")),
            (Method::GET, "parties/MSISDN", None),
            (Method::GET, "parties/MSISDN//", None),
            (Method::GET, "parties", None),
            (Method::POST, "parties/MSISDN/1", None),
            (Method::POST, "quotes", posted(Family::Quotes)),
            (Method::GET, "quotes/x", again(Family::Quotes, "x")),
            (Method::GET, "quotes", None),
            (Method::GET, "quotes/", None),
            (Method::POST, "bulkQuotes", posted(Family::BulkQuotes)),
            (Method::GET, "bulkQuotes/x", again(Family::BulkQuotes, "x")),
            (Method::POST, "fxQuotes", posted(Family::FxQuotes)),
            (Method::POST, "fxQuotes/x", None),
            (Method::GET, "fxQuotes/x", again(Family::FxQuotes, "x")),
            (Method::GET, "fxQuotes", None),
            (Method::POST, "transactionRequests", posted(Family::TransactionRequests)),
            (Method::GET, "transactionRequests/x", again(Family::TransactionRequests, "x")),
            (Method::GET, "authorizations/x", Some((Family::Authorizations, Route::Asked(authorization)))),
            (Method::POST, "authorizations", None),
            (Method::GET, "participants/MSISDN/1", None),
        ] {
            assert_eq!(route(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn family_of_a_message_follows_from_its_path() {
        for (method, path) in [
            (Method::POST, "transfers"),
            (Method::POST, "fxTransfers"),
            (Method::PATCH, "fxTransfers/x"),
            (Method::PATCH, "transfers/x"),
            (Method::GET, "parties/MSISDN/1"),
            (Method::POST, "quotes"),
            (Method::POST, "bulkQuotes"),
            (Method::POST, "fxQuotes"),
            (Method::GET, "fxQuotes/x"),
            (Method::POST, "transactionRequests"),
            (Method::GET, "authorizations/x"),
            (Method::PUT, "participants/x"),
        ] {
            let family = route(&method, path).map(|(family, _)| family);
            assert_eq!(family, family_of(path), "{method} {path}");
            assert!(family.is_some(), "{method} {path}");
        }
    }

    #[test]
    fn answers_are_routed_with_and_without_error() {
        for (family, path) in [
            (Family::Parties, "parties/MSISDN/1"),
            (Family::Parties, "parties/MSISDN/1/x"),
            (Family::Parties, "parties/ALIAS/error"),
            (Family::Participants, "participants/x"),
            (Family::Participants, "participants/MSISDN/1"),
            (Family::Participants, "participants/MSISDN/1/x"),
            (Family::Quotes, "quotes/x"),
            (Family::BulkQuotes, "bulkQuotes/x"),
            (Family::FxQuotes, "fxQuotes/x"),
            (Family::TransactionRequests, "transactionRequests/x"),
            (Family::Authorizations, "authorizations/x"),
        ] {
            let expected = |is_error| Some((family, Route::Answer { path, is_error }));
            assert_eq!(route(&Method::PUT, path), expected(false), "{path}");
            assert_eq!(route(&Method::PUT, &format!("{path}/error")), expected(true), "{path}");
        }
        for path in
            ["parties", "parties/MSISDN", "parties/MSISDN/1/x/y", "quotes", "quotes/x/y", "quotes//error"]
        {
            assert_eq!(route(&Method::PUT, path), None, "{path}");
        }
    }
}
