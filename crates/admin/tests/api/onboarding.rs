//! The onboarding of a scheme, in the order of scripts, with the exact form of every answer.

use upesi_ledger::Command;

use crate::common::{Hub, MODEL, START, funds, funds_in, id, prepare, refusal};

const DFSP: &str = r#"{"name":"greenbank","currency":"KES"}"#;
const LIMIT: &str = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":5000},"initialPosition":0}"#;

/// Replaces `@` by the start time of the test.
fn at_start(shape: &str) -> String {
    shape.replace('@', START)
}

#[tokio::test]
async fn scheme_is_onboarded_with_the_answers_that_portals_expect() {
    let hub = Hub::start();
    hub_accounts(&hub).await;
    hub.expect(
        "POST",
        "/participants/Hub/endpoints",
        r#"{"type":"NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL","value":"ops@hub.example"}"#,
        201,
    )
    .await;
    settlement_model(&hub).await;
    let created = hub.expect("POST", "/participants", DFSP, 201).await;
    let green = at_start(concat!(
        r#"{"name":"greenbank","id":"http://central-ledger/participants/greenbank","created":"@","isActive":1,"#,
        r#""links":{"self":"http://central-ledger/participants/greenbank"},"accounts":["#,
        r#"{"id":3,"ledgerAccountType":"POSITION","currency":"KES","isActive":0,"createdDate":"@","createdBy":"anonymous"},"#,
        r#"{"id":4,"ledgerAccountType":"SETTLEMENT","currency":"KES","isActive":0,"createdDate":"@","createdBy":"anonymous"}],"#,
        r#""isProxy":0}"#
    ));
    assert_eq!(created, green);
    assert_eq!(hub.get("/participants/greenbank").await, green);
    assert_eq!(hub.get("/participants/greenbank/accounts").await, "[]");
    assert_eq!(hub.get("/participants/greenbank/positions").await, "[]");
    assert_eq!(hub.get("/participants/greenbank/positions?currency=KES").await, "{}");

    let opened = hub.expect("POST", "/participants/greenbank/initialPositionAndLimits", LIMIT, 201).await;
    assert_eq!(opened, "");
    let account = r#"{"id":3,"ledgerAccountType":"POSITION","currency":"KES","isActive":1,"value":0,"reservedValue":0,"changedDate":"@"},"#;
    let expected = |value: &str| {
        at_start(&format!(
            r#"[{account}{{"id":4,"ledgerAccountType":"SETTLEMENT","currency":"KES","isActive":1,"value":{value},"reservedValue":0,"changedDate":"@"}}]"#
        ))
    };
    assert_eq!(hub.get("/participants/greenbank/accounts").await, expected("0"));
    let funds = funds_in(&id(1).to_string(), "3000.25");
    assert_eq!(hub.expect("POST", "/participants/greenbank/accounts/4", &funds, 202).await, "");
    assert_eq!(hub.get("/participants/greenbank/accounts").await, expected("-3000.25"));
    limits(&hub).await;
    endpoints(&hub).await;
    lists(&hub).await;
}

async fn hub_accounts(hub: &Hub) {
    let body = r#"{"currency":"KES","type":"HUB_MULTILATERAL_SETTLEMENT"}"#;
    let created = hub.expect("POST", "/participants/Hub/accounts", body, 201).await;
    let expected = concat!(
        r#"{"name":"Hub","id":"http://central-ledger/participants/Hub","created":"1970-01-01T00:00:00.000Z","isActive":1,"#,
        r#""links":{"self":"http://central-ledger/participants/Hub"},"accounts":["#,
        r#"{"id":1,"ledgerAccountType":"HUB_MULTILATERAL_SETTLEMENT","currency":"KES","isActive":1,"createdDate":"@","createdBy":"anonymous"}],"#,
        r#""isProxy":0}"#
    );
    assert_eq!(created, at_start(expected));
    let body = r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#;
    hub.expect("POST", "/participants/Hub/accounts", body, 201).await;
    assert_eq!(
        hub.get("/participants/Hub/accounts").await,
        at_start(concat!(
            r#"[{"id":1,"ledgerAccountType":"HUB_MULTILATERAL_SETTLEMENT","currency":"KES","isActive":1,"value":0,"reservedValue":0,"changedDate":"@"},"#,
            r#"{"id":2,"ledgerAccountType":"HUB_RECONCILIATION","currency":"KES","isActive":1,"value":0,"reservedValue":0,"changedDate":"@"}]"#
        ))
    );
}

async fn settlement_model(hub: &Hub) {
    assert_eq!(hub.expect("POST", "/settlementModels", MODEL, 201).await, "");
    let model = |is_active| {
        format!(
            concat!(
                r#"{{"settlementModelId":1,"name":"DEFERREDNET","isActive":{},"settlementGranularity":"NET","#,
                r#""settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":null,"#,
                r#""requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountTypeId":"SETTLEMENT","#,
                r#""autoPositionReset":true}}"#
            ),
            is_active
        )
    };
    assert_eq!(hub.get("/settlementModels").await, format!("[{}]", model(true)));
    assert_eq!(hub.get("/settlementModels/DEFERREDNET").await, model(true));
    let path = "/settlementModels/DEFERREDNET";
    assert_eq!(hub.expect("PUT", path, r#"{"isActive":false}"#, 200).await, model(false));
    assert_eq!(hub.get("/settlementModels").await, "[]");
    assert_eq!(hub.get("/settlementModels/DEFERREDNET").await, model(false));
    // Only active models apply.
    let refused = hub.expect("POST", "/participants", DFSP, 400).await;
    let text = "Generic Settlement Error - Unable to find a matching or default, Settlement Model";
    assert_eq!(refused, refusal(6000, text));
    assert_eq!(hub.call("GET", "/participants/greenbank", "").await.0, 400);
    assert_eq!(hub.expect("PUT", path, r#"{"isActive":true}"#, 200).await, model(true));
}

async fn limits(hub: &Hub) {
    let shown = r#"[{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":5000,"alarmPercentage":80}}]"#;
    for query in ["", "?currency=KES", "?type=NET_DEBIT_CAP", "?currency=KES&type=NET_DEBIT_CAP"] {
        assert_eq!(hub.get(&format!("/participants/greenbank/limits{query}")).await, shown, "{query}");
    }
    for query in ["?currency=TZS", "?type=OTHER"] {
        assert_eq!(hub.get(&format!("/participants/greenbank/limits{query}")).await, "[]", "{query}");
    }
    let changed = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":99999999999999.9999,"alarmPercentage":12.5}}"#;
    for _ in 0..2 {
        assert_eq!(hub.expect("PUT", "/participants/greenbank/limits", changed, 200).await, changed);
    }
    let named = changed.replace(r#"{"currency"#, r#"{"name":"greenbank","currency"#);
    assert_eq!(hub.get("/participants/limits").await, format!("[{named}]"));
    assert_eq!(hub.get("/participants/limits?currency=TZS").await, "[]");
}

async fn endpoints(hub: &Hub) {
    assert_eq!(hub.get("/participants/greenbank/endpoints").await, "[]");
    let path = "/participants/greenbank/endpoints";
    for (kind, value) in [
        ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "http://green/transfers/{{transferId}}"),
        ("FSPIOP_CALLBACK_URL_TRANSFER_POST", "http://old/transfers"),
        ("FSPIOP_CALLBACK_URL_TRANSFER_POST", "http://green/transfers"),
        // This hub does not call it, so it may need features that the hub does not have.
        ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST", "http://green/bulkTransfers"),
    ] {
        let body = format!(r#"{{"type":"{kind}","value":"{value}"}}"#);
        assert_eq!(hub.expect("POST", path, &body, 201).await, "");
    }
    let post = r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"http://green/transfers"}"#;
    let put =
        r#"{"type":"FSPIOP_CALLBACK_URL_TRANSFER_PUT","value":"http://green/transfers/{{transferId}}"}"#;
    let bulk = r#"{"type":"FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST","value":"http://green/bulkTransfers"}"#;
    assert_eq!(hub.get(path).await, format!("[{post},{put},{bulk}]"));
    assert_eq!(hub.get(&format!("{path}?type=FSPIOP_CALLBACK_URL_TRANSFER_POST")).await, post);
    assert_eq!(hub.get(&format!("{path}?type=FSPIOP_CALLBACK_URL_QUOTES")).await, "{}");
    assert_eq!(hub.get(&format!("{path}?type=NOTHING")).await, "{}");
}

async fn lists(hub: &Hub) {
    let proxy = r#"{"name":"proxy1","currency":"KES","isProxy":true}"#;
    assert!(hub.expect("POST", "/participants", proxy, 201).await.ends_with(r#""isProxy":1}"#));
    let names = |listed: String| {
        let parts = listed.split(r#"{"name":""#).skip(1).filter_map(|part| part.split('"').next());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(hub.get("/participants").await), ["Hub", "greenbank", "proxy1"]);
    assert_eq!(names(hub.get("/participants?isProxy=true").await), ["proxy1"]);
    assert_eq!(names(hub.get("/participants?isProxy=false").await), ["Hub", "greenbank", "proxy1"]);
    let off = hub.expect("PUT", "/participants/greenbank", r#"{"isActive":false}"#, 200).await;
    assert!(off.contains(r#""isActive":0,"links""#), "{off}");
    let on = hub.expect("PUT", "/participants/greenbank", r#"{"isActive":"true"}"#, 200).await;
    assert!(on.contains(r#""isActive":1,"links""#), "{on}");
    assert_eq!(
        hub.expect("PUT", "/participants/greenbank/accounts/3", r#"{"isActive":false}"#, 200).await,
        ""
    );
    let shown = hub.get("/participants/greenbank").await;
    assert!(shown.contains(r#""ledgerAccountType":"POSITION","currency":"KES","isActive":0"#), "{shown}");
    assert_eq!(
        hub.get("/participants/greenbank/positions?currency=KES").await,
        at_start(r#"{"currency":"KES","value":0,"changedDate":"@"}"#)
    );
    assert_eq!(
        hub.get("/participants/greenbank/positions").await,
        at_start(r#"[{"currency":"KES","value":0,"changedDate":"@"}]"#)
    );
}

#[tokio::test]
async fn repeated_onboarding_reports_existing_objects_and_changes_nothing() {
    let hub = Hub::with_dfsps(&["greenbank"]).await;
    let everything = async || {
        let mut all = hub.get("/participants").await;
        for path in ["/participants/greenbank/accounts", "/participants/Hub/accounts", "/participants/limits"]
        {
            all += &hub.get(path).await;
        }
        all
    };
    let before = everything().await;
    let account = r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#;
    let funds = funds_in(&id(1000).to_string(), "5000");
    for (path, body, status, answer) in [
        (
            "/participants/Hub/accounts",
            account,
            400,
            refusal(3003, "Add Party information error - Hub account has already been registered."),
        ),
        (
            "/settlementModels",
            MODEL,
            400,
            refusal(3000, "Generic client error - Settlement Model already exists"),
        ),
        (
            "/participants",
            DFSP,
            400,
            refusal(3000, "Generic client error - Participant currency has already been registered"),
        ),
        (
            "/participants/greenbank/initialPositionAndLimits",
            LIMIT,
            400,
            refusal(3100, "Generic validation error - Participant Limit or Initial Position already set"),
        ),
        // A repeated movement of funds is the same movement.
        ("/participants/greenbank/accounts/4", &funds, 202, String::new()),
    ] {
        assert_eq!(hub.expect("POST", path, body, status).await, answer, "{path}");
    }
    assert_eq!(everything().await, before);
}

#[tokio::test]
async fn second_currency_and_fee_model_create_their_accounts() {
    let hub = Hub::with_dfsps(&["greenbank"]).await;
    let tzs = r#"{"name":"greenbank","currency":"TZS"}"#;
    let missing = hub.expect("POST", "/participants", tzs, 400).await;
    assert!(missing.contains("Hub reconciliation account for the specified currency does not exist"));
    hub.expect(
        "POST",
        "/participants/Hub/accounts",
        r#"{"currency":"TZS","type":"HUB_RECONCILIATION"}"#,
        201,
    )
    .await;
    let missing = hub.expect("POST", "/participants", tzs, 400).await;
    let text = "Add Party information error - \
                Hub multilateral net settlement account for the specified currency does not exist";
    assert_eq!(missing, refusal(3003, text));
    let body = r#"{"currency":"TZS","type":"HUB_MULTILATERAL_SETTLEMENT"}"#;
    hub.expect("POST", "/participants/Hub/accounts", body, 201).await;
    for (name, kind, cover) in
        [("TZSNET", "POSITION", "SETTLEMENT"), ("TZSFEE", "INTERCHANGE_FEE", "INTERCHANGE_FEE_SETTLEMENT")]
    {
        let model = MODEL
            .replace("DEFERREDNET", name)
            .replace(
                r#""settlementAccountType":"SETTLEMENT""#,
                &format!(r#""settlementAccountType":"{cover}""#),
            )
            .replace(r#""ledgerAccountType":"POSITION""#, &format!(r#""ledgerAccountType":"{kind}""#))
            .replace(r#""requireLiq"#, r#""currency":"TZS","requireLiq"#);
        hub.expect("POST", "/settlementModels", &model, 201).await;
    }
    let joined = hub.expect("POST", "/participants", tzs, 201).await;
    for kind in ["POSITION", "SETTLEMENT", "INTERCHANGE_FEE", "INTERCHANGE_FEE_SETTLEMENT"] {
        let account = format!(r#""ledgerAccountType":"{kind}","currency":"TZS","isActive":0"#);
        assert!(joined.contains(&account), "{kind}: {joined}");
    }
    let limit = LIMIT.replace("KES", "TZS").replace(r#""initialPosition":0"#, r#""initialPosition":"12.5""#);
    hub.expect("POST", "/participants/greenbank/initialPositionAndLimits", &limit, 201).await;
    let position = hub.get("/participants/greenbank/positions?currency=TZS").await;
    assert!(position.starts_with(r#"{"currency":"TZS","value":12.5,"#), "{position}");
    let accounts = hub.get("/participants/greenbank/accounts").await;
    assert_eq!(accounts.matches(r#""currency":"TZS","isActive":1"#).count(), 4, "{accounts}");
}

#[tokio::test]
async fn model_created_after_a_dfsp_adds_accounts_when_opened() {
    let hub = Hub::start();
    hub.prepare_scheme().await;
    hub.expect("POST", "/participants", DFSP, 201).await;
    let fees = MODEL
        .replace("DEFERREDNET", "FEES")
        .replace(r#""ledgerAccountType":"POSITION""#, r#""ledgerAccountType":"INTERCHANGE_FEE""#)
        .replace(r#""SETTLEMENT""#, r#""INTERCHANGE_FEE_SETTLEMENT""#);
    hub.expect("POST", "/settlementModels", &fees, 201).await;
    hub.expect("POST", "/participants/greenbank/initialPositionAndLimits", LIMIT, 201).await;
    let accounts = hub.get("/participants/greenbank/accounts").await;
    for kind in ["POSITION", "SETTLEMENT", "INTERCHANGE_FEE", "INTERCHANGE_FEE_SETTLEMENT"] {
        let account = format!(r#""ledgerAccountType":"{kind}","currency":"KES","isActive":1,"value":0"#);
        assert!(accounts.contains(&account), "{kind}: {accounts}");
    }
}

// Deposits and withdrawals: the balances of both accounts after every step, and the status of each movement.

const ACCOUNT: &str = "/participants/green/accounts/4";

/// The balances of the hub's reconciliation account and of the DFSP's settlement account.
async fn balances(hub: &Hub) -> (String, String) {
    let value = |accounts: String, id: u32| {
        let account = accounts.split(&format!(r#"{{"id":{id},"#)).nth(1).unwrap().to_owned();
        account.split(r#""value":"#).nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    let reconciliation = value(hub.get("/participants/Hub/accounts").await, 2);
    (reconciliation, value(hub.get("/participants/green/accounts").await, 4))
}

async fn status(hub: &Hub, number: u64) -> String {
    hub.get(&format!("{ACCOUNT}/transfers/{}", id(number))).await
}

async fn end(hub: &Hub, number: u64, action: &str, expected: u16) -> String {
    let body = format!(r#"{{"action":"{action}","reason":"bank said so"}}"#);
    hub.expect("PUT", &format!("{ACCOUNT}/transfers/{}", id(number)), &body, expected).await
}

fn expect_balances(found: (String, String), reconciliation: &str, settlement: &str) {
    assert_eq!((found.0.as_str(), found.1.as_str()), (reconciliation, settlement));
}

#[tokio::test]
async fn funds_actions_move_both_accounts() {
    let hub = Hub::with_dfsps(&["green"]).await;
    expect_balances(balances(&hub).await, "5000", "-5000");
    hub.expect("POST", ACCOUNT, &funds_in(&id(1).to_string(), "0.0001"), 202).await;
    expect_balances(balances(&hub).await, "5000.0001", "-5000.0001");
    let shown = status(&hub, 1).await;
    let expected = format!(
        concat!(
            r#"{{"transferId":"{}","action":"recordFundsIn","transferState":"COMMITTED","#,
            r#""amount":{{"amount":0.0001,"currency":"KES"}},"externalReference":"bank-555","reason":"prefund","#,
            r#""createdDate":"{start}","changedDate":"{start}","#,
            r#""extensionList":{{"extension":[{{"key":"memo","value":"initial"}}]}}}}"#
        ),
        id(1),
        start = START
    );
    assert_eq!(shown, expected);

    let out = |number, amount| funds(&id(number).to_string(), "recordFundsOutPrepareReserve", amount);
    hub.expect("POST", ACCOUNT, &out(2, "1000"), 202).await;
    expect_balances(balances(&hub).await, "5000.0001", "-4000.0001");
    let reserved = status(&hub, 2).await;
    assert!(reserved.contains(r#""action":"recordFundsOut","transferState":"RESERVED""#), "{reserved}");
    assert!(reserved.contains(r#""expiration":"2031-04-06T10:00:00.000Z""#), "{reserved}");
    for _ in 0..2 {
        assert_eq!(end(&hub, 2, "recordFundsOutCommit", 202).await, "");
        expect_balances(balances(&hub).await, "4000.0001", "-4000.0001");
    }
    let refused = end(&hub, 2, "recordFundsOutAbort", 400).await;
    assert!(refused.contains("The movement of funds is COMMITTED already"), "{refused}");

    hub.expect("POST", ACCOUNT, &out(3, "\"500.5\""), 202).await;
    expect_balances(balances(&hub).await, "4000.0001", "-3499.5001");
    hub.clock.advance(1_500);
    end(&hub, 3, "recordFundsOutAbort", 202).await;
    expect_balances(balances(&hub).await, "4000.0001", "-4000.0001");
    let aborted = status(&hub, 3).await;
    for part in [r#""transferState":"ABORTED_REJECTED""#, r#""reason":"bank said so""#, "10:00:01.500Z"] {
        assert!(aborted.contains(part), "{part}: {aborted}");
    }
    assert_eq!(hub.get("/participants/green/accounts").await.matches("-4000.0001").count(), 1);
}

#[tokio::test]
async fn withdrawal_beyond_cover_is_recorded_as_rejected() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let out = |number, amount| funds(&id(number).to_string(), "recordFundsOutPrepareReserve", amount);
    hub.submit(prepare(id(50), "green", "blue", "600"), "").await;
    // The cover is 5000; the position needs 600 of it.
    for (number, amount, state) in [
        (1, "5000.0001", "ABORTED_REJECTED"),
        (2, "4400.0001", "ABORTED_REJECTED"),
        (3, "4400", "RESERVED"),
        (4, "0.0001", "ABORTED_REJECTED"),
    ] {
        assert_eq!(hub.expect("POST", ACCOUNT, &out(number, amount), 202).await, "");
        let shown = status(&hub, number).await;
        assert!(shown.contains(&format!(r#""transferState":"{state}""#)), "{amount}: {shown}");
        let is_refused = shown.contains(r#""reason":"Aborted due to insufficient funds""#);
        assert_eq!(is_refused, state != "RESERVED", "{shown}");
    }
    expect_balances(balances(&hub).await, "10000", "-600");
}

#[tokio::test]
async fn withdrawal_that_is_not_ended_expires() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let out = funds(&id(1).to_string(), "recordFundsOutPrepareReserve", "10");
    hub.expect("POST", ACCOUNT, &out, 202).await;
    hub.clock.advance(432_000_000 + 1);
    hub.submit(Command::Tick, "").await;
    expect_balances(balances(&hub).await, "5000", "-5000");
    let shown = status(&hub, 1).await;
    assert!(shown.contains(r#""transferState":"ABORTED_REJECTED""#), "{shown}");
    end(&hub, 1, "recordFundsOutCommit", 400).await;
}

#[tokio::test]
async fn largest_amount_is_stored_and_shown_exactly() {
    let hub = Hub::start();
    hub.prepare_scheme().await;
    hub.expect("POST", "/participants", r#"{"name":"green","currency":"KES"}"#, 201).await;
    let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":99999999999999.9999}}"#;
    hub.expect("POST", "/participants/green/initialPositionAndLimits", limit, 201).await;
    hub.expect("POST", ACCOUNT, &funds_in(&id(1).to_string(), "99999999999999.9999"), 202).await;
    expect_balances(balances(&hub).await, "99999999999999.9999", "-99999999999999.9999");
    // A further unit does not fit, and is rejected rather than rounded.
    let refused = hub.expect("POST", ACCOUNT, &funds_in(&id(2).to_string(), "0.0001"), 400).await;
    assert!(refused.contains(r#""errorCode":"3100""#), "{refused}");
    expect_balances(balances(&hub).await, "99999999999999.9999", "-99999999999999.9999");
    let summary = hub.get("/positions").await;
    assert!(summary.contains(r#""cover":99999999999999.9999,"cap":99999999999999.9999"#), "{summary}");
}
