//! `participants/{Type}/{ID}[/{SubId}]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_delivery::relayed::{ErrorInformation, RelayConfig, TransportError};
use upesi_fspiop::PartyIdType;
use upesi_types::ErrorCode;

use crate::DirectoryConfig;
use crate::oracle::OracleFailure;
use crate::scripted::{Manner, Script, ScriptedOracle, ScriptedOracles, World};

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
async fn what_the_hub_keeps_is_kept_before_it_is_acknowledged() {
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
            assert_eq!(world.oracle.asked().len(), 1, "the client's patience is not the registration's");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_outlives_the_request() {
    let oracle = ScriptedOracle::new(finds(&[]), true);
    let world = World::new(DirectoryConfig::default(), oracle);
    let mut taken = Box::pin(world.take("POST /participants/MSISDN/26097", "bluebank", None, BLUE));
    // Begun, and then the client hangs up.
    assert!(futures_poll_once(taken.as_mut()).await);
    drop(taken);
    assert_eq!(world.sent().await.len(), 1, "the callback is sent all the same");
}

/// Polls once. Returns whether it is still pending.
async fn futures_poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_does_not_arrive_is_told_to_the_requester() {
    let world = World::new(DirectoryConfig::default(), ScriptedOracle::new(finds(&[]), false));
    world.set_manner("greenbank", Manner::Answers(500, ""));
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
async fn only_owners_remove_where_that_is_checked() {
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

// `services/FXP`.

fn exchange_world() -> World {
    World::new(DirectoryConfig::default(), ScriptedOracle::new(Script::Hangs, false))
}

/// Providers are fx-00, fx-01, … with KES and UGX. fx-idle is inactive, fx-shut has an inactive account in UGX, and
/// fx-mute has no endpoint for FX transfers. fx-wide also has TZS. bluebank and greenbank have only KES.
#[tokio::test(start_paused = true)]
async fn providers_are_active_and_hold_both_currencies() {
    let world = exchange_world();
    world.add_exchangers(2);
    for (path, providers) in [
        ("/services/FXP/KES/UGX", r#"["fx-00","fx-01","fx-wide"]"#),
        ("/services/FXP/UGX/KES", r#"["fx-00","fx-01","fx-wide"]"#),
        ("/services/FXP/TZS/KES", r#"["fx-wide"]"#),
        ("/services/FXP/TZS/XOF", "[]"),
        ("/services/FXP/KES/KES", "[]"),
        ("/services/FXP", r#"["fx-00","fx-01","fx-wide"]"#),
    ] {
        world.take(&format!("GET {path}"), "bluebank", None, "").await.unwrap();
        let expected = format!(r#"PUT bluebank {path} from Hub: {{"providers":{providers}}}"#);
        assert_eq!(world.sent().await, [expected]);
    }
    // A provider receives the list of the others.
    world.take("GET /services/FXP/KES/UGX", "fx-00", None, "").await.unwrap();
    let told = r#"PUT fx-00 /services/FXP/KES/UGX from Hub: {"providers":["fx-01","fx-wide"]}"#;
    assert_eq!(world.sent().await, [told]);
}

#[tokio::test(start_paused = true)]
async fn at_most_sixteen_are_named() {
    let world = exchange_world();
    world.add_exchangers(20);
    world.take("GET /services/FXP", "bluebank", None, "").await.unwrap();
    let names: Vec<String> = (0..16).map(|number| format!("\"fx-{number:02}\"")).collect();
    let names = names.join(",");
    assert_eq!(
        world.sent().await,
        [format!(r#"PUT bluebank /services/FXP from Hub: {{"providers":[{names}]}}"#)]
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_be_told_is_not_told_twice() {
    let world = exchange_world();
    world.add_exchangers(1);
    let refusal = world.take("GET /services/FXP", "nobank", None, "").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3200));
    assert!(world.sent().await.is_empty());
    // Without an endpoint, and not reachable: there is no error callback.
    world.take("GET /services/FXP", "poorbank", None, "").await.unwrap();
    assert!(world.sent().await.is_empty());
    world.set_manner("bluebank", Manner::Fails(TransportError::Unreachable("refused".to_owned())));
    world.take("GET /services/FXP", "bluebank", None, "").await.unwrap();
    assert_eq!(world.sent().await.len(), 1);
}

// `POST /participants`.

const ID: &str = "01J8ZC5Y2T3V4W5X6Y7Z8A9B0C";

/// MSISDN and BUSINESS have their own oracles.
fn oracle_world(msisdn: &Arc<ScriptedOracle>, business: &Arc<ScriptedOracle>) -> World {
    let oracles =
        BTreeMap::from([(PartyIdType::Msisdn, msisdn.clone()), (PartyIdType::Business, business.clone())]);
    let oracles = Arc::new(ScriptedOracles(oracles));
    World::with_oracles(DirectoryConfig::default(), msisdn.clone(), oracles, RelayConfig::default())
}

fn accepting(is_kept_by_hub: bool) -> Arc<ScriptedOracle> {
    ScriptedOracle::new(Script::Finds(Vec::new()), is_kept_by_hub)
}

fn failing() -> Arc<ScriptedOracle> {
    let failure =
        OracleFailure::Unusable { reason: "refused".into(), detail: "The oracle cannot be reached" };
    ScriptedOracle::new(Script::Fails(failure), false)
}

fn body(parties: &[(&str, &str, &str)]) -> String {
    let party = |(kind, id, fsp): &(&str, &str, &str)| {
        format!(r#"{{"partyIdType":"{kind}","partyIdentifier":"{id}","fspId":"{fsp}"}}"#)
    };
    let parties: Vec<_> = parties.iter().map(party).collect();
    format!(r#"{{"requestId":"{ID}","currency":"USD","partyList":[{}]}}"#, parties.join(","))
}

/// `26097 ok, acme 3003 text` of the only callback.
fn results(sent: &[String]) -> String {
    let [line] = sent else { panic!("{sent:?}") };
    let body = line.strip_prefix(&format!("PUT bluebank /participants/{ID} from Hub: ")).expect(line);
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["currency"], "USD");
    let result = |entry: &serde_json::Value| {
        let id = entry["partyId"]["partyIdentifier"].as_str().unwrap();
        let error = &entry["errorInformation"];
        match error["errorCode"].as_str() {
            None => format!("{id} ok"),
            Some(code) => format!("{id} {code} {}", error["errorDescription"].as_str().unwrap()),
        }
    };
    body["partyList"].as_array().unwrap().iter().map(result).collect::<Vec<_>>().join(", ")
}

#[tokio::test(start_paused = true)]
async fn every_entry_has_its_own_result_in_the_order_of_the_request() {
    let refusal = ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, "Party already exists");
    let msisdn = ScriptedOracle::new(Script::RefusesOfBatch("26098", refusal), false);
    let business = accepting(true);
    let world = oracle_world(&msisdn, &business);
    let body = body(&[
        ("MSISDN", "26097", "bluebank"),
        ("BUSINESS", "acme", "bluebank"),
        ("MSISDN", "26098", "bluebank"),
        ("MSISDN", "26099", "greenbank"),
        ("MSISDN", "phone", "bluebank"),
        ("ALIAS", "me", "bluebank"),
        ("PHONE", "26101", "bluebank"),
        ("PHONE", "26102", "greenbank"),
        ("CONSENT", "c", "bluebank"),
        ("MSISDN", "26100", "bluebank"),
    ]);
    world.take("POST /participants", "bluebank", None, &body).await.unwrap();
    assert_eq!(
        results(&world.sent().await),
        "26097 ok, acme ok, 26098 3003 Add Party information error - Party already exists, \
         26099 3204 Party not found, phone 3101 Malformed syntax - the party identifier is no MSISDN, \
         me 3003 Add Party information error - Oracle type:ALIAS and currency:USD not found, \
         26101 3003 Add Party information error - Oracle type:PHONE and currency:USD not found, \
         26102 3204 Party not found, \
         c 3003 Add Party information error - Oracle type:CONSENT and currency:USD not found, 26100 ok"
    );
    assert_eq!(msisdn.asked(), ["batch MSISDN 26097,26098,26100"]);
    assert_eq!(business.asked(), ["batch BUSINESS acme"]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_without_a_dfsp_or_an_account_fails_alone() {
    let msisdn = accepting(false);
    let world = oracle_world(&msisdn, &accepting(false));
    let batch = |currency: &str| {
        let text = body(&[("MSISDN", "26097", "bluebank"), ("MSISDN", "26098", "?")]);
        text.replace(r#","fspId":"?""#, "").replace("USD", currency)
    };
    world.take("POST /participants", "bluebank", None, &batch("USD")).await.unwrap();
    assert_eq!(results(&world.sent().await), "26097 ok, 26098 3204 Party not found");
    world.take("POST /participants", "bluebank", None, &batch("EUR")).await.unwrap();
    let sent = world.sent().await.join("").replace("EUR", "USD");
    let no_account = "3003 Add Party information error - bluebank has no account in USD";
    assert_eq!(results(&[sent]), format!("26097 {no_account}, 26098 3204 Party not found"));
    assert_eq!(msisdn.asked(), ["batch MSISDN 26097"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_fails_as_a_whole_only_where_nothing_was_decided() {
    let entries = [("MSISDN", "26097", "bluebank"), ("BUSINESS", "acme", "bluebank")];
    let msisdn = failing();
    let world = oracle_world(&msisdn, &accepting(false));
    world.take("POST /participants", "bluebank", None, &body(&entries)).await.unwrap();
    assert_eq!(
        results(&world.sent().await),
        "26097 1001 Destination communication error - The oracle cannot be reached, acme ok"
    );
    let world = oracle_world(&msisdn, &failing());
    world.take("POST /participants", "bluebank", None, &body(&entries)).await.unwrap();
    assert_eq!(
        world.sent().await,
        [format!(
            "PUT bluebank /participants/{ID}/error from Hub: 1001 Destination communication error - The oracle cannot \
             be reached"
        )]
    );
    let all_refused = body(&[("MSISDN", "26097", "greenbank")]);
    world.take("POST /participants", "bluebank", None, &all_refused).await.unwrap();
    assert_eq!(results(&world.sent().await), "26097 3204 Party not found");
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_keeps_does_not_wait_for_what_others_keep() {
    let slow = ScriptedOracle::new(Script::Hangs, false);
    let kept = accepting(true);
    let world = oracle_world(&slow, &kept);
    let entries = body(&[("MSISDN", "26097", "bluebank"), ("BUSINESS", "acme", "bluebank")]);
    world.take("POST /participants", "bluebank", None, &entries).await.unwrap();
    assert_eq!(kept.asked(), ["batch BUSINESS acme"], "before it is acknowledged");
    assert!(world.sent().await.is_empty());
    let slow_keeper = ScriptedOracle::new(Script::Hangs, true);
    let world = oracle_world(&slow_keeper, &kept);
    let taken = world.take("POST /participants", "bluebank", None, &entries);
    assert!(tokio::time::timeout(std::time::Duration::from_secs(3600), taken).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn refusals_and_a_result_that_does_not_arrive() {
    let world = oracle_world(&accepting(false), &accepting(false));
    let entries = body(&[("MSISDN", "26097", "bluebank")]);
    let refusal = world.take("POST /participants", "nobank", None, &entries).await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3200));
    let refusal = world.take("POST /participants", "bluebank", None, "{}").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3102));
    let refusal = world.take("PUT /participants/01J8ZC5Y2T3V4W5X6Y7Z8A9B0C", "bluebank", None, "{}").await;
    assert_eq!(refusal.unwrap_err().status, 501);
    world.set_manner("bluebank", Manner::Answers(400, ""));
    world.take("POST /participants", "bluebank", None, &entries).await.unwrap();
    let sent = world.sent().await;
    assert!(
        sent[1].starts_with(&format!("PUT bluebank /participants/{ID}/error from Hub: 3000 ")),
        "{sent:?}"
    );
}
