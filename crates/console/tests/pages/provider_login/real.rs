//! Login by a real identity provider, in a browser that keeps its cookies.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use upesi_console::{CONTENT_POLICY, login_again_url};
use upesi_testsupport::node_provider::NodeProvider;
use upesi_types::Timestamp;

use super::{
    Begun, LOGIN, LOGIN_COOKIE, RETURN, SESSION, begin, come_back, config, hub_at, led_to, parameter,
    session, sessions, set_cookies,
};
use crate::access::operator;
use crate::common::{Answer, Hub, contains, link};

/// A client that keeps the provider's cookies.
struct Browser {
    port: u16,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn path<'a>(&self, url: &'a str) -> &'a str {
        url.strip_prefix(&format!("http://127.0.0.1:{}", self.port)).unwrap_or(url)
    }

    async fn send(&mut self, method: &str, url: &str, body: &str) -> Answer {
        let (path, length) = (self.path(url), body.len());
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncookie: {}\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{body}",
            self.port,
            cookies.join("; ")
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
        for cookie in set_cookies(&answer) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            match value {
                "" => drop(self.cookies.remove(name)),
                value => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        answer
    }

    /// Follows the provider's redirections, fills in its forms, and returns the path of its answer at
    /// the hub.
    async fn log_in(&mut self, url: &str, name: &str) -> String {
        let mut answer = self.send("GET", url, "").await;
        for _ in 0..12 {
            if let Some(location) = answer.header("location") {
                let location = location.to_owned();
                if let Some(path) = location.strip_prefix("http://localhost") {
                    return path.to_owned();
                }
                answer = self.send("GET", &location, "").await;
                continue;
            }
            assert_eq!(answer.status, 200, "{}", answer.body);
            let (_, form) = answer.body.split_once("action=\"").unwrap();
            let action = form.split('"').next().unwrap().to_owned();
            let prompt = if form.contains("value=\"login\"") { "login" } else { "consent" };
            let fields = format!("prompt={prompt}&login={name}&password=secret");
            answer = self.send("POST", &action, &fields).await;
        }
        panic!("the provider leads to no page of the hub")
    }
}

/// A real provider, its port, and a hub whose users it logs in.
fn started() -> (NodeProvider, u16, Hub) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let redirect_uri = format!("http://localhost{RETURN}");
    let provider = NodeProvider::start(port, "k1", "https://hub.example/admin", &redirect_uri);
    // The provider uses this machine's clock.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let now = Timestamp::from_ms(i64::try_from(now).unwrap());
    let hub = hub_at(now, [config("oidc", &format!("http://127.0.0.1:{port}"))]);
    (provider, port, hub)
}

#[tokio::test]
async fn user_of_a_real_provider_logs_in_and_again_and_out() {
    let (_provider, port, hub) = started();
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let mut browser = Browser { port, cookies: BTreeMap::new() };

    let wanted = "/console/participants?sort-positions=-free";
    let page = hub.send("", "GET", &led_to(&hub.send("", "GET", wanted, "").await), "").await;
    let button = format!("Log in with 127.0.0.1:{port}");
    contains(&page.body, &[&button]);
    let start = link(&page.body, "/console/login/with/oidc");
    let begun = Begun::of(&hub.send("sec-fetch-site: same-origin\r\n", "GET", &start, "").await);
    let path = browser.log_in(&begun.url, "amina.viewer").await;
    assert!(path.starts_with(&format!("{RETURN}?code=")) && path.contains("&iss=http"), "{path}");
    let done = come_back(&hub, &begun.cookie, &path).await;
    let first = session(&done);
    assert_eq!(done.header("refresh"), Some(&*format!("0;url={wanted}")));
    assert_eq!(
        (done.header("cache-control"), done.header("content-security-policy")),
        (Some("no-store"), Some(CONTENT_POLICY))
    );
    contains(&done.body, &["You are logged in.", "Go on"]);
    assert!(done.body.contains(&format!("href=\"{wanted}\"")), "{}", done.body);
    let strict = "; Path=/; Secure; HttpOnly; SameSite=Strict";
    let [of_session, of_login] = set_cookies(&done)[..] else { panic!("{}", done.head) };
    assert!(of_session.starts_with(&format!("{SESSION}upesi_session_")) && of_session.ends_with(strict));
    assert_eq!(of_login, format!("{LOGIN_COOKIE}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0"));
    let page = hub.send(&first, "GET", wanted, "").await;
    assert_eq!(page.status, 200);
    contains(&page.body, &["Operator: oidc:amina.viewer", "Log out"]);
    assert_eq!(hub.send(&first, "GET", "/console/audit", "").await.status, 403, "a viewer");
    // The code is used, and so is the login.
    let replayed = come_back(&hub, &begun.cookie, &path).await;
    assert_eq!((replayed.status, sessions(&hub, &admin).await), (400, 1), "{}", replayed.body);
    // Another login of the browser cannot use the code either: the provider rejects it.
    let other = begin(&hub, "/console").await;
    let code = parameter(&path, "code");
    let path = format!("{}&iss=http://127.0.0.1:{port}", other.back().replace("c1", code));
    assert_eq!(come_back(&hub, &other.cookie, &path).await.status, 401);

    // The provider has a session of its own, but the user must log in again.
    let again = login_again_url("/console/participants");
    let begun =
        Begun::of(&hub.send(&format!("{first}sec-fetch-site: same-origin\r\n"), "GET", &again, "").await);
    assert!(begun.url.ends_with("&prompt=login&max_age=0"), "{}", begun.url);
    let path = browser.log_in(&begun.url, "amina.viewer").await;
    let done = come_back(&hub, &begun.cookie, &path).await;
    let second = session(&done);
    assert_eq!(done.header("refresh"), Some("0;url=/console/participants"));
    assert_ne!(first, second);
    assert_eq!(hub.send(&second, "GET", wanted, "").await.status, 200);
    assert!(led_to(&hub.send(&first, "GET", wanted, "").await).starts_with(LOGIN), "replaced");

    // An administrator lists and ends the session.
    let lines = format!("authorization: Bearer {admin}\r\n");
    let list = hub.send(&lines, "GET", "/sessions", "").await.body;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        (list.as_array().unwrap().len(), &list[0]["operator"]),
        (1, &json!("oidc:amina.viewer")),
        "{list}"
    );
    let id = list[0]["sessionId"].as_str().unwrap();
    assert_eq!(hub.send(&lines, "DELETE", &format!("/sessions/{id}"), "").await.status, 204);
    assert!(led_to(&hub.send(&second, "GET", wanted, "").await).starts_with(LOGIN));

    // With the provider's session, the user logs in without a form. The logout ends the hub's session.
    let begun = begin(&hub, "/console").await;
    let path = browser.log_in(&begun.url, "not asked").await;
    let third = session(&come_back(&hub, &begun.cookie, &path).await);
    let out = hub.send(&format!("{third}origin: http://localhost\r\n"), "POST", "/console/logout", "").await;
    assert_eq!((led_to(&out), sessions(&hub, &admin).await), (format!("{LOGIN}?out=1"), 0));
}

#[tokio::test]
async fn account_without_a_role_gets_no_session() {
    let (_provider, port, hub) = started();
    let admin = operator(&hub, &hub.bootstrap(), "iam", "iam-admin", None).await;
    let mut browser = Browser { port, cookies: BTreeMap::new() };
    let begun = begin(&hub, "/console").await;
    let path = browser.log_in(&begun.url, "brian.gardener").await;
    let page = come_back(&hub, &begun.cookie, &path).await;
    assert_eq!(page.status, 403, "{}", page.body);
    contains(
        &page.body,
        &["you may not use this hub", "has no role in this hub", &format!("Log in with 127.0.0.1:{port}")],
    );
    assert_eq!(sessions(&hub, &admin).await, 0);
}
