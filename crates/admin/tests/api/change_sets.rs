//! Change sets by two operators, over sockets: proposed as one, approved once, applied in order, continued.

use serde_json::{Value, json};
use upesi_admin::continue_change_sets;
use upesi_engine::Payload;
use upesi_ledger::command::{
    AuditedCommand, Authority, OperatorAction, ProposalDecision, ProposalDecisionKind,
};
use upesi_ledger::{AdminOutcome, AuditActor, Command, ProposalState};

use super::common::people::{
    approve, approved_service, call, expect, expect_because, service, with_admin, with_approvals,
};
use crate::common;
use crate::common::{Hub, funds_in, id};

/// A hub with two operators who may make and approve all changes of operations and the treasury.
struct Scheme {
    hub: Hub,
    ines: String,
    ivan: String,
    deploy: String,
    amina: String,
}

impl Scheme {
    async fn start() -> Self {
        let (hub, ines, ivan) = with_approvals().await;
        let deploy = approved_service(&hub, (&ines, &ivan), "deploy", &["operations", "treasury"]).await;
        let roles = ["operations-approver", "treasury-approver"];
        let amina = approved_service(&hub, (&ines, &ivan), "amina", &roles).await;
        for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
            let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
            expect(&hub, &deploy, "POST", "/participants/Hub/accounts", &body, 201).await;
        }
        expect(&hub, &deploy, "POST", "/settlementModels", common::MODEL, 201).await;
        Self { hub, ines, ivan, deploy, amina }
    }

    async fn propose(&self, token: &str, set: &Value, status: u16) -> Value {
        expect_because(&self.hub, token, "POST", "/changeSets", &set.to_string(), status).await
    }

    async fn approval(&self, waiting: &Value) -> Value {
        let path = format!("/approvals/{}", waiting["approvalId"]);
        expect(&self.hub, &self.amina, "GET", &path, "", 200).await
    }

    async fn cap(&self, name: &str) -> Value {
        let path = format!("/participants/{name}/limits");
        expect(&self.hub, &self.deploy, "GET", &path, "", 200).await[0]["limit"]["value"].clone()
    }

    /// A DFSP with accounts, as one approval.
    async fn onboard(&self, name: &str, deposit: u64) {
        let waiting = self.propose(&self.deploy, &new_dfsp(name, deposit), 202).await;
        assert_eq!(approve(&self.hub, &self.amina, &waiting).await["state"], "executed");
    }
}

fn new_dfsp(name: &str, deposit: u64) -> Value {
    let base = format!("http://{name}.example:4000");
    json!({"name": format!("DFSP {name}"), "changes": [
        {"method": "POST", "path": "/participants", "body": {"name": name, "currency": "KES"}},
        {
            "method": "POST",
            "path": format!("/participants/{name}/initialPositionAndLimits"),
            "body": {"currency": "KES", "limit": {"type": "NET_DEBIT_CAP", "value": 1000}, "initialPosition": 0},
        },
        {
            "method": "POST",
            "path": format!("/participants/{name}/accounts/SETTLEMENT"),
            "body": serde_json::from_str::<Value>(&funds_in(&id(deposit).to_string(), "500")).unwrap(),
        },
        {
            "method": "PUT",
            "path": format!("/participants/{name}/endpoints"),
            "body": {"baseUrl": base, "endpoints": [
                {"type": "FSPIOP_CALLBACK_URL_QUOTES", "value": "http://quotes.example"},
            ]},
        },
    ]})
}

fn cap(name: &str, value: u32) -> Value {
    json!({
        "method": "PUT",
        "path": format!("/participants/{name}/limits"),
        "body": {"currency": "KES", "limit": {"type": "NET_DEBIT_CAP", "value": value, "alarmPercentage": 80}},
    })
}

/// One new DFSP with cap, funds and 29 endpoints is one approval. The diff shows each change.
#[tokio::test]
async fn new_dfsp_with_all_its_data_needs_one_approval() {
    let scheme = Scheme::start().await;
    let hub = &scheme.hub;
    let waiting = scheme.propose(&scheme.deploy, &new_dfsp("green", 1), 202).await;
    let again = scheme.propose(&scheme.deploy, &new_dfsp("green", 1), 202).await;
    assert_eq!(again["approvalId"], waiting["approvalId"], "the same set waits once");
    expect(hub, &scheme.deploy, "GET", "/participants/green", "", 400).await;

    let shown = scheme.approval(&waiting).await;
    assert_eq!((&shown["state"], &shown["mayDecide"]), (&json!("pending"), &json!(true)));
    assert_eq!(shown["object"], "change set \"DFSP green\", 4 changes");
    let set = &shown["changeSet"];
    assert_eq!((&set["name"], &set["changes"], &set["made"]), (&json!("DFSP green"), &json!(4), &json!(0)));
    let diff: Vec<_> = set["diff"].as_array().unwrap().iter().map(told).collect();
    let deposit = format!("deposit {} of green, 500 KES", id(1));
    assert_eq!(
        diff,
        [
            "1 participant.create participant green in KES: none → a participant".to_owned(),
            "2 limit.raise net debit cap of green in KES: none → 1000".to_owned(),
            format!("3 funds.in {deposit}: none → COMMITTED"),
            "4 endpoint.set 29 endpoints of green: none → 28 at http://green.example:4000, FSPIOP_CALLBACK_URL_QUOTES \
             http://quotes.example"
                .to_owned(),
        ]
    );

    let decided = approve(hub, &scheme.amina, &waiting).await;
    assert_eq!((&decided["state"], &decided["result"]), (&json!("executed"), &json!("4 changes were made")));
    assert_eq!((&decided["decidedBy"], &decided["comment"]), (&json!("amina"), &json!("looked at")));
    assert_eq!(scheme.cap("green").await, 1_000);
    let accounts = expect(hub, &scheme.deploy, "GET", "/participants/green/accounts", "", 200).await;
    let cover = accounts.as_array().unwrap().iter().find(|one| one["ledgerAccountType"] == "SETTLEMENT");
    assert_eq!(cover.unwrap()["value"], -500, "{accounts}");
    let endpoints = expect(hub, &scheme.deploy, "GET", "/participants/green/endpoints", "", 200).await;
    assert_eq!(endpoints.as_array().unwrap().len(), 29);

    // Each of its records names the set and both operators.
    let auditor = approved_service(hub, (&scheme.ines, &scheme.ivan), "ada", &["auditor"]).await;
    let entries = expect(hub, &auditor, "GET", "/audit?operator=amina", "", 200).await;
    let of_set: Vec<_> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["object"].as_str().unwrap().contains(", by change set "))
        .map(|entry| (entry["action"].as_str().unwrap(), entry["onBehalfOf"].as_str().unwrap()))
        .collect();
    let actions = ["participant.create", "limit.raise", "funds.in", "endpoint.set"];
    assert_eq!(of_set, actions.map(|action| (action, "deploy")));
}

fn told(change: &Value) -> String {
    let text = |name: &str| change[name].as_str().unwrap();
    let (before, after) = (text("before"), text("after"));
    format!("{} {} {}: {before} → {after}", change["number"], text("action"), text("object"))
}

/// Proposer and approver need the role for every change. A list marks the approvals that the operator may not decide.
#[tokio::test]
async fn change_in_a_set_needs_its_role() {
    let scheme = Scheme::start().await;
    let (hub, admins) = (&scheme.hub, (&*scheme.ines, &*scheme.ivan));
    let olga = approved_service(hub, admins, "olga", &["operations"]).await;
    let omar = approved_service(hub, admins, "omar", &["operations-approver"]).await;
    let refused = scheme.propose(&olga, &new_dfsp("green", 1), 403).await;
    let text = refused["errorInformation"]["errorDescription"].as_str().unwrap();
    assert!(text.contains("Change 2: needs the permission limit.raise"), "{text}");

    let waiting = scheme.propose(&scheme.deploy, &new_dfsp("green", 1), 202).await;
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    let (status, body) = call(hub, &omar, "POST", &path, "{}").await;
    assert!(status == 403 && body.contains("approval.treasury"), "{body}");
    let (status, body) = call(hub, &scheme.deploy, "POST", &path, "{}").await;
    assert!(status == 403, "{body}");
    for (token, expected) in [(&omar, false), (&scheme.deploy, false), (&scheme.amina, true)] {
        let page = expect(hub, token, "GET", "/approvals?state=pending", "", 200).await;
        assert_eq!(page["approvals"][0]["mayDecide"], expected, "{page}");
    }
    // A proposer who has lost a role that the set needs.
    expect(hub, &scheme.ines, "PUT", "/operators/deploy", r#"{"roles":["operations"]}"#, 200).await;
    let (status, body) = call(hub, &scheme.amina, "POST", &path, "{}").await;
    assert!(status == 400 && body.contains("The proposer no longer has the permission for this"), "{body}");
}

/// A set is checked by the rules of its changes, and rejected as a whole before it is pending.
#[tokio::test]
async fn mistake_in_a_change_set_is_reported_with_its_change() {
    let scheme = Scheme::start().await;
    scheme.onboard("green", 1).await;
    let first = cap("green", 2_000);
    for (change, status, expected) in [
        (
            json!({"method": "PUT", "path": "/participants/green/limits", "body": {}}),
            400,
            "Change 2: \"currency\" is required",
        ),
        (
            json!({"method": "PUT", "path": "/participants/green/limits"}),
            400,
            "Change 2: the body is not JSON",
        ),
        (json!({"method": "GET", "path": "/participants"}), 400, "must be one of [POST, PUT, DELETE]"),
        (
            json!({"method": "POST", "path": "/operators", "body": {"name": "x", "roles": []}}),
            400,
            "must begin with one of",
        ),
        (
            json!({"method": "PUT", "path": "/log-level", "body": {"level": "trace"}}),
            400,
            "must begin with one of",
        ),
        (json!({"method": "POST", "path": "/changeSets", "body": {}}), 400, "must begin with one of"),
        (
            json!({"method": "POST", "path": "http://other/participants", "body": {}}),
            400,
            "must begin with one of",
        ),
        (
            json!({"method": "PUT", "path": "/participants"}),
            405,
            "Change 2: This resource does not support this method",
        ),
        (cap("nobank", 2_000), 400, "Change 2: Participant 'nobank' does not exist"),
    ] {
        let set = json!({"name": "caps", "changes": [first, change]});
        let refused = scheme.propose(&scheme.deploy, &set, status).await;
        let text = refused["errorInformation"]["errorDescription"].as_str().unwrap();
        assert!(text.contains(expected), "{change}: {text}");
    }
    let short = json!({"name": "caps", "reason": "short", "changes": [first]});
    scheme.propose(&scheme.deploy, &short, 400).await;
    let page = expect(&scheme.hub, &scheme.amina, "GET", "/approvals?state=pending", "", 200).await;
    assert_eq!(page["totals"]["pending"], 0, "{page}");
}

/// A set that needs no second operator is not proposed, and the operator makes the changes itself.
#[tokio::test]
async fn change_set_that_needs_no_approval_is_not_proposed() {
    let scheme = Scheme::start().await;
    scheme.onboard("green", 1).await;
    for value in [900, 1_000] {
        let set = json!({"name": "caps", "changes": [cap("green", value)]});
        assert_eq!(scheme.propose(&scheme.deploy, &set, 200).await, json!({"approvalId": null}));
    }
    assert_eq!(scheme.cap("green").await, 1_000);
    let (hub, admin) = with_admin().await;
    let tara = service(&hub, &admin, "tara", &["treasury"], None).await;
    let set = json!({"name": "caps", "changes": [cap("green", 5)]}).to_string();
    assert_eq!(expect(&hub, &tara, "POST", "/changeSets", &set, 200).await, json!({"approvalId": null}));
    for (hub, token, expected) in [(&scheme.hub, &scheme.deploy, true), (&hub, &tara, false)] {
        assert_eq!(expect(hub, token, "GET", "/self", "", 200).await["secondPerson"], expected);
    }
}

/// A rejection in the middle is visible, and the set continues when its reason is gone.
#[tokio::test]
async fn stopped_change_set_continues_after_another_approval() {
    let scheme = Scheme::start().await;
    let hub = &scheme.hub;
    scheme.onboard("green", 1).await;
    scheme.onboard("blue", 2).await;
    let binding = json!({"kind": "san-dns", "value": "a.example"});
    let set = json!({"name": "money", "changes": [
        cap("blue", 2_000),
        {"method": "POST", "path": "/participants/green/bindings", "body": binding},
        cap("green", 2_000),
    ]});
    let waiting = scheme.propose(&scheme.deploy, &set, 202).await;
    // After the approval, and before the hub makes the changes, another DFSP gets the binding.
    approve_only(hub, waiting["approvalId"].as_u64().unwrap()).await;
    let path = "/participants/blue/bindings";
    let other = expect_because(hub, &scheme.deploy, "POST", path, &binding.to_string(), 202).await;
    approve(hub, &scheme.amina, &other).await;
    continue_change_sets(hub.handle.clone()).await;
    let shown = scheme.approval(&waiting).await;
    assert_eq!((&shown["state"], &shown["mayDecide"]), (&json!("stopped"), &json!(true)), "{shown}");
    assert_eq!(shown["changeSet"]["made"], 1);
    let why = "Generic client error - Participant 'blue' has this binding";
    assert_eq!(shown["changeSet"]["stopped"], why);
    let diff: Vec<_> = shown["changeSet"]["diff"].as_array().unwrap().iter().collect();
    assert_eq!((diff.len(), &diff[0]["number"], &diff[0]["refused"]), (2, &json!(2), &json!(why)));
    let listed = expect(hub, &scheme.amina, "GET", "/approvals?state=stopped", "", 200).await;
    assert_eq!(listed["approvals"].as_array().unwrap().len(), 1);
    assert_eq!((scheme.cap("blue").await, scheme.cap("green").await), (json!(2_000), json!(1_000)));

    let binding = format!("{path}?kind=san-dns&value=a.example");
    expect(hub, &scheme.deploy, "DELETE", &binding, "", 204).await;
    let decided = approve(hub, &scheme.amina, &waiting).await;
    assert_eq!((&decided["state"], &decided["result"]), (&json!("executed"), &json!("3 changes were made")));
    assert_eq!(scheme.cap("green").await, 2_000);
}

/// The hub ended between the approval and the changes. The next start makes them.
#[tokio::test]
async fn approved_change_sets_continue_after_a_restart() {
    let scheme = Scheme::start().await;
    scheme.onboard("green", 1).await;
    let set = json!({"name": "caps", "changes": [cap("green", 2_000), cap("green", 3_000)]});
    let waiting = scheme.propose(&scheme.deploy, &set, 202).await;
    approve_only(&scheme.hub, waiting["approvalId"].as_u64().unwrap()).await;
    assert_eq!(scheme.approval(&waiting).await["state"], "applying");
    continue_change_sets(scheme.hub.handle.clone()).await;
    assert_eq!(scheme.approval(&waiting).await["state"], "executed");
    assert_eq!(scheme.cap("green").await, 3_000);
}

/// Approves through the engine only, as if the hub had ended right afterwards.
async fn approve_only(hub: &Hub, id: u64) {
    let by = AuditActor {
        operator: "amina".into(),
        known_by: "token 1".into(),
        address: None,
        on_behalf_of: None,
        action: "approval.treasury".into(),
        reason: None,
    };
    let kind = ProposalDecisionKind::Approve(|refusal| format!("{refusal:?}"));
    let action = OperatorAction::Decide(ProposalDecision { id, kind, comment: None });
    let command = Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL }));
    let reply = hub.handle.submit(command, Payload::default()).await.unwrap();
    let applying = AdminOutcome::ProposalEnded(id, ProposalState::Applying, None);
    assert_eq!(reply.into_outcome(), Some(Ok(applying)));
}

/// A changed callback host is one change, by two operators or by one.
#[tokio::test]
async fn endpoints_of_a_dfsp_are_one_change() {
    let scheme = Scheme::start().await;
    let hub = &scheme.hub;
    scheme.onboard("green", 1).await;
    let path = "/participants/green/endpoints";
    let body = r#"{"baseUrl":"http://new.example"}"#;
    let waiting = expect_because(hub, &scheme.deploy, "PUT", path, body, 202).await;
    assert_eq!(waiting["object"], "29 endpoints of green");
    let quotes = "FSPIOP_CALLBACK_URL_QUOTES http://quotes.example";
    assert_eq!(waiting["before"], format!("28 at http://green.example:4000, {quotes}"));
    assert_eq!(waiting["after"], "29 at http://new.example");
    assert_eq!(approve(hub, &scheme.amina, &waiting).await["state"], "executed");
    let all = expect(hub, &scheme.deploy, "GET", path, "", 200).await;
    let values = all.as_array().unwrap().iter().map(|one| one["value"].as_str().unwrap());
    assert_eq!(values.filter(|value| value.starts_with("http://new.example")).count(), 29);
    for (body, expected) in [
        (r#"{}"#, "\\\"baseUrl\\\" or \\\"endpoints\\\" is required"),
        (r#"{"baseUrl":"new.example"}"#, "must be a URL that begins with"),
        (r#"{"endpoints":[{"type":"X","value":"http://a"}]}"#, "must be a known endpoint type"),
    ] {
        let (status, answer) = call(hub, &scheme.deploy, "PUT", path, body).await;
        assert!(status == 400 && answer.contains(expected), "{body}: {answer}");
    }
}
