//! Login by password and second factor, the session cookie, logout, and attempts to misuse them.

use upesi_console::CONTENT_POLICY;
use upesi_engine::Clock as _;
use upesi_testsupport::second_factor::{CODE_INTERVAL_MS, Device};
use upesi_types::text::url_part;

use crate::access::{operator, status};
use crate::common::{Answer, Hub, contains, text};
use crate::headers::PAGES;

const PASSWORD: &str = "correct horse battery";
const COOKIE: &str = "__Host-upesi-session=";
const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";
const MINUTE_MS: i64 = 60_000;
/// The headers of a form that a browser sends from a page of the hub.
pub const OWN: &str = "origin: http://localhost\r\nsec-fetch-site: same-origin\r\n";
const LOGIN: &str = "/console/login";
const LOGOUT: &str = "/console/logout";

/// A hub with an administrator and the user amina, who has this role. Returns the administrator's token, too.
async fn hub_with_user(role: &str) -> (Hub, Device, String) {
    let hub = Hub::launch(Some(false), "answered 503");
    upesi_testsupport::scheme::onboard(&hub.handle, &["green", "blue"]).await;
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let device = user(&hub, &admin, "amina", role).await;
    (hub, device, admin)
}

/// The value of a member of a JSON body.
fn member<'a>(body: &'a str, name: &str) -> &'a str {
    let Some((_, value)) = body.split_once(&format!("\"{name}\":\"")) else { panic!("{name} in {body}") };
    value.split('"').next().unwrap()
}

pub async fn user(hub: &Hub, admin: &str, name: &str, role: &str) -> Device {
    let json = "content-type: application/json\r\n";
    let by_admin = format!("authorization: Bearer {admin}\r\n{json}");
    let body = format!("{{\"name\":\"{name}\",\"roles\":[\"{role}\"]}}");
    assert_eq!(hub.send(&by_admin, "POST", "/operators", &body).await.status, 201);
    let invited = hub.send(&by_admin, "POST", &format!("/operators/{name}/enrolments"), "{}").await;
    let token = member(&invited.body, "token");
    let body = format!("{{\"token\":\"{token}\",\"password\":\"{PASSWORD}\"}}");
    let begun = hub.send(json, "POST", "/enrolments", &body).await;
    let device = Device::new(member(&begun.body, "secret"));
    let body = format!("{{\"token\":\"{token}\",\"code\":\"{}\"}}", next_code(hub, &device));
    let done = hub.send(json, "POST", "/enrolments/confirm", &body).await;
    assert_eq!(done.status, 201, "{}", done.body);
    device
}

/// The code of the next interval, because the present one was already used.
pub fn next_code(hub: &Hub, device: &Device) -> String {
    hub.clock.advance(CODE_INTERVAL_MS);
    device.code_at(hub.clock.now().as_ms())
}

fn form(name: &str, password: &str, code: &str, next: &str) -> String {
    let fields = [("next", next), ("operator", name), ("password", password), ("code", code)];
    let fields = fields.map(|(field, value)| format!("{field}={}", url_part(value)));
    fields.join("&")
}

async fn submit(hub: &Hub, lines: &str, body: &str) -> Answer {
    let content = "content-type: application/x-www-form-urlencoded\r\n";
    hub.send(&format!("{content}{lines}"), "POST", LOGIN, body).await
}

/// The session cookie of a new login, as the browser sends it.
async fn logged_in(hub: &Hub, device: &Device) -> String {
    cookie_of(hub, "amina", device).await
}

/// The session cookie of a new login of a user.
pub async fn cookie_of(hub: &Hub, name: &str, device: &Device) -> String {
    let body = form(name, PASSWORD, &next_code(hub, device), "/console");
    let answer = submit(hub, OWN, &body).await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    let cookie = answer.header("set-cookie").unwrap();
    format!("cookie: {}\r\n", cookie.split(';').next().unwrap())
}

/// The token in a cookie.
fn token(cookie: &str) -> &str {
    cookie.split_once(COOKIE).unwrap().1.trim_end()
}

/// The page to which an answer leads: its path and the wanted page.
fn led_to(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.body);
    answer.header("location").unwrap().to_owned()
}

/// The entries of the audit trail, the oldest first.
async fn trail(hub: &Hub, reader: &str) -> String {
    let lines = format!("authorization: Bearer {reader}\r\n");
    hub.send(&lines, "GET", "/audit?limit=1000", "").await.body
}

#[tokio::test]
async fn user_logs_in_sees_pages_and_logs_out() {
    let (hub, device, admin) = hub_with_user("viewer").await;
    let auditor = operator(&hub, &admin, "reader", "auditor", None).await;
    let wanted = "/console/participants/green?sort-positions=-free";
    let redirected = hub.send("", "GET", wanted, "").await;
    assert_eq!(led_to(&redirected), format!("{LOGIN}?next={}", url_part(wanted)));
    assert_eq!((redirected.header("set-cookie"), redirected.header("www-authenticate")), (None, None));
    let login = hub.send("", "GET", &led_to(&redirected), "").await;
    assert_eq!(login.status, 200);
    contains(&login.body, &["Log in", "Name", "Password", "Code", "upesi admin enrol --enrolment FILE"]);
    assert!(login.body.contains(&format!("name=\"next\" value=\"{wanted}\"")), "{}", login.body);
    let answer = submit(&hub, OWN, &form("amina", PASSWORD, &next_code(&hub, &device), wanted)).await;
    assert_eq!(led_to(&answer), wanted);
    let (cookie, attributes) = answer.header("set-cookie").unwrap().split_once("; ").unwrap();
    assert!(cookie.starts_with(&format!("{COOKIE}upesi_session_")) && cookie.len() > 60, "{cookie}");
    assert_eq!((attributes, answer.header("cache-control")), (ATTRIBUTES, Some("no-store")));
    let lines = format!("cookie: a=b; {cookie}; c=d\r\n");
    for path in [wanted, "/console", "/console/transfers"] {
        let page = hub.send(&lines, "GET", path, "").await;
        assert_eq!(page.status, 200, "{path}");
        contains(&page.body, &["Operator: amina", "Log out"]);
        assert!(!page.body.contains("upesi_session_"), "{path}");
    }
    // A page without permission keeps its error page. The login page leads on.
    assert_eq!(hub.send(&lines, "GET", "/console/audit", "").await.status, 403);
    assert_eq!(led_to(&hub.send(&lines, "GET", LOGIN, "").await), "/console");
    let out = hub.send(&format!("{lines}{OWN}"), "POST", LOGOUT, "").await;
    assert_eq!(led_to(&out), format!("{LOGIN}?out=1"));
    let removed = format!("{COOKIE}; {ATTRIBUTES}; Max-Age=0");
    assert_eq!(out.header("set-cookie"), Some(&*removed));
    assert_eq!(out.header("clear-site-data"), Some("\"cache\""));
    assert_eq!(out.header("cache-control"), Some("no-store"));
    contains(&hub.send("", "GET", &led_to(&out), "").await.body, &["You are logged out."]);
    let session = format!("authorization: Bearer {}\r\n", token(cookie));
    assert_eq!(hub.send(&session, "GET", "/self", "").await.status, 401, "the session of the hub has ended");
    let back = hub.send(&lines, "GET", "/console", "").await;
    assert!(led_to(&back).starts_with(LOGIN) && !back.body.contains("amina"));
    let trail = trail(&hub, &auditor).await;
    let entries: Vec<_> =
        trail.split("\"action\":\"").skip(1).map(|one| one.split('"').next().unwrap()).collect();
    let expected = ["session.open", "audit.read", "session.end", "authenticate", "authenticate"];
    assert_eq!(entries[entries.len() - 5..], expected, "{trail}");
}

/// Name, password and code of attempts that fail, and the status of the API.
#[tokio::test]
async fn failed_attempts_have_the_status_of_the_api_and_one_page() {
    let (hub, device, _) = hub_with_user("viewer").await;
    let used = device.code_at(hub.clock.now().as_ms());
    let unused = device.code_at(hub.clock.now().as_ms() + CODE_INTERVAL_MS);
    let mut pages = Vec::new();
    for (name, password, code) in [
        ("amina", PASSWORD, &*used),
        ("amina", "correct horse batterz", &unused),
        ("amina", PASSWORD, "000000"),
        ("nosuch", PASSWORD, "000000"),
        ("Amina", PASSWORD, "000000"),
        ("iam", PASSWORD, "000000"),
    ] {
        let body = format!("{{\"operator\":\"{name}\",\"password\":\"{password}\",\"code\":\"{code}\"}}");
        let api = hub.send("content-type: application/json\r\n", "POST", "/sessions", &body).await;
        // The sixth failure has to wait.
        hub.clock.advance(2_000);
        let page = submit(&hub, OWN, &form(name, password, code, "/console/audit")).await;
        assert_eq!((page.status, page.header("set-cookie")), (401, None), "{name}: {}", page.body);
        assert_eq!((api.status, page.header("www-authenticate")), (401, Some("Bearer")), "{}", api.body);
        assert!(page.body.contains(&format!("name=\"operator\" value=\"{name}\"")), "{}", page.body);
        assert!(page.body.contains("name=\"next\" value=\"/console/audit\""), "{}", page.body);
        assert!(!page.body.contains(password) && !page.body.contains(code), "{}", page.body);
        contains(&page.body, &["The login failed.", "Name, password or code is wrong"]);
        pages.push(page.body.replace(name, "NAME"));
    }
    pages.dedup();
    assert_eq!(pages.len(), 1, "{pages:?}");
    for (name, password, code, rule) in [
        ("", PASSWORD, "123456", "\"operator\" is required"),
        ("amina", "", "123456", "\"password\" is required"),
        ("amina", PASSWORD, "", "\"code\" is required"),
        ("amina", PASSWORD, "12345", "\"code\" must have 6 digits"),
        ("amina", PASSWORD, "12345a", "\"code\" must have 6 digits"),
        ("amina", &"x".repeat(513), "123456", "\"password\" must be 512 bytes at most"),
        (&"x".repeat(65), PASSWORD, "123456", "\"operator\" must be the name of an operator"),
        ("a\u{202e}b", PASSWORD, "123456", "\"operator\" must be the name of an operator"),
    ] {
        let page = submit(&hub, OWN, &form(name, password, code, "")).await;
        assert_eq!(page.status, 400, "{name}: {}", page.body);
        contains(&page.body, &["The login was not tried.", rule]);
        assert!(!page.body.contains(PASSWORD) && !page.body.contains(&"x".repeat(65)), "{}", page.body);
    }
}

#[tokio::test]
async fn guessing_in_the_form_is_delayed_like_in_the_api() {
    let (hub, device, _) = hub_with_user("viewer").await;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        let page = submit(&hub, OWN, &form("amina", "correct horse batterz", "000000", "")).await;
        statuses.push(page.status);
        if page.status == 503 {
            contains(&page.body, &["The hub did not check the login.", "Too many attempts: try again in"]);
        }
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 503, 503]);
    // The API and the form share the count.
    let body = "{\"operator\":\"amina\",\"password\":\"correct horse batterz\",\"code\":\"000000\"}";
    let api = hub.send("content-type: application/json\r\n", "POST", "/sessions", body).await;
    assert_eq!(api.status, 503, "{}", api.body);
    logged_in(&hub, &device).await;
}

/// The table of the parser is in `next.rs`.
#[tokio::test]
async fn login_leads_only_to_pages_of_the_console() {
    let (hub, device, _) = hub_with_user("viewer").await;
    for (next, target) in [
        ("/console/transfers?q=amount%3A100", "/console/transfers?q=amount%3A100"),
        ("", "/console"),
        ("//evil.example", "/console"),
        ("https://evil.example/console", "/console"),
        ("/\\evil.example", "/console"),
        ("/console/../participants", "/console"),
        ("/console/%2e%2e/participants", "/console"),
        ("/console\r\nset-cookie: a=b", "/console"),
        ("/console/logout", "/console"),
        ("javascript:alert(1)", "/console"),
    ] {
        let answer = submit(&hub, OWN, &form("amina", PASSWORD, &next_code(&hub, &device), next)).await;
        assert_eq!(led_to(&answer), target, "{next:?}");
        assert_eq!(answer.head.matches("set-cookie").count(), 1, "{}", answer.head);
        let page = hub.send("", "GET", &format!("{LOGIN}?next={}", url_part(next)), "").await;
        assert!(page.body.contains(&format!("name=\"next\" value=\"{target}\"")), "{next:?}: {}", page.body);
        assert!(!page.body.contains("evil"), "{}", page.body);
    }
    // What the hub itself puts into the URL.
    for (path, next) in [
        ("/console/../participants", None),
        ("//evil.example/console", None),
        ("/console/login/../x", None),
        ("/console/participants?name=%2F%2Fevil", Some("/console/participants?name=%2F%2Fevil")),
    ] {
        let answer = hub.send("", "GET", path, "").await;
        let location = next.map(|next| format!("{LOGIN}?next={}", url_part(next)));
        assert_eq!(answer.header("location"), location.as_deref(), "{path}");
    }
    let long = format!("/console/transfers?q={}", "x".repeat(4_000));
    assert_eq!(led_to(&hub.send("", "GET", &long, "").await), LOGIN);
}

/// A page of another site can make the browser send the form, but without the proof.
#[tokio::test]
async fn forms_need_the_proof_of_an_own_page() {
    let (hub, device, admin) = hub_with_user("viewer").await;
    let cookie = logged_in(&hub, &device).await;
    let mut refused = 0;
    for lines in [
        "",
        "sec-fetch-site: none\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "origin: null\r\n",
        "origin: https://evil.example\r\n",
        "origin: http://localhost:8080\r\n",
        "origin: null\r\nsec-fetch-site: same-origin\r\n",
        "origin: http://localhost\r\norigin: https://evil.example\r\n",
    ] {
        let by_cookie = format!("{cookie}{lines}");
        for (path, body) in [(LOGOUT, ""), ("/console/transfers", "q=green")] {
            let answer = hub.send(&by_cookie, "POST", path, body).await;
            assert_eq!(answer.status, 403, "{path} {lines}: {}", answer.body);
            assert_eq!(answer.header("content-security-policy"), Some(CONTENT_POLICY));
            refused += 1;
        }
        for with in [lines, &by_cookie] {
            let body = form("amina", PASSWORD, &next_code(&hub, &device), "");
            let answer = submit(&hub, with, &body).await;
            assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{with}: {}", answer.body);
        }
    }
    assert_eq!(refused, 18);
    assert_eq!(hub.send(&cookie, "GET", "/console", "").await.status, 200, "the session goes on");
    // Programs with a token need no proof.
    let viewer = operator(&hub, &admin, "program", "viewer", None).await;
    let by_token = format!("authorization: Bearer {viewer}\r\n");
    assert_eq!(hub.send(&by_token, "POST", "/console/transfers", "q=green").await.status, 303);
    for lines in ["origin: http://localhost\r\n", "sec-fetch-site: same-origin\r\n", OWN] {
        let answer = hub.send(&format!("{cookie}{lines}"), "POST", "/console/transfers", "q=green").await;
        assert_eq!(led_to(&answer), "/console/transfers?q=green", "{lines}");
    }
}

/// Only pages accept the cookie, so a page of another site can do nothing with it.
#[tokio::test]
async fn no_operation_of_the_api_accepts_the_cookie() {
    let (hub, device, _) = hub_with_user("viewer").await;
    let cookie = logged_in(&hub, &device).await;
    let mut closed = 0;
    for operation in hub.operations.clone() {
        assert!(!operation.path.starts_with("/console"), "{operation:?}");
        if operation.is_open || operation.path.starts_with("/debug/") {
            continue;
        }
        let path = operation.path.replace(['{', '}'], "");
        for lines in [&cookie, &format!("{cookie}{OWN}")] {
            let answer = hub.send(lines, operation.method.as_str(), &path, "").await;
            assert_eq!(answer.status, 401, "{operation:?}: {}", answer.body);
            closed += 1;
        }
    }
    assert!(closed > 150, "{closed}");
    for path in ["/console/../participants", "/consoles", "//console", "/%63onsole/../self", "/CONSOLE"] {
        let answer = hub.send(&cookie, "GET", path, "").await;
        assert!([404, 400].contains(&answer.status), "{path}: {} {}", answer.status, answer.body);
    }
    // The credential in the header has precedence.
    let both = format!("{cookie}authorization: Bearer wrong\r\n");
    assert_eq!(hub.send(&both, "GET", "/console", "").await.status, 401);
}

/// The browser cannot choose the session, and a login never continues one.
#[tokio::test]
async fn unknown_cookies_are_removed_and_each_login_makes_a_new_session() {
    let (hub, device, admin) = hub_with_user("viewer").await;
    let first = logged_in(&hub, &device).await;
    let chosen = format!("cookie: {COOKIE}upesi_session_{}\r\n", "A".repeat(43));
    for cookie in [
        chosen.clone(),
        format!("cookie: {COOKIE}\r\n"),
        format!("cookie: {COOKIE}{admin}\r\n"),
        format!("cookie: {COOKIE}{}; {COOKIE}{}\r\n", token(&first), token(&first)),
        format!("cookie: {COOKIE}{}\r\n", "x".repeat(2_000)),
    ] {
        let answer = hub.send(&cookie, "GET", "/console/participants", "").await;
        let target = format!("{LOGIN}?next=%2Fconsole%2Fparticipants&expired=1");
        assert_eq!(led_to(&answer), target, "{cookie}");
        assert_eq!(answer.header("set-cookie"), Some(&*format!("{COOKIE}; {ATTRIBUTES}; Max-Age=0")));
    }
    let mut cookies = vec![first.clone(), chosen.clone()];
    for lines in [first.clone(), chosen.clone(), String::new()] {
        let body = form("amina", PASSWORD, &next_code(&hub, &device), "");
        let answer = submit(&hub, &format!("{lines}{OWN}"), &body).await;
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
        cookies.push(format!("cookie: {cookie}\r\n"));
    }
    let count = cookies.len();
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), count, "all sessions differ");
    assert_eq!(hub.send(&chosen, "GET", "/console", "").await.status, 303);
}

#[tokio::test]
async fn ended_session_leads_to_the_login_page() {
    let (hub, device, admin) = hub_with_user("viewer").await;
    let cookie = logged_in(&hub, &device).await;
    hub.clock.advance(15 * MINUTE_MS - 1);
    assert_eq!(hub.send(&cookie, "GET", "/console", "").await.status, 200);
    hub.clock.advance(15 * MINUTE_MS);
    let answer = hub.send(&cookie, "GET", "/console/transfers?q=green", "").await;
    let target = led_to(&answer);
    assert_eq!(target, format!("{LOGIN}?next={}&expired=1", url_part("/console/transfers?q=green")));
    contains(&hub.send("", "GET", &target, "").await.body, &["Your session has ended."]);
    // The text of a form may be personal, so only its path is kept.
    for path in ["/console/transfers", LOGOUT] {
        let answer = hub.send(&format!("{cookie}{OWN}"), "POST", path, "q=%2B260001000000001").await;
        assert_eq!(led_to(&answer), format!("{LOGIN}?next={}&expired=1", url_part(path)));
        assert!(!answer.body.contains("260001") && !answer.head.contains("260001"));
    }
    // A change of the operator ends the session at once.
    let cookie = logged_in(&hub, &device).await;
    let lines = format!("authorization: Bearer {admin}\r\ncontent-type: application/json\r\n");
    hub.send(&lines, "PUT", "/operators/amina", "{\"roles\":[\"auditor\"]}").await;
    assert!(led_to(&hub.send(&cookie, "GET", "/console", "").await).starts_with(LOGIN));
}

#[tokio::test]
async fn login_pages_and_redirections_are_not_stored_framed_or_scripted() {
    let (hub, device, _) = hub_with_user("viewer").await;
    let cookie = logged_in(&hub, &device).await;
    let mut answers = vec![
        hub.send("", "GET", LOGIN, "").await,
        hub.send("", "GET", "/console/login?out=1", "").await,
        submit(&hub, OWN, &form("amina", PASSWORD, "000000", "")).await,
        submit(&hub, OWN, &form("", "", "", "")).await,
        submit(&hub, OWN, &form("amina", PASSWORD, &next_code(&hub, &device), "")).await,
        hub.send(&format!("{cookie}{OWN}"), "POST", LOGOUT, "").await,
    ];
    for answer in &answers {
        assert_eq!(answer.header("content-security-policy"), Some(CONTENT_POLICY), "{}", answer.head);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    for path in PAGES {
        answers.push(hub.send("", "GET", path, "").await);
    }
    for answer in answers {
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", answer.head);
        for forbidden in ["<script", " style=", " onclick", "http://", "https://"] {
            assert!(!answer.body.contains(forbidden), "{forbidden}: {}", answer.body);
        }
    }
    assert!(
        CONTENT_POLICY.contains("frame-ancestors 'none'") && CONTENT_POLICY.contains("form-action 'self'")
    );
}

#[tokio::test]
async fn hostile_names_and_pages_are_escaped_in_the_form() {
    let (hub, _, _) = hub_with_user("viewer").await;
    let hostile = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}\u{0}";
    let body = form(hostile, hostile, "000000", hostile);
    let page = submit(&hub, OWN, &body).await;
    assert_eq!(page.status, 400);
    assert!(page.body.contains("value=\"&#34;&#62;&#60;script&#62;alert(1)"), "{}", page.body);
    let query = url_part(hostile);
    let shown = hub.send("", "GET", &format!("{LOGIN}?next={query}&out={query}&expired={query}"), "").await;
    for page in [page.body, shown.body] {
        for markup in ["<script", "<img src=x", "\u{202e}", "\u{0}", "\"><script"] {
            assert!(!page.contains(markup), "{markup}: {page}");
        }
    }
    let long = submit(&hub, OWN, &form(&"ab".repeat(1_000), "x", "1", "")).await;
    assert!(long.body.len() < 8_000 && !long.body.contains(&"ab".repeat(33)), "{}", long.body);
    // The body of a login is small, because its sender is not authenticated.
    let large = submit(&hub, OWN, &form("amina", &"x".repeat(9_000), "1", "")).await;
    assert!(large.status == 400 && large.body.contains("8192"), "{} {}", large.status, large.body);
}

/// A link of another site is followed without the cookie, because the cookie is strict.
#[tokio::test]
async fn link_of_another_site_leads_to_a_page_with_a_link_of_its_own() {
    let (hub, device, _) = hub_with_user("viewer").await;
    logged_in(&hub, &device).await;
    let foreign = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";
    let target = led_to(&hub.send(foreign, "GET", "/console/windows/1", "").await);
    let page = hub.send(foreign, "GET", &target, "").await;
    assert!(page.body.contains("<a href=\"/console/windows/1\">Open the page with your session</a>"));
    let own = hub.send("sec-fetch-site: none\r\n", "GET", &target, "").await;
    assert!(!own.body.contains("Open the page with your session"));
}

#[tokio::test]
async fn hub_without_users_says_how_to_get_in() {
    let hub = Hub::launch(Some(false), "answered 503");
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let page = hub.send("", "GET", LOGIN, "").await;
    assert_eq!(page.status, 200);
    contains(
        &page.body,
        &[
            "This hub has no user with a password",
            "upesi admin create NAME --role ROLE --person",
            "upesi admin enrol --enrolment FILE",
            "A token is not entered here.",
        ],
    );
    assert!(!page.body.contains("<form"), "{}", page.body);
    user(&hub, &admin, "amina", "viewer").await;
    assert!(hub.page(LOGIN).await.contains("<form"));
    // An operator who cannot log in does not count.
    let lines = format!("authorization: Bearer {admin}\r\ncontent-type: application/json\r\n");
    hub.send(&lines, "PUT", "/operators/amina", "{\"isActive\":false}").await;
    assert!(!hub.page(LOGIN).await.contains("<form"));
}

#[tokio::test]
async fn hub_without_authentication_has_no_login() {
    let hub = Hub::with_dfsps(&["green"]).await;
    for cookie in [String::new(), format!("cookie: {COOKIE}upesi_session_x\r\n")] {
        let page = hub.send(&cookie, "GET", "/console", "").await;
        assert_eq!((page.status, page.header("set-cookie")), (200, None));
        contains(&page.body, &["Protections are off:", "no login"]);
        assert!(!text(&page.body).contains("Log out"), "{}", page.body);
        assert_eq!(led_to(&hub.send(&cookie, "GET", LOGIN, "").await), "/console");
        let answer = submit(&hub, &cookie, &form("amina", PASSWORD, "000000", "/console/audit")).await;
        assert_eq!((led_to(&answer), answer.header("set-cookie")), ("/console/audit".to_owned(), None));
        let found = hub.send(&cookie, "POST", "/console/transfers", "q=green").await;
        assert_eq!(led_to(&found), "/console/transfers?q=green");
        assert_eq!(hub.send(&cookie, "POST", LOGOUT, "").await.status, 400);
    }
}

#[tokio::test]
async fn token_in_the_header_has_no_logout() {
    let (hub, _, admin) = hub_with_user("viewer").await;
    let viewer = operator(&hub, &admin, "program", "viewer", None).await;
    assert_eq!(status(&hub, &viewer, "/console").await, 200);
    let lines = format!("authorization: Bearer {viewer}\r\n");
    let page = hub.send(&lines, "GET", "/console", "").await;
    assert!(!page.body.contains("Log out"));
    assert_eq!(hub.send(&lines, "POST", LOGOUT, "").await.status, 400);
}
