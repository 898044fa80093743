//! Registering parties with a directory, which a stand-in for the hub keeps.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{
    Bytes, Connection, Full, Incoming, Limits, Method, Pool, PoolConfig, Request, Response, Server, Service,
    StatusCode, Target, Uri, Workers, body,
};
use upesi_sim::{
    ExchangeError, Originator, OriginatorOptions, REGISTRATION_PARTIES_MAX, SimConfig, Simulator, Upstream,
    owner_of,
};
use upesi_types::{Amount, Currency, ErrorCode};

const PATIENCE: Duration = Duration::from_secs(30);

/// Takes batches, refuses every third party, and fails those that are empty.
#[derive(Default)]
struct Hub {
    dfsp: OnceLock<String>,
}

impl Service for Hub {
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
    let hub = Arc::new(Hub::default());
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
