//! Permissions of operators: authentication by tokens, permissions by role, and records of rejections.

use serde_json::Value;
use upesi_admin::{BREAK_GLASS_FILE, Operation, make_bootstrap, open_break_glass, seal_break_glass};
use upesi_engine::Payload;
use upesi_ledger::command::NewOperator;
use upesi_ledger::{AdminCommand, Command, OperatorRole, OperatorRoles};

use super::common::people::{
    approved_service, call, expect, expect_because, guarded, send, service, with_admin, with_approvals,
};
use crate::common;
use crate::common::{Hub, START, id, name, prepare};
use crate::oidc::last_refusal;

const DAY_MS: i64 = 24 * 3_600_000;

async fn trail(hub: &Hub) -> u64 {
    hub.handle.read(|ledger| ledger.trail().count).await.unwrap()
}

async fn last_seq(hub: &Hub) -> u64 {
    hub.handle.read(|ledger| ledger.last_seq()).await.unwrap()
}

/// The path with values for its names, and a JSON body.
fn example(operation: &Operation) -> (String, &'static str) {
    let mut path = operation.path.replace("{name}", "green").replace("{operator}", "nosuch");
    while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
        path.replace_range(from..=to, "1");
    }
    (path, "{}")
}

#[tokio::test]
async fn callers_without_valid_credential_reach_only_open_operations() {
    let (hub, admin) = with_admin().await;
    let other = Hub::start();
    let stranger = make_bootstrap(other.directory.path()).unwrap();
    let before = last_seq(&hub).await;
    let cases = [
        String::new(),
        "authorization: \r\n".to_owned(),
        "authorization: Bearer\r\n".to_owned(),
        format!("authorization: Bearer {stranger}\r\n"),
        format!("authorization: Bearer {admin}x\r\n"),
        format!("authorization: Basic {admin}\r\n"),
        format!("authorization: Bearer {admin}\r\nauthorization: Bearer {admin}\r\n"),
        format!("upesi-token: {admin}\r\n"),
    ];
    let mut refused = 0;
    for operation in hub.operations.clone() {
        let (path, body) = example(&operation);
        // Wrong credentials of an address are slowed down, so only one operation tries all of them.
        for lines in if operation.path == "/participants" { &cases[..] } else { &cases[..1] } {
            let (status, head, body) = send(&hub, lines, operation.method.as_str(), &path, body).await;
            let is_wrong = !lines.is_empty() && !lines.starts_with("upesi");
            if operation.is_open && !is_wrong {
                assert_ne!(status, 401, "{operation:?}: {body}");
                continue;
            }
            assert_eq!(status, 401, "{operation:?} {lines}: {body}");
            assert!(head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{head}");
            assert!(!body.contains("upesi_"), "{body}");
            refused += 1;
        }
    }
    assert!(refused > 70, "{refused}");
    // Only some of the rejections of wrong credentials are recorded, and no other records are written.
    let (seq, kept) = (last_seq(&hub).await, trail(&hub).await);
    assert!(seq - before <= 40, "{before} {seq} {kept}");
    assert_eq!(expect(&hub, &admin, "GET", "/self", "", 200).await["operator"], "iam");
}

/// Each role × each operation: rejected if the role has none of the operation's permissions, otherwise not.
#[tokio::test]
async fn role_permits_exactly_its_operations() {
    let (hub, admin) = with_admin().await;
    let mut counts = [0, 0];
    for role in OperatorRole::ALL.into_iter().filter(|role| !role.is_of_dfsp()) {
        let token = service(&hub, &admin, &format!("a-{}", role.name()), &[role.name()], None).await;
        let own = expect(&hub, &token, "GET", "/self", "", 200).await;
        let own: Vec<_> =
            own["permissions"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        for operation in hub.operations.clone() {
            if operation.path.starts_with("/debug/") && own.contains(&"process.profile") {
                continue;
            }
            let (path, body) = example(&operation);
            let (status, body) = call(&hub, &token, operation.method.as_str(), &path, body).await;
            let is_allowed = operation.permissions.is_empty()
                || operation.permissions.iter().any(|permission| own.contains(permission));
            assert_eq!(status == 403, !is_allowed, "{} {operation:?}: {status} {body}", role.name());
            assert_ne!(status, 401, "{operation:?}");
            counts[usize::from(is_allowed)] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

/// If an operation has several permissions, the request decides which one is needed.
#[tokio::test]
async fn request_decides_which_permission_is_needed() {
    let (hub, admin) = with_admin().await;
    for roles in [["operations"], ["treasury"]] {
        let token = service(&hub, &admin, roles[0], &roles, None).await;
        if roles == ["operations"] {
            for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
                let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
                expect(&hub, &token, "POST", "/participants/Hub/accounts", &body, 201).await;
            }
            expect(&hub, &token, "POST", "/settlementModels", common::MODEL, 201).await;
            let green = r#"{"name":"green","currency":"KES"}"#;
            expect(&hub, &token, "POST", "/participants", green, 201).await;
        }
        let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1000}}"#;
        let status = if roles == ["treasury"] { 201 } else { 403 };
        expect(&hub, &token, "POST", "/participants/green/initialPositionAndLimits", limit, status).await;
    }
    // A security officer may deactivate a participant, but not activate it again.
    let officer = service(&hub, &admin, "officer", &["security-officer"], None).await;
    let (before, path) = (trail(&hub).await, "/participants/green");
    expect(&hub, &officer, "PUT", path, r#"{"isActive":false}"#, 200).await;
    let (status, body) = call(&hub, &officer, "PUT", path, r#"{"isActive":true}"#).await;
    assert_eq!(status, 403);
    assert!(body.contains("needs the permission participant.enable"), "{body}");
    let is_active = hub.handle.read(|ledger| ledger.participant_named(&name("green")).unwrap().is_active);
    assert!(!is_active.await.unwrap());
    assert_eq!(trail(&hub).await, before + 2);
}

#[tokio::test]
async fn operators_of_a_dfsp_see_only_its_data() {
    let (hub, admin) = with_admin().await;
    let operations = service(&hub, &admin, "operations", &["operations"], None).await;
    for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
        let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
        expect(&hub, &operations, "POST", "/participants/Hub/accounts", &body, 201).await;
    }
    expect(&hub, &operations, "POST", "/settlementModels", common::MODEL, 201).await;
    for name in ["green", "blue", "red"] {
        let body = format!(r#"{{"name":"{name}","currency":"KES"}}"#);
        expect(&hub, &operations, "POST", "/participants", &body, 201).await;
    }
    // The payers have no cover: both transfers are rejected, and recorded as rejected.
    hub.submit(prepare(id(1), "green", "blue", "7"), "").await;
    hub.submit(prepare(id(2), "blue", "red", "9"), "").await;
    let token = service(&hub, &admin, "green-ci", &["dfsp-machine"], Some("green")).await;
    let own = expect(&hub, &token, "GET", "/transfers", "", 200).await;
    let ids: Vec<_> =
        own["transfers"].as_array().unwrap().iter().map(|one| one["transferId"].clone()).collect();
    assert_eq!(ids, [id(1).to_string()]);
    expect(&hub, &token, "GET", &format!("/transfers/{}", id(1)), "", 200).await;
    let unknown = call(&hub, &token, "GET", &format!("/transfers/{}", id(3)), "").await;
    let others = call(&hub, &token, "GET", &format!("/transfers/{}", id(2)), "").await;
    assert_eq!(others.0, unknown.0);
    assert_eq!(others.1, unknown.1.replace(&id(3).to_string(), &id(2).to_string()));
    for operation in hub.operations.clone() {
        let (path, body) = example(&operation);
        for (path, is_own) in [(path.clone(), true), (path.replace("green", "blue"), false)] {
            let (status, answer) = call(&hub, &token, operation.method.as_str(), &path, body).await;
            let reads = ["participant.read", "transfer.search", "transfer.read"];
            let is_allowed = operation.is_for_dfsps
                && (operation.permissions.is_empty()
                    || operation.permissions.iter().any(|permission| reads.contains(permission)))
                && (is_own || !operation.path.starts_with("/participants/{name}"));
            assert_eq!(status == 403, !is_allowed, "{path} {operation:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn token_ends_by_expiry_removal_or_inactive_operator() {
    let (hub, admin) = with_admin().await;
    let token = service(&hub, &admin, "deploy", &["viewer"], None).await;
    let made = expect(&hub, &admin, "POST", "/operators/deploy/tokens", r#"{"days":2}"#, 201).await;
    let short = made["token"].as_str().unwrap();
    assert_eq!(made["expiration"], "2031-04-03T10:00:00.000Z");
    let status = async |token: &str| call(&hub, token, "GET", "/participants", "").await.0;
    assert_eq!((status(&token).await, status(short).await), (200, 200));
    hub.clock.advance(2 * DAY_MS);
    assert_eq!((status(&token).await, status(short).await), (200, 401));
    assert_eq!(last_refusal(&hub).await, "the token 2 of deploy has expired");
    let shown = expect(&hub, &admin, "GET", "/operators/deploy", "", 200).await;
    assert_eq!(shown["credentials"][0]["id"], 1);
    assert!(!shown.to_string().contains("upesi_"), "{shown}");
    expect(&hub, &admin, "PUT", "/operators/deploy", r#"{"isActive":false}"#, 200).await;
    assert_eq!(status(&token).await, 401);
    expect(&hub, &admin, "PUT", "/operators/deploy", r#"{"isActive":true,"roles":[]}"#, 200).await;
    assert_eq!(status(&token).await, 403);
    expect(&hub, &admin, "PUT", "/operators/deploy", r#"{"roles":["viewer"]}"#, 200).await;
    assert_eq!(status(&token).await, 200);
    expect(&hub, &admin, "DELETE", "/operators/deploy/credentials/1", "", 204).await;
    assert_eq!(status(&token).await, 401);
    for (method, path, body, code) in [
        ("POST", "/operators", r#"{"name":"deploy","roles":[]}"#, "3000"),
        ("POST", "/operators", r#"{"name":"x","roles":["king"]}"#, "3101"),
        ("POST", "/operators", r#"{"name":"X","roles":[]}"#, "3101"),
        ("POST", "/operators", r#"{"name":"x","roles":["auditor","treasury"]}"#, "3100"),
        ("POST", "/operators/deploy/tokens", r#"{"days":367}"#, "3101"),
        ("POST", "/operators/deploy/tokens", r#"{"days":1.5}"#, "3101"),
        ("POST", "/operators/nosuch/tokens", "{}", "3200"),
        ("PUT", "/operators/nosuch", "{}", "3200"),
        ("GET", "/operators/nosuch", "", "3200"),
        ("DELETE", "/operators/deploy/credentials/1", "", "3200"),
    ] {
        let (status, answer) = call(&hub, &admin, method, path, body).await;
        assert!(status == 400 && answer.contains(&format!("\"{code}\"")), "{method} {path} {body}: {answer}");
    }
}

/// An unlimited number of rejections fills neither the journal nor the log.
#[tokio::test]
async fn recorded_rejections_are_limited() {
    let (hub, admin) = with_admin().await;
    let token = service(&hub, &admin, "deploy", &["viewer"], None).await;
    let before = trail(&hub).await;
    for _ in 0..100 {
        let body = r#"{"isActive":false}"#;
        assert_eq!(call(&hub, &token, "PUT", "/participants/green", body).await.0, 403);
    }
    let kept = trail(&hub).await - before;
    assert!((30..60).contains(&kept), "{kept}");
}

/// Operators that are set through the engine, as in a restored journal, are equivalent to operators of the API.
#[tokio::test]
async fn bootstrap_token_only_creates_operators() {
    let hub = guarded();
    let bootstrap = make_bootstrap(hub.directory.path()).unwrap();
    let own = expect(&hub, &bootstrap, "GET", "/self", "", 200).await;
    assert_eq!(
        own["permissions"],
        serde_json::json!(["approval.read", "approval.iam", "approval.policy", "iam.read", "iam.user"])
    );
    expect(&hub, &bootstrap, "GET", "/participants", "", 403).await;
    let roles = OperatorRoles::from_iter([OperatorRole::Viewer]);
    let new = NewOperator { name: "reader".into(), roles, participant: None, is_active: true };
    let command = Command::Admin(AdminCommand::SetOperator(new));
    hub.handle.submit(command, Payload::default()).await.unwrap();
    let made = expect(&hub, &bootstrap, "POST", "/operators/reader/tokens", "{}", 201).await;
    expect(&hub, made["token"].as_str().unwrap(), "GET", "/participants", "", 200).await;
    // The bootstrap token makes one token. A user who can write to the data directory can make a new one.
    assert_eq!(call(&hub, &bootstrap, "GET", "/self", "").await.0, 401);
    let again = make_bootstrap(hub.directory.path()).unwrap();
    assert_eq!(call(&hub, &again, "GET", "/self", "").await.0, 200);
}

// The audit trail through the API: pages, filters, time ranges, with or without signed checkpoints.

async fn page(hub: &Hub, query: &str) -> (Vec<u64>, Option<String>) {
    let body: Value = serde_json::from_str(&hub.get(&format!("/audit{query}")).await).unwrap();
    let numbers = body["entries"].as_array().unwrap().iter().map(|entry| entry["number"].as_u64().unwrap());
    (numbers.collect(), body["next"].as_str().map(str::to_owned))
}

async fn numbers(hub: &Hub, query: &str) -> Vec<u64> {
    page(hub, query).await.0
}

/// Entries 1 to 9 of two DFSPs and their scheme, one payment, then an entry an hour later.
async fn with_entries() -> Hub {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.submit(prepare(common::id(1), "green", "blue", "1"), "").await;
    hub.clock.advance(3_600_000);
    hub.expect("PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
    hub
}

#[tokio::test]
async fn audit_entries_are_found_by_each_filter() {
    let hub = with_entries().await;
    let (all, next) = page(&hub, "").await;
    assert_eq!(next, None);
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    let body: Value = serde_json::from_str(&hub.get("/audit?action=participant.disable").await).unwrap();
    let entry = &body["entries"][0];
    assert_eq!(entry["operator"], "anonymous");
    assert_eq!(entry["object"], "participant green");
    assert_eq!((&entry["before"], &entry["after"]), (&"active".into(), &"inactive".into()));
    assert_eq!(entry["outcome"], "done");
    assert_eq!(entry["at"], "2031-04-01T11:00:00.000Z");
    let head = hub.handle.read(|ledger| ledger.trail().head).await.unwrap();
    let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(entry["chain"], hex);

    assert_eq!(numbers(&hub, "?object=green").await.last(), Some(&10));
    assert_eq!(numbers(&hub, "?operator=amina").await, [0; 0]);
    assert_eq!(numbers(&hub, "?action=participant").await.last(), Some(&10));
    assert_eq!(numbers(&hub, "?outcome=refused").await, [0; 0]);
    assert_eq!(numbers(&hub, "?from=2031-04-01T10:30:00.000Z").await, [10]);
    assert_eq!(numbers(&hub, "?from=2031-04-01T11:00:00.001Z").await, [0; 0]);
    assert_eq!(numbers(&hub, "?to=2031-04-01T10:30:00.000Z").await.len(), 9);
    assert_eq!(numbers(&hub, &format!("?from={START}")).await.len(), 10);
    for wrong in ["?from=x", "?outcome=maybe", "?limit=0", "?limit=1001", "?cursor=x", "?cursor=0", "?who=x"]
    {
        hub.expect("GET", &format!("/audit{wrong}"), "", 400).await;
    }
}

#[tokio::test]
async fn audit_pages_contain_each_entry_once() {
    let hub = with_entries().await;
    let (mut seen, mut next) = page(&hub, "?limit=3").await;
    let mut pages = 1;
    while let Some(cursor) = next {
        let (more, further) = page(&hub, &format!("?limit=3&cursor={cursor}")).await;
        assert!(more.len() <= 3);
        seen.extend(more);
        next = further;
        pages += 1;
    }
    assert_eq!((seen, pages), ((1..=10).collect(), 4));
}

#[tokio::test]
async fn checkpoint_without_key_is_not_available() {
    let hub = Hub::start();
    let answer = hub.expect("GET", "/audit/checkpoint", "", 400).await;
    assert!(answer.contains("admin.audit_key_file is not set"), "{answer}");
}

// Break-glass: permissions of the token of a sealed code.

/// The token's permissions apart from reading. For operators it permits only the one change below.
const DOES: [&str; 9] = [
    "participant.disable",
    "account.disable",
    "binding.remove",
    "jws.revoke",
    "block.set",
    "callback.redeliver",
    "process.log",
    "iam.user",
    "process.metrics",
];

fn is_allowed(operation: &Operation) -> bool {
    let allowed = |permission: &&&str| {
        let is_read = permission.ends_with(".read") && **permission != "party.read";
        is_read || **permission == "transfer.search" || DOES.contains(permission)
    };
    operation.permissions.is_empty() || operation.permissions.iter().any(|permission| allowed(&permission))
}

#[tokio::test]
async fn break_glass_token_permits_only_protective_actions() {
    let (hub, ines, ivan) = with_approvals().await;
    let operations = approved_service(&hub, (&ines, &ivan), "deploy", &["operations"]).await;
    for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
        let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
        expect(&hub, &operations, "POST", "/participants/Hub/accounts", &body, 201).await;
    }
    expect(&hub, &operations, "POST", "/settlementModels", common::MODEL, 201).await;
    let green = r#"{"name":"green","currency":"KES"}"#;
    let waiting = expect_because(&hub, &operations, "POST", "/participants", green, 202).await;

    let data = hub.directory.path();
    let code = seal_break_glass(data).unwrap();
    // The code itself is not a token.
    assert_eq!(call(&hub, &code, "GET", "/self", "").await.0, 401);
    let token = open_break_glass(data, &code).unwrap();
    let own = expect(&hub, &token, "GET", "/self", "", 200).await;
    assert_eq!((&own["operator"], &own["knownBy"]), (&"break-glass".into(), &"break-glass".into()));
    let mut refused = 0;
    for operation in hub.operations.clone() {
        let mut path = operation.path.replace("{name}", "nosuch").replace("{operator}", "nosuch");
        while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
            path.replace_range(from..=to, "1");
        }
        let (status, body) = call(&hub, &token, operation.method.as_str(), &path, "{}").await;
        // For operators the token permits only one change, depending on the request; see below.
        if status == 403 && operation.permissions == ["iam.user"] {
            assert!(body.contains("break-glass"), "{operation:?}: {body}");
            continue;
        }
        assert_eq!(status == 403, !is_allowed(&operation), "{operation:?}: {status} {body}");
        refused += usize::from(status == 403);
    }
    assert!(refused > 25, "{refused}");
    // The token cannot approve, or activate a DFSP.
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    assert_eq!(call(&hub, &token, "POST", &path, "{}").await.0, 403);
    let security = approved_service(&hub, (&ines, &ivan), "approver", &["operations-approver"]).await;
    expect(&hub, &security, "POST", &path, "{}", 200).await;
    expect(&hub, &token, "PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
    assert_eq!(call(&hub, &token, "PUT", "/participants/green", r#"{"isActive":true}"#).await.0, 403);
    operators_it_lets_in(&hub, &token, &ines, &ivan).await;

    // A new code ends the token.
    seal_break_glass(data).unwrap();
    assert_eq!(call(&hub, &token, "GET", "/self", "").await.0, 401);
    assert!(data.join(BREAK_GLASS_FILE).exists());
}

/// The token activates an inactive administrator again, and permits no other change of operators.
async fn operators_it_lets_in(hub: &common::Hub, token: &str, ines: &str, ivan: &str) {
    let off = r#"{"isActive":false}"#;
    let waiting = expect_because(hub, ines, "PUT", "/operators/ivan", off, 202).await;
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    expect(hub, ivan, "POST", &path, "{}", 200).await;
    expect(hub, ines, "PUT", "/operators/approver", off, 200).await;
    assert_eq!(call(hub, ivan, "GET", "/self", "").await.0, 401);
    for (method, path, body) in [
        ("POST", "/operators", r#"{"name":"eve","roles":["iam-admin"]}"#),
        ("PUT", "/operators/approver", r#"{"isActive":true}"#),
        ("PUT", "/operators/ivan", r#"{"isActive":true,"roles":["iam-admin","viewer"]}"#),
        ("PUT", "/operators/ines", off),
        ("POST", "/operators/ines/tokens", "{}"),
        ("POST", "/operators/ines/enrolments", "{}"),
        ("DELETE", "/operators/ines/credentials/1", ""),
    ] {
        let (status, body) = call(hub, token, method, path, body).await;
        assert!(status == 403 && body.contains("break-glass"), "{method} {path}: {status} {body}");
    }
    expect(hub, token, "PUT", "/operators/ivan", r#"{"isActive":true}"#, 200).await;
    assert_eq!(call(hub, ivan, "GET", "/self", "").await.0, 200);
}

/// The token's use is in the trail before any action, and all its actions have the area `emergency`.
#[tokio::test]
async fn break_glass_actions_are_all_in_the_trail() {
    let (hub, ines, ivan) = with_approvals().await;
    let auditor = approved_service(&hub, (&ines, &ivan), "auditor", &["auditor"]).await;
    let data = hub.directory.path();
    let token = open_break_glass(data, &seal_break_glass(data).unwrap()).unwrap();
    for _ in 0..3 {
        expect(&hub, &token, "GET", "/participants", "", 200).await;
    }
    expect(&hub, &token, "PUT", "/log-level", r#"{"level":"debug"}"#, 200).await;
    call(&hub, &token, "PUT", "/transfers/1", r#"{"action":"expire","reason":"x"}"#).await;
    let page = expect(&hub, &auditor, "GET", "/audit?action=emergency", "", 200).await;
    let entries = page["entries"].as_array().unwrap();
    let told: Vec<_> = entries
        .iter()
        .map(|one| format!("{} {} {}", one["action"], one["operator"], one["outcome"]).replace('"', ""))
        .collect();
    let expected = [
        "emergency.open break-glass done",
        "emergency.process.log break-glass done",
        "emergency.transfer.end break-glass refused",
    ];
    assert_eq!(told, expected);
    // The bootstrap token has its own file.
    assert_ne!(make_bootstrap(data).unwrap(), token);
    expect(&hub, &token, "GET", "/participants", "", 200).await;
}
