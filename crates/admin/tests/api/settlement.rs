//! `/v2/settlementWindows` and `/v2/settlements`: a day from the close to the last stage, an abort, searches, and every
//! rejection.

mod limits;

use crate::common::{Hub, ask, pay};
use serde_json::{Value, json};

/// Ids of the participants and their POSITION accounts: green 2 and 3, blue 3 and 5.
async fn traded() -> Hub {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    pay(&hub, 50, "green", "blue", "18.5").await;
    hub
}

async fn refused(hub: &Hub, method: &str, path: &str, body: Value) -> (u16, String) {
    let (status, answer) = ask(hub, method, path, body).await;
    let error = &answer["errorInformation"];
    let text = |name: &str| error[name].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (status, format!("{} {}", text("errorCode"), text("errorDescription")))
}

async fn close(hub: &Hub, window: u32) -> (u16, Value) {
    let body = json!({"state": "CLOSED", "reason": "end of day"});
    ask(hub, "POST", &format!("/v2/settlementWindows/{window}"), body).await
}

async fn settle(hub: &Hub) -> Value {
    close(hub, 1).await;
    let body = json!({"settlementModel": "DEFERREDNET", "reason": "EOD", "settlementWindows": [{"id": 1}]});
    let (status, settlement) = ask(hub, "POST", "/v2/settlements", body).await;
    assert_eq!(status, 200, "{settlement}");
    settlement
}

/// Sets all accounts to a state.
fn stage(state: &str) -> Value {
    let account = |id: u32| json!({"id": id, "state": state, "reason": "sent", "externalReference": "ref-1"});
    json!({"participants": [{"id": 2, "accounts": [account(3)]}, {"id": 3, "accounts": [account(5)]}]})
}

async fn positions(hub: &Hub) -> (Value, Value) {
    let value = async |path| ask(hub, "GET", path, Value::Null).await.1["value"].clone();
    (
        value("/participants/green/positions?currency=KES").await,
        value("/participants/blue/positions?currency=KES").await,
    )
}

#[tokio::test]
async fn window_is_closed_and_settled() {
    let hub = traded().await;
    let (status, open) = ask(&hub, "GET", "/v2/settlementWindows?state=OPEN", Value::Null).await;
    assert_eq!((status, &open[0]["settlementWindowId"]), (200, &json!(1)));
    let (status, next) = close(&hub, 1).await;
    assert_eq!((status, &next["settlementWindowId"], &next["state"]), (200, &json!(2), &json!("OPEN")));
    let (_, window) = ask(&hub, "GET", "/v2/settlementWindows/1", Value::Null).await;
    assert_eq!((&window["state"], &window["reason"]), (&json!("CLOSED"), &json!("end of day")));
    let content = &window["content"][0];
    let shown = ["id", "state", "ledgerAccountType", "currencyId"].map(|name| content[name].clone());
    assert_eq!(shown, [json!(1), json!("CLOSED"), json!("POSITION"), json!("KES")]);

    let settlement = settle(&hub).await;
    assert_eq!(settlement["state"], "PENDING_SETTLEMENT");
    assert_eq!(settlement["settlementWindows"][0]["content"][0]["state"], "PENDING_SETTLEMENT");
    let net = |settlement: &Value, party: usize| {
        settlement["participants"][party]["accounts"][0]["netSettlementAmount"].clone()
    };
    assert_eq!(net(&settlement, 0), json!({"amount": 18.5, "currency": "KES"}));
    assert_eq!(net(&settlement, 1), json!({"amount": -18.5, "currency": "KES"}));
    for (state, green, blue) in [
        ("PS_TRANSFERS_RECORDED", json!(18.5), json!(-18.5)),
        ("PS_TRANSFERS_RESERVED", json!(18.5), json!(0)),
        ("PS_TRANSFERS_COMMITTED", json!(0), json!(0)),
        ("SETTLED", json!(0), json!(0)),
    ] {
        let (status, answer) = ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await;
        assert_eq!((status, answer["state"].as_str()), (200, Some(state)), "{answer}");
        assert_eq!(answer["participants"][1]["accounts"][0]["externalReference"], "ref-1");
        assert_eq!(answer["participants"][1]["accounts"][0].get("errorInformation"), None);
        assert_eq!(positions(&hub).await, (green, blue), "{state}");
    }
    let (_, window) = ask(&hub, "GET", "/v2/settlementWindows/1", Value::Null).await;
    assert_eq!((&window["state"], &window["content"][0]["state"]), (&json!("SETTLED"), &json!("SETTLED")));
    let (_, shown) = ask(&hub, "GET", "/v2/settlements/1", Value::Null).await;
    assert_eq!(
        (&shown["settlementModel"], &shown["reason"]),
        (&json!("DEFERREDNET"), &json!("All settlement accounts are SETTLED"))
    );
}

#[tokio::test]
async fn advance_reports_faulty_accounts_and_advances_the_others() {
    let hub = traded().await;
    settle(&hub).await;
    let account = |id: u32| json!({"id": id, "state": "PS_TRANSFERS_RECORDED", "reason": "sent"});
    let body = json!({"participants": [
        {"id": 2, "accounts": [account(3), account(3), account(99)]}, {"id": 2, "accounts": [account(5)]}
    ]});
    let (status, answer) = ask(&hub, "PUT", "/v2/settlements/1", body).await;
    assert_eq!((status, answer["state"].as_str()), (200, Some("PENDING_SETTLEMENT")));
    let accounts = answer["participants"][0]["accounts"].as_array().unwrap();
    let errors: Vec<_> =
        accounts.iter().map(|one| one["errorInformation"]["errorDescription"].clone()).collect();
    assert_eq!(
        errors,
        [
            Value::Null,
            json!("Generic client error - Account already processed once"),
            json!("Generic client error - Account not found"),
            json!("Generic client error - Participant and account mismatch"),
        ]
    );
    assert_eq!(accounts[2]["errorInformation"]["errorCode"], "3000");
    let names = [1, 2, 3].map(|at| accounts[at]["errorInformation"]["errorName"].as_str());
    assert_eq!(
        names.map(Option::unwrap),
        ["advance_account_repeated", "advance_account_not_found", "advance_account_of_another"]
    );
    assert_eq!(accounts[0]["state"], "PS_TRANSFERS_RECORDED");

    let (_, answer) =
        ask(&hub, "PUT", "/v2/settlements/1/participants/3", json!({"accounts": [account(5)]})).await;
    assert_eq!(answer["state"], "PS_TRANSFERS_RECORDED", "{answer}");
    let body = json!({"state": "SETTLED", "reason": "sent"});
    let (_, answer) = ask(&hub, "PUT", "/v2/settlements/1/participants/3/accounts/5", body).await;
    let error = &answer["participants"][0]["accounts"][0]["errorInformation"]["errorDescription"];
    assert_eq!(error, "Generic client error - State change not allowed");
}

#[tokio::test]
async fn abort_makes_windows_settleable_again() {
    let hub = traded().await;
    settle(&hub).await;
    for state in ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED"] {
        ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await;
    }
    let body = json!({"state": "ABORTED", "reason": "bank unavailable", "externalReference": "ref-2"});
    let (status, aborted) = ask(&hub, "PUT", "/v2/settlements/1", body).await;
    assert_eq!(
        (status, &aborted["state"], &aborted["externalReference"]),
        (200, &json!("ABORTED"), &json!("ref-2"))
    );
    assert_eq!(positions(&hub).await, (json!(18.5), json!(-18.5)));
    let (_, window) = ask(&hub, "GET", "/v2/settlementWindows/1", Value::Null).await;
    assert_eq!(window["state"], "ABORTED");
    let body = json!({"settlementModel": "DEFERREDNET", "reason": "EOD", "settlementWindows": [{"id": 1}]});
    assert_eq!(ask(&hub, "POST", "/v2/settlements", body).await.1["id"], 2);
    let (_, both) = ask(&hub, "GET", "/v2/settlements?settlementWindowId=1", Value::Null).await;
    assert_eq!(
        (&both[0]["id"], &both[1]["id"], &both[1]["state"]),
        (&json!(2), &json!(1), &json!("ABORTED"))
    );
}

#[tokio::test]
async fn searches_return_matching_windows_and_settlements() {
    let hub = traded().await;
    settle(&hub).await;
    for (path, found) in [
        ("/v2/settlementWindows?currency=KES", Some(1)),
        ("/v2/settlementWindows?currency=TZS", None),
        ("/v2/settlementWindows?participantId=2", Some(1)),
        ("/v2/settlementWindows?participantId=1", None),
        ("/v2/settlementWindows?state=PENDING_SETTLEMENT", Some(1)),
        ("/v2/settlementWindows?state=PROCESSING", None),
        ("/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z", Some(2)),
        // Portals send times in this form: without milliseconds, and with years from 1000 to 9999.
        ("/v2/settlementWindows?fromDateTime=2031-04-01T00:00:00Z&toDateTime=2031-04-02T00:00:00Z", Some(2)),
        ("/v2/settlementWindows?fromDateTime=1000-01-01T00:00:00Z&toDateTime=9999-12-31T23:59:59Z", Some(2)),
        ("/v2/settlementWindows?fromDateTime=2031-04-01T03:00:00%2B03:00&state=PENDING_SETTLEMENT", Some(1)),
        ("/v2/settlementWindows?toDateTime=1970-01-01T00:00:00Z", None),
        ("/v2/settlements?currency=KES", Some(1)),
        ("/v2/settlements?currency=TZS", None),
        ("/v2/settlements?participantId=3&accountId=5", Some(1)),
        ("/v2/settlements?participantId=2&accountId=5", None),
        ("/v2/settlements?settlementWindowId=1&state=PENDING_SETTLEMENT", Some(1)),
        ("/v2/settlements?settlementWindowId=2", None),
        ("/v2/settlements?state=SETTLED", None),
        ("/v2/settlements?toDateTime=1970-01-01T00:00:00.000Z", None),
        ("/v2/settlements?toSettlementWindowDateTime=1970-01-01T00:00:00.000Z", None),
        ("/v2/settlements?fromSettlementWindowDateTime=2031-01-01T00:00:00Z", Some(1)),
        ("/v2/settlements?fromSettlementWindowDateTime=2032-01-01T00:00:00Z", None),
        ("/v2/settlementWindows?fromDateTime=2032-01-01T00:00:00.000Z", None),
        // The settlement replaced the window's reason.
        ("/v2/settlementWindows?closeReason=end%20of%20day", Some(1)),
        ("/v2/settlementWindows?closeReason=end", None),
        ("/v2/settlementWindows?closeReason=EOD", None),
        ("/v2/settlementWindows?closeReason=end%20of%20day&state=OPEN", None),
        ("/v2/settlements?creationReason=EOD", Some(1)),
        ("/v2/settlements?creationReason=end%20of%20day", None),
        ("/v2/settlements?creationReason=EOD&before=1", None),
        ("/v2/settlements?before=2", Some(1)),
    ] {
        let (status, answer) = ask(&hub, "GET", path, Value::Null).await;
        match found {
            Some(count) => {
                assert_eq!((status, answer.as_array().map(Vec::len)), (200, Some(count)), "{path}")
            }
            None => assert_eq!(
                (status, &answer["errorInformation"]["errorCode"]),
                (400, &json!("3100")),
                "{path}"
            ),
        }
    }
    let body = json!({"state": "ABORTED", "reason": "bank unavailable"});
    let (_, aborted) = ask(&hub, "PUT", "/v2/settlements/1", body).await;
    assert_eq!(aborted["reason"], "bank unavailable");
    let (_, found) = ask(&hub, "GET", "/v2/settlements?creationReason=EOD", Value::Null).await;
    assert_eq!(found[0]["id"], 1);
    let (_, found) = ask(&hub, "GET", "/v2/settlementWindows?closeReason=end%20of%20day", Value::Null).await;
    assert_eq!((&found[0]["settlementWindowId"], &found[0]["state"]), (&json!(1), &json!("ABORTED")));
    // Window 1 changed when it was settled, after window 2 was opened.
    let path = "/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z";
    let (_, windows) = ask(&hub, "GET", path, Value::Null).await;
    let ids = [0, 1].map(|at| windows[at]["settlementWindowId"].clone());
    assert_eq!(ids, [json!(1), json!(2)]);
    let (_, part) = ask(&hub, "GET", "/v2/settlements/1/participants/3", Value::Null).await;
    assert_eq!(
        (part["participants"].as_array().map(Vec::len), &part["participants"][0]["id"]),
        (Some(1), &json!(3))
    );
    let (_, part) = ask(&hub, "GET", "/v2/settlements/1/participants/2/accounts/3", Value::Null).await;
    assert_eq!(part["participants"][0]["accounts"][0]["id"], 3);
}

/// Pairs are ordered by accounts, in pages. The pairs of a closed window are retained.
#[tokio::test]
async fn pairs_contain_the_obligations_between_accounts() {
    let hub = Hub::with_dfsps(&["green", "blue", "red"]).await;
    for (number, payer, payee, amount) in [
        (50, "green", "blue", "18.5"),
        (51, "blue", "green", "3.25"),
        (52, "green", "blue", "1.5"),
        (53, "red", "green", "7"),
    ] {
        pay(&hub, number, payer, payee, amount).await;
    }
    let path = "/v2/settlementWindows/1/pairs";
    let (status, all) = ask(&hub, "GET", path, Value::Null).await;
    assert_eq!((status, &all["settlementWindowId"], &all["next"]), (200, &json!(1), &Value::Null));
    let party = |name: &str, participant: u32, account: u32| json!({"name": name, "participantId": participant, "accountId": account});
    let (green, blue, red) = (party("green", 2, 3), party("blue", 3, 5), party("red", 4, 7));
    let pair = |payer: &Value, payee: &Value, amount: Value, transfers: u32| {
        json!({
            "payer": payer, "payee": payee, "currency": "KES", "ledgerAccountType": "POSITION",
            "amount": amount, "transfers": transfers
        })
    };
    let expected = [
        pair(&green, &blue, json!(20), 2),
        pair(&blue, &green, json!(3.25), 1),
        pair(&red, &green, json!(7), 1),
    ];
    assert_eq!(all["pairs"], json!(expected));
    close(&hub, 1).await;
    pay(&hub, 54, "blue", "red", "2").await;
    let (_, first) = ask(&hub, "GET", &format!("{path}?limit=2"), Value::Null).await;
    assert_eq!((&first["pairs"], &first["next"]), (&json!(expected[..2]), &json!("5-3")));
    let (_, last) = ask(&hub, "GET", &format!("{path}?limit=2&after=5-3"), Value::Null).await;
    assert_eq!((&last["pairs"], &last["next"]), (&json!(expected[2..]), &Value::Null));
    let after = "\"after\" must be the \"next\" of the page before";
    all_refused(
        &hub,
        &[
            ("GET", "/v2/settlementWindows/9/pairs", "", VALIDATION, "Window 9 does not exist"),
            ("GET", "/v2/settlementWindows/1/pairs?after=5", "", MALFORMED, after),
            ("GET", "/v2/settlementWindows/1/pairs?after=0-1", "", MALFORMED, after),
            (
                "GET",
                "/v2/settlementWindows/1/pairs?limit=10001",
                "",
                MALFORMED,
                "\"limit\" must be a whole number from 1 to 10000",
            ),
        ],
    )
    .await;
}

const VALIDATION: &str = "3100 Generic validation error - ";
const MALFORMED: &str = "3101 Malformed syntax - ";
const MISSING: &str = "3102 Missing mandatory element - ";

/// Each request of a table is rejected with 400, its code and its text. Bodies are JSON, and empty for GET.
async fn all_refused(hub: &Hub, table: &[(&str, &str, &str, &str, &str)]) {
    for (method, path, body, code, detail) in table {
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() };
        let answer = refused(hub, method, path, body.clone()).await;
        assert_eq!(answer, (400, format!("{code}{detail}")), "{method} {path} {body}");
    }
}

#[tokio::test]
async fn searches_without_valid_filter_are_rejected() {
    let hub = traded().await;
    settle(&hub).await;
    let windows = "Use at least one parameter: participantId, state, fromDateTime, toDateTime, currency";
    let settlements = "Use at least one parameter: currency, participantId, settlementWindowId, accountId, state, \
                       fromDateTime, toDateTime, fromSettlementWindowDateTime, toSettlementWindowDateTime";
    all_refused(
        &hub,
        &[
            ("GET", "/v2/settlementWindows", "", VALIDATION, windows),
            ("GET", "/v2/settlements?currency=", "", VALIDATION, settlements),
            ("GET", "/v2/settlementWindows?id=1", "", MALFORMED, "\"id\" is not allowed"),
            ("GET", "/v2/settlementWindows/9", "", VALIDATION, "Window 9 does not exist"),
            ("GET", "/v2/settlementWindows/x", "", MALFORMED, "\"id\" must be a positive number"),
            ("GET", "/v2/settlements/0", "", MALFORMED, "\"id\" must be a positive number"),
            ("GET", "/v2/settlements?accountId=0", "", MALFORMED, "\"accountId\" must be a positive number"),
            ("GET", "/v2/settlements/7", "", VALIDATION, "Settlement with ID '7' not found"),
            ("GET", "/v2/settlements/1/participants/9", "", VALIDATION, "Participant 9 not in settlement 1"),
            (
                "GET",
                "/v2/settlements/1/participants/2/accounts/5",
                "",
                VALIDATION,
                "Account 5 not in settlement 1",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn invalid_closes_are_rejected() {
    let hub = traded().await;
    let closed = r#"{"state":"CLOSED","reason":"end of day"}"#;
    all_refused(
        &hub,
        &[
            ("POST", "/v2/settlementWindows/9", closed, VALIDATION, "Window 9 does not exist"),
            (
                "POST",
                "/v2/settlementWindows/1",
                r#"{"state":"OPEN","reason":"end of day"}"#,
                MALFORMED,
                "\"state\" must be one of [CLOSED]",
            ),
            ("POST", "/v2/settlementWindows/1", r#"{"state":"CLOSED"}"#, MALFORMED, "\"reason\" is required"),
        ],
    )
    .await;
    assert_eq!(close(&hub, 1).await.0, 200);
    all_refused(
        &hub,
        &[
            ("POST", "/v2/settlementWindows/1", closed, VALIDATION, "Window 1 is not open"),
            ("POST", "/v2/settlementWindows/2", closed, VALIDATION, "Window 2 is empty"),
        ],
    )
    .await;
}

#[tokio::test]
async fn invalid_settlements_are_rejected() {
    let hub = traded().await;
    close(&hub, 1).await;
    let gross = json!({
        "name": "GROSSTZS", "settlementGranularity": "GROSS", "settlementInterchange": "BILATERAL",
        "settlementDelay": "IMMEDIATE", "currency": "TZS", "requireLiquidityCheck": true,
        "ledgerAccountType": "POSITION", "settlementAccountType": "SETTLEMENT", "autoPositionReset": true
    });
    let (status, _) = hub.call("POST", "/settlementModels", &gross.to_string()).await;
    assert_eq!(status, 201);
    let path = "/v2/settlements";
    let new = |model: &str, windows: &str| {
        format!(r#"{{"settlementModel":"{model}","reason":"EOD","settlementWindows":{windows}}}"#)
    };
    let refusals = [
        (new("NOSUCH", r#"[{"id":1}]"#), VALIDATION, "Settlement model not found: NOSUCH"),
        (
            new("GROSSTZS", r#"[{"id":1}]"#),
            VALIDATION,
            "Settlement can not be created for GROSS or IMMEDIATE models",
        ),
        (new("DEFERREDNET", r#"[{"id":2},{"id":1},{"id":9}]"#), VALIDATION, "Inapplicable windows 2, 9"),
        (new("DEFERREDNET", "[]"), MALFORMED, "\"settlementWindows\" must contain at least 1 items"),
    ];
    for (body, code, detail) in &refusals {
        all_refused(&hub, &[("POST", path, body, code, detail)]).await;
    }
    settle_closed(&hub).await;
    let again = new("DEFERREDNET", r#"[{"id":1}]"#);
    all_refused(&hub, &[("POST", path, &again, VALIDATION, "Inapplicable windows 1")]).await;
}

#[tokio::test]
async fn invalid_updates_are_rejected() {
    let hub = traded().await;
    settle(&hub).await;
    let staged = stage("SETTLED").to_string();
    let both = "No other properties are allowed when participants is provided";
    let mandatory = "State and reason are mandatory";
    let aborted = r#"{"state":"ABORTED","reason":"bank unavailable"}"#;
    for (path, body, code, detail) in [
        ("/v2/settlements/7", &*staged, VALIDATION, "Settlement not found"),
        ("/v2/settlements/7", aborted, VALIDATION, "Settlement not found"),
        ("/v2/settlements/7", r#"{"state":"SETTLED","reason":"no"}"#, VALIDATION, "Settlement not found"),
        ("/v2/settlements/1", r#"{"participants":[],"state":"ABORTED"}"#, VALIDATION, both),
        (
            "/v2/settlements/1",
            r#"{"participants":[{"id":2,"accounts":[]}]}"#,
            MALFORMED,
            "\"participants[0].accounts\" must contain at least 1 items",
        ),
        ("/v2/settlements/1", r#"{"state":"ABORTED"}"#, MISSING, mandatory),
        ("/v2/settlements/1", r#"{"reason":"bank unavailable"}"#, MISSING, mandatory),
        ("/v2/settlements/1", "{}", VALIDATION, "Invalid request payload input"),
        (
            "/v2/settlements/1",
            r#"{"state":"ABORTED","reason":"no","id":1}"#,
            VALIDATION,
            "Invalid request payload input",
        ),
        (
            "/v2/settlements/1",
            r#"{"state":"SETTLED","reason":"no"}"#,
            VALIDATION,
            "State change is not allowed",
        ),
    ] {
        all_refused(&hub, &[("PUT", path, body, code, detail)]).await;
    }
    for state in ["PS_TRANSFERS_RECORDED", "PS_TRANSFERS_RESERVED", "PS_TRANSFERS_COMMITTED"] {
        ask(&hub, "PUT", "/v2/settlements/1", stage(state)).await;
    }
    let (status, text) =
        refused(&hub, "PUT", "/v2/settlements/1", serde_json::from_str(aborted).unwrap()).await;
    assert_eq!(status, 400);
    assert!(text.starts_with("3100 Generic validation error - State change is not allowed"), "{text}");
}

async fn settle_closed(hub: &Hub) {
    let body = json!({"settlementModel": "DEFERREDNET", "reason": "EOD", "settlementWindows": [{"id": 1}]});
    assert_eq!(ask(hub, "POST", "/v2/settlements", body).await.0, 200);
}

// `/feeRules`: rules are listed, added and ended, and their fees are settled.

/// Fees that DFSPs owe, by their accounts of that type.
async fn fees(hub: &Hub, dfsp: &str) -> Value {
    let (_, accounts) = ask(hub, "GET", &format!("/participants/{dfsp}/accounts"), Value::Null).await;
    let own = accounts.as_array().unwrap().iter().find(|one| one["ledgerAccountType"] == "INTERCHANGE_FEE");
    own.map_or(Value::Null, |account| account["value"].clone())
}

#[tokio::test]
async fn fee_rule_is_added_charges_and_is_ended() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    assert_eq!(ask(&hub, "GET", "/feeRules", Value::Null).await, (200, json!([])));
    let asked = json!({"name": "WALLET", "currency": "KES", "payers": ["green"], "amountMin": 2, "amountMax": "30",
        "ratePercent": "1.2345", "decimals": 3, "fixed": 0.25, "paidBy": "PAYEE"});
    let (status, rule) = ask(&hub, "POST", "/feeRules", asked).await;
    let from = rule["from"].clone();
    let expected = json!({"feeRuleId": 1, "name": "WALLET", "currency": "KES", "payers": ["green"], "payees": [],
        "amountMin": 2, "amountMax": 30, "ratePercent": 1.2345, "decimals": 3, "fixed": 0.25, "paidBy": "PAYEE",
        "from": from, "until": null});
    assert_eq!((status, &rule), (201, &expected));
    let (status, second) = ask(
        &hub,
        "POST",
        "/feeRules",
        json!({"name": "FLAT", "currency": "KES", "fixed": 1, "paidBy": "PAYER"}),
    )
    .await;
    assert_eq!((status, &second["decimals"], &second["ratePercent"]), (201, &json!(2), &json!(0)));
    assert_eq!(ask(&hub, "GET", "/feeRules", Value::Null).await, (200, json!([rule, second])));

    pay(&hub, 50, "green", "blue", "18.5").await;
    // 1.2345 % of 18.5 is 0.22838. blue owes this and 0.25, green owes the 1 of the other rule.
    assert_eq!((fees(&hub, "green").await, fees(&hub, "blue").await), (json!(0.522), json!(-0.522)));

    let until = "2031-04-01T12:00:00.000Z";
    let (status, ended) = ask(&hub, "PUT", "/feeRules/FLAT", json!({"until": until})).await;
    assert_eq!((status, &ended["until"]), (200, &json!(until)));
    let (status, ended) = ask(&hub, "PUT", "/feeRules/FLAT", json!({"until": "now"})).await;
    assert_eq!((status, ended["until"].as_str() < Some(until)), (200, true), "{ended}");
    pay(&hub, 51, "green", "blue", "30").await;
    // 1.2345 % of 30 is 0.37035, which is 0.370 in thousandths.
    assert_eq!(fees(&hub, "blue").await, json!(0.098));
    assert_eq!(ask(&hub, "GET", "/feeRules/FLAT", Value::Null).await, (200, ended));
}
