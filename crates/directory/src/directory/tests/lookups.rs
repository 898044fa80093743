//! The decision list of `GET /parties`, and the answers from the payee's side.

use upesi_delivery::relayed::{ErrorInformation, TransportError};
use upesi_types::ErrorCode;

use crate::DirectoryConfig;
use crate::metrics::LookupOutcome;
use crate::oracle::OracleFailure;
use crate::scripted::{Manner, Script, ScriptedOracle, World};

fn world(script: Script) -> World {
    World::new(DirectoryConfig::default(), ScriptedOracle::new(script, false))
}

/// A failure of an oracle that found no usable words.
fn unusable() -> OracleFailure {
    OracleFailure::Unusable { reason: "connection refused".into(), detail: "The oracle cannot be reached" }
}

fn told(code: ErrorCode) -> OracleFailure {
    OracleFailure::Told { error: ErrorInformation::new(code, "so it is"), is_not_found: false }
}

struct Row {
    name: &'static str,
    request: &'static str,
    destination: Option<&'static str>,
    script: Script,
    /// What the oracle is asked.
    asked: &'static [&'static str],
    /// What DFSPs get.
    sent: &'static [&'static str],
    /// What became of it, where that is known already; a lookup without outcome is pending.
    outcome: Option<LookupOutcome>,
}

const PLAIN: &str = "GET /parties/MSISDN/26097";
const NOBODY: &str = "PUT bluebank /parties/MSISDN/26097/error from Hub: 3204 Party not found - No proxy found to \
                      start inter-scheme discovery flow";

fn finds(owners: &[(&'static str, Option<&'static str>)]) -> Script {
    Script::Finds(owners.to_vec())
}

/// Who is asked.
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
            "the owner is asked",
            PLAIN,
            None,
            finds(&[("greenbank", None)]),
            &["find MSISDN 26097 - -"],
            &["GET greenbank /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row(
            "query and currency go on",
            "GET /parties/MSISDN/26097?currency=USD",
            None,
            finds(&[("greenbank", None)]),
            &["find MSISDN 26097 - USD"],
            &["GET greenbank /parties/MSISDN/26097?currency=USD from bluebank"],
            None,
        ),
        row(
            "a known destination is asked without the oracle, active or not",
            PLAIN,
            Some("redbank"),
            Script::Hangs,
            &[],
            &["GET redbank /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row("an unknown destination", PLAIN, Some("nobank"), Script::Hangs, &[], &[NOBODY], Some(NotFound)),
        row(
            "nobody serves it",
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
            "several owners, some unknown, one twice",
            PLAIN,
            None,
            finds(&[("greenbank", None), ("nobank", None), ("redbank", None), ("greenbank", None)]),
            &["find MSISDN 26097 - -"],
            &[
                "GET greenbank /parties/MSISDN/26097 from bluebank",
                "GET redbank /parties/MSISDN/26097 from bluebank",
            ],
            None,
        ),
        row(
            "entries with a sub id are not meant without one",
            PLAIN,
            None,
            finds(&[("redbank", Some("shop")), ("greenbank", None)]),
            &["find MSISDN 26097 - -"],
            &["GET greenbank /parties/MSISDN/26097 from bluebank"],
            None,
        ),
        row(
            "with a sub id only its own entries are meant",
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
            "a telephone number that is none",
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

/// What an oracle may do wrong.
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
            "it says why",
            PLAIN,
            Script::Fails(told(ErrorCode::PAYEE_BLOCKED)),
            &[
                "PUT bluebank /parties/MSISDN/26097/error from Hub: 5400 Generic Payee blocked error - so it is",
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
            "too many questions",
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
async fn lookups_go_to_those_who_can_answer_them_or_back() {
    for row in rows_of_owners().into_iter().chain(rows_of_oracles()) {
        let world = world(row.script);
        // A GET with a body is passed on without one.
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
async fn an_owner_that_cannot_be_reached_costs_an_error() {
    let refused = r#"{"errorInformation":{"errorCode":"5107","errorDescription":"gone"}}"#;
    for (owner, manner, error) in [
        ("poorbank", None, "1001 Destination communication error - No FSPIOP_CALLBACK_URL_PARTIES_GET found"),
        (
            "greenbank",
            Some(Manner::Fails(TransportError::Unreachable("refused".into()))),
            "1001 Destination communication error - Network error",
        ),
        (
            "greenbank",
            Some(Manner::Fails(TransportError::Barred)),
            "1001 Destination communication error - Network error",
        ),
        (
            "greenbank",
            Some(Manner::Answers(503, "")),
            "1001 Destination communication error - The destination answered 503",
        ),
        (
            "greenbank",
            Some(Manner::Answers(400, "")),
            "3000 Generic client error - The destination answered 400",
        ),
        ("greenbank", Some(Manner::Answers(500, refused)), "5107 gone"),
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

#[tokio::test(start_paused = true)]
async fn one_owner_that_was_asked_is_enough() {
    let world = world(finds(&[("greenbank", None), ("redbank", None), ("poorbank", None)]));
    world.set_manner("greenbank", Manner::Answers(503, ""));
    world.take(PLAIN, "bluebank", None, "").await.unwrap();
    let sent = world.sent().await;
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.iter().all(|line| line.starts_with("GET ")), "{sent:?}");
    assert_eq!(world.directory.lookups_pending(), 1);
}

#[tokio::test(start_paused = true)]
async fn owners_beyond_the_limit_are_not_asked() {
    const BANKS: [&str; 20] = [
        "bank-0", "bank-1", "bank-2", "bank-3", "bank-4", "bank-5", "bank-6", "bank-7", "bank-8", "bank-9",
        "bank-10", "bank-11", "bank-12", "bank-13", "bank-14", "bank-15", "bank-16", "bank-17", "bank-18",
        "bank-19",
    ];
    let world = world(Script::Finds(BANKS.map(|name| (name, None)).to_vec()));
    world.take(PLAIN, "bluebank", None, "").await.unwrap();
    let mut sent = world.sent().await;
    sent.sort();
    let first = BANKS[..super::super::lookup::OWNERS_QUERIED_MAX].iter();
    let mut expected: Vec<_> =
        first.map(|name| format!("GET {name} /parties/MSISDN/26097 from bluebank")).collect();
    expected.sort();
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn stale_parties_are_removed_only_if_that_is_switched_on() {
    for (remove, destination, script, asked) in [
        (false, None, finds(&[("nobank", None)]), &["find MSISDN 26097 - -"][..]),
        (true, None, finds(&[("nobank", None)]), &["find MSISDN 26097 - -", "remove MSISDN 26097 - -"]),
        (true, None, finds(&[("greenbank", None)]), &["find MSISDN 26097 - -"]),
        (true, None, finds(&[]), &["find MSISDN 26097 - -"]),
        (false, Some("nobank"), finds(&[]), &[]),
        (true, Some("nobank"), finds(&[]), &["remove MSISDN 26097 - -"]),
    ] {
        let config = DirectoryConfig { remove_stale_parties: remove, ..DirectoryConfig::default() };
        let world = World::new(config, ScriptedOracle::new(script, false));
        world.take(PLAIN, "bluebank", destination, "").await.unwrap();
        assert_eq!(world.sent().await.len(), 1);
        assert_eq!(world.oracle.asked(), asked, "{remove} {destination:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_passed_on_keeps_its_bytes_and_its_own_headers() {
    let world = world(Script::Hangs);
    let body = r#"{ "party" : {"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}} }"#;
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), body).await.unwrap();
    world.take(PLAIN, "bluebank", Some("greenbank"), "{}").await.unwrap();
    let sent = world.sent_requests().await;
    assert_eq!((&*sent[0].body, &*sent[1].body), (body.as_bytes(), &b""[..]));
    for request in &sent {
        assert_eq!(request.headers["x-own"], "kept");
        assert_eq!(request.headers["date"], "Tue, 01 Jan 2030 00:00:00 GMT");
    }
}

/// Without the second `error` it would be taken for the path of the answer.
#[tokio::test(start_paused = true)]
async fn the_error_about_a_party_called_error_has_a_path_of_its_own() {
    let world = world(Script::Hangs);
    world.take("GET /parties/ALIAS/error", "bluebank", None, "").await.unwrap();
    let sent = world.sent_requests().await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].headers["fspiop-uri"], "/parties/ALIAS/error/error");
    assert_eq!(sent[0].target.path, "/parties/ALIAS/error/error");
}

#[tokio::test(start_paused = true)]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
async fn answers_go_to_the_destination_or_their_sender_hears_of_it() {
    let error = r#"{"errorInformation":{"errorCode":"5107","errorDescription":"gone"}}"#;
    let unreachable = || Some(Manner::Fails(TransportError::Unreachable("refused".into())));
    for (request, destination, body, manner, sent) in [
        (
            "PUT /parties/MSISDN/26097",
            Some("bluebank"),
            "{}",
            None,
            &["PUT bluebank /parties/MSISDN/26097 from greenbank: {}"][..],
        ),
        (
            "PUT /parties/BUSINESS/acme/shop",
            Some("bluebank"),
            "{}",
            None,
            &["PUT bluebank /parties/BUSINESS/acme/shop from greenbank: {}"],
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            Some("bluebank"),
            error,
            None,
            &["PUT bluebank /parties/MSISDN/26097/error from greenbank: 5107 gone"],
        ),
        (
            "PUT /parties/BUSINESS/acme/shop/error",
            Some("bluebank"),
            error,
            None,
            &["PUT bluebank /parties/BUSINESS/acme/shop/error from greenbank: 5107 gone"],
        ),
        (
            "PUT /participants/MSISDN/26097/error",
            Some("bluebank"),
            error,
            None,
            &["PUT bluebank /participants/MSISDN/26097/error from greenbank: 5107 gone"],
        ),
        (
            "PUT /parties/MSISDN/26097",
            Some("nobank"),
            "{}",
            None,
            &[
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 3201 Destination FSP Error - Destination FSP not \
               found",
            ],
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            None,
            error,
            None,
            &[
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 3201 Destination FSP Error - Destination FSP not \
               found",
            ],
        ),
        (
            "PUT /parties/MSISDN/26097",
            Some("bluebank"),
            "{}",
            unreachable(),
            &[
                "PUT bluebank /parties/MSISDN/26097 from greenbank: {}",
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - Network \
                 error",
            ],
        ),
        (
            "PUT /parties/MSISDN/26097/error",
            Some("poorbank"),
            error,
            None,
            &[
                "PUT greenbank /parties/MSISDN/26097/error from Hub: 1001 Destination communication error - No \
               FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR found",
            ],
        ),
    ] {
        let world = world(Script::Hangs);
        if let Some(manner) = manner {
            world.set_manner("bluebank", manner);
        }
        world.take(request, "greenbank", destination, body).await.unwrap();
        assert_eq!(world.sent().await, sent, "{request} {destination:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_all_lookups_of_the_same_dfsp_for_the_same_party_only() {
    let world = world(finds(&[("greenbank", None)]));
    for (request, source) in [
        ("GET /parties/MSISDN/26097", "bluebank"),
        ("GET /parties/MSISDN/26097?currency=USD", "bluebank"),
        // The same party, encoded otherwise.
        ("GET /parties/MSISDN/%326097", "bluebank"),
        ("GET /parties/MSISDN/26097", "redbank"),
        ("GET /parties/MSISDN/26098", "bluebank"),
        ("GET /parties/BUSINESS/26097", "bluebank"),
    ] {
        world.take(request, source, None, "").await.unwrap();
    }
    assert_eq!(world.sent().await.len(), 6);
    assert_eq!(world.directory.lookups_pending(), 6);
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
    assert_eq!(world.directory.lookups_pending(), 3);
    assert_eq!(world.metrics.lookups(LookupOutcome::Answered), 3);
    world.take("PUT /parties/MSISDN/26097/error", "greenbank", Some("redbank"), "{}").await.unwrap();
    assert_eq!(world.directory.lookups_pending(), 2);
    assert_eq!(world.metrics.lookups(LookupOutcome::AnsweredError), 1);
}
