//! Rules for interchange fees in scheme files.

use super::applying::{apply, finished_hub};
use crate::scheme::file::parse;

const DFSP: &str = "\
name = \"test\"
currencies = [\"KES\"]

[[dfsp]]
name = \"greenbank\"
accounts.KES = { net_debit_cap = 6000 }
";

const RULE: &str = "
[[fee_rule]]
name = \"WALLET\"
currency = \"KES\"
payers = [\"greenbank\"]
rate_percent = \"0.6\"
paid_by = \"PAYER\"
from = \"2031-05-01T00:00:00.000Z\"
";

/// The rule as the hub has it.
fn listed(change: (&str, &str)) -> String {
    let rule = r#"[{"feeRuleId":1,"name":"WALLET","currency":"KES","payers":["greenbank"],"payees":[],"amountMin":0,
        "amountMax":null,"ratePercent":0.6,"decimals":2,"fixed":0,"paidBy":"PAYER","from":"2031-05-01T00:00:00.000Z",
        "until":null}]"#;
    assert!(rule.contains(change.0), "{}", change.0);
    rule.replace(change.0, change.1)
}

#[test]
fn every_mistake_is_named_with_its_line() {
    let mistakes = |rule: &str| parse("s.toml", &format!("{DFSP}{rule}")).map(|_| ()).expect_err(rule);
    for (from, to, expected) in [
        ("name = \"WALLET\"", "", "s.toml:8: \"name\" is missing"),
        (
            "WALLET",
            "NO-DASH",
            "s.toml:8: \"NO-DASH\" is not a name of a fee rule: give 2 to 30 letters and digits",
        ),
        ("\"KES\"", "\"TZS\"", "s.toml:10: \"TZS\" is not among the scheme's currencies"),
        ("\"PAYER\"", "\"HUB\"", "s.toml:13: paid_by must be \"PAYER\" or \"PAYEE\""),
        ("\"0.6\"", "\"100.0001\"", "s.toml:8: rate_percent must be 0 to 100"),
        ("\"0.6\"", "\"-1\"\nfixed = 1", "s.toml:12: rate_percent -1 must not be negative"),
        ("\"0.6\"", "0", "s.toml:8: it charges nothing: give rate_percent, fixed, or both"),
        ("\"0.6\"", "1\ndecimals = 5", "s.toml:8: decimals must be 0 to 4"),
        ("\"0.6\"", "1\namount_min = 2\namount_max = 1", "s.toml:8: amount_max must not be below amount_min"),
        (
            "2031-05-01T00:00:00.000Z",
            "May",
            "s.toml:14: from \"May\": give an instant by UTC, such as \"2031-04-01T12:00:00.000Z\"",
        ),
        (
            "paid_by",
            "until = \"2031-04-01T12:00:00.000Z\"\npaid_by",
            "s.toml:8: until must be later than from",
        ),
        ("payers", "payer", "s.toml:11: \"payer\" is not a key here; did you mean \"payers\"?"),
    ] {
        assert!(RULE.contains(from), "{from}");
        assert_eq!(mistakes(&RULE.replace(from, to)), [expected]);
    }
    assert_eq!(mistakes(&format!("{RULE}{RULE}")), ["s.toml:16: fee rule \"WALLET\" stands twice"]);
}

#[test]
fn a_rule_that_is_missing_is_added_and_an_end_is_set() {
    let hub = finished_hub("6000", "0", "");
    hub.answer("GET /feeRules", 200, "[]");
    let applied = apply(&hub, &format!("{DFSP}{RULE}"), |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert!(
        applied.output.contains("+ fee rule WALLET KES 0.6 % and 0, paid by PAYER\n"),
        "{}",
        applied.output
    );
    let sent = r#"POST /feeRules {"amountMin":"0","currency":"KES","decimals":2,"fixed":"0","from":"2031-05-01T00:00:00.000Z","name":"WALLET","paidBy":"PAYER","payees":[],"payers":["greenbank"],"ratePercent":"0.6"}"#;
    assert_eq!(hub.changes(), [sent]);

    let hub = finished_hub("6000", "0", "");
    hub.answer("GET /feeRules", 200, &listed(("null}]", "null}]")));
    assert_eq!(apply(&hub, &format!("{DFSP}{RULE}"), |_| {}).outcome, Ok(()));
    assert_eq!(hub.changes(), Vec::<String>::new());
    let ends = format!("{DFSP}{RULE}until = \"2031-06-01T00:00:00.000Z\"\n");
    let applied = apply(&hub, &ends, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    let line = "~ fee rule WALLET until none → 2031-06-01T00:00:00.000Z\n";
    assert!(applied.output.contains(line), "{}", applied.output);
    assert_eq!(hub.changes(), [r#"PUT /feeRules/WALLET {"until":"2031-06-01T00:00:00.000Z"}"#]);
    // The end that the hub has stays if the file says none.
    let hub = finished_hub("6000", "0", "");
    hub.answer("GET /feeRules", 200, &listed(("null}]", "\"2031-06-01T00:00:00.000Z\"}]")));
    let applied = apply(&hub, &format!("{DFSP}{RULE}"), |_| {});
    let note = "? fee rule WALLET ends at 2031-06-01T00:00:00.000Z at the hub; the file says no end\n";
    assert!(applied.output.contains(note), "{}", applied.output);
    assert_eq!(hub.changes(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_brought_about_is_a_conflict() {
    let refused = |rules: Option<String>, file: &str, expected: &str| {
        let hub = finished_hub("6000", "0", "");
        if let Some(rules) = rules {
            hub.answer("GET /feeRules", 200, &rules);
        }
        let failure = apply(&hub, file, |_| {}).outcome.unwrap_err();
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert_eq!(hub.changes(), Vec::<String>::new());
    };
    let file = format!("{DFSP}{RULE}");
    refused(None, &file, "s.toml:8: this hub knows no fee rules, and WALLET is one");
    for (change, expected) in [
        (("0.6", "0.7"), "rate_percent is 0.7, not 0.6"),
        (("[\"greenbank\"]", "[]"), "payers is all DFSPs, not greenbank"),
        (("\"decimals\":2", "\"decimals\":0"), "decimals is 0, not 2"),
        (("\"fixed\":0", "\"fixed\":1.5"), "fixed is 1.5, not 0"),
        (("\"amountMax\":null", "\"amountMax\":9"), "amount_max is 9, not none"),
        (("PAYER", "PAYEE"), "paid_by is PAYEE, not PAYER"),
        (("2031-05-01", "2031-05-02"), "from is 2031-05-02T00:00:00.000Z, not 2031-05-01T00:00:00.000Z"),
    ] {
        refused(Some(listed(change)), &file, expected);
    }
    let unknown = file.replace("payers = [\"greenbank\"]", "payees = [\"nobank\"]");
    let text = "s.toml:8: fee rule WALLET: \"nobank\" is no DFSP, neither here nor at the hub";
    refused(Some("[]".to_owned()), &unknown, text);
}

/// What a rule cannot charge is said before it is made: the payer buys the currency and has no account in it.
#[test]
fn payers_that_would_owe_nothing_are_named() {
    let scheme = |dfsps: &str, payers: &str| {
        let file = DFSP.replace("[\"KES\"]", "[\"KES\", \"TZS\"]");
        let rule = RULE.replace("\"KES\"", "\"TZS\"").replace("[\"greenbank\"]", payers);
        format!("{file}{dfsps}\n[[model]]\nname = \"TZSNET\"\ncurrency = \"TZS\"\n{rule}")
    };
    let account = "{ net_debit_cap = 6000 }";
    let forex = format!("\n[[dfsp]]\nname = \"forex\"\naccounts.KES = {account}\naccounts.TZS = {account}\n");
    let other = format!("\n[[dfsp]]\nname = \"other\"\naccounts.TZS = {account}\n");
    let note = "? fee rule WALLET charges nothing for what is paid in TZS by conversions of greenbank, without accounts in \
                TZS\n";
    for (dfsps, payers, is_noted) in [
        (&forex, "[]", true),
        (&forex, "[\"greenbank\"]", true),
        (&forex, "[\"forex\"]", false),
        // Nobody has both currencies.
        (&other, "[]", false),
    ] {
        let hub = finished_hub("6000", "0", "");
        hub.answer("GET /feeRules", 200, "[]");
        let output = apply(&hub, &scheme(dfsps, payers), |options| options.plan_only = true).output;
        assert_eq!(output.contains(note), is_noted, "{dfsps} {payers}: {output}");
        assert_eq!(output.contains("charges nothing"), is_noted, "{output}");
    }
}
