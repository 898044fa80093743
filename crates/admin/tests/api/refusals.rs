//! Every rejection of the operators' API: status, code and text. No rejected request changes anything.

use crate::common::{Hub, MODEL, funds, funds_in, id, refusal};
use upesi_ledger::{AdminCommand, Command, Limits};
use upesi_types::ErrorCode;

/// Maximum length of a description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 4_096;

/// Runs a table whose rows are `METHOD path [body] => code detail`. Every answer has status 400.
async fn check(hub: &Hub, table: &str) {
    let state = async || {
        let mut all = hub.get("/participants").await;
        for path in ["/participants/limits", "/settlementModels", "/ledgerAccountTypes", "/positions"] {
            all += &hub.get(path).await;
        }
        all + &hub.get("/participants/green/accounts").await
    };
    let before = state().await;
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (request, expected) = row.split_once(" => ").unwrap();
        let mut request = request.splitn(3, ' ');
        let mut next = || request.next().unwrap_or_default();
        let (method, path, body) = (next(), next(), next());
        let (code, detail) = expected.split_once(' ').unwrap();
        let code = ErrorCode::from_number(code.parse().unwrap()).unwrap();
        let description = code.describe_within(detail, DESCRIPTION_CHARS_MAX).replace('"', "\\\"");
        let (status, answer) = hub.call(method, path, body).await;
        let expected = refusal(code.number(), &description);
        // A row has only the beginning of a long list.
        let is_list_cut = detail.contains("must be one of [") && !detail.ends_with(']');
        let (beginning, end) = expected.split_at(expected.rfind(r#"","errorName""#).unwrap());
        let is_list = is_list_cut && answer.starts_with(beginning) && answer.ends_with(end);
        assert!(status == 400 && (answer == expected || is_list), "{row}: {answer}");
        assert!(!answer.contains('…'), "nothing is cut: {answer}");
    }
    assert_eq!(state().await, before);
}

/// Turns rows `METHOD path from~to => code detail` into rows with a body: the valid body with one part replaced.
fn vary(good: &str, table: &str) -> String {
    let mut rows = String::new();
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (request, expected) = row.split_once(" => ").unwrap();
        let (request, change) = request.rsplit_once(' ').unwrap();
        let (from, to) = change.split_once('~').unwrap();
        assert!(good.contains(from), "{from}");
        let body = if from.is_empty() { good.to_owned() } else { good.replace(from, to) };
        rows += &format!("{request} {body} => {expected}\n");
    }
    rows
}

#[tokio::test]
async fn invalid_participant_calls_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    check(
        &hub,
        &r#"
        POST /participants {"currency":"KES"} => 3101 "name" is required
        POST /participants {"name":"blue"} => 3101 "currency" is required
        POST /participants {"name":"b","currency":"KES"} => 3101 "name" length must be at least 2 characters long
        POST /participants {"name":"a234567890123456789012345678901","currency":"KES"} => 3101 "name" length must be less than or equal to 30 characters long
        POST /participants {"name":7,"currency":"KES"} => 3101 "name" must be a string
        POST /participants {"name":"blue","currency":"ABC"} => 3101 "currency" must be one of [AED, AFN, ALL, AMD, ANG, AOA, ARS, AUD, AWG, AZN, BAM, BBD, BDT, BGN, BHD, BIF, BMD
        POST /participants {"name":"blue","currency":"KES","isProxy":1} => 3101 "isProxy" must be a boolean
        POST /participants {"name":"blue","currency":"KES","extra":1} => 3101 "extra" is not allowed
        POST /participants {"name":"Green Bank","currency":"KES"} => 3101 @NAME
        POST /participants {"name":"%61%61","currency":"KES"} => 3101 @NAME
        POST /participants {"name":"=cmd","currency":"KES"} => 3101 @NAME
        POST /participants {"name":"../x","currency":"KES"} => 3101 @NAME
        POST /participants {"name":"a\"b","currency":"KES"} => 3101 @NAME
        POST /participants {"name":".hidden","currency":"KES"} => 3101 @NAME
        POST /participants {"name":"gr\u202een","currency":"KES"} => 3101 "name" must not contain control or format characters
        POST /participants {"name":"GREEN","currency":"KES"} => 3000 Participant name differs from another one in case only
        POST /participants {"name":"blue","currency":"TZS"} => 3003 Hub reconciliation account for the specified currency does not exist
        POST /participants {"name":"green","currency":"KES"} => 3000 Participant currency has already been registered
        GET /participants/nobody => 3200 Participant 'nobody' does not exist
        GET /participants/n%C3%B6body => 3200 Participant 'nöbody' does not exist
        GET /participants/GREEN => 3200 Participant 'GREEN' does not exist
        PUT /participants/nobody {"isActive":true} => 3200 Participant 'nobody' does not exist
        PUT /participants/green {} => 3101 "isActive" is required
        PUT /participants/green {"isActive":"maybe"} => 3101 "isActive" must be a boolean
        "#
        .replace("@NAME", &format!("\"name\" {}", upesi_types::FspId::NEW_NAME_RULE)),
    )
    .await;
}

#[tokio::test]
async fn texts_with_hidden_characters_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let good = funds_in(&id(1).to_string(), "5");
    let mut table = String::new();
    for (member, from) in [("externalReference", "bank-555"), ("reason", "prefund")] {
        for hidden in ["\\u001b[2K", "\\u202e", "\\r", "\\n", "\\u200b", "\\u009b", "\\ufeff"] {
            let body = good.replace(from, &format!("x{hidden}y"));
            table += &format!(
                "POST /participants/green/accounts/4 {body} => 3101 \"{member}\" must not contain control or format characters\n"
            );
        }
    }
    check(&hub, &table).await;
}

#[tokio::test]
async fn invalid_endpoint_calls_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let table = r#"
        POST /participants/nobody/endpoints {"type":"@POST","value":"http://x"} => 3200 Participant 'nobody' does not exist
        GET /participants/nobody/endpoints => 3200 Participant 'nobody' does not exist
        POST /participants/green/endpoints {"value":"http://x"} => 3101 "type" is required
        POST /participants/green/endpoints {"type":"NOTHING","value":"http://x"} => 3101 "type" must be a known endpoint type; GET /enums lists them
        POST /participants/green/endpoints {"type":"@POST"} => 3101 "value" is required
        POST /participants/green/endpoints {"type":"@POST","value":"x/transfers"} => 3101 "value" must be a URL that begins with http:// or https:// and has no fragment
        POST /participants/green/endpoints {"type":"@POST","value":"https://green/transfers"} => 3101 "value" must begin with http:// (https:// needs outbound_tls.anchors_file)
        POST /participants/green/endpoints {"type":"@POST","value":"http://green:port/"} => 3101 "value" must have a port from 1 to 65535 without leading zeros, or none
        POST /participants/green/endpoints {"type":"@POST","value":"http://green:0/"} => 3101 "value" must have a port from 1 to 65535 without leading zeros, or none
        POST /participants/green/endpoints {"type":"@POST","value":"http://{{transferId}}.example/"} => 3101 "value" must not have placeholders in its host or port
        POST /participants/green/endpoints {"type":"@POST","value":"http://green:{{id}}/"} => 3101 "value" must not have placeholders in its host or port
        POST /participants/green/endpoints {"type":"@POST","value":"http://0x7f000001/"} => 3101 "value" must have an IPv4 address as four decimal numbers, such as 192.0.2.1
        POST /participants/green/endpoints {"type":"@POST","value":"http://127.0.0.1./"} => 3101 "value" must have a host of letters, digits, dashes and single dots that does not end in a dot
        POST /participants/green/endpoints {"type":"@POST","value":"http://[fe80::1%25eth0]/"} => 3101 "value" must have an IPv6 address in its shortest form, such as [2001:db8::1], without a zone
        POST /participants/green/endpoints {"type":"ALARM_NOTIFICATION_URL","value":"https://2130706433/"} => 3101 "value" must have an IPv4 address as four decimal numbers, such as 192.0.2.1
        POST /participants/green/endpoints {"type":"@POST","value":"http://green/{{fspId}}"} => 3101 "value" may have the placeholders transferId, id, ID; not fspId
        POST /participants/green/endpoints {"type":"FSPIOP_CALLBACK_URL_PARTIES_GET","value":"http://green/{{partyId}}"} => 3101 "value" may have the placeholders partyIdType, partyIdentifier, partySubIdOrType, fsp; not partyId
        POST /participants/green/endpoints {"type":"FSPIOP_CALLBACK_URL_QUOTES","value":"http://green/{{ID}}"} => 3101 "value" must have neither query nor placeholders: paths are appended to it
        POST /participants/green/endpoints {"type":"NET_DEBIT_CAP_ADJUSTMENT_EMAIL","value":""} => 3101 "value" is not allowed to be empty
        POST /participants/green/endpoints {"type":"@POST","value":"http://x/@512"} => 3101 "value" length must be 1 to 512 characters
    "#;
    let table = table.replace("@POST", "FSPIOP_CALLBACK_URL_TRANSFER_POST").replace("@512", &"x".repeat(512));
    check(&hub, &table).await;
}

#[tokio::test]
async fn invalid_limit_calls_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    hub.expect("POST", "/participants", r#"{"name":"fresh","currency":"KES"}"#, 201).await;
    let table = r#"
        POST /participants/nobody/@FIRST {"currency":"KES","limit":{@CAP,"value":1}} => 3200 Participant 'nobody' does not exist
        POST /participants/fresh/@FIRST {"currency":"TZS","limit":{@CAP,"value":1}} => 3200 Participant 'fresh' has no POSITION account in TZS
        POST /participants/green/@FIRST {"currency":"KES","limit":{@CAP,"value":1}} => 3100 Participant Limit or Initial Position already set
        POST /participants/fresh/@FIRST {"currency":"KES","limit":{"type":"OTHER","value":1}} => 3101 "limit.type" must be one of [NET_DEBIT_CAP]
        POST /participants/fresh/@FIRST {"currency":"KES","limit":{@CAP,"value":-1}} => 3101 "limit.value" must be greater than or equal to 0
        POST /participants/fresh/@FIRST {"currency":"KES","limit":{@CAP,"value":"much"}} => 3101 "limit.value" must be a number in plain decimal digits
        POST /participants/fresh/@FIRST {"currency":"KES","limit":{@CAP,"value":1,"alarm":1}} => 3101 "limit.alarm" is not allowed
        POST /participants/fresh/@FIRST {"currency":"KES","limit":7} => 3101 "limit" must be of type object
        POST /participants/fresh/@FIRST {"currency":"KES"} => 3101 "limit" is required
        POST /participants/fresh/@FIRST {"currency":"KES","limit":{@CAP,"value":1},"initialPosition":"x"} => 3101 "initialPosition" must be a number in plain decimal digits
        GET /participants/nobody/limits => 3200 Participant 'nobody' does not exist
        GET /participants/limits?currency=ABC => 3101 "currency" must be an ISO 4217 code in capital letters
        PUT /participants/nobody/limits {"currency":"KES","limit":{@CAP,"value":1,"alarmPercentage":10}} => 3200 Participant 'nobody' does not exist
        PUT /participants/fresh/limits {"currency":"KES","limit":{@CAP,"value":1,"alarmPercentage":10}} => 3200 Participant 'fresh' has no limit in KES yet: set initialPositionAndLimits first
        PUT /participants/green/limits {"currency":"KES","limit":{@CAP,"value":1}} => 3101 "limit.alarmPercentage" is required
        PUT /participants/green/limits {"currency":"KES","limit":{@CAP,"value":1,"alarmPercentage":100.01}} => 3101 "limit.alarmPercentage" must be from 0 to 100
        PUT /participants/green/limits {"currency":"KES","limit":{@CAP,"value":1,"alarmPercentage":-1}} => 3101 "limit.alarmPercentage" must be from 0 to 100
        PUT /participants/green/limits {"currency":"KES","limit":{@CAP,"value":1,"alarmPercentage":1.001}} => 3101 "limit.alarmPercentage" must have no more than 2 decimal places
        PUT /participants/green/limits {"currency":"KES","limit":{@CAP,"value":0.00001,"alarmPercentage":1}} => 3101 "limit.value" must have no more than 4 decimal places
    "#;
    let table = table.replace("@CAP", r#""type":"NET_DEBIT_CAP""#);
    check(&hub, &table.replace("@FIRST", "initialPositionAndLimits")).await;
}

#[tokio::test]
async fn invalid_account_calls_are_rejected() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    check(
        &hub,
        r#"
        POST /participants/Hub/accounts {"currency":"KES","type":"NOTHING"} => 3003 Ledger account type was not found.
        POST /participants/Hub/accounts {"currency":"KES","type":"HUB_FEE"} => 3003 Ledger account type was not found.
        POST /participants/Hub/accounts {"currency":"KES","type":"HUB_RECONCILIATION"} => 3003 Hub account has already been registered.
        POST /participants/green/accounts {"currency":"KES","type":"HUB_RECONCILIATION"} => 3003 Endpoint is reserved for creation of Hub account types only.
        POST /participants/Hub/accounts {"currency":"KES","type":"POSITION"} => 3003 The requested hub operator account type is not allowed.
        POST /participants/nobody/accounts {"currency":"KES","type":"HUB_RECONCILIATION"} => 3003 Participant was not found.
        POST /participants/Hub/accounts {"currency":"KES"} => 3101 "type" is required
        GET /participants/nobody/accounts => 3200 Participant 'nobody' does not exist
        GET /participants/nobody/positions => 3200 Participant 'nobody' does not exist
        GET /participants/green/positions?currency=TZS => 3200 Participant 'green' has no accounts in TZS
        PUT /participants/green/accounts/4 {"isActive":false} => 3100 Only position account update is permitted
        PUT /participants/green/accounts/5 {"isActive":false} => 3100 Participant/account mismatch
        PUT /participants/green/accounts/99 {"isActive":false} => 3100 Account not found
        PUT /participants/nobody/accounts/3 {"isActive":false} => 3200 Participant 'nobody' does not exist
        PUT /participants/green/accounts/x {"isActive":false} => 3101 "id" must be a positive number
        PUT /participants/green/accounts/0 {"isActive":false} => 3101 "id" must be a positive number
        PUT /participants/green/accounts/3 {"active":false} => 3101 "isActive" is required
        "#,
    )
    .await;
}

#[tokio::test]
async fn invalid_deposits_and_withdrawals_are_rejected() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let (fresh, known) = (id(1).to_string(), id(1000).to_string());
    let good = funds_in(&fresh, "10");
    let table = r#"
        POST /participants/nobody/accounts/4 ~ => 3200 Participant 'nobody' does not exist
        POST /participants/green/accounts/6 ~ => 3100 The account does not match participant or currency specified
        POST /participants/green/accounts/99 ~ => 3100 The account does not match participant or currency specified
        POST /participants/green/accounts/4 KES~TZS => 3100 The account does not match participant or currency specified
        POST /participants/green/accounts/3 ~ => 3100 Account is not SETTLEMENT type
        POST /participants/green/accounts/4 @fresh~@known => 3106 transferId was used for another movement of funds
        POST /participants/green/accounts/4 @fresh~7 => 3101 "transferId" must be a valid GUID or ULID in its usual case
        POST /participants/green/accounts/4 "transferId"~"x" => 3101 "transferId" is required
        POST /participants/green/accounts/4 "externalReference":"bank-555",~ => 3101 "externalReference" is required
        POST /participants/green/accounts/4 recordFundsIn~recordFundsOutCommit => 3101 "action" must be one of [recordFundsIn, recordFundsOutPrepareReserve]
        POST /participants/green/accounts/4 "reason":"prefund",~ => 3101 "reason" is required
        POST /participants/green/accounts/4 "amount":10~"amount":0 => 3101 "amount.amount" must be greater than 0
        POST /participants/green/accounts/4 "amount":10~"amount":-1 => 3101 "amount.amount" must be greater than 0
        POST /participants/green/accounts/4 "amount":10~"amount":1.00001 => 3101 "amount.amount" must have no more than 4 decimal places
        POST /participants/green/accounts/4 "amount":10~"amount":1e3 => 3101 "amount.amount" must be a number in plain decimal digits
        POST /participants/green/accounts/4 "amount":10,~ => 3101 "amount.amount" is required
        POST /participants/green/accounts/4 "KES"~"KE" => 3101 @currency
        POST /participants/green/accounts/4 "key":"memo",~ => 3101 "extensionList.extension[0].key" is required
        POST /participants/green/accounts/4 [{"key":"memo","value":"initial"}]~7 => 3101 "extensionList.extension" must be an array
    "#;
    let currencies = "\"amount.currency\" must be one of [AED, AFN, ALL, AMD, ANG, AOA, ARS, AUD, AWG, AZN, BAM, BBD, BDT, BGN, BHD, BIF, BMD";
    let table = table.replace("@fresh", &fresh).replace("@known", &known).replace("@currency", currencies);
    check(&hub, &vary(&good, &table)).await;

    // The same body for another account is not a repetition.
    let body = funds_in(&known, "5000");
    hub.expect("POST", "/participants/green/accounts/4", &body, 202).await;
    let refused = hub.expect("POST", "/participants/blue/accounts/6", &body, 400).await;
    let text = "Modified request - transferId was used for another movement of funds";
    assert_eq!(refused, refusal(3106, text));

    // A suspension stops payments, but not the funds movements that settle earlier ones.
    hub.expect("PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
    hub.expect("POST", "/participants/green/accounts/4", &good, 202).await;
}

#[tokio::test]
async fn invalid_ends_of_withdrawals_are_rejected() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let table = r#"
        PUT /participants/green/accounts/4/transfers/@none {"action":"recordFundsOutCommit","reason":"paid"} => 3208 This account has no such movement of funds
        PUT /participants/blue/accounts/6/transfers/@known {"action":"recordFundsOutCommit","reason":"paid"} => 3208 This account has no such movement of funds
        PUT /participants/nobody/accounts/4/transfers/@known {"action":"recordFundsOutCommit","reason":"paid"} => 3200 Participant 'nobody' does not exist
        PUT /participants/green/accounts/4/transfers/@known {"action":"recordFundsOutCommit","reason":"paid"} => 3100 The movement of funds is COMMITTED already
        PUT /participants/green/accounts/4/transfers/@known {"action":"recordFundsIn","reason":"x"} => 3101 "action" must be one of [recordFundsOutCommit, recordFundsOutAbort]
        PUT /participants/green/accounts/4/transfers/@known {"action":"recordFundsOutAbort"} => 3101 "reason" is required
        PUT /participants/green/accounts/4/transfers/7 {"action":"recordFundsOutAbort","reason":"x"} => 3101 "transferId" must be a valid GUID or ULID in its usual case
        GET /participants/green/accounts/4/transfers/@none => 3208 This account has no such movement of funds
        GET /participants/blue/accounts/6/transfers/@known => 3208 This account has no such movement of funds
        GET /participants/nobody/accounts/4/transfers/@known => 3200 Participant 'nobody' does not exist
    "#;
    let table = table.replace("@none", &id(2).to_string()).replace("@known", &id(1000).to_string());
    check(&hub, &table).await;
}

#[tokio::test]
async fn unopened_account_accepts_no_funds() {
    let hub = Hub::with_dfsps(&["green"]).await;
    hub.expect("POST", "/participants", r#"{"name":"fresh","currency":"KES"}"#, 201).await;
    let body = funds(&id(1).to_string(), "recordFundsIn", "1");
    let answer = hub.expect("POST", "/participants/fresh/accounts/6", &body, 400).await;
    assert_eq!(answer, refusal(3100, "Generic validation error - Account is currently set inactive"));
    let no_balance = "The account has no balance yet: set initialPositionAndLimits first";
    let row = format!(r#"PUT /participants/fresh/accounts/5 {{"isActive":true}} => 3100 {no_balance}"#);
    check(&hub, &row).await;
}

#[tokio::test]
async fn initial_position_beyond_the_hubs_account_is_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    for name in ["first", "second"] {
        hub.expect("POST", "/participants", &format!(r#"{{"name":"{name}","currency":"KES"}}"#), 201).await;
    }
    let open = |position: &str| {
        let limit = r#"{"type":"NET_DEBIT_CAP","value":99999999999999.9999}"#;
        format!(r#"{{"currency":"KES","limit":{limit},"initialPosition":{position}}}"#)
    };
    let most = open("99999999999999.9999");
    hub.expect("POST", "/participants/first/initialPositionAndLimits", &most, 201).await;
    let beyond = "The initial position exceeds the amount that the hub's account can hold";
    let path = "/participants/second/initialPositionAndLimits";
    check(&hub, &format!("POST {path} {} => 3100 {beyond}", open("0.0001"))).await;
    hub.expect("POST", path, &open("0"), 201).await;
}

#[tokio::test]
async fn expired_withdrawal_cannot_be_committed() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let body = funds(&id(1).to_string(), "recordFundsOutPrepareReserve", "10");
    hub.expect("POST", "/participants/green/accounts/4", &body, 202).await;
    // Five days and a millisecond later. No deadline was checked in between.
    hub.clock.advance(432_000_001);
    let path = format!("/participants/green/accounts/4/transfers/{}", id(1));
    let commit = r#"{"action":"recordFundsOutCommit","reason":"paid"}"#;
    check(&hub, &format!("PUT {path} {commit} => 3303 The withdrawal expired")).await;
    hub.expect("PUT", &path, r#"{"action":"recordFundsOutAbort","reason":"late"}"#, 202).await;
}

#[tokio::test]
async fn invalid_settlement_models_and_account_types_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let other = MODEL.replace(r#""DEFERREDNET""#, r#""OTHER""#);
    let table = r#"
        POST /settlementModels ~ => 3000 Settlement Model 'DEFERREDNET' already governs this currency and account type
        POST /settlementModels "OTHER"~"DEFERREDNET" => 3000 Settlement Model already exists
        POST /settlementModels "DEFERRED"~"IMMEDIATE" => 3000 Settlement models cannot be IMMEDIATE NET MULTILATERAL
        POST /settlementModels "NET"~"GROSS" => 3000 Settlement models cannot be DEFERRED GROSS MULTILATERAL
        POST /settlementModels "ledgerAccountType":"POSITION"~"ledgerAccountType":"NOTHING" => 3003 Ledger account type was not found
        POST /settlementModels "ledgerAccountType":"POSITION"~"ledgerAccountType":"SETTLEMENT" => 3003 Accounts of type SETTLEMENT are not settled
        POST /settlementModels "settlementAccountType":"SETTLEMENT"~"settlementAccountType":"NOTHING" => 3003 Settlement account type was not found
        POST /settlementModels "settlementAccountType":"SETTLEMENT"~"settlementAccountType":"POSITION" => 3101 "settlementAccountType" must be one of [SETTLEMENT, INTERCHANGE_FEE_SETTLEMENT]
        POST /settlementModels "MULTILATERAL"~"SIDEWAYS" => 3101 "settlementInterchange" must be one of [BILATERAL, MULTILATERAL]
        POST /settlementModels "NET"~"FINE" => 3101 "settlementGranularity" must be one of [GROSS, NET]
        POST /settlementModels "DEFERRED"~"NEVER" => 3101 "settlementDelay" must be one of [IMMEDIATE, DEFERRED]
        POST /settlementModels "OTHER"~"NO-DASH" => 3101 "name" must only contain alpha-numeric characters
        POST /settlementModels "requireLiquidityCheck":true,~ => 3101 "requireLiquidityCheck" is required
        POST /settlementModels "autoPositionReset":true~"autoPositionReset":1 => 3101 "autoPositionReset" must be a boolean
    "#;
    check(&hub, &vary(&other, table)).await;
    check(
        &hub,
        r#"
        GET /settlementModels/NOTHING => 3200 Settlement Model 'NOTHING' does not exist
        PUT /settlementModels/NOTHING {"isActive":true} => 3200 Settlement Model 'NOTHING' does not exist
        POST /ledgerAccountTypes {"name":"POSITION","isActive":true,"isSettleable":true} => 3000 This Ledger Account Type already exists
        POST /ledgerAccountTypes {"name":"NO SPACES"} => 3101 "name" must be 2 to 30 word characters
        POST /ledgerAccountTypes {"name":"FEE","isActive":"perhaps"} => 3101 "isActive" must be a boolean
        "#,
    )
    .await;
}

#[tokio::test]
async fn settlement_models_of_unsupported_combinations_are_rejected() {
    for (delay, granularity, interchange, is_allowed) in [
        ("IMMEDIATE", "GROSS", "BILATERAL", true),
        ("DEFERRED", "GROSS", "BILATERAL", true),
        ("DEFERRED", "NET", "BILATERAL", true),
        ("DEFERRED", "NET", "MULTILATERAL", true),
        ("IMMEDIATE", "GROSS", "MULTILATERAL", false),
        ("IMMEDIATE", "NET", "BILATERAL", false),
        ("IMMEDIATE", "NET", "MULTILATERAL", false),
        ("DEFERRED", "GROSS", "MULTILATERAL", false),
    ] {
        let hub = Hub::start();
        let model = MODEL
            .replace(r#""NET""#, &format!("\"{granularity}\""))
            .replace("MULTILATERAL", interchange)
            .replace(r#""DEFERRED""#, &format!("\"{delay}\""));
        let (status, answer) = hub.call("POST", "/settlementModels", &model).await;
        assert_eq!(
            status,
            if is_allowed { 201 } else { 400 },
            "{delay} {granularity} {interchange}: {answer}"
        );
        assert_eq!(answer.contains(r#""errorCode":"3000""#), !is_allowed, "{answer}");
    }
}

#[tokio::test]
async fn invalid_fee_rules_are_rejected() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let good = r#"{"name":"WALLET","currency":"KES","ratePercent":0.6,"paidBy":"PAYER"}"#;
    check(
        &hub,
        &vary(
            good,
            r#"
        POST /feeRules "name":"WALLET",~ => 3101 "name" is required
        POST /feeRules WALLET~W => 3101 "name" length must be at least 2 characters long
        POST /feeRules WALLET~NO-DASH => 3101 "name" must only contain alpha-numeric characters
        POST /feeRules ,"paidBy":"PAYER"~ => 3101 "paidBy" is required
        POST /feeRules "PAYER"~"HUB" => 3101 "paidBy" must be one of [PAYER, PAYEE]
        POST /feeRules "currency":"KES",~ => 3101 "currency" is required
        POST /feeRules 0.6~100.0001 => 3101 "ratePercent" must be 0 to 100 percent
        POST /feeRules 0.6~-0.6 => 3101 "ratePercent" must be 0 to 100 percent
        POST /feeRules 0.6~0.00001 => 3101 "ratePercent" must have no more than 4 decimal places
        POST /feeRules 0.6~0 => 3100 A fee is 0 to 1000000 millionths of the amount, rounded to at most 4 decimals, plus a fixed amount; a rule names at most 100 DFSPs on a side, and no maximum below its minimum
        POST /feeRules 0.6~0.6,"fixed":-1 => 3101 "fixed" must not be negative
        POST /feeRules 0.6~0.6,"amountMin":-1 => 3101 "amountMin" must not be negative
        POST /feeRules 0.6~0.6,"amountMin":2,"amountMax":1 => 3100 A fee is 0 to 1000000 millionths of the amount, rounded to at most 4 decimals, plus a fixed amount; a rule names at most 100 DFSPs on a side, and no maximum below its minimum
        POST /feeRules 0.6~0.6,"decimals":5 => 3101 "decimals" must be a whole number from 0 to 4
        POST /feeRules 0.6~0.6,"decimals":1.5 => 3101 "decimals" must be a whole number from 0 to 4
        POST /feeRules 0.6~0.6,"payers":"green" => 3101 "payers" must be an array
        POST /feeRules 0.6~0.6,"payers":["green",7] => 3101 "payers[1]" must be a string
        POST /feeRules 0.6~0.6,"payees":["nobody"] => 3200 Participant 'nobody' does not exist
        POST /feeRules 0.6~0.6,"payees":["Hub"] => 3200 Participant 'Hub' does not exist
        POST /feeRules 0.6~0.6,"from":"tomorrow" => 3101 "from" must be an instant such as 2031-04-01T12:00:00.000Z
        POST /feeRules 0.6~0.6,"from":"2031-03-01T12:00:00.000Z" => 3100 A fee rule must not begin in the past, and must end after its beginning
        POST /feeRules 0.6~0.6,"until":"2031-03-01T12:00:00.000Z" => 3100 A fee rule must not begin in the past, and must end after its beginning
        POST /feeRules 0.6~0.6,"script":"x" => 3101 "script" is not allowed
        "#,
        ),
    )
    .await;
    hub.expect("POST", "/feeRules", good, 201).await;
    check(
        &hub,
        r#"
        POST /feeRules {"name":"WALLET","currency":"KES","fixed":1,"paidBy":"PAYER"} => 3100 A fee rule of that name exists
        GET /feeRules/NOTHING => 3200 This fee rule does not exist
        PUT /feeRules/NOTHING {"until":"now"} => 3200 This fee rule does not exist
        PUT /feeRules/WALLET {} => 3101 "until" is required
        PUT /feeRules/WALLET {"until":null} => 3101 "until" is required
        PUT /feeRules/WALLET {"until":"later"} => 3101 "until" must be an instant such as 2031-04-01T12:00:00.000Z
        PUT /feeRules/WALLET {"until":"now","from":"now"} => 3101 "from" is not allowed
        PUT /feeRules/WALLET {"until":"2031-03-01T12:00:00.000Z"} => 3100 A fee rule must not begin in the past, and must end after its beginning
        "#,
    )
    .await;
}

#[tokio::test]
async fn blocks_and_revoked_keys_have_limits() {
    let hub = Hub::with_limits(Limits::TINY, &["green", "blue"]).await;
    let block = |digit: &str| format!(r#"{{"kind":"spki-sha256","value":"{}"}}"#, digit.repeat(64));
    for digit in ["a", "b"] {
        hub.expect("POST", "/blocks", &block(digit), 201).await;
    }
    check(&hub, &format!("POST /blocks {} => 3100 A hub has at most 10000 blocks", block("c"))).await;
    // An existing block is not counted twice, and a lifted block leaves space for another one.
    hub.expect("POST", "/blocks", &block("a"), 201).await;
    let lift = format!("/blocks?kind=spki-sha256&value={}", "a".repeat(64));
    hub.expect("DELETE", &lift, "", 204).await;
    hub.expect("POST", "/blocks", &block("c"), 201).await;

    let revoke =
        |name: &str, sha256| AdminCommand::RevokeSignatureKey { name: crate::common::name(name), sha256 };
    for digest in [[1; 32], [2; 32]] {
        hub.submit(Command::Admin(revoke("green", digest)), "").await;
    }
    let key = upesi_testsupport::identity_provider::Key::rsa().public("k");
    let add = async |name: &str| {
        let body = format!(r#"{{"publicKey":{key}}}"#);
        let added = hub.expect("POST", &format!("/participants/{name}/signatureKeys"), &body, 201).await;
        let added: serde_json::Value = serde_json::from_str(&added).unwrap();
        format!("/participants/{name}/signatureKeys/{}", added["sha256"].as_str().unwrap())
    };
    let path = add("green").await;
    let text = "At most 1000 revoked keys of a participant are retained";
    check(&hub, &format!("DELETE {path} => 3100 {text}")).await;
    // The key is still in use, and each participant has a limit of its own.
    let keys = hub.get("/participants/green/signatureKeys").await;
    assert!(keys.contains(r#""state":"current""#), "{keys}");
    hub.submit(Command::Admin(revoke("blue", [3; 32])), "").await;
}
