//! The same request three times at once, over three connections: one effect, and the answers of the API to a request
//! that comes again.

use serde_json::{Value, json};

use super::{positions, settle, stage, traded};
use crate::common::{Hub, ask, pay};

/// Three times at once; the answers with the smallest status first.
async fn thrice(hub: &Hub, method: &str, path: &str, body: &Value) -> [(u16, Value); 3] {
    let call = || ask(hub, method, path, body.clone());
    let (first, second, third) = tokio::join!(call(), call(), call());
    let mut answers = [first, second, third];
    answers.sort_by_key(|(status, _)| *status);
    answers
}

/// One is done, the others are refused with this text.
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
async fn a_window_closes_once() {
    let hub = traded().await;
    let body = json!({"state": "CLOSED", "reason": "end of day"});
    let answers = thrice(&hub, "POST", "/v2/settlementWindows/1", &body).await;
    one_was_done(&answers, "Window 1 is not open");
    assert_eq!(answers[0].1["settlementWindowId"], 2);
    assert_eq!(count(&hub, "/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z").await, 2);
}

#[tokio::test]
async fn a_settlement_is_created_once() {
    let hub = traded().await;
    super::close(&hub, 1).await;
    let body = json!({"settlementModel": "DEFERREDNET", "reason": "EOD", "settlementWindows": [{"id": 1}]});
    let answers = thrice(&hub, "POST", "/v2/settlements", &body).await;
    one_was_done(&answers, "Inapplicable windows 1");
    assert_eq!(count(&hub, "/v2/settlements?settlementWindowId=1").await, 1);
}

/// The state that an account has is recorded again; its money moves once.
#[tokio::test]
async fn each_stage_moves_its_money_once() {
    let hub = traded().await;
    settle(&hub).await;
    // In the next window, so that a second movement would not be hidden by a balance of zero.
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

/// It takes the recipient's money back once; the others record their reason again.
#[tokio::test]
async fn a_settlement_is_aborted_once() {
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
