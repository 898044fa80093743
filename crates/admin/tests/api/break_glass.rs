//! Break-glass: what the token of a sealed code may do, and what it may not.

use crate::common;
use crate::common::guarded::{approved_service, call, expect, expect_because, with_approvals};
use upesi_admin::{BREAK_GLASS_FILE, Operation, make_bootstrap, open_break_glass, seal_break_glass};

/// What it may do besides reading; of operators only the one change below.
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
async fn it_stops_harm_and_does_nothing_else() {
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
    // The code itself is no token.
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
        // Of operators it makes one change only, by what is asked; see below.
        if status == 403 && operation.permissions == ["iam.user"] {
            assert!(body.contains("break-glass"), "{operation:?}: {body}");
            continue;
        }
        assert_eq!(status == 403, !is_allowed(&operation), "{operation:?}: {status} {body}");
        refused += usize::from(status == 403);
    }
    assert!(refused > 25, "{refused}");
    // It approves nothing, and enables nobody.
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    assert_eq!(call(&hub, &token, "POST", &path, "{}").await.0, 403);
    let security = approved_service(&hub, (&ines, &ivan), "approver", &["operations-approver"]).await;
    expect(&hub, &security, "POST", &path, "{}", 200).await;
    expect(&hub, &token, "PUT", "/participants/green", r#"{"isActive":false}"#, 200).await;
    assert_eq!(call(&hub, &token, "PUT", "/participants/green", r#"{"isActive":true}"#).await.0, 403);
    operators_it_lets_in(&hub, &token, &ines, &ivan).await;

    // A further code ends the token.
    seal_break_glass(data).unwrap();
    assert_eq!(call(&hub, &token, "GET", "/self", "").await.0, 401);
    assert!(data.join(BREAK_GLASS_FILE).exists());
}

/// An administrator who was made inactive is there again as before, and that is all.
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

/// Its use is in the trail before anything is done, and all of it is of the area `emergency`.
#[tokio::test]
async fn all_that_it_does_is_in_the_trail() {
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
    // The bootstrap token has a file of its own.
    assert_ne!(make_bootstrap(data).unwrap(), token);
    expect(&hub, &token, "GET", "/participants", "", 200).await;
}
