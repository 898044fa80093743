//! Payments and registrations that users order over HTTP, and parties that are registered in batches.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use upesi_http::{
    Bytes, Connection, Full, HeaderValue, Incoming, Limits, Method, Origin, Pool, PoolConfig, Request,
    Response, Server, Service, StatusCode, Target, Uri, Workers, body,
};
use upesi_sim::{
    DfspSettings, ExchangeError, Originator, OriginatorOptions, REGISTRATION_PARTIES_MAX, SimConfig,
    Simulator, Upstream, owner_of,
};
use upesi_types::{Amount, Currency, ErrorCode};

use crate::common::{PATIENCE, World, add_headers};

/// Sends an order to a simulator. Returns status and answer.
async fn order(simulator: &Simulator, path: &str, body: &Value) -> (u16, Value) {
    let address = simulator.local_addr();
    let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
    let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::try_from(path).unwrap();
    let answer = pool.send(request, Instant::now() + PATIENCE).await.unwrap();
    let body = str::from_utf8(&answer.body).unwrap();
    assert!(body.is_empty() || answer.headers["content-type"] == "application/json");
    (answer.status.as_u16(), serde_json::from_str(body).unwrap_or_default())
}

fn payment(to: &str, amount: &str) -> Value {
    json!({"to": {"idType": "MSISDN", "idValue": to}, "amount": amount, "currency": "KES"})
}

const OF_DFSP_2: &str = "260001000000007";

#[tokio::test]
async fn payment_is_answered_after_the_money_moved() {
    let world = World::new(DfspSettings { fee_per_mille: 40, ..DfspSettings::default() });
    for (amount_type, moved, received) in [("SEND", "12.5", "12"), ("RECEIVE", "13", "12.5")] {
        let mut ordered = payment(OF_DFSP_2, "12.5");
        ordered["amountType"] = amount_type.into();
        let (status, receipt) = order(&world.simulator, "/dfsp-1/payments", &ordered).await;
        assert_eq!((status, receipt.get("error")), (200, None), "{receipt}");
        assert_eq!(receipt["payer"], "dfsp-1");
        assert_eq!(receipt["lookup"]["party"]["partyIdInfo"]["fspId"], "dfsp-2");
        let terms = &receipt["quote"]["terms"];
        assert_eq!(terms["transferAmount"], json!({"amount": moved, "currency": "KES"}), "{receipt}");
        assert_eq!(terms["payeeReceiveAmount"]["amount"], received, "{receipt}");
        assert_eq!(receipt["transfer"]["state"], "COMMITTED");
        assert_ne!(receipt["quote"]["quoteId"], receipt["transfer"]["transferId"]);
        let times = ["lookup", "quote", "transfer"].map(|phase| receipt[phase]["us"].as_u64().unwrap());
        assert!(times.iter().sum::<u64>() <= receipt["totalUs"].as_u64().unwrap(), "{receipt}");
    }
    world.until("both transfers", |sim| sim.transfer_counts().incoming_committed == 2).await;
    // 12.5 and 13, each to the ten-thousandth.
    assert_eq!((world.high(0), world.high(1)), (255_000, -255_000));
    world.end().await;
}

#[tokio::test]
async fn failed_payment_names_phase_and_error() {
    let plain = DfspSettings::default();
    let refusing = DfspSettings { http_error_per_mille: 1000, http_error_status: 418, ..plain };
    for (settings, to, phase, code, description) in [
        (plain, "26097", "lookup", Some("3204"), "Party not found"),
        (plain, "260000000000007", "lookup", None, ""),
        (
            DfspSettings { abort_per_mille: 1000, ..plain },
            OF_DFSP_2,
            "lookup",
            Some("5000"),
            "Generic Payee error",
        ),
        (refusing, OF_DFSP_2, "lookup", None, "the hub answered the request with 418 I'm a teapot"),
    ] {
        let world = World::new(settings);
        let (status, receipt) = order(&world.simulator, "/dfsp-1/payments", &payment(to, "1")).await;
        if description.is_empty() {
            // The payer pays itself.
            assert_eq!((status, &receipt["transfer"]["state"]), (200, &json!("COMMITTED")), "{receipt}");
        } else {
            let error = &receipt["error"];
            assert_eq!((status, error["phase"].as_str()), (502, Some(phase)), "{receipt}");
            assert_eq!(
                (error["errorCode"].as_str(), error["errorDescription"].as_str()),
                (code, Some(description))
            );
            assert!(receipt.get("quote").is_none() && receipt.get("transfer").is_none(), "{receipt}");
        }
        world.end().await;
    }
}

#[tokio::test]
async fn order_fails_in_each_phase() {
    // Seed 1 affects the quotes and the transfers of different orders.
    let world = World::new(DfspSettings { abort_per_mille: 300, ..DfspSettings::default() });
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..60 {
        let (status, receipt) = order(&world.simulator, "/dfsp-1/payments", &payment(OF_DFSP_2, "1")).await;
        let phase = receipt["error"]["phase"].as_str().unwrap_or("none");
        let code = receipt["error"]["errorCode"].as_str().unwrap_or("none");
        let state = receipt["transfer"]["state"].as_str().unwrap_or("none");
        seen.insert((phase.to_owned(), code.to_owned(), state.to_owned()), status);
    }
    let expected = [
        (("lookup", "5000", "none"), 502),
        (("none", "none", "COMMITTED"), 200),
        (("quote", "5101", "none"), 502),
        (("transfer", "5104", "ABORTED"), 502),
    ];
    let seen: Vec<_> = seen.iter().map(|((a, b, c), status)| ((&**a, &**b, &**c), *status)).collect();
    assert_eq!(seen, expected, "seed 1");
    world.end().await;
}

#[tokio::test]
async fn invalid_order_sends_nothing() {
    let world = World::new(DfspSettings::default());
    let change = |name: &str, value: Value| {
        let mut order = payment(OF_DFSP_2, "1");
        order[name] = value;
        order
    };
    for (path, body, expected) in [
        ("/dfsp-1/payments", json!(null), "the payment cannot be read"),
        ("/dfsp-1/payments", json!({"amount": "1", "currency": "KES"}), "missing field `to`"),
        ("/dfsp-1/payments", change("typo", json!(1)), "unknown field `typo`"),
        ("/dfsp-1/payments", change("amountType", json!("send")), "unknown variant `send`"),
        ("/dfsp-1/payments", change("amount", json!(1)), "expected a string"),
        ("/dfsp-1/payments", change("amount", json!("0")), "amount must be a positive decimal"),
        ("/dfsp-1/payments", change("amount", json!("1.23456")), "amount must be a positive decimal"),
        ("/dfsp-1/payments", change("currency", json!("kes")), "kes is not an ISO 4217 code"),
        (
            "/dfsp-1/payments",
            change("to", json!({"idType": "MSISDN", "idValue": ""})),
            "idValue must have 1 to 128",
        ),
        (
            "/dfsp-1/payments",
            change("to", json!({"idType": "A\"", "idValue": "1"})),
            "idType must have 1 to 128",
        ),
        ("/dfsp-1/parties", json!({"idType": "ALIAS"}), "missing field `idValue`"),
        ("/dfsp-1/parties", json!({"idType": "ALIAS", "idValue": "a\nb"}), "idValue must have"),
        (
            "/dfsp-1/parties",
            json!({"idType": "ALIAS", "idValue": "a", "idSubValue": "x".repeat(129)}),
            "idSubValue",
        ),
    ] {
        let (status, answer) = order(&world.simulator, path, &body).await;
        let text = answer["error"].as_str().unwrap();
        assert_eq!(status, 400, "{path} {body}");
        assert!(text.contains(expected), "{path} {body}: {text}");
    }
    assert_eq!(order(&world.simulator, "/nobody/payments", &payment(OF_DFSP_2, "1")).await.0, 404);
    assert_eq!(world.simulator.counters().lookups_received, 0);
    world.end().await;
}

/// A hub with only its directory: it registers all parties except `taken`, and reports the requests that it received.
struct Hub {
    dfsps: OnceLock<String>,
    got: mpsc::Sender<(String, Value)>,
}

impl Service for Hub {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body::read(body, 1 << 20, Instant::now() + PATIENCE).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let path = head.uri.path().to_owned();
        self.got.try_send((format!("{} {path}", head.method), body.clone())).unwrap();
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::ACCEPTED;
        if path.ends_with("/refused") {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            let error = json!({"errorInformation": {"errorCode": "3100", "errorDescription": "Generic validation error - no"}});
            *response.body_mut() = Full::new(Bytes::from(error.to_string()));
        } else if head.method == Method::POST {
            let (suffix, answer) = match path.ends_with("/taken") {
                true => (
                    "/error",
                    json!({"errorInformation": {"errorCode": "3003", "errorDescription": "Add Party information error - taken"}}),
                ),
                false => ("", json!({"fspId": body["fspId"]})),
            };
            let dfsp = head.headers["fspiop-source"].to_str().unwrap().to_owned();
            let target = Target::parse(self.dfsps.get().unwrap()).unwrap();
            tokio::spawn(async move {
                let mut request = Request::new(Full::new(Bytes::from(answer.to_string())));
                *request.method_mut() = Method::PUT;
                *request.uri_mut() = Uri::try_from(format!("/{dfsp}{path}{suffix}")).unwrap();
                add_headers(&mut request);
                let answered = Pool::new(target.origin, PoolConfig::default());
                answered.send(request, Instant::now() + PATIENCE).await.unwrap();
            });
        }
        response
    }
}

#[tokio::test]
async fn registered_party_is_known_to_the_hub_and_to_its_dfsp() {
    let workers = Workers::start(1, "test").unwrap();
    let (got, mut seen) = mpsc::channel(100);
    let hub = Arc::new(Hub { dfsps: OnceLock::new(), got });
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server = Server::serve(bound, Limits::default(), &workers, hub.clone());
    let upstream = Upstream::Hub(format!("http://{}", server.local_addr()));
    let simulator = Simulator::start(SimConfig::new(2, upstream), &workers).unwrap();
    hub.dfsps.set(format!("http://{}", simulator.local_addr())).unwrap();

    for (party, path, expected_body) in [
        (json!({"idType": "ALIAS", "idValue": "shop 7"}), "ALIAS/shop%207", json!({"fspId": "dfsp-2"})),
        (
            json!({"idType": "MSISDN", "idValue": "254712", "idSubValue": "till", "currency": "KES"}),
            "MSISDN/254712/till",
            json!({"fspId": "dfsp-2", "currency": "KES"}),
        ),
    ] {
        let (status, answer) = order(&simulator, "/dfsp-2/parties", &party).await;
        assert_eq!(
            (status, &answer["dfsp"], &answer["party"]),
            (200, &json!("dfsp-2"), &json!(path)),
            "{answer}"
        );
        assert!(answer["us"].is_u64() && answer.get("error").is_none(), "{answer}");
        assert_eq!(seen.recv().await.unwrap(), (format!("POST /participants/{path}"), expected_body));
        // The hub would forward a lookup to the DFSP. That DFSP answers for the party, and another one does not.
        for (dfsp, suffix) in [("dfsp-2", ""), ("dfsp-1", "/error")] {
            ask(&simulator, &format!("/{dfsp}/parties/{path}")).await;
            let (line, _) = timeout(PATIENCE, seen.recv()).await.unwrap().unwrap();
            assert_eq!(line, format!("PUT /parties/{path}{suffix}"));
        }
    }
    for (value, code, description) in [
        ("taken", "3003", "Add Party information error - taken"),
        ("refused", "3100", "Generic validation error - no"),
    ] {
        let party = json!({"idType": "ALIAS", "idValue": value});
        let (status, answer) = order(&simulator, "/dfsp-2/parties", &party).await;
        let error = json!({"phase": "registration", "errorCode": code, "errorDescription": description});
        assert_eq!((status, &answer["error"]), (502, &error), "{answer}");
        seen.recv().await.unwrap();
        ask(&simulator, &format!("/dfsp-2/parties/ALIAS/{value}")).await;
        assert_eq!(seen.recv().await.unwrap().0, format!("PUT /parties/ALIAS/{value}/error"));
    }
    simulator.shutdown(Instant::now() + Duration::from_secs(1)).await;
    server.shutdown(Instant::now() + Duration::from_secs(1)).await;
    tokio::task::spawn_blocking(move || workers.shutdown()).await.unwrap();
}

/// Forwards a lookup, as a hub does.
async fn ask(simulator: &Simulator, path: &str) {
    let address = simulator.local_addr();
    let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
    let mut request = Request::new(Full::default());
    *request.uri_mut() = Uri::try_from(path).unwrap();
    add_headers(&mut request);
    request.headers_mut().insert("fspiop-source", HeaderValue::from_static("bluebank"));
    assert_eq!(pool.send(request, Instant::now() + PATIENCE).await.unwrap().status, StatusCode::ACCEPTED);
}

/// Accepts batches, rejects every third party, and fails empty batches.
#[derive(Default)]
struct Registry {
    dfsp: OnceLock<String>,
}

impl Service for Registry {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/participants"));
        assert_eq!(
            request.headers()["content-type"],
            "application/vnd.interoperability.participants+json;version=1.1"
        );
        let body = body::read(request.into_body(), 1 << 20, Instant::now() + PATIENCE).await.unwrap();
        let batch: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(batch["currency"], "KES");
        let answer = |(index, party): (usize, &Value)| {
            assert_eq!(
                owner_of("MSISDN", party["partyIdentifier"].as_str().unwrap()),
                Some((1, 100 + index as u64))
            );
            let mut entry = json!({"partyId": party});
            if index % 3 == 2 {
                entry["errorInformation"] = json!({"errorCode": "3003", "errorDescription": "no"});
            }
            entry
        };
        let parties: Vec<_> = batch["partyList"].as_array().unwrap().iter().enumerate().map(answer).collect();
        let (suffix, body) = match parties.len() {
            0 => ("/error", json!({"errorInformation": {"errorCode": "3102", "errorDescription": "no"}})),
            _ => ("", json!({"partyList": parties})),
        };
        let target = Target::parse(self.dfsp.get().unwrap()).unwrap();
        let path = format!("{}/participants/{}{suffix}", target.path, batch["requestId"].as_str().unwrap());
        tokio::spawn(async move {
            let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
            *request.method_mut() = Method::PUT;
            *request.uri_mut() = Uri::try_from(path).unwrap();
            add_headers(&mut request);
            let pool = Pool::new(target.origin, PoolConfig::default());
            assert_eq!(pool.send(request, Instant::now() + PATIENCE).await.unwrap().status, StatusCode::OK);
        });
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::ACCEPTED;
        response
    }
}

#[tokio::test]
async fn batches_of_parties_are_registered() {
    let workers = Workers::start(1, "test").unwrap();
    let hub = Arc::new(Registry::default());
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server = Server::serve(bound, Limits::default(), &workers, hub.clone());
    let simulator = Simulator::start(
        SimConfig::new(2, Upstream::Hub(format!("http://{}", server.local_addr()))),
        &workers,
    )
    .unwrap();
    let name = simulator.names().nth(1).unwrap();
    hub.dfsp.set(simulator.base_url(&name)).unwrap();
    let options = OriginatorOptions {
        amount: Amount::parse_wire("1").unwrap(),
        currency: Currency::parse("KES").unwrap(),
        expiry: PATIENCE,
        seed: 1,
        nonce: 1,
        trace: false,
        resends_max: 0,
    };
    let originator = Arc::new(Originator::new(&simulator, options));
    for (count, expected) in [
        (10, Ok((7, 3))),
        (REGISTRATION_PARTIES_MAX + 7, Ok((3334, 1666))),
        (0, Err(ExchangeError::Code(ErrorCode::MISSING_ELEMENT))),
    ] {
        let originator = originator.clone();
        let register =
            async move { originator.register(1, 100, count).await.unwrap().answer(PATIENCE).await.result };
        let result = workers.get(0).spawn(register).await.unwrap();
        assert_eq!(result.map(|one| (one.registered, one.refused)), expected, "{count}");
    }
    assert_eq!(simulator.counters().answers_received, 3);
    simulator.shutdown(Instant::now() + PATIENCE).await;
    server.shutdown(Instant::now() + PATIENCE).await;
    tokio::task::spawn_blocking(move || workers.shutdown()).await.unwrap();
}
