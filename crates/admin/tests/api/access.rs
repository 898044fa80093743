//! Who may do what: callers by their tokens, permissions by role, and what is kept of refusals.

use crate::common;
use crate::common::guarded::{call, expect, guarded, send, service, with_admin};
use crate::common::{Hub, id, name, prepare};
use upesi_admin::{Operation, make_bootstrap};
use upesi_engine::Payload;
use upesi_ledger::command::NewOperator;
use upesi_ledger::{AdminCommand, Command, Role, Roles};

const DAY_MS: i64 = 24 * 3_600_000;

async fn trail(hub: &Hub) -> u64 {
    hub.handle.read(|ledger| ledger.trail().count).await.unwrap()
}

async fn last_seq(hub: &Hub) -> u64 {
    hub.handle.read(|ledger| ledger.last_seq()).await.unwrap()
}

/// The path with something in place of its names, and a body that is JSON.
fn example(operation: &Operation) -> (String, &'static str) {
    let mut path = operation.path.replace("{name}", "green").replace("{operator}", "nosuch");
    while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
        path.replace_range(from..=to, "1");
    }
    (path, "{}")
}

#[tokio::test]
async fn callers_without_a_right_credential_reach_only_what_is_open() {
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
        // Wrong credentials of an address are slowed down, so that not all of them are tried everywhere.
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
    // Nothing but the refusals that are kept: those of wrong credentials, and a bounded number of all.
    let (seq, kept) = (last_seq(&hub).await, trail(&hub).await);
    assert!(seq - before <= 40, "{before} {seq} {kept}");
    assert_eq!(expect(&hub, &admin, "GET", "/self", "", 200).await["operator"], "iam");
}

/// Each role × each operation: refused if the role has none of its permissions, else anything but that.
#[tokio::test]
async fn every_role_does_its_own_operations_and_no_others() {
    let (hub, admin) = with_admin().await;
    let mut counts = [0, 0];
    for role in Role::ALL.into_iter().filter(|role| !role.is_of_dfsp()) {
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

/// An operation that takes one of several permissions checks the one that it needs.
#[tokio::test]
async fn what_is_asked_decides_which_permission_is_needed() {
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
    // A security officer may take a participant out, and not let it in again.
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
async fn a_dfsps_operators_see_what_is_the_dfsps() {
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
    // Both are refused for want of cover, and kept as such.
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
async fn tokens_end_with_their_time_their_removal_or_their_operator() {
    let (hub, admin) = with_admin().await;
    let token = service(&hub, &admin, "deploy", &["viewer"], None).await;
    let made = expect(&hub, &admin, "POST", "/operators/deploy/tokens", r#"{"days":2}"#, 201).await;
    let short = made["token"].as_str().unwrap();
    assert_eq!(made["expiration"], "2031-04-03T10:00:00.000Z");
    let status = async |token: &str| call(&hub, token, "GET", "/participants", "").await.0;
    assert_eq!((status(&token).await, status(short).await), (200, 200));
    hub.clock.advance(2 * DAY_MS);
    assert_eq!((status(&token).await, status(short).await), (200, 401));
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

/// Whoever is refused without end fills neither the journal nor the log.
#[tokio::test]
async fn refusals_are_kept_up_to_a_bound() {
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

/// What is set through the engine, as a restored journal has it, counts like what the API set.
#[tokio::test]
async fn the_bootstrap_token_makes_operators_and_nothing_else() {
    let hub = guarded();
    let bootstrap = make_bootstrap(hub.directory.path()).unwrap();
    let own = expect(&hub, &bootstrap, "GET", "/self", "", 200).await;
    assert_eq!(
        own["permissions"],
        serde_json::json!(["approval.read", "approval.iam", "approval.policy", "iam.read", "iam.user"])
    );
    expect(&hub, &bootstrap, "GET", "/participants", "", 403).await;
    let roles = Roles::from_iter([Role::Viewer]);
    let new = NewOperator { name: "reader".into(), roles, participant: None, is_active: true };
    let command = Command::Admin(AdminCommand::SetOperator(new));
    hub.handle.submit(command, Payload::default()).await.unwrap();
    let made = expect(&hub, &bootstrap, "POST", "/operators/reader/tokens", "{}", 201).await;
    expect(&hub, made["token"].as_str().unwrap(), "GET", "/participants", "", 200).await;
    // It makes one token. A new one can be made, by whoever may write into the data directory.
    assert_eq!(call(&hub, &bootstrap, "GET", "/self", "").await.0, 401);
    let again = make_bootstrap(hub.directory.path()).unwrap();
    assert_eq!(call(&hub, &again, "GET", "/self", "").await.0, 200);
}
