//! The simulated oracle over real sockets: its interface as hubs use it, and every fault.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{
    Bytes, Full, Method, Origin, Pool, PoolConfig, Request, SendError, StatusCode, Uri, Workers,
};
use upesi_sim::{OracleConfig, OracleSettings, OracleSimulator, PartyId, SettingsError, party_of};
use upesi_types::{Currency, FspId};

const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    workers: Workers,
    oracle: OracleSimulator,
    pool: Pool,
}

fn fsp(name: &str) -> FspId {
    FspId::parse(name).unwrap()
}

impl World {
    fn new(settings: OracleSettings) -> Self {
        let workers = Workers::start(1, "test").unwrap();
        let config = OracleConfig { settings, ..OracleConfig::new([fsp("dfsp-1"), fsp("dfsp-2")]) };
        let oracle = OracleSimulator::start(config, &workers).unwrap();
        let address = oracle.local_addr();
        let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
        Self { workers, oracle, pool }
    }

    async fn try_ask(
        &self,
        method: Method,
        path: &str,
        body: &str,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), SendError> {
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(path).unwrap();
        self.pool.send(request, Instant::now() + within).await.map(|answer| (answer.status, answer.body))
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.try_ask(method, path, body, PATIENCE).await.unwrap();
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn owners(&self, path: &str) -> Value {
        let (status, mut body) = self.ask(Method::GET, path, "").await;
        assert_eq!(status, 200, "{path}");
        body["partyList"].take()
    }

    async fn end(self) {
        self.oracle.shutdown(Instant::now() + Duration::from_secs(1)).await;
        tokio::task::spawn_blocking(move || self.workers.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn rule_assigns_a_dfsp_without_registration() {
    let world = World::new(OracleSettings::default());
    for (dfsp, number, owners) in [
        (0, 0, json!([{"fspId": "dfsp-1"}])),
        (1, 999_999_999, json!([{"fspId": "dfsp-2"}])),
        (2, 5, json!([])),
    ] {
        let path = format!("/any/base/participants/{}", party_of(dfsp, number));
        assert_eq!(world.owners(&path).await, owners);
    }
    assert_eq!(world.owners("/participants/ALIAS/260000000000001").await, json!([]));
    let counters = world.oracle.counters();
    assert_eq!((counters.lookups, counters.found), (4, 2));
    world.end().await;
}

#[tokio::test]
async fn parties_are_registered_looked_up_changed_and_removed() {
    let world = World::new(OracleSettings::default());
    let path = "/participants/EMAIL/a%2Bb@c.de";
    let with = |fsp: &str| json!({"fspId": fsp, "currency": "KES", "partySubIdOrType": "till 7"}).to_string();
    assert_eq!(world.ask(Method::POST, path, r#"{"fspId":"dfsp-1"}"#).await.0, 201);
    assert_eq!(world.ask(Method::POST, path, &with("dfsp-2")).await.0, 201);
    let (status, body) = world.ask(Method::POST, path, &with("dfsp-1")).await;
    assert_eq!((status, &body["errorInformation"]["errorCode"]), (409, &json!("3003")));
    let description = body["errorInformation"]["errorDescription"].as_str().unwrap();
    assert_eq!(description, "Add Party information error - Party already exists [id: a+b@c.de]");
    let till = json!({"fspId": "dfsp-2", "currency": "KES", "partySubIdOrType": "till 7"});
    for (query, expected) in [
        ("", json!([{"fspId": "dfsp-1"}, till])),
        ("?partySubIdOrType=till%207", json!([till])),
        ("?partySubIdOrType=till+7&currency=KES", json!([till])),
        ("?currency=USD", json!([{"fspId": "dfsp-1"}])),
        ("?partySubIdOrType=none", json!([])),
    ] {
        assert_eq!(world.owners(&format!("{path}{query}")).await, expected, "{query}");
    }
    assert_eq!(
        world.ask(Method::PUT, path, r#"{"fspId":"dfsp-2"}"#).await,
        (200, json!({"partyList": [{"fspId": "dfsp-2"}]}))
    );
    assert_eq!(world.ask(Method::PUT, "/participants/EMAIL/none", r#"{"fspId":"dfsp-2"}"#).await.0, 404);
    assert_eq!(world.ask(Method::DELETE, path, "").await.0, 204);
    assert_eq!(world.ask(Method::DELETE, path, "").await.0, 404);
    assert_eq!(world.owners(path).await, json!([]));
    let registered = world.oracle.register(&PartyId::msisdn("1"), fsp("dfsp-1"), Currency::parse("KES"));
    assert_eq!(registered, Ok(true));
    assert_eq!(world.owners("/participants/MSISDN/1").await, json!([{"fspId": "dfsp-1", "currency": "KES"}]));
    let counters = world.oracle.counters();
    assert_eq!((counters.registered, counters.registrations_refused), (2, 1));
    assert_eq!((counters.changed, counters.removed), (1, 1));
    world.end().await;
}

#[tokio::test]
async fn batches_are_registered_entry_by_entry() {
    let world = World::new(OracleSettings::default());
    let party = |id: &str, fsp: &str| json!({"partyIdType": "MSISDN", "partyIdentifier": id, "fspId": fsp});
    let batch = json!({"requestId": "x", "currency": "KES", "partyList": [party("1", "dfsp-1"), party("2", "dfsp-2"),
        party("1", "dfsp-2"), party("3", "")]});
    let (status, body) = world.ask(Method::POST, "/participants", &batch.to_string()).await;
    assert_eq!((status, &body["currency"]), (201, &json!("KES")));
    let entries = body["partyList"].as_array().unwrap();
    let codes: Vec<_> = entries.iter().map(|entry| entry["errorInformation"]["errorCode"].as_str()).collect();
    assert_eq!(codes, [None, None, Some("3003"), Some("3101")]);
    assert_eq!(entries[1]["partyId"], party("2", "dfsp-2"));
    assert_eq!(world.owners("/participants/MSISDN/2").await, json!([{"fspId": "dfsp-2", "currency": "KES"}]));
    world.end().await;
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let world = World::new(OracleSettings::default());
    for (method, path, body, expected) in [
        (Method::POST, "/participants/MSISDN/1", "{}", 400),
        (Method::POST, "/participants/MSISDN/1", r#"{"fspId":"a","currency":"kes"}"#, 400),
        (Method::POST, "/participants", r#"{"partyList":1}"#, 400),
        (Method::GET, "/participants", "", 404),
        (Method::GET, "/participants/MSISDN", "", 404),
        (Method::GET, "/participants/MSISDN/1/2", "", 404),
        (Method::GET, "/parties/MSISDN/1", "", 404),
        (Method::PATCH, "/participants/MSISDN/1", "", 405),
    ] {
        let (status, answer) = world.ask(method, path, body).await;
        assert_eq!(status, expected, "{path} {body}");
        assert!(answer["errorInformation"]["errorCode"].is_string(), "{path} {body}");
    }
    world.end().await;
}

#[tokio::test]
async fn each_fault_of_an_oracle_has_its_effect() {
    let plain = OracleSettings::default();
    let world = World::new(plain);
    let path = format!("/participants/{}", party_of(0, 1));
    let several = json!([{"fspId": "dfsp-1"}, {"fspId": "dfsp-2"}]);
    for (settings, status, body) in [
        (OracleSettings { not_found_per_mille: 1000, ..plain }, 404, Value::Null),
        (OracleSettings { server_error_per_mille: 1000, ..plain }, 500, Value::Null),
        (OracleSettings { garbage_per_mille: 1000, ..plain }, 200, Value::Null),
        (OracleSettings { several_owners_per_mille: 1000, ..plain }, 200, json!({"partyList": several})),
        (
            OracleSettings { unknown_dfsp_per_mille: 1000, ..plain },
            200,
            json!({"partyList": [{"fspId": "unknown-dfsp"}]}),
        ),
        (OracleSettings { delay_ms: 2, ..plain }, 200, json!({"partyList": [{"fspId": "dfsp-1"}]})),
        (
            OracleSettings { unavailable_per_mille: 1000, ..plain },
            503,
            json!({"errorInformation":
            {"errorCode": "2003", "errorDescription": "Service currently unavailable"}}),
        ),
    ] {
        world.oracle.set_settings(settings).unwrap();
        assert_eq!(world.ask(Method::GET, &path, "").await, (status, body), "{settings:?}");
    }
    world.oracle.set_settings(OracleSettings { hang_per_mille: 1000, ..plain }).unwrap();
    let hung = world.try_ask(Method::GET, &path, "", Duration::from_millis(50)).await;
    assert!(matches!(hung, Err(SendError::Timeout)), "{hung:?}");
    assert_eq!(world.oracle.counters().faults, 7);
    world.end().await;
}

#[tokio::test]
async fn settings_are_shown_and_changed_over_http() {
    let world = World::new(OracleSettings::default());
    assert_eq!(world.ask(Method::GET, "/health", "").await, (200, json!({"status": "OK"})));
    let (status, report) = world.ask(Method::PUT, "/_sim/oracle", r#"{"delay_ms":3}"#).await;
    assert_eq!((status, &report["settings"]["delay_ms"]), (200, &json!(3)));
    for (method, body, expected) in [
        (Method::PUT, r#"{"hang_per_mille":1001}"#, 400),
        (Method::PUT, r#"{"typo":1}"#, 400),
        (Method::DELETE, "", 405),
        (Method::GET, "", 200),
    ] {
        assert_eq!(world.ask(method, "/_sim/oracle", body).await.0, expected, "{body}");
    }
    let refused =
        world.oracle.set_settings(OracleSettings { delay_ms: u32::MAX, ..OracleSettings::default() });
    assert_eq!(refused, Err(SettingsError::Delay("delay_ms")));
    world.end().await;
}
