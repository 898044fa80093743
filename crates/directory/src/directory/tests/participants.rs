//! `participants/{Type}/{ID}[/{SubId}]`.

use upesi_delivery::relayed::ErrorInformation;
use upesi_types::ErrorCode;

use crate::DirectoryConfig;
use crate::oracle::OracleFailure;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, World};

fn refused(status: u16) -> Script {
    Script::Fails(OracleFailure::Refused { status })
}

fn finds(owners: &[(&'static str, Option<&'static str>)]) -> Script {
    Script::Finds(owners.to_vec())
}

const BLUE: &str = r#"{"fspId":"bluebank"}"#;
const BLUE_USD: &str = r#"{"fspId":"bluebank","currency":"USD"}"#;

struct Row {
    request: &'static str,
    destination: Option<&'static str>,
    body: &'static str,
    script: Script,
    asked: &'static [&'static str],
    sent: &'static str,
}

const fn row(
    request: &'static str,
    destination: Option<&'static str>,
    body: &'static str,
    script: Script,
    asked: &'static [&'static str],
    sent: &'static str,
) -> Row {
    Row { request, destination, body, script, asked, sent }
}

fn rows_of_get() -> Vec<Row> {
    const GET: &str = "GET /participants/MSISDN/26097";
    const FIND: &[&str] = &["find MSISDN 26097 - -"];
    vec![
        row(
            GET,
            None,
            "",
            finds(&[("greenbank", None)]),
            FIND,
            r#"PUT bluebank /participants/MSISDN/26097 from Hub: {"fspId":"greenbank"}"#,
        ),
        row(
            "GET /participants/BUSINESS/acme/shop?currency=USD",
            None,
            "",
            finds(&[("redbank", None), ("nobank", Some("shop")), ("greenbank", Some("shop"))]),
            &["find BUSINESS acme shop USD"],
            r#"PUT bluebank /participants/BUSINESS/acme/shop from Hub: {"fspId":"greenbank"}"#,
        ),
        row(
            GET,
            None,
            "",
            finds(&[]),
            FIND,
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3204 Party not found",
        ),
        row(
            GET,
            None,
            "",
            finds(&[("nobank", None)]),
            FIND,
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3204 Party not found",
        ),
        row(
            "GET /participants/IBAN/DE02120300000000202051",
            None,
            "",
            Script::Hangs,
            &[],
            "PUT bluebank /participants/IBAN/DE02120300000000202051/error from Hub: 3003 Add Party information error - \
             Oracle type:IBAN not found",
        ),
        row(
            "GET /participants/MSISDN/phone",
            None,
            "",
            Script::Hangs,
            &[],
            "PUT bluebank /participants/MSISDN/phone/error from Hub: 3101 Malformed syntax - the party identifier is no \
             MSISDN",
        ),
        row(
            GET,
            None,
            "",
            refused(404),
            FIND,
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3200 Generic ID not found - The oracle answered \
             404",
        ),
    ]
}

#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn rows_of_changes() -> Vec<Row> {
    const POST: &str = "POST /participants/MSISDN/26097";
    const ANOTHERS: &str = "PUT bluebank /participants/MSISDN/26097/error from Hub: 3204 Party not found - fspId must be the sender";
    const NO_ACCOUNT: &str = "PUT bluebank /participants/MSISDN/26097/error from Hub: 3003 Add Party information error - \
                              bluebank has no account in EUR";
    const REGISTER: &[&str] = &["register MSISDN 26097 - - for bluebank"];
    let exists = ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, "Party already exists [id: 26097]");
    vec![
        row(
            POST,
            None,
            BLUE,
            finds(&[]),
            REGISTER,
            r#"PUT bluebank /participants/MSISDN/26097 from Hub: {"partyList":[{"fspId":"bluebank","partyIdType":"MSISDN","partyIdentifier":"26097"}]}"#,
        ),
        row(
            "POST /participants/BUSINESS/acme/shop-7",
            Some("redbank"),
            BLUE_USD,
            finds(&[]),
            &["register BUSINESS acme shop-7 USD for bluebank"],
            r#"PUT redbank /participants/BUSINESS/acme/shop-7 from Hub: {"currency":"USD","partyList":[{"fspId":"bluebank","partyIdType":"BUSINESS","partyIdentifier":"acme","partySubIdOrType":"shop-7"}]}"#,
        ),
        row(
            POST,
            Some("nobank"),
            BLUE,
            finds(&[]),
            &[],
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3201 Destination FSP Error - Destination FSP not \
             found",
        ),
        row(POST, None, r#"{"fspId":"greenbank"}"#, finds(&[]), &[], ANOTHERS),
        row(POST, None, r#"{"fspId":"nobank"}"#, finds(&[]), &[], ANOTHERS),
        row(POST, None, r#"{"fspId":"Hub"}"#, finds(&[]), &[], ANOTHERS),
        row("PUT /participants/MSISDN/26097", None, r#"{"fspId":"greenbank"}"#, finds(&[]), &[], ANOTHERS),
        row(POST, None, r#"{"fspId":"bluebank","currency":"EUR"}"#, finds(&[]), &[], NO_ACCOUNT),
        row("PUT /participants/MSISDN/26097", None, r#"{"currency":"EUR"}"#, finds(&[]), &[], NO_ACCOUNT),
        row(
            POST,
            None,
            BLUE,
            Script::Fails(OracleFailure::Told { error: exists, is_not_found: false }),
            REGISTER,
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3003 Add Party information error - Party already \
             exists [id: 26097]",
        ),
        row(
            POST,
            None,
            BLUE,
            refused(200),
            REGISTER,
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3003 Add Party information error - The oracle \
             answered 200",
        ),
        row(
            "POST /participants/MSISDN/phone",
            None,
            BLUE,
            finds(&[]),
            &[],
            "PUT bluebank /participants/MSISDN/phone/error from Hub: 3101 Malformed syntax - the party identifier is no \
             MSISDN",
        ),
        row(
            "PUT /participants/MSISDN/26097",
            None,
            BLUE_USD,
            finds(&[]),
            &["change MSISDN 26097 - USD for bluebank"],
            r#"PUT bluebank /participants/MSISDN/26097 from Hub: {"currency":"USD","partyList":[{"fspId":"bluebank","partyIdType":"MSISDN","partyIdentifier":"26097"}]}"#,
        ),
        row(
            "PUT /participants/MSISDN/26097",
            None,
            "{}",
            refused(404),
            &["change MSISDN 26097 - - for bluebank"],
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3003 Add Party information error - The oracle \
             answered 404",
        ),
        row(
            "DELETE /participants/BUSINESS/acme/shop?currency=KES",
            None,
            "",
            finds(&[]),
            &["remove BUSINESS acme shop KES"],
            r#"PUT bluebank /participants/BUSINESS/acme/shop from Hub: {"fspId":"bluebank"}"#,
        ),
        row(
            "DELETE /participants/MSISDN/26097",
            None,
            "",
            refused(404),
            &["remove MSISDN 26097 - -"],
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 3040 Delete Party information error - The oracle \
             answered 404",
        ),
        row(
            "DELETE /participants/ALIAS/me",
            None,
            "",
            finds(&[]),
            &[],
            "PUT bluebank /participants/ALIAS/me/error from Hub: 3003 Add Party information error - Oracle type:ALIAS \
             not found",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn requests_about_a_participant_are_answered_by_the_hub() {
    for row in rows_of_get().into_iter().chain(rows_of_changes()) {
        for is_kept_by_hub in [false, true] {
            let oracle = ScriptedOracle::new(row.script.clone(), is_kept_by_hub);
            let config = DirectoryConfig { external_ownership_check: false, ..DirectoryConfig::default() };
            let world = World::new(config, oracle);
            world.take(row.request, "bluebank", row.destination, row.body).await.unwrap();
            assert_eq!(world.sent().await, [row.sent], "{}", row.request);
            assert_eq!(world.oracle.asked(), row.asked, "{}", row.request);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_sources_are_refused_at_once() {
    for (request, body) in [
        ("GET /participants/MSISDN/26097", ""),
        ("POST /participants/MSISDN/26097", BLUE),
        ("POST /participants/MSISDN/26097/shop", BLUE),
        ("PUT /participants/MSISDN/26097", BLUE),
        ("DELETE /participants/MSISDN/26097", ""),
        ("PUT /participants/MSISDN/26097/error", "{}"),
    ] {
        let world = World::new(DirectoryConfig::default(), ScriptedOracle::new(finds(&[]), true));
        let refusal = world.take(request, "nobank", None, body).await.unwrap_err();
        assert_eq!((refusal.status, refusal.code.number()), (400, 3200), "{request}");
        assert_eq!(
            refusal.description,
            "Generic ID not found - Requester FSP not found: no participant 'nobank'"
        );
        assert!(world.sent().await.is_empty() && world.oracle.asked().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn change_in_the_built_in_directory_is_acknowledged_once_durable() {
    for (request, body) in [
        ("POST /participants/MSISDN/26097", BLUE),
        ("PUT /participants/MSISDN/26097", BLUE),
        ("DELETE /participants/MSISDN/26097", ""),
    ] {
        for is_kept_by_hub in [false, true] {
            let oracle = ScriptedOracle::new(Script::Hangs, is_kept_by_hub);
            let world = World::new(DirectoryConfig::default(), oracle);
            let taken = world.take(request, "bluebank", None, body);
            let hour = std::time::Duration::from_secs(3600);
            let acknowledged = tokio::time::timeout(hour, taken).await.is_ok();
            assert_eq!(acknowledged, !is_kept_by_hub, "{request}");
            assert!(world.sent().await.is_empty());
            assert_eq!(
                world.oracle.asked().len(),
                1,
                "the registration continues after the client's timeout"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_outlives_the_request() {
    let oracle = ScriptedOracle::new(finds(&[]), true);
    let world = World::new(DirectoryConfig::default(), oracle);
    let mut taken = Box::pin(world.take("POST /participants/MSISDN/26097", "bluebank", None, BLUE));
    // The registration has begun when the client hangs up.
    assert!(futures_poll_once(taken.as_mut()).await);
    drop(taken);
    assert_eq!(world.sent().await.len(), 1, "the callback is also sent if the client hangs up");
}

/// Polls once. Returns whether it is still pending.
async fn futures_poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test(start_paused = true)]
async fn failed_callback_is_reported_to_the_requester() {
    let world = World::new(DirectoryConfig::default(), ScriptedOracle::new(finds(&[]), false));
    world.set_manner("greenbank", DfspBehaviour::Answers(500, ""));
    world.take("POST /participants/MSISDN/26097", "bluebank", Some("greenbank"), BLUE).await.unwrap();
    let sent = world.sent().await;
    assert_eq!(
        sent[1..],
        [
            "PUT bluebank /participants/MSISDN/26097/error from Hub: 1001 Destination communication error - The destination \
          answered 500"
        ]
    );
}

/// The hub also queries an external oracle for the owner before a change. Otherwise any DFSP could take the party over.
#[tokio::test(start_paused = true)]
async fn only_owners_change_where_that_is_checked() {
    const REFUSED: &str = "PUT bluebank /participants/MSISDN/26097/error from Hub: 3003 Add Party information error - The \
                           party is registered by another DFSP";
    for (check, owners, is_changed) in [
        (false, finds(&[("greenbank", None)]), true),
        (true, finds(&[("greenbank", None)]), false),
        (true, finds(&[("bluebank", None)]), true),
        (true, finds(&[]), true),
    ] {
        let config = DirectoryConfig { external_ownership_check: check, ..DirectoryConfig::default() };
        let world = World::new(config, ScriptedOracle::new(owners, false));
        world.take("PUT /participants/MSISDN/26097", "bluebank", None, BLUE_USD).await.unwrap();
        let sent = world.sent().await;
        assert_eq!(sent != [REFUSED], is_changed, "{sent:?}");
        let change = "change MSISDN 26097 - USD for bluebank".to_owned();
        assert_eq!(world.oracle.asked().contains(&change), is_changed);
    }
    assert!(DirectoryConfig::default().external_ownership_check);
}

#[tokio::test(start_paused = true)]
async fn removal_by_another_dfsp_is_rejected_with_ownership_check() {
    const REFUSED: &str = "PUT bluebank /participants/MSISDN/26097/error from Hub: 3040 Delete Party information error - \
                           The party is registered by another DFSP";
    const REMOVED: &str = r#"PUT bluebank /participants/MSISDN/26097 from Hub: {"fspId":"bluebank"}"#;
    for (check, owners, sent) in [
        (false, finds(&[("greenbank", None)]), REMOVED),
        (true, finds(&[("greenbank", None)]), REFUSED),
        (true, finds(&[("greenbank", None), ("bluebank", None)]), REMOVED),
        (true, finds(&[("greenbank", None), ("bluebank", Some("shop"))]), REFUSED),
        (true, finds(&[]), REMOVED),
    ] {
        let config = DirectoryConfig { external_ownership_check: check, ..DirectoryConfig::default() };
        let world = World::new(config, ScriptedOracle::new(owners, false));
        world.take("DELETE /participants/MSISDN/26097", "bluebank", None, "").await.unwrap();
        assert_eq!(world.sent().await, [sent]);
    }
}
