//! The scenario against a small hub made for the test: onboarding, load, measuring, audit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{
    Full, Incoming, Limits, Method, Pool, PoolConfig, Request, Response, Server, Service, StatusCode, Target,
    Uri, Workers, body,
};
use upesi_lab::{Baseline, LabResult, Load, RunOptions, TargetHub};
use upesi_sim::{DfspSettings, units_text};
use upesi_types::Amount;

/// What a bad hub does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vice {
    None,
    /// Forgets to pay the payee once.
    ForgetsCredit,
    /// Never sends one callback.
    LosesCallback,
    /// Sends an abort after a commit.
    ChangesItsMind,
}

#[derive(Default)]
struct Participant {
    endpoint: String,
    position: i128,
    deposit: i128,
}

struct Books {
    participants: BTreeMap<String, Participant>,
    /// Payer, payee and amount of each transfer.
    transfers: BTreeMap<String, (String, String, i128)>,
}

struct ToyHub {
    vice: Vice,
    sinned: AtomicBool,
    books: Mutex<Books>,
    /// To the simulators, who all listen on one port.
    pool: OnceLock<Pool>,
}

impl ToyHub {
    /// Whether to sin now: once.
    fn sins(&self, vice: Vice) -> bool {
        self.vice == vice && !self.sinned.swap(true, Ordering::SeqCst)
    }

    async fn forward(
        &self,
        to: &str,
        method: Method,
        path: &str,
        headers: upesi_http::HeaderMap,
        body: Bytes,
    ) {
        let base = self.books.lock().unwrap().participants[to].endpoint.clone();
        let target = Target::parse(&base).unwrap();
        let base = target.path.path().trim_end_matches("/transfers");
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(format!("{base}{path}")).unwrap();
        *request.headers_mut() = headers;
        for name in ["host", "content-length"] {
            request.headers_mut().remove(name);
        }
        let pool = self.pool.get_or_init(|| Pool::new(target.origin, PoolConfig::default()));
        pool.send(request, Instant::now() + Duration::from_secs(10)).await.unwrap();
    }

    async fn transfers(self: Arc<Self>, request: Request<()>, body: Bytes) {
        let (head, ()) = request.into_parts();
        let json: Value = serde_json::from_slice(&body).unwrap();
        let path = head.uri.path().to_owned();
        if head.method == Method::POST {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (payer, payee) = (text(&json["payerFsp"]), text(&json["payeeFsp"]));
            let amount =
                i128::from(Amount::parse_wire(json["amount"]["amount"].as_str().unwrap()).unwrap().units());
            {
                let mut books = self.books.lock().unwrap();
                books.participants.get_mut(&payer).unwrap().position += amount;
                books.transfers.insert(text(&json["transferId"]), (payer, payee.clone(), amount));
            }
            return self.forward(&payee, Method::POST, &path, head.headers, body).await;
        }
        let id = path.split('/').nth(2).unwrap();
        let is_error = path.ends_with("/error");
        let (payer, payee, amount) = self.books.lock().unwrap().transfers[id].clone();
        let forgets = self.sins(Vice::ForgetsCredit);
        {
            let mut books = self.books.lock().unwrap();
            let account = if is_error { &payer } else { &payee };
            if !forgets {
                books.participants.get_mut(account).unwrap().position -= amount;
            }
        }
        if self.sins(Vice::LosesCallback) {
            return;
        }
        self.forward(&payer, Method::PUT, &path, head.headers.clone(), body).await;
        if self.sins(Vice::ChangesItsMind) {
            let error = r#"{"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}}"#;
            let path = format!("{path}/error");
            self.forward(&payer, Method::PUT, &path, head.headers, Bytes::from_static(error.as_bytes()))
                .await;
        }
    }

    fn admin(&self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, String) {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut books = self.books.lock().unwrap();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let accounts = json!([{"id": 1, "ledgerAccountType": "POSITION", "currency": "XXX"}]);
        match (method.as_str(), &segments[..]) {
            ("GET", ["participants"]) => {
                let all: Vec<_> = books
                    .participants
                    .keys()
                    .map(|name| json!({"name": name, "accounts": accounts}))
                    .collect();
                (StatusCode::OK, json!(all).to_string())
            }
            ("GET", ["participants", name, "positions"]) => {
                let position = units_text(books.participants[*name].position);
                (StatusCode::OK, format!(r#"[{{"currency":"XXX","value":{position}}}]"#))
            }
            ("GET", ["participants", name, "accounts"]) => {
                let value = units_text(-books.participants[*name].deposit);
                let rows = format!(
                    r#"[{{"id":2,"ledgerAccountType":"SETTLEMENT","currency":"XXX","value":{value}}}]"#
                );
                (StatusCode::OK, rows)
            }
            ("POST", ["participants"]) => {
                books.participants.entry(json["name"].as_str().unwrap().to_owned()).or_default();
                (StatusCode::CREATED, String::new())
            }
            ("POST", ["participants", name, "endpoints"]) => {
                if json["type"] == "FSPIOP_CALLBACK_URL_TRANSFER_POST" {
                    let url = json["value"].as_str().unwrap().to_owned();
                    books.participants.get_mut(*name).unwrap().endpoint = url;
                }
                (StatusCode::CREATED, String::new())
            }
            ("POST", ["participants", name, "accounts", "2"]) => {
                let amount = Amount::parse_decimal(&json["amount"]["amount"].to_string()).unwrap();
                books.participants.get_mut(*name).unwrap().deposit += i128::from(amount.units());
                (StatusCode::ACCEPTED, String::new())
            }
            // Set up before: hubs say so, each with its own status and words.
            ("POST", ["participants", "Hub", "accounts"]) => {
                let text =
                    r#"{"errorInformation":{"errorDescription":"Hub account has already been registered."}}"#;
                (StatusCode::BAD_REQUEST, text.to_owned())
            }
            ("POST", ["settlementModels"]) => (StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned()),
            ("POST", ["participants", _, "initialPositionAndLimits"]) => {
                let text = "Participant Limit or Initial Position already set";
                (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
            }
            _ => (StatusCode::NOT_FOUND, String::new()),
        }
    }
}

struct ToyService(Arc<ToyHub>);

impl Service for ToyService {
    async fn call(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body::read(body, 1 << 20, Instant::now() + Duration::from_secs(10)).await.unwrap();
        let mut response = Response::new(Full::default());
        if head.uri.path().starts_with("/transfers") {
            tokio::spawn(self.0.clone().transfers(Request::from_parts(head, ()), body));
            *response.status_mut() = StatusCode::ACCEPTED;
        } else {
            let (status, text) = self.0.admin(&head.method, head.uri.path(), &body);
            *response.status_mut() = status;
            *response.body_mut() = Full::new(text.into());
        }
        response
    }
}

/// Runs the scenario against a toy hub.
fn run(vice: Vice, change: impl FnOnce(&mut RunOptions)) -> LabResult {
    let workers = Workers::start(1, "toy").unwrap();
    let hub = Arc::new(ToyHub {
        vice,
        sinned: AtomicBool::new(false),
        books: Mutex::new(Books { participants: BTreeMap::new(), transfers: BTreeMap::new() }),
        pool: OnceLock::new(),
    });
    let bound = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = format!("http://{}", bound.local_addr());
    let _server = Server::serve(bound, Limits::default(), &workers, Arc::new(ToyService(hub)));
    let mut options = RunOptions {
        dfsps: 3,
        load: Load::Closed { users: 4 },
        duration: Duration::from_millis(500),
        warm_up: Duration::from_millis(50),
        slices: Some(1),
        target: Some(TargetHub { fspiop_url: url.clone(), admin_url: url, pid: None, durable: Some(false) }),
        workers: Some(1),
        callback_timeout: Duration::from_secs(1),
        quiesce_timeout: Duration::from_secs(1),
        ..RunOptions::default()
    };
    change(&mut options);
    let result = upesi_lab::run(&options).unwrap();
    workers.shutdown();
    result
}

#[test]
fn an_honest_hub_passes_and_its_result_has_what_programs_read() {
    let out = tempfile::tempdir().unwrap();
    let result = run(Vice::None, |options| {
        options.out = Some(out.path().to_owned());
        options.baselines = vec![Baseline::SimsOnly];
        options.behaviour = DfspSettings { abort_per_mille: 300, ..DfspSettings::default() };
    });
    assert_eq!(result.audit.findings, Vec::<String>::new());
    assert!(result.passed() && result.completed > 0 && result.lost == 0);
    assert!(result.failed > 0, "three in ten are aborted, seed 1");
    let json: Value =
        serde_json::from_slice(&std::fs::read(out.path().join("result.json")).unwrap()).unwrap();
    for pointer in [
        "/scenario",
        "/completed",
        "/failed",
        "/lost",
        "/throughput_per_s",
        "/latency_ms/p50",
        "/latency_ms/p95",
        "/latency_ms/p99",
        "/latency_ms/max",
        "/durable",
        "/baseline/name",
        "/baseline/throughput_per_s",
        "/ratio",
        "/audit/ok",
        "/seed",
        "/environment/cores",
    ] {
        assert!(json.pointer(pointer).is_some_and(|value| !value.is_null()), "{pointer}");
    }
    assert_eq!(json["baseline"]["name"], "sims-only");
    let table = result.table();
    assert!(table.contains("audit                 holds") && table.contains("dfsp-3"), "{table}");
}

#[test]
fn open_loop_keeps_its_schedule_and_counts_every_arrival() {
    let result = run(Vice::None, |options| {
        options.load = Load::Open { rate_per_s: 200, outstanding_max: 200 };
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    let schedule = result.schedule.unwrap();
    // 550 ms at 200/s; how late they were depends on the machine.
    assert_eq!(result.originated.sent + schedule.skipped, 110);
}

#[test]
fn a_bad_hub_fails_the_audit() {
    for (vice, text) in [
        (Vice::ForgetsCredit, "the hub's position changed"),
        (Vice::LosesCallback, "have no outcome"),
        (Vice::ChangesItsMind, "contradict an outcome"),
    ] {
        let result = run(vice, |_| ());
        assert!(!result.passed(), "{vice:?}");
        let findings = &result.audit.findings;
        assert!(findings.iter().any(|finding| finding.contains(text)), "{vice:?}: {findings:?}");
        assert!(result.table().contains("FAILED"));
    }
}
