//! A small hub for tests. It is correct, or has one deliberate fault.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{
    Connection, Full, Incoming, Limits, Method, Origin, Pool, PoolConfig, Request, Response, Server, Service,
    StatusCode, Target, Uri, Workers, body,
};
use upesi_lab::{LabResult, Load, RunOptions, Scenario, TargetHub};
use upesi_sim::units_text;
use upesi_types::Amount;

/// Duration of a stalling hub's pause.
pub const STALL: Duration = Duration::from_millis(600);

/// The operations of the hub. It has no FX transfers and no bulk transfers: `lab_scenarios` tests them with a real hub.
pub fn operations() -> impl Iterator<Item = Scenario> {
    let without = [Scenario::ConvertedTransfers, Scenario::Bulks];
    Scenario::ALL.into_iter().filter(move |operation| !without.contains(operation))
}

/// The misbehaviour of a bad hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vice {
    None,
    /// Forgets to pay the payee once.
    ForgetsCredit,
    /// Pays a payee twice, once.
    PaysTwice,
    /// Never sends one callback.
    LosesCallback,
    /// Sends an abort after a commit.
    ChangesItsMind,
    /// Never forwards one answer.
    LosesAnswer,
    /// Forwards one answer twice.
    RepeatsAnswer,
    /// Forwards one answer with another amount or DFSP in it.
    ForgesAnswer,
    /// Answers one query with an error of its own.
    RefusesLate,
    /// Accepts registrations and forgets them.
    ForgetsParties,
    /// Treats a repeated prepare as another transfer, once.
    TakesRepeat,
    /// Does nothing for a while, starting with the first requested transfer.
    Stalls,
}

impl Vice {
    const fn is_about_answers(self) -> bool {
        matches!(self, Self::LosesAnswer | Self::RepeatsAnswer | Self::ForgesAnswer)
    }
}

/// The answer to a query, with another amount and DFSP in it.
fn forged(body: &[u8]) -> Bytes {
    let text = std::str::from_utf8(body).unwrap();
    text.replace("\"2\"", "\"3\"").replace("\"fspId\":\"dfsp-", "\"fspId\":\"xfsp-").into()
}

#[derive(Default)]
struct Participant {
    endpoint: String,
    position: i128,
    deposit: i128,
    /// The position in the second currency, which has no payments.
    further_deposit: i128,
}

#[derive(Default)]
struct Books {
    participants: BTreeMap<String, Participant>,
    /// The ids of all transfers that were ever requested.
    prepared: BTreeSet<String>,
    /// Payer, payee and amount of each transfer in progress.
    transfers: BTreeMap<String, (String, String, i128)>,
    /// The owner of each MSISDN.
    parties: BTreeMap<String, String>,
}

/// The part of the hub at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    Lookups,
    Quotes,
    Transfers,
    Admin,
}

impl Part {
    /// Whether a request is for this part.
    fn takes(self, family: &str, is_fspiop: bool) -> bool {
        match self {
            Self::Whole => true,
            Self::Lookups => is_fspiop && matches!(family, "parties" | "participants"),
            Self::Quotes => is_fspiop && family == "quotes",
            Self::Transfers => is_fspiop && family == "transfers",
            Self::Admin => !is_fspiop,
        }
    }

    /// The metric that Mojaloop's services have for such requests.
    fn metric(family: &str, method: &Method) -> Option<&'static str> {
        match (family, method.as_str()) {
            ("parties", "GET") => Some("moja_als_ing_getPartiesByTypeAndID"),
            ("parties", "PUT") => Some("moja_als_ing_putPartiesByTypeAndID"),
            ("quotes", "POST") => Some("moja_qs_quotes_post"),
            ("quotes", "PUT") => Some("moja_qs_quotes_id_put"),
            ("transfers", "POST") => Some("moja_cl_transfer_prepare"),
            ("transfers", "PUT") => Some("moja_cl_transfer_fulfil"),
            _ => None,
        }
    }
}

struct ToyHub {
    vice: Vice,
    sinned: AtomicBool,
    books: Mutex<Books>,
    /// Connections to the simulators of each run. The simulators of one run all listen on one port.
    pools: Mutex<Vec<(Origin, Arc<Pool>)>>,
}

impl ToyHub {
    /// Whether to misbehave now, which happens once.
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
        *request.uri_mut() = Uri::try_from(format!("{base}{path}")).unwrap();
        *request.headers_mut() = headers;
        for name in ["host", "content-length", "fspiop-uri", "fspiop-http-method"] {
            request.headers_mut().remove(name);
        }
        // Callbacks have no `Accept`.
        if method == Method::PUT {
            request.headers_mut().remove("accept");
        }
        *request.method_mut() = method;
        let pool = {
            let mut pools = self.pools.lock().unwrap();
            if let Some((_, pool)) = pools.iter().find(|(origin, _)| *origin == target.origin) {
                pool.clone()
            } else {
                let pool = Arc::new(Pool::new(target.origin.clone(), PoolConfig::default()));
                pools.push((target.origin, pool.clone()));
                pool
            }
        };
        pool.send(request, Instant::now() + Duration::from_secs(10)).await.unwrap();
    }

    /// Handles lookups, quotes and registrations.
    async fn questions(self: Arc<Self>, request: Request<()>, body: Bytes) {
        let (head, ()) = request.into_parts();
        let path = head.uri.path().to_owned();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let source = header("fspiop-source").unwrap();
        let (family, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        match (&head.method, family) {
            (&Method::POST, "participants") => {
                let (path, body) = self.register(&source, &body);
                self.forward(&source, Method::PUT, &path, head.headers, body).await;
            }
            (&Method::PUT, _) => {
                let (copies, body) = match self.vice {
                    vice if !vice.is_about_answers() || !self.sins(vice) => (1, body),
                    Vice::LosesAnswer => (0, body),
                    Vice::RepeatsAnswer => (2, body),
                    _ => (1, forged(&body)),
                };
                let asker = header("fspiop-destination").unwrap();
                for _ in 0..copies {
                    self.forward(&asker, Method::PUT, &path, head.headers.clone(), body.clone()).await;
                }
            }
            _ => {
                let identifier = rest.split('/').nth(1).unwrap_or_default();
                let owner = self.books.lock().unwrap().parties.get(identifier).cloned();
                let owner = owner.or(header("fspiop-destination"));
                let refuses = self.vice == Vice::RefusesLate && self.sins(self.vice);
                let Some(owner) = owner.filter(|_| !refuses) else {
                    let error =
                        r#"{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found"}}"#;
                    let path = format!("{}/error", self.answer_path(&path, &body));
                    let error = Bytes::from_static(error.as_bytes());
                    return self.forward(&source, Method::PUT, &path, head.headers, error).await;
                };
                self.forward(&owner, head.method, &path, head.headers, body).await;
            }
        }
    }

    fn answer_path(&self, path: &str, body: &[u8]) -> String {
        let quote: Value = serde_json::from_slice(body).unwrap_or_default();
        quote["quoteId"].as_str().map_or_else(|| path.to_owned(), |id| format!("{path}/{id}"))
    }

    /// Registers a party. Returns path and body of the answer.
    fn register(&self, source: &str, body: &[u8]) -> (String, Bytes) {
        let batch: Value = serde_json::from_slice(body).unwrap();
        let mut results = Vec::new();
        for party in batch["partyList"].as_array().unwrap() {
            let identifier = party["partyIdentifier"].as_str().unwrap().to_owned();
            let mut books = self.books.lock().unwrap();
            // A registered party keeps its owner.
            let is_new = self.vice == Vice::ForgetsParties || !books.parties.contains_key(&identifier);
            if is_new && self.vice != Vice::ForgetsParties {
                books.parties.insert(identifier, source.to_owned());
            }
            let error = json!({"errorCode": "3003", "errorDescription": "Party already exists"});
            results.push(if is_new {
                json!({"partyId": party})
            } else {
                json!({"partyId": party, "errorInformation": error})
            });
        }
        let path = format!("/participants/{}", batch["requestId"].as_str().unwrap());
        (path, json!({"partyList": results}).to_string().into())
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
                let id = text(&json["transferId"]);
                // A repeated prepare changes nothing.
                if !books.prepared.insert(id.clone()) && !self.sins(Vice::TakesRepeat) {
                    return;
                }
                books.participants.get_mut(&payer).unwrap().position += amount;
                books.transfers.insert(id, (payer, payee.clone(), amount));
            }
            return self.forward(&payee, Method::POST, &path, head.headers, body).await;
        }
        let id = path.split('/').nth(2).unwrap();
        let is_error = path.ends_with("/error");
        // A repeated fulfilment changes nothing.
        let transfer = self.books.lock().unwrap().transfers.remove(id);
        let Some((payer, payee, amount)) = transfer else { return };
        let forgets = self.sins(Vice::ForgetsCredit);
        let times = if self.sins(Vice::PaysTwice) { 2 } else { 1 };
        {
            let mut books = self.books.lock().unwrap();
            let account = if is_error { &payer } else { &payee };
            if !forgets {
                books.participants.get_mut(account).unwrap().position -= amount * times;
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
        let accounts = json!([
            {"id": 1, "ledgerAccountType": "POSITION", "currency": "XXX"},
            {"id": 3, "ledgerAccountType": "POSITION", "currency": "XTS"},
        ]);
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
                (
                    StatusCode::OK,
                    format!(r#"[{{"currency":"XXX","value":{position}}},{{"currency":"XTS","value":0}}]"#),
                )
            }
            ("GET", ["participants", "Hub", "accounts"]) => (StatusCode::OK, hub_accounts().to_string()),
            ("GET", ["participants", _, "limits"]) => {
                let caps = ["XXX", "XTS"].map(|currency| json!({"currency": currency}));
                (StatusCode::OK, json!(caps).to_string())
            }
            ("GET", ["participants", name, "accounts"]) => {
                let participant = &books.participants[*name];
                let rows = [(2, "XXX", participant.deposit), (4, "XTS", participant.further_deposit)];
                let row = |(id, currency, deposit): (u32, &str, i128)| {
                    let value = units_text(-deposit);
                    format!(
                        r#"{{"id":{id},"ledgerAccountType":"SETTLEMENT","currency":"{currency}","value":{value}}}"#
                    )
                };
                (StatusCode::OK, format!("[{}]", rows.map(row).join(",")))
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
            ("POST", ["participants", name, "accounts", account @ ("2" | "4")]) => {
                let amount = Amount::parse_decimal(&json["amount"]["amount"].to_string()).unwrap();
                let participant = books.participants.get_mut(*name).unwrap();
                let is_first = *account == "2";
                let deposit =
                    if is_first { &mut participant.deposit } else { &mut participant.further_deposit };
                *deposit += i128::from(amount.units());
                (StatusCode::ACCEPTED, String::new())
            }
            // Already set up. Hubs report this with various statuses and texts, so only the objects count.
            ("POST", ["participants", "Hub", "accounts"]) => (StatusCode::BAD_REQUEST, "no".to_owned()),
            ("POST", ["settlementModels"]) => (StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned()),
            ("POST", ["participants", _, "initialPositionAndLimits"]) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "no".to_owned())
            }
            _ => (StatusCode::NOT_FOUND, String::new()),
        }
    }
}

/// The accounts of the hub, one of each kind and currency.
fn hub_accounts() -> Value {
    let kinds = ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"];
    let accounts = ["XXX", "XTS"].into_iter().flat_map(|currency| kinds.map(|kind| (currency, kind)));
    let accounts = accounts
        .zip(101..)
        .map(|((currency, kind), id)| json!({"id": id, "ledgerAccountType": kind, "currency": currency}));
    accounts.collect()
}

struct ToyService {
    hub: Arc<ToyHub>,
    part: Part,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl ToyService {
    /// The metrics of a part; the whole hub has none.
    fn metrics(&self) -> Option<String> {
        let line = |(name, count): (&&str, &u64)| format!("{name}_sum 0.5\n{name}_count {count}\n");
        let has_some = !matches!(self.part, Part::Whole | Part::Admin);
        has_some
            .then(|| "up 1\n".to_owned() + &self.counts.lock().unwrap().iter().map(line).collect::<String>())
    }
}

impl Service for ToyService {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body::read(body, 1 << 20, Instant::now() + Duration::from_secs(10)).await.unwrap();
        let mut response = Response::new(Full::default());
        let family = head.uri.path().split('/').nth(1).unwrap_or_default().to_owned();
        let is_fspiop = head.headers.contains_key("fspiop-source");
        if let Some(text) = self.metrics().filter(|_| family == "metrics") {
            *response.body_mut() = Full::new(text.into());
            return response;
        }
        if !self.part.takes(&family, is_fspiop) {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        if let Some(metric) = Part::metric(&family, &head.method) {
            *self.counts.lock().unwrap().entry(metric).or_default() += 1;
        }
        if family == "transfers" {
            if head.method == Method::POST && self.hub.sins(Vice::Stalls) {
                // The whole hub runs on this thread.
                std::thread::sleep(STALL);
            }
            tokio::spawn(self.hub.clone().transfers(Request::from_parts(head, ()), body));
            *response.status_mut() = StatusCode::ACCEPTED;
        } else if is_fspiop {
            tokio::spawn(self.hub.clone().questions(Request::from_parts(head, ()), body));
            *response.status_mut() = StatusCode::ACCEPTED;
        } else {
            let (status, text) = self.hub.admin(&head.method, head.uri.path(), &body);
            *response.status_mut() = status;
            *response.body_mut() = Full::new(text.into());
        }
        response
    }
}

/// A toy hub on its own port, or with a port for each of its parts.
pub struct Toy {
    workers: Workers,
    urls: Vec<(Part, String)>,
    _servers: Vec<Server>,
}

impl Toy {
    pub fn start(vice: Vice) -> Self {
        Self::start_parts(vice, &[Part::Whole])
    }

    pub fn start_parts(vice: Vice, parts: &[Part]) -> Self {
        let workers = Workers::start(1, "toy").unwrap();
        let hub = Arc::new(ToyHub {
            vice,
            sinned: AtomicBool::new(false),
            books: Mutex::default(),
            pools: Mutex::default(),
        });
        let serve = |part: &Part| {
            let bound = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let url = format!("http://{}", bound.local_addr());
            let service = ToyService { hub: hub.clone(), part: *part, counts: Mutex::default() };
            let server = Server::serve(bound, Limits::default(), &workers, Arc::new(service));
            ((*part, url), server)
        };
        let (urls, servers) = parts.iter().map(serve).unzip();
        Self { workers, urls, _servers: servers }
    }

    pub fn url(&self, part: Part) -> String {
        let found = self.urls.iter().find(|(known, _)| *known == part);
        found.unwrap_or(&self.urls[0]).1.clone()
    }

    /// Options of a short run against it.
    pub fn options(&self) -> RunOptions {
        let target =
            TargetHub { durable: Some(false), ..TargetHub::at(self.url(Part::Whole), self.url(Part::Admin)) };
        RunOptions {
            dfsps: 3,
            parties: 20,
            load: Load::Closed { users: 4 },
            duration: Duration::from_millis(500),
            warm_up: Duration::from_millis(50),
            slices: Some(1),
            target: Some(target),
            workers: Some(1),
            ..RunOptions::default()
        }
    }

    pub fn end(self) {
        self.workers.shutdown();
    }
}

/// Makes one run against a new toy hub.
pub fn run(vice: Vice, change: impl FnOnce(&mut RunOptions)) -> LabResult {
    let toy = Toy::start(vice);
    let mut options = toy.options();
    if matches!(vice, Vice::LosesCallback | Vice::LosesAnswer) {
        // The waiting time for callbacks that never come.
        (options.callback_timeout, options.quiesce_timeout) =
            (Duration::from_secs(1), Duration::from_secs(1));
    }
    change(&mut options);
    let result = upesi_lab::run(&options).unwrap();
    toy.end();
    result
}
