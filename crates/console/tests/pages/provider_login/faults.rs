//! Answers of an identity provider that have any fault.

use serde_json::{Value, json};
use upesi_console::CONTENT_POLICY;
use upesi_testsupport::identity_provider::{Key, Provider, encode};

use super::{
    Begun, LOGIN_COOKIE, MINUTE_MS, RETURN, begin, claims, come_back, config, give, header, hub_of,
    logged_in, now_s, parameter, sessions, set_cookies, trail, with,
};
use crate::access::operator;
use crate::common::{Hub, contains};

/// What is wrong with an answer.
enum Fault {
    /// The ID token.
    Token(String),
    /// The answer of the token endpoint: its status and its body.
    Endpoint(&'static str, String),
    /// The query of the browser's request.
    Query(String),
}

/// A fault alone: its name, the status of the page, and the reason in the audit trail.
type Case = (&'static str, Fault, u16, &'static str);

fn faults(provider: &Provider, (key, other_key): (&Key, &Key), hub: &Hub, begun: &Begun) -> Vec<Case> {
    let good = claims(provider, hub, begun);
    let unknown =
        ("another key", Fault::Token(other_key.token(&header(), &good)), 401, "signature does not match");
    let state = parameter(&begun.url, "state");
    token_faults(key, &good, now_s(hub)).into_iter().chain([unknown]).chain(answer_faults(state)).collect()
}

/// Faults of the ID token.
fn token_faults(key: &Key, good: &Value, now_s: i64) -> Vec<Case> {
    let claim = |name: &str, value: Value| Fault::Token(key.token(&header(), &with(good, name, value)));
    let part = |value: &Value| encode(value.to_string().as_bytes());
    let unsigned = format!("{}.{}.", part(&json!({"alg": "none", "kid": "k1"})), part(good));
    vec![
        ("nonce of another login", claim("nonce", json!("x")), 401, "`nonce` claim is of another login"),
        ("no nonce", claim("nonce", Value::Null), 401, "`nonce` claim is of another login"),
        ("another audience", claim("aud", json!("https://hub.example/admin")), 401, "another audience"),
        ("no audience", claim("aud", Value::Null), 401, "another audience"),
        (
            "two audiences, no party",
            claim("aud", json!(["console", "x"])),
            401,
            "client that is not in the list",
        ),
        ("another party", claim("azp", json!("x")), 401, "client that is not in the list"),
        ("another issuer", claim("iss", json!("https://id.example")), 401, "another issuer"),
        ("expired", claim("exp", json!(now_s - 61)), 401, "has expired"),
        ("no expiry", claim("exp", Value::Null), 401, "no `exp` claim"),
        ("of the future", claim("iat", json!(now_s + 61)), 401, "not valid yet"),
        ("alg none", Fault::Token(unsigned), 401, "algorithm"),
        ("no name", claim("sub", Value::Null), 401, "does not name an operator"),
        ("no group", claim("groups", Value::Null), 403, "no group of the user maps to a role"),
        (
            "groups without a role",
            claim("groups", json!(["canteen"])),
            403,
            "no group of the user maps to a role",
        ),
        ("a role of DFSPs", claim("groups", json!(["hub-bank"])), 403, "roles of DFSPs"),
        (
            "roles that exclude each other",
            claim("groups", json!(["hub-operations", "hub-leads"])),
            403,
            "cannot be combined",
        ),
    ]
}

/// Faults of the token endpoint's answer, and of the browser's request.
fn answer_faults(state: &str) -> Vec<Case> {
    let query = |text: &str| Fault::Query(format!("{RETURN}?{text}"));
    let endpoint = |status, body: &str| Fault::Endpoint(status, body.to_owned());
    vec![
        (
            "code was used",
            endpoint("400 Bad", r#"{"error":"invalid_grant"}"#),
            401,
            "answered 400 invalid_grant",
        ),
        (
            "wrong secret",
            endpoint("401 No", r#"{"error":"invalid_client\n<b>"}"#),
            401,
            "answered 401 invalid_clientb",
        ),
        ("no ID token", endpoint("200 OK", r#"{"access_token":"x"}"#), 401, "no ID token"),
        ("no JSON", endpoint("200 OK", "<html>"), 401, "no ID token"),
        (
            "a huge answer",
            endpoint("200 OK", &format!("{{\"id_token\":\"{}\"}}", "x".repeat(70_000))),
            503,
            "token endpoint",
        ),
        ("a failure", endpoint("502 Bad", ""), 503, "answered 502"),
        ("a redirection", endpoint("302 Found", ""), 401, "answered 302"),
        (
            "state of another login",
            query(&format!("code=c1&state={}x", &state[1..])),
            400,
            "state of another login",
        ),
        ("no state", query("code=c1"), 400, "state of another login"),
        ("no code", query(&format!("state={state}")), 401, "has no code"),
        ("a long code", query(&format!("state={state}&code={}", "x".repeat(2_049))), 401, "has no code"),
        (
            "issuer of another provider",
            query(&format!("code=c1&state={state}&iss=https%3A%2F%2Fid.example")),
            401,
            "does not name the provider",
        ),
        (
            "denied",
            query(&format!("state={state}&error=access_denied&error_description=%3Cscript%3E")),
            401,
            "answered access_denied",
        ),
        (
            "denied by a long text",
            query(&format!("state={state}&error={}", "a%0Ab".repeat(100))),
            401,
            "answered abab",
        ),
    ]
}

/// Number of faults that are tried at one hub. The audit trail records the rejections of a burst only.
const FAULTS_OF_HUB: usize = 12;

#[tokio::test]
async fn answer_with_any_single_fault_is_rejected_with_a_reason_that_reveals_nothing() {
    let keys = (&Key::rsa(), &Key::rsa());
    let provider = Provider::start(vec![keys.0.public("k1")]).await;
    let mut tried = 0;
    let count = loop {
        let hub = hub_of([config("oidc", &provider.issuer)]);
        let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
        let auditor = operator(&hub, &admin, "reader", "auditor", None).await;
        let count = faults(&provider, keys, &hub, &begin(&hub, "/console").await).len();
        for number in 0..FAULTS_OF_HUB.min(count - tried) {
            // Earlier attempts are forgotten.
            hub.clock.advance(61 * MINUTE_MS);
            let begun = begin(&hub, "/console/audit").await;
            let fault = faults(&provider, keys, &hub, &begun).swap_remove(tried);
            give(&provider, &keys.0.token(&header(), &claims(&provider, &hub, &begun)));
            let (what, why) = rejected(&provider, &hub, &begun, fault).await;
            let trail = trail(&hub, &auditor).await;
            assert_eq!(trail.matches("\"session.open\"").count(), number + 1, "{what}: {trail}");
            assert!(trail.contains(why), "{what}: {trail}");
            assert_eq!(sessions(&hub, &admin).await, 0, "{what}");
            tried += 1;
        }
        // Without a fault, the login succeeds.
        hub.clock.advance(61 * MINUTE_MS);
        logged_in(&hub, &provider, keys.0, &[]).await;
        assert_eq!(sessions(&hub, &admin).await, 1);
        if tried == count {
            break count;
        }
    };
    assert!(count > 30, "{count}");
}

/// Tries one fault.
async fn rejected(
    provider: &Provider,
    hub: &Hub,
    begun: &Begun,
    (what, fault, status, why): (&'static str, Fault, u16, &'static str),
) -> (&'static str, &'static str) {
    let mut path = begun.back();
    let before = provider.tokens.requests().len();
    match &fault {
        Fault::Token(token) => give(provider, token),
        Fault::Endpoint(status, body) => provider.tokens.set(status, body),
        Fault::Query(query) => path.clone_from(query),
    }
    let page = come_back(hub, &begun.cookie, &path).await;
    assert_eq!(page.status, status, "{what}: {}", page.body);
    let removed = format!("{LOGIN_COOKIE}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0");
    assert_eq!(set_cookies(&page), [removed]);
    assert_eq!(page.header("content-security-policy"), Some(CONTENT_POLICY));
    contains(&page.body, &["Log in with 127.0.0.1", "A token is not entered here"]);
    assert!(page.body.contains("/console/login/with/oidc?next=%2Fconsole%2Faudit"), "{what}: {}", page.body);
    assert!(!page.body.contains(why) && !page.body.contains("<script"), "{what}: {}", page.body);
    let asked = provider.tokens.requests().len() - before;
    assert_eq!(asked, usize::from(!matches!(fault, Fault::Query(_))), "{what}");
    (what, why)
}
