//! Deposits and withdrawals: the balances on both accounts after every step, and the status of each movement.

use crate::common::{Hub, START, funds, funds_in, id, prepare};
use upesi_ledger::Command;

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
async fn all_four_actions_move_both_accounts() {
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
async fn what_the_cover_does_not_allow_is_taken_and_recorded_as_refused() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    let out = |number, amount| funds(&id(number).to_string(), "recordFundsOutPrepareReserve", amount);
    hub.submit(prepare(id(50), "green", "blue", "600"), "").await;
    // 5000 of cover, of which 600 stand behind the position.
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
async fn a_withdrawal_that_nobody_ends_is_given_back() {
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
async fn the_largest_amount_survives_the_way_in_and_out() {
    let hub = Hub::start();
    hub.prepare_scheme().await;
    hub.expect("POST", "/participants", r#"{"name":"green","currency":"KES"}"#, 201).await;
    let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":99999999999999.9999}}"#;
    hub.expect("POST", "/participants/green/initialPositionAndLimits", limit, 201).await;
    hub.expect("POST", ACCOUNT, &funds_in(&id(1).to_string(), "99999999999999.9999"), 202).await;
    expect_balances(balances(&hub).await, "99999999999999.9999", "-99999999999999.9999");
    // One more does not fit, and is refused rather than rounded.
    let refused = hub.expect("POST", ACCOUNT, &funds_in(&id(2).to_string(), "0.0001"), 400).await;
    assert!(refused.contains(r#""errorCode":"3100""#), "{refused}");
    expect_balances(balances(&hub).await, "99999999999999.9999", "-99999999999999.9999");
    let summary = hub.get("/positions").await;
    assert!(summary.contains(r#""cover":99999999999999.9999,"cap":99999999999999.9999"#), "{summary}");
}
