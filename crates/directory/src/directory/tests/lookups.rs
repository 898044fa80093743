//! The decision list of `GET /parties`, and the answers from the payee's side.

use upesi_delivery::relayed::{ErrorInformation, TransportError};
use upesi_types::ErrorCode;

use crate::DirectoryConfig;
use crate::metrics::LookupOutcome;
use crate::oracle::OracleFailure;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, World};

pub(super) fn world(script: Script) -> World {
    World::new(DirectoryConfig::default(), ScriptedOracle::new(script, false))
}

/// A failure of an oracle without a usable answer.
fn unusable() -> OracleFailure {
    OracleFailure::Unusable { reason: "connection refused".into(), detail: "The oracle cannot be reached" }
}

fn reported(code: ErrorCode) -> OracleFailure {
    OracleFailure::Told { error: ErrorInformation::new(code, "payee blocked"), is_not_found: false }
}

struct Row {
    name: &'static str,
    request: &'static str,
    destination: Option<&'static str>,
    script: Script,
    /// The queries to the oracle.
    asked: &'static [&'static str],
    /// The messages to DFSPs.
    sent: &'static [&'static str],
    /// The outcome if it is already known. A lookup without an outcome is pending.
    outcome: Option<LookupOutcome>,
}

pub(super) const PLAIN: &str = "GET /parties/MSISDN/26097";
const NOBODY: &str = "PUT bluebank /parties/MSISDN/26097/error from Hub: 3204 Party not found - No proxy found to \
                      start inter-scheme discovery flow";

pub(super) fn finds(owners: &[(&'static str, Option<&'static str>)]) -> Script {
    Script::Finds(owners.to_vec())
}

/// Cases of queried DFSPs.
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn rows_of_owners() -> Vec<Row> {
    let row = |name, request, destination, script, asked, sent, outcome| Row {
        name,
        request,
        destination,
        script,
        asked,
        sent,
        outcome,
    };
    use LookupOutcome::{Malformed, NotFound};
    vec![
        row(
            "the owner is queried",
            PLAIN,
            None,
            finds(&[("greenbank", None)]),
            &["find MSISDN 26097 - -"],
            &["GET greenbank /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row(
            "the query string and its currency are forwarded",
            "GET /parties/MSISDN/26097?currency=USD",
            None,
            finds(&[("greenbank", None)]),
            &["find MSISDN 26097 - USD"],
            &["GET greenbank /parties/MSISDN/26097?currency=USD from bluebank"],
            None,
        ),
        row(
            "a known destination, active or not, is queried without the oracle",
            PLAIN,
            Some("redbank"),
            Script::Hangs,
            &[],
            &["GET redbank /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row("an unknown destination", PLAIN, Some("nobank"), Script::Hangs, &[], &[NOBODY], Some(NotFound)),
        row(
            "no DFSP serves the party",
            PLAIN,
            None,
            finds(&[]),
            &["find MSISDN 26097 - -"],
            &[NOBODY],
            Some(NotFound),
        ),
        row(
            "the owner is unknown",
            PLAIN,
            None,
            finds(&[("nobank", None)]),
            &["find MSISDN 26097 - -"],
            &[NOBODY],
            Some(NotFound),
        ),
        row(
            "several owners, some unknown, one twice: one after the other",
            PLAIN,
            None,
            finds(&[("bank-1", None), ("nobank", None), ("greenbank", None), ("bank-1", None)]),
            &["find MSISDN 26097 - -"],
            &["GET bank-1 /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row(
            "a lookup without a sub id ignores entries with one",
            PLAIN,
            None,
            finds(&[("redbank", Some("shop")), ("greenbank", None)]),
            &["find MSISDN 26097 - -"],
            &["GET greenbank /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row(
            "a lookup with a sub id uses only its entries",
            "GET /parties/BUSINESS/acme/caf%C3%A9",
            None,
            finds(&[("redbank", Some("shop")), ("greenbank", Some("café")), ("redbank", None)]),
            &["find BUSINESS acme café -"],
            &["GET greenbank /parties/BUSINESS/acme/caf%C3%A9 from bluebank"],
            None,
        ),
        row(
            "all entries have another sub id",
            PLAIN,
            None,
            finds(&[("greenbank", Some("shop"))]),
            &["find MSISDN 26097 - -"],
            &["PUT bluebank /parties/MSISDN/26097/error from Hub: 3200 Generic ID not found - Empty oracle \
               partyList, filtered based on callbackEndpointType: FSPIOP_CALLBACK_URL_PARTIES_GET"],
            Some(NotFound),
        ),
        row(
            "an invalid telephone number",
            "GET /parties/MSISDN/phone",
            None,
            Script::Hangs,
            &[],
            &[
                "PUT bluebank /parties/MSISDN/phone/error from Hub: 3101 Malformed syntax - the party identifier is no \
               MSISDN",
            ],
            Some(Malformed),
        ),
        row(
            "the error goes to the endpoint with a sub id",
            "GET /parties/MSISDN/26-097/a",
            Some("greenbank"),
            Script::Hangs,
            &[],
            &["PUT bluebank /parties/MSISDN/26-097/a/error from Hub: 3101 Malformed syntax - the party \
               identifier is no MSISDN"],
            Some(Malformed),
        ),
    ]
}

/// Faults of an oracle.
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn rows_of_oracles() -> Vec<Row> {
    use LookupOutcome::{NoOracle, NotFound, OracleFailed};
    let row = |name, request, script, sent, outcome| Row {
        name,
        request,
        destination: None,
        script,
        asked: if outcome == NoOracle { &[] } else { &["find MSISDN 26097 - -"] },
        sent,
        outcome: Some(outcome),
    };
    vec![
        row(
            "no oracle",
            "GET /parties/IBAN/DE02120300000000202051",
            Script::Hangs,
            &[
                "PUT bluebank /parties/IBAN/DE02120300000000202051/error from Hub: 3003 Add Party information error - \
               Oracle type:IBAN not found",
            ],
            NoOracle,
        ),
        row(
            "no oracle for type and currency",
            "GET /parties/ALIAS/me/x?currency=KES",
            Script::Hangs,
            &[
                "PUT bluebank /parties/ALIAS/me/x/error from Hub: 3003 Add Party information error - Oracle type:ALIAS \
               and currency:KES not found",
            ],
            NoOracle,
        ),
        row(
            "the oracle reports an error",
            PLAIN,
            Script::Fails(reported(ErrorCode::PAYEE_BLOCKED)),
            &[
                "PUT bluebank /parties/MSISDN/26097/error from Hub: 5400 Generic Payee blocked error - payee blocked",
            ],
            OracleFailed,
        ),
        row(
            "404",
            PLAIN,
            Script::Fails(OracleFailure::Refused { status: 404 }),
            &[
                "PUT bluebank /parties/MSISDN/26097/error from Hub: 3200 Generic ID not found - The oracle answered 404",
            ],
            NotFound,
        ),
        row(
            "400",
            PLAIN,
            Script::Fails(OracleFailure::Refused { status: 400 }),
            &[
                "PUT bluebank /parties/MSISDN/26097/error from Hub: 3000 Generic client error - The oracle answered 400",
            ],
            OracleFailed,
        ),
        row(
            "no answer",
            PLAIN,
            Script::Fails(unusable()),
            &[
                "PUT bluebank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - The oracle \
               cannot be reached",
            ],
            OracleFailed,
        ),
        row(
            "too many requests",
            PLAIN,
            Script::Fails(OracleFailure::Busy),
            &[
                "PUT bluebank /parties/MSISDN/26097/error from Hub: 2005 Server busy - Too many requests for the same \
               oracle",
            ],
            OracleFailed,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn lookup_is_forwarded_to_an_owner_or_answered_with_an_error() {
    for row in rows_of_owners().into_iter().chain(rows_of_oracles()) {
        let world = world(row.script);
        // The body of a GET is not forwarded.
        world.take(row.request, "bluebank", row.destination, "{}").await.expect(row.name);
        let mut sent = world.sent().await;
        sent.sort();
        assert_eq!(sent, row.sent, "{}", row.name);
        assert_eq!(world.oracle.asked(), row.asked, "{}", row.name);
        let pending = usize::from(row.outcome.is_none());
        assert_eq!(world.directory.lookups_pending(), pending, "{}", row.name);
        if let Some(outcome) = row.outcome {
            assert_eq!(world.metrics.lookups(outcome), 1, "{}", row.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_source_and_an_unknown_currency_are_refused_at_once() {
    for (request, source, status, code, description) in [
        (
            PLAIN,
            "nobank",
            400,
            3101,
            "Malformed syntax - invalid fspiop-source header: no participant 'nobank'",
        ),
        (
            "GET /parties/MSISDN/26097?x=y&currency=usd",
            "bluebank",
            400,
            3100,
            "Generic validation error - /query/currency must be equal to one of the allowed values: ISO 4217 codes such as KES",
        ),
        (
            "PUT /parties/MSISDN/26097",
            "nobank",
            400,
            3200,
            "Generic ID not found - Requester FSP not found: no participant 'nobank'",
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            "nobank",
            400,
            3200,
            "Generic ID not found - Requester FSP not found: no participant 'nobank'",
        ),
    ] {
        let world = world(Script::Hangs);
        let refusal = world.take(request, source, Some("bluebank"), "{}").await.unwrap_err();
        assert_eq!(
            (refusal.status, refusal.code.number(), &*refusal.description),
            (status, code, description)
        );
        assert_eq!(world.sent().await, [""; 0]);
        assert_eq!(world.directory.lookups_pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn lookup_with_unreachable_owner_is_answered_with_an_error() {
    let refused = r#"{"errorInformation":{"errorCode":"5107","errorDescription":"gone"}}"#;
    for (owner, manner, error) in [
        ("poorbank", None, "1001 Destination communication error - No FSPIOP_CALLBACK_URL_PARTIES_GET found"),
        (
            "greenbank",
            Some(DfspBehaviour::Fails(TransportError::Unreachable("refused".into()))),
            "1001 Destination communication error - Network error",
        ),
        (
            "greenbank",
            Some(DfspBehaviour::Fails(TransportError::Barred)),
            "1001 Destination communication error - Network error",
        ),
        (
            "greenbank",
            Some(DfspBehaviour::Answers(503, "")),
            "1001 Destination communication error - The destination answered 503",
        ),
        (
            "greenbank",
            Some(DfspBehaviour::Answers(400, "")),
            "3000 Generic client error - The destination answered 400",
        ),
        ("greenbank", Some(DfspBehaviour::Answers(500, refused)), "5107 gone"),
    ] {
        let world = world(finds(&[(owner, None)]));
        if let Some(manner) = manner {
            world.set_manner(owner, manner);
        }
        world.take(PLAIN, "bluebank", None, "").await.unwrap();
        let expected = format!("PUT bluebank /parties/MSISDN/26097/error from Hub: {error}");
        assert_eq!(world.sent().await.last(), Some(&expected));
        assert_eq!(world.directory.lookups_pending(), 0);
        assert_eq!(world.metrics.lookups(LookupOutcome::NotDelivered), 1);
    }
}
