//! `/feeRules`: rules are listed, added and ended, and what they charge is settled.

use crate::common::{Hub, ask, pay};
use serde_json::{Value, json};

/// What DFSPs owe in fees, by their accounts of that type.
async fn fees(hub: &Hub, dfsp: &str) -> Value {
    let (_, accounts) = ask(hub, "GET", &format!("/participants/{dfsp}/accounts"), Value::Null).await;
    let own = accounts.as_array().unwrap().iter().find(|one| one["ledgerAccountType"] == "INTERCHANGE_FEE");
    own.map_or(Value::Null, |account| account["value"].clone())
}

#[tokio::test]
async fn a_rule_is_added_charges_and_is_ended() {
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
    // 1.2345 % of 18.5 is 0.22838; blue owes that and 0.25, green the other rule's 1.
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
