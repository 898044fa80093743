//! A real OpenID Connect provider: node-oidc-provider, as `.ci/tools` installs it, started here on loopback. Its tokens
//! are accepted, its new keys are fetched, and while it is down cached keys stay in use.

use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use upesi_admin::{Issuer, IssuerConfig};
use upesi_http::Outbound;
use upesi_ledger::OperatorRole;
use upesi_oidc::ProviderConfig;
use upesi_testsupport::node_provider::NodeProvider;
use upesi_types::Timestamp;

use super::common::people::{call, expect};
use crate::common;
use crate::common::{Hub, Settings};

const AUDIENCE: &str = "https://hub.example/admin";
const REDIRECT: &str = "https://hub.example/console/login/return/oidc";

/// A token for an application, requested with the application's secret.
async fn token(port: u16, client: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let body = format!("grant_type=client_credentials&client_id={client}&client_secret=secret");
    let head =
        "POST /token HTTP/1.1\r\nconnection: close\r\ncontent-type: application/x-www-form-urlencoded\r\n";
    let request = format!("{head}host: 127.0.0.1:{port}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let json = answer.split_once("\r\n\r\n").unwrap().1;
    let json = &json[json.find('{').unwrap()..=json.rfind('}').unwrap()];
    let json: Value = serde_json::from_str(json).unwrap_or_else(|_| panic!("{answer}"));
    json["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn tokens_of_a_real_provider_are_accepted() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let provider = NodeProvider::start(port, "k1", AUDIENCE, REDIRECT);
    let config = IssuerConfig {
        label: "oidc",
        provider: ProviderConfig {
            issuer: format!("http://127.0.0.1:{port}"),
            audience: AUDIENCE.to_owned(),
            clients: vec!["treasury-app".to_owned()],
            unknown_key_interval: Duration::ZERO,
            outbound: Outbound::default(),
            tls: None,
            login: None,
        },
        name_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        roles: [("hub-treasury".to_owned(), vec![OperatorRole::Treasury])].into(),
        participant_claim: None,
        approval_age_s: None,
        approval_methods: vec![],
    };
    let issuers = vec![Issuer::new(config)];
    let hub = Hub::launch(Settings { authentication: true, issuers, ..Settings::default() });
    // The provider uses this machine's clock.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let start = Timestamp::parse_iso(common::START).unwrap().as_ms();
    hub.clock.advance(i64::try_from(now).unwrap() - start);

    let first = token(port, "treasury-app").await;
    let own = expect(&hub, &first, "GET", "/self", "", 200).await;
    assert_eq!((&own["operator"], &own["knownBy"]), (&json!("oidc:treasury-app"), &json!("oidc")), "{own}");
    assert!(own["permissions"].as_array().unwrap().contains(&json!("funds.in")), "{own}");
    assert_eq!(call(&hub, &token(port, "other-app").await, "GET", "/self", "").await.0, 401);
    // While it is down, the cached key stays in use.
    drop(provider);
    assert_eq!(call(&hub, &first, "GET", "/self", "").await.0, 200);
    // The provider is available again with another key, which the hub fetches for the first token.
    let _provider = NodeProvider::start(port, "k2", AUDIENCE, REDIRECT);
    let second = token(port, "treasury-app").await;
    assert_eq!(call(&hub, &second, "GET", "/self", "").await.0, 200);
    assert_eq!(call(&hub, &first, "GET", "/self", "").await.0, 401);
    hub.clock.advance(3_600_000);
    assert_eq!(call(&hub, &second, "GET", "/self", "").await.0, 401);
}
