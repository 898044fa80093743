//! A page and its link have the permission of the operation whose data the page shows.

use crate::common::{Hub, contains, text};
use crate::headers::PAGES;

/// The token of a new operator with these roles, perhaps of a DFSP.
pub async fn operator(hub: &Hub, by: &str, name: &str, role: &str, participant: Option<&str>) -> String {
    let lines = format!("authorization: Bearer {by}\r\ncontent-type: application/json\r\n");
    let participant = participant.map_or_else(String::new, |name| format!(",\"participant\":\"{name}\""));
    let body = format!("{{\"name\":\"{name}\",\"roles\":[\"{role}\"]{participant}}}");
    let made = hub.send(&lines, "POST", "/operators", &body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made = hub.send(&lines, "POST", &format!("/operators/{name}/tokens"), "{}").await;
    let (_, token) = made.body.split_once("\"token\":\"").unwrap();
    token.split('"').next().unwrap().to_owned()
}

pub async fn status(hub: &Hub, token: &str, path: &str) -> u16 {
    hub.send(&format!("authorization: Bearer {token}\r\n"), "GET", path, "").await.status
}

async fn hub_with_admin() -> (Hub, String) {
    let hub = Hub::launch(Some(false), "answered 503");
    upesi_testsupport::scheme::onboard(&hub.handle, &["green", "blue"]).await;
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    (hub, admin)
}

#[tokio::test]
async fn stranger_is_led_to_the_login_page_and_sees_nothing_else() {
    let (hub, _) = hub_with_admin().await;
    for path in PAGES.into_iter().chain(["/console/participants/green", "/console/windows/1"]) {
        let answer = hub.send("authorization: Bearer wrong\r\n", "GET", path, "").await;
        assert_eq!(answer.status, 401, "{path}");
        contains(&answer.body, &["Login required", "The hub did not accept the token"]);
        let redirected = hub.send("", "GET", path, "").await;
        let target = format!("/console/login?next={}", upesi_types::text::url_part(path));
        assert_eq!((redirected.status, redirected.header("location")), (303, Some(&*target)), "{path}");
        assert_eq!(redirected.body, "");
        let login = hub.send("", "GET", &target, "").await;
        assert_eq!(login.status, 200, "{path}");
        for secret in ["green", "Participants", "record", "Protections"] {
            for body in [&answer.body, &login.body] {
                assert!(!text(body).contains(secret), "{path} {secret}: {body}");
            }
        }
    }
}

/// The pages are as reachable as the operations behind them, for every role.
#[tokio::test]
async fn page_and_its_link_follow_the_permission_of_its_operation() {
    let (hub, admin) = hub_with_admin().await;
    let operations = [
        ("/console/participants", "/positions"),
        ("/console/participants/green", "/participants/green"),
        ("/console/participants/blue", "/participants/blue"),
        ("/console/transfers", "/transfers"),
        ("/console/callbacks", "/lanes"),
        ("/console/settlement", "/v2/settlementWindows?state=OPEN"),
        ("/console/windows/1", "/v2/settlementWindows/1"),
        ("/console/connections", "/participants"),
        ("/console/directory", "/directory"),
        ("/console/approvals", "/approvals"),
        ("/console/operators", "/operators"),
        ("/console/audit", "/audit"),
        ("/console/system", "/log-level"),
    ];
    let roles = ["viewer", "monitor", "iam-admin", "auditor", "treasury", "security-officer"];
    let mut tokens = Vec::new();
    for role in roles {
        tokens.push((role, operator(&hub, &admin, &format!("one-{role}"), role, None).await));
    }
    tokens.push(("dfsp-user", operator(&hub, &admin, "of-green", "dfsp-user", Some("green")).await));
    let mut refused = 0;
    for (role, token) in &tokens {
        let overview = hub.send(&format!("authorization: Bearer {token}\r\n"), "GET", "/console", "").await;
        assert_eq!(overview.status, 200, "{role}");
        for (page, operation) in operations {
            // Without a directory, the operation answers 501, and the page says so.
            let expected = match status(&hub, token, operation).await {
                501 => 200,
                status => status,
            };
            assert_eq!(status(&hub, token, page).await, expected, "{role} {page}");
            let has_link = overview.body.contains(&format!("<li><a href=\"{page}\""));
            let is_own = page.ends_with("/green") && *role == "dfsp-user";
            let is_section = PAGES.contains(&page);
            assert_eq!(has_link, (expected == 200 && is_section) || is_own, "{role} {page}");
            refused += usize::from(expected == 403);
        }
    }
    assert!(refused > 20, "{refused}");
}

#[tokio::test]
async fn dfsp_user_learns_nothing_of_other_dfsps() {
    let (hub, admin) = hub_with_admin().await;
    hub.pay(1, "green", "blue", "10").await;
    hub.observe(3, 2, 5, 5);
    let token = operator(&hub, &admin, "of-green", "dfsp-user", Some("green")).await;
    let lines = format!("authorization: Bearer {token}\r\n");
    let overview = hub.send(&lines, "GET", "/console", "").await;
    for secret in ["blue", "In flight", "Committed", "callbacks", "answered 503", "window"] {
        assert!(!text(&overview.body).contains(secret), "{secret}: {}", overview.body);
    }
    let own = hub.send(&lines, "GET", "/console/participants/green", "").await;
    contains(&own.body, &["10.00 owes", "green blue 10.00 KES"]);
    assert!(!text(&own.body).contains("answered 503"));
    let found = hub.send(&lines, "GET", "/console/transfers?q=blue", "").await;
    contains(&found.body, &["blue is neither an identifier of a transfer"]);
}

#[tokio::test]
async fn overview_shows_traffic_totals_and_links_only_with_permission() {
    let (hub, admin) = hub_with_admin().await;
    hub.pay(1, "green", "blue", "10").await;
    hub.observe(2, 3, 5, 0);
    let link = "/console/transfers?q=state%3Areserved";
    let off = "Protections are off";
    for (role, participant, shown, hidden) in [
        ("viewer", None, &["Committed 1", link, off, "blue"][..], &["No payments"][..]),
        ("monitor", None, &["Committed 1", off], &["No payments", link, "blue"]),
        ("iam-admin", None, &[off], &["No payments", "Committed", "In flight", link, "green", "blue"]),
        ("dfsp-user", Some("green"), &[], &["No payments", "Committed", "In flight", off, "blue"]),
    ] {
        let token = operator(&hub, &admin, &format!("one-{role}"), role, participant).await;
        let page = hub.send(&format!("authorization: Bearer {token}\r\n"), "GET", "/console", "").await;
        let (html, text) = (&page.body, text(&page.body));
        for wanted in shown {
            assert!(html.contains(wanted) || text.contains(wanted), "{role} {wanted}: {html}");
        }
        for secret in hidden {
            assert!(!html.contains(secret) && !text.contains(secret), "{role} {secret}: {html}");
        }
    }
}

#[tokio::test]
async fn login_page_may_load_its_style_sheet() {
    let (hub, _) = hub_with_admin().await;
    let page = hub.send("", "GET", "/console/login", "").await;
    let at = page.body.find("/console/assets/console-").unwrap();
    let url = page.body[at..].split('"').next().unwrap();
    assert_eq!(hub.send("", "GET", url, "").await.status, 200);
}
