//! Login by an identity provider.

mod faults;
mod real;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use upesi_admin::{Issuer, IssuerConfig};
use upesi_console::{login_again_url, login_return_path};
use upesi_engine::Clock as _;
use upesi_http::Outbound;
use upesi_ledger::OperatorRole;
use upesi_oidc::{ClientSecret, LoginClient, ProviderConfig};
use upesi_testsupport::identity_provider::{Key, Provider, encode};
use upesi_types::Timestamp;
use upesi_types::text::url_part;

use crate::access::operator;
use crate::common::{Answer, Hub, START, contains};

const SESSION: &str = "__Host-upesi-session=";
const LOGIN_COOKIE: &str = "__Host-upesi-login=";
const LOGIN: &str = "/console/login";
const RETURN: &str = "/console/login/return/oidc";
/// The headers of a request that the provider's page causes.
const FROM_PROVIDER: &str = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";
const SECRET: &str = "a secret: 100 %";
const MINUTE_MS: i64 = 60_000;

fn config(label: &'static str, issuer: &str) -> IssuerConfig {
    let roles = [
        ("hub-viewer", OperatorRole::Viewer),
        ("hub-operations", OperatorRole::Operations),
        ("hub-leads", OperatorRole::OperationsApprover),
        ("hub-bank", OperatorRole::DfspUser),
    ];
    IssuerConfig {
        label,
        provider: ProviderConfig {
            issuer: issuer.to_owned(),
            audience: "https://hub.example/admin".to_owned(),
            clients: Vec::new(),
            unknown_key_interval: Duration::ZERO,
            outbound: Outbound::default(),
            tls: None,
            login: Some(LoginClient {
                id: "console".to_owned(),
                secret: Some(ClientSecret::new(SECRET.to_owned())),
                scopes: Vec::new(),
                redirect_uri: format!("http://localhost{}", login_return_path(label)),
            }),
        },
        name_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        roles: roles.map(|(group, role)| (group.to_owned(), vec![role])).into(),
        participant_claim: None,
        approval_age_s: None,
        approval_methods: Vec::new(),
    }
}

fn hub_of(configs: impl IntoIterator<Item = IssuerConfig>) -> Hub {
    hub_at(Timestamp::parse_iso(START).unwrap(), configs)
}

fn hub_at(start: Timestamp, configs: impl IntoIterator<Item = IssuerConfig>) -> Hub {
    Hub::launch_with(Some(true), "answered 503", configs.into_iter().map(Issuer::new).collect(), start)
}

/// The cookies that an answer sets, each with its attributes.
fn set_cookies(answer: &Answer) -> Vec<&str> {
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")).map(|(_, value)| value).collect()
}

/// The header of a request with the cookie of this name that an answer sets.
fn cookie(answer: &Answer, name: &str) -> String {
    let found = set_cookies(answer).into_iter().find(|cookie| cookie.starts_with(name));
    let found = found.unwrap_or_else(|| panic!("no {name} in {}", answer.head));
    format!("cookie: {}\r\n", found.split(';').next().unwrap())
}

fn led_to(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.body);
    answer.header("location").unwrap().to_owned()
}

/// A parameter of a URL whose value needs no encoding.
fn parameter<'a>(url: &'a str, name: &str) -> &'a str {
    let (_, query) = url.split_once('?').unwrap();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.clone().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name} in {url}")).1
}

/// A login that a browser has begun.
struct Begun {
    /// The URL at the provider.
    url: String,
    /// The header with the cookie of the login.
    cookie: String,
}

impl Begun {
    fn of(answer: &Answer) -> Self {
        Self { url: led_to(answer), cookie: cookie(answer, LOGIN_COOKIE) }
    }

    /// The path of the provider's answer.
    fn back(&self) -> String {
        format!("{RETURN}?code=c1&state={}", parameter(&self.url, "state"))
    }
}

async fn begin(hub: &Hub, next: &str) -> Begun {
    Begun::of(&hub.send("", "GET", &format!("{LOGIN}/with/oidc?next={}", url_part(next)), "").await)
}

/// Sends the request that the provider's answer causes.
async fn come_back(hub: &Hub, cookie: &str, path: &str) -> Answer {
    hub.send(&format!("{cookie}{FROM_PROVIDER}"), "GET", path, "").await
}

/// The session after a login, as a header.
fn session(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.body);
    cookie(answer, SESSION)
}

fn token(session: &str) -> String {
    format!("authorization: Bearer {}\r\n", session.split_once(SESSION).unwrap().1.trim_end())
}

fn now_s(hub: &Hub) -> i64 {
    hub.clock.now().as_ms() / 1_000
}

/// The claims of a correct ID token.
fn claims(provider: &Provider, hub: &Hub, begun: &Begun) -> Value {
    let now_s = now_s(hub);
    json!({
        "iss": provider.issuer, "aud": "console", "sub": "amina", "groups": ["hub-viewer", "canteen"],
        "nonce": parameter(&begun.url, "nonce"), "exp": now_s + 300, "iat": now_s, "auth_time": now_s,
    })
}

/// Claims with another value of one claim, or without it if the value is null.
fn with(base: &Value, name: &str, value: Value) -> Value {
    let mut changed = base.clone();
    match value {
        Value::Null => drop(changed.as_object_mut().unwrap().remove(name)),
        value => changed[name] = value,
    }
    changed
}

fn header() -> Value {
    json!({"alg": "RS256", "kid": "k1"})
}

/// The provider answers with an ID token.
fn give(provider: &Provider, token: &str) {
    provider
        .tokens
        .set("200 OK", &json!({"access_token": "x", "token_type": "Bearer", "id_token": token}).to_string());
}

/// A provider, its key, and a hub whose users it logs in.
async fn provider_and_hub() -> (Provider, Key, Hub) {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let hub = hub_of([config("oidc", &provider.issuer)]);
    (provider, key, hub)
}

/// A session of a user with these claims in addition to the usual ones.
async fn logged_in(hub: &Hub, provider: &Provider, key: &Key, more: &[(&str, Value)]) -> String {
    let begun = begin(hub, "/console").await;
    let mut claims = claims(provider, hub, &begun);
    more.iter().for_each(|(name, value)| claims = with(&claims, name, value.clone()));
    give(provider, &key.token(&header(), &claims));
    session(&come_back(hub, &begun.cookie, &begun.back()).await)
}

async fn trail(hub: &Hub, auditor: &str) -> String {
    let lines = format!("authorization: Bearer {auditor}\r\n");
    hub.send(&lines, "GET", "/audit?limit=1000", "").await.body
}

/// Number of sessions that have not ended.
async fn sessions(hub: &Hub, admin: &str) -> usize {
    let lines = format!("authorization: Bearer {admin}\r\n");
    let body = hub.send(&lines, "GET", "/sessions", "").await.body;
    serde_json::from_str::<Value>(&body).unwrap().as_array().unwrap().len()
}

#[tokio::test]
async fn login_sends_the_code_and_the_verifier_of_its_challenge() {
    let (provider, key, hub) = provider_and_hub().await;
    let begun = begin(&hub, "/console").await;
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "console"),
        ("redirect_uri", "http%3A%2F%2Flocalhost%2Fconsole%2Flogin%2Freturn%2Foidc"),
        ("scope", "openid"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(parameter(&begun.url, name), value);
    }
    assert!(
        begun.url.starts_with(&format!("{}/authorize?", provider.issuer)) && !begun.url.contains("prompt")
    );
    let answer = hub.send("", "GET", &format!("{LOGIN}/with/oidc"), "").await;
    let set = set_cookies(&answer)[0];
    assert!(set.ends_with("; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"), "{set}");
    for secret in ["state", "nonce", "code_challenge"] {
        assert!(!begun.cookie.contains(parameter(&begun.url, secret)), "the cookie is sealed");
    }
    give(&provider, &key.token(&header(), &claims(&provider, &hub, &begun)));
    session(&come_back(&hub, &begun.cookie, &begun.back()).await);
    let requests = provider.tokens.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.to_ascii_lowercase().contains("authorization: basic "), "{head}");
    assert!(
        body.starts_with("grant_type=authorization_code&code=c1&redirect_uri=http%3A%2F%2Flocalhost"),
        "{body}"
    );
    assert!(!body.contains("client_secret") && !body.contains("client_id"), "{body}");
    let verifier = body.split_once("code_verifier=").unwrap().1;
    let digest = sha256(verifier);
    assert_eq!(encode(&digest), parameter(&begun.url, "code_challenge"));
}

fn sha256(text: &str) -> Vec<u8> {
    Sha256::digest(text.as_bytes()).to_vec()
}

/// The answer of a login that another browser has begun, or that has ended, opens no session.
#[tokio::test]
async fn login_belongs_to_the_browser_that_began_it_and_ends() {
    let (provider, key, hub) = provider_and_hub().await;
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let elsewhere = hub_of([config("oidc", &provider.issuer)]);
    let [begun, victim, foreign] =
        [begin(&hub, "/console").await, begin(&hub, "/console").await, begin(&elsewhere, "/console").await];
    give(&provider, &key.token(&header(), &claims(&provider, &hub, &begun)));
    let value = begun.cookie.trim_end().strip_prefix("cookie: ").unwrap();
    for (what, cookie) in [
        // A page of an attacker leads the victim's browser to the end of the attacker's login.
        ("no cookie", String::new()),
        ("the victim's own login", victim.cookie.clone()),
        ("a login of another process", foreign.cookie.clone()),
        ("a changed cookie", begun.cookie.replace(LOGIN_COOKIE, &format!("{LOGIN_COOKIE}A"))),
        ("two cookies", format!("cookie: {value}; {value}\r\n")),
        ("an empty cookie", format!("cookie: {LOGIN_COOKIE}\r\n")),
        ("a long cookie", format!("cookie: {LOGIN_COOKIE}{}\r\n", "A".repeat(5_000))),
    ] {
        let page = come_back(&hub, &cookie, &begun.back()).await;
        assert_eq!(page.status, 400, "{what}: {}", page.body);
        contains(&page.body, &["The login was not completed.", "was not begun in this browser"]);
        assert_eq!((sessions(&hub, &admin).await, provider.tokens.requests().len()), (0, 0), "{what}");
    }
    let first = come_back(&hub, &begun.cookie, &begun.back()).await;
    session(&first);
    // A second answer to the same login is rejected before the provider is asked.
    assert_eq!(come_back(&hub, &begun.cookie, &begun.back()).await.status, 400);
    assert_eq!((sessions(&hub, &admin).await, provider.tokens.requests().len()), (1, 1));
    // The last moment of a login, and the one after it.
    for (minutes, status) in [(10 * MINUTE_MS - 1, 200), (10 * MINUTE_MS, 400)] {
        let begun = begin(&hub, "/console").await;
        hub.clock.advance(minutes);
        give(&provider, &key.token(&header(), &claims(&provider, &hub, &begun)));
        assert_eq!(come_back(&hub, &begun.cookie, &begun.back()).await.status, status, "{minutes}");
    }
}

#[tokio::test]
async fn answer_of_another_provider_is_rejected() {
    let (key, other_key) = (Key::rsa(), Key::rsa());
    let provider = Provider::start(vec![key.public("k1")]).await;
    let other = Provider::start(vec![other_key.public("k1")]).await;
    *provider.more.lock().unwrap() = json!({"authorization_response_iss_parameter_supported": true});
    let hub = hub_of([config("oidc", &provider.issuer), config("other", &other.issuer)]);
    let page = hub.page(LOGIN).await;
    assert_eq!(page.matches("class=\"provider\"").count(), 2);
    let begun = begin(&hub, "/console").await;
    give(&provider, &key.token(&header(), &claims(&provider, &hub, &begun)));
    give(&other, &other_key.token(&header(), &claims(&other, &hub, &begun)));
    let named = |issuer: &str| format!("&iss={}", url_part(issuer));
    let at_other = begun.back().replace("/return/oidc", "/return/other");
    for (path, status) in [
        (format!("{at_other}{}", named(&other.issuer)), 400),
        (format!("{}{}", begun.back(), named(&other.issuer)), 401),
        // This provider always names itself.
        (begun.back(), 401),
    ] {
        let page = come_back(&hub, &begun.cookie, &path).await;
        assert_eq!((page.status, set_cookies(&page).len()), (status, 1), "{path}: {}", page.body);
    }
    assert_eq!((provider.tokens.requests().len(), other.tokens.requests().len()), (0, 0));
    let path = format!("{}{}", begun.back(), named(&provider.issuer));
    session(&come_back(&hub, &begun.cookie, &path).await);
    for path in ["/console/login/with/nosuch", "/console/login/return/nosuch", "/console/login/with/oidc/x"] {
        assert_eq!(hub.send("", "GET", path, "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn login_leads_only_to_pages_of_the_console_and_no_other_site_begins_it() {
    let (provider, key, hub) = provider_and_hub().await;
    for (next, target) in [
        ("/console/transfers?q=amount%3A100", "/console/transfers?q=amount%3A100"),
        ("//evil.example", "/console"),
        ("https://evil.example/console", "/console"),
        ("/\\evil.example", "/console"),
        ("/console/../participants", "/console"),
        ("/console\r\nset-cookie: a=b", "/console"),
        ("/console/login/again?next=/console", "/console"),
        ("/console/logout", "/console"),
        ("javascript:alert(1)", "/console"),
    ] {
        let begun = begin(&hub, next).await;
        assert!(begun.url.starts_with(&format!("{}/authorize?", provider.issuer)), "{}", begun.url);
        give(&provider, &key.token(&header(), &claims(&provider, &hub, &begun)));
        // What the URL of the answer says about a page does not count.
        let path = format!("{}&next=https%3A%2F%2Fevil.example", begun.back());
        let done = come_back(&hub, &begun.cookie, &path).await;
        session(&done);
        assert_eq!(done.header("refresh"), Some(&*format!("0;url={target}")), "{next:?}");
        assert!(
            done.body.contains(&format!("href=\"{target}\"")) && !done.body.contains("evil"),
            "{}",
            done.body
        );
    }
    let own = logged_in(&hub, &provider, &key, &[]).await;
    for lines in ["sec-fetch-site: cross-site\r\n", "sec-fetch-site: same-site\r\n"] {
        let lines = format!("{lines}sec-fetch-mode: navigate\r\n");
        let path = format!("{LOGIN}/with/oidc?next=%2Fconsole%2Faudit");
        let answer = hub.send(&lines, "GET", &path, "").await;
        assert_eq!(
            (led_to(&answer), set_cookies(&answer).len()),
            (format!("{LOGIN}?next=%2Fconsole%2Faudit"), 0)
        );
        let again = hub.send(&format!("{own}{lines}"), "GET", &login_again_url("/console/audit"), "").await;
        assert_eq!((led_to(&again), set_cookies(&again).len()), ("/console/audit".to_owned(), 0));
    }
    // A user who is logged in goes on, and a caller without a session gets the login page.
    assert_eq!(led_to(&hub.send(&own, "GET", &format!("{LOGIN}/with/oidc"), "").await), "/console");
    let answer = hub.send("", "GET", &login_again_url("/console/audit"), "").await;
    assert_eq!(led_to(&answer), format!("{LOGIN}?next=%2Fconsole%2Faudit"));
}

#[tokio::test]
async fn failed_logins_are_delayed_and_counted() {
    let (provider, key, hub) = provider_and_hub().await;
    provider.tokens.set("400 Bad", r#"{"error":"invalid_grant"}"#);
    let mut statuses = Vec::new();
    for _ in 0..7 {
        let begun = begin(&hub, "/console").await;
        let page = come_back(&hub, &begun.cookie, &begun.back()).await;
        statuses.push(page.status);
        if page.status == 503 {
            contains(
                &page.body,
                &["The hub did not check the login.", "Too many attempts: try again in 2 s"],
            );
        }
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 503, 503]);
    assert_eq!(provider.tokens.requests().len(), 5);
    // Answers to logins that this browser has not begun do not delay it.
    hub.clock.advance(2_000);
    for _ in 0..10 {
        assert_eq!(come_back(&hub, "", &format!("{RETURN}?code=c&state=s")).await.status, 400);
    }
    logged_in(&hub, &provider, &key, &[]).await;
}

/// A provider that does not answer uses up neither threads nor the connections of others.
#[tokio::test]
async fn slow_provider_holds_a_limited_number_of_logins() {
    let (provider, key, hub) = provider_and_hub().await;
    let hub = Arc::new(hub);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(begin(&hub, "/console").await);
    }
    give(&provider, &key.token(&header(), &claims(&provider, &hub, &all[0])));
    provider.tokens.hold();
    let last = all.pop().unwrap();
    let waiting: Vec<_> = all
        .into_iter()
        .map(|begun| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move { come_back(&hub, &begun.cookie, &begun.back()).await.status })
        })
        .collect();
    while provider.tokens.requests().len() < 4 {
        tokio::task::yield_now().await;
    }
    let page = come_back(&hub, &last.cookie, &last.back()).await;
    assert_eq!(page.status, 503, "{}", page.body);
    contains(&page.body, &["The hub did not check the login.", "Other logins are in progress"]);
    assert_eq!(hub.send("", "GET", LOGIN, "").await.status, 200, "the port answers others");
    provider.tokens.release();
    let mut statuses = Vec::new();
    for one in waiting {
        statuses.push(one.await.unwrap());
    }
    // The token is the one of the first login.
    assert_eq!(statuses, [200, 401, 401, 401]);
}

#[tokio::test]
async fn session_ends_when_idle_and_after_ten_hours() {
    let (provider, key, hub) = provider_and_hub().await;
    let session = logged_in(&hub, &provider, &key, &[]).await;
    hub.clock.advance(15 * MINUTE_MS - 1);
    assert_eq!(hub.send(&session, "GET", "/console", "").await.status, 200);
    hub.clock.advance(15 * MINUTE_MS);
    let target = led_to(&hub.send(&session, "GET", "/console", "").await);
    assert_eq!(target, format!("{LOGIN}?next=%2Fconsole&expired=1"));
    let session = logged_in(&hub, &provider, &key, &[]).await;
    let mut minutes = 0;
    while hub.send(&session, "GET", "/console", "").await.status == 200 {
        hub.clock.advance(10 * MINUTE_MS);
        minutes += 10;
    }
    assert_eq!(minutes, 600);
    // The session has no password at the hub.
    let by_token =
        format!("{}content-type: application/json\r\n", token(&logged_in(&hub, &provider, &key, &[]).await));
    let body = r#"{"password":"correct horse battery","code":"123456"}"#;
    let renewed = hub.send(&by_token, "POST", "/sessions/current/code", body).await;
    assert!(renewed.status == 400 && renewed.body.contains("session_missing"), "{}", renewed.body);
}

/// Approvals need a recent login, which another login at the provider proves.
#[tokio::test]
async fn another_login_allows_approvals_again() {
    let (provider, key, hub) = provider_and_hub().await;
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let maker = operator(&hub, &admin, "maker", "operations", None).await;
    let auditor = operator(&hub, &admin, "reader", "auditor", None).await;
    let lines = format!("authorization: Bearer {maker}\r\ncontent-type: application/json\r\n");
    upesi_testsupport::scheme::onboard(&hub.handle, &["green", "blue"]).await;
    let body = r#"{"name":"red","currency":"KES"}"#;
    let lines = format!("{lines}upesi-reason: a new bank of the scheme\r\n");
    let waiting = hub.send(&lines, "POST", "/participants", body).await;
    assert_eq!(waiting.status, 202, "{}", waiting.body);
    let approve = async |session: &str| {
        let lines = format!("{}content-type: application/json\r\n", token(session));
        hub.send(&lines, "POST", "/approvals/1/approve", "{}").await
    };
    let lead = ("groups", json!(["hub-leads"]));
    let old = now_s(&hub) - 300 - 61;
    for at in [json!(old), Value::Null, json!(now_s(&hub) + 61)] {
        let session = logged_in(&hub, &provider, &key, &[lead.clone(), ("auth_time", at.clone())]).await;
        let refused = approve(&session).await;
        assert!(
            refused.status == 403 && refused.body.contains("approver_login_old"),
            "{at}: {}",
            refused.body
        );
    }
    let session = logged_in(&hub, &provider, &key, &[lead.clone(), ("auth_time", json!(old))]).await;
    let again = async |cookie: &str, changes: &[(&str, Value)]| {
        let begun = Begun::of(&hub.send(cookie, "GET", &login_again_url("/console/approvals"), "").await);
        assert!(begun.url.ends_with("&prompt=login&max_age=0"), "{}", begun.url);
        let mut claims = with(&claims(&provider, &hub, &begun), "groups", lead.1.clone());
        changes.iter().for_each(|(name, value)| claims = with(&claims, name, value.clone()));
        give(&provider, &key.token(&header(), &claims));
        come_back(&hub, &begun.cookie, &begun.back()).await
    };
    let now = now_s(&hub);
    for (changes, text) in [
        (vec![("auth_time", json!(now - 61))], "did not ask you to log in again"),
        (vec![("auth_time", Value::Null)], "did not ask you to log in again"),
        (vec![("sub", json!("brian"))], "Another user has logged in"),
    ] {
        let page = again(&session, &changes).await;
        assert_eq!((page.status, set_cookies(&page).len()), (401, 1), "{}", page.body);
        contains(&page.body, &[text]);
        assert_eq!(hub.send(&session, "GET", "/console", "").await.status, 200, "the session goes on");
    }
    let done = again(&session, &[]).await;
    assert_eq!(done.header("refresh"), Some("0;url=/console/approvals"));
    let renewed = self::session(&done);
    assert!(led_to(&hub.send(&session, "GET", "/console", "").await).starts_with(LOGIN), "replaced");
    let approved = approve(&renewed).await;
    assert_eq!(approved.status, 200, "{}", approved.body);
    let trail = trail(&hub, &auditor).await;
    assert!(trail.contains("oidc:amina") && trail.contains("\"session "), "{trail}");
}

#[tokio::test]
async fn login_page_shows_what_is_set_up() {
    let key = Key::rsa();
    let provider = Provider::start(vec![key.public("k1")]).await;
    let of_dfsps = IssuerConfig {
        participant_claim: Some("participant".to_owned()),
        ..config("dfsp", "https://id.example/realms/<banks>")
    };
    let hub = hub_of([config("oidc", &provider.issuer), of_dfsps]);
    let page = hub.page(&format!("{LOGIN}?next=%2Fconsole%2Faudit")).await;
    contains(&page, &["Log in with 127.0.0.1:", "Log in with id.example, as a user of a DFSP"]);
    assert!(
        !page.contains("<form") && !page.contains("upesi admin create") && !page.contains("http"),
        "{page}"
    );
    // A provider that only issues tokens has no button.
    let mut tokens_only = config("oidc", &provider.issuer);
    tokens_only.provider.login = None;
    let hub = hub_of([tokens_only]);
    let page = hub.page(LOGIN).await;
    contains(&page, &["This hub has no user with a password", "oidc.login_client"]);
    assert!(!page.contains("class=\"provider\""), "{page}");
    assert_eq!(hub.send("", "GET", &format!("{LOGIN}/with/oidc"), "").await.status, 404);
    assert_eq!(hub.send("", "GET", RETURN, "").await.status, 404);
    // A provider that does not answer, or has no secure endpoints.
    provider.set_up(false);
    let hub = hub_of([config("oidc", &provider.issuer)]);
    let page = hub.send("", "GET", &format!("{LOGIN}/with/oidc"), "").await;
    assert_eq!((page.status, set_cookies(&page).len()), (503, 0), "{}", page.body);
    contains(&page.body, &["The hub did not check the login.", "The identity provider does not answer"]);
    provider.set_up(true);
    *provider.more.lock().unwrap() = json!({"token_endpoint": "http://id.example/token"});
    assert_eq!(hub.send("", "GET", &format!("{LOGIN}/with/oidc"), "").await.status, 503);
    *provider.more.lock().unwrap() = json!({});
    begin(&hub, "/console").await;
}

#[tokio::test]
async fn hub_without_authentication_has_no_login_by_a_provider() {
    let hub = Hub::with_dfsps(&["green"]).await;
    assert_eq!(led_to(&hub.send("", "GET", &format!("{LOGIN}/with/oidc"), "").await), "/console");
    assert_eq!(led_to(&hub.send("", "GET", &login_again_url("/console/audit"), "").await), "/console/audit");
    assert_eq!(led_to(&hub.send("", "GET", RETURN, "").await), LOGIN);
}
