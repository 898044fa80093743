//! Plans, and the requests to the hub.

use std::path::PathBuf;
use std::time::Duration;

use upesi_process::exit::{Exit, Failure};

use super::ScriptedHub;
use crate::scheme::{ApplyOptions, run};

const SCHEME: &str = "\
name = \"test\"
currencies = [\"KES\"]

[[model]]
name = \"DEFERREDNETKES\"
currency = \"KES\"

[[dfsp]]
name = \"greenbank\"
accounts.KES = { net_debit_cap = 6000, funds = \"3000.50\" }

[dfsp.endpoints]
FSPIOP_CALLBACK_URL_TRANSFER_POST = \"http://green.example/transfers\"
";

const HUB_ACCOUNTS: &str = r#"{"name":"Hub","isActive":1,"accounts":[
    {"id":1,"ledgerAccountType":"HUB_MULTILATERAL_SETTLEMENT","currency":"KES","isActive":1},
    {"id":2,"ledgerAccountType":"HUB_RECONCILIATION","currency":"KES","isActive":1}]}"#;
const GREENBANK: &str = r#"{"name":"greenbank","isActive":1,"accounts":[
    {"id":7,"ledgerAccountType":"POSITION","currency":"KES","isActive":1},
    {"id":8,"ledgerAccountType":"SETTLEMENT","currency":"KES","isActive":1}]}"#;
const MODEL: &str = r#"[{"settlementModelId":1,"name":"DEFERREDNETKES","isActive":true,"settlementGranularity":"NET",
    "settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":"KES",
    "requireLiquidityCheck":true,"ledgerAccountTypeId":"POSITION","settlementAccountTypeId":"SETTLEMENT","autoPositionReset":true}]"#;

fn accounts(settlement: &str) -> String {
    format!(
        r#"[{{"id":7,"ledgerAccountType":"POSITION","currency":"KES","isActive":1,"value":0,"reservedValue":0}},
            {{"id":8,"ledgerAccountType":"SETTLEMENT","currency":"KES","isActive":1,"value":{settlement},
              "reservedValue":0,"changedDate":"2031-04-01T11:00:00.000Z"}}]"#
    )
}

pub(super) struct Applied {
    pub(super) output: String,
    /// The path of the file is `s.toml` in it.
    pub(super) outcome: Result<(), Failure>,
}

pub(super) fn apply(hub: &ScriptedHub, scheme: &str, change: impl FnOnce(&mut ApplyOptions)) -> Applied {
    let directory = tempfile::tempdir().unwrap();
    let file: PathBuf = directory.path().join("scheme.toml");
    std::fs::write(&file, scheme).unwrap();
    let mut options = ApplyOptions {
        file,
        admin_url: hub.url(),
        admin_tls: None,
        admin_token: None,
        wait: Duration::ZERO,
        plan_only: false,
        json: false,
    };
    change(&mut options);
    let mut output = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(run(&options, &mut output)).map_err(|mut failure| {
        failure.message = failure.message.replace(&options.file.display().to_string(), "s.toml");
        failure
    });
    Applied { output: String::from_utf8(output).unwrap(), outcome }
}

fn empty_hub() -> ScriptedHub {
    let hub = ScriptedHub::start(&[
        ("GET /participants", r#"[{"name":"Hub","isActive":1,"accounts":[]}]"#),
        ("GET /settlementModels", "[]"),
    ]);
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("0"));
    // Booked late, as by some hubs.
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("0"));
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("-3000.5"));
    hub
}

/// A hub in the state of the scheme, except for the values of a test.
pub(super) fn finished_hub(limit: &str, cover: &str, endpoint: &str) -> ScriptedHub {
    let limit = format!(r#"[{{"currency":"KES","limit":{{"type":"NET_DEBIT_CAP","value":{limit}}}}}]"#);
    let endpoint = format!(r#"[{{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"{endpoint}"}}]"#);
    ScriptedHub::start(&[
        ("GET /participants", &format!("[{HUB_ACCOUNTS},{GREENBANK}]")),
        ("GET /settlementModels", MODEL),
        ("GET /participants/greenbank/endpoints", &endpoint),
        ("GET /participants/greenbank/limits", &limit),
        ("GET /participants/greenbank/accounts", &accounts(cover)),
    ])
}

const EVERYTHING: &str = "\
+ hub account KES HUB_MULTILATERAL_SETTLEMENT
+ hub account KES HUB_RECONCILIATION
+ model DEFERREDNETKES
+ participant greenbank KES
+ limit greenbank KES 6000, alarm at 80 %
+ funds greenbank KES 3000.5
+ endpoint greenbank FSPIOP_CALLBACK_URL_TRANSFER_POST http://green.example/transfers
= unchanged 0
";

#[test]
fn empty_hub_gets_everything_in_order() {
    let hub = empty_hub();
    let applied = apply(&hub, SCHEME, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert_eq!(applied.output, EVERYTHING);
    let mut changes = hub.changes();
    let deposit = changes.remove(6);
    assert_eq!(
        changes,
        [
            r#"POST /participants/Hub/accounts {"currency":"KES","type":"HUB_MULTILATERAL_SETTLEMENT"}"#,
            r#"POST /participants/Hub/accounts {"currency":"KES","type":"HUB_RECONCILIATION"}"#,
            r#"POST /settlementModels {"autoPositionReset":true,"currency":"KES","ledgerAccountType":"POSITION","name":"DEFERREDNETKES","requireLiquidityCheck":true,"settlementAccountType":"SETTLEMENT","settlementDelay":"DEFERRED","settlementGranularity":"NET","settlementInterchange":"MULTILATERAL"}"#,
            r#"POST /participants {"currency":"KES","name":"greenbank"}"#,
            r#"POST /participants/greenbank/initialPositionAndLimits {"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":6000},"initialPosition":0}"#,
            r#"PUT /participants/greenbank/limits {"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":6000,"alarmPercentage":80}}"#,
            r#"POST /participants/greenbank/endpoints {"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"http://green.example/transfers"}"#,
        ]
    );
    let (target, body) = deposit.split_once(" {").unwrap();
    assert_eq!(target, "POST /participants/greenbank/accounts/8");
    assert!(body.ends_with(
        r#""externalReference":"scheme test","action":"recordFundsIn","reason":"scheme apply","amount":{"amount":3000.5,"currency":"KES"}}"#
    ));
}

/// With two-person changes a whole file is one proposal: no change is attempted whose prerequisites are pending.
#[test]
fn scheme_that_needs_approval_is_one_change_set() {
    let hub = empty_hub();
    hub.answer("GET /self", 200, r#"{"secondPerson":true}"#);
    hub.answer("POST /changeSets", 202, r#"{"approvalId":17,"state":"pending"}"#);
    let applied = apply(&hub, SCHEME, |_| {});
    let failure = applied.outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Temporary);
    assert_eq!(
        failure.message,
        "7 changes need a second person as one approval: upesi admin approve 17 makes them"
    );
    assert_eq!(applied.output, EVERYTHING.replace("+ ", "… + "));
    let sent = hub.changes();
    let [sent] = &sent[..] else { panic!("{sent:?}") };
    let body: serde_json::Value =
        serde_json::from_str(sent.strip_prefix("POST /changeSets ").unwrap()).unwrap();
    assert_eq!(
        (&body["name"], &body["reason"]),
        (&"scheme test".into(), &"upesi scheme apply, scheme test".into())
    );
    let calls: Vec<_> = body["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| format!("{} {}", call["method"], call["path"]))
        .collect();
    assert_eq!(
        calls,
        [
            r#""POST" "/participants/Hub/accounts""#,
            r#""POST" "/participants/Hub/accounts""#,
            r#""POST" "/settlementModels""#,
            r#""POST" "/participants""#,
            r#""POST" "/participants/greenbank/initialPositionAndLimits""#,
            r#""PUT" "/participants/greenbank/limits""#,
            r#""POST" "/participants/greenbank/accounts/SETTLEMENT""#,
            r#""PUT" "/participants/greenbank/endpoints""#,
        ]
    );
    assert_eq!(
        body["changes"][7]["body"].to_string(),
        r#"{"endpoints":[{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"http://green.example/transfers"}]}"#
    );
}

/// A hub with two-person changes that needs none here gets the changes one by one.
#[test]
fn scheme_without_need_of_approval_is_applied_immediately() {
    let hub = empty_hub();
    hub.answer("GET /self", 200, r#"{"secondPerson":true}"#);
    hub.answer("POST /changeSets", 200, r#"{"approvalId":null}"#);
    let applied = apply(&hub, SCHEME, |_| {});
    assert_eq!((applied.outcome, applied.output.as_str()), (Ok(()), EVERYTHING));
    assert_eq!(hub.changes().len(), 9);
    let planned = empty_hub();
    planned.answer("GET /self", 200, r#"{"secondPerson":true}"#);
    assert_eq!(apply(&planned, SCHEME, |options| options.plan_only = true).output, EVERYTHING);
    assert_eq!(planned.changes(), Vec::<String>::new());
}

/// A hub of an earlier version does not support sets: no change is attempted after a pending one.
#[test]
fn apply_stops_at_a_pending_change() {
    let hub = empty_hub();
    hub.answer("POST /participants", 202, r#"{"approvalId":5,"state":"pending"}"#);
    let applied = apply(&hub, SCHEME, |_| {});
    let failure = applied.outcome.unwrap_err();
    assert_eq!(
        (failure.exit, failure.message.as_str()),
        (
            Exit::Temporary,
            "3 changes were made, 4 were not; this one needs a second person: + participant greenbank KES\nhave it \
             approved (upesi admin approve 5), then apply the file again"
        )
    );
    let last = hub.changes().pop().unwrap();
    assert!(last.starts_with("POST /participants {"), "{last}");
    hub.answer("POST /participants", 202, r#"{"approvalId":5,"state":"pending"}"#);
    let applied = apply(&hub, SCHEME, |options| options.json = true);
    let json: serde_json::Value = serde_json::from_str(&applied.output).unwrap();
    assert_eq!((&json["made"], &json["waiting"]), (&3.into(), &serde_json::json!([5])));
}

/// A file beyond the limits of one set is proposed in parts, in order.
#[test]
fn large_scheme_is_proposed_in_parts() {
    let hub = empty_hub();
    hub.answer("GET /self", 200, r#"{"secondPerson":true}"#);
    hub.answer("POST /changeSets", 202, r#"{"approvalId":17,"state":"pending"}"#);
    let mut scheme = SCHEME.to_owned();
    for number in 0..700 {
        scheme += &format!(
            "[[dfsp]]\nname = \"dfsp-{number}\"\naccounts.KES = {{ net_debit_cap = 6000, funds = 0 }}\n"
        );
    }
    let applied = apply(&hub, &scheme, |_| {});
    let message = applied.outcome.unwrap_err().message;
    let sent = hub.changes().remove(0);
    let body: serde_json::Value =
        serde_json::from_str(sent.strip_prefix("POST /changeSets ").unwrap()).unwrap();
    let count = body["changes"].as_array().unwrap().len();
    assert!((1_500..=upesi_ledger::CHANGE_SET_CHANGES_MAX).contains(&count), "{count}");
    assert!(message.contains("; apply the file again after that to propose "), "{message}");
}

#[test]
fn deposit_id_depends_on_scheme_dfsp_and_currency() {
    let deposit = |hub: &ScriptedHub, scheme: &str| {
        apply(hub, scheme, |_| {});
        hub.changes().into_iter().find(|change| change.contains("recordFundsIn")).unwrap()
    };
    let first = deposit(&empty_hub(), SCHEME);
    assert_eq!(deposit(&empty_hub(), SCHEME), first);
    assert_ne!(deposit(&empty_hub(), &SCHEME.replace("\"test\"", "\"other\"")), first);
    let id = |text: &str| text.split("\"transferId\":\"").nth(1).unwrap()[..36].to_owned();
    assert!(upesi_types::TransferId::parse(&id(&first)).is_some());
    // Another amount is another deposit of the same scheme, which the hub rejects when the first one is booked.
    let raised = deposit(&empty_hub(), &SCHEME.replace("3000.50", "3000.25"));
    assert_eq!(id(&raised), id(&first));
}

#[test]
fn plan_changes_nothing() {
    let hub = empty_hub();
    let applied = apply(&hub, SCHEME, |options| options.plan_only = true);
    assert_eq!((applied.outcome, applied.output.as_str()), (Ok(()), EVERYTHING));
    assert_eq!(hub.changes(), Vec::<String>::new());
}

#[test]
fn matching_parts_are_not_changed() {
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    let applied = apply(&hub, SCHEME, |_| {});
    assert_eq!((applied.outcome, applied.output.as_str()), (Ok(()), "= unchanged 7\n"));
    // More cover than requested is sufficient.
    let hub = finished_hub("6000", "-9000", "http://green.example/transfers");
    assert_eq!(apply(&hub, SCHEME, |_| {}).output, "= unchanged 7\n");
    assert_eq!(hub.changes(), Vec::<String>::new());
}

/// Cover that settlements, withdrawals or payments have used is not deposited again.
#[test]
fn funds_are_deposited_once() {
    let first = empty_hub();
    apply(&first, SCHEME, |_| {});
    let deposit = first.changes().into_iter().find(|change| change.contains("recordFundsIn")).unwrap();
    let id = &deposit.split("\"transferId\":\"").nth(1).unwrap()[..36];
    let booked = format!("GET /participants/greenbank/accounts/8/transfers/{id}");
    for (cover, funds, note) in [
        ("-3000.5", "3000.50", ""),
        ("-2300.5", "3000.50", ""),
        ("0", "3000.50", ""),
        (
            "-2300.5",
            "5000",
            "? funds greenbank KES: 3000.5 were already deposited for this scheme; record further deposits as the bank books them\n",
        ),
    ] {
        let hub = finished_hub("6000", cover, "http://green.example/transfers");
        hub.replace(&booked, r#"{"transferState":"COMMITTED","amount":{"amount":3000.5,"currency":"KES"}}"#);
        let applied = apply(&hub, &SCHEME.replace("3000.50", funds), |_| {});
        assert_eq!((applied.outcome, applied.output), (Ok(()), format!("{note}= unchanged 7\n")));
        assert_eq!(hub.changes(), Vec::<String>::new(), "{cover} {funds}");
    }
    // If a hub does not report the deposit, an account with cover gets none.
    let hub = finished_hub("6000", "-1000", "http://green.example/transfers");
    let note = "? funds greenbank KES: the account already has a cover of 1000, so 3000.5 are not deposited; record further deposits as the bank books them\n";
    assert_eq!(apply(&hub, SCHEME, |_| {}).output, format!("{note}= unchanged 7\n"));
    assert_eq!(hub.changes(), Vec::<String>::new());
}

#[test]
fn differences_are_shown_with_both_sides() {
    let hub = finished_hub(r#"5000,"alarmPercentage":25.5"#, "0", "http://old.example/transfers");
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("0"));
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("-3000.5"));
    let applied = apply(&hub, SCHEME, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert_eq!(
        applied.output,
        "\
~ limit greenbank KES 5000 → 6000, alarm at 25.5 %
+ funds greenbank KES 3000.5
~ endpoint greenbank FSPIOP_CALLBACK_URL_TRANSFER_POST http://old.example/transfers → http://green.example/transfers
= unchanged 4
"
    );
    let changes = hub.changes();
    assert_eq!(
        changes[0],
        r#"PUT /participants/greenbank/limits {"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":6000,"alarmPercentage":25.5}}"#,
        "the alarm stays where the hub has it"
    );
    assert!(changes[1].ends_with(r#""amount":{"amount":3000.5,"currency":"KES"}}"#), "{}", changes[1]);
}

#[test]
fn json_output_is_one_object() {
    let hub = finished_hub("5000", "-3000.5", "http://green.example/transfers");
    let applied = apply(&hub, SCHEME, |options| options.json = true);
    let json: serde_json::Value = serde_json::from_str(&applied.output).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "planOnly": false,
            "changes": [{
                "what": "limit", "name": "greenbank", "currency": "KES", "from": "5000", "to": "6000",
                "alarmPercentageFrom": "80", "alarmPercentageTo": "80",
            }],
            "made": 1,
            "waiting": [],
            "unchanged": 6,
            "notes": [],
        })
    );
}

#[test]
fn participant_is_deactivated_last() {
    let inactive = SCHEME.replace("name = \"greenbank\"\n", "name = \"greenbank\"\nis_active = false\n");
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    let applied = apply(&hub, &inactive, |_| {});
    assert_eq!(applied.output, "~ participant greenbank active → inactive\n= unchanged 7\n");
    assert_eq!(hub.changes(), [r#"PUT /participants/greenbank {"isActive":false}"#]);
}

/// The same hub with greenbank inactive.
fn hub_with_greenbank_inactive(cover: &str) -> ScriptedHub {
    let hub = finished_hub("6000", cover, "http://green.example/transfers");
    let inactive = GREENBANK.replacen(r#""isActive":1"#, r#""isActive":0"#, 1);
    hub.replace("GET /participants", &format!("[{HUB_ACCOUNTS},{inactive}]"));
    hub
}

#[test]
fn participant_is_activated_before_it_gets_funds() {
    let active = SCHEME.replace("name = \"greenbank\"\n", "name = \"greenbank\"\nis_active = true\n");
    let hub = hub_with_greenbank_inactive("0");
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("0"));
    hub.answer("GET /participants/greenbank/accounts", 200, &accounts("-3000.5"));
    let applied = apply(&hub, &active, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert_eq!(
        applied.output,
        "~ participant greenbank inactive → active\n+ funds greenbank KES 3000.5\n= unchanged 6\n"
    );
    let changes = hub.changes();
    assert_eq!(changes[0], r#"PUT /participants/greenbank {"isActive":true}"#);
    assert!(changes[1].contains("recordFundsIn"), "{}", changes[1]);
}

#[test]
fn inactive_participant_without_funds_is_a_conflict() {
    let is_inactive = SCHEME.replace("name = \"greenbank\"\n", "name = \"greenbank\"\nis_active = false\n");
    for scheme in [SCHEME, &is_inactive] {
        let hub = hub_with_greenbank_inactive("0");
        let failure = apply(&hub, scheme, |_| {}).outcome.unwrap_err();
        assert_eq!(
            failure.message,
            "nothing was changed\ns.toml:9: participant greenbank is inactive and cannot receive deposits: its funds of 3000.5 KES cannot be deposited; give it is_active = true, or funds = 0"
        );
        assert_eq!(hub.changes(), Vec::<String>::new());
    }
    // A DFSP that lacks nothing may stay inactive.
    let hub = hub_with_greenbank_inactive("-3000.5");
    assert_eq!(apply(&hub, &is_inactive, |_| {}).output, "= unchanged 8\n");
}

#[test]
fn alarm_is_set_if_the_file_has_it() {
    let scheme = SCHEME.replace("6000,", "6000, alarm_percentage = \"12.5\",");
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    let applied = apply(&hub, &scheme, |_| {});
    assert_eq!(applied.output, "~ limit greenbank KES 6000, alarm at 80 → 12.5 %\n= unchanged 6\n");
    let set = r#"PUT /participants/greenbank/limits {"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":6000,"alarmPercentage":12.5}}"#;
    assert_eq!(hub.changes(), [set]);
    // The first cap is set without an alarm percentage.
    let hub = empty_hub();
    let applied = apply(&hub, &scheme, |_| {});
    assert!(applied.output.contains("+ limit greenbank KES 6000, alarm at 12.5 %\n"), "{}", applied.output);
    let changes = hub.changes();
    assert!(changes[4].contains("/initialPositionAndLimits"), "{changes:?}");
    assert_eq!(changes[5], set);
}

#[test]
fn inactive_model_is_activated_again() {
    let model = MODEL.trim_start_matches('[').trim_end_matches(']');
    let inactive = model.replace(r#""isActive":true"#, r#""isActive":false"#);
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    hub.replace("GET /settlementModels", "[]");
    hub.answer("GET /settlementModels/DEFERREDNETKES", 200, &inactive);
    let applied = apply(&hub, SCHEME, |_| {});
    assert_eq!(applied.output, "~ model DEFERREDNETKES inactive → active\n= unchanged 6\n");
    assert_eq!(hub.changes(), [r#"PUT /settlementModels/DEFERREDNETKES {"isActive":true}"#]);
    // Also not one that does not exist. Other answers are errors.
    let refused = |status: u16, code: &str| {
        let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
        hub.replace("GET /settlementModels", "[]");
        let error = format!(r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"no"}}}}"#);
        hub.answer("GET /settlementModels/DEFERREDNETKES", status, &error);
        apply(&hub, SCHEME, |_| {})
    };
    assert_eq!(refused(400, "3200").output, "+ model DEFERREDNETKES\n= unchanged 6\n");
    let failure = refused(400, "3100").outcome.unwrap_err();
    assert_eq!(failure.message, "no (3100)");
}

#[test]
fn unchangeable_differences_are_conflicts() {
    let scheme = SCHEME
        .replace(
            "currency = \"KES\"\n",
            "currency = \"KES\"\nsettlement_account_type = \"INTERCHANGE_FEE_SETTLEMENT\"\n",
        )
        .replace("name = \"greenbank\"\n", "name = \"greenbank\"\nis_proxy = true\n");
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    let is_no_proxy = GREENBANK.replacen(r#""isActive":1"#, r#""isActive":1,"isProxy":0"#, 1);
    hub.replace("GET /participants", &format!("[{HUB_ACCOUNTS},{is_no_proxy}]"));
    let failure = apply(&hub, &scheme, |_| {}).outcome.unwrap_err();
    assert_eq!(
        failure.message,
        "nothing was changed\ns.toml:4: model DEFERREDNETKES exists and settlement_account_type is SETTLEMENT, not \
         INTERCHANGE_FEE_SETTLEMENT; a model cannot be changed: deactivate it and give the new model another name\ns.toml:10: participant greenbank exists \
         and is_proxy is false, not true; that cannot be changed: give the new participant another name"
    );
    assert_eq!(hub.changes(), Vec::<String>::new());
    // A hub that reports neither is not assumed to match the file.
    hub.replace("GET /participants", &format!("[{HUB_ACCOUNTS},{GREENBANK}]"));
    hub.replace("GET /settlementModels", &MODEL.replace(r#""settlementAccountTypeId":"SETTLEMENT","#, ""));
    assert_eq!(
        apply(&hub, &scheme, |_| {}).output,
        "? model DEFERREDNETKES: this hub does not return the settlement_account_type, so it was not compared\n\
         ? participant greenbank: this hub does not return is_proxy, so it was not compared\n\
         = unchanged 7\n"
    );
}

#[test]
fn dfsps_behind_proxies_become_those_of_the_file() {
    let proxy = |name: &str, behind: &str| {
        format!(
            "[[dfsp]]\nname = \"{name}\"\nis_proxy = true\nproxied = [{behind}]\naccounts.KES = {{ net_debit_cap = 1 }}\n"
        )
    };
    let head = SCHEME.split("[[dfsp]]").next().unwrap();
    let scheme =
        format!("{head}{}{}", proxy("bridge", r#""farbank", "newbank""#), proxy("tunnel", r#""overseas""#));
    let limit = r#"[{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1}}]"#;
    let participant = |name: &str| {
        GREENBANK.replace("greenbank", name).replacen(r#""isActive":1"#, r#""isActive":1,"isProxy":1"#, 1)
    };
    let all = format!("[{HUB_ACCOUNTS},{},{}]", participant("bridge"), participant("tunnel"));
    let hub = ScriptedHub::start(&[
        ("GET /participants", &all),
        ("GET /settlementModels", MODEL),
        ("GET /participants/bridge/endpoints", "[]"),
        ("GET /participants/bridge/limits", limit),
        ("GET /participants/bridge/accounts", &accounts("0")),
        (
            "GET /participants/bridge/proxied",
            r#"[{"name":"farbank","isActive":1},{"name":"overseas","isActive":1},
            {"name":"a/b","isActive":0}]"#,
        ),
        ("GET /participants/tunnel/endpoints", "[]"),
        ("GET /participants/tunnel/limits", limit),
        ("GET /participants/tunnel/accounts", &accounts("0")),
        ("GET /participants/tunnel/proxied", "[]"),
    ]);
    let applied = apply(&hub, &scheme, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    // A DFSP that moves to another proxy is removed from the first one before.
    assert_eq!(
        applied.output,
        "- participant overseas behind bridge\n+ participant newbank behind bridge\n\
         - participant a/b behind bridge\n+ participant overseas behind tunnel\n= unchanged 10\n"
    );
    assert_eq!(
        hub.changes(),
        [
            "DELETE /participants/bridge/proxied/overseas ",
            r#"POST /participants/bridge/proxied {"name":"newbank"}"#,
            "DELETE /participants/bridge/proxied/a%2Fb ",
            r#"POST /participants/tunnel/proxied {"name":"overseas"}"#,
        ]
    );
    let without = scheme.replace("proxied = ", "# proxied = ");
    assert_eq!(
        apply(&hub, &without, |_| {}).output,
        "= unchanged 9\n",
        "a DFSP that is already there may stay"
    );
    // Other hubs do not have this call.
    let unknown = ScriptedHub::start(&[
        ("GET /participants", &all),
        ("GET /settlementModels", MODEL),
        ("GET /participants/bridge/endpoints", "[]"),
        ("GET /participants/bridge/limits", limit),
        ("GET /participants/bridge/accounts", &accounts("0")),
    ]);
    let scheme = format!("{head}{}", proxy("bridge", r#""farbank""#));
    let failure = apply(&unknown, &scheme, |_| {}).outcome.unwrap_err();
    assert_eq!(
        failure.message,
        "nothing was changed\ns.toml:9: this hub does not support DFSPs behind proxies, which bridge has in the file"
    );
}

#[test]
fn model_difference_stops_all_changes() {
    let hub = empty_hub();
    let other =
        MODEL.replace("\"DEFERRED\"", "\"IMMEDIATE\"").replace("\"currency\":\"KES\"", "\"currency\":null");
    let hub_with_model = ScriptedHub::start(&[
        ("GET /participants", r#"[{"name":"Hub","isActive":true}]"#),
        ("GET /settlementModels", &other),
    ]);
    drop(hub);
    let failure = apply(&hub_with_model, SCHEME, |_| {}).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Failure);
    assert_eq!(
        failure.message,
        "nothing was changed\ns.toml:4: model DEFERREDNETKES exists and delay is IMMEDIATE, not DEFERRED, currency is none, not KES; a model cannot be changed: deactivate it and give the new model another name"
    );
    assert_eq!(hub_with_model.changes(), Vec::<String>::new());
}

#[test]
fn models_that_would_stop_payments_are_conflicts() {
    let fees = "[[model]]\nname = \"FEESKES\"\ncurrency = \"KES\"\nledger_account_type = \"INTERCHANGE_FEE\"\n\
                settlement_account_type = \"INTERCHANGE_FEE_SETTLEMENT\"\n\n[[dfsp]]";
    let default = MODEL.replace("\"currency\":\"KES\"", "\"currency\":null");
    let hub = ScriptedHub::start(&[
        ("GET /participants", r#"[{"name":"Hub","isActive":true}]"#),
        ("GET /settlementModels", &default.replace("DEFERREDNETKES", "DEFAULT")),
    ]);
    let without_own = SCHEME.replace("currency = \"KES\"\n", "").replace("DEFERREDNETKES", "DEFAULT");
    let failure = apply(&hub, &without_own.replace("[[dfsp]]", fees), |_| {}).outcome.unwrap_err();
    assert_eq!(
        failure.message,
        "nothing was changed\ns.toml:7: model FEESKES would leave KES without payments: a currency with its own model is not governed by the default one; write a [[model]] of POSITION with currency = \"KES\", too"
    );
    assert_eq!(hub.changes(), Vec::<String>::new());
    let covered = SCHEME.replace(
        "currency = \"KES\"\n",
        "currency = \"KES\"\nsettlement_account_type = \"INTERCHANGE_FEE_SETTLEMENT\"\n",
    );
    let failure = apply(&empty_hub(), &covered, |_| {}).outcome.unwrap_err();
    assert_eq!(
        failure.message,
        "nothing was changed\ns.toml:4: model DEFERREDNETKES: POSITION accounts are covered by SETTLEMENT accounts, and not \
         by INTERCHANGE_FEE_SETTLEMENT"
    );
    // The model of positions comes first, wherever it is in the file.
    let own = "[[model]]\nname = \"DEFERREDNETKES\"\ncurrency = \"KES\"\n\n";
    let last =
        SCHEME.replace(own, "").replace("[[dfsp]]", &fees.replace("[[dfsp]]", &format!("{own}[[dfsp]]")));
    let applied = apply(&empty_hub(), &last, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert!(applied.output.contains("+ model DEFERREDNETKES\n+ model FEESKES\n"), "{}", applied.output);
}

#[test]
fn rejected_change_stops_and_reports_the_hubs_error() {
    let hub = empty_hub();
    hub.answer(
        "POST /participants",
        400,
        r#"{"errorInformation":{"errorCode":"6000","errorDescription":"Unable to find a matching or default, Settlement Model"}}"#,
    );
    let applied = apply(&hub, SCHEME, |_| {});
    let failure = applied.outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Failure);
    assert_eq!(
        failure.message,
        "3 changes were made, 4 were not; this one failed: + participant greenbank KES\nUnable to find a matching \
         or default, Settlement Model (6000)"
    );
    assert_eq!(applied.output.lines().count(), 3);
    assert_eq!(hub.changes().len(), 4);
}

#[test]
fn other_servers_are_reported_as_such() {
    let hub = ScriptedHub::start(&[("GET /participants", "<html>")]);
    let failure = apply(&hub, SCHEME, |_| {}).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Unavailable);
    assert!(failure.message.ends_with("is this the admin API of a hub?"), "{failure}");
    let failure = apply(&hub, SCHEME, |options| options.admin_url = "ftp://x".into()).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failure =
        apply(&hub, SCHEME, |options| options.admin_url = format!("http://{free}")).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Unavailable);
    assert!(failure.message.contains("cannot connect"), "{failure}");
    let failure = apply(&hub, SCHEME, |options| options.file = "/nowhere/s.toml".into()).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::NoInput);
    let failure = apply(&hub, "name = 1\n", |_| {}).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Data);
}

#[test]
fn later_rejections_are_found_before_any_change() {
    let scheme = SCHEME
        .replace("currencies = [\"KES\"]", "hub = \"Switch\"\ncurrencies = [\"KES\",\n\"ZMW\",\n\"USD\"]")
        .replace("\naccounts.KES", "\naccounts.ZMW = { net_debit_cap = 1 }\naccounts.KES");
    let hub = ScriptedHub::start(&[
        ("GET /participants", r#"[{"name":"Hub","isActive":1},{"name":"GreenBank","isActive":1}]"#),
        ("GET /settlementModels", &MODEL.replace("DEFERREDNETKES", "NETKES")),
    ]);
    let failure = apply(&hub, &scheme, |_| {}).outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Failure);
    assert_eq!(
        failure.message,
        "nothing was changed\n\
         s.toml:2: this hub has no participant \"Switch\"; `hub` must be the name of the hub's own participant\n\
         s.toml:4: ZMW has no settlement model, neither here nor at the hub: write a [[model]] with currency = \"ZMW\", or one without a currency for all currencies that have none\n\
         s.toml:7: model DEFERREDNETKES cannot be created: at the hub, model NETKES governs the same accounts; name that one \
         here, or deactivate it first\n\
         s.toml:12: \"greenbank\" differs only in case from \"GreenBank\" at the hub; write it in the same way"
    );
    assert_eq!(hub.changes(), Vec::<String>::new());
    // A default model of the hub serves every currency without its own model.
    let default = MODEL.replace("DEFERREDNETKES", "NET").replace(r#""currency":"KES""#, r#""currency":null"#);
    let hub = empty_hub();
    hub.replace("GET /settlementModels", &default);
    let without_model = SCHEME.replace("[[model]]\nname = \"DEFERREDNETKES\"\ncurrency = \"KES\"\n", "");
    let applied = apply(&hub, &without_model, |options| options.plan_only = true);
    assert_eq!(applied.outcome, Ok(()));
    hub.replace("GET /settlementModels", &default.replace(r#""isActive":true"#, r#""isActive":false"#));
    let failure = apply(&hub, &without_model, |_| {}).outcome.unwrap_err();
    assert!(failure.message.contains("s.toml:2: KES has no settlement model"), "{failure}");
}

#[test]
fn apply_waits_for_a_starting_hub() {
    // A port that was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = empty_hub();
    let failure = apply(&hub, SCHEME, |options| {
        options.admin_url = format!("http://{address}");
        options.wait = Duration::from_secs(1);
    });
    let failure = failure.outcome.unwrap_err();
    assert_eq!(failure.exit, Exit::Unavailable);
    assert!(
        failure.message.starts_with(&format!("no hub answered at http://{address} within 1 s")),
        "{failure}"
    );
    hub.answer("GET /health", 503, "starting");
    hub.answer("GET /health", 200, "{}");
    let applied = apply(&hub, SCHEME, |options| options.wait = Duration::from_secs(60));
    assert_eq!((applied.outcome, applied.output.as_str()), (Ok(()), EVERYTHING));
}

/// The same scheme with bindings of greenbank and other bindings of bluewallet.
fn with_bindings(green: &str, blue: &str) -> String {
    let scheme =
        SCHEME.replace("name = \"greenbank\"\n", &format!("name = \"greenbank\"\nbindings = [{green}]\n"));
    let accounts = "accounts.KES = { net_debit_cap = 6000, funds = \"3000.50\" }";
    format!("{scheme}\n[[dfsp]]\nname = \"bluewallet\"\nbindings = [{blue}]\n{accounts}\n")
}

/// A hub in the state of the scheme, except for the bindings, which are these.
fn hub_with_bindings(green: &str, blue: &str) -> ScriptedHub {
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    let bluewallet = GREENBANK.replace("greenbank", "bluewallet");
    hub.replace("GET /participants", &format!("[{HUB_ACCOUNTS},{GREENBANK},{bluewallet}]"));
    let limit = r#"[{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":6000}}]"#;
    hub.replace("GET /participants/bluewallet/limits", limit);
    hub.replace("GET /participants/bluewallet/accounts", &accounts("-3000.5"));
    hub.replace("GET /participants/bluewallet/endpoints", "[]");
    hub.replace("GET /participants/greenbank/bindings", green);
    hub.replace("GET /participants/bluewallet/bindings", blue);
    hub
}

#[test]
fn bindings_become_those_of_the_file() {
    let hub = hub_with_bindings(
        r#"[{"kind":"san-dns","value":"green.example"},{"kind":"san-uri","value":"fspiop:s/a b?"},
            {"kind":"san-dns","value":"pay.example"}]"#,
        "[]",
    );
    let scheme =
        with_bindings("\"san-dns:green.example\", \"subject:CN=g;issuer=CN=S\"", "\"san-dns:Pay.example\"");
    let applied = apply(&hub, &scheme, |_| {});
    assert_eq!(applied.outcome, Ok(()));
    assert_eq!(
        applied.output,
        "- binding greenbank san-dns:pay.example\n+ binding greenbank subject:CN=g;issuer=CN=S\n\
         - binding greenbank san-uri:fspiop:s/a b?\n+ binding bluewallet san-dns:pay.example\n= unchanged 11\n"
    );
    assert_eq!(
        hub.changes(),
        [
            "DELETE /participants/greenbank/bindings?kind=san-dns&value=pay.example ",
            r#"POST /participants/greenbank/bindings {"kind":"subject","value":"CN=g;issuer=CN=S"}"#,
            "DELETE /participants/greenbank/bindings?kind=san-uri&value=fspiop%3As%2Fa%20b%3F ",
            r#"POST /participants/bluewallet/bindings {"kind":"san-dns","value":"pay.example"}"#,
        ]
    );
    // A file without bindings does not change them, and an empty list removes all.
    let applied = apply(&hub_with_bindings("[]", "[]"), SCHEME, |_| {});
    assert_eq!(applied.output, "= unchanged 7\n");
    let hub = hub_with_bindings(r#"[{"kind":"san-dns","value":"green.example"}]"#, "[]");
    let applied = apply(&hub, &with_bindings("", ""), |options| options.json = true);
    let json: serde_json::Value = serde_json::from_str(&applied.output).unwrap();
    assert_eq!(
        json["changes"],
        serde_json::json!([
            {"what": "binding", "name": "greenbank", "binding": "san-dns:green.example", "isBound": false}
        ])
    );
}

/// The key of RFC 7517, appendix A.1, and its SHA-256.
const KEY: &str = r#"{"kty":"RSA","e":"AQAB","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}"#;
const KEY_SHA256: &str = "ad32320cf6c596d884b05381ba573aba8ddd5749b4de8f4a23a79f9a89ddaeb2";

fn with_key(key: &str) -> String {
    let line = format!("name = \"greenbank\"\nsignature_key = '{key}'\n");
    SCHEME.replace("name = \"greenbank\"\n", &line)
}

/// A hub in the state of the scheme, with these keys of greenbank.
fn hub_with_keys(keys: &str) -> ScriptedHub {
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    hub.replace("GET /participants/greenbank/signatureKeys", &format!(r#"{{"keys":[{keys}]}}"#));
    hub
}

#[test]
fn signing_key_is_added_and_none_is_revoked() {
    let other = r#"{"sha256":"00","state":"current","source":"ledger"}"#;
    let entry = |state: &str, source: &str| {
        format!(r#"{{"sha256":"{KEY_SHA256}","state":"{state}","source":"{source}"}}"#)
    };
    for present in [other.to_owned(), entry("retired", "ledger"), entry("current", "file")] {
        let hub = hub_with_keys(&present);
        let applied = apply(&hub, &with_key(KEY), |_| {});
        assert_eq!(applied.outcome, Ok(()));
        let expected = format!("+ signature key greenbank {KEY_SHA256}\n= unchanged 7\n");
        assert_eq!(applied.output, expected, "{present}");
        let body = serde_json::json!({"publicKey": KEY});
        assert_eq!(hub.changes(), [format!("POST /participants/greenbank/signatureKeys {body}")]);
    }
    for state in ["next", "current", "previous"] {
        let applied = apply(&hub_with_keys(&entry(state, "ledger")), &with_key(KEY), |_| {});
        assert_eq!(applied.output, "= unchanged 8\n", "{state}");
    }
    let private = KEY.replace("\"e\"", "\"d\":\"AQAB\",\"e\"");
    let failure = apply(&hub_with_keys(""), &with_key(&private), |_| {}).outcome.unwrap_err();
    let expected = "signature_key is a private key, which must stay with its owner: create a new one";
    assert!(failure.message.ends_with(expected), "{}", failure.message);
}

#[test]
fn bindings_at_a_hub_without_support_are_a_conflict() {
    let hub = finished_hub("6000", "-3000.5", "http://green.example/transfers");
    let scheme = SCHEME
        .replace("name = \"greenbank\"\n", "name = \"greenbank\"\nbindings = [\"san-dns:g.example\"]\n");
    let failure = apply(&hub, &scheme, |_| {}).outcome.unwrap_err();
    assert_eq!(
        failure.message,
        "nothing was changed\ns.toml:9: this hub does not support bindings, which greenbank has in the file"
    );
    assert_eq!(hub.changes(), Vec::<String>::new());
}

/// The hub of [`finished_hub`] with another name of its DFSP.
fn hub_of(name: &str) -> (ScriptedHub, String) {
    let path = upesi_types::text::path(&["participants", name]);
    let renamed = |text: &str| text.replace("greenbank", name);
    let limit = r#"[{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":5000}}]"#;
    let endpoint =
        r#"[{"type":"FSPIOP_CALLBACK_URL_TRANSFER_POST","value":"http://green.example/transfers"}]"#;
    let hub = ScriptedHub::start(&[
        ("GET /participants", &renamed(&format!("[{HUB_ACCOUNTS},{GREENBANK}]"))),
        ("GET /settlementModels", MODEL),
        (&format!("GET {path}/endpoints"), endpoint),
        (&format!("GET {path}/limits"), limit),
        (&format!("GET {path}/accounts"), &accounts("-3000.5")),
    ]);
    (hub, path)
}

#[test]
fn names_of_earlier_versions_are_encoded_in_paths() {
    for (name, expected) in
        [("Green Bank", "Green%20Bank"), ("%61%61", "%2561%2561"), ("a/../b?c", "a%2F..%2Fb%3Fc")]
    {
        let (hub, path) = hub_of(name);
        assert_eq!(path, format!("/participants/{expected}"));
        let applied = apply(&hub, &SCHEME.replace("greenbank", name), |_| {});
        assert_eq!(applied.outcome, Ok(()), "{name}");
        let changes = hub.changes();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(changes[0].starts_with(&format!("PUT /participants/{expected}/limits {{")), "{changes:?}");
    }
}

#[test]
fn name_that_the_admin_api_rejects_is_a_conflict() {
    for name in ["Green Bank", "%61%61", "=cmd", ".hidden", "a/b"] {
        let hub = empty_hub();
        let applied = apply(&hub, &SCHEME.replace("greenbank", name), |_| {});
        let failure = applied.outcome.unwrap_err();
        assert_eq!(failure.exit, Exit::Failure, "{failure}");
        assert!(
            failure.message.contains(&format!("participant {name:?} cannot be created: its name must")),
            "{failure}"
        );
        assert_eq!(hub.changes(), Vec::<String>::new());
    }
}
