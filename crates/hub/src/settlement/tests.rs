use super::job::governing;
use super::{JobName, api};

fn model(name: &str, currency: Option<&str>, kind: &str, granularity: &str) -> api::Model {
    let text = serde_json::json!({
        "name": name,
        "settlementGranularity": granularity,
        "settlementDelay": "DEFERRED",
        "currency": currency,
        "ledgerAccountTypeId": kind,
    });
    serde_json::from_value(text).unwrap()
}

/// As the ledger chooses: a currency with models of its own is governed by none for all currencies.
#[test]
fn a_content_has_the_model_of_its_currency_else_the_one_of_all() {
    let models = [
        model("ALL", None, "POSITION", "NET"),
        model("ALLFEES", None, "INTERCHANGE_FEE", "NET"),
        model("KENYA", Some("KES"), "POSITION", "NET"),
        model("TANZANIA", Some("TZS"), "POSITION", "GROSS"),
    ];
    for (currency, kind, expected) in [
        ("KES", "POSITION", Some("KENYA")),
        ("KES", "INTERCHANGE_FEE", None),
        ("TZS", "POSITION", None),
        ("ZMW", "POSITION", Some("ALL")),
        ("ZMW", "INTERCHANGE_FEE", Some("ALLFEES")),
        ("ZMW", "ESCROW", None),
    ] {
        let content = serde_json::json!({"state": "CLOSED", "ledgerAccountType": kind, "currencyId": currency, "createdDate": ""});
        let content = serde_json::from_value(content).unwrap();
        let found = governing(&models, &content).map(|model| &*model.name);
        assert_eq!(found, expected, "{currency} {kind}");
    }
    assert!(
        governing(
            &models[..0],
            &serde_json::from_value(serde_json::json!({
                "state": "CLOSED", "ledgerAccountType": "POSITION", "currencyId": "KES", "createdDate": ""
            }))
            .unwrap()
        )
        .is_none()
    );
}

#[test]
fn names_of_jobs_fit_references() {
    for name in ["2026-11-23", "eod.KES_1", &"a".repeat(26)] {
        assert_eq!(name.parse::<JobName>().unwrap().to_string(), name);
    }
    for name in ["", "a b", "é", "a/b", &"a".repeat(27)] {
        assert!(name.parse::<JobName>().unwrap_err().starts_with("give a name of 1 to 26 letters"), "{name}");
    }
}
