//! Two-person changes over sockets: proposed, decided by another operator, made once, and rejected.

use serde_json::{Value, json};

use super::common::people::{approve, approved_service, call, expect, expect_because, send, with_approvals};
use crate::common;
use crate::common::{Hub, funds_in, id};

const HOUR_MS: i64 = 3_600_000;

/// A hub with a DFSP, and operators of each kind.
struct Scheme {
    hub: Hub,
    ines: String,
    ivan: String,
    treasury: String,
    approver: String,
    operations: String,
    operations_approver: String,
}

impl Scheme {
    async fn start() -> Self {
        let (hub, ines, ivan) = with_approvals().await;
        let made = async |name: &str, role: &str| approved_service(&hub, (&ines, &ivan), name, &[role]).await;
        let treasury = made("tara", "treasury").await;
        let approver = made("tom", "treasury-approver").await;
        let operations = made("olga", "operations").await;
        let operations_approver = made("omar", "operations-approver").await;
        let scheme = Self { hub, ines, ivan, treasury, approver, operations, operations_approver };
        scheme.onboard().await;
        scheme
    }

    async fn onboard(&self) {
        let Self { hub, operations, .. } = self;
        for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
            let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
            expect(hub, operations, "POST", "/participants/Hub/accounts", &body, 201).await;
        }
        expect(hub, operations, "POST", "/settlementModels", common::MODEL, 201).await;
        let green = r#"{"name":"green","currency":"KES"}"#;
        let waiting = expect_because(hub, operations, "POST", "/participants", green, 202).await;
        // Nothing exists before the approval.
        expect(hub, operations, "GET", "/participants/green", "", 400).await;
        approve(hub, &self.operations_approver, &waiting).await;
        expect(hub, operations, "GET", "/participants/green", "", 200).await;
        let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1000}}"#;
        let path = "/participants/green/initialPositionAndLimits";
        let waiting = expect_because(hub, &self.treasury, "POST", path, limit, 202).await;
        approve(hub, &self.approver, &waiting).await;
    }

    /// Proposes a net debit cap.
    async fn propose_cap(&self, value: u32) -> Value {
        let (path, body) = ("/participants/green/limits", cap(value));
        expect_because(&self.hub, &self.treasury, "PUT", path, &body, 202).await
    }

    async fn cap(&self) -> Value {
        let limits = expect(&self.hub, &self.treasury, "GET", "/participants/green/limits", "", 200).await;
        limits[0]["limit"]["value"].clone()
    }

    async fn decide(&self, token: &str, waiting: &Value, verb: &str, body: &str) -> (u16, String) {
        call(&self.hub, token, "POST", &format!("/approvals/{}/{verb}", waiting["approvalId"]), body).await
    }
}

fn cap(value: u32) -> String {
    format!(r#"{{"currency":"KES","limit":{{"type":"NET_DEBIT_CAP","value":{value},"alarmPercentage":8}}}}"#)
}

#[tokio::test]
async fn change_is_made_after_a_second_operator_approves() {
    let scheme = Scheme::start().await;
    let (hub, treasury) = (&scheme.hub, &scheme.treasury);
    let path = "/participants/green/accounts/4";
    let deposit = funds_in(&id(1).to_string(), "500").replace("prefund", "as the bank says");
    let waiting = expect(hub, treasury, "POST", path, &deposit, 202).await;
    assert_eq!((&waiting["state"], &waiting["action"]), (&json!("pending"), &json!("funds.in")));
    assert_eq!(waiting["reason"], "as the bank says");
    // A repetition is the same proposal.
    let again = expect(hub, treasury, "POST", path, &deposit, 202).await;
    assert_eq!(again["approvalId"], waiting["approvalId"]);
    let full = format!("/approvals/{}", waiting["approvalId"]);
    let shown = expect(hub, &scheme.approver, "GET", &full, "", 200).await;
    assert_eq!(shown["change"]["type"], "prepareFunds");
    assert_eq!(shown["change"]["amount"], "500");
    assert_eq!(shown["change"]["externalReference"], "bank-555");
    let funds = format!("{path}/transfers/{}", id(1));
    expect(hub, treasury, "GET", &funds, "", 400).await;
    let decided = approve(hub, &scheme.approver, &waiting).await;
    assert_eq!((&decided["state"], &decided["result"]), (&json!("executed"), &json!("COMMITTED")));
    assert_eq!((&decided["decidedBy"], &decided["comment"]), (&json!("tom"), &json!("looked at")));
    assert_eq!(expect(hub, treasury, "GET", &funds, "", 200).await["transferState"], "COMMITTED");

    // The trail has both operators, in the record of the effect.
    let auditor = approved_service(hub, (&scheme.ines, &scheme.ivan), "ada", &["auditor"]).await;
    let entries = expect(hub, &auditor, "GET", "/audit?action=funds.in", "", 200).await;
    let entry = entries["entries"].as_array().unwrap().last().unwrap();
    assert_eq!((&entry["operator"], &entry["onBehalfOf"]), (&json!("tom"), &json!("tara")), "{entry}");
    assert_eq!(entry["reason"], "as the bank says");
}

/// Operators who may not decide, and approvals that can no longer be decided: nothing changes.
#[tokio::test]
async fn approval_that_is_not_permitted_is_rejected() {
    let scheme = Scheme::start().await;
    let hub = &scheme.hub;
    let waiting = scheme.propose_cap(2_000).await;
    let approve_it = async |token: &str| scheme.decide(token, &waiting, "approve", "{}").await;
    // The proposer, also with the approver's role, which an operator cannot have in addition to its own.
    assert_eq!(approve_it(&scheme.treasury).await.0, 403);
    for token in [&scheme.operations_approver, &scheme.operations, &scheme.ines] {
        let (status, body) = approve_it(token).await;
        assert_eq!(status, 403, "{body}");
        assert!(body.contains("needs the permission"), "{body}");
    }
    assert_eq!(call(hub, "upesi_x", "POST", "/approvals/1/approve", "{}").await.0, 401);
    let (status, body) = scheme.decide(&scheme.approver, &waiting, "withdraw", "{}").await;
    assert!(status == 400 && body.contains("Only the operator who proposed it may withdraw it"), "{body}");
    let (status, body) = scheme.decide(&scheme.approver, &waiting, "reject", "{}").await;
    assert!(status == 400 && body.contains("\\\"comment\\\" is required"), "{body}");
    assert_eq!(scheme.cap().await, 1_000);

    // Another operator lowers the cap meanwhile, so the proposer's view is outdated.
    expect(hub, &scheme.treasury, "PUT", "/participants/green/limits", &cap(10), 200).await;
    let failed: Value = serde_json::from_str(&approve_it(&scheme.approver).await.1).unwrap();
    assert_eq!(failed["state"], "failed", "{failed}");
    assert_eq!(failed["result"], "it was 1000, alarm at 80 % and is 10, alarm at 8 %");
    assert_eq!(scheme.cap().await, 10);
    let (status, body) = approve_it(&scheme.approver).await;
    assert!(
        status == 400 && body.contains("The approval's state does not permit this: it is failed"),
        "{body}"
    );

    // The approval has expired.
    let waiting = scheme.propose_cap(3_000).await;
    hub.clock.advance(24 * HOUR_MS + 1);
    let (status, body) = scheme.decide(&scheme.approver, &waiting, "approve", "{}").await;
    assert!(status == 400 && body.contains("it is expired"), "{body}");

    // Rejected, withdrawn, or by a proposer who has lost the role.
    let waiting = scheme.propose_cap(4_000).await;
    assert_eq!(scheme.decide(&scheme.approver, &waiting, "reject", r#"{"comment":"no"}"#).await.0, 200);
    assert_eq!(scheme.decide(&scheme.approver, &waiting, "approve", "{}").await.0, 400);
    let waiting = scheme.propose_cap(5_000).await;
    assert_eq!(scheme.decide(&scheme.treasury, &waiting, "withdraw", "{}").await.0, 200);
    assert_eq!(scheme.decide(&scheme.approver, &waiting, "approve", "{}").await.0, 400);
    let waiting = scheme.propose_cap(6_000).await;
    expect(hub, &scheme.ines, "PUT", "/operators/tara", r#"{"roles":[]}"#, 200).await;
    let (status, body) = scheme.decide(&scheme.approver, &waiting, "approve", "{}").await;
    assert!(status == 400 && body.contains("The proposer no longer has the permission for this"), "{body}");
    let cap = expect(hub, &scheme.approver, "GET", "/participants/green/limits", "", 200).await;
    assert_eq!(cap[0]["limit"]["value"], 10);
}

/// If several operators approve a proposal at once, the change is made once.
#[tokio::test]
async fn concurrent_approvals_make_the_change_once() {
    let scheme = Scheme::start().await;
    let path = "/participants/green/accounts/4";
    for number in 1..=5 {
        let deposit = funds_in(&id(number).to_string(), "7").replace("prefund", "as the bank says");
        let waiting = expect(&scheme.hub, &scheme.treasury, "POST", path, &deposit, 202).await;
        let approve = || scheme.decide(&scheme.approver, &waiting, "approve", "{}");
        let answers = tokio::join!(approve(), approve(), approve(), approve());
        let answers = [answers.0, answers.1, answers.2, answers.3];
        assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1, "{answers:?}");
    }
    let accounts =
        expect(&scheme.hub, &scheme.treasury, "GET", "/participants/green/accounts", "", 200).await;
    let settlement = accounts.as_array().unwrap().iter().find(|one| one["ledgerAccountType"] == "SETTLEMENT");
    assert_eq!(settlement.unwrap()["value"], -35, "{accounts}");
}

#[tokio::test]
async fn proposal_needs_a_reason_and_the_list_is_filtered() {
    let scheme = Scheme::start().await;
    let hub = &scheme.hub;
    let lines = format!("authorization: Bearer {}\r\nupesi-reason: short\r\n", scheme.treasury);
    let path = "/participants/green/limits";
    let (status, _, body) = send(hub, &lines, "PUT", path, &cap(7_000)).await;
    assert!(status == 400 && body.contains("\"errorName\":\"reason_required\""), "{body}");
    for value in [7_000, 8_000, 9_000] {
        scheme.propose_cap(value).await;
    }
    let list = async |query: &str| {
        let path = format!("/approvals?{query}");
        expect(hub, &scheme.approver, "GET", &path, "", 200).await
    };
    let pending = list("state=pending").await;
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 3, "{pending}");
    assert_eq!(pending["totals"]["pending"], 3);
    let first = list("state=pending&limit=2").await;
    let next = first["next"].as_str().unwrap();
    let rest = list(&format!("state=pending&limit=2&after={next}")).await;
    assert_eq!((rest["approvals"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    assert_eq!(list("maker=olga&state=executed").await["approvals"].as_array().unwrap().len(), 1);
    assert_eq!(list("action=limit.raise&state=executed").await["approvals"].as_array().unwrap().len(), 1);
    for (query, text) in [
        ("state=open", "must be one of [pending, executed"),
        ("action=dance", "must be one of the permissions"),
        ("after=x", "must be the \\\"next\\\" of a page"),
        ("who=x", "is not allowed"),
    ] {
        let (status, body) = call(hub, &scheme.approver, "GET", &format!("/approvals?{query}"), "").await;
        assert!(status == 400 && body.contains(text), "{query}: {body}");
    }
}

/// A stricter policy needs one operator, a milder one two. A waived change needs one.
#[tokio::test]
async fn policy_gets_stricter_by_one_operator_and_milder_by_two() {
    let scheme = Scheme::start().await;
    let (hub, path) = (&scheme.hub, "/approvals/policy");
    let policy = expect(hub, &scheme.ines, "GET", path, "", 200).await;
    let mut all = policy.clone();
    all["secondPerson"].as_array_mut().unwrap().push("window.close".into());
    assert_eq!(expect(hub, &scheme.ines, "PUT", path, &all.to_string(), 200).await["waived"], json!([]));
    let mut waived = all.clone();
    waived["waived"] = json!([{"currency": "KES", "amount": 100}]);
    let waiting = expect_because(hub, &scheme.ines, "PUT", path, &waived.to_string(), 202).await;
    assert_eq!(scheme.decide(&scheme.ines, &waiting, "approve", "{}").await.0, 400);
    assert_eq!(scheme.decide(&scheme.approver, &waiting, "approve", "{}").await.0, 403);
    approve(hub, &scheme.ivan, &waiting).await;
    assert_eq!(expect(hub, &scheme.ines, "GET", path, "", 200).await["waived"][0]["amount"], 100);
    let account = "/participants/green/accounts/4";
    expect(hub, &scheme.treasury, "POST", account, &funds_in(&id(1).to_string(), "100"), 202).await;
    let funds = format!("{account}/transfers/{}", id(1));
    assert_eq!(expect(hub, &scheme.treasury, "GET", &funds, "", 200).await["transferState"], "COMMITTED");
    expect(hub, &scheme.treasury, "PUT", path, &all.to_string(), 403).await;
    for body in [
        r#"{"secondPerson":[]}"#,
        r#"{"secondPerson":["limit.lower"],"waived":[]}"#,
        r#"{"secondPerson":[],"waived":[{"currency":"KES","amount":0}]}"#,
    ] {
        expect(hub, &scheme.ines, "PUT", path, body, 400).await;
    }
}

/// Two administrators are needed to grant rights, one to revoke them. A change that one administrator makes alone needs
/// no approval.
#[tokio::test]
async fn operator_needs_two_administrators() {
    let scheme = Scheme::start().await;
    let (hub, ines) = (&scheme.hub, &scheme.ines);
    let body = r#"{"name":"puppet","roles":["treasury-approver"]}"#;
    let waiting = expect_because(hub, ines, "POST", "/operators", body, 202).await;
    assert_eq!(scheme.decide(ines, &waiting, "approve", "{}").await.0, 400);
    expect(hub, ines, "GET", "/operators/puppet", "", 400).await;
    let token = expect_because(hub, ines, "POST", "/operators/tom/tokens", "{}", 202).await;
    assert_eq!(call(hub, token["token"].as_str().unwrap(), "GET", "/self", "").await.0, 401);
    expect(hub, ines, "PUT", "/operators/tom", r#"{"isActive":false}"#, 200).await;
    expect_because(hub, ines, "PUT", "/operators/tom", r#"{"isActive":true}"#, 202).await;
    expect_because(hub, ines, "PUT", "/operators/ivan", r#"{"isActive":false}"#, 202).await;
    assert_eq!(call(hub, &scheme.ivan, "GET", "/self", "").await.0, 200);
}
