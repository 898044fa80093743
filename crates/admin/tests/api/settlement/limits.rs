//! Limits of settlement, repeated requests and late requests: the answers of `/v2`.

use serde_json::{Value, json};
use upesi_ledger::Limits;

use super::{VALIDATION, close, positions, refused, settle, settle_closed, stage, traded};
use crate::common::{Hub, MODEL, ask, pay};

async fn is_refused(hub: &Hub, method: &str, path: &str, body: Value, text: &str) {
    let answer = refused(hub, method, path, body.clone()).await;
    assert_eq!(answer, (400, format!("{VALIDATION}{text}")), "{method} {path} {body}");
}

fn closed() -> Value {
    json!({"state": "CLOSED", "reason": "end of day"})
}

fn of_windows(windows: &[u32]) -> Value {
    let windows: Vec<_> = windows.iter().map(|id| json!({"id": id})).collect();
    json!({"settlementModel": "DEFERREDNET", "reason": "EOD", "settlementWindows": windows})
}

/// A hub with these limits whose first windows are closed, with a transfer in each, and one transfer in the open
/// window.
async fn after_windows(limits: Limits, count: u32) -> Hub {
    let hub = Hub::with_limits(limits, &["green", "blue"]).await;
    for window in 1..=count {
        pay(&hub, 50 + u64::from(window), "green", "blue", "1").await;
        assert_eq!(close(&hub, window).await.0, 200);
    }
    pay(&hub, 99, "green", "blue", "1").await;
    hub
}

#[tokio::test]
async fn windows_have_limits() {
    let hub = after_windows(Limits { windows: 3, ..Limits::TINY }, 2).await;
    let text = "A hub has at most 100000 settlement windows";
    is_refused(&hub, "POST", "/v2/settlementWindows/3", closed(), text).await;
    // Each window has one pair.
    let hub = after_windows(Limits { pairs: 2, ..Limits::TINY }, 2).await;
    let text = "Too many windows are not settled: settle some before another is closed";
    is_refused(&hub, "POST", "/v2/settlementWindows/3", closed(), text).await;
    settle_closed(&hub).await;
    for state in ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"] {
        assert_eq!(ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await.0, 200);
    }
    assert_eq!(close(&hub, 3).await.0, 200);
}

#[tokio::test]
async fn settlements_have_limits() {
    let hub = after_windows(Limits { settlements: 1, ..Limits::TINY }, 3).await;
    let text = "A settlement has at most 1000 windows";
    is_refused(&hub, "POST", "/v2/settlements", of_windows(&[1, 2, 3]), text).await;
    assert_eq!(ask(&hub, "POST", "/v2/settlements", of_windows(&[1])).await.0, 200);
    let text = "A hub has at most 100000 settlements, with 1000000 accounts";
    is_refused(&hub, "POST", "/v2/settlements", of_windows(&[2, 3]), text).await;
    let hub = after_windows(Limits { settlement_accounts: 3, ..Limits::TINY }, 2).await;
    assert_eq!(ask(&hub, "POST", "/v2/settlements", of_windows(&[1])).await.0, 200);
    is_refused(&hub, "POST", "/v2/settlements", of_windows(&[2]), text).await;
}

/// The hub's settlement account has its minimum balance, so it cannot pay a recipient.
#[tokio::test]
async fn stage_beyond_a_balance_changes_nothing() {
    let hub = traded().await;
    settle(&hub).await;
    let body = r#"{"name":"first","currency":"KES"}"#;
    hub.expect("POST", "/participants", body, 201).await;
    let limits = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":99999999999999.9999},"initialPosition":99999999999999.9999}"#;
    hub.expect("POST", "/participants/first/initialPositionAndLimits", limits, 201).await;
    assert_eq!(ask(&hub, "PUT", "/v2/settlements/1", stage("PS_TRANSFERS_RECORDED")).await.0, 200);
    let text = "The balance cannot hold the amount";
    is_refused(&hub, "PUT", "/v2/settlements/1", stage("PS_TRANSFERS_RESERVED"), text).await;
    let (_, settlement) = ask(&hub, "GET", "/v2/settlements/1", Value::Null).await;
    assert_eq!(settlement["state"], "PS_TRANSFERS_RECORDED");
    assert_eq!(positions(&hub).await, (json!(18.5), json!(-18.5)));
}

#[tokio::test]
async fn repeated_state_and_partial_last_stage_are_accepted() {
    let hub = traded().await;
    settle(&hub).await;
    for state in ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED"] {
        assert_eq!(ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await.0, 200);
    }
    let one = |id: u32, account: u32, state: &str, reference: &str| {
        let account =
            json!({"id": account, "state": state, "reason": "paid", "externalReference": reference});
        json!({"participants": [{"id": id, "accounts": [account]}]})
    };
    let again = one(2, 3, "PS_TRANSFERS_COMMITTED", "ref-2");
    let (status, answer) = ask(&hub, "PUT", "/v2/settlements/1", again).await;
    let account = &answer["participants"][0]["accounts"][0];
    assert_eq!(
        (status, &account["reason"], &account["externalReference"]),
        (200, &json!("paid"), &json!("ref-2"))
    );
    assert_eq!(account.get("errorInformation"), None);
    assert_eq!(answer["state"], "PS_TRANSFERS_COMMITTED");

    let (_, answer) = ask(&hub, "PUT", "/v2/settlements/1", one(2, 3, "SETTLED", "ref-3")).await;
    assert_eq!(answer["state"], "SETTLING");
    assert_eq!(answer["settlementWindows"][0]["content"][0]["state"], "PENDING_SETTLEMENT");
    let (_, shown) = ask(&hub, "GET", "/v2/settlements?state=SETTLING", Value::Null).await;
    assert_eq!(shown[0]["reason"], "Some settlement accounts are SETTLED");
    // An account cannot have the state SETTLING, and this settlement can no longer be aborted.
    let (_, answer) = ask(&hub, "PUT", "/v2/settlements/1", one(3, 5, "SETTLING", "ref-4")).await;
    let error = &answer["participants"][0]["accounts"][0]["errorInformation"]["errorDescription"];
    assert_eq!(error, "Generic client error - State change not allowed");
    let aborted = json!({"state": "ABORTED", "reason": "bank unavailable"});
    is_refused(&hub, "PUT", "/v2/settlements/1", aborted, "State change is not allowed").await;
    let (_, answer) = ask(&hub, "PUT", "/v2/settlements/1", one(3, 5, "SETTLED", "ref-5")).await;
    assert_eq!(
        (&answer["state"], &answer["settlementWindows"][0]["state"]),
        (&json!("SETTLED"), &json!("SETTLED"))
    );
}

#[tokio::test]
async fn repeated_abort_records_its_reason() {
    let hub = traded().await;
    settle(&hub).await;
    for reason in ["bank unavailable", "bank closed"] {
        let body = json!({"state": "ABORTED", "reason": reason});
        let (status, answer) = ask(&hub, "PUT", "/v2/settlements/1", body).await;
        assert_eq!((status, &answer["state"], &answer["reason"]), (200, &json!("ABORTED"), &json!(reason)));
    }
    let (_, answer) = ask(&hub, "PUT", "/v2/settlements/1", stage("PS_TRANSFERS_RECORDED")).await;
    let error = &answer["participants"][0]["accounts"][0]["errorInformation"]["errorDescription"];
    assert_eq!(error, "Generic client error - State change not allowed");
    assert_eq!(answer["settlementWindows"], json!([]), "nothing was affected");
}

#[tokio::test]
async fn inactive_dfsps_are_settled() {
    let hub = traded().await;
    for name in ["green", "blue"] {
        hub.expect("PUT", &format!("/participants/{name}"), r#"{"isActive":false}"#, 200).await;
    }
    hub.expect("PUT", "/participants/blue/accounts/5", r#"{"isActive":false}"#, 200).await;
    settle(&hub).await;
    for state in ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED", "SETTLED"] {
        let (status, answer) = ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await;
        assert_eq!((status, answer["state"].as_str()), (200, Some(state)), "{answer}");
    }
    assert_eq!(positions(&hub).await, (json!(0), json!(0)));
}

/// The answer about an account contains only the window with a part of this account.
#[tokio::test]
async fn update_returns_the_affected_windows() {
    let hub = Hub::with_dfsps(&["green", "blue", "red"]).await;
    for (window, payee) in [(1, "blue"), (2, "red")] {
        pay(&hub, 50 + u64::from(window), "green", payee, "1").await;
        close(&hub, window).await;
    }
    assert_eq!(ask(&hub, "POST", "/v2/settlements", of_windows(&[1, 2])).await.0, 200);
    let windows = async |accounts: &[(u32, u32)]| {
        let account = |id: &u32| json!({"id": id, "state": "PS_TRANSFERS_RECORDED", "reason": "sent"});
        let party = |(id, number): &(u32, u32)| json!({"id": id, "accounts": [account(number)]});
        let body = json!({"participants": accounts.iter().map(party).collect::<Vec<_>>()});
        let (status, answer) = ask(&hub, "PUT", "/v2/settlements/1", body).await;
        assert_eq!(status, 200, "{answer}");
        let windows = answer["settlementWindows"].as_array().unwrap();
        windows.iter().map(|window| window["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(windows(&[(3, 5)]).await, [1]);
    assert_eq!(windows(&[(4, 7)]).await, [2]);
    // Accounts with a fault affect no window.
    assert_eq!(windows(&[(4, 7), (2, 5), (2, 99)]).await, [2]);
    assert_eq!(windows(&[(2, 3)]).await, [1, 2]);
    let (_, all) = ask(&hub, "GET", "/v2/settlements/1", Value::Null).await;
    assert_eq!(all["settlementWindows"].as_array().map(Vec::len), Some(2));
}

/// A rule charges in KES, so a window has two contents. The answer shows only the settled one.
#[tokio::test]
async fn update_returns_the_contents_of_its_settlement() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let fees = MODEL
        .replace("DEFERREDNET", "FEES")
        .replace(r#""POSITION""#, r#""INTERCHANGE_FEE""#)
        .replace(r#""SETTLEMENT""#, r#""INTERCHANGE_FEE_SETTLEMENT""#);
    hub.expect("POST", "/settlementModels", &fees, 201).await;
    let rule = r#"{"name":"WALLET","currency":"KES","ratePercent":1,"paidBy":"PAYER"}"#;
    hub.expect("POST", "/feeRules", rule, 201).await;
    pay(&hub, 50, "green", "blue", "18.5").await;
    close(&hub, 1).await;
    settle_closed(&hub).await;
    let (_, answer) = ask(&hub, "PUT", "/v2/settlements/1", stage("PS_TRANSFERS_RECORDED")).await;
    let contents = answer["settlementWindows"][0]["content"].as_array().unwrap();
    let kinds: Vec<_> = contents.iter().map(|content| content["ledgerAccountType"].clone()).collect();
    assert_eq!(kinds, ["POSITION"]);
}

// The same request three times at once, over three connections: one effect, and the API's answers to repeated requests.

/// Sends the request three times at once. Returns the answers, the smallest status first.
async fn thrice(hub: &Hub, method: &str, path: &str, body: &Value) -> [(u16, Value); 3] {
    let call = || ask(hub, method, path, body.clone());
    let (first, second, third) = tokio::join!(call(), call(), call());
    let mut answers = [first, second, third];
    answers.sort_by_key(|(status, _)| *status);
    answers
}

/// One request succeeds; the others are rejected with this text.
fn one_was_done([(done, answer), others @ ..]: &[(u16, Value); 3], text: &str) {
    assert_eq!(*done, 200, "{answer}");
    for (status, answer) in others {
        let error = &answer["errorInformation"];
        let text = format!("Generic validation error - {text}");
        assert_eq!(
            (*status, &error["errorCode"], &error["errorDescription"]),
            (400, &json!("3100"), &json!(text))
        );
    }
}

async fn count(hub: &Hub, path: &str) -> usize {
    ask(hub, "GET", path, Value::Null).await.1.as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn concurrent_closes_close_the_window_once() {
    let hub = traded().await;
    let body = json!({"state": "CLOSED", "reason": "end of day"});
    let answers = thrice(&hub, "POST", "/v2/settlementWindows/1", &body).await;
    one_was_done(&answers, "Window 1 is not open");
    assert_eq!(answers[0].1["settlementWindowId"], 2);
    assert_eq!(count(&hub, "/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z").await, 2);
}

#[tokio::test]
async fn concurrent_creations_create_one_settlement() {
    let hub = traded().await;
    super::close(&hub, 1).await;
    let body = json!({"settlementModel": "DEFERREDNET", "reason": "EOD", "settlementWindows": [{"id": 1}]});
    let answers = thrice(&hub, "POST", "/v2/settlements", &body).await;
    one_was_done(&answers, "Inapplicable windows 1");
    assert_eq!(count(&hub, "/v2/settlements?settlementWindowId=1").await, 1);
}

/// The present state of an account is recorded again; its money moves once.
#[tokio::test]
async fn concurrent_stages_move_money_once() {
    let hub = traded().await;
    settle(&hub).await;
    // A payment in the next window, so that a second movement would not be hidden by a balance of zero.
    pay(&hub, 51, "green", "blue", "100").await;
    for (state, green, blue) in [
        ("PS_TRANSFERS_RECORDED", json!(118.5), json!(-118.5)),
        ("PS_TRANSFERS_RESERVED", json!(118.5), json!(-100)),
        ("PS_TRANSFERS_COMMITTED", json!(100), json!(-100)),
        ("SETTLED", json!(100), json!(-100)),
    ] {
        for (status, answer) in thrice(&hub, "PUT", "/v2/settlements/1", &stage(state)).await {
            assert_eq!((status, answer["state"].as_str()), (200, Some(state)), "{answer}");
            for party in answer["participants"].as_array().unwrap() {
                let account = &party["accounts"][0];
                assert_eq!(
                    (account["state"].as_str(), account.get("errorInformation")),
                    (Some(state), None),
                    "{answer}"
                );
            }
        }
        assert_eq!(positions(&hub).await, (green, blue), "{state}");
    }
}

/// The abort takes the recipient's money back once; the other requests record their reason again.
#[tokio::test]
async fn concurrent_aborts_abort_once() {
    let hub = traded().await;
    settle(&hub).await;
    pay(&hub, 51, "green", "blue", "100").await;
    for state in ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED"] {
        ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await;
    }
    let body = json!({"state": "ABORTED", "reason": "bank unavailable"});
    for (status, answer) in thrice(&hub, "PUT", "/v2/settlements/1", &body).await {
        assert_eq!((status, answer["state"].as_str()), (200, Some("ABORTED")), "{answer}");
    }
    assert_eq!(positions(&hub).await, (json!(118.5), json!(-118.5)));
    let (_, window) = ask(&hub, "GET", "/v2/settlementWindows/1", Value::Null).await;
    assert_eq!(window["state"], "ABORTED");
}
