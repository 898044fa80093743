//! Users of the hub: enrolment, login, sessions, and attempts to impersonate them.

use serde_json::{Value, json};
use upesi_admin::make_bootstrap;
use upesi_engine::Clock as _;

use super::common::people::{call, expect, send, service, with_admin, with_approvals};
use crate::common;
use crate::common::people::{PASSWORD, ask, enrolled, invited, log_in, logged_in, person};
use crate::common::{Hub, Settings};

const MINUTE_MS: i64 = 60_000;
const SELF: (&str, &str) = ("GET", "/self");

async fn status_of(hub: &Hub, token: &str) -> u16 {
    call(hub, token, SELF.0, SELF.1, "").await.0
}

/// The entries of the trail as `action operator outcome reason`.
async fn trail(hub: &Hub, reader: &str) -> Vec<String> {
    let page = expect(hub, reader, "GET", "/audit?limit=1000", "", 200).await;
    let entries = page["entries"].as_array().unwrap().iter();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let line = |entry: &Value| {
        let words = ["action", "operator", "outcome", "refused"].map(|name| text(entry, name));
        words.join(" ").trim_end().to_owned()
    };
    entries.map(line).collect()
}

#[tokio::test]
async fn user_enrols_logs_in_and_out() {
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["auditor"]).await;
    let session = logged_in(&hub, "amina", &device).await;
    let itself = expect(&hub, &session, "GET", "/self", "", 200).await;
    assert_eq!(itself["operator"], "amina");
    assert!(itself["knownBy"].as_str().unwrap().starts_with("session "), "{itself}");
    let shown = expect(&hub, &admin, "GET", "/operators/amina", "", 200).await;
    let credentials = &shown["credentials"];
    assert_eq!(credentials.as_array().unwrap().len(), 1, "{shown}");
    assert_eq!((&credentials[0]["kind"], &credentials[0]["expiration"]), (&json!("password"), &Value::Null));
    let listed = expect(&hub, &session, "GET", "/sessions", "", 200).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["isCurrent"]), (1, &json!(true)));
    expect(&hub, &session, "DELETE", "/sessions/current", "", 204).await;
    assert_eq!(status_of(&hub, &session).await, 401);
    let session = logged_in(&hub, "amina", &device).await;
    let entries = trail(&hub, &session).await;
    let expected = [
        "iam.user bootstrap done",
        "iam.user bootstrap done",
        "iam.user iam done",
        "iam.user iam done",
        "enrolment.use amina done",
        "session.open amina done",
        "session.end amina done",
        "authenticate nobody refused no such session, or it ended",
        "session.open amina done",
    ];
    assert_eq!(entries, expected);
}

/// Attempts that do not open a session, and their entries in the trail. The answer is always the same.
#[tokio::test]
async fn session_needs_name_password_and_unused_code() {
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["auditor"]).await;
    service(&hub, &admin, "deploy", &["viewer"], None).await;
    let used = device.code_at(hub.clock.now().as_ms());
    let (later, old) = (hub.clock.now().as_ms() + 60_000, hub.clock.now().as_ms() - 60_000);
    let mut answers = Vec::new();
    for (name, password, code) in [
        ("amina", "correct horse batterz", device.code_at(hub.clock.now().as_ms() + 30_000)),
        ("amina", PASSWORD, device.code_at(later)),
        ("amina", PASSWORD, device.code_at(old)),
        ("amina", PASSWORD, used),
        ("deploy", PASSWORD, device.code_at(hub.clock.now().as_ms())),
        ("my password by mistake", PASSWORD, device.code_at(hub.clock.now().as_ms())),
    ] {
        let (status, answer) = log_in(&hub, name, password, &code).await;
        assert_eq!(status, 401, "{name} {code}: {answer}");
        answers.push(answer);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let session = logged_in(&hub, "amina", &device).await;
    // The same code does not open a second session.
    let now = hub.clock.now().as_ms();
    assert_eq!(log_in(&hub, "amina", PASSWORD, &device.code_at(now)).await.0, 401);
    for body in
        [json!({}), json!({"operator": "amina", "password": PASSWORD}), json!({"operator": 1}), json!([])]
    {
        assert_eq!(ask(&hub, "/sessions", body.clone()).await.0, 400, "{body}");
    }
    let entries = trail(&hub, &session).await;
    let refusals: Vec<_> = entries.iter().filter(|entry| entry.contains("refused")).collect();
    let expected = [
        "session.open amina refused wrong password",
        "session.open amina refused wrong code",
        "session.open amina refused wrong code",
        "session.open amina refused the code was used before",
        "session.open nobody refused no such user",
        "session.open nobody refused no such user",
        "session.open amina refused the code was used before",
    ];
    assert_eq!(refusals, expected);
    let page = expect(&hub, &session, "GET", "/audit?limit=1000", "", 200).await.to_string();
    assert!(!page.contains("my password by mistake") && !page.contains(PASSWORD), "{page}");
}

#[tokio::test]
async fn rejected_credentials_are_counted_by_kind() {
    let (hub, admin) = with_admin().await;
    let counts = || hub.access.rejected_credentials().collect::<Vec<_>>();
    let none = [("token", 0), ("session", 0), ("provider", 0), ("password", 0), ("unknown", 0)];
    assert_eq!(counts(), none);
    let device = person(&hub, &admin, "amina", &["viewer"]).await;
    let session = logged_in(&hub, "amina", &device).await;
    assert_eq!(counts(), none, "right credentials are not counted");
    expect(&hub, &session, "DELETE", "/sessions/current", "", 204).await;
    assert_eq!(status_of(&hub, &session).await, 401);
    let stranger = make_bootstrap(Hub::start().directory.path()).unwrap();
    assert_eq!(status_of(&hub, &stranger).await, 401);
    for lines in ["authorization: Basic eA==\r\n", "authorization: Bearer x\r\n"] {
        assert_eq!(send(&hub, lines, "GET", "/self", "").await.0, 401);
    }
    for name in ["amina", "nobody", "amina"] {
        assert_eq!(log_in(&hub, name, "correct horse batterz", "123456").await.0, 401);
    }
    let expected = [("token", 1), ("session", 1), ("provider", 0), ("password", 3), ("unknown", 2)];
    assert_eq!(counts(), expected);
}

/// Two logins with the same code at the same moment: one of them succeeds.
#[tokio::test]
async fn code_is_valid_once_even_for_concurrent_logins() {
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["auditor"]).await;
    let code = device.next_code(&hub);
    let tries = [(); 3].map(|()| log_in(&hub, "amina", PASSWORD, &code));
    let [one, two, three] = tries;
    let (one, two, three) = tokio::join!(one, two, three);
    let mut statuses = [one.0, two.0, three.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 401, 401]);
}

#[tokio::test]
async fn enrolment_is_valid_once_and_before_its_expiry() {
    let (hub, admin) = with_admin().await;
    expect(&hub, &admin, "POST", "/operators", r#"{"name":"amina","roles":["viewer"]}"#, 201).await;
    let token = invited(&hub, &admin, "amina").await;
    // The enrolment token permits nothing else.
    assert_eq!(status_of(&hub, &token).await, 401);
    for password in ["eleven char", ""] {
        assert_eq!(ask(&hub, "/enrolments", json!({"token": token, "password": password})).await.0, 400);
    }
    let unknown = json!({"token": format!("{token}x"), "password": PASSWORD});
    assert_eq!(ask(&hub, "/enrolments", unknown).await.0, 401);
    // No enrolment has begun.
    assert_eq!(ask(&hub, "/enrolments/confirm", json!({"token": token, "code": "000000"})).await.0, 401);
    let (status, begun) = ask(&hub, "/enrolments", json!({"token": token, "password": PASSWORD})).await;
    assert_eq!(status, 201);
    let device = common::people::Device::new(begun["secret"].as_str().unwrap());
    let code = device.next_code(&hub);
    let wrong = device.code_at(hub.clock.now().as_ms() + 10 * MINUTE_MS);
    assert_eq!(ask(&hub, "/enrolments/confirm", json!({"token": token, "code": wrong})).await.0, 401);
    // A login needs a valid code.
    assert_eq!(log_in(&hub, "amina", PASSWORD, &code).await.0, 401);
    assert_eq!(ask(&hub, "/enrolments/confirm", json!({"token": token, "code": code})).await.0, 201);
    for path in ["/enrolments", "/enrolments/confirm"] {
        let body = match path {
            "/enrolments" => json!({"token": token, "password": PASSWORD}),
            _ => json!({"token": token, "code": code}),
        };
        assert_eq!(ask(&hub, path, body).await.0, 401, "{path}");
    }
    // The code of the enrolment does not open a session.
    assert_eq!(log_in(&hub, "amina", PASSWORD, &code).await.0, 401);

    let late = invited(&hub, &admin, "amina").await;
    hub.clock.advance(24 * 60 * MINUTE_MS);
    assert_eq!(ask(&hub, "/enrolments", json!({"token": late, "password": PASSWORD})).await.0, 401);
    // An enrolment is invalid if it is confirmed too late, if it was withdrawn, or if its operator is inactive.
    let slow = invited(&hub, &admin, "amina").await;
    let (_, begun) = ask(&hub, "/enrolments", json!({"token": slow, "password": PASSWORD})).await;
    hub.clock.advance(10 * MINUTE_MS);
    let device = common::people::Device::new(begun["secret"].as_str().unwrap());
    let body = json!({"token": slow, "code": device.next_code(&hub)});
    assert_eq!(ask(&hub, "/enrolments/confirm", body).await.0, 401);
    let (_, begun) = ask(&hub, "/enrolments", json!({"token": slow, "password": PASSWORD})).await;
    let device = common::people::Device::new(begun["secret"].as_str().unwrap());
    let shown = expect(&hub, &admin, "GET", "/operators/amina", "", 200).await;
    let id = shown["credentials"].as_array().unwrap().iter().rfind(|one| one["kind"] == "enrolment").unwrap();
    let path = format!("/operators/amina/credentials/{}", id["id"]);
    expect(&hub, &admin, "DELETE", &path, "", 204).await;
    let body = json!({"token": slow, "code": device.next_code(&hub)});
    assert_eq!(ask(&hub, "/enrolments/confirm", body).await.0, 401);
    let last = invited(&hub, &admin, "amina").await;
    expect(&hub, &admin, "PUT", "/operators/amina", r#"{"isActive":false}"#, 200).await;
    assert_eq!(ask(&hub, "/enrolments", json!({"token": last, "password": PASSWORD})).await.0, 401);
    for hours in [0, 73] {
        let body = json!({"hours": hours}).to_string();
        expect(&hub, &admin, "POST", "/operators/amina/enrolments", &body, 400).await;
    }
}

#[tokio::test]
async fn session_ends_by_time_inactive_operator_or_new_password() {
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["viewer"]).await;
    let idle = logged_in(&hub, "amina", &device).await;
    hub.clock.advance(15 * MINUTE_MS - 1);
    assert_eq!(status_of(&hub, &idle).await, 200);
    hub.clock.advance(15 * MINUTE_MS);
    assert_eq!(status_of(&hub, &idle).await, 401);
    let busy = logged_in(&hub, "amina", &device).await;
    for _ in 0..42 {
        hub.clock.advance(14 * MINUTE_MS);
        assert_eq!(status_of(&hub, &busy).await, 200);
    }
    hub.clock.advance(12 * MINUTE_MS);
    assert_eq!(status_of(&hub, &busy).await, 401);
    let change = async |path: &str, method: &str, body: &str| {
        let session = logged_in(&hub, "amina", &device).await;
        assert_eq!(status_of(&hub, &session).await, 200);
        call(&hub, &admin, method, path, body).await;
        assert_eq!(status_of(&hub, &session).await, 401, "{path} {body}");
    };
    change("/operators/amina", "PUT", r#"{"roles":["auditor"]}"#).await;
    change("/operators/amina", "PUT", r#"{"isActive":false}"#).await;
    // The session stays ended when the operator is active again.
    expect(&hub, &admin, "PUT", "/operators/amina", r#"{"isActive":true}"#, 200).await;
    let listed = expect(&hub, &admin, "GET", "/sessions", "", 200).await;
    assert_eq!(listed, json!([]));
    change("/operators/amina/credentials/2", "DELETE", "").await;
    assert_eq!(log_in(&hub, "amina", PASSWORD, &device.next_code(&hub)).await.0, 401);
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_their_user_and_administrators() {
    let (hub, admin) = with_admin().await;
    let amina = person(&hub, &admin, "amina", &["viewer"]).await;
    let brian = person(&hub, &admin, "brian", &["viewer"]).await;
    let (one, two) = (logged_in(&hub, "amina", &amina).await, logged_in(&hub, "amina", &amina).await);
    let other = logged_in(&hub, "brian", &brian).await;
    let id = async |token: &str| {
        let listed = expect(&hub, token, "GET", "/sessions", "", 200).await;
        let current = listed.as_array().unwrap().iter().find(|one| one["isCurrent"] == true).cloned();
        (listed.as_array().unwrap().len(), current.unwrap()["sessionId"].as_str().unwrap().to_owned())
    };
    let ((count, first), (_, second), (alone, others)) = (id(&one).await, id(&two).await, id(&other).await);
    assert_eq!((count, alone), (2, 1));
    let all = expect(&hub, &admin, "GET", "/sessions", "", 200).await;
    assert_eq!(all.as_array().unwrap().len(), 3, "{all}");
    assert!(!all.to_string().contains("upesi_session_"), "{all}");
    for (token, id, status) in [(&one, &others, 400), (&one, &second, 204), (&admin, &others, 204)] {
        let found = call(&hub, token, "DELETE", &format!("/sessions/{id}"), "").await;
        assert_eq!(found.0, status, "{found:?}");
    }
    let alive = [status_of(&hub, &one).await, status_of(&hub, &two).await, status_of(&hub, &other).await];
    assert_eq!(alive, [200, 401, 401]);
    // A token of the hub is not a session.
    for (method, path) in [("DELETE", "/sessions/current"), ("POST", "/sessions/current/code")] {
        let body = json!({"password": PASSWORD, "code": "000000"}).to_string();
        assert_eq!(call(&hub, &admin, method, path, &body).await.0, 400, "{path}");
    }
    assert_eq!(call(&hub, &one, "DELETE", &format!("/sessions/{first}"), "").await.0, 204);
}

#[tokio::test]
async fn password_is_changed_by_its_user_and_reset_by_an_administrator() {
    const OTHER: &str = "another long password";
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["viewer"]).await;
    let (one, two) = (logged_in(&hub, "amina", &device).await, logged_in(&hub, "amina", &device).await);
    let change = async |password: &str, code: &str, new: &str| {
        let body = json!({"password": password, "code": code, "newPassword": new}).to_string();
        call(&hub, &one, "PUT", "/self/password", &body).await.0
    };
    assert_eq!(change("correct horse batterz", &device.next_code(&hub), OTHER).await, 401);
    assert_eq!(change(PASSWORD, "000000", OTHER).await, 401);
    assert_eq!(change(PASSWORD, &device.next_code(&hub), "short").await, 400);
    assert_eq!(change(PASSWORD, &device.next_code(&hub), OTHER).await, 204);
    assert_eq!([status_of(&hub, &one).await, status_of(&hub, &two).await], [200, 401]);
    assert_eq!(log_in(&hub, "amina", PASSWORD, &device.next_code(&hub)).await.0, 401);
    assert_eq!(log_in(&hub, "amina", OTHER, &device.next_code(&hub)).await.0, 201);
    // A reset: the old password and device are valid until the new ones are confirmed.
    let token = invited(&hub, &admin, "amina").await;
    assert_eq!(log_in(&hub, "amina", OTHER, &device.next_code(&hub)).await.0, 201);
    let new = enrolled(&hub, &token, PASSWORD).await;
    assert_eq!(status_of(&hub, &one).await, 401);
    assert_eq!(log_in(&hub, "amina", OTHER, &device.next_code(&hub)).await.0, 401);
    assert_eq!(log_in(&hub, "amina", PASSWORD, &device.next_code(&hub)).await.0, 401);
    assert_eq!(log_in(&hub, "amina", PASSWORD, &new.next_code(&hub)).await.0, 201);
}

/// Users can approve after a code within the last five minutes; tokens of operators cannot.
#[tokio::test]
async fn approval_needs_a_session_with_a_recent_code() {
    let settings =
        Settings { authentication: true, approvals: true, approvers_are_people: true, ..Settings::default() };
    let hub = Hub::launch(settings);
    let bootstrap = make_bootstrap(hub.directory.path()).unwrap();
    let ines = person(&hub, &bootstrap, "ines", &["iam-admin"]).await;
    // The token has created a user, and is no longer valid.
    assert_eq!(status_of(&hub, &bootstrap).await, 401);
    let session = logged_in(&hub, "ines", &ines).await;
    let ivan = person(&hub, &session, "ivan", &["iam-admin"]).await;
    let token = async |by: &str, name: &str| {
        let lines = format!("authorization: Bearer {by}\r\nupesi-reason: as the board decided\r\n");
        let (_, _, body) = send(&hub, &lines, "POST", &format!("/operators/{name}/tokens"), "{}").await;
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let (ines, ivan) = (logged_in(&hub, "ines", &ines).await, (logged_in(&hub, "ivan", &ivan).await, ivan));
    // A token of an administrator, approved by the other administrator.
    let made = token(&ines, "ines").await;
    let approve = async |by: &str, id: &Value| {
        let path = format!("/approvals/{id}/approve");
        call(&hub, by, "POST", &path, r#"{"comment":"looked at"}"#).await
    };
    assert_eq!(approve(&ivan.0, &made["approvalId"]).await.0, 200);
    let machine = made["token"].as_str().unwrap();
    let waiting = token(&ivan.0, "ivan").await;
    let refused = approve(machine, &waiting["approvalId"]).await;
    assert!(refused.0 == 403 && refused.1.contains("Only users may approve"), "{refused:?}");
    let waiting = token(machine, "ines").await;
    hub.clock.advance(5 * MINUTE_MS + 1);
    let refused = approve(&ivan.0, &waiting["approvalId"]).await;
    assert!(refused.0 == 403 && refused.1.contains("\"errorName\":\"approver_login_old\""), "{refused:?}");
    let renew = async |password: &str, code: &str| {
        let body = json!({"password": password, "code": code}).to_string();
        call(&hub, &ivan.0, "POST", "/sessions/current/code", &body).await.0
    };
    assert_eq!(renew("correct horse batterz", &ivan.1.next_code(&hub)).await, 401);
    assert_eq!(renew(PASSWORD, "000000").await, 401);
    assert_eq!(approve(&ivan.0, &waiting["approvalId"]).await.0, 403);
    let code = ivan.1.next_code(&hub);
    assert_eq!(renew(PASSWORD, &code).await, 200);
    assert_eq!(renew(PASSWORD, &code).await, 401);
    assert_eq!(approve(&ivan.0, &waiting["approvalId"]).await.0, 200);
}

/// If approvals are needed, one administrator alone cannot create a second user or reset one.
#[tokio::test]
async fn enrolment_needs_two_administrators() {
    let (hub, first, second) = with_approvals().await;
    let lines = format!("authorization: Bearer {first}\r\nupesi-reason: a new phone, seen\r\n");
    let (status, _, body) = send(&hub, &lines, "POST", "/operators/ivan/enrolments", "{}").await;
    assert_eq!(status, 202, "{body}");
    let waiting: Value = serde_json::from_str(&body).unwrap();
    let token = waiting["token"].as_str().unwrap();
    let begin = json!({"token": token, "password": PASSWORD});
    assert_eq!(ask(&hub, "/enrolments", begin.clone()).await.0, 401);
    let path = format!("/approvals/{}/approve", waiting["approvalId"]);
    assert_eq!(call(&hub, &first, "POST", &path, "{}").await.0, 400);
    assert_eq!(call(&hub, &second, "POST", &path, "{}").await.0, 200);
    let device = enrolled(&hub, token, PASSWORD).await;
    logged_in(&hub, "ivan", &device).await;
}

#[tokio::test]
async fn guessing_is_delayed_and_the_user_is_not_locked_out() {
    let (hub, admin) = with_admin().await;
    let device = person(&hub, &admin, "amina", &["viewer"]).await;
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(log_in(&hub, "amina", "correct horse batterz", "000000").await.0);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 503, 503, 503]);
    let code = device.next_code(&hub);
    // After the delay one attempt is checked, and a correct one ends the delay.
    assert_eq!(log_in(&hub, "amina", PASSWORD, &code).await.0, 201);
    assert_eq!(log_in(&hub, "amina", "correct horse batterz", "000000").await.0, 401);
    // An unknown name cannot be distinguished from a known one.
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(log_in(&hub, "nosuch", "correct horse batterz", "000000").await.0);
    }
    assert_eq!(others, [401, 401, 401, 401, 401, 503, 503, 503]);
}

/// A hub without authentication has no users.
#[tokio::test]
async fn hub_without_authentication_has_no_sessions() {
    let hub = Hub::start();
    let body = json!({"operator": "amina", "password": PASSWORD, "code": "000000"}).to_string();
    let answer = hub.expect("POST", "/sessions", &body, 400).await;
    assert!(answer.contains("has no authentication"), "{answer}");
    assert_eq!(hub.get("/sessions").await, "[]");
}
