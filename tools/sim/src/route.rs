//! Paths below a DFSP's base path, and what arrives on them.

use upesi_http::Method;

use crate::message::Family;

/// What a message is, by its method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'path> {
    /// A transfer that the DFSP is to receive, a conversion that it is to make, or a bulk of transfers.
    Prepare(Family),
    /// About one of these.
    Callback {
        family: Family,
        id: &'path str,
        is_error: bool,
    },
    Asked(Asked<'path>),
    /// The answer to a question, on the path given, which excludes the `error` at its end.
    Answer {
        family: Family,
        path: &'path str,
        is_error: bool,
    },
}

impl Route<'_> {
    pub const fn family(&self) -> Family {
        match self {
            Self::Asked(asked) => asked.family(),
            Self::Prepare(family) | Self::Callback { family, .. } | Self::Answer { family, .. } => *family,
        }
    }
}

/// The questions. Paths and ids are as received, percent-encoded or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked<'path> {
    /// `GET /parties/…`; type, identifier and sub-identifier.
    Party { path: &'path str },
    /// `POST /quotes`.
    Quote,
    /// `POST /bulkQuotes`.
    BulkQuote,
    /// `POST /fxQuotes`.
    FxQuote,
    /// `POST /transactionRequests`.
    TransactionRequest,
    /// `GET` of one of the former four, by its id.
    Again { family: Family, id: &'path str },
    /// `GET /authorizations/{ID}`.
    Authorization { id: &'path str },
}

impl Asked<'_> {
    const fn family(&self) -> Family {
        match self {
            Self::Party { .. } => Family::Parties,
            Self::Quote => Family::Quotes,
            Self::BulkQuote => Family::BulkQuotes,
            Self::FxQuote => Family::FxQuotes,
            Self::TransactionRequest => Family::TransactionRequests,
            Self::Again { family, .. } => *family,
            Self::Authorization { .. } => Family::Authorizations,
        }
    }
}

/// `path` is what follows the base path and its slash.
pub(crate) fn route<'path>(method: &Method, path: &'path str) -> Option<Route<'path>> {
    let (family, rest) = path.split_once('/').map_or((path, None), |(family, rest)| (family, Some(rest)));
    if let Some(family) = Family::OF_MONEY.into_iter().find(|known| known.name() == family) {
        return of_money(method, family, rest);
    }
    let family = Family::CONVERSATIONS.into_iter().find(|known| known.name() == family)?;
    if *method == Method::PUT {
        return answer(family, path, rest?);
    }
    asked(method, family, rest).map(Route::Asked)
}

fn of_money<'path>(method: &Method, family: Family, rest: Option<&'path str>) -> Option<Route<'path>> {
    let Some(rest) = rest else { return (*method == Method::POST).then_some(Route::Prepare(family)) };
    let (id, error) = rest.split_once('/').map_or((rest, None), |(id, error)| (id, Some(error)));
    match (method, error) {
        (&Method::PATCH, None) if family == Family::BulkTransfers => None,
        (&Method::PUT | &Method::PATCH, None) => Some(Route::Callback { family, id, is_error: false }),
        (&Method::PUT, Some("error")) => Some(Route::Callback { family, id, is_error: true }),
        _ => None,
    }
}

fn asked<'path>(method: &Method, family: Family, rest: Option<&'path str>) -> Option<Asked<'path>> {
    match (method, family, rest) {
        (&Method::POST, Family::Quotes, None) => Some(Asked::Quote),
        (&Method::POST, Family::BulkQuotes, None) => Some(Asked::BulkQuote),
        (&Method::POST, Family::FxQuotes, None) => Some(Asked::FxQuote),
        (&Method::POST, Family::TransactionRequests, None) => Some(Asked::TransactionRequest),
        (&Method::GET, Family::Parties, Some(path)) => {
            let named = (2..=3).contains(&path.split('/').count());
            (named && !path.split('/').any(str::is_empty)).then_some(Asked::Party { path })
        }
        (_, _, Some(id)) if *method != Method::GET || id.is_empty() || id.contains('/') => None,
        (_, Family::Authorizations, Some(id)) => Some(Asked::Authorization { id }),
        (_, Family::Quotes | Family::BulkQuotes | Family::FxQuotes, Some(id))
        | (_, Family::TransactionRequests, Some(id)) => Some(Asked::Again { family, id }),
        _ => None,
    }
}

fn answer<'path>(family: Family, path: &'path str, rest: &str) -> Option<Route<'path>> {
    let (count, named) = match family {
        // The answer to a batch has no type in its path.
        Family::Participants => (rest.split('/').count(), 1),
        Family::Parties => (rest.split('/').count(), 2),
        _ => (rest.split('/').count(), 1),
    };
    // Up to a sub-identifier and `error`.
    let most = if matches!(family, Family::Participants | Family::Parties) { 4 } else { 2 };
    let without = path.strip_suffix("/error").filter(|_| count > named);
    let is_short_enough = count < most || (count == most && without.is_some());
    (count >= named && is_short_enough && !rest.split('/').any(str::is_empty)).then_some(Route::Answer {
        family,
        path: without.unwrap_or(path),
        is_error: without.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_conversions_and_bulks_are_routed() {
        let (transfers, conversions) = (Family::Transfers, Family::FxTransfers);
        let callback = |id, is_error| Some(Route::Callback { family: transfers, id, is_error });
        let bulks = Family::BulkTransfers;
        let converted = |id, is_error| Some(Route::Callback { family: conversions, id, is_error });
        for (method, path, expected) in [
            (Method::POST, "transfers", Some(Route::Prepare(transfers))),
            (Method::POST, "fxTransfers", Some(Route::Prepare(conversions))),
            (Method::PUT, "fxTransfers/x", converted("x", false)),
            (Method::PATCH, "fxTransfers/x", converted("x", false)),
            (Method::PUT, "fxTransfers/x/error", converted("x", true)),
            (Method::PUT, "transfers/x", callback("x", false)),
            (Method::PATCH, "transfers/x", callback("x", false)),
            (Method::PUT, "transfers/x/error", callback("x", true)),
            (Method::PATCH, "transfers/x/error", None),
            (Method::POST, "bulkTransfers", Some(Route::Prepare(bulks))),
            (
                Method::PUT,
                "bulkTransfers/x",
                Some(Route::Callback { family: bulks, id: "x", is_error: false }),
            ),
            (
                Method::PUT,
                "bulkTransfers/x/error",
                Some(Route::Callback { family: bulks, id: "x", is_error: true }),
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
    fn questions_are_routed() {
        let again = |family, id| Some(Route::Asked(Asked::Again { family, id }));
        for (method, path, expected) in [
            (Method::GET, "parties/MSISDN/1", Some(Route::Asked(Asked::Party { path: "MSISDN/1" }))),
            (Method::GET, "parties/MSISDN/1/x", Some(Route::Asked(Asked::Party { path: "MSISDN/1/x" }))),
            (Method::GET, "parties/MSISDN", None),
            (Method::GET, "parties/MSISDN//", None),
            (Method::GET, "parties", None),
            (Method::POST, "parties/MSISDN/1", None),
            (Method::POST, "quotes", Some(Route::Asked(Asked::Quote))),
            (Method::GET, "quotes/x", again(Family::Quotes, "x")),
            (Method::GET, "quotes", None),
            (Method::GET, "quotes/", None),
            (Method::POST, "bulkQuotes", Some(Route::Asked(Asked::BulkQuote))),
            (Method::GET, "bulkQuotes/x", again(Family::BulkQuotes, "x")),
            (Method::POST, "fxQuotes", Some(Route::Asked(Asked::FxQuote))),
            (Method::POST, "fxQuotes/x", None),
            (Method::GET, "fxQuotes/x", again(Family::FxQuotes, "x")),
            (Method::GET, "fxQuotes", None),
            (Method::POST, "transactionRequests", Some(Route::Asked(Asked::TransactionRequest))),
            (Method::GET, "transactionRequests/x", again(Family::TransactionRequests, "x")),
            (Method::GET, "authorizations/x", Some(Route::Asked(Asked::Authorization { id: "x" }))),
            (Method::POST, "authorizations", None),
            (Method::GET, "participants/MSISDN/1", None),
        ] {
            assert_eq!(route(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn the_family_of_a_message_is_the_one_that_its_path_names() {
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
            let family = route(&method, path).map(|route| route.family());
            assert_eq!(family, Family::of_path(path), "{method} {path}");
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
            let expected = |is_error| Some(Route::Answer { family, path, is_error });
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
