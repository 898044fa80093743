//! Every refusal of the operator's API: status, code and sentence; and nothing is changed by any of them.

mod common;

use common::{Hub, MODEL, funds, funds_in, id, refusal};

/// Method, path, body, code and sentence; the status is always 400.
type Row<'a> = (&'a str, &'a str, &'a str, u16, &'a str);

async fn check(hub: &Hub, rows: &[Row<'_>]) {
    let state = async || {
        let mut all = hub.get("/participants").await;
        for path in ["/participants/limits", "/settlementModels", "/ledgerAccountTypes", "/positions"] {
            all += &hub.get(path).await;
        }
        all + &hub.get("/participants/green/accounts").await
    };
    let before = state().await;
    for (method, path, body, code, sentence) in rows {
        let answer = hub.call(method, path, body).await;
        assert_eq!(answer, (400, refusal(*code, &sentence.replace('"', "\\\""))), "{method} {path} {body}");
    }
    assert_eq!(state().await, before);
}

#[tokio::test]
async fn participants() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let unknown = "Generic ID not found - Participant 'nobody' does not exist";
    check(
        &hub,
        &[
            ("POST", "/participants", r#"{"currency":"KES"}"#, 3101, r#"Malformed syntax - "name" is required"#),
            ("POST", "/participants", r#"{"name":"blue"}"#, 3101, r#"Malformed syntax - "currency" is required"#),
            (
                "POST",
                "/participants",
                r#"{"name":"b","currency":"KES"}"#,
                3101,
                r#"Malformed syntax - "name" length must be at least 2 characters long"#,
            ),
            (
                "POST",
                "/participants",
                r#"{"name":"a234567890123456789012345678901","currency":"KES"}"#,
                3101,
                r#"Malformed syntax - "name" length must be less than or equal to 30 characters long"#,
            ),
            (
                "POST",
                "/participants",
                r#"{"name":7,"currency":"KES"}"#,
                3101,
                r#"Malformed syntax - "name" must be a string"#,
            ),
            (
                "POST",
                "/participants",
                r#"{"name":"blue","currency":"ABC"}"#,
                3101,
                // Cut at the 128 characters that the schema allows.
                r#"Malformed syntax - "currency" must be one of [AED, AFN, ALL, AMD, ANG, AOA, ARS, AUD, AWG, AZN, BAM, BBD, BDT, BGN, BHD, BIF, BM"#,
            ),
            (
                "POST",
                "/participants",
                r#"{"name":"blue","currency":"KES","isProxy":1}"#,
                3101,
                r#"Malformed syntax - "isProxy" must be a boolean"#,
            ),
            (
                "POST",
                "/participants",
                r#"{"name":"blue","currency":"KES","extra":1}"#,
                3101,
                r#"Malformed syntax - "extra" is not allowed"#,
            ),
            ("GET", "/participants/nobody", "", 3200, unknown),
            ("PUT", "/participants/nobody", r#"{"isActive":true}"#, 3200, unknown),
            ("PUT", "/participants/green", r"{}", 3101, r#"Malformed syntax - "isActive" is required"#),
            (
                "PUT",
                "/participants/green",
                r#"{"isActive":"maybe"}"#,
                3101,
                r#"Malformed syntax - "isActive" must be a boolean"#,
            ),
            ("GET", "/participants/n%C3%B6body", "", 3200, "Generic ID not found - Participant 'nöbody' does not exist"),
        ],
    )
    .await;
}

#[tokio::test]
async fn endpoints() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let path = "/participants/green/endpoints";
    let unknown = "Generic ID not found - Participant 'nobody' does not exist";
    let url = r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"http://x/transfers"}"#;
    let long =
        format!(r#"{{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"http://{}"}}"#, "x".repeat(512));
    check(
        &hub,
        &[
            ("POST", "/participants/nobody/endpoints", url, 3200, unknown),
            ("GET", "/participants/nobody/endpoints", "", 3200, unknown),
            ("POST", path, r#"{"value":"http://x"}"#, 3101, r#"Malformed syntax - "type" is required"#),
            (
                "POST",
                path,
                r#"{"type":"NOTHING","value":"http://x"}"#,
                3101,
                r#"Malformed syntax - "type" must be a known endpoint type; GET /enums lists them"#,
            ),
            (
                "POST",
                path,
                r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST"}"#,
                3101,
                r#"Malformed syntax - "value" is required"#,
            ),
            (
                "POST",
                path,
                r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"x/transfers"}"#,
                3101,
                r#"Malformed syntax - "value" must be a URL that begins with http:// or https://"#,
            ),
            (
                "POST",
                path,
                r#"{"type":"NET_DEBIT_CAP_ADJUSTMENT_EMAIL","value":""}"#,
                3101,
                r#"Malformed syntax - "value" is not allowed to be empty"#,
            ),
            ("POST", path, &long, 3101, r#"Malformed syntax - "value" length must be 1 to 512 characters"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn limits() {
    let hub = Hub::with_dfsps(&["green"]).await;
    hub.expect("POST", "/participants", r#"{"name":"fresh","currency":"KES"}"#, 201).await;
    let body = |limit: &str| format!(r#"{{"currency":"KES","limit":{limit}}}"#);
    let cap = r#"{"type":"NET_DEBIT_CAP","value":1}"#;
    let whole = r#"{"type":"NET_DEBIT_CAP","value":1,"alarmPercentage":10}"#;
    let of_tzs = r#"{"currency":"TZS","limit":{"type":"NET_DEBIT_CAP","value":1}}"#;
    let unknown = "Generic ID not found - Participant 'nobody' does not exist";
    let (first, limits) = ("/participants/fresh/initialPositionAndLimits", "/participants/green/limits");
    check(
        &hub,
        &[
            ("POST", "/participants/nobody/initialPositionAndLimits", &body(cap), 3200, unknown),
            (
                "POST",
                first,
                of_tzs,
                3200,
                "Generic ID not found - Participant 'fresh' has no POSITION account in TZS",
            ),
            (
                "POST",
                "/participants/green/initialPositionAndLimits",
                &body(cap),
                3100,
                "Generic validation error - Participant Limit or Initial Position already set",
            ),
            (
                "POST",
                first,
                &body(r#"{"type":"OTHER","value":1}"#),
                3101,
                r#"Malformed syntax - "limit.type" must be one of [NET_DEBIT_CAP]"#,
            ),
            (
                "POST",
                first,
                &body(r#"{"type":"NET_DEBIT_CAP","value":-1}"#),
                3101,
                r#"Malformed syntax - "limit.value" must be greater than or equal to 0"#,
            ),
            (
                "POST",
                first,
                &body(r#"{"type":"NET_DEBIT_CAP","value":"much"}"#),
                3101,
                r#"Malformed syntax - "limit.value" must be a number in plain decimal digits"#,
            ),
            (
                "POST",
                first,
                &body(r#"{"type":"NET_DEBIT_CAP","value":1,"alarm":1}"#),
                3101,
                r#"Malformed syntax - "limit.alarm" is not allowed"#,
            ),
            ("POST", first, &body("7"), 3101, r#"Malformed syntax - "limit" must be of type object"#),
            ("POST", first, r#"{"currency":"KES"}"#, 3101, r#"Malformed syntax - "limit" is required"#),
            (
                "POST",
                first,
                r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1},"initialPosition":"x"}"#,
                3101,
                r#"Malformed syntax - "initialPosition" must be a number in plain decimal digits"#,
            ),
            ("GET", "/participants/nobody/limits", "", 3200, unknown),
            (
                "GET",
                "/participants/limits?currency=ABC",
                "",
                3101,
                r#"Malformed syntax - "currency" must be an ISO 4217 code in capital letters"#,
            ),
            ("PUT", "/participants/nobody/limits", &body(whole), 3200, unknown),
            (
                "PUT",
                "/participants/fresh/limits",
                &body(whole),
                3200,
                "Generic ID not found - Participant 'fresh' has no limit in KES yet: set initialPositionAndLimits first",
            ),
            ("PUT", limits, &body(cap), 3101, r#"Malformed syntax - "limit.alarmPercentage" is required"#),
            (
                "PUT",
                limits,
                &body(&whole.replace("10", "100.01")),
                3101,
                r#"Malformed syntax - "limit.alarmPercentage" must be from 0 to 100"#,
            ),
            (
                "PUT",
                limits,
                &body(&whole.replace("10", "1.001")),
                3101,
                r#"Malformed syntax - "limit.alarmPercentage" must have no more than 2 decimal places"#,
            ),
            (
                "PUT",
                limits,
                &body(&whole.replace(r#""value":1"#, r#""value":0.00001"#)),
                3101,
                r#"Malformed syntax - "limit.value" must have no more than 4 decimal places"#,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn accounts() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let hub_account = |kind: &str| format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
    let hub_accounts = "/participants/Hub/accounts";
    let off = r#"{"isActive":false}"#;
    let unknown = "Generic ID not found - Participant 'nobody' does not exist";
    check(
        &hub,
        &[
            (
                "POST",
                hub_accounts,
                &hub_account("NOTHING"),
                3003,
                "Add Party information error - Ledger account type was not found.",
            ),
            (
                "POST",
                hub_accounts,
                &hub_account("HUB_RECONCILIATION"),
                3003,
                "Add Party information error - Hub account has already been registered.",
            ),
            (
                "POST",
                "/participants/green/accounts",
                &hub_account("HUB_RECONCILIATION"),
                3003,
                "Add Party information error - Endpoint is reserved for creation of Hub account types only.",
            ),
            (
                "POST",
                hub_accounts,
                &hub_account("POSITION"),
                3003,
                "Add Party information error - The requested hub operator account type is not allowed.",
            ),
            (
                "POST",
                "/participants/nobody/accounts",
                &hub_account("HUB_RECONCILIATION"),
                3003,
                "Add Party information error - Participant was not found.",
            ),
            ("POST", hub_accounts, r#"{"currency":"KES"}"#, 3101, r#"Malformed syntax - "type" is required"#),
            ("GET", "/participants/nobody/accounts", "", 3200, unknown),
            ("GET", "/participants/nobody/positions", "", 3200, unknown),
            (
                "GET",
                "/participants/green/positions?currency=TZS",
                "",
                3200,
                "Generic ID not found - Participant 'green' has no accounts in TZS",
            ),
            (
                "PUT",
                "/participants/green/accounts/4",
                off,
                3100,
                "Generic validation error - Only position account update is permitted",
            ),
            (
                "PUT",
                "/participants/green/accounts/5",
                off,
                3100,
                "Generic validation error - Participant/account mismatch",
            ),
            (
                "PUT",
                "/participants/green/accounts/99",
                off,
                3100,
                "Generic validation error - Account not found",
            ),
            ("PUT", "/participants/nobody/accounts/3", off, 3200, unknown),
            (
                "PUT",
                "/participants/green/accounts/x",
                off,
                3101,
                r#"Malformed syntax - "id" must be a positive number"#,
            ),
            (
                "PUT",
                "/participants/green/accounts/0",
                off,
                3101,
                r#"Malformed syntax - "id" must be a positive number"#,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn funds_in_and_out() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let good = funds(&id(1).to_string(), "recordFundsIn", "10");
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let (green, text) = ("/participants/green/accounts/4", "\"amount.amount\"");
    let known = id(1000).to_string();
    let end = format!("{green}/transfers/{known}");
    let nowhere = format!("{green}/transfers/{}", id(2));
    let commit = r#"{"action":"recordFundsOutCommit","reason":"paid"}"#;
    let not_found = "Transfer ID not found - This account has no such movement of funds";
    let unknown = "Generic ID not found - Participant 'nobody' does not exist";
    check(
        &hub,
        &[
            ("POST", "/participants/nobody/accounts/4", &good, 3200, unknown),
            (
                "POST",
                "/participants/green/accounts/6",
                &good,
                3100,
                "Generic validation error - The account does not match participant or currency specified",
            ),
            (
                "POST",
                green,
                &with("KES", "TZS"),
                3100,
                "Generic validation error - The account does not match participant or currency specified",
            ),
            (
                "POST",
                "/participants/green/accounts/3",
                &good,
                3100,
                "Generic validation error - Account is not SETTLEMENT type",
            ),
            (
                "POST",
                green,
                &with(&id(1).to_string(), &known),
                3106,
                "Modified request - transferId was used for another movement of funds",
            ),
            // The very same body for another account is no resend.
            (
                "POST",
                "/participants/blue/accounts/6",
                &funds_in(&known, "5000"),
                3106,
                "Modified request - transferId was used for another movement of funds",
            ),
            (
                "POST",
                green,
                &with(&id(1).to_string(), "7"),
                3101,
                r#"Malformed syntax - "transferId" must be a valid GUID or ULID in its usual case"#,
            ),
            (
                "POST",
                green,
                &with(r#""externalReference":"bank-555","#, ""),
                3101,
                r#"Malformed syntax - "externalReference" is required"#,
            ),
            (
                "POST",
                green,
                &with("recordFundsIn", "recordFundsOutCommit"),
                3101,
                r#"Malformed syntax - "action" must be one of [recordFundsIn, recordFundsOutPrepareReserve]"#,
            ),
            (
                "POST",
                green,
                &with(r#""reason":"prefund","#, ""),
                3101,
                r#"Malformed syntax - "reason" is required"#,
            ),
            (
                "POST",
                green,
                &with(r#""amount":10"#, r#""amount":0"#),
                3101,
                &format!("Malformed syntax - {text} must be greater than 0"),
            ),
            (
                "POST",
                green,
                &with(r#""amount":10"#, r#""amount":-1"#),
                3101,
                &format!("Malformed syntax - {text} must be greater than 0"),
            ),
            (
                "POST",
                green,
                &with(r#""amount":10"#, r#""amount":1.00001"#),
                3101,
                &format!("Malformed syntax - {text} must have no more than 4 decimal places"),
            ),
            (
                "POST",
                green,
                &with(r#""key":"memo","#, ""),
                3101,
                r#"Malformed syntax - "extensionList.extension[0].key" is required"#,
            ),
            (
                "POST",
                green,
                &with(r#"[{"key":"memo","value":"initial"}]"#, "7"),
                3101,
                r#"Malformed syntax - "extensionList.extension" must be an array"#,
            ),
            ("PUT", &nowhere, commit, 3208, not_found),
            ("GET", &nowhere, "", 3208, not_found),
            ("GET", &format!("/participants/blue/accounts/6/transfers/{known}"), "", 3208, not_found),
            ("GET", &format!("/participants/nobody/accounts/4/transfers/{known}"), "", 3200, unknown),
            (
                "PUT",
                &end,
                commit,
                3100,
                "Generic validation error - The movement of funds is COMMITTED already",
            ),
            (
                "PUT",
                &end,
                r#"{"action":"recordFundsIn","reason":"x"}"#,
                3101,
                r#"Malformed syntax - "action" must be one of [recordFundsOutCommit, recordFundsOutAbort]"#,
            ),
            (
                "PUT",
                &end,
                r#"{"action":"recordFundsOutAbort"}"#,
                3101,
                r#"Malformed syntax - "reason" is required"#,
            ),
            (
                "PUT",
                "/participants/green/accounts/4/transfers/7",
                commit,
                3101,
                r#"Malformed syntax - "transferId" must be a valid GUID or ULID in its usual case"#,
            ),
        ],
    )
    .await;
    hub.expect("PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
    let inactive = refusal(3100, "Generic validation error - Participant is currently set inactive");
    assert_eq!(hub.expect("POST", green, &good, 400).await, inactive);
}

#[tokio::test]
async fn an_account_that_was_never_opened_takes_no_funds() {
    let hub = Hub::with_dfsps(&["green"]).await;
    hub.expect("POST", "/participants", r#"{"name":"fresh","currency":"KES"}"#, 201).await;
    let answer = hub
        .expect(
            "POST",
            "/participants/fresh/accounts/6",
            &funds(&id(1).to_string(), "recordFundsIn", "1"),
            400,
        )
        .await;
    assert_eq!(answer, refusal(3100, "Generic validation error - Account is currently set inactive"));
}

#[tokio::test]
async fn settlement_models_and_account_types() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let with = |from: &str, to: &str| {
        assert!(MODEL.contains(from), "{from}");
        MODEL.replace("DEFERREDNET", "OTHER").replace(from, to)
    };
    let models = "/settlementModels";
    let combination = |model: &str, words: [&str; 3]| {
        let [granularity, interchange, delay] = words;
        model
            .replace(r#"Granularity":"NET"#, &format!(r#"Granularity":"{granularity}"#))
            .replace("MULTILATERAL", interchange)
            .replace(r#"Delay":"DEFERRED"#, &format!(r#"Delay":"{delay}"#))
    };
    let other = MODEL.replace(r#""DEFERREDNET""#, r#""OTHER""#);
    for words in [
        ["NET", "BILATERAL", "IMMEDIATE"],
        ["NET", "MULTILATERAL", "IMMEDIATE"],
        ["GROSS", "MULTILATERAL", "IMMEDIATE"],
        ["GROSS", "MULTILATERAL", "DEFERRED"],
    ] {
        let [granularity, interchange, delay] = words;
        let sentence =
            format!("Generic client error - Settlement models cannot be {delay} {granularity} {interchange}");
        check(&hub, &[("POST", models, &combination(&other, words), 3000, &sentence)]).await;
    }
    check(
        &hub,
        &[
            ("POST", models, MODEL, 3000, "Generic client error - Settlement Model already exists"),
            (
                "POST",
                models,
                &other,
                3000,
                "Generic client error - Settlement Model 'DEFERREDNET' already governs this currency and account type",
            ),
            (
                "POST",
                models,
                &with(r#""ledgerAccountType":"POSITION""#, r#""ledgerAccountType":"NOTHING""#),
                3003,
                "Add Party information error - Ledger account type was not found",
            ),
            (
                "POST",
                models,
                &with(r#""settlementAccountType":"SETTLEMENT""#, r#""settlementAccountType":"NOTHING""#),
                3003,
                "Add Party information error - Settlement account type was not found",
            ),
            (
                "POST",
                models,
                &with("MULTILATERAL", "SIDEWAYS"),
                3101,
                r#"Malformed syntax - "settlementInterchange" must be one of [BILATERAL, MULTILATERAL]"#,
            ),
            (
                "POST",
                models,
                &MODEL.replace("DEFERREDNET", "NO SPACES"),
                3101,
                r#"Malformed syntax - "name" must only contain alpha-numeric characters"#,
            ),
            (
                "POST",
                models,
                &with(r#""requireLiquidityCheck":true,"#, ""),
                3101,
                r#"Malformed syntax - "requireLiquidityCheck" is required"#,
            ),
            (
                "GET",
                "/settlementModels/NOTHING",
                "",
                3200,
                "Generic ID not found - Settlement Model 'NOTHING' does not exist",
            ),
            (
                "PUT",
                "/settlementModels/NOTHING",
                r#"{"isActive":true}"#,
                3200,
                "Generic ID not found - Settlement Model 'NOTHING' does not exist",
            ),
            (
                "POST",
                "/ledgerAccountTypes",
                r#"{"name":"POSITION","description":"x","isActive":true,"isSettleable":true}"#,
                3000,
                "Generic client error - This Ledger Account Type already exists",
            ),
            (
                "POST",
                "/ledgerAccountTypes",
                r#"{"name":"NO SPACES"}"#,
                3101,
                r#"Malformed syntax - "name" must be 2 to 30 word characters"#,
            ),
        ],
    )
    .await;
}
